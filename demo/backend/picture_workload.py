"""A checkpoint that is called with one picture, repeated to a batch, and answers with labels, boxes or segments."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from demo.backend import models, timing
from demo.backend.failures import OTHER, named
from demo.backend.workload import Batch, Workload, dtype_of, memory_format_of
from demo.core import images
from demo.core.caveat import note
from demo.core.outputs import Box, EndToEnd, ImageInfo, Label, Predictions, Segment
from demo.core.size_log import Size
from demo.core.spec import BadInput, RunSpec

TOP = 5
BOX_THRESHOLD = 0.55
ZERO_SHOT_THRESHOLD = 0.1
"""OWL-ViT's scores are low; 0.1 is the default threshold of its own processor."""
MIN_SEGMENT = 0.002
"""A semantic class with less than this share of the image is left out as stray pixels."""
MAX_SEGMENTS = 40
MAX_BOXES = 100
OUTPUTS = ("logits", "pred_boxes", "pred_masks", "class_queries_logits", "masks_queries_logits")
"""The model's outputs that predictions are made of."""
CLIP_START, CLIP_END, CLIP_LENGTH = 49406, 49407, 16


@dataclass(frozen=True)
class Mask:
    label: str
    score: float | None
    area: float
    """Share of the picture."""
    pixels: np.ndarray
    """(height, width), bool."""


