"""The added graph break and the order of the first calls, as captured of small models; no code is generated."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from own_workload import workload_of
from torch._dynamo.utils import counters
from transformers.modeling_layers import GradientCheckpointingLayer

from demo.backend import compilation, graph_breaks
from demo.core.measurement import GraphBreak

BATCH = {"x": torch.ones(2, 4)}
LOCK = threading.Lock()


class Layer(GradientCheckpointingLayer):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.dense = torch.nn.LayerNorm(4), torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dense(self.norm(x)).relu()


class Transformer(torch.nn.Module):
    """Layers in a loop, in which dynamo cannot resume after a break."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)
        self.layers = torch.nn.ModuleList(Layer() for _ in range(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class HookedAtItsFirstCall(Transformer):
    """As transformers hooks some models up: under a lock, which dynamo cannot enter, and once only."""

    hooked = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.hooked:
            with LOCK:
                self.head.register_forward_hook(lambda *_: None)
                self.hooked = True
        return super().forward(x)


@pytest.fixture(autouse=True)
def nothing_compiled() -> Any:
    torch._dynamo.reset()
    with torch.no_grad():
        yield


def captured(model: torch.nn.Module, calls: int = 2, left_to_eager: int = 0) -> tuple[int, int]:
    """The graphs and the breaks of a model, in a process that may have compiled another one."""
    log = compilation.CompileLog()
    run = torch.compile(model, backend="eager")
    for _ in range(calls):
        run(**BATCH)
    assert counters["frames"]["total"] - counters["frames"]["ok"] == left_to_eager  # functions
    graphs, breaks = log.captured()
    return graphs, len(breaks)


def test_each_part_of_each_layer_breaks_and_the_model_itself_stays_whole() -> None:
    model = Transformer().eval()
    broken, places = graph_breaks.with_breaks(model)
    assert places == 10
    assert torch.equal(broken(**BATCH), model(**BATCH))
    assert captured(broken, left_to_eager=1) == (3, 1)  # the function with the loop; equal layers share their graphs
    assert captured(model) == (1, 0)
    assert captured(broken) == captured(model) == (0, 0)  # in this order each keeps its code


def test_a_model_without_layers_breaks_after_its_parts_and_one_without_parts_at_its_end() -> None:
    parts = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
    for model, places in ((parts, 3), (torch.nn.ReLU(), 1)):
        torch._dynamo.reset()
        broken, found = graph_breaks.with_breaks(model)
        log = compilation.CompileLog()
        torch.compile(broken, backend="eager")(torch.ones(2, 4))
        assert found == places and log.captured()[1]


def test_the_warning_tells_where_breaks_were_added_and_whether_there_are_any() -> None:
    added, other = GraphBreak("asked", "graph_breaks.py:104"), GraphBreak("print", "modeling.py:3")
    assert "in so many places: 4. All" in graph_breaks.warning(4, (other, added)).text
    assert "in so many places: 1, and torch.compile reported none there. All" in graph_breaks.warning(1, (other,)).text


def test_a_model_hooked_up_by_its_first_call_is_told_of_in_both_orders() -> None:
    model = HookedAtItsFirstCall().eval()
    untouched = graph_breaks.twin(model)
    model(**BATCH)
    assert graph_breaks.changed(untouched, model)
    assert captured(model) == (1, 0)
    first = graph_breaks.compiled_first(untouched, workload_of(model, **BATCH), (1, ()))
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
    model = Transformer().eval()
    untouched = graph_breaks.twin(model)
    model(**BATCH)
    assert not graph_breaks.changed(untouched, model)
