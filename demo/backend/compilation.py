"""torch.compile, and what it did: read from dynamo's and inductor's own counters and log, without a second trace."""

import contextlib
import gc
import logging
import os
import re
import sys
import textwrap
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import torch
import torch._inductor.cudagraph_trees
from torch._dynamo.utils import ChromiumEventLogger, clear_compilation_metrics, counters, get_compilation_metrics
from torch._inductor.codecache import CppPythonBindingsCodeCache
from torch._inductor.cpu_vec_isa import pick_vec_isa
from torch.utils._filelock import FileLock

from demo.core.format import without_folders
from demo.core.measurement import Compilation, CompileCost, GraphBreak
from demo.core.spec import CUDA_GRAPH_MODES, RunSpec

_PLACE = re.compile(r"in user code at (?P<file>.+?):(?P<line>\d+)")
_HINT = re.compile(r"^  Hint: (.+?)(?=^  Hint: |^\s*$|\Z)", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"please visit: https://\S+/(gb\d{4})\.html")
_FUNCTION = re.compile(r"Recompiling function (?P<name>\S+) in (?P<file>.+?):(?P<line>\d+)")
_OUTPUT = re.compile(r"^.*\b(?:Output|stderr):\n", re.MULTILINE)
_COMPILER_ERROR = re.compile(r"(?i)(?:fatal )?error *: .*|fatal *: .*|(?:cannot find|undefined|library not found) .*")
_RAISED = re.compile(r"(?s:Traceback \(most recent.*?^)([\w.]+(?:Error|Exception|Interrupt)\b.*)", re.MULTILINE)

_STEPS = {
    "bytecode_tracing": "dynamo",
    "create_aot_dispatcher_function": "aot_autograd",
    "fx_codegen_and_compile": "inductor",
    "async_compile.wait": "backend compile",
}
"""The part of a first call that begins with an event of torch's own trace."""


@contextlib.contextmanager
def tell_steps(tell: Callable[[str], None]) -> Iterator[None]:
    """Within it `tell` gets each part of a compile as it begins, a key of `CompileLog.cost`'s parts."""
    start = ChromiumEventLogger.log_event_start

    def log_event_start(self: Any, event_name: str, *given: Any, **named: Any) -> None:
        if (step := _STEPS.get(event_name)) is not None:
            tell(step)
        start(self, event_name, *given, **named)

    with mock.patch.object(ChromiumEventLogger, "log_event_start", log_event_start):
        yield