@dataclass(frozen=True)
class PictureWorkload(Workload):
    """`inputs` are made when they are first asked for."""

    loaded: models.Loaded
    picture: Image.Image
    file: Path
    """The picture's."""

    def preprocess(self) -> dict[str, torch.Tensor]:
        """The model's inputs, on the CPU: `pixel_values` [1, 3, height, width] of the picture, and `pixel_mask` if any.

        A text model's queries become `input_ids` [queries, 16]. With random weights there is no tokenizer (its
        vocabulary is not part of this project): queries without words then take the model the same time.

        Raises BadInput where the processor makes a side above `MAX_SIDE` of this picture, or no pixels.
        """
        loaded = self.loaded
        inputs = dict(loaded.processor(images=[self.picture], return_tensors="pt"))
        if "pixel_values" not in inputs:
            raise BadInput(f"The processor of {named(loaded.checkpoint.id)} makes no pixels of a picture; {OTHER}.")
        height, width = inputs["pixel_values"].shape[-2:]
        if max(height, width) > models.MAX_SIDE:
            raise BadInput(
                f"The checkpoint's processor makes of this picture one of {width} × {height} pixels, the limit is "
                f"{models.MAX_SIDE} a side. Choose a smaller picture, or another checkpoint."
            )
        inputs = {name: inputs[name] for name in ("pixel_values", "pixel_mask") if name in inputs}
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
        return self._repeated(self.inputs, self.spec.batch_size)

    def batch_of(self, size: Size) -> Batch:
        """The picture is resampled after its processor has made the model's input of it."""
        inputs = dict(self.inputs)
        if size.height is not None and size.width is not None:
            there = (size.height, size.width)
            inputs["pixel_values"] = torch.nn.functional.interpolate(inputs["pixel_values"], there, mode="bilinear")
            if "pixel_mask" in inputs:
                inputs["pixel_mask"] = torch.ones((1, *there), dtype=inputs["pixel_mask"].dtype)
        return self._repeated(inputs, size.batch_size)

    def _repeated(self, inputs: dict[str, torch.Tensor], times: int) -> Batch:
        """On the device, floating-point inputs in the spec's dtype and memory format."""
        batch = {}
        for name, value in inputs.items():
            repeated = value.repeat(times, *([1] * (value.dim() - 1)))
            moved = repeated.to(self.device, dtype_of(self.spec) if repeated.is_floating_point() else None)
            last = memory_format_of(self.spec)
            batch[name] = moved.contiguous(memory_format=last) if moved.dim() == 4 else moved
        return batch

    def predictions(self, outputs: Any) -> Predictions | None:
        if self.spec.weights == "random":
            return None
        found, checkpoint = self.find(outputs), self.loaded.checkpoint
        if checkpoint.task == "image-classification":
            return Predictions(labels=found)
        if checkpoint.task == "object-detection":
            return Predictions(boxes=found)
        segments = (Segment(mask.label, mask.score, mask.area, images.encode_mask(mask.pixels)) for mask in found)
        return Predictions(segments=tuple(segments), segmentation=checkpoint.segmentation)

    def end_to_end(self, outputs: Any) -> EndToEnd | None:
        """With random weights too: what finding predictions costs is known all the same."""
        decoding = timing.median_of_few(lambda: images.decode(self.file), timing.CPU_CLOCK)
        return EndToEnd(
            preprocess_seconds=decoding + timing.median_of_few(self.preprocess, timing.CPU_CLOCK),
            copy_seconds=timing.median_of_few(self.make_batch, self.clock),
            postprocess_seconds=timing.median_of_few(lambda: self.find(outputs), timing.CPU_CLOCK),
        )

    def find(self, outputs: Any) -> Any:
        """The Labels, Boxes or Masks that a server would answer with: of the first picture, in float32 on the CPU."""
        read = {name: outputs[name] for name in OUTPUTS if isinstance(outputs.get(name), torch.Tensor)}
        first = type(outputs)(**{name: tensor[:1].detach().float().cpu() for name, tensor in read.items()})
        if self.loaded.checkpoint.task == "image-classification":
            return self._labels(first)
        return self._boxes(first) if self.loaded.checkpoint.task == "object-detection" else self._masks(first)

    def _name(self, index: int) -> str:
        return str((self.model.config.id2label or {}).get(index, f"LABEL_{index}"))

    def _labels(self, outputs: Any) -> tuple[Label, ...]:
        scores = outputs.logits[0].softmax(-1)
        top = scores.topk(min(TOP, len(scores)))
        return tuple(
            Label(self._name(int(index)), float(score))
            for score, index in zip(top.values, top.indices, strict=True)
            if torch.isfinite(score)
        )

    def _boxes(self, outputs: Any) -> tuple[Box, ...]:
        threshold = ZERO_SHOT_THRESHOLD if self.loaded.checkpoint.takes_text else BOX_THRESHOLD
        decoded = self.loaded.processor.post_process_object_detection(
            outputs, threshold=threshold, target_sizes=[(self.picture.height, self.picture.width)]
        )[0]
        boxes, edges = [], torch.tensor([*self.picture.size, *self.picture.size])
        for score, label, corners in zip(decoded["scores"], decoded["labels"], decoded["boxes"], strict=True):
            x0, y0, x1, y1 = torch.minimum(corners.clamp(min=0), edges).tolist()
            name = self.spec.text[int(label)] if self.loaded.checkpoint.takes_text else self._name(int(label))
            boxes.append(Box(name, float(score), (x0, y0, x1, y1)))
        return tuple(sorted(boxes, key=lambda box: -box.score)[:MAX_BOXES])

    def _masks(self, outputs: Any) -> tuple[Mask, ...]:
        processor, inputs = self.loaded.processor, self.inputs
        width, height = images.mask_size(self.picture.size)
        left, top, right, bottom = crop_of(processor, *self.picture.size)
        # The processor may have cropped to the centre: the masks then belong to that part of the picture only.
        column, row = round(left * width), round(top * height)
        inner_width, inner_height = max(1, round((right - left) * width)), max(1, round((bottom - top) * height))
        # It may also have padded to a multiple of 32. The decoders stretch the whole padded field over the target,
        # so the target is made larger by as much and cut afterwards.
        padded = inputs["pixel_values"].shape[-2:]
        seen = inputs["pixel_mask"][0].bool() if "pixel_mask" in inputs else torch.ones(padded, dtype=torch.bool)
        used_height, used_width = int(seen.any(dim=1).sum()), int(seen.any(dim=0).sum())
        target = (round(inner_height * padded[0] / used_height), round(inner_width * padded[1] / used_width))

        masks: list[Mask] = []

        def add(label: str, score: float | None, inner: np.ndarray) -> None:
            mask = np.zeros((height, width), dtype=bool)
            cut = inner[:inner_height, :inner_width][: height - row, : width - column]
            mask[row : row + cut.shape[0], column : column + cut.shape[1]] = cut
            area = float(mask.mean())
            if area > 0:
                masks.append(Mask(label, score, area, mask))

        kind = self.loaded.checkpoint.segmentation
        if kind in ("instance", "panoptic"):
            decoder = getattr(processor, f"post_process_{kind}_segmentation")
            decoded = decoder(outputs, target_sizes=[target])[0]
            for part in decoded["segments_info"]:
                inner = (decoded["segmentation"] == part["id"]).numpy()
                add(self._name(int(part["label_id"])), float(part["score"]), inner)
        else:
            decoded = processor.post_process_semantic_segmentation(outputs, target_sizes=[target])[0]
            for index in torch.unique(decoded).tolist():
                inner = (decoded == index).numpy()
                if inner.mean() >= MIN_SEGMENT:
                    add(self._name(int(index)), None, inner)
        return tuple(sorted(masks, key=lambda mask: -mask.area)[:MAX_SEGMENTS])


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
    caveats = [*loaded.caveats, *([note(image.note)] if image.note else [])]
    return PictureWorkload(spec, device, loaded.model, loaded, picture, file, caveats=caveats)


def crop_of(processor: Any, width: int, height: int) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of the part of a picture that the processor's centre crop keeps, as shares."""
    crop = getattr(processor, "crop_size", None)
    if not getattr(processor, "do_center_crop", False) or not crop:
        return (0.0, 0.0, 1.0, 1.0)
    size = getattr(processor, "size", None) or {}
    shortest = size.get("shortest_edge") if hasattr(size, "get") else None
    if getattr(processor, "do_resize", False) and shortest:
        scale = shortest / min(width, height)
        width, height = round(width * scale), round(height * scale)
    elif getattr(processor, "do_resize", False) and size.get("height") and size.get("width"):
        width, height = size["width"], size["height"]
    across, down = min(1.0, crop["width"] / width), min(1.0, crop["height"] / height)
    return ((1 - across) / 2, (1 - down) / 2, (1 + across) / 2, (1 + down) / 2)
