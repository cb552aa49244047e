"""Marks predicted boxes and segments on a picture. A label has the same colour for eager and for compiled."""

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import metadata
from typing import Literal, NamedTuple, cast

import numpy as np
from PIL import Image, ImageColor, ImageDraw, ImageFilter, ImageFont

from ..core.base64_images import decode_mask
from ..core.format import percent, printable, shorten
from ..core.outputs import Box, ImageInfo, Predictions
from ..tasks.image_segmentation import changed_pixels
from ..tasks.object_detection import SAME_IOU, match
from .colours import CHANGED, COMPILED, EAGER, LABELS

VariantName = Literal["eager", "compiled"]
VARIANTS: tuple[VariantName, ...] = ("eager", "compiled")


def label_colours(labels: Iterable[str]) -> dict[str, str]:
    """Returns a colour for each label, whatever their order. Of more than eight labels, some share a colour."""
    return {label: LABELS[place % len(LABELS)] for place, label in enumerate(sorted(set(labels)))}


def text_on(colour: str) -> str:
    """Returns black or white for text on a mark: for the colours of marks, the one with the better contrast (WCAG).

    For other colours than those of boxes, masks and changed pixels, it may be the one with the worse contrast.
    """
    return "#000000" if ImageColor.getcolor(colour, "L") > 100 else "#FFFFFF"  # type: ignore[operator]


# ---- annotations

MIN_SIDE = 640
"""Pictures whose longer side has fewer pixels are enlarged, by a whole factor."""
ALPHA = 0.5
"""Opacity of a segment's colour, 0 to 1."""
BACKGROUND = "background"
"""The label that segmentation models give to pixels without a class."""
MAX_LABEL_LENGTH = 60
Rect = tuple[int, int, int, int]
Area = Rect | np.ndarray
"""A box (left, top, right, bottom) in pixels, or a mask of the picture's size with each pixel's opacity, 0 to 1."""


class Annotation(NamedTuple):
    """A picture with its marks, in the form that `gr.AnnotatedImage` accepts."""

    image: Image.Image
    marks: list[tuple[Area, str]]
    """The marked areas, each with its caption."""
    colours: dict[str, str]
    """The colour of each caption."""

    def mark(self, area: Area | None, caption: str, colour: str) -> None:
        """Adds a mark with a caption. Does nothing if `area` is None."""
        if area is not None:
            self.marks.append((area, caption))
            self.colours[caption] = colour


def annotate(
    preview: Image.Image, info: ImageInfo, predictions: Mapping[str, Predictions], variant: VariantName
) -> Annotation:
    """Marks on `preview` what `variant` predicted: the box with the highest score or the largest segment first.

    The predicted boxes are in pixels of the picture that the model got, whose size is in `info`. `predictions` has both
    variants, so that a label gets the same colour for both. `BACKGROUND`, an empty segment and a box outside of the
    picture get no mark. Raises ValueError for a mask that cannot be read.
    """
    seen, side = Annotation(_enlarge(preview), [], {}), predictions[variant]
    colours = label_colours(
        item.label for shown in predictions.values() for item in shown.boxes or shown.segments or ()
    )
    for box in sorted(side.boxes or (), key=lambda box: -box.score):
        seen.mark(_rect(box, info, seen.image), _caption(box.label, box.score), colours[box.label])
    for segment in sorted(side.segments or (), key=lambda segment: -segment.area):
        mask = _resize(decode_mask(segment.mask_png), seen.image)
        if segment.label.lower() != BACKGROUND and mask.any():
            name = segment.label.split(",")[0].strip() or segment.label  # 'bed' of a data set's 'bed, bunk, berth'
            seen.mark(mask * ALPHA, _caption(name, segment.score), colours[segment.label])
    return seen