class CompileLog:
    """What dynamo and inductor did since it was made: graph breaks with their source line, recompiles, cache hits.

    There is one at a time: it clears torch's counters and takes over the log of graph breaks and recompiles.
    """

    probe_seconds = 0.0
    """What this process has just taken for inductor's instruction probe: see `separate_instructions`."""

    def __init__(self, cached: Collection[str] = ()) -> None:
        """`cached` names the files in the compile cache before the first call; empty where nobody looked."""
        CompileLog.probe_seconds = 0.0
        counters.clear()
        clear_compilation_metrics()
        self.cached = cached
        self._parts: dict[str, float] = {}
        self._recorded_before = cuda_graph_recordings()
        self._breaks = _Messages()
        self._recompiles = _Messages()
        torch._logging.set_logs(graph_breaks=True, recompiles=True)
        for name in list(logging.root.manager.loggerDict):
            if name.startswith("torch.") and name.endswith(("__graph_breaks", "__recompiles")):
                logger = logging.getLogger(name)
                logger.handlers = [self._breaks if name.endswith("__graph_breaks") else self._recompiles]
                logger.propagate = False

    def so_far(self) -> dict[str, int]:
        """`graphs` and `breaks`, while the first call goes on."""
        graphs, breaks = self.captured()
        return {"graphs": graphs, "breaks": len(breaks)}

    def events(self) -> int:
        """Grows with every frame that dynamo traces."""
        return int(counters["frames"]["total"]) + int(counters["aot_autograd"]["total"])

    def first_call_ended(self) -> None:
        """Notes where the first call's time went, before a further compile adds to it.

        In torch's metrics each compile step contains the next: dynamo asks for the instructions and calls AOTAutograd,
        which calls inductor, which waits for the compiler. Here each step is given without the next.
        """
        compiles = get_compilation_metrics()

        def seconds(step: str) -> float:
            return sum(getattr(metrics, f"{step}_compile_time_us", None) or 0 for metrics in compiles) / 1e6

        names = ("dynamo_cumulative", "aot_autograd_cumulative", "inductor_cumulative")
        dynamo, aot_autograd, inductor = map(seconds, names)
        # Waiting for the compilers, the C++ one too, despite torch's name for it.
        within_inductor = min(seconds("triton"), inductor)
        steps = {
            "dynamo": dynamo - aot_autograd - self.probe_seconds,
            "aot_autograd": aot_autograd - inductor,
            "inductor": inductor - within_inductor,
        }
        self._parts = {name: max(0.0, took) for name, took in steps.items()}
        if self.probe_seconds:
            self._parts["instruction probe"] = self.probe_seconds
        self._parts["backend compile"] = within_inductor

    @property
    def recompiles(self) -> tuple[GraphBreak, ...]:
        """Why dynamo compiled a function again, so far."""
        return tuple(_recompile(text) for text in self._recompiles.texts)

    @property
    def fallbacks(self) -> tuple[GraphBreak, ...]:
        """The functions that dynamo left to eager: those that it could not compile, or had to compile too often."""
        found = {}
        for metrics in get_compilation_metrics():
            if metrics.fail_type is not None:
                place = f"{Path(metrics.co_filename or '').name}:{metrics.co_firstlineno} in {metrics.co_name}"
                if metrics.co_name is None:  # at the limit of recompiles
                    place = "a function that was recompiled too often"
                reason = (metrics.fail_reason or metrics.fail_type).strip().splitlines()[0]
                found[GraphBreak(reason, place)] = True
        return tuple(found)

    def captured(self) -> tuple[int, tuple[GraphBreak, ...]]:
        """The number of graphs so far, and the breaks between them."""
        breaks = dict.fromkeys(graph_break(text) for text in self._breaks.texts)
        return int(counters["stats"]["unique_graphs"]), tuple(breaks)

    def cost(self, first_call_seconds: float) -> CompileCost:
        """Where the first call's time went; what no compile step took is the first run."""
        run = max(0.0, first_call_seconds - sum(self._parts.values()))
        return CompileCost(first_call_seconds, {**self._parts, "first run": run})

    @property
    def cache(self) -> Literal["cold", "warm", "off"]:
        """'warm' where every graph so far came from the cache on disk."""
        hits, misses = (int(counters["inductor"][f"fxgraph_cache_{what}"]) for what in ("hit", "miss"))
        if hits + misses + int(counters["aot_autograd"]["autograd_cache_hit"]) == 0:
            return "off"
        return "cold" if misses else "warm"

    @property
    def partly(self) -> bool:
        """Whether the first call compiled something and found something in the cache: a kernel, or a program of the
        instruction probe. On a GPU, where inductor does not tell which kernels it found, any in the cache counts."""
        kernels = {f"{key}.main.so" for key in CppPythonBindingsCodeCache.cache}
        if self.cache == "warm":
            return bool(self.cached) and not kernels.issubset(self.cached)
        others = (name for name in self.cached if name.endswith((".so", ".cubin")) and ".main." not in name)
        return any(others) or not kernels.isdisjoint(self.cached)

    def compilation(self, spec: RunSpec, device: torch.device, first_call_seconds: float) -> Compilation:
        """All that is known so far; the caller adds the recompiles during the timing."""
        cache, partly, cost = self.cache, self.partly, self.cost(first_call_seconds)
        graphs, breaks = self.captured()
        return Compilation(
            first_call_seconds=first_call_seconds,
            cache=cache,
            graphs=graphs,
            graph_breaks=breaks,
            cudagraphs=self._cudagraphs(spec, device),
            cold=cost if not partly and (cache == "cold" or (cache == "off" and not spec.cached)) else None,
            warm=cost if cache == "warm" and not partly else None,
            partly=partly,
            recompiles=self.recompiles,
            fallbacks=self.fallbacks,
        )

    def _cudagraphs(self, spec: RunSpec, device: torch.device) -> str:
        if spec.mode not in CUDA_GRAPH_MODES:
            return "not asked"
        if device.type != "cuda":
            return "not used: there are no CUDA graphs on a CPU"
        skipped = int(counters["inductor"]["cudagraph_skips"])
        recorded = cuda_graph_recordings() > self._recorded_before
        reasons = (getattr(metrics, "cudagraph_skip_reason", None) for metrics in get_compilation_metrics())
        reason = next(filter(None, reasons), "inductor gave no reason")
        if recorded and skipped:
            return f"used in part: graphs that inductor left out: {skipped}, {reason}"
        if skipped:
            return f"not used: {reason}"
        if not recorded:
            return "not used: inductor recorded none and gave no reason"
        return "used"


