"""From a picture to the model's inputs, and from its outputs to labels, boxes and segments."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image

from demo.backend import settings
from demo.backend.failures import OTHER, named
from demo.backend.model_files import MAX_SIDE
from demo.backend.models import Loaded
from demo.core import images
from demo.core.catalog import Checkpoint
from demo.core.outputs import Box, Label, Predictions, Segment
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


def prepare(loaded: Loaded, image: Image.Image, text: tuple[str, ...]) -> dict[str, torch.Tensor]:
    """The model's inputs for one picture, on the CPU: `pixel_values` [1, 3, height, width], and `pixel_mask` if any.

    A text model's queries become `input_ids` [queries, 16]. With random weights there is no tokenizer (its vocabulary
    is not part of this project): queries without words then take the model the same time.

    Raises BadInput where the processor makes a side above `MAX_SIDE` of this picture, or no pixels.
    """
    inputs = dict(loaded.processor(images=[image], return_tensors="pt"))
    if "pixel_values" not in inputs:
        raise BadInput(f"The processor of {named(loaded.checkpoint.id)} makes no pixels of a picture; {OTHER}.")
    height, width = inputs["pixel_values"].shape[-2:]
    if max(height, width) > MAX_SIDE:
        raise BadInput(
            f"The checkpoint's processor makes of this picture one of {width} × {height} pixels, the limit is "
            f"{MAX_SIDE} a side. Choose a smaller picture, or another checkpoint."
        )
    inputs = {name: inputs[name] for name in ("pixel_values", "pixel_mask") if name in inputs}
    if loaded.checkpoint.takes_text:
        if loaded.tokenizer is not None:
            tokens = loaded.tokenizer(
                list(text), padding="max_length", truncation=True, max_length=CLIP_LENGTH, return_tensors="pt"
            )
        else:
            ids = torch.tensor([[CLIP_START] + [CLIP_END] * (CLIP_LENGTH - 1)] * len(text))
            tokens = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        inputs |= {name: tokens[name] for name in ("input_ids", "attention_mask")}
    return inputs


def to_batch(inputs: dict[str, torch.Tensor], spec: RunSpec, device: torch.device) -> dict[str, torch.Tensor]:
    """The picture repeated to the batch, on the device, floating-point inputs in the spec's dtype and memory format."""
    batch = {}
    for name, value in inputs.items():
        repeated = value.repeat(spec.batch_size, *([1] * (value.dim() - 1)))
        moved = repeated.to(device, settings.dtype_of(spec) if repeated.is_floating_point() else None)
        batch[name] = moved.contiguous(memory_format=settings.memory_format_of(spec)) if moved.dim() == 4 else moved
    return batch


@dataclass(frozen=True)
class Mask:
    label: str
    score: float | None
    area: float
    """Share of the picture."""
    pixels: np.ndarray
    """(height, width), bool."""


def find(
    loaded: Loaded, outputs: Any, inputs: dict[str, torch.Tensor], image: Image.Image, text: tuple[str, ...]
) -> Any:
    """A tuple of Label, Box or Mask, by the checkpoint's task: what a server would answer a request with.

    Of the first picture of the batch; `inputs` are those of `prepare`, for that one picture.
    """
    first = _first_picture(outputs)
    task = loaded.checkpoint.task
    if task == "image-classification":
        return _labels(loaded, first)
    if task == "object-detection":
        return _boxes(loaded, first, image, text)
    return _masks(loaded, first, inputs, image)


def stored(checkpoint: Checkpoint, found: Any) -> Predictions:
    """What `find` gives, in the form that is stored."""
    if checkpoint.task == "image-classification":
        return Predictions(labels=found)
    if checkpoint.task == "object-detection":
        return Predictions(boxes=found)
    segments = (Segment(mask.label, mask.score, mask.area, images.encode_mask(mask.pixels)) for mask in found)
    return Predictions(segments=tuple(segments), segmentation=checkpoint.segmentation)


def _first_picture(outputs: Any) -> Any:
    """The output object for a batch of one, in float32 on the CPU, without the parts that no decoder reads."""
    kept = {
        name: outputs[name][:1].detach().float().cpu()
        for name in OUTPUTS
        if name in outputs and isinstance(outputs[name], torch.Tensor)
    }
    return type(outputs)(**kept)


def _name(loaded: Loaded, index: int) -> str:
    return str((loaded.model.config.id2label or {}).get(index, f"LABEL_{index}"))


def _labels(loaded: Loaded, outputs: Any) -> tuple[Label, ...]:
    scores = outputs.logits[0].softmax(-1)
    top = scores.topk(min(TOP, len(scores)))
    return tuple(
        Label(_name(loaded, int(index)), float(score))
        for score, index in zip(top.values, top.indices, strict=True)
        if torch.isfinite(score)
    )


def _boxes(loaded: Loaded, outputs: Any, image: Image.Image, text: tuple[str, ...]) -> tuple[Box, ...]:
    threshold = ZERO_SHOT_THRESHOLD if loaded.checkpoint.takes_text else BOX_THRESHOLD
    decoded = loaded.processor.post_process_object_detection(
        outputs, threshold=threshold, target_sizes=[(image.height, image.width)]
    )[0]
    boxes, edges = [], torch.tensor([*image.size, *image.size])
    for score, label, corners in zip(decoded["scores"], decoded["labels"], decoded["boxes"], strict=True):
        x0, y0, x1, y1 = torch.minimum(corners.clamp(min=0), edges).tolist()
        name = text[int(label)] if loaded.checkpoint.takes_text else _name(loaded, int(label))
        boxes.append(Box(name, float(score), (x0, y0, x1, y1)))
    return tuple(sorted(boxes, key=lambda box: -box.score)[:MAX_BOXES])


def _masks(loaded: Loaded, outputs: Any, inputs: dict[str, torch.Tensor], image: Image.Image) -> tuple[Mask, ...]:
    width, height = images.mask_size(image.size)
    left, top, right, bottom = crop_of(loaded.processor, image.width, image.height)
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

    kind = loaded.checkpoint.segmentation
    if kind in ("instance", "panoptic"):
        decoder = getattr(loaded.processor, f"post_process_{kind}_segmentation")
        decoded = decoder(outputs, target_sizes=[target])[0]
        for part in decoded["segments_info"]:
            inner = (decoded["segmentation"] == part["id"]).numpy()
            add(_name(loaded, int(part["label_id"])), float(part["score"]), inner)
    else:
        decoded = loaded.processor.post_process_semantic_segmentation(outputs, target_sizes=[target])[0]
        for index in torch.unique(decoded).tolist():
            inner = (decoded == index).numpy()
            if inner.mean() >= MIN_SEGMENT:
                add(_name(loaded, int(index)), None, inner)
    return tuple(sorted(masks, key=lambda mask: -mask.area)[:MAX_SEGMENTS])


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
