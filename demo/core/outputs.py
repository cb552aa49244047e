"""What the outputs of eager and compiled show, and whether they agree as a user would judge it: labels, boxes, masks.

Covered: predictions of two runs of one checkpoint on one picture (`difference`), and the matching of boxes and masks
that `demo.backend.parity` and the drawn differences use as well, so that figures and pictures count the same pairs.
Not covered: raw outputs, which only a run has at hand: `demo.backend.parity` compares those.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from demo.core import format as fmt

SAME_BOX_IOU = 0.9
"""Eager's and compiled's boxes of one run are the same from this IoU on."""
BOX_IOU = 0.8
"""Boxes of two runs, whose settings may differ, are the same from this IoU on."""
MASK_IOU = 0.95
"""Smallest mean IoU over the labels at which the masks of two runs agree."""
SAME_TOKENS = 8
"""First tokens that the answers of two runs must share. Later, one rounding of a half type can lead to another text."""
SCORE = 0.05
"""Largest difference of the first label's score at which two runs agree."""
Verdict = Literal["match", "differ", "not comparable"]


@dataclass(frozen=True)
class Parity:
    """Whether eager and compiled agree: raw outputs as PyTorch's dynamo benchmarks judge them, and predictions."""

    verdict: Verdict
    max_abs_error: float | None
    """Largest absolute difference of any output element; None where it is not finite or not comparable."""
    reason: str
    """One sentence: which test decided."""
    task: dict[str, float] = field(default_factory=dict)
    """Shares from 0 to 1 by name: 'top5_agreement', 'matched_boxes', 'box_iou' (worst pair), 'score_difference'
    (largest of a pair), 'mask_iou', 'changed_pixels', 'same_tokens' (of the answer, before the first other one)."""


@dataclass(frozen=True)
class Label:
    label: str
    score: float


@dataclass(frozen=True)
class Box:
    label: str
    score: float
    box: tuple[float, float, float, float]
    """x0, y0, x1, y1 in pixels of the upright input image."""


@dataclass(frozen=True)
class Segment:
    label: str
    score: float | None
    """None for a semantic model, which gives none."""
    area: float
    """Share of the image, 0 to 1."""
    mask_png: str
    """Base64 of a 1-bit PNG; the image's aspect ratio, its long side at most `MASK_SIDE` pixels."""


MASK_SIDE = 640


@dataclass(frozen=True)
class Predictions:
    """What one variant saw or wrote. The task decides which is filled."""

    labels: tuple[Label, ...] | None = None
    boxes: tuple[Box, ...] | None = None
    segments: tuple[Segment, ...] | None = None
    segmentation: str | None = None
    """How the segments were decoded: 'semantic', 'instance' or 'panoptic'; None of other tasks."""
    text: str | None = None
    """The answer, without its prompt and without marks such as the end of a text."""
    pieces: tuple[str, ...] | None = None
    """What each token added to the text; '' for a mark, and for one that only begins a character."""
    token_ids: tuple[int, ...] | None = None


@dataclass(frozen=True)
class ImageInfo:
    """The picture that was used, upright and in RGB."""

    name: str
    width: int
    height: int
    sha256: str
    """Checksum of the file's bytes."""
    preview_jpeg: str
    """Base64 of a JPEG, long side at most `MASK_SIDE` pixels: lets a stored result be drawn again."""
    note: str = ""
    """What a reader should know of how the file was read; '' for nothing."""


@dataclass(frozen=True)
class EndToEnd:
    """Median seconds of the steps of a request around the forward pass."""

    preprocess_seconds: float
    """One picture, decoded, through the checkpoint's processor."""
    copy_seconds: float
    """The whole batch to the device."""
    postprocess_seconds: float
    """Outputs to labels, boxes or segments, for one picture."""


def with_own_eager(parity: Parity | None) -> str:
    """Why a run's compiled model does not count as agreeing with its own eager one; '' where it does, and where only
    the float64 reference is missing (there is a `max_abs_error`)."""
    if parity is None:
        return "was not compared with its own eager"
    if parity.verdict == "match":
        return ""
    if parity.verdict == "differ":
        return f"differs from its own eager: {parity.reason}"
    return f"cannot be compared with its own eager: {parity.reason}" if parity.max_abs_error is None else ""