def annotate_difference(
    preview: Image.Image, info: ImageInfo, eager: Predictions, compiled: Predictions
) -> Annotation | None:
    """Marks on `preview` where the predictions of eager and compiled differ; None if they do not differ.

    Marked are pixels with different labels, or boxes without a counterpart in the other prediction. A counterpart has
    the same label, any score, and an intersection over union of `SAME_IOU` or more. Raises ValueError for a mask that
    cannot be read.
    """
    seen = Annotation(_enlarge(preview), [], {})
    if eager.segments is not None and compiled.segments is not None:
        changed = changed_pixels(eager.segments, compiled.segments)
        if changed.any():
            words = percent(changed.mean()) if changed.mean() >= 0.0005 else "under 0.1 %"
            picture = Image.fromarray(_resize(changed, seen.image)).convert("L")
            wider = np.asarray(picture.filter(ImageFilter.MaxFilter(_line_width(seen.image) // 2 * 2 + 1))) / 255
            seen.mark(wider, f"{words} of the pixels differ", CHANGED)
        return seen if seen.marks else None
    ours, theirs = eager.boxes or (), compiled.boxes or ()
    pairs = match(ours, theirs, SAME_IOU)
    for side, (variant, boxes, colour) in enumerate((("eager", ours, EAGER), ("compiled", theirs, COMPILED))):
        matched = {pair[side] for pair in pairs}
        for place, box in enumerate(boxes):
            if place not in matched:
                seen.mark(_rect(box, info, seen.image), _caption(f"only {variant}: {box.label}", box.score), colour)
    return seen if seen.marks else None


def _enlarge(picture: Image.Image) -> Image.Image:
    factor = math.ceil(MIN_SIDE / max(picture.size))
    size = picture.width * factor, picture.height * factor
    return picture.convert("RGB").resize(size, Image.Resampling.NEAREST)  # to be seen as the model gets it


def _line_width(image: Image.Image) -> int:
    return max(2, round(max(image.size) / 160))


def _rect(box: Box, info: ImageInfo, image: Image.Image) -> Rect | None:
    """Converts `box` from pixels of the input picture to pixels of `image`, and cuts it at the edges.

    A small box is enlarged to be visible. Returns None for a box outside of `image`, or with an infinite or NaN corner.
    """
    size, smallest = np.array(image.size), 2 * _line_width(image)
    corners = np.sort(np.array(box.box).reshape(2, 2) * size / (info.width, info.height), axis=0)
    low, high = corners
    if not np.isfinite(corners).all() or (high < 0).any() or (low > size).any():
        return None
    low = np.clip(low, 0, np.maximum(size - smallest, 0))
    x0, y0, x1, y1 = (round(float(edge)) for edge in (*low, *np.maximum(np.minimum(high, size), low + smallest)))
    return x0, y0, x1, y1


def _resize(mask: np.ndarray, image: Image.Image) -> np.ndarray:
    return np.array(Image.fromarray(mask).resize(image.size, Image.Resampling.NEAREST), dtype=bool)


def _caption(label: str, score: float | None) -> str:
    """Returns label and score, 'star 90 %'; only the label if the score is None or not finite."""
    words = "" if score is None or not math.isfinite(score) else f" {percent(score)}"
    return printable_label(label) + words


# ---- drawing

Font = ImageFont.FreeTypeFont


def draw(seen: Annotation) -> Image.Image:
    """Returns the picture with its marks and captions drawn on it, the first mark on top."""
    image = seen.image.copy()
    pen, line, font = ImageDraw.Draw(image), _line_width(image), font_for(max(16, round(max(image.size) * 0.036)))
    for area, caption in reversed(seen.marks):
        colour = seen.colours[caption]
        if isinstance(area, np.ndarray):
            image.paste(colour, mask=Image.fromarray((area * 255).astype(np.uint8)))
            y, x = np.argwhere(area).mean(axis=0)
            at, anchor = (float(x), float(y)), "mm"
        else:
            x0, y0, x1, y1 = area
            pen.rectangle((x0, y0, x1 - 1, y1 - 1), outline=colour, width=line)
            at, anchor = (x0, y0), "la"
        left, top, right, bottom = pen.textbbox(at, caption, font, anchor)
        pen.rectangle((left - line, top - line, right + line, bottom + line), fill=colour)
        pen.text(at, caption, text_on(colour), font, anchor)
    return image


def printable_label(label: str, most: int = MAX_LABEL_LENGTH) -> str:
    """Returns the label on one line of at most `most` characters, without invisible characters."""
    line = printable(label[: 4 * most], kept="").replace("\N{REPLACEMENT CHARACTER}", " ")
    return shorten(" ".join(line.split()), most)


@lru_cache(maxsize=64)
def font_for(size: int, bold: bool = False) -> Font:
    """Returns the page's font, from gradio; without gradio, Pillow's default font. `size` is in pixels."""
    name = f"gradio/templates/frontend/static/fonts/IBMPlexSans/IBMPlexSans-{'Bold' if bold else 'Regular'}.woff2"
    try:
        return ImageFont.truetype(str(metadata.distribution("gradio").locate_file(name)), size)
    except (OSError, metadata.PackageNotFoundError):
        return cast(Font, ImageFont.load_default(float(size)))
