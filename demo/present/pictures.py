"""Marks predicted boxes and segments on a picture, for gradio or drawn with Pillow.

A label has the same colour in the eager and in the compiled picture.
"""

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import metadata
from typing import Literal, NamedTuple

import numpy as np
from PIL import Image, ImageColor, ImageDraw, ImageFilter, ImageFont

from demo.core.base64_images import decode_mask
from demo.core.format import percent, printable, shorten
from demo.core.outputs import Box, ImageInfo, Predictions
from demo.present.colours import CHANGED, COMPILED, EAGER, LABELS
from demo.tasks.boxes import SAME_IOU, match
from demo.tasks.masks import changed_pixels

Variant = Literal["eager", "compiled"]
VARIANTS: tuple[Variant, ...] = ("eager", "compiled")


def label_colours(labels: Iterable[str]) -> dict[str, str]:
    """Returns a colour for each label, whatever their order; labels share colours only if there are more than eight."""
    return {label: LABELS[place % len(LABELS)] for place, label in enumerate(sorted(set(labels)))}


def text_on(colour: str) -> str:
    """Returns black or white for text on a colour of `LABELS`, whichever has the higher WCAG contrast."""
    return "#000000" if ImageColor.getcolor(colour, "L") > 100 else "#FFFFFF"  # type: ignore[operator]


# ---- annotations

MIN_SIDE = 640
"""Least length of a picture's long side in pixels. Smaller pictures are enlarged by a whole factor."""
ALPHA = 0.5
"""Opacity of a segment's colour over the picture, 0 to 1."""
BACKGROUND = "background"
"""The label that segmentation models give to pixels of no class."""
MAX_LABEL_LENGTH = 60
Rect = tuple[int, int, int, int]
Area = Rect | np.ndarray
"""A box (left, top, right, bottom) in pixels, or a float mask of the picture's size: each pixel's opacity, 0 to
1."""


class Annotation(NamedTuple):
    """A picture with its marks: the value and the `color_map` of a `gr.AnnotatedImage`."""

    image: Image.Image
    marks: list[tuple[Area, str]]
    """Each an area and its caption."""
    colours: dict[str, str]
    """Caption to colour."""

    def mark(self, area: Area | None, caption: str, colour: str) -> None:
        """Adds a mark; does nothing if `area` is None, the place of a box outside the picture."""
        if area is not None:
            self.marks.append((area, caption))
            self.colours[caption] = colour


def annotate(
    preview: Image.Image, info: ImageInfo, predictions: Mapping[str, Predictions], variant: Variant
) -> Annotation:
    """Returns the picture with what `variant` predicts: boxes, the most certain first, or segments, the largest first.

    Raises ValueError for a mask that cannot be read.
    """
    seen, side = Annotation(_enlarge(preview), [], {}), predictions[variant]
    colours = label_colours(thing.label for one in predictions.values() for thing in one.boxes or one.segments or ())
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
    """Returns the picture with the differences between eager and compiled marked; None if there are none.

    Boxes: those without a partner of the same label at an IoU of `SAME_IOU` or more, in their variant's colour.
    Segments: the pixels whose label changed, widened to be visible. Scores and separate objects are not compared.
    """
    seen = Annotation(_enlarge(preview), [], {})
    if eager.segments is not None and compiled.segments is not None:
        changed = changed_pixels(eager.segments, compiled.segments)
        if changed.any():
            share = float(changed.mean())
            words = "under 0.1 %" if share < 0.0005 else percent(share)
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
    """Returns `box` in pixels of `image`, clamped to its edges; None if a corner is not finite or all lies outside.

    `box` itself is in pixels of the input picture, whose size `info` holds. The result is never too small to be
    seen.
    """
    size, smallest = np.array(image.size), 2 * _line_width(image)
    corners = np.array(box.box).reshape(2, 2) * size / (info.width, info.height)
    low, high = corners.min(axis=0), corners.max(axis=0)
    if not np.isfinite(corners).all() or (high < 0).any() or (low > size).any():
        return None
    low = np.clip(low, 0, np.maximum(size - smallest, 0))
    x0, y0, x1, y1 = (round(float(edge)) for edge in (*low, *np.maximum(np.minimum(high, size), low + smallest)))
    return x0, y0, x1, y1


def _resize(mask: np.ndarray, image: Image.Image) -> np.ndarray:
    """Returns a bool mask of the size of `image`."""
    return np.array(Image.fromarray(mask).resize(image.size, Image.Resampling.NEAREST), dtype=bool)


def _caption(label: str, score: float | None) -> str:
    """Returns label and score on one line: 'star 90 %'; only the label if the score is None or not finite."""
    words = "" if score is None or not math.isfinite(score) else f" {percent(score)}"
    return printable_label(label) + words


# ---- drawing

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def draw(seen: Annotation) -> Image.Image:
    """Returns the picture with its marks and captions drawn on it; the first mark lies on top."""
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
    """Returns the label on one line of at most `most` characters, without the invisible ones."""
    line = printable(label[: 4 * most], kept="").replace("\N{REPLACEMENT CHARACTER}", " ")
    return shorten(" ".join(line.split()), most)


@lru_cache(maxsize=64)
def font_for(size: int, bold: bool = False) -> Font:
    """Returns the page's font, from gradio's package, else Pillow's own. `size` is in pixels."""
    name = f"gradio/templates/frontend/static/fonts/IBMPlexSans/IBMPlexSans-{'Bold' if bold else 'Regular'}.woff2"
    try:
        return ImageFont.truetype(str(metadata.distribution("gradio").locate_file(name)), size)
    except OSError:
        return ImageFont.load_default(size)
