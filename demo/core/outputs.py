"""What a run sees and makes: the picture, what both variants predict, and whether they agree."""

from dataclasses import dataclass, field
from typing import Literal

from demo.core import format as fmt

Verdict = Literal["match", "differ", "not comparable"]


@dataclass(frozen=True)
class Parity:
    """Whether eager and compiled agree: raw outputs as PyTorch's dynamo benchmarks judge them, and predictions."""

    verdict: Verdict
    max_abs_error: float | None
    """Largest absolute difference of any output element; None if not finite or not comparable."""
    reason: str
    """One sentence: which test decided."""
    task: dict[str, float] = field(default_factory=dict)
    """What the task's `agreement` returns: shares from 0 to 1 by name."""


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
    """None for a semantic model, which gives none."""
    area: float
    """Share of the image, 0 to 1."""
    mask_png: str
    """Base64 of a 1-bit PNG; the image's aspect ratio, its long side at most `base64_images.LONG_SIDE` pixels."""

    def __str__(self) -> str:
        return f"{self.label}, {fmt.percent(self.area)} of the picture"


@dataclass(frozen=True)
class Predictions:
    """What one variant saw or wrote. The task decides which is filled."""

    labels: tuple[Label, ...] | None = None
    boxes: tuple[Box, ...] | None = None
    segments: tuple[Segment, ...] | None = None
    segmentation: str | None = None
    """How the segments were decoded: 'semantic', 'instance' or 'panoptic'."""
    text: str | None = None
    """The answer, without its prompt and without special tokens."""
    pieces: tuple[str, ...] | None = None
    """What each token added to the text; '' for a special token, or one that only begins a character."""
    token_ids: tuple[int, ...] | None = None

    def lines(self) -> list[str]:
        """A line of plain text for each thing; [] for nothing."""
        return [str(one) for one in self.labels or self.boxes or self.segments or ([self.text] if self.text else [])]


@dataclass(frozen=True)
class ImageInfo:
    """The picture that was used, upright and in RGB."""

    name: str
    width: int
    height: int
    sha256: str
    """Checksum of the file's bytes."""
    preview_jpeg: str
    """Base64 of a JPEG, long side at most `base64_images.LONG_SIDE` pixels."""


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
    """Why a run's compiled model does not count as agreeing with its own eager one, as a clause; '' if it does.

    It also does if only the float64 reference is missing: then there is a `max_abs_error`.
    """
    if parity is None:
        return "was not compared with its own eager"
    agrees = parity.verdict == "match" or (parity.verdict == "not comparable" and parity.max_abs_error is not None)
    return "" if agrees else f"is not known to agree with its own eager: {parity.reason}"
