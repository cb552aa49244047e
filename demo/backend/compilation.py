"""torch.compile, and what it really did: read from dynamo's and inductor's own counters, with no second trace."""

from __future__ import annotations

import gc
import inspect
import logging
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import torch
import torch._inductor.cudagraph_trees
from torch._dynamo.utils import clear_compilation_metrics, counters, get_compilation_metrics
from torch._inductor.codecache import PyCodeCache

from demo.core.result import Compilation, CompileCost, GraphBreak, RunSpec

CUDA_GRAPH_MODES = ("reduce-overhead", "max-autotune")
_PLACE = re.compile(r"in user code at (?P<file>.+?):(?P<line>\d+)")
_ARTIFACTS = ("__graph_breaks", "__recompiles")
_FUNCTION = re.compile(r"Recompiling function (?P<name>\S+) in (?P<file>.+?):(?P<line>\d+)")
_LIMIT = re.compile(
    r"hit config\.\w*recompile_limit \((?P<limit>\d+)\)\s+function: '(?P<name>[^']+)' \((?P<file>.+?):(?P<line>\d+)\)"
)
_KERNEL_CALL = re.compile(r"^\s+(?:cpp_\w+|triton_\w+\.run)\(", re.MULTILINE)
_EXTERN_CALL = re.compile(r"\bextern_kernels\.\w+\(|= torch\.ops\.\w+\.\w+")


