"""torch.compile as a spec asks for it: of the whole model, of its layers, or of the model with added graph breaks.

Regional compilation (scope "layers") is what PyTorch's recipe of that name does: each repeated layer gets a graph of
its own, and a graph is made once for all layers that are alike. Also: what is captured of a model that is compiled
before its first eager call. All but the first work on a twin of the model, so the model itself is not changed.
"""

import copy
import functools
from pathlib import Path
from typing import Any, cast

import torch
from transformers.modeling_layers import GradientCheckpointingLayer

from demo.backend import compilation
from demo.backend.workload import Workload
from demo.core.languages import ENGLISH
from demo.core.measurement import CompiledFirst, GraphBreak
from demo.core.spec import BadInput, RunSpec

DYNAMIC = {"auto": None, "on": True, "off": False}
"""torch.compile's argument, by the option's value."""
MIN_LAYERS = 2


def compiled(model: Any, spec: RunSpec) -> Any:
    """The model under torch.compile as the spec asks. Nothing is compiled before its first call.

    With scope "layers" it is a twin whose layers compile, because a layer is compiled in place.
    """
    options: dict[str, Any] = {"mode": spec.mode, "fullgraph": spec.fullgraph, "dynamic": DYNAMIC[spec.dynamic]}
    if spec.scope == "model":
        return torch.compile(model, **options)
    by_layers = twin(model)
    for layer in repeated_layers(by_layers):
        layer.compile(**options)
    return by_layers


def twin(model: Any) -> Any:
    """A copy of the modules that shares parameters and buffers. It takes milliseconds and almost no memory.

    What a call sets on the modules of one (hooks, flags, kept values) is not set on the other.
    """
    return copy.deepcopy(model, {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())})


def repeated_layers(model: torch.nn.Module) -> list[torch.nn.Module]:
    """The layers that transformers marks as repeated, the innermost where they are nested."""
    marked = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    return [layer for layer in marked if not any(other in marked for other in layer.modules() if other is not layer)]


def require_layers(model: torch.nn.Module, checkpoint: str) -> None:
    """Raises BadInput for a model without repeated layers."""
    if len(repeated_layers(model)) < MIN_LAYERS:
        raise BadInput(
            f"{checkpoint} has no repeated layers that could be compiled one by one: transformers marks fewer than "
            f"{MIN_LAYERS} in it. Choose scope model."
        )


# Added graph breaks


def with_breaks(model: Any) -> tuple[Any, int]:
    """A twin of `model` that breaks after each part of each repeated layer (its norms, its attention ...), as a `print`
    there would; and how many places these are.

    Only between the layers, breaks cost the small checkpoints less than reruns differ. A model without repeated layers
    breaks after each of its own parts, one without parts at its end.
    """
    broken = twin(model)
    parts = [part for layer in repeated_layers(broken) for part in layer.children()]
    parts = parts or list(broken.children()) or [broken]
    for part in parts:
        part.__class__ = _breaking(cast(Any, type(part)))
    return broken, len(parts)


@functools.cache
def _breaking(kind: type[torch.nn.Module]) -> type[torch.nn.Module]:
    """A subclass of `kind` whose forward ends with a graph break, with code of its own under a name of its own.

    Not a hook: dynamo does not tell modules apart by their hooks, and would run the code compiled for the model with
    breaks for the model without them, too. One subclass for all parts of a kind, so that equal layers share graphs.
    With one code for all kinds they would be recompiles of one function, which dynamo gives up after eight.
    """

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        outputs = kind.forward(self, *args, **kwargs)
        torch._dynamo.graph_break("asked for by the run's own switch")
        return outputs

    code: Any = forward
    code.__code__ = code.__code__.replace(co_name=f"forward_{kind.__name__}")
    # transformers looks classes up by these two
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, (kind,), {"forward": functools.wraps(kind.forward)(forward), **names})


def break_warning(places: int, breaks: tuple[GraphBreak, ...]) -> str:
    """For the readers of a run with added breaks: after how many `places`, and whether dynamo reported any of them."""
    reported = any(one.location.startswith(Path(__file__).name) for one in breaks)
    return ENGLISH.plain("caveat_break_added" if reported else "caveat_break_unseen", places=places)


# Compiled before its first eager call


def changed(before: Any, after: Any) -> bool:
    """Whether calls of `after`, the twin of `before`, have changed an attribute or a hook on one of its modules.

    If not, what torch.compile captures cannot depend on whether eager was called first. Not covered: state outside of
    the modules (globals, caches of functions), and containers whose content changes without changing their length.
    """
    return _state(before) != _state(after)


def _state(model: Any) -> dict[tuple[str, str], Any]:
    return {
        (name, attribute): _comparable(value)
        for name, module in model.named_modules()
        for attribute, value in vars(module).items()
    }


def _comparable(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.dtype
    return type(value), len(value) if isinstance(value, dict | list | tuple | set) else None


def compiled_first(
    untouched: Any, workload: Workload, usual: tuple[int, tuple[GraphBreak, ...]]
) -> CompiledFirst | None:
    """What torch.compile captures of a model that was never called, without generating code.

    None where that is `usual`: the graphs and breaks after an eager call. Resets dynamo: everything that this process
    has compiled is compiled again at its next call. Call it after the timing. A capture of shapes-vit takes about as
    long as its warm-up.
    """
    breaking = twin(untouched)
    try:
        first = CompiledFirst(*_capture(untouched, workload, fullgraph=True))
    except torch._dynamo.exc.TorchDynamoException as refusal:
        first = CompiledFirst(*_capture(breaking, workload), compilation.graph_break(f"\n{refusal}").reason)
    # Breaks are compared by their places: their reasons may quote addresses in memory.
    own, others = ([one.location for one in breaks] for breaks in (first.graph_breaks, usual[1]))
    return None if (first.graphs, own) == (usual[0], others) else first


def _capture(model: Any, workload: Workload, fullgraph: bool = False) -> tuple[int, tuple[GraphBreak, ...]]:
    torch._dynamo.reset()
    log = compilation.CompileLog()
    workload.call(torch.compile(model, backend="eager", fullgraph=fullgraph))()
    return log.captured()
