"""The colours of variants and labels, and what Pillow draws with them: a picture with its labels, boxes or segments.

A variant has the same colour everywhere. Labels have colours of `PALETTE`, the same in both variants.
"""

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import metadata
from typing import Literal, NamedTuple

import numpy as np
from PIL import Image, ImageColor, ImageDraw, ImageFont

from demo.core.base64_images import decode_mask
from demo.core.format import percent, printable
from demo.core.outputs import Box, ImageInfo, Predictions
from demo.tasks.boxes import SAME_IOU, match
from demo.tasks.masks import changed_pixels

EAGER = "#E69F00"
COMPILED = "#0072B2"
rgb = ImageColor.getrgb
Variant = Literal["eager", "compiled"]
VARIANTS: dict[Variant, str] = {"eager": EAGER, "compiled": COMPILED}

PALETTE = ("#CC3311", "#F0E442", "#332288", "#009E73", "#FFAABB", "#8B5CF6", "#663333", "#DDCC77")
"""Chosen by search so that any two, and any of them and the variants' colours, stay apart in normal vision and with
protanopia and deuteranopia. Eight is what can be told apart; more labels share, and their captions tell them apart."""
CHANGED = "#FF2E93"
PAPER = "#FFFFFF"
INK = "#000000"
PAGE_INK, PAGE_PAPER, PAGE_SOFT, PAGE_LINE, PAGE_MUTED = "#15181d", "#f4f3ee", "#ebe9e1", "#d5d2c8", "#565b64"
"""Colours of the page in its light theme."""
PAD = "#6B7280"
"""Grey of a badge whose answer is neither faster nor slower."""


def label_colours(labels: Iterable[str]) -> dict[str, str]:
    """A colour of `PALETTE` for each label: the same whatever their order, and different while there are enough."""
    return {label: PALETTE[place % len(PALETTE)] for place, label in enumerate(sorted(set(labels)))}


def text_on(colour: str) -> str:
    """`INK` or `PAPER`, whichever has the higher WCAG contrast on `colour`."""
    return max((INK, PAPER), key=lambda text: contrast(text, colour))


