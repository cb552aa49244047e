"""Whether two runs of one checkpoint on one picture saw the same, as a user would judge it: by labels, boxes, masks.

A run compares its compiled model with its own eager one (`demo.backend.parity`); this compares across runs, whose
settings may differ, where raw outputs are no longer at hand. How far boxes and masks overlap both ask here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from demo.core import format as fmt
from demo.core import images
from demo.core.result import Box, Parity, Predictions, Segment

BOX_IOU = 0.8
MASK_IOU = 0.95
"""On average over the labels."""
SCORE = 0.05
"""How far the first label's score may move."""


def with_own_eager(parity: Parity | None) -> str:
    """Why a run's compiled model cannot be said to agree with its own eager one; '' where nothing speaks against it.

    Where only the float64 reference was missing there is a largest error, and the doubt is no reason to drop it.
    """
    if parity is None:
        return "was not compared with its own eager"
    if parity.verdict == "match":
        return ""
    if parity.verdict == "differ":
        return f"differs from its own eager: {parity.reason}"
    return f"cannot be compared with its own eager: {parity.reason}" if parity.max_abs_error is None else ""


def difference(reference: Predictions, other: Predictions) -> str | None:
    """What a user would see change, as the end of a sentence; None where the two agree."""
    if reference.labels and other.labels is not None and not other.labels:  # a score that is no number makes no label
        return f"gives no finite score where plain eager sees {reference.labels[0].label}"
    if reference.labels and other.labels:
        first, second = reference.labels[0], other.labels[0]
        if first.label != second.label:
            return f"sees {second.label} where plain eager sees {first.label}"
        if abs(first.score - second.score) > SCORE:
            return f"gives {first.label} {fmt.percent(second.score)} where plain eager gives {fmt.percent(first.score)}"
    if reference.boxes is not None and other.boxes is not None:
        lost = len(reference.boxes) + len(other.boxes) - 2 * len(pairs(reference.boxes, other.boxes, BOX_IOU))
        if lost:
            return f"has {lost} boxes more, fewer or elsewhere than plain eager"
    if reference.segments is not None and other.segments is not None:
        overlap = _overlap(reference.segments, other.segments)
        if overlap < MASK_IOU:
            return f"has masks that overlap plain eager's by {fmt.percent(overlap)} only"
    return None


def pairs(first: Sequence[Box], second: Sequence[Box], least_iou: float) -> list[tuple[Box, Box]]:
    """Boxes of one label that overlap by `least_iou` or more; each box of `first` takes the best one that is left."""
    left, found = list(second), []
    for box in first:
        alike = [other for other in left if other.label == box.label]
        partner = max(alike, key=lambda other: iou(box, other), default=None)
        if partner is not None and iou(box, partner) >= least_iou:
            left.remove(partner)
            found.append((box, partner))
    return found


def iou(one: Box, other: Box) -> float:
    """Intersection over union, whatever the labels; 1 for equal boxes, also where they have no area."""
    if one.box == other.box:
        return 1.0
    width = min(one.box[2], other.box[2]) - max(one.box[0], other.box[0])
    height = min(one.box[3], other.box[3]) - max(one.box[1], other.box[1])
    both = max(0.0, width) * max(0.0, height)
    union = _area(one) + _area(other) - both
    return both / union if union > 0 else 0.0


def _area(box: Box) -> float:
    x0, y0, x1, y1 = box.box
    return max(0.0, x1 - x0) * max(0.0, y1 - y0)


def masks(segments: Sequence[Segment]) -> dict[str, np.ndarray]:
    """One mask for each label: those of several segments together."""
    found: dict[str, np.ndarray] = {}
    for segment in segments:
        mask = images.decode_mask(segment.mask_png)
        found[segment.label] = found[segment.label] | mask if segment.label in found else mask
    return found


def _overlap(first: Sequence[Segment], second: Sequence[Segment]) -> float:
    """Mean over the labels of either of their masks' intersection over union; 1 where there are none."""
    ours, theirs = masks(first), masks(second)
    shares = []
    for label in ours.keys() | theirs.keys():
        one, other = ours.get(label), theirs.get(label)
        if one is None or other is None or one.shape != other.shape:
            shares.append(0.0)
        else:
            shares.append(float((one & other).sum() / max(1, (one | other).sum())))
    return float(np.mean(shares)) if shares else 1.0
