"""What a run times: a model on its device, and the batch that it is called with.

`PictureSubject` is a checkpoint with a picture, `OwnModel` a function of a user's file; `demo.backend.subjects` makes
either from a spec.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch.utils import _pytree as pytree

from demo.backend import timing
from demo.core.result import EndToEnd, Predictions
from demo.core.spec import RunSpec

Batch = dict[str, Any]
"""The arguments of a call by name: tensors, or values that hold some."""


def tensors(nested: Any) -> list[torch.Tensor]:
    """Every tensor in a batch, or in a model's outputs, in a fixed order."""
    return [leaf for leaf in pytree.tree_leaves(nested) if isinstance(leaf, torch.Tensor)]


@dataclass(frozen=True)
class Subject(ABC):
    """`batch` and `clock` are made when they are first asked for."""

    spec: RunSpec
    """Its device is 'cpu' or 'cuda'."""
    device: torch.device
    model: Any
    """On the device, in eval mode."""

    @abstractmethod
    def make_batch(self) -> Batch:
        """The arguments of a call, on the device."""

    @property
    def warnings(self) -> list[str]:
        """What loading the model found that a reader of the figures should know."""
        return []

    def predictions(self, outputs: Any) -> Predictions | None:
        """What the outputs of one call show, in the form that is stored; None where that would mean nothing."""
        return None

    def end_to_end(self, outputs: Any) -> EndToEnd | None:
        """Times the steps of a request around the model's call; None for a subject without them."""
        return None

    @cached_property
    def clock(self) -> timing.WallClock:
        return timing.WallClock(self.device)

    @cached_property
    def batch(self) -> Batch:
        return self.make_batch()

    def eager(self) -> Any:
        """One call of the model as it is."""
        return self.model(**self.batch)

    def call(self, model: Any, batch: Batch | None = None) -> timing.Call:
        """A call of `model`: the subject's, a twin of it, or one of these compiled. `batch` is the subject's own by
        default."""
        inputs = self.batch if batch is None else batch
        return lambda: model(**inputs)