def difference(reference: Predictions, other: Predictions) -> str | None:
    """What a user would see change, as the end of a sentence; None where the two agree."""
    if reference.labels and other.labels is not None and not other.labels:  # a NaN score gives no label
        return f"gives no finite score where plain eager sees {reference.labels[0].label}"
    if reference.labels and other.labels:
        first, second = reference.labels[0], other.labels[0]
        if first.label != second.label:
            return f"sees {second.label} where plain eager sees {first.label}"
        if abs(first.score - second.score) > SCORE:
            return f"gives {first.label} {fmt.percent(second.score)} where plain eager gives {fmt.percent(first.score)}"
    if reference.boxes is not None and other.boxes is not None:
        lost = len(reference.boxes) + len(other.boxes) - 2 * len(match_boxes(reference.boxes, other.boxes, BOX_IOU))
        if lost:
            return f"has {lost} boxes more, fewer or elsewhere than plain eager"
    if reference.token_ids is not None and other.token_ids is not None:
        same = same_tokens(reference.token_ids, other.token_ids)
        if same < min(SAME_TOKENS, len(reference.token_ids), len(other.token_ids)):
            return f"writes another text than plain eager from token {same + 1} on"
    if reference.segments is not None and other.segments is not None:
        try:
            overlap = mask_overlap(reference.segments, other.segments)
        except ValueError:  # a stored result was damaged
            return "cannot be compared with plain eager: a mask cannot be read"
        if overlap < MASK_IOU:
            return f"has masks that overlap plain eager's by {fmt.percent(overlap)} only"
    return None


def same_tokens(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two answers begin with that are the same."""
    return next((at for at, (one, other) in enumerate(zip(first, second, strict=False)) if one != other), len(first))


def match_boxes(first: Sequence[Box], second: Sequence[Box], min_iou: float) -> list[tuple[int, int]]:
    """Pairs (index in `first`, index in `second`) with the largest total IoU, by linear assignment.

    Boxes of different labels make no pair, nor do those whose IoU is NaN or below `min_iou`.
    """
    from scipy.optimize import linear_sum_assignment  # takes 0.3 s to import, which the page's start need not wait for

    ious = [[iou(one, other) if one.label == other.label else 0.0 for other in second] for one in first]
    scores = np.array(ious).reshape(len(first), len(second))
    scores[~(scores >= min_iou)] = 0.0
    rows, columns = linear_sum_assignment(scores, maximize=True)
    return [(int(i), int(j)) for i, j in zip(rows, columns, strict=True) if scores[i, j] > 0]


def iou(one: Box, other: Box) -> float:
    """Intersection over union, whatever the labels; 1 for equal boxes, also where they have no area."""
    if one.box == other.box:
        return 1.0

    def area(x0: float, y0: float, x1: float, y1: float) -> float:
        return max(0.0, x1 - x0) * max(0.0, y1 - y0)

    both = area(*map(max, one.box[:2], other.box[:2]), *map(min, one.box[2:], other.box[2:]))
    union = area(*one.box) + area(*other.box) - both
    return both / union if union > 0 else 0.0


def masks(segments: Sequence[Segment]) -> dict[str, np.ndarray]:
    """One mask for each label: those of several segments together."""
    from demo.core import images  # here, because Pillow takes a while to import, and reads `MASK_SIDE` of this file

    by_label: dict[str, np.ndarray] = {}
    for segment in segments:
        mask = images.decode_mask(segment.mask_png)
        by_label[segment.label] = by_label[segment.label] | mask if segment.label in by_label else mask
    return by_label


def changed_pixels(first: Sequence[Segment], second: Sequence[Segment]) -> np.ndarray:
    """True where a label covers a pixel in one of the two only: a bool array of the masks' size, [1, 1] without any."""
    ours, theirs = masks(first), masks(second)
    nothing = np.zeros(next((mask.shape for mask in (ours | theirs).values()), (1, 1)), bool)
    changed = nothing.copy()
    for label in ours.keys() | theirs.keys():
        changed |= ours.get(label, nothing) ^ theirs.get(label, nothing)
    return changed


def mask_overlap(first: Sequence[Segment], second: Sequence[Segment]) -> float:
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
