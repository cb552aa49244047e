"""The graph break that a run adds on request, and the breaks of a model that is compiled before its first eager call.

Both work on a twin of the model, a copy of its modules over the same tensors, so the model itself is not changed.
"""

from __future__ import annotations

import copy
import functools
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from demo.backend import compilation
from demo.backend.subject import Subject
from demo.core.caveat import Caveat
from demo.core.measurement import Compilation, CompiledFirst, GraphBreak


def twin(model: Any) -> Any:
    """A copy of the modules that shares parameters and buffers. It takes milliseconds and almost no memory.

    What a call sets on the modules of one (hooks, flags, kept values) is not set on the other.
    """
    return copy.deepcopy(model, {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())})


def twin_where_possible(model: Any, warnings: list[str | Caveat]) -> Any | None:
    """None, and a further warning, for a module that cannot be copied, such as one that holds a lock."""
    try:
        return twin(model)
    except Exception as error:
        why = compilation.first_line(error)
        warnings.append(
            f"The model cannot be copied ({why}), so compiling it before its first eager call was not tried."
        )
        return None


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


def compiled_first(untouched: Any, subject: Subject) -> CompiledFirst:
    """What torch.compile captures of a model that was never called, without generating code.

    Resets dynamo: everything that this process has compiled is compiled again at its next call. Call it after the
    timing.
    """
    breaking = twin(untouched)
    try:
        return CompiledFirst(*_capture(untouched, subject, fullgraph=True))
    except torch._dynamo.exc.TorchDynamoException as refusal:
        return CompiledFirst(*_capture(breaking, subject), compilation.break_reason(f"\n{refusal}"))


def captured_otherwise(
    untouched: Any, subject: Subject, add_break: bool, usual: tuple[int, tuple[GraphBreak, ...]]
) -> CompiledFirst | None:
    """`compiled_first`, where it captures something else than `usual`: the graphs and breaks after an eager call.

    With `add_break` of the model with an added break. A capture of shapes-vit takes about as long as its warm-up.
    """
    if add_break:
        untouched, _ = with_break(untouched, subject)
    first = compiled_first(untouched, subject)
    graphs, breaks = usual
    same = (first.graphs, _locations(first.graph_breaks)) == (graphs, _locations(breaks))
    return None if same else first


def _locations(breaks: tuple[GraphBreak, ...]) -> list[str]:
    """Without the reasons, which may quote addresses in memory."""
    return [one.location for one in breaks]


def _capture(model: Any, subject: Subject, fullgraph: bool = False) -> tuple[int, tuple[GraphBreak, ...]]:
    torch._dynamo.reset()
    log = compilation.CompileLog()
    subject.call(torch.compile(model, backend="eager", fullgraph=fullgraph))()
    return log.captured()


def with_break(model: Any, subject: Subject) -> tuple[Any, str]:
    """A twin of `model` whose forward breaks once, after its largest direct part; and the name of that part.

    Between two layers the graph would also break in every function around them, and dynamo cannot resume inside a
    loop: ViT would run as 3 graphs and RT-DETR as 9. After a direct part only the outermost forward is cut, and the
    method that calls the part where there is one (OWL-ViT: 3 graphs). `warning` tells how many graphs there are.

    Calls another twin once in eager to find the parts that are called exactly once, since only those give one break.
    Where there is none, the break comes after the whole model, and the name is ''.
    """
    calls: Counter[str] = Counter()
    counted = twin(model)
    for name, part in counted.named_children():
        part.register_forward_hook(lambda *_, name=name: calls.update([name]))
    subject.once(counted)
    broken = twin(model)
    parts = {name: part for name, part in broken.named_children() if calls[name] == 1}
    name = max(parts, key=lambda name: sum(tensor.numel() for tensor in parts[name].parameters()), default="")
    _break_after(parts.get(name, broken))
    return broken, name


def _break_after(part: torch.nn.Module) -> None:
    """Gives the part a subclass whose forward breaks.

    Not a hook: dynamo does not tell modules apart by their hooks, and would run the code compiled for the model with
    the break for the model without it, too.
    """
    kind = type(part)

    @functools.wraps(kind.forward)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        outputs = kind.forward(self, *args, **kwargs)
        torch._dynamo.graph_break("asked for by the run's own switch")
        return outputs

    # transformers looks classes up by these two
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    part.__class__ = type(kind.__name__, (kind,), {"forward": forward, **names})


def warning(broken: Compilation) -> str:
    """A sentence for the readers of a run with the added break."""
    place = f"after the model's part '{broken.break_after}'" if broken.break_after else "after the whole model"
    others = [one for one in broken.graph_breaks if not one.location.startswith(Path(__file__).name)]
    ran = f"It ran as {counted(broken.graphs, 'graph')}"
    if len(others) == len(broken.graph_breaks):
        ran += ", and torch.compile reported no break there"
    if others:
        ran += f", with {counted(len(others), 'break')} of its own"
    return (
        f"A graph break was added {place}, as asked. {ran}. This shows what a break costs, and is not how the "
        "model runs by itself."
    )


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
