"""The task image segmentation, whose predictions are labelled masks. Masks with the same label are merged first."""

from collections.abc import Sequence

import numpy as np

from ..core import format as fmt
from ..core.outputs import Predictions, Segment
from .task import Task

RUNS_IOU = 0.95
"""The masks of two runs agree if their intersection over union, averaged over the labels, is at least this."""


def by_label(segments: Sequence[Segment]) -> dict[str, np.ndarray]:
    """Returns the union of all masks of each label, as a bool array [height, width]."""
    from ..core.base64_images import decode_mask  # here, because Pillow takes a while to import

    masks: dict[str, np.ndarray] = {}
    for segment in segments:
        masks[segment.label] = decode_mask(segment.mask_png) | masks.get(segment.label, False)
    return masks


def changed_pixels(first: Sequence[Segment], second: Sequence[Segment]) -> np.ndarray:
    """Returns a bool array [height, width]: True where a label covers the pixel in only one of `first` and `second`.

    If neither has a mask, it is an array [1, 1] of False.
    """
    ours, theirs = by_label(first), by_label(second)
    empty = np.zeros(next((mask.shape for mask in (ours | theirs).values()), (1, 1)), bool)
    changed = empty.copy()
    for label in ours.keys() | theirs.keys():
        changed |= ours.get(label, empty) ^ theirs.get(label, empty)
    return changed


def overlap(first: Sequence[Segment], second: Sequence[Segment]) -> float:
    """Returns the intersection over union (0 to 1) of a label's two masks, averaged over labels; 1 without labels."""
    ours, theirs = by_label(first), by_label(second)
    if not ours | theirs:
        return 1.0
    pairs = [(ours[label], theirs[label]) for label in ours.keys() & theirs.keys()]
    ious = [(one & other).sum() / max(1, (one | other).sum()) for one, other in pairs if one.shape == other.shape]
    return float(sum(ious) / len(ours | theirs))


def agreement(eager: Predictions, compiled: Predictions) -> dict[str, float]:
    both = eager.segments or (), compiled.segments or ()
    return {"mask_iou": overlap(*both), "changed_pixels": float(changed_pixels(*both).mean())}


def difference(reference: Predictions, other: Predictions) -> str:
    try:
        share = overlap(reference.segments or (), other.segments or ())
    except ValueError:  # a damaged stored result
        return "cannot be compared with plain eager: a mask cannot be read"
    return f"has masks that overlap plain eager's by {fmt.percent(share)} only" if share < RUNS_IOU else ""


TASK = Task(
    "image-segmentation",
    "Segmentation",
    ("AutoModelForSemanticSegmentation", "AutoModelForUniversalSegmentation"),
    agreement,
    difference,
    shares={
        "mask_iou": ("the masks overlap by {share}", 0.0),
        "changed_pixels": ("{share} of the pixels changed", 0.0005),
    },
    published="nvidia/segformer-b0-finetuned-ade-512-512",
)
