"""How well the bundled checkpoints see freshly drawn scenes: for `train_shapes`, which calibrates by it, and its test.

The checkpoints go through their own processors and post-processing, as in the app. What each figure means:

- *top-1 accuracy*: share of scenes whose dominant shape is named first.
- *mean IoU*: intersection over union per class, pixels of all scenes together, averaged over the classes; once with
  the background among them and once without. At the picture's own size, not at the model's.
- *recall*: share of shapes for which there is a box of the same label with IoU >= 0.5. A box serves one shape only.
- *false boxes*: boxes over the score threshold that serve no shape (a second box on one shape is false), an image.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    AutoImageProcessor,
    AutoModelForImageClassification,
    AutoModelForObjectDetection,
    AutoModelForSemanticSegmentation,
)

from tools.scenes import SHAPES, Scene, draw_scene, random_size

CHECKPOINTS = Path(__file__).resolve().parent.parent / "assets" / "checkpoints"
# Where the scenes of each purpose begin. No set shares a scene with another, nor with the training.
TEST_SEED, CALIBRATION_SEED = 700_000, 900_000
SCORE_THRESHOLD = 0.55
"""The page's. On 400 scenes of a set of their own (seeds 800000 on) the thresholds from 0.35 to 0.6 make equally few
errors, shapes missed and false boxes together (0.14 to 0.15 an image); of these it has few false boxes."""


@dataclass(frozen=True)
class Classification:
    top1_accuracy: float


@dataclass(frozen=True)
class Segmentation:
    mean_iou: float
    mean_iou_shapes_only: float


@dataclass(frozen=True)
class Detection:
    recall: float
    false_boxes_per_image: float


@dataclass(frozen=True)
class Boxes:
    """What a detector found in one scene: n labels, (n, 4) places in pixels, n scores."""

    labels: list[str]
    places: np.ndarray
    scores: np.ndarray


def fresh_scenes(first_seed: int, count: int, size: tuple[int, int] | None = None) -> list[Scene]:
    """Scenes of consecutive seeds, each at a size of its own unless one is given."""
    return [draw_scene(seed, size or random_size(seed)) for seed in range(first_seed, first_seed + count)]


def classify(folder: Path, scenes: Iterable[Scene]) -> Classification:
    model = AutoModelForImageClassification.from_pretrained(folder).eval()
    processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
    right = []
    for scene in scenes:
        with torch.no_grad():
            logits = model(**processor(scene.image, return_tensors="pt")).logits
        right.append(model.config.id2label[int(logits.argmax())] == scene.label)
    return Classification(top1_accuracy=float(np.mean(right)))


def segment(folder: Path, scenes: Iterable[Scene]) -> Segmentation:
    model = AutoModelForSemanticSegmentation.from_pretrained(folder).eval()
    processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
    classes = len(SHAPES) + 1
    confusion = np.zeros((classes, classes), dtype=np.int64)
    for scene in scenes:
        with torch.no_grad():
            outputs = model(**processor(scene.image, return_tensors="pt"))
        height, width = scene.mask.shape
        found = processor.post_process_semantic_segmentation(outputs, target_sizes=[(height, width)])[0].numpy()
        pairs = scene.mask.astype(np.int64) * classes + found
        confusion += np.bincount(pairs.ravel(), minlength=classes**2).reshape(classes, classes)
    shared = np.diag(confusion)
    ious = shared / (confusion.sum(0) + confusion.sum(1) - shared)
    return Segmentation(mean_iou=float(ious.mean()), mean_iou_shapes_only=float(ious[1:].mean()))


def detect(folder: Path, scenes: Iterable[Scene], threshold: float = SCORE_THRESHOLD) -> Detection:
    model = AutoModelForObjectDetection.from_pretrained(folder).eval()
    processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
    return judge([(scene, find_boxes(model, processor, scene)) for scene in scenes], threshold)


def find_boxes(model: Any, processor: Any, scene: Scene, threshold: float = 0.05) -> Boxes:
    """All boxes of one scene with at least this score."""
    with torch.no_grad():
        outputs = model(**processor(scene.image, return_tensors="pt"))
    size = (scene.image.height, scene.image.width)
    found = processor.post_process_object_detection(outputs, threshold=threshold, target_sizes=[size])[0]
    labels = [model.config.id2label[int(label)] for label in found["labels"]]
    return Boxes(labels, found["boxes"].numpy(), found["scores"].numpy())


def judge(found: list[tuple[Scene, Boxes]], threshold: float) -> Detection:
    """The figures for boxes found before, of those with a score over the threshold."""
    shapes = hits = false = 0
    for scene, boxes in found:
        kept = np.flatnonzero(boxes.scores > threshold)
        served = match_boxes(scene, [boxes.labels[index] for index in kept], boxes.places[kept], boxes.scores[kept])
        shapes, hits, false = shapes + len(scene.objects), hits + served, false + len(kept) - served
    return Detection(recall=hits / shapes, false_boxes_per_image=false / len(found))


def match_boxes(scene: Scene, labels: list[str], boxes: np.ndarray, scores: np.ndarray, least_iou: float = 0.5) -> int:
    """How many shapes are found: boxes choose in order of score, each the best still free shape of its label."""
    free = list(scene.objects)
    for index in np.argsort(-scores):
        candidates = [shape for shape in free if shape.label == labels[index]]
        best = max(candidates, key=lambda shape: box_iou(shape.box, boxes[index]), default=None)
        if best is not None and box_iou(best.box, boxes[index]) >= least_iou:
            free.remove(best)
    return len(scene.objects) - len(free)


def box_iou(one: Any, other: Any) -> float:
    """Of two boxes (x0, y0, x1, y1)."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    shared = max(0.0, float(width)) * max(0.0, float(height))
    areas = sum(float(box[2] - box[0]) * float(box[3] - box[1]) for box in (one, other))
    return shared / (areas - shared)
