"""The task object detection, whose predictions are labelled boxes: how two sets of boxes are compared."""

from collections.abc import Sequence

import numpy as np

from ..core.outputs import Box, Predictions
from .task import Task

SAME_IOU = 0.9
"""An eager and a compiled box count as the same if their intersection over union (IoU) is at least this."""
RUNS_IOU = 0.8
"""Boxes of two runs with different settings count as the same if their intersection over union is at least this."""


def match(first: Sequence[Box], second: Sequence[Box], min_iou: float) -> list[tuple[int, int]]:
    """Returns index pairs of boxes with equal labels and an intersection over union (IoU) of at least `min_iou`.

    A pair is (index in `first`, index in `second`). Each box is in at most one pair. Of all possible pairings, the one
    with the largest sum of IoUs is returned (linear assignment).
    """
    from scipy.optimize import linear_sum_assignment  # here, because its import takes 0.3 s of the page's start

    ious = [[iou(one, other) if one.label == other.label else 0.0 for other in second] for one in first]
    scores = np.array(ious).reshape(len(first), len(second))
    scores[~(scores >= min_iou)] = 0.0
    rows, columns = linear_sum_assignment(scores, maximize=True)
    return [(int(i), int(j)) for i, j in zip(rows, columns, strict=True) if scores[i, j] > 0]


def iou(one: Box, other: Box) -> float:
    """Returns the intersection over union of two boxes, 0 to 1, whatever their labels."""
    if one.box == other.box:
        return 1.0

    def area(x0: float, y0: float, x1: float, y1: float) -> float:
        return max(0.0, x1 - x0) * max(0.0, y1 - y0)

    both = area(*map(max, one.box[:2], other.box[:2]), *map(min, one.box[2:], other.box[2:]))
    union = area(*one.box) + area(*other.box) - both
    return both / union if union > 0 else 0.0


def agreement(eager: Predictions, compiled: Predictions) -> dict[str, float]:
    """Returns 'matched_boxes', and if any box matches also 'box_iou' and 'score_difference'.

    - 'matched_boxes': matched pairs, divided by the boxes of eager or of compiled, whichever are more; 1 without boxes.
    - 'box_iou': the lowest IoU of a matched pair. 'score_difference': the largest difference of a pair's two scores.
    """
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
    boxes = max(len(ours), len(theirs))
    pairs = len(match(ours, theirs, RUNS_IOU))
    return f"shares {pairs} of {boxes} boxes with plain eager" if pairs < boxes else ""


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
