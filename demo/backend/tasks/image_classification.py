"""Image classification: the five likeliest labels."""

import torch
from transformers.utils import ModelOutput

from ...core.outputs import Label, Predictions
from ..picture_workload import PictureWorkload


class ImageClassification(PictureWorkload):
    outputs_read = ("logits",)

    def decode(self, outputs: ModelOutput) -> Predictions:
        scores = outputs["logits"][0].softmax(-1)
        top = scores.topk(min(5, len(scores)))
        labels = (
            Label(self.label(int(index)), float(score))
            for score, index in zip(top.values, top.indices, strict=True)
            if torch.isfinite(score)
        )
        return Predictions(labels=tuple(labels))


load = ImageClassification.load
