"""The colours of variants and labels, and pictures with boxes or segments: as annotations, and drawn with Pillow.

A variant has the same colour everywhere. Labels have colours of `PALETTE`, the same in both variants.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import metadata
from typing import Literal, NamedTuple

import numpy as np
from PIL import Image, ImageColor, ImageDraw, ImageFilter, ImageFont

from demo.core.base64_images import decode_mask
from demo.core.format import percent, printable
from demo.core.outputs import Box, ImageInfo, Predictions
from demo.tasks.boxes import SAME_IOU, match
from demo.tasks.masks import changed_pixels

EAGER = "#E69F00"
COMPILED = "#0072B2"
rgb = ImageColor.getrgb
Variant = Literal["eager", "compiled"]
VARIANTS: tuple[Variant, ...] = ("eager", "compiled")

PALETTE = ("#CC3311", "#F0E442", "#332288", "#009E73", "#FFAABB", "#8B5CF6", "#663333", "#DDCC77")
"""Chosen by search so that any two, and any of them and the variants' colours, stay apart in normal vision and with
protanopia and deuteranopia. Eight is what can be told apart; more labels share, and their captions tell them apart."""
CHANGED = "#FF2E93"
PAPER = "#FFFFFF"
INK = "#000000"
LIGHT = 100
"""From this lightness on, of 255, black has the higher WCAG contrast on each colour of `PALETTE`."""
PAGE_INK, PAGE_PAPER, PAGE_SOFT, PAGE_LINE, PAGE_MUTED = "#15181d", "#f4f3ee", "#ebe9e1", "#d5d2c8", "#565b64"
"""Colours of the page in its light theme."""


def label_colours(labels: Iterable[str]) -> dict[str, str]:
    """A colour of `PALETTE` for each label: the same whatever their order, and different while there are enough."""
    return {label: PALETTE[place % len(PALETTE)] for place, label in enumerate(sorted(set(labels)))}


def text_on(colour: str) -> str:
    """`INK` or `PAPER`, whichever can be read on `colour`."""
    return INK if ImageColor.getcolor(colour, "L") > LIGHT else PAPER  # type: ignore[operator]


# Annotations: where a variant sees what, and in which colour

MIN_SIDE = 320
"""Smaller pictures are enlarged by a whole factor until their long side has at least this many pixels."""
DRAWN_SIDE = 640
"""The same for pictures with captions drawn on them."""
ALPHA = 0.5
"""Opacity of the label's colour in the pixels of a segment."""
UNTINTED = ("background",)
"""The label that segmentation models give to pixels of no known class."""
MAX_LABEL_LENGTH = 60
Rect = tuple[int, int, int, int]
Mark = tuple[Rect | np.ndarray, str]
"""A box in pixels of the picture, or a float mask of its size with the opacity of each pixel; and its caption."""


class Annotated(NamedTuple):
    """A picture, and what is marked on it: the value of a `gr.AnnotatedImage` and its `color_map`."""

    image: Image.Image
    marks: list[Mark]
    colours: dict[str, str]
    """By caption."""


def annotated(
    preview: Image.Image, info: ImageInfo, predictions: Mapping[str, Predictions], variant: Variant
) -> Annotated:
    """What `variant` sees: boxes, the most certain first, or segments, the largest first. Raises ValueError for a mask
    that cannot be read."""
    image, side = _enlarged(preview), predictions[variant]
    colours = label_colours(thing.label for one in predictions.values() for thing in one.boxes or one.segments or ())
    found: list[tuple[Rect | np.ndarray, str, str]] = []
    for box in sorted(side.boxes or (), key=lambda box: -box.score):
        if (rect := _rect(box, info, image)) is not None:
            found.append((rect, _caption(box.label, box.score), colours[box.label]))
    for segment in sorted(side.segments or (), key=lambda segment: -segment.area):
        mask = _of_size(decode_mask(segment.mask_png), image)
        if segment.label.lower() not in UNTINTED and mask.any():
            name = segment.label.split(",")[0].strip() or segment.label  # 'bed' of a data set's 'bed, bunk, berth'
            found.append((mask * ALPHA, _caption(name, segment.score), colours[segment.label]))
    return _annotated(image, found)


