"""Reads from torch's counters, metrics and log what torch.compile did."""

import contextlib
import gc
import logging
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar
from unittest import mock

import torch
import torch._inductor.cudagraph_trees
from torch._dynamo import utils as dynamo
from torch._dynamo.utils import CompilationMetrics, counters, get_compilation_metrics
from torch._inductor.codecache import CppPythonBindingsCodeCache
from torch._inductor.triton_bundler import TritonBundler

from ..core.format import without_folders
from ..core.measurement import Compilation, CompileCost, CudaGraphs, GraphBreak
from ..core.options import CUDA_GRAPH_MODES, RunSpec

# Patterns in dynamo's message of a graph break.
_PLACE = re.compile(r"in user code at (?P<file>.+?):(?P<line>\d+)")
_HINT = re.compile(r"^  Hint: (.+?)(?=^  Hint: |^\s*$|\Z)", re.MULTILINE | re.DOTALL)
T = TypeVar("T")
_NUMBER = re.compile(r"please visit: https://\S+/(gb\d{4})\.html")

STEPS = {
    "bytecode_tracing": "dynamo",
    "create_aot_dispatcher_function": "aot_autograd",
    "fx_codegen_and_compile": "inductor",
    "async_compile.wait": "backend compile",
}
"""{event of torch's trace: the compile step that begins with it}. The steps are named as in `CompileCost.parts`."""
MAX_METRICS = 10_000
"""Number of compiles whose metrics torch keeps. Torch's default, 64, is too low for a model with many graph breaks."""


@contextlib.contextmanager
def report_steps(report: Callable[[str], None]) -> Iterator[None]:
    """Calls `report` with the step's name, such as "inductor", when a compile step begins within the `with` block."""
    original = dynamo.ChromiumEventLogger.log_event_start

    def log_event_start(self: dynamo.ChromiumEventLogger, event_name: str, *args: Any, **kwargs: Any) -> None:
        if (step := STEPS.get(event_name)) is not None:
            report(step)
        original(self, event_name, *args, **kwargs)

    with mock.patch.object(dynamo.ChromiumEventLogger, "log_event_start", log_event_start):
        yield


