"""Image segmentation: masks of classes (semantic), of objects (instance), or of both (panoptic)."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from transformers.utils import ModelOutput

from ...core import base64_images
from ...core.caveat import Caveat
from ...core.outputs import Predictions, Segment
from ..failures import short_name
from ..picture_workload import PictureWorkload

SEGMENTATIONS = ("semantic", "instance", "panoptic")
MIN_SEGMENT = 0.002
"""A class that covers a smaller share of the picture (0 to 1) is left out as stray pixels. Semantic masks only."""
MAX_SEGMENTS = 40


class ImageSegmentation(PictureWorkload):
    outputs_read = ("logits", "pred_boxes", "pred_masks", "class_queries_logits", "masks_queries_logits")

    @classmethod
    def load(cls, *args: Any) -> "ImageSegmentation":
        """Loads picture and model, and chooses a kind of segmentation: 'semantic', 'instance' or 'panoptic'.

        - For a checkpoint of the catalogue it is the kind that the catalogue names.
        - For any other model that can do all three, it is the kind that the checkpoint's name contains. If the name
          does not contain exactly one, it is 'semantic', with a caveat.
        - For all other models it is 'semantic'.

        `args`: as in `PictureWorkload.load`.
        """
        workload = super().load(*args)
        checkpoint = workload.loaded.checkpoint
        if checkpoint.segmentation is None:
            name = re.split(r"[/\\]", checkpoint.id)[-1].lower()
            universal = "Universal" in checkpoint.auto_class
            kinds = [kind for kind in SEGMENTATIONS if kind in name] if universal else ["semantic"]
            if len(kinds) != 1:
                workload.caveats.append(Caveat("segmentation", {"checkpoint": short_name(checkpoint.id)}))
                kinds = ["semantic"]
            workload.loaded.checkpoint = replace(checkpoint, segmentation=kinds[0])
        return workload

    def decode(self, outputs: ModelOutput) -> Predictions:
        processor, inputs = self.loaded.processor, self.inputs
        width, height = base64_images.small_size(self.picture.size)
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

        kind = self.loaded.checkpoint.segmentation
        decoded = getattr(processor, f"post_process_{kind}_segmentation")(outputs, target_sizes=[target])[0]
        parts: list[tuple[int, int, float | None]]
        if kind == "semantic":
            numbers, parts = decoded, [(index, index, None) for index in torch.unique(decoded).tolist()]
        else:
            numbers = decoded["segmentation"]
            parts = [(part["id"], part["label_id"], float(part["score"])) for part in decoded["segments_info"]]
        segments = []
        for number, label, score in parts:
            inner = (numbers == number).numpy()
            if kind == "semantic" and inner.mean() < MIN_SEGMENT:
                continue
            mask = np.zeros((height, width), dtype=bool)
            cut = inner[:inner_height, :inner_width][: height - row, : width - column]
            mask[row : row + cut.shape[0], column : column + cut.shape[1]] = cut
            if mask.any():
                png = base64_images.encode_mask(mask)
                segments.append(Segment(self.label(int(label)), score, float(mask.mean()), png))
        largest = sorted(segments, key=lambda segment: -segment.area)[:MAX_SEGMENTS]
        return Predictions(segments=tuple(largest), segmentation=kind)


load = ImageSegmentation.load


def crop_of(processor: object, width: int, height: int) -> tuple[float, float, float, float]:
    """Returns the edges of the processor's centre crop, left, top, right, bottom, as shares of the picture (0 to 1)."""
    crop = getattr(processor, "crop_size", None)
    if not getattr(processor, "do_center_crop", False) or not crop:
        return (0.0, 0.0, 1.0, 1.0)
    size = (getattr(processor, "size", None) or {}) if getattr(processor, "do_resize", False) else {}
    if shortest := size.get("shortest_edge"):
        scale = shortest / min(width, height)
        width, height = round(width * scale), round(height * scale)
    elif size.get("height") and size.get("width"):
        width, height = size["width"], size["height"]
    across, down = min(1.0, crop["width"] / width), min(1.0, crop["height"] / height)
    return ((1 - across) / 2, (1 - down) / 2, (1 + across) / 2, (1 + down) / 2)
