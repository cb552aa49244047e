"""The input picture of a run, the predictions of both variants (eager and compiled), and whether the two agree."""

from dataclasses import dataclass, field
from typing import Literal

from demo.core import format as fmt

Verdict = Literal["match", "differ", "not comparable"]


@dataclass(frozen=True)
class Parity:
    """Whether eager and compiled agree, in raw outputs (judged as in PyTorch's dynamo benchmarks) and predictions."""

    verdict: Verdict
    max_abs_error: float | None
    """Largest absolute difference of any output element; None if not finite or not comparable."""
    reason: str
    """One sentence that says which test decided the verdict."""
    task: dict[str, float] = field(default_factory=dict)
    """How far the predictions agree, by `Task.agreement`: {'top5_agreement': 1.0}, shares from 0 to 1."""


@dataclass(frozen=True)
class Label:
    label: str
    score: float

    def __str__(self) -> str:
        return f"{self.label} {fmt.percent(self.score)}"


@dataclass(frozen=True)
class Box:
    label: str
    score: float
    box: tuple[float, float, float, float]
    """x0, y0, x1, y1 in pixels of the upright input image."""

    def __str__(self) -> str:
        return f"{self.label} {fmt.percent(self.score)} at {', '.join(f'{edge:.0f}' for edge in self.box)}"


@dataclass(frozen=True)
class Segment:
    label: str
    score: float | None
    """None for a semantic model, which scores pixels and no segments."""
    area: float
    """Share of the image that the segment covers, 0 to 1."""
    mask_png: str
    """The mask as base64 of a 1-bit PNG with the image's aspect ratio, scaled down by `encode_mask`."""

    def __str__(self) -> str:
        return f"{self.label}, {fmt.percent(self.area)} of the picture"


@dataclass(frozen=True)
class Predictions:
    """What one variant saw in the picture or wrote.

    The task decides which fields are filled; the others are None.
    """

    labels: tuple[Label, ...] | None = None
    boxes: tuple[Box, ...] | None = None
    segments: tuple[Segment, ...] | None = None
    segmentation: str | None = None
    """How the segments were decoded: 'semantic', 'instance' or 'panoptic'."""
    text: str | None = None
    """The generated text, without its prompt and without special tokens."""
    pieces: tuple[str, ...] | None = None
    """The text that each token added; '' for a special token, or for a token that only begins a character."""
    token_ids: tuple[int, ...] | None = None

    def lines(self) -> list[str]:
        """Returns a line of plain text for each label, box or segment, or the generated text; [] for nothing."""
        return [str(one) for one in self.labels or self.boxes or self.segments or ([self.text] if self.text else [])]


@dataclass(frozen=True)
class ImageInfo:
    """The picture that was used. Width and height are those of the upright picture, in pixels."""

    name: str
    width: int
    height: int
    sha256: str
    """Checksum of the file's bytes."""
    preview_jpeg: str
    """A small version as base64 of a JPEG, made by `encode_preview`."""


@dataclass(frozen=True)
class EndToEnd:
    """Median times of the steps of a request before and after the model's call."""

    preprocess_seconds: float
    """Time to decode one picture and to prepare it with the checkpoint's processor."""
    copy_seconds: float
    """Time to copy the whole batch to the device."""
    postprocess_seconds: float
    """Time to turn outputs into labels, boxes or segments, for one picture."""


def difference_from_eager(parity: Parity | None) -> str:
    """Returns why a run's compiled outputs do not count as equal to its eager ones, as a clause; '' if they do."""
    if parity is None:
        return "was not compared with its own eager"
    # Not comparable, but with a number: only the float64 reference is missing.
    agrees = parity.verdict == "match" or (parity.verdict == "not comparable" and parity.max_abs_error is not None)
    return "" if agrees else f"is not known to agree with its own eager: {parity.reason}"
