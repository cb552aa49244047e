"""Object detection: labelled boxes. Figures and pictures count the same pairs, those of `match`."""

from collections.abc import Sequence

import numpy as np

from demo.core.outputs import Box, Predictions
from demo.tasks.task import Task

SAME_IOU = 0.9
"""From this IoU on a box of eager and one of compiled are the same."""
IOU = 0.8
"""The same for two runs, whose settings may differ."""


def match(first: Sequence[Box], second: Sequence[Box], min_iou: float) -> list[tuple[int, int]]:
    """Pairs (index in `first`, index in `second`) of one label with the largest total IoU, by linear assignment.

    No pair has an IoU of NaN or below `min_iou`.
    """
    from scipy.optimize import linear_sum_assignment  # takes 0.3 s to import, which the page's start need not wait for

    ious = [[iou(one, other) if one.label == other.label else 0.0 for other in second] for one in first]
    scores = np.array(ious).reshape(len(first), len(second))
    scores[~(scores >= min_iou)] = 0.0
    rows, columns = linear_sum_assignment(scores, maximize=True)
    return [(int(i), int(j)) for i, j in zip(rows, columns, strict=True) if scores[i, j] > 0]


def iou(one: Box, other: Box) -> float:
    """Intersection over union, whatever the labels; 1 for equal boxes, even without area."""
    if one.box == other.box:
        return 1.0

    def area(x0: float, y0: float, x1: float, y1: float) -> float:
        return max(0.0, x1 - x0) * max(0.0, y1 - y0)

    both = area(*map(max, one.box[:2], other.box[:2]), *map(min, one.box[2:], other.box[2:]))
    union = area(*one.box) + area(*other.box) - both
    return both / union if union > 0 else 0.0


def agreement(eager: Predictions, compiled: Predictions) -> dict[str, float]:
    """The share of boxes with a partner (1 without boxes), and the pairs' lowest IoU and largest score difference."""
    ours, theirs = eager.boxes or (), compiled.boxes or ()
    pairs = [(ours[i], theirs[j]) for i, j in match(ours, theirs, SAME_IOU)]
    total = max(len(ours), len(theirs))
    if not pairs:
        return {"matched_boxes": 0.0 if total else 1.0}
    scores = max(abs(one.score - other.score) for one, other in pairs)
    worst = min(iou(*pair) for pair in pairs)
    return {"matched_boxes": len(pairs) / total, "box_iou": worst, "score_difference": scores}


def difference(reference: Predictions, other: Predictions) -> str:
    ours, theirs = reference.boxes or (), other.boxes or ()
    lost = len(ours) + len(theirs) - 2 * len(match(ours, theirs, IOU))
    return f"has {lost} boxes more, fewer or elsewhere than plain eager" if lost else ""


TASK = Task(
    "object-detection",
    "Detection",
    ("AutoModelForObjectDetection", "AutoModelForZeroShotObjectDetection"),
    agreement,
    difference,
    shares={
        "matched_boxes": ("{share} of the boxes match", 0.0),
        "score_difference": ("scores differ by at most {share}", 0.005),
    },
    takes_queries=True,
    published="facebook/detr-resnet-50",
)
