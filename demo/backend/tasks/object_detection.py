"""Object detection: boxes in pixels of the picture, named by the model's labels or by the user's queries."""

import torch
from transformers.utils import ModelOutput

from ...core.outputs import Box, Predictions
from ..picture_workload import PictureWorkload

THRESHOLD = 0.55
"""Least score of a box that is shown. On 400 drawn scenes, any threshold from 0.35 to 0.6 gives shapes-rtdetr about as
few errors (missed shapes and false boxes). At 0.55 few of them are false boxes (`tools/evaluate_shapes.py`)."""
ZERO_SHOT_THRESHOLD = 0.1
"""Least score of a box found by a text query. OWL-ViT's scores are low: 0.1 is its processor's default."""
MAX_BOXES = 100


class ObjectDetection(PictureWorkload):
    outputs_read = ("logits", "pred_boxes")

    def decode(self, outputs: ModelOutput) -> Predictions:
        threshold = ZERO_SHOT_THRESHOLD if self.loaded.checkpoint.takes_text else THRESHOLD
        decoded = self.loaded.processor.post_process_object_detection(
            outputs, threshold=threshold, target_sizes=[(self.picture.height, self.picture.width)]
        )[0]
        boxes, edges = [], torch.tensor([*self.picture.size, *self.picture.size])
        for score, label, corners in zip(decoded["scores"], decoded["labels"], decoded["boxes"], strict=True):
            x0, y0, x1, y1 = torch.minimum(corners.clamp(min=0), edges).tolist()
            name = self.spec.text[int(label)] if self.loaded.checkpoint.takes_text else self.label(int(label))
            boxes.append(Box(name, float(score), (x0, y0, x1, y1)))
        return Predictions(boxes=tuple(sorted(boxes, key=lambda box: -box.score)[:MAX_BOXES]))


load = ObjectDetection.load
