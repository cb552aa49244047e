"""What a run times: a model on its device, and the batch that it is called with.

`demo.backend.tasks` makes a `Workload` from a spec. Each task has a subclass of its own.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch.utils import _pytree as pytree

from demo.backend import compilation, timing
from demo.backend.messages import Events
from demo.core.caveat import Caveat
from demo.core.outputs import EndToEnd, Predictions
from demo.core.size_log import Size
from demo.core.spec import RunSpec

Batch = dict[str, Any]
"""Keyword arguments of a call: tensors, or values that hold tensors."""


def tensors(nested: Any) -> list[torch.Tensor]:
    """Returns every tensor in a batch, or in a model's outputs, in a fixed order."""
    return [leaf for leaf in pytree.tree_leaves(nested) if isinstance(leaf, torch.Tensor)]


def dtype_of(spec: RunSpec) -> torch.dtype:
    """Returns the type that weights and inputs are stored in: float32 also for "tf32"."""
    return {"float16": torch.float16, "bfloat16": torch.bfloat16}.get(spec.dtype, torch.float32)


def on_device(tensor: torch.Tensor, spec: RunSpec, device: torch.device) -> torch.Tensor:
    """Copies an input to the device: float32 to the spec's number format, a picture to the spec's memory format."""
    moved = tensor.detach().to(device, dtype_of(spec) if tensor.dtype == torch.float32 else None)
    channels_last = spec.channels_last and moved.dim() == 4
    return moved.contiguous(memory_format=torch.channels_last) if channels_last else moved


@dataclass(frozen=True)
class Variant:
    """One way to call the model, eager or compiled, with the seconds of its warm-up calls, the first call first."""

    call: timing.Call
    warmup: list[float]
    model: Any
    """The model that `call` calls."""


@dataclass(frozen=True)
class Variants:
    """Eager and compiled after their warm-up, ready to be timed."""

    eager: Variant
    compiled: Variant
    eager_warmup_again: list[float]
    """Seconds of eager's second warm-up, after the compile: it filled the CPU's caches and warmed the machine."""

    @property
    def by_name(self) -> dict[str, Variant]:
        return {"eager": self.eager, "compiled": self.compiled}

    def calls_per_half_block(self, spec: RunSpec) -> int:
        return timing.calls_per_half_block(self.eager_warmup_again, self.compiled.warmup, spec.iterations)


@dataclass(frozen=True)
class Workload(ABC):
    spec: RunSpec
    """The run's spec, with the device in use: 'cpu' or 'cuda'."""
    device: torch.device
    model: Any
    """The model before compiling, on the device, in eval mode."""
    caveats: list[Caveat] = field(default_factory=list, kw_only=True)
    """Caveats found while loading the model."""

    @abstractmethod
    def make_batch(self) -> Batch:
        """Returns the arguments of a call, on the device."""

    def batch_of(self, size: Size) -> Batch:
        """Returns the arguments of a call of this size, such as batch size and height."""
        raise NotImplementedError("a model of one's own has its sizes in its function")

    def predictions(self, outputs: Any) -> Predictions | None:
        """Returns what the outputs of one call show, as a result stores it; None if they mean nothing."""
        return None

    def end_to_end(self, outputs: Any) -> EndToEnd | None:
        """Times the steps of a request around the model's call; None for a workload without them."""
        return None

    @cached_property
    def clock(self) -> timing.Clock:
        return timing.Clock(self.device)

    @cached_property
    def batch(self) -> Batch:
        return self.make_batch()

    @cached_property
    def eager(self) -> timing.Call:
        return self.call(self.model)

    def call(self, model: Any) -> timing.Call:
        """Returns the call that is timed. `model` is the workload's model or a copy of it, compiled or not."""
        batch = self.batch
        return lambda: model(**batch)

    def once(self, model: Any) -> Any:
        """Calls `model` once with the batch. Earlier calls do not change what it returns."""
        return model(**self.batch)

    def outputs(self, model: Any) -> Any:
        """Returns the outputs for `parity`, cloned: a CUDA graph's next call overwrites them.

        Eager's come first.
        """
        return compilation.clone_outputs(self.call(model)())

    def exact_outputs(self, exact: Any) -> Any:
        """Returns the same as `outputs`, from `exact`, a copy of the model in float64."""

        def double(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.double() if tensor.is_floating_point() else tensor

        return exact(**pytree.tree_map_only(torch.Tensor, double, self.batch))

    def time_more(self, variants: Variants, log: compilation.CompileLog, events: Events) -> dict[str, Any]:
        """Times more of eager and compiled, after their calls. Returns further fields of the result."""
        return {}
