"""What a run times: a model on its device, and the batch that it is called with.

`PictureWorkload` is a checkpoint with a picture, `TextWorkload` one with a prompt, `OwnModel` a function of a user's
file; `demo.backend.workloads` makes each from a spec. `Variants` are the ways to call its model, eager and compiled.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch.utils import _pytree as pytree

from demo.backend import compilation, timing
from demo.backend.compilation import CompileLog
from demo.backend.events import Events
from demo.core import limits
from demo.core.measurement import Compilation
from demo.core.outputs import EndToEnd, Predictions
from demo.core.result import RunResult
from demo.core.spec import RunSpec

Batch = dict[str, Any]
"""The arguments of a call by name: tensors, or values that hold some."""


def tensors(nested: Any) -> list[torch.Tensor]:
    """Every tensor in a batch, or in a model's outputs, in a fixed order."""
    return [leaf for leaf in pytree.tree_leaves(nested) if isinstance(leaf, torch.Tensor)]


@dataclass(frozen=True)
class Variant:
    """One way to call the model, and the seconds of the calls before its timing, the first call first."""

    call: timing.Call
    warmup: list[float]
    model: Any
    """What `call` calls."""


@dataclass(frozen=True)
class Variants:
    """What is timed, after its warm-up."""

    eager: Variant
    compiled: Variant
    eager_warmup_again: list[float]
    """After compiling, which has filled the caches with other things and warmed the machine."""
    fit_together: bool
    """Whether eager and compiled fit in memory together, as far as the warm-up tells."""
    compilation: Compilation | None = None
    """What was compiled, where it had to be read before it was compiled again for fewer threads."""
    with_break: Variant | None = None
    """The compiled model with added graph breaks."""


@dataclass(frozen=True)
class Workload(ABC):
    """`batch` and `clock` are made when they are first asked for."""

    spec: RunSpec
    """Its device is 'cpu' or 'cuda'."""
    device: torch.device
    model: Any
    """On the device, in eval mode."""
    warnings: list[str] = field(default_factory=list, kw_only=True)
    """What loading the model found that a reader of the figures should know."""

    @abstractmethod
    def make_batch(self) -> Batch:
        """The arguments of a call, on the device."""

    def predictions(self, outputs: Any) -> Predictions | None:
        """What the outputs of one call show, in the form that is stored; None where that would mean nothing."""
        return None

    def end_to_end(self, outputs: Any) -> EndToEnd | None:
        """Times the steps of a request around the model's call; None for a workload without them."""
        return None

    @cached_property
    def clock(self) -> timing.WallClock:
        return timing.WallClock(self.device)

    @cached_property
    def batch(self) -> Batch:
        return self.make_batch()

    @cached_property
    def eager(self) -> timing.Call:
        """A call of the model as it is."""
        return self.call(self.model)

    @property
    def with_other_batch(self) -> RunSpec:
        """The spec with twice its batch size, or with half of it where that is beyond the limit."""
        size = self.spec.batch_size
        return replace(self.spec, batch_size=2 * size if 2 * size <= limits.current().batch else max(1, size // 2))

    def call(self, model: Any) -> timing.Call:
        """What is timed, with `model`: the workload's, a twin of it, or one of these compiled."""
        batch = self.batch
        return lambda: model(**batch)

    def once(self, model: Any) -> Any:
        """One call of `model` with the batch, whatever was called before."""
        return model(**self.batch)

    def outputs(self, model: Any) -> Any:
        """What eager and compiled are compared by. Cloned: the next call of a CUDA graph overwrites its outputs.

        Eager's are asked first.
        """
        return compilation.clone_outputs(self.call(model)())

    def exact_outputs(self, exact: Any) -> Any:
        """What `outputs` gives, from `exact`, a copy of the model in float64."""
        double = pytree.tree_map_only(
            torch.Tensor, lambda one: one.double() if one.is_floating_point() else one, self.batch
        )
        return exact(**double)

    def time_more(self, variants: Variants, log: CompileLog, events: Events) -> dict[str, Any]:
        """Further figures of eager and compiled for the result, timed after their calls."""
        return {}

    def time_last(self, result: RunResult, events: Events) -> dict[str, Any]:
        """Figures for the result that have to be timed after everything else, because that changes the process."""
        return {}

    def of_other_sizes(self) -> Iterator[tuple["Workload", dict[str, Any]]]:
        """Workloads over the same model with inputs of other sizes, each with the size as fields of `AnotherSize`."""
        return iter(())
