"""`Workload`: a model on its device, and the inputs of the calls that a run times. Each task has a subclass."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import torch
from torch.utils import _pytree as pytree

from ..core.caveat import Caveat
from ..core.options import RunSpec
from ..core.outputs import EndToEnd, Predictions
from ..core.size_log import InputSize
from . import compilation, timing
from .messages import Events
from .restorer import Restorer

Model = Callable[..., Any]
"""An eager module, its compiled copy, or the model of a package. It is called with the inputs by keyword."""
Batch = dict[str, Any]
"""Keyword arguments of a model's call: tensors, or containers of tensors."""


def dtype_of(spec: RunSpec) -> torch.dtype:
    """Returns the dtype of weights and inputs. For the number format "tf32" it is float32."""
    return {"float16": torch.float16, "bfloat16": torch.bfloat16}.get(spec.dtype, torch.float32)


def is_cast(tensor: torch.Tensor) -> bool:
    """Returns whether the tensor gets the number format of a run. Integers, complex numbers and 8-bit floats do not.

    An 8-bit float means nothing without its scale, which the model keeps beside it.
    """
    return tensor.is_floating_point() and tensor.itemsize > 1


def on_device(tensor: torch.Tensor, spec: RunSpec, device: torch.device) -> torch.Tensor:
    """Returns an input on the device: in the spec's dtype if it `is_cast`, a 4-D one in the spec's memory format.

    It is a copy only if something of it changes.
    """
    moved = tensor.detach().to(device, dtype_of(spec) if is_cast(tensor) else None)
    channels_last = spec.channels_last and moved.dim() == 4
    return moved.contiguous(memory_format=torch.channels_last) if channels_last else moved


def refuse_call(**_: object) -> NoReturn:
    """Replaces a compiled model that was dropped to free its memory. It raises an error if it is called."""
    raise RuntimeError("The compiled model was dropped after its timing.")


@dataclass(frozen=True)
class Variant:
    """The eager or the compiled model, the function that calls it, and the seconds of its warm-up calls in order."""

    call: timing.Call
    warmup: list[float]
    model: Model


@dataclass(frozen=True)
class Variants:
    """The eager and the compiled model after their warm-up, ready to be timed."""

    eager: Variant
    compiled: Variant
    eager_warmup_again: list[float]
    """Seconds of eager's second warm-up, needed because the compile filled the CPU's caches and heated the machine."""

    @property
    def by_name(self) -> dict[str, Variant]:
        return {"eager": self.eager, "compiled": self.compiled}


@dataclass(frozen=True)
class Workload(ABC):
    spec: RunSpec
    """The run's options. Its `device` is 'cpu' or 'cuda', never 'auto'."""
    device: torch.device
    model: torch.nn.Module
    """The model before it is compiled, on the device, in eval mode."""
    caveats: list[Caveat] = field(default_factory=list, kw_only=True)
    """Caveats found while the model was loaded."""

    @abstractmethod
    def make_batch(self) -> Batch:
        """Returns the arguments of a call, on the device."""

    def batch_of(self, size: InputSize) -> Batch:
        """Returns the arguments of a call with inputs of another size, on the device.

        A size is a batch size with height and width in pixels, or with the length of a prompt in tokens. Not every task
        has sizes: a user's own model raises NotImplementedError.
        """
        raise NotImplementedError("a model of one's own has its sizes in its function")

    def predictions(self, outputs: object) -> Predictions | None:
        """Returns predictions from what `outputs` returned; None with random weights, and for a user's own model."""
        return None

    def end_to_end(self, outputs: object) -> EndToEnd | None:
        """Times what a request needs besides the model's call, such as preprocessing. `outputs`: as `outputs` returned.

        Returns None for a task without such steps.
        """
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

    @cached_property
    def restorer(self) -> Restorer:
        """Restores, before each call, what an earlier call changed. Read this property before the first call."""
        return Restorer(self.batch)

    def call(self, model: Model) -> timing.Call:
        """Returns the function whose calls are timed. `model`: this workload's model, or its compiled copy."""
        restorer = self.restorer
        return timing.PreparedCall(restorer.restore, lambda: model(**restorer.batch))

    def once(self, model: Model) -> object:
        """Undoes what earlier calls changed in the inputs and in the model, and calls `model` once."""
        self.restorer.restore()
        return model(**self.restorer.batch)

    def outputs(self, model: Model) -> object:
        """Returns cloned outputs of one call, for the comparison of eager and compiled.

        Call it for the eager model first: a text model's compiled copy is fed the tokens that eager chose.
        """
        return compilation.clone_outputs(self.call(model)())

    def exact_outputs(self, exact: Model) -> object:
        """Returns the outputs of `exact`, a float64 copy of the model, for the same inputs in float64.

        They have the tensors of `outputs` in the same order. A text model's have only the logits.
        """

        def double(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.double() if tensor.is_floating_point() else tensor.clone()

        return exact(**pytree.tree_map_only(torch.Tensor, double, self.restorer.batch))

    def time_more(self, variants: Variants, log: compilation.CompileLog, events: Events) -> dict[str, object]:
        """Times further calls of eager and compiled, such as a text model's reading of the prompt.

        Returns fields of the `RunResult` with the times; {} if the task has only one kind of call.
        """
        return {}
