"""The input picture of a run, the predictions of eager and compiled, and whether the two agree."""

from dataclasses import dataclass, field
from typing import Literal

from . import format as fmt

ParityVerdict = Literal["match", "differ", "not comparable"]


@dataclass(frozen=True)
class Parity:
    """Whether the outputs of eager and compiled agree, by the rule of PyTorch's own benchmarks, with further checks."""

    verdict: ParityVerdict
    max_abs_error: float | None
    """Largest absolute difference between two output elements. None if it is not finite, if nothing was compared, or if
    it is left open whether the outputs agree (`unknown`)."""
    reason: str
    """A sentence that says which test decided the verdict."""
    task: dict[str, float] = field(default_factory=dict)
    """How far the predictions agree or differ, from 0 to 1: {'top5_agreement': 1.0}, {'score_difference': 0.0, ...}."""

    @property
    def unknown(self) -> bool:
        """Whether it is not known if the outputs agree.

        They could not be compared, or they are far apart and no test could say that compiled is wrong.
        """
        return self.verdict == "not comparable" and self.max_abs_error is None


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
    """x0, y0, x1, y1 in pixels of the upright picture."""

    def __str__(self) -> str:
        return f"{self.label} {fmt.percent(self.score)} at {', '.join(f'{edge:.0f}' for edge in self.box)}"


@dataclass(frozen=True)
class Segment:
    label: str
    score: float | None
    """The model's confidence, 0 to 1; None for semantic segmentation, which scores pixels instead of segments."""
    area: float
    """Share of the picture that the segment covers, 0 to 1."""
    mask_png: str
    """The mask as base64 of a 1-bit PNG, scaled down to a side of 640 pixels at most."""

    def __str__(self) -> str:
        return f"{self.label}, {fmt.percent(self.area)} of the picture"


@dataclass(frozen=True)
class Predictions:
    """What a model predicted: labels, boxes or segments of a picture, or a text. Other tasks' fields are None."""

    labels: tuple[Label, ...] | None = None
    boxes: tuple[Box, ...] | None = None
    segments: tuple[Segment, ...] | None = None
    segmentation: str | None = None
    """How the outputs became segments: 'semantic', 'instance' or 'panoptic'."""
    text: str | None = None
    """The generated text, without its prompt and without special tokens."""
    pieces: tuple[str, ...] | None = None
    """The text that each token added; '' for a special token, or one that ends in the middle of a character."""
    token_ids: tuple[int, ...] | None = None
    ties: tuple[tuple[int, ...], ...] | None = None
    """For each token of `token_ids`, the ids of all tokens that were equally likely within rounding, itself among them.

    () if it is the only one. If there are more than 100, only the lowest 100 ids.
    """

    def lines(self) -> list[str]:
        """Returns the predictions as plain text: an entry for each label, box or segment, or the one generated text.

        Returns [] if nothing was predicted.
        """
        text = [self.text] if self.text else []
        return [str(prediction) for prediction in self.labels or self.boxes or self.segments or text]


@dataclass(frozen=True)
class ImageInfo:
    """The picture of a run. `width` and `height` are in pixels, after the picture was turned upright."""

    name: str
    width: int
    height: int
    sha256: str
    preview_jpeg: str
    """The picture as base64 of a JPEG, scaled down to a side of 640 pixels at most."""
    transparent: bool = False
    """Whether the picture has transparent parts and is all white once these are filled with white.

    The model then sees nothing of the picture. All white: all channels of all pixels are above `images.NEARLY_WHITE`.
    """
    white: int | None = None
    """The largest value in the picture's file if it was taken as white, else None.

    Only for a dark picture with 16 bits a channel, whose file names no white below 65535."""


@dataclass(frozen=True)
class EndToEnd:
    """Median seconds of the parts of a request around the model's call.

    `copy_seconds` are of a whole batch, the other fields of one picture.
    """

    preprocess_seconds: float
    copy_seconds: float
    postprocess_seconds: float


def difference_from_eager(parity: Parity | None) -> str:
    """Returns, as a clause, why compiled's outputs do not count as equal to eager's; '' if they count as equal."""
    if parity is None:
        return "was not compared with its own eager"
    agrees = parity.verdict != "differ" and not parity.unknown
    return "" if agrees else f"is not known to agree with its own eager: {parity.reason}"
