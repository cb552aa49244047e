"""torch.compile, and what it really did: read from dynamo's and inductor's own counters, with no second trace."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import counters

from demo.schema import Compilation, GraphBreak, RunSpec

CUDA_GRAPH_MODES = ("reduce-overhead", "max-autotune")
_PLACE = re.compile(r"in user code at (?P<file>.+?):(?P<line>\d+)")
_ARTIFACTS = ("__graph_breaks", "__recompiles")


class Watch:
    """Listens to dynamo from its creation on: graph breaks with their source line, recompiles, cache hits.

    Make it before `torch.compile`'s first call. `events` grows with every frame that dynamo looks at, so two equal
    readings mean that nothing was compiled in between.
    """

    def __init__(self) -> None:
        counters.clear()
        self._breaks = _Messages()
        self.recompile_reasons = _Messages()
        torch._logging.set_logs(graph_breaks=True, recompiles=True)
        for name in list(logging.root.manager.loggerDict):
            if name.startswith("torch.") and name.endswith(_ARTIFACTS):
                logger = logging.getLogger(name)
                logger.handlers = [self._breaks if name.endswith("__graph_breaks") else self.recompile_reasons]
                logger.propagate = False

    def events(self) -> int:
        return int(counters["frames"]["total"]) + int(counters["aot_autograd"]["total"])

    def compilation(
        self, spec: RunSpec, device: torch.device, first_call_seconds: float, recompiles: int
    ) -> Compilation:
        inductor = counters["inductor"]
        hits, misses = int(inductor["fxgraph_cache_hit"]), int(inductor["fxgraph_cache_miss"])
        aot_hits = int(counters["aot_autograd"]["autograd_cache_hit"])
        if hits + misses + aot_hits == 0:
            cache = "off"
        else:
            cache = "warm" if misses == 0 else "cold"
        return Compilation(
            first_call_seconds=first_call_seconds,
            cache=cache,  # type: ignore[arg-type]
            graphs=int(counters["stats"]["unique_graphs"]),
            graph_breaks=self._graph_breaks(),
            recompiles_while_timing=recompiles,
            cudagraphs=self._cudagraphs(spec, device),
        )

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
        return "used"


class _Messages(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def _reason(message: str) -> str:
    """Dynamo's own first line of the reason, without its general preamble and its hints."""
    lines = [line.strip() for line in message.splitlines()[1:]]
    stated = [line for line in lines if line and not line.startswith(("Graph Break Reason:", "Explanation:", "Hint:"))]
    explained = [line.removeprefix("Explanation:").strip() for line in lines if line.startswith("Explanation:")]
    if stated and explained:
        return f"{stated[0]}: {explained[0]}"
    return stated[0] if stated else "dynamo gave no reason"


def _skip_reason() -> str | None:
    for metrics in torch._dynamo.utils.get_compilation_metrics():
        if getattr(metrics, "cudagraph_skip_reason", None):
            return str(metrics.cudagraph_skip_reason)
    return None


def compiled(model: Any, spec: RunSpec) -> Any:
    """The model under torch.compile as the spec asks; nothing is compiled before its first call."""
    return torch.compile(model, mode=spec.mode, fullgraph=spec.fullgraph)


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