class CompileLog:
    """What torch.compile did since this object was made: graph breaks, recompiles, fallbacks to eager, cache hits.

    Use only the newest object: making it clears torch's counters, and only the newest object receives graph breaks.
    """

    def __init__(self, cached: Collection[str] = ()) -> None:
        """`cached`: names of files and folders in the compile cache before the model's first compiled call."""
        counters.clear()
        dynamo.clear_compilation_metrics()
        dynamo.set_compilation_metrics_limit(MAX_METRICS)
        self.cached = cached
        self._gpu_kernels: set[str] = set()
        """Folders, in Triton's cache, of the kernels of this compile, whether it found or built them."""
        self._parts: dict[str, float] = {}
        self._recordings_before = cuda_graph_recordings()
        self._breaks = _Messages()
        torch._logging.set_logs(graph_breaks=True)
        for name in list(logging.root.manager.loggerDict):
            if name.startswith("torch.") and name.endswith("__graph_breaks"):
                logger = logging.getLogger(name)
                logger.handlers, logger.propagate = [self._breaks], False
                # A user's file may have called logging.disable, or dictConfig, which disables all loggers by default.
                logger.manager, logger.disabled = logging.Manager(logging.root), False

    def events(self) -> int:
        """Returns a count that every compile raises. If a call leaves it unchanged, the call compiled nothing."""
        return int(counters["frames"]["total"]) + int(counters["aot_autograd"]["total"])

    def first_call_ended(self) -> None:
        """Stores the seconds of each compile step of the first call. Call it before anything else is compiled.

        The steps are nested: dynamo calls AOTAutograd, which calls inductor, which waits for the C++ or Triton
        compiler. Torch's time of a step includes the inner steps. Here they are subtracted.
        """
        compiles = get_compilation_metrics()

        def seconds(step: str) -> float:
            return sum(getattr(metrics, f"{step}_compile_time_us", None) or 0 for metrics in compiles) / 1e6

        names = ("dynamo_cumulative", "aot_autograd_cumulative", "inductor_cumulative")
        dynamo, aot_autograd, inductor = map(seconds, names)
        compilers = min(seconds("triton"), inductor)  # the C++ compiler too, despite the name
        steps = {
            "dynamo": dynamo - aot_autograd,
            "aot_autograd": aot_autograd - inductor,
            "inductor": inductor - compilers,
            "backend compile": compilers,
        }
        self._parts = {name: max(0.0, took) for name, took in steps.items()}

    @property
    def graphs(self) -> int:
        return int(counters["stats"]["unique_graphs"])

    @property
    def graph_breaks(self) -> tuple[GraphBreak, ...]:
        return tuple(dict.fromkeys(map(graph_break, self._breaks.texts)))

    @property
    def recompiles(self) -> tuple[GraphBreak, ...]:
        """An entry for each time that dynamo compiled a function again. It has the function and the failed guard.

        A guard is a condition for using compiled code.
        """
        compiles = get_compilation_metrics()
        return tuple(
            _place(metrics, _guard(metrics.recompile_reason))
            for metrics in compiles
            if metrics.recompile_reason and metrics.fail_type is None  # not one that is refused at the limit
        )

    @property
    def fallbacks(self) -> tuple[GraphBreak, ...]:
        """The functions that dynamo runs in eager, because it could not compile them or had compiled them too often."""
        failed = [metrics for metrics in get_compilation_metrics() if metrics.fail_type is not None]
        return tuple(
            dict.fromkeys(_place(metrics, metrics.fail_reason or metrics.fail_type or "") for metrics in failed)
        )

    def cost(self, first_call_seconds: float) -> CompileCost:
        """Returns the seconds of the first call by compile step. "first run" is the time outside of all steps."""
        run = max(0.0, first_call_seconds - sum(self._parts.values()))
        return CompileCost(first_call_seconds, {**self._parts, "first run": run})

    @property
    def cache(self) -> Literal["cold", "warm", "off"]:
        """'warm': inductor found every graph that it looked up in its cache on disk. 'cold': it lacked at least one.

        'off': inductor looked up no graph in its cache. It does not look up graphs that it cannot store.
        """
        hits, misses = (int(counters["inductor"][f"fxgraph_cache_{what}"]) for what in ("hit", "miss"))
        if hits + misses + int(counters["aot_autograd"]["autograd_cache_hit"]) == 0:
            return "off"
        return "cold" if misses else "warm"

    @contextlib.contextmanager
    def record_gpu_kernels(self) -> Iterator[None]:
        """Records which Triton kernels the compiles in the `with` block use, so that `partly` can look for them."""
        original = TritonBundler.put

        def put(kernel_hash: str, device: int) -> None:
            self._gpu_kernels.add(kernel_hash)
            original(kernel_hash, device)

        with mock.patch.object(TritonBundler, "put", put):  # inductor calls it for each kernel, found or built
            yield

    @property
    def partly(self) -> bool:
        """Whether the first call found a part of its model's compiled code in the compile cache, but not all.

        Only kernels of this model count. All models on a CPU share the instruction probe and a precompiled header, so
        these say nothing about this model.
        """
        # Inductor loads a CPU's kernels from 'KEY.main.so'; the probe's libraries are named without 'main'.
        kernels = {f"{key}.main.so" for key in CppPythonBindingsCodeCache.cache}
        if self.cache == "warm":  # a cached graph brings its GPU kernels with it, those of a CPU are files of their own
            return bool(self.cached) and not kernels.issubset(self.cached)
        return not (kernels | self._gpu_kernels).isdisjoint(self.cached)

    def compilation(self, spec: RunSpec, device: torch.device, first_call_seconds: float) -> Compilation:
        cache, cost = self.cache, self.cost(first_call_seconds)
        partly = self.graphs > 0 and self.partly
        return Compilation(
            first_call_seconds=first_call_seconds,
            cache=cache,
            graphs=self.graphs,
            graph_breaks=self.graph_breaks,
            cuda_graphs=self._cuda_graphs(spec, device),
            cold=cost if not partly and (cache == "cold" or (cache == "off" and not spec.cached)) else None,
            warm=cost if cache == "warm" and not partly else None,
            partly=partly,
            recompiles=self.recompiles,
            fallbacks=self.fallbacks,
        )

    def _cuda_graphs(self, spec: RunSpec, device: torch.device) -> CudaGraphs:
        if spec.mode not in CUDA_GRAPH_MODES:
            return CudaGraphs("not asked")
        if device.type != "cuda":
            return CudaGraphs("skipped", "there are no CUDA graphs on a CPU")
        skipped = int(counters["inductor"]["cudagraph_skips"])
        recorded = cuda_graph_recordings() > self._recordings_before
        reasons = (getattr(metrics, "cudagraph_skip_reason", None) for metrics in get_compilation_metrics())
        reason = next(filter(None, reasons), "inductor gave no reason")
        if recorded and skipped:
            return CudaGraphs("used in part", f"graphs that inductor left out: {skipped}, {reason}")
        if skipped:
            return CudaGraphs("skipped", reason)
        if not recorded:
            return CudaGraphs("skipped", "inductor recorded none and gave no reason")
        return CudaGraphs("used", "kernels outside of them were not counted")  # only a profile counts them