class _Messages(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def cuda_graph_recordings() -> int:
    """How many recordings inductor's CUDA graph trees hold."""
    trees, started = torch._inductor.cudagraph_trees, torch.cuda.is_initialized()
    manager = trees.get_manager(torch.cuda.current_device(), create_if_none_exists=False) if started else None
    todo: list[Any] = [] if manager is None else [manager.roots]
    found = 0
    while todo:
        for nodes in todo.pop().values():
            found += len(nodes)
            todo += [node.children for node in nodes]
    return found


def graph_break(message: str) -> GraphBreak:
    """Dynamo's message of one graph break: its first line, its explanation's first line, hints, and number."""
    place, number = _PLACE.search(message), _NUMBER.search(message)
    location = f"{Path(place['file']).name}:{place['line']}" if place else ""
    text = message.partition("\n")[2].partition("Developer debug context:")[0]
    lines = [line.strip().removeprefix("Graph Break Reason: ") for line in text.splitlines()]
    # A line that ends with a colon is a preamble: "Encountered graph break when attempting to trace ...:".
    reason = next((line for line in lines if line and not line.endswith(":")), "dynamo gave no reason")
    explained = [line.removeprefix("Explanation: ") for line in lines if line.startswith("Explanation: ")]
    hints = (without_folders(" ".join(hint.split())) for hint in _HINT.findall(text))
    return GraphBreak(": ".join([reason, *explained[:1]]), location, tuple(hints), number[1].upper() if number else "")


def _recompile(message: str) -> GraphBreak:
    """Dynamo's message of one recompile: the guard that failed, and the function that was compiled again."""
    place, guard = _FUNCTION.search(message), re.search(r"^\s+- \d+/\d+: (.*)", message, re.MULTILINE)
    reason = f"the guard {guard[1].partition('  #')[0].strip()} failed" if guard else "dynamo gave no reason"
    location = f"{Path(place['file']).name}:{place['line']} in {place['name']}" if place else ""
    return GraphBreak(reason, location)


def use_empty_cache(folder: Path) -> None:
    """Makes `folder` the compile cache of this process. Call it before the process compiles anything."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
    os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")
    torch._inductor.utils.clear_caches()


def remove_unfinished(folder: Path) -> set[str]:
    """Removes the libraries that a killed linker or a full disk has left unfinished in inductor's cache, `folder`:
    inductor would use them. Returns the names of the files left.

    Inductor locks a library while it links it; a locked one stays. It writes its other files whole or not at all.
    """
    files = [file for entries in ("??/[!.]*.*", "triton/*/*/*.*") for file in folder.glob(entries)]
    libraries = [file for file in files if file.suffix in (".so", ".cubin") and sys.platform == "linux"]
    for file in libraries:
        with contextlib.suppress(OSError):
            if not _is_whole(file):
                with FileLock(folder / "locks" / f"{file.name.partition('.')[0]}.lock", timeout=0):
                    file.unlink()
                    file.with_suffix(".cpp").unlink(missing_ok=True)
    return {file.name for file in files if file.exists()}


def _is_whole(library: Path) -> bool:
    """Whether a 64-bit ELF library has its section table, which linkers write last."""
    with library.open("rb") as opened:
        head = opened.read(64)
    sections, entry, count = (int.from_bytes(head[at:end], "little") for at, end in ((40, 48), (58, 60), (60, 62)))
    return head.startswith(b"\x7fELF") and sections + entry * count <= library.stat().st_size


def separate_instructions() -> None:
    """Keeps graphs in the cache apart by the vector instructions that they were compiled for, which inductor's own key
    of a graph lacks: code for AVX-512 that was found under ATEN_CPU_CAPABILITY=avx2 gave NaN.

    Inductor finds out which there are once a process, by compiling a program for each set of them. It is made to do so
    at the beginning of the first compile, and timed.
    """

    def tag(_: Any) -> None:
        if not torch.compiler.config.cache_key_tag:
            started = time.perf_counter()
            torch.compiler.config.cache_key_tag = vectors()
            CompileLog.probe_seconds = time.perf_counter() - started

    torch._dynamo.callback_handler.register_start_callback(tag)


def vectors() -> str:
    """What inductor writes vector code for on this CPU: 'avx512 avx512_vnni', or 'no vector instructions'."""
    return str(chosen) if (chosen := pick_vec_isa()).bit_width() else "no vector instructions"


def reset_compiler() -> None:
    """Drops everything that is compiled, with the memory of its CUDA graphs: the next call compiles anew."""
    torch._dynamo.reset()
    torch._inductor.cudagraph_trees.reset_cudagraph_trees()
    gc.collect()
    torch.cuda.empty_cache()


def clone_outputs(outputs: Any) -> Any:
    """The outputs with their tensors cloned: the next call of a CUDA graph overwrites the original ones."""
    return torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, outputs)


def first_line(error: BaseException) -> str:
    """What an error says, without folders: a compiler's first error, or the end of a traceback in its text, or its
    first two lines without advice to set debug variables; its type where it has no text."""
    text, advice = str(error), ("Set TORCH", "You can suppress", "import torch", "torch._dynamo")
    if "returned non-zero exit status" in text:  # as of a compiler of Triton's: standard error, a file, says why
        with contextlib.suppress(OSError):
            end = os.pread(2, 2000, max(0, os.fstat(2).st_size - 2000))
            text += f"\nOutput:\n{end.decode(errors='replace')}"
    _, *output = _OUTPUT.split(text, maxsplit=1)
    found = _COMPILER_ERROR.findall(output[0])[:1] if output else _RAISED.findall(text)[-1:]
    lines = [line.strip() for line in (found or output[-1:] or [text])[0].splitlines()]
    useful = [line for line in lines if line and not line.startswith(advice)]
    return textwrap.shorten(without_folders(" ".join(useful[:2])), 400, placeholder=" …") or type(error).__name__
