"""The added graph break and the order of the first calls, as captured of small models; no code is generated."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from own_subject import subject_of
from torch._dynamo.utils import counters

from demo.backend import compilation, graph_breaks
from demo.core.measurement import Compilation, GraphBreak

BATCH = {"x": torch.ones(2, 4)}
ADDED, OTHER = GraphBreak("asked", "graph_breaks.py:104"), GraphBreak("print", "modeling.py:3")
LOCK = threading.Lock()


class Layers(torch.nn.Module):
    """Layers in a loop, as in a transformer: dynamo cannot resume in there."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x).relu()
        return x


class Nested(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = torch.nn.Sequential(Layers(), Layers())
        self.shared = torch.nn.Linear(4, 4)
        self.unused = torch.nn.Linear(4, 400)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.shared(self.shared(self.backbone(x)))


class HookedAtItsFirstCall(Nested):
    """As transformers hooks some models up: under a lock, which dynamo cannot enter, and once only."""

    hooked = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.hooked:
            with LOCK:
                self.backbone.register_forward_hook(lambda *_: None)
                self.hooked = True
        return super().forward(x)


class Counting(Nested):
    """Its calls leave a trace on it that changes nothing of what is captured."""

    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return super().forward(x)


@pytest.fixture(autouse=True)
def nothing_compiled() -> Any:
    torch._dynamo.reset()
    with torch.no_grad():
        yield


def captured(model: torch.nn.Module, calls: int = 2) -> tuple[int, int]:
    """The graphs and the breaks of a model, in a process that may have compiled another one."""
    log = compilation.CompileLog()
    run = torch.compile(model, backend="eager")
    for _ in range(calls):
        run(**BATCH)
    assert not counters["frames"]["total"] - counters["frames"]["ok"]  # no function was left to eager
    graphs, breaks = log.captured()
    return graphs, len(breaks)


def test_one_break_is_added_and_none_to_the_model_itself() -> None:
    model = Nested().eval()
    broken, part = graph_breaks.with_break(model, subject_of(model, **BATCH))
    assert part == "backbone"  # the largest that is called once
    assert captured(broken) == (2, 1)
    assert captured(model) == (1, 0)
    assert captured(broken) == captured(model) == (0, 0)  # each has code of its own, and keeps it
    assert torch.equal(broken(**BATCH), model(**BATCH))


def test_both_share_their_tensors_and_the_part_keeps_its_name() -> None:
    model = Nested().eval()
    broken, _ = graph_breaks.with_break(model, subject_of(model, **BATCH))
    assert all(one is other for one, other in zip(broken.parameters(), model.parameters(), strict=True))
    assert str(type(broken.backbone)) == str(type(model.backbone)) and isinstance(broken.backbone, torch.nn.Sequential)
    assert not model.backbone._forward_hooks


def test_a_model_without_parts_breaks_at_its_end() -> None:
    broken, part = graph_breaks.with_break(torch.nn.ReLU(), subject_of(torch.nn.ReLU(), input=torch.ones(2)))
    assert part == ""
    run, log = torch.compile(broken, backend="eager"), compilation.CompileLog()
    run(torch.ones(2))
    graphs, breaks = log.captured()
    assert (graphs, len(breaks)) == (1, 1)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (
            Compilation(1.0, "cold", 2, (ADDED,), break_after="vit"),
            "after the model's part 'vit', as asked. It ran as 2 graphs.",
        ),
        (
            Compilation(1.0, "cold", 1, ()),
            "after the whole model, as asked. It ran as 1 graph, and torch.compile reported no",
        ),
        (Compilation(1.0, "cold", 4, (ADDED, OTHER)), "It ran as 4 graphs, with 1 break of its own."),
    ],
)
def test_the_warning_tells_how_many_graphs_and_breaks_there_really_were(broken: Compilation, words: str) -> None:
    assert words in graph_breaks.warning(broken)


def test_a_model_hooked_up_by_its_first_call_is_told_of_in_both_orders() -> None:
    model = HookedAtItsFirstCall().eval()
    untouched = graph_breaks.twin(model)
    model(**BATCH)
    assert graph_breaks.changed(untouched, model)
    assert captured(model) == (1, 0)
    first = graph_breaks.compiled_first(untouched, subject_of(model, **BATCH))
    assert first.graph_breaks and "lock" in first.fullgraph_error and "\n" not in first.fullgraph_error
    afresh = HookedAtItsFirstCall().eval()
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(afresh, backend="eager", fullgraph=True)(**BATCH)
    torch._dynamo.reset()
    log = compilation.CompileLog()
    torch.compile(HookedAtItsFirstCall().eval(), backend="eager")(**BATCH)
    assert log.captured() == (first.graphs, first.graph_breaks)  # as whoever compiles first gets it


def test_a_first_call_that_leaves_no_trace_needs_no_second_capture() -> None:
    model = Nested().eval()
    untouched = graph_breaks.twin(model)
    model(**BATCH)
    assert not graph_breaks.changed(untouched, model)


def test_a_trace_that_changes_no_graph_is_whole_in_both_orders() -> None:
    model = Counting().eval()
    untouched = graph_breaks.twin(model)
    model(**BATCH)
    assert graph_breaks.changed(untouched, model)
    first = graph_breaks.compiled_first(untouched, subject_of(model, **BATCH))
    assert (first.graphs, first.graph_breaks, first.fullgraph_error) == (1, (), "")