class _Messages(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def cuda_graph_recordings() -> int:
    """Returns how many CUDA graphs inductor has recorded and still holds."""
    trees, started = torch._inductor.cudagraph_trees, torch.cuda.is_initialized()
    manager = trees.get_manager(torch.cuda.current_device(), create_if_none_exists=False) if started else None
    todo: list[Any] = [] if manager is None else [manager.roots]
    count = 0
    while todo:
        for nodes in todo.pop().values():
            count += len(nodes)
            todo += [node.children for node in nodes]
    return count


def graph_break(message: str) -> GraphBreak:
    """Parses dynamo's message about a graph break into its reason, place, hints and number, such as 'GB0059'."""
    place, number = _PLACE.search(message), _NUMBER.search(message)
    location = f"{Path(place['file']).name}:{place['line']}" if place else ""
    text = message.partition("\n")[2].partition("Developer debug context:")[0]
    lines = [line.strip().removeprefix("Graph Break Reason: ") for line in text.splitlines()]
    # A line that ends with a colon is a preamble: "Encountered graph break when attempting to trace ...:".
    reason = next((line for line in lines if line and not line.endswith(":")), "dynamo gave no reason")
    explained = [line.removeprefix("Explanation: ") for line in lines if line.startswith("Explanation: ")]
    hints = (without_folders(" ".join(hint.split())) for hint in _HINT.findall(text))
    return GraphBreak(": ".join([reason, *explained[:1]]), location, tuple(hints), number[1].upper() if number else "")


def _guard(recompile_reason: str) -> str:
    """Shortens dynamo's reason "0/1: L['x'] == 2  # source line" to "the guard L['x'] == 2 failed"."""
    guard = recompile_reason.partition("\n")[0].partition(": ")[2].partition("  #")[0].strip()
    return f"the guard {guard} failed" if guard else "dynamo gave no reason"


def _place(metrics: CompilationMetrics, reason: str) -> GraphBreak:
    if metrics.co_name is None:  # at the limit of recompiles (id 0/8): an earlier compile (0/1) has the name
        function = f"{metrics.compile_id}".partition("/")[0] + "/"
        named = (
            metrics
            for metrics in get_compilation_metrics()
            if metrics.co_name and str(metrics.compile_id).startswith(function)
        )
        metrics = next(named, metrics)
    location = f"{Path(metrics.co_filename or '').name}:{metrics.co_firstlineno} in {metrics.co_name}"
    lines = [line.strip() for line in reason.strip().splitlines()] or [""]
    # A line that ends with a colon is a preamble: "backend='inductor' raised:".
    return GraphBreak(next((line for line in lines if line and not line.endswith(":")), lines[0]), location)


def reset_compiler() -> None:
    """Drops all compiled code and the memory of its CUDA graphs, so that the next call compiles again."""
    torch._dynamo.reset()
    torch._inductor.cudagraph_trees.reset_cudagraph_trees()
    gc.collect()
    torch.cuda.empty_cache()


def clone_outputs(outputs: T) -> T:
    """Returns the outputs with their tensors cloned, because the next call of a CUDA graph overwrites the originals.

    Tensors are found in containers that torch's pytree knows: it knows transformers' outputs, but not every dataclass.
    """
    cloned: T = torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, outputs)
    return cloned
