"""Whether two runs of one checkpoint on one picture saw the same, as a user would judge it: by labels, boxes, masks.

A run compares its compiled model with its own eager one; this compares across runs, whose settings may differ, where
raw outputs are no longer at hand.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from demo import format as fmt
from demo import images
from demo.schema import Box, Parity, Predictions, Segment

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
        lost = _unmatched(reference.boxes, other.boxes)
        if lost:
            return f"has {lost} boxes more, fewer or elsewhere than plain eager"
    if reference.segments is not None and other.segments is not None:
        overlap = _overlap(reference.segments, other.segments)
        if overlap < MASK_IOU:
            return f"has masks that overlap plain eager's by {fmt.percent(overlap)} only"
    return None


def _unmatched(first: Sequence[Box], second: Sequence[Box]) -> int:
    """Boxes of either without a partner of the same label at `BOX_IOU` or more."""
    left, pairs = list(second), 0
    for box in first:
        alike = [other for other in left if other.label == box.label]
        partner = max(alike, key=lambda other: _iou(box.box, other.box), default=None)
        if partner is not None and _iou(box.box, partner.box) >= BOX_IOU:
            left.remove(partner)
            pairs += 1
    return len(first) + len(second) - 2 * pairs


def _iou(first: tuple[float, ...], second: tuple[float, ...]) -> float:
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    both = max(0.0, width) * max(0.0, height)
    union = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)) - both
    return both / union if union > 0 else 0.0


def _overlap(first: Sequence[Segment], second: Sequence[Segment]) -> float:
    """Mean over the labels of either of their masks' intersection over union; 1 where there are none."""
    ours, theirs = _masks(first), _masks(second)
    shares = []
    for label in ours.keys() | theirs.keys():
        one, other = ours.get(label), theirs.get(label)
        if one is None or other is None or one.shape != other.shape:
            shares.append(0.0)
        else:
            shares.append(float((one & other).sum() / max(1, (one | other).sum())))
    return float(np.mean(shares)) if shares else 1.0


def _masks(segments: Sequence[Segment]) -> dict[str, np.ndarray]:
    masks: dict[str, np.ndarray] = {}
    for segment in segments:
        mask = images.decode_mask(segment.mask_png)
        masks[segment.label] = masks[segment.label] | mask if segment.label in masks else mask
    return masks
