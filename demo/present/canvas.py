"""What Pillow draws: the typeface, and a picture with boxes, masks and captions."""

import math
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from demo.core.format import percent, printable
from demo.core.images import decode_mask
from demo.core.outputs import Box, ImageInfo, Segment
from demo.present.palette import CHANGED, INK, PAPER, rgb, text_on

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


@dataclass(frozen=True)
class _Chip:
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

    def mask(self, segment: Segment) -> np.ndarray:
        """The segment as a bool array of the canvas's size."""
        return self._enlarged(decode_mask(segment.mask_png))

    def _enlarged(self, mask: np.ndarray) -> np.ndarray:
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
        wider = ~eroded(~self._enlarged(changed), self.line // 2)
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


def overlap(one: Rect, other: Rect) -> int:
    """Pixels that two rectangles share."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(0, width) * max(0, height)


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
