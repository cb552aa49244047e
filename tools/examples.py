"""Draw the example scenes that a visitor can click, and say whether the bundled checkpoints get all of them right.

python -m tools.examples                      draw them into assets/examples and check the checkpoints on them
"""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import (
    AutoImageProcessor,
    AutoModelForImageClassification,
    AutoModelForObjectDetection,
    AutoModelForSemanticSegmentation,
)

from tools.evaluate_shapes import CHECKPOINTS, SCORE_THRESHOLD, match_boxes
from tools.scenes import Scene, draw_scene

FOLDER = Path(__file__).resolve().parent.parent / "assets" / "examples"
SIZE = (480, 360)
SEEDS = (2904, 2115, 2201, 2206, 2227, 2075, 2086)  # chosen by eye; each kind of shape dominates in one of them


def example_paths() -> list[Path]:
    return [FOLDER / f"shapes-scene-{number}.png" for number in range(1, len(SEEDS) + 1)]


def draw_examples() -> list[Scene]:
    """The scenes behind the files, with the truth about them, without camera noise."""
    return [draw_scene(seed, SIZE, clean=True) for seed in SEEDS]


@cache
def _load(name: str, kind: Any) -> tuple[Any, Any]:
    folder = CHECKPOINTS / name
    return kind.from_pretrained(folder).eval(), AutoImageProcessor.from_pretrained(folder, backend="pil")


def mistakes(scene: Scene, picture: Image.Image, least_pixels_right: float = 0.97) -> list[str]:
    """What the three checkpoints get wrong on `picture`, which shows `scene`; one line each, none if all is right."""
    found: list[str] = []
    classifier, processor = _load("shapes-vit", AutoModelForImageClassification)
    with torch.no_grad():
        scores = classifier(**processor(picture, return_tensors="pt")).logits.softmax(-1)[0]
    label = classifier.config.id2label[int(scores.argmax())]
    if label != scene.label:
        found.append(f"names {label} ({float(scores.max()):.2f}) where {scene.label} dominates")

    segmenter, processor = _load("shapes-segformer", AutoModelForSemanticSegmentation)
    with torch.no_grad():
        outputs = segmenter(**processor(picture, return_tensors="pt"))
    mask = processor.post_process_semantic_segmentation(outputs, target_sizes=[picture.size[::-1]])[0].numpy()
    right = float(np.mean(mask == scene.mask))
    if right < least_pixels_right:
        found.append(f"labels {right:.1%} of the pixels right")

    detector, processor = _load("shapes-rtdetr", AutoModelForObjectDetection)
    with torch.no_grad():
        outputs = detector(**processor(picture, return_tensors="pt"))
    boxes = processor.post_process_object_detection(
        outputs, threshold=SCORE_THRESHOLD, target_sizes=[picture.size[::-1]]
    )[0]
    labels = [detector.config.id2label[int(label)] for label in boxes["labels"]]
    served = match_boxes(scene, labels, boxes["boxes"].numpy(), boxes["scores"].numpy())
    if served < len(scene.objects) or len(labels) > served:
        wanted = ", ".join(shape.label for shape in scene.objects)
        found.append(f"boxes {', '.join(labels) or 'nothing'} where there are {wanted}; {served} fit")
    return found


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, scene in zip(example_paths(), draw_examples(), strict=True):
        scene.image.save(path, optimize=True)
        kinds = ", ".join(shape.label for shape in scene.objects)
        print(f"{path.name} ({path.stat().st_size // 1000} kB): {kinds}")
        for mistake in mistakes(scene, Image.open(path)):
            print(f"  WRONG: {mistake}")


if __name__ == "__main__":
    main()
