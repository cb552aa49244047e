"""The base class of all tasks on pictures: a model that is called with a batch of copies of one picture."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from PIL import Image
from transformers.utils import ModelOutput

from ..core import images
from ..core.caveat import Caveat
from ..core.options import BadInput, RunSpec
from ..core.outputs import EndToEnd, ImageInfo, Predictions
from ..core.size_log import InputSize
from . import models, timing
from .workload import Batch, Workload, on_device

CLIP_START, CLIP_END, CLIP_LENGTH = 49406, 49407, 16
"""CLIP's token ids for the start and the end of a text, and the number of tokens to which a query is padded."""


@dataclass(frozen=True)
class PictureWorkload(Workload):
    loaded: models.LoadedModel
    picture: Image.Image
    file: Path
    outputs_read: ClassVar[tuple[str, ...]]
    """Names of the model's outputs that `decode` reads."""

    @classmethod
    def load(
        cls, spec: RunSpec, device: torch.device, file: Path | None, on_image: Callable[[ImageInfo], None] | None = None
    ) -> Self:
        """Reads the picture, calls `on_image` with its facts, and loads the model.

        Raises BadInput if a step fails, unless memory runs out.
        """
        if file is None:
            raise BadInput(f"{spec.checkpoint} sees a picture, and none was given. Name one.")
        picture, image = images.read_picture(file)
        if on_image is not None:
            on_image(image)  # a run whose load fails is found again by its picture
        loaded = models.load_model(spec, device)
        caveats = [*loaded.caveats, *([Caveat("white_sheet")] if image.transparent else [])]
        if image.white is not None:
            caveats.append(Caveat("dark_16_bits", {"white": image.white}))
        return cls(spec, device, loaded.model, loaded, picture, file, caveats=caveats)

    @abstractmethod
    def decode(self, outputs: ModelOutput) -> Predictions:
        """Returns labels, boxes or segments. `outputs`: the model's output for one picture, in float32 on the CPU."""

    def preprocess(self) -> dict[str, torch.Tensor]:
        """Returns inputs on the CPU: `pixel_values` [1, 3, height, width] and, for some models, `pixel_mask`.

        A zero-shot detector also gets its queries: `input_ids` and `attention_mask`, both [queries, 16]. With random
        weights each query is an empty text, because there is no tokenizer. A call takes as long as with words.
        """
        loaded = self.loaded
        made = loaded.processor(images=[self.picture], return_tensors="pt")
        inputs = {name: made[name] for name in ("pixel_values", "pixel_mask") if name in made}
        if loaded.checkpoint.takes_text:
            queries = list(self.spec.text)
            if loaded.tokenizer is not None:
                options = {"padding": "max_length", "truncation": True, "max_length": CLIP_LENGTH}
                tokens = loaded.tokenizer(queries, return_tensors="pt", **options)
            else:
                ids = torch.tensor([[CLIP_START] + [CLIP_END] * (CLIP_LENGTH - 1)] * len(queries))
                tokens = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
            inputs |= {name: tokens[name] for name in ("input_ids", "attention_mask")}
        return inputs

    @cached_property
    def inputs(self) -> dict[str, torch.Tensor]:
        return self.preprocess()

    def make_batch(self) -> Batch:
        return self.batch_of(InputSize(self.spec.batch_size))

    def batch_of(self, size: InputSize) -> Batch:
        """Returns a batch of this size. If the size has height and width, the pixels are resized to them."""
        inputs = dict(self.inputs)
        if size.height is not None and size.width is not None:
            sides = (size.height, size.width)
            inputs["pixel_values"] = torch.nn.functional.interpolate(inputs["pixel_values"], sides, mode="bilinear")
            if "pixel_mask" in inputs:
                inputs["pixel_mask"] = torch.ones((1, *sides), dtype=inputs["pixel_mask"].dtype)
        repeated = {name: value.repeat(size.batch_size, *[1] * (value.dim() - 1)) for name, value in inputs.items()}
        return {name: on_device(value, self.spec, self.device) for name, value in repeated.items()}

    def predictions(self, outputs: object) -> Predictions | None:
        return None if self.spec.weights == "random" else self._decode_first(outputs)

    def end_to_end(self, outputs: object) -> EndToEnd | None:
        """Times the parts of a request around the model's call: preprocessing, the copy to the device, and decoding."""
        decoding = timing.median_of_few(lambda: images.decode(self.file), timing.CPU_CLOCK)
        return EndToEnd(
            preprocess_seconds=decoding + timing.median_of_few(self.preprocess, timing.CPU_CLOCK),
            copy_seconds=timing.median_of_few(self.make_batch, self.clock),
            postprocess_seconds=timing.median_of_few(lambda: self._decode_first(outputs), timing.CPU_CLOCK),
        )

    def _decode_first(self, outputs: object) -> Predictions:
        assert isinstance(outputs, ModelOutput)  # its config has `return_dict`
        read = {name: outputs[name] for name in self.outputs_read if isinstance(outputs.get(name), torch.Tensor)}
        return self.decode(type(outputs)(**{name: tensor[:1].detach().float().cpu() for name, tensor in read.items()}))

    def label(self, index: int) -> str:
        labels: Any = self.loaded.model.config.id2label or {}
        return str(labels.get(index, f"LABEL_{index}"))
