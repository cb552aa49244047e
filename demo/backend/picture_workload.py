"""A checkpoint that is called with one picture, repeated to a batch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from demo.backend import models, predictions, timing
from demo.backend.workload import Workload
from demo.core import images
from demo.core.outputs import EndToEnd, ImageInfo, Predictions
from demo.core.spec import BadInput, RunSpec

CPU_CLOCK = timing.WallClock(torch.device("cpu"))


@dataclass(frozen=True)
class PictureWorkload(Workload):
    """`inputs` are made when they are first asked for."""

    loaded: models.Loaded
    picture: Image.Image
    file: Path
    """The picture's."""

    def preprocess(self) -> dict[str, torch.Tensor]:
        """The model's inputs for the one picture, on the CPU."""
        return predictions.prepare(self.loaded, self.picture, self.spec.text)

    @cached_property
    def inputs(self) -> dict[str, torch.Tensor]:
        return self.preprocess()

    def make_batch(self) -> dict[str, torch.Tensor]:
        return predictions.to_batch(self.inputs, self.spec, self.device)

    def of_other_sizes(self) -> Iterator[tuple[Workload, dict[str, Any]]]:
        """Another batch size and, where the model's input follows the picture, the picture in other proportions."""
        own = self.inputs["pixel_values"].shape[-2:]
        yield replace(self, spec=self.with_other_batch), {"changed": "batch size", "height": own[0], "width": own[1]}
        other = replace(self, picture=in_other_proportions(self.picture))
        height, width = other.inputs["pixel_values"].shape[-2:]
        if (height, width) != own:
            yield other, {"changed": "picture", "height": height, "width": width}

    def find(self, outputs: Any) -> Any:
        return predictions.find(self.loaded, outputs, self.inputs, self.picture, self.spec.text)

    def predictions(self, outputs: Any) -> Predictions | None:
        if self.spec.weights == "random":
            return None
        return predictions.stored(self.loaded.checkpoint, self.find(outputs))

    def end_to_end(self, outputs: Any) -> EndToEnd | None:
        """With random weights too: what finding predictions costs is known all the same."""
        decoding = timing.median_of_few(lambda: images.decode(self.file), CPU_CLOCK)
        return EndToEnd(
            preprocess_seconds=decoding + timing.median_of_few(self.preprocess, CPU_CLOCK),
            copy_seconds=timing.median_of_few(self.make_batch, self.clock),
            postprocess_seconds=timing.median_of_few(lambda: self.find(outputs), CPU_CLOCK),
        )


def load(
    spec: RunSpec, device: torch.device, file: Path | None, told: Callable[[ImageInfo], None] | None
) -> PictureWorkload:
    """Raises BadInput where there is no picture or it cannot be read, and what `models.load` raises."""
    if file is None:
        raise BadInput(f"{spec.checkpoint} sees a picture, and none was given. Name one.")
    picture, image = images.read(file)
    if told is not None:
        told(image)  # a run whose load fails is found again by its picture
    loaded = models.load(spec, device)
    return PictureWorkload(spec, device, loaded.model, loaded, picture, file, warnings=loaded.warnings)


def in_other_proportions(picture: Image.Image) -> Image.Image:
    """A quarter turn, which changes portrait and landscape; of a square the upper three quarters."""
    width, height = picture.size
    if width != height:
        return picture.transpose(Image.Transpose.ROTATE_90)
    return picture.crop((0, 0, width, max(1, height * 3 // 4)))
