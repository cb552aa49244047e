"""torch.compile as a spec asks for it: of the whole model, or of its layers.

Regional compilation (scope "layers") is what PyTorch's recipe of that name does: each repeated layer gets a graph of
its own, and a graph is made once for all layers that are alike.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from transformers.modeling_layers import GradientCheckpointingLayer

from demo.core.errors import BadInput
from demo.core.spec import RunSpec

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
