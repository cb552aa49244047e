"""torch.compile of a model or of its layers, on modules of a few weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters
from transformers.modeling_layers import GradientCheckpointingLayer

from demo.backend import compile_model, settings
from demo.core.errors import BadInput
from demo.core.spec import RunSpec


class Layer(GradientCheckpointingLayer):
    def __init__(self, *inner: torch.nn.Module) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.inner = torch.nn.ModuleList(inner)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x).relu()
        for layer in self.inner:
            x = layer(x)
        return x


class Model(torch.nn.Module):
    def __init__(self, *layers: torch.nn.Module) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            pixel_values = layer(pixel_values)
        return pixel_values


BATCH = {"pixel_values": torch.arange(8.0).reshape(2, 4)}


def spec(**asked: Any) -> RunSpec:
    return RunSpec("shapes-vit", "image-classification", device="cpu", **asked)


@pytest.fixture
def no_grad() -> Iterator[None]:
    torch._dynamo.reset()
    with torch.no_grad():
        yield
    torch._dynamo.reset()


class Pointwise(torch.nn.Module):
    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        return pixel_values.sin() + 1


@pytest.mark.parametrize(("dynamic", "graphs"), [("on", 1), ("off", 2)])
def test_with_dynamic_on_a_square_picture_is_followed_by_any_other_without_a_recompile(
    dynamic: str, graphs: int, no_grad: None
) -> None:
    asked = spec(dynamic=dynamic)
    settings.apply(asked, torch.device("cpu"))
    model = compile_model.compiled(Pointwise(), asked)
    counters.clear()
    for sides in ((8, 8), (8, 12)):
        model(pixel_values=torch.ones(2, 3, *sides))
    assert counters["stats"]["unique_graphs"] == graphs
    settings.apply(spec(), torch.device("cpu"))


def test_the_layers_are_the_innermost_that_transformers_marks() -> None:
    inner, plain = [Layer(), Layer()], Layer()
    assert compile_model.repeated_layers(Model(Layer(*inner), plain, torch.nn.Linear(4, 4))) == [*inner, plain]


def test_a_model_without_repeated_layers_is_refused() -> None:
    with pytest.raises(BadInput, match=r"some/net has no repeated layers .* Choose scope model"):
        compile_model.require_layers(Model(Layer(), torch.nn.Linear(4, 4)), "some/net")


@pytest.mark.parametrize("scope", ["model", "layers"])
def test_what_is_compiled_is_the_model_or_its_layers_and_never_the_eager_model(
    scope: str, no_grad: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[type, dict[str, Any]]] = []

    def compiled(called: Any, **options: Any) -> Any:
        asked.append((type(getattr(called, "__self__", called)), options))
        return called

    monkeypatch.setattr(torch, "compile", compiled)
    eager = Model(Layer(), Layer())
    model = compile_model.compiled(eager, spec(scope=scope, mode="lite", fullgraph=True, dynamic="off"))
    options = {"mode": "lite", "fullgraph": True, "dynamic": False}
    assert asked == ([(Model, options)] if scope == "model" else [(Layer, options)] * 2)
    assert all(layer._compiled_call_impl is None for layer in eager.layers)
    assert torch.equal(model(**BATCH), eager(**BATCH))