def contrast(one: str, other: str) -> float:
    """WCAG 2 contrast ratio of two hex colours, 1 to 21."""

    def luminance(colour: str) -> float:
        channels = [value / 255 for value in rgb(colour)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


# The canvas

MIN_SIDE = 640
"""Smaller pictures are enlarged by a whole factor until their long side has at least this many pixels."""
PIXEL_ART = 128
"""Up to this long side a picture is enlarged pixel by pixel, to be seen as the model gets it; smoothly above."""
TINT = 0.45
"""Share of the label's colour in the pixels of a segment."""
CAPTIONS = 12
"""This many captions are always written, even one over another; further ones only where there is room."""
Rect = tuple[int, int, int, int]
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
MAX_LABEL_LENGTH = 60


class _Chip(NamedTuple):
    """A caption of one line, laid out; sizes in pixels."""

    text: str
    font: Font
    width: int
    height: int
    padding: int


class Canvas:
    """A preview, enlarged, that is drawn on. Coordinates are its pixels unless a name says otherwise."""

    def __init__(self, preview: Image.Image, faded: bool = False) -> None:
        factor = math.ceil(MIN_SIDE / max(preview.size))
        how = Image.Resampling.BICUBIC if max(preview.size) > PIXEL_ART else Image.Resampling.NEAREST
        self.image = preview.convert("RGB").resize((preview.width * factor, preview.height * factor), how)
        if faded:
            grey = self.image.convert("L").convert("RGB")
            self.image = Image.blend(grey, Image.new("RGB", grey.size, PAPER), 0.45)
        self.taken: list[Rect] = []
        """Captions written so far."""

    @property
    def line(self) -> int:
        return max(2, round(max(self.image.size) / 160))

    @property
    def font_size(self) -> int:
        return max(16, round(max(self.image.size) * 0.036))

    def caption_size(self, captions: int) -> int:
        """The font size for so many captions: smaller for many, never under two thirds."""
        return round(self.font_size * min(1.0, max(0.66, (8 / max(1, captions)) ** 0.5)))

    def rect(self, box: Box, info: ImageInfo) -> Rect | None:
        """A box of the input image on the canvas, clamped to the picture; None if it is not finite or lies outside."""
        if not all(map(math.isfinite, box.box)):
            return None
        width, height = self.image.size
        x0, x1 = sorted(value * width / info.width for value in box.box[0::2])
        y0, y1 = sorted(value * height / info.height for value in box.box[1::2])
        if x1 < 0 or y1 < 0 or x0 > width or y0 > height:
            return None
        smallest = 2 * self.line
        x0, y0 = max(0, min(x0, width - smallest)), max(0, min(y0, height - smallest))
        x1, y1 = max(min(x1, width), x0 + smallest), max(min(y1, height), y0 + smallest)
        return round(x0), round(y0), round(x1) - 1, round(y1) - 1

    def outline(self, rect: Rect, colour: str) -> None:
        """A frame just inside `rect`, with a thin inner line of contrasting brightness to be visible on any picture."""
        pen = ImageDraw.Draw(self.image)
        inner = tuple(value + (self.line if place < 2 else -self.line) for place, value in enumerate(rect))
        if inner[0] < inner[2] and inner[1] < inner[3]:
            pen.rectangle(inner, outline=text_on(colour), width=1)
        pen.rectangle(rect, outline=colour, width=self.line)

    def enlarged(self, mask: np.ndarray) -> np.ndarray:
        """A bool mask in the canvas's size."""
        return np.array(Image.fromarray(mask).resize(self.image.size, Image.Resampling.NEAREST), dtype=bool)

    def tint(self, masks: list[tuple[np.ndarray, str]]) -> None:
        """All fills first, then all edges, so that a small segment does not cover a large one's edge."""
        pixels = np.array(self.image)
        for mask, colour in masks:
            pixels[mask] = (pixels[mask] * (1 - TINT) + np.array(rgb(colour)) * TINT).round().astype(np.uint8)
        for mask, colour in masks:
            pixels[mask & ~eroded(mask, (self.line + 1) // 2)] = rgb(colour)
        self.image = Image.fromarray(pixels)

    def highlight(self, changed: np.ndarray) -> None:
        wider = ~eroded(~self.enlarged(changed), self.line // 2)
        self.image.paste(CHANGED, (0, 0), Image.fromarray(wider))

    def chip(self, label: str, score: float | None, size: int) -> _Chip:
        """A caption of one line, shortened until it fits; the score is never cut."""
        label = printable_label(label)
        shown = "" if score is None or not math.isfinite(score) else f" {percent(score)}"
        font = font_for(size)
        padding = max(2, round(size * 0.3))
        room = max(round(self.image.width * 0.7), min(self.image.width, 14 * size)) - 2 * padding
        text = cut(label, font, room, shown)
        width = math.ceil(font.getlength(text)) + 2 * padding
        return _Chip(text, font, min(width, self.image.width), min(round(size * 1.4), self.image.height), padding)

    def caption(self, chip: _Chip, at: tuple[int, int], colour: str) -> None:
        """Draws the caption at `at`, or as little below as lets it cover no other; over one where there is no room."""
        width, height = self.image.size
        x, first = max(0, min(at[0], width - chip.width)), max(0, min(at[1], height - chip.height))
        for y in range(first, height - chip.height + 1, max(1, chip.height // 2)):
            rect = (x, y, x + chip.width, y + chip.height)
            if not any(overlap(rect, other) for other in self.taken):
                return self.paste(chip, (x, y), colour)
        if len(self.taken) < CAPTIONS:
            self.paste(chip, (x, first), colour)

    def paste(self, chip: _Chip, at: tuple[int, int], colour: str) -> None:
        pen = ImageDraw.Draw(self.image)
        rect = (at[0], at[1], at[0] + chip.width, at[1] + chip.height)
        box = (rect[0], rect[1], rect[2] - 1, rect[3] - 1)
        pen.rounded_rectangle(box, radius=chip.height // 6, fill=colour, outline=text_on(colour), width=1)
        middle = (at[0] + chip.padding, at[1] + chip.height // 2)
        pen.text(middle, chip.text, fill=text_on(colour), font=chip.font, anchor="lm")
        self.taken.append(rect)

    def note(self, text: str, colour: str = INK) -> None:
        chip = self.chip(text, None, self.font_size)
        self.paste(chip, (self.line, self.image.height - chip.height - self.line), colour)


def thickest_point(mask: np.ndarray) -> tuple[int, int]:
    """x and y of a pixel of `mask` that is as far as any from the mask's edges and the picture's."""
    from scipy.ndimage import distance_transform_cdt  # imported here: the page's start needs none of it

    distance = distance_transform_cdt(np.pad(mask, 1))[1:-1, 1:-1]
    y, x = np.unravel_index(np.argmax(distance), mask.shape)
    return int(x), int(y)


def eroded(mask: np.ndarray, pixels: int) -> np.ndarray:
    """A bool mask without its outer `pixels` (a square brush); the picture's border is not an edge."""
    from scipy.ndimage import minimum_filter

    return minimum_filter(mask, size=2 * pixels + 1, mode="nearest")


def overlap(one: Rect, other: Rect) -> bool:
    return max(one[0], other[0]) < min(one[2], other[2]) and max(one[1], other[1]) < min(one[3], other[3])


def printable_label(label: str, most: int = MAX_LABEL_LENGTH) -> str:
    """One line of at most `most` letters, without what `format.printable` replaces."""
    shown = printable(label[: 4 * most], kept="").replace("\N{REPLACEMENT CHARACTER}", " ")
    text = " ".join(shown.split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def cut(text: str, font: Font, room: float, end: str = "") -> str:
    """`text` and `end` on one line of at most `room` pixels; only `text` loses letters."""
    if font.getlength(text + end) <= room:
        return text + end
    while text and font.getlength(f"{text}…{end}") > room:
        text = text[:-1]
    return f"{text.rstrip()}…{end}"


@lru_cache(maxsize=64)
def font_for(size: int, bold: bool = False) -> Font:
    """The page's typeface, which is in gradio's package; without it Pillow's own. A letter that it lacks is a box."""
    name = f"gradio/templates/frontend/static/fonts/IBMPlexSans/IBMPlexSans-{'Bold' if bold else 'Regular'}.woff2"
    try:
        return ImageFont.truetype(str(metadata.distribution("gradio").locate_file(name)), size)
    except OSError:
        return ImageFont.load_default(size)


# Drawn on the picture: every function returns a new RGB image and leaves the preview alone

UNTINTED = ("background",)
"""The label that segmentation models give to pixels of no known class."""


def draw_label(preview: Image.Image, predictions: Mapping[str, Predictions], variant: Variant) -> Image.Image:
    """The likeliest label in the lower left corner."""
    canvas = Canvas(preview)
    for label in (predictions[variant].labels or ())[:1]:
        chip = canvas.chip(_first_name(label.label), label.score, round(canvas.font_size * 1.3))
        canvas.paste(chip, (canvas.line, canvas.image.height - canvas.line - chip.height), VARIANTS[variant])
    return canvas.image


def draw_boxes(
    preview: Image.Image, info: ImageInfo, predictions: Mapping[str, Predictions], variant: Variant
) -> Image.Image:
    """Each box in the picture with its label and score; the most certain ones lie on top and are captioned first."""
    canvas = Canvas(preview)
    colours = label_colours(box.label for side in predictions.values() for box in side.boxes or ())
    boxes = sorted(predictions[variant].boxes or (), key=lambda box: -box.score)
    if not _outlined(canvas, info, [(box, box.label, colours[box.label]) for box in boxes]):
        canvas.note("nothing found")
    return canvas.image


def _outlined(canvas: Canvas, info: ImageInfo, boxes: list[tuple[Box, str, str]]) -> bool:
    """Draws boxes with their captions and colours, the first one on top; False where none is in the picture."""
    placed = [(*one, rect) for one in boxes if (rect := canvas.rect(one[0], info)) is not None]
    for _, _, colour, rect in reversed(placed):
        canvas.outline(rect, colour)
    size = canvas.caption_size(len(placed))
    for box, caption, colour, rect in placed:
        chip = canvas.chip(caption, box.score, size)
        canvas.caption(chip, (rect[0], rect[1] - chip.height), colour)
    return bool(placed)


def draw_segments(preview: Image.Image, predictions: Mapping[str, Predictions], variant: Variant) -> Image.Image:
    """Each segment but `UNTINTED` ones in its label's colour, its caption well inside it; large ones come first."""
    canvas = Canvas(preview)
    colours = label_colours(segment.label for side in predictions.values() for segment in side.segments or ())
    segments = sorted(predictions[variant].segments or (), key=lambda segment: -segment.area)
    tinted = [segment for segment in segments if segment.label.lower() not in UNTINTED]
    masks = [(segment, canvas.enlarged(decode_mask(segment.mask_png))) for segment in tinted]
    masks = [(segment, mask) for segment, mask in masks if mask.any()]
    if not masks:
        canvas.note("nothing found")
    canvas.tint([(mask, colours[segment.label]) for segment, mask in masks])
    size = canvas.caption_size(len(masks))
    for segment, mask in masks:
        chip = canvas.chip(_first_name(segment.label), segment.score, size)
        x, y = thickest_point(mask)
        canvas.caption(chip, (x - chip.width // 2, y - chip.height // 2), colours[segment.label])
    return canvas.image


def difference(preview: Image.Image, info: ImageInfo, eager: Predictions, compiled: Predictions) -> Image.Image | None:
    """Where two sets of boxes or segments differ, on a faded picture; None where they do not, or hold only labels.

    Boxes without a partner of the same label at an IoU of `SAME_IOU`, in their variant's colour; pixels
    whose label changed, widened to be seen. Not compared: scores, and which objects of one label a pixel belongs to.
    """
    canvas = Canvas(preview, faded=True)
    if eager.segments is not None and compiled.segments is not None:
        changed = changed_pixels(eager.segments, compiled.segments)
        if not changed.any():
            return None
        share = float(changed.mean())
        canvas.highlight(changed)
        shown = "under 0.1 %" if share < 0.0005 else percent(share)
        canvas.note(f"{shown} of the pixels differ", CHANGED)
        return canvas.image
    ours, theirs = eager.boxes or (), compiled.boxes or ()
    pairs = match(ours, theirs, SAME_IOU)
    matched = [{pair[side] for pair in pairs} for side in (0, 1)]
    only = [(box, f"only eager: {box.label}", EAGER) for i, box in enumerate(ours) if i not in matched[0]]
    only += [(box, f"only compiled: {box.label}", COMPILED) for j, box in enumerate(theirs) if j not in matched[1]]
    return canvas.image if _outlined(canvas, info, only) else None


def _first_name(label: str) -> str:
    """'lion' of ImageNet's 'lion, king of beasts, Panthera leo'. Not for boxes: a query may hold a comma."""
    return label.split(",")[0].strip() or label