def difference(preview: Image.Image, info: ImageInfo, eager: Predictions, compiled: Predictions) -> Annotated | None:
    """Where two sets of boxes or segments differ; None where they do not.

    Boxes without a partner of the same label at an IoU of `outputs.SAME_BOX_IOU`, in their variant's colour; pixels
    whose label changed, widened to be seen. Not compared: scores, and which objects of one label a pixel belongs to.
    """
    image = _enlarged(preview)
    if eager.segments is not None and compiled.segments is not None:
        changed = changed_pixels(eager.segments, compiled.segments)
        if not changed.any():
            return None
        share = float(changed.mean())
        shown = "under 0.1 %" if share < 0.0005 else percent(share)
        picture = Image.fromarray(_of_size(changed, image)).convert("L")
        wider = np.asarray(picture.filter(ImageFilter.MaxFilter(_line(image) // 2 * 2 + 1))) / 255
        return _annotated(image, [(wider, f"{shown} of the pixels differ", CHANGED)])
    ours, theirs = eager.boxes or (), compiled.boxes or ()
    pairs = match(ours, theirs, SAME_IOU)
    found: list[tuple[Rect | np.ndarray, str, str]] = []
    for side, (variant, boxes, colour) in enumerate((("eager", ours, EAGER), ("compiled", theirs, COMPILED))):
        matched = {pair[side] for pair in pairs}
        for place, box in enumerate(boxes):
            if place not in matched and (rect := _rect(box, info, image)) is not None:
                found.append((rect, _caption(f"only {variant}: {box.label}", box.score), colour))
    return _annotated(image, found) if found else None


def _annotated(image: Image.Image, found: Sequence[tuple[Rect | np.ndarray, str, str]]) -> Annotated:
    marks = [(place, caption) for place, caption, _ in found]
    return Annotated(image, marks, {caption: colour for _, caption, colour in found})


def _enlarged(picture: Image.Image, least: int = MIN_SIDE) -> Image.Image:
    factor = math.ceil(least / max(picture.size))
    size = picture.width * factor, picture.height * factor
    return picture.convert("RGB").resize(size, Image.Resampling.NEAREST)  # to be seen as the model gets it


def _line(image: Image.Image) -> int:
    """Pixels of the width of a line on this picture."""
    return max(2, round(max(image.size) / 160))


def _rect(box: Box, info: ImageInfo, image: Image.Image) -> Rect | None:
    """A box of the input picture on `image`, clamped to it; None if it is not finite or lies outside."""
    if not all(map(math.isfinite, box.box)):
        return None
    width, height = image.size
    x0, x1 = sorted(value * width / info.width for value in box.box[0::2])
    y0, y1 = sorted(value * height / info.height for value in box.box[1::2])
    if x1 < 0 or y1 < 0 or x0 > width or y0 > height:
        return None
    smallest = 2 * _line(image)
    x0, y0 = max(0, min(x0, width - smallest)), max(0, min(y0, height - smallest))
    x1, y1 = max(min(x1, width), x0 + smallest), max(min(y1, height), y0 + smallest)
    return round(x0), round(y0), round(x1), round(y1)


def _of_size(mask: np.ndarray, image: Image.Image) -> np.ndarray:
    """A bool mask in the picture's size."""
    return np.array(Image.fromarray(mask).resize(image.size, Image.Resampling.NEAREST), dtype=bool)


def _caption(label: str, score: float | None) -> str:
    """'star 90 %', on one line."""
    shown = "" if score is None or not math.isfinite(score) else f" {percent(score)}"
    return printable_label(label) + shown


# Drawn

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def draw(shown: Annotated) -> Image.Image:
    """The picture with its marks and their captions drawn on it; the first mark lies on top."""
    image = _enlarged(shown.image, DRAWN_SIDE)
    pen, line, factor = ImageDraw.Draw(image), _line(image), image.width // shown.image.width
    font = font_for(max(16, round(max(image.size) * 0.036)))
    for place, caption in reversed(shown.marks):
        colour = shown.colours[caption]
        if isinstance(place, np.ndarray):
            mask = place.repeat(factor, 0).repeat(factor, 1)
            image.paste(colour, mask=Image.fromarray((mask * 255).astype(np.uint8)))
            y, x = np.argwhere(mask).mean(axis=0)
            at, anchor = (float(x), float(y)), "mm"
        else:
            x0, y0, x1, y1 = (edge * factor for edge in place)
            pen.rectangle((x0, y0, x1 - 1, y1 - 1), outline=colour, width=line)
            at, anchor = (x0, y0), "la"
        left, top, right, bottom = pen.textbbox(at, caption, font, anchor)
        pen.rectangle((left - line, top - line, right + line, bottom + line), fill=colour)
        pen.text(at, caption, text_on(colour), font, anchor)
    return image


def printable_label(label: str, most: int = MAX_LABEL_LENGTH) -> str:
    """One line of at most `most` letters, without what `format.printable` replaces."""
    shown = printable(label[: 4 * most], kept="").replace("\N{REPLACEMENT CHARACTER}", " ")
    text = " ".join(shown.split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def cut(text: str, font: Font, room: float) -> str:
    """`text` on one line of at most `room` pixels."""
    while font.getlength(text) > room:
        text = f"{text[:-2].rstrip()}…"
    return text


@lru_cache(maxsize=64)
def font_for(size: int, bold: bool = False) -> Font:
    """The page's typeface, which is in gradio's package; without it Pillow's own. A letter that it lacks is a box."""
    name = f"gradio/templates/frontend/static/fonts/IBMPlexSans/IBMPlexSans-{'Bold' if bold else 'Regular'}.woff2"
    try:
        return ImageFont.truetype(str(metadata.distribution("gradio").locate_file(name)), size)
    except OSError:
        return ImageFont.load_default(size)