class Watch:
    """Listens to dynamo from its creation on: graph breaks with their source line, recompiles, cache hits.

    Make it before `torch.compile`'s first call. `events` grows with every frame that dynamo looks at, so two equal
    readings mean that nothing was compiled in between.
    """

    def __init__(self) -> None:
        counters.clear()
        clear_compilation_metrics()
        self._parts: dict[str, float] = {}
        self._modules_before = len(PyCodeCache.modules)
        self._breaks = _Messages()
        self._recompiles = _Messages()
        self._warnings = _Messages()
        logging.getLogger("torch._dynamo.convert_frame").addHandler(self._warnings)
        torch._logging.set_logs(graph_breaks=True, recompiles=True)
        for name in list(logging.root.manager.loggerDict):
            if name.startswith("torch.") and name.endswith(_ARTIFACTS):
                logger = logging.getLogger(name)
                logger.handlers = [self._breaks if name.endswith("__graph_breaks") else self._recompiles]
                logger.propagate = False

    def events(self) -> int:
        return int(counters["frames"]["total"]) + int(counters["aot_autograd"]["total"])

    def first_call_ended(self) -> None:
        """Notes where the first call's time went, before a further compile adds to it.

        The stages lie inside one another in torch's metrics (dynamo calls AOTAutograd, that calls inductor, which waits
        for the compiler), so each is given without the one within. With a warm cache 'aot_autograd' is mostly loading.
        """
        found = get_compilation_metrics()
        dynamo, aot_autograd, inductor, backend = (
            sum(getattr(metrics, name, None) or 0 for metrics in found) / 1e6
            for name in (
                "dynamo_cumulative_compile_time_us",
                "aot_autograd_cumulative_compile_time_us",
                "inductor_cumulative_compile_time_us",
                "triton_compile_time_us",  # waiting for the compilers, that of C++ as well: torch kept the old name
            )
        )
        within_inductor = min(backend, inductor)
        self._parts = {
            "dynamo": max(0.0, dynamo - aot_autograd),
            "aot_autograd": max(0.0, aot_autograd - inductor),
            "inductor": inductor - within_inductor,
            "backend compile": within_inductor,
        }

    def cost(self, first_call_seconds: float) -> CompileCost:
        """Where the first call's time went; what is not compiling is the run itself."""
        run = max(0.0, first_call_seconds - sum(self._parts.values()))
        return CompileCost(first_call_seconds, {**self._parts, "first run": run})

    @property
    def cache(self) -> Literal["cold", "warm", "off"]:
        """'warm' where every graph so far came from the cache on disk."""
        hits, misses = (int(counters["inductor"][f"fxgraph_cache_{what}"]) for what in ("hit", "miss"))
        if hits + misses + int(counters["aot_autograd"]["autograd_cache_hit"]) == 0:
            return "off"
        return "cold" if misses else "warm"

    def compilation(
        self, spec: RunSpec, device: torch.device, first_call_seconds: float, recompiles: int
    ) -> Compilation:
        cache = self.cache
        kernels, extern_kernels = self._kernels()
        cost = self.cost(first_call_seconds)
        return Compilation(
            first_call_seconds=first_call_seconds,
            cache=cache,
            graphs=int(counters["stats"]["unique_graphs"]),
            graph_breaks=self._graph_breaks(),
            recompiles_while_timing=recompiles,
            cudagraphs=self._cudagraphs(spec, device),
            cold=cost if cache == "cold" else None,
            warm=cost if cache == "warm" else None,
            recompiles=tuple(_recompile(text) for text in self._recompiles.texts),
            fallbacks=tuple(dict.fromkeys([*_given_up(get_compilation_metrics()), *_limits(self._warnings.texts)])),
            kernels=kernels,
            extern_kernels=extern_kernels,
            cache_hits=int(counters["inductor"]["fxgraph_cache_hit"]),
            cache_misses=int(counters["inductor"]["fxgraph_cache_miss"]),
        )

    def _kernels(self) -> tuple[int | None, int | None]:
        """Calls of generated kernels and of library kernels in the code that inductor wrote, over all graphs.

        Read from the modules that it loaded, so that it is known with a warm cache too; None where there is no such
        code (no graph was compiled, or it was wrapped in C++).
        """
        calls = [_calls(inspect.getsource(module)) for module in PyCodeCache.modules[self._modules_before :]]
        if not any(calls):
            return None, None
        return tuple(sum(len(pattern.findall(call)) for call in calls) for pattern in (_KERNEL_CALL, _EXTERN_CALL))  # type: ignore[return-value]

    def _graph_breaks(self) -> tuple[GraphBreak, ...]:
        breaks = []
        for message in self._breaks.texts:
            place = _PLACE.search(message)
            location = f"{Path(place['file']).name}:{place['line']}" if place else ""
            breaks.append(GraphBreak(_reason(message), location))
        return tuple(dict.fromkeys(breaks))

    def _cudagraphs(self, spec: RunSpec, device: torch.device) -> str:
        if spec.mode not in CUDA_GRAPH_MODES:
            return "not asked"
        if device.type != "cuda":
            return "skipped: there are no CUDA graphs on a CPU"
        if int(counters["inductor"]["cudagraph_skips"]):
            return f"skipped: {_skip_reason() or 'inductor gave no reason'}"
        if not int(counters["stats"]["unique_graphs"]):
            return "skipped: torch.compile captured no graph"
        trees = torch._inductor.cudagraph_trees
        if trees.get_manager(torch.cuda.current_device(), create_if_none_exists=False) is None:
            return "skipped: inductor recorded none and gave no reason"
        return "used"


