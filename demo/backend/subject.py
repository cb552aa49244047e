"""What a run times: a model on its device, and the batch that it is called with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from demo.backend import machine, models, predictions, settings, timing, ways
from demo.core import images
from demo.core.errors import BadInput
from demo.core.result import Predictions
from demo.core.spec import RunSpec


@dataclass(frozen=True)
class Subject:
    """`inputs`, `batch` and `clock` are made when they are first asked for."""

    spec: RunSpec
    """Its device is 'cpu' or 'cuda'."""
    device: torch.device
    picture: Image.Image
    loaded: models.Loaded

    @classmethod
    def load(cls, spec: RunSpec, device: torch.device, picture: Image.Image) -> Subject:
        """Sets how torch computes in this process, and loads the model. `device` is the one that the spec names.

        Raises BadInput where the model cannot be run as asked.
        """
        if spec.mode not in machine.modes():
            raise BadInput(
                f"This torch ({torch.__version__}) has no mode {spec.mode!r}. Allowed: {', '.join(machine.modes())}."
            )
        machine.require_compiler()
        settings.apply(spec, device)
        loaded = models.load(spec, device)
        if spec.scope == "layers":
            ways.require_layers(loaded.model, spec.checkpoint)
        return cls(spec, device, picture, loaded)

    @classmethod
    def read(cls, spec: RunSpec, image: Path) -> Subject:
        """The same from the picture's file, on the device that the spec asks for."""
        picture, _ = images.read(image)
        device = machine.pick_device(spec.device)
        return cls.load(spec.on(device.type), device, picture)

    def preprocess(self) -> dict[str, torch.Tensor]:
        """The model's inputs for the one picture, on the CPU."""
        return predictions.prepare(self.loaded, self.picture, self.spec.text)

    def copy(self) -> dict[str, torch.Tensor]:
        """The inputs repeated to a batch, on the device."""
        return predictions.to_batch(self.inputs, self.spec, self.device)

    @cached_property
    def clock(self) -> timing.WallClock:
        return timing.WallClock(self.device)

    @cached_property
    def inputs(self) -> dict[str, torch.Tensor]:
        return self.preprocess()

    @cached_property
    def batch(self) -> dict[str, torch.Tensor]:
        return self.copy()

    def eager(self) -> Any:
        """One call of the model as it is."""
        return self.loaded.model(**self.batch)

    def call(self, model: Any, batch: dict[str, torch.Tensor] | None = None) -> timing.Call:
        """A call of `model`: the subject's, a twin of it, or one of these compiled. `batch` is the subject's own by
        default."""
        inputs = self.batch if batch is None else batch
        return lambda: model(**inputs)

    def find(self, outputs: Any) -> Any:
        """What the outputs show of the first picture of the batch: a tuple of Label, Box or Mask."""
        return predictions.find(self.loaded, outputs, self.inputs, self.picture, self.spec.text)

    def decode(self, outputs: Any) -> Predictions:
        """The same in the form that is stored."""
        return predictions.decode(self.loaded, outputs, self.inputs, self.picture, self.spec.text)