class _Messages(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def _calls(source: str) -> str:
    """The part of a module by inductor that calls kernels, '' of a module that holds one kernel only.

    With CUDA graphs the calls stand in functions of their own, one a graph, before the one that calls those.
    """
    starts = [at for at in (source.find("\ndef partition_"), source.find("def call(")) if at >= 0]
    return source[min(starts) :] if starts and "async_compile.wait(" in source else ""


def _reason(message: str) -> str:
    """Dynamo's own first line of the reason, without its general preamble and its hints."""
    lines = [line.strip() for line in message.splitlines()[1:]]
    stated = [line for line in lines if line and not line.startswith(("Graph Break Reason:", "Explanation:", "Hint:"))]
    explained = [line.removeprefix("Explanation:").strip() for line in lines if line.startswith("Explanation:")]
    if stated and explained:
        return f"{stated[0]}: {explained[0]}"
    return stated[0] if stated else "dynamo gave no reason"


def _recompile(message: str) -> GraphBreak:
    """Dynamo's message of one recompile: the guard that failed, and the function that was compiled again."""
    place = _FUNCTION.search(message)
    guards = [line.strip() for line in message.splitlines() if re.match(r"\s+- \d+/\d+: ", line)]
    reason = re.sub(r"^- \d+/\d+: ", "", guards[0]).partition("  #")[0].strip() if guards else "dynamo gave no reason"
    location = f"{Path(place['file']).name}:{place['line']} in {place['name']}" if place else ""
    return GraphBreak(f"the guard {reason} failed" if guards else reason, location)


def _given_up(found: Iterable[Any]) -> Iterable[GraphBreak]:
    """The functions that dynamo could not compile, such as one that breaks where it cannot resume."""
    for metrics in found:
        if metrics.fail_type is None or metrics.co_name is None:
            continue  # without a function it is the recompile limit, which its log line tells better
        place = f"{Path(metrics.co_filename or '').name}:{metrics.co_firstlineno} in {metrics.co_name}"
        reason = (metrics.fail_reason or metrics.fail_type).strip().splitlines()[0]
        yield GraphBreak(reason, place)


def _limits(warnings: Iterable[str]) -> Iterable[GraphBreak]:
    """The functions that were compiled too often: from then on dynamo silently runs them in eager."""
    for text in warnings:
        if limit := _LIMIT.search(text):
            place = f"{Path(limit['file']).name}:{limit['line']} in {limit['name']}"
            yield GraphBreak(f"recompile limit ({limit['limit']}) reached", place)


def use_empty_cache(folder: Path) -> None:
    """Compiles into, and finds again in, `folder` from now on: call it before the first compile of the process."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
    os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")
    torch._inductor.utils.clear_caches()


def _skip_reason() -> str | None:
    for metrics in get_compilation_metrics():
        if getattr(metrics, "cudagraph_skip_reason", None):
            return str(metrics.cudagraph_skip_reason)
    return None


def compiled(model: Any, spec: RunSpec) -> Any:
    """The model under torch.compile as the spec asks; nothing is compiled before its first call."""
    if spec.graph_break:
        break_graph(model)
    return torch.compile(model, mode=spec.mode, fullgraph=spec.fullgraph)


GRAPH_BREAK_WARNING = (
    "A graph break was put between the model's layers, as asked: this shows what a break costs, and is not how the "
    "checkpoint runs by itself."
)


def break_graph(model: torch.nn.Module) -> None:
    """Makes dynamo give up once in the middle of the model: before the middle one of its longest list of layers.

    Eager runs the same hook, where it does nothing. A model without a list of layers breaks before its last part.
    """
    lists = [part for part in model.modules() if isinstance(part, torch.nn.ModuleList)]
    layers = max(lists, key=len) if lists else list(model.children())[-1:]
    layers[len(layers) // 2].register_forward_pre_hook(_graph_break)


def _graph_break(*_: Any) -> None:
    torch._dynamo.graph_break("asked for by the run's own switch")


def forget() -> None:
    """Gives back everything that is compiled, with the memory of its CUDA graphs: the next call compiles anew."""
    torch._dynamo.reset()
    torch._inductor.cudagraph_trees.reset_cudagraph_trees()
    gc.collect()
    torch.cuda.empty_cache()


def own_copy(outputs: Any) -> Any:
    """Outputs whose tensors stay as they are: those of a CUDA graph are overwritten by the next call."""
    return torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, outputs)


def first_line(error: BaseException) -> str:
    """What a compile error says, without the traceback and the advice to set debug variables."""
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    useful = [
        line
        for line in lines
        if not line.startswith(("Set TORCH", "You can suppress", "import torch", "torch._dynamo"))
    ]
    return " ".join(useful[:2])[:400] or type(error).__name__
