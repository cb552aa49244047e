"""What Pillow draws: the typeface, a picture with boxes, masks and captions, and where captions overlap least."""

from __future__ import annotations

import importlib.util
import math
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from demo.core.format import percent, printable
from demo.core.images import decode_mask
from demo.core.outputs import Box, ImageInfo, Segment
from demo.present.palette import CHANGED, INK, PAD, PAPER, rgb, text_on

MIN_SIDE = 640
"""Smaller pictures are enlarged by a whole factor until their long side has at least this many pixels."""
PIXEL_ART = 128
"""Up to this long side a picture is enlarged pixel by pixel, to be seen as the model gets it; smoothly above."""
MAX_ASPECT = 4
"""A longer picture gets bands on its long sides, so that captions fit."""
TINT = 0.45
"""Share of the label's colour in the pixels of a segment."""
CAPTIONS = 12
"""This many captions are always written, even one over another; further ones only where there is room."""
Rect = tuple[int, int, int, int]
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
MAX_LABEL_LENGTH = 60
FALLBACK_FONTS = ("NotoSansCJK-Regular.ttc", "DejaVuSans.ttf", "NotoSansDevanagari-Regular.ttf", "Arial Unicode.ttf")
"""Looked for among the machine's fonts where a text has letters that the page's typeface lacks."""
_NO_LETTER = "\U0010fffe"
"""A code point that no font has: it is drawn as the font draws every letter that it lacks."""


@dataclass(frozen=True)
class _Chip:
    """A caption of one line, laid out; sizes in pixels."""

    text: str
    font: Font
    width: int
    height: int
    padding: int


@dataclass
class Canvas:
    """The picture being drawn on. Coordinates are canvas pixels unless a name says otherwise."""

    image: Image.Image
    frame: Rect
    """Where the picture lies in the canvas."""
    taken: list[Rect] = field(default_factory=list)
    """Captions written so far."""

    @classmethod
    def of(cls, preview: Image.Image, faded: bool = False) -> Canvas:
        factor = math.ceil(MIN_SIDE / max(preview.size))
        width, height = preview.width * factor, preview.height * factor
        smooth = max(preview.size) > PIXEL_ART
        picture = preview.convert("RGB").resize(
            (width, height), Image.Resampling.BICUBIC if smooth else Image.Resampling.NEAREST
        )
        if faded:
            grey = picture.convert("L").convert("RGB")
            picture = Image.blend(grey, Image.new("RGB", grey.size, PAPER), 0.45)
        shortest = max(width, height) // MAX_ASPECT
        canvas = Image.new("RGB", (max(width, shortest), max(height, shortest)), PAD)
        left, top = (canvas.width - width) // 2, (canvas.height - height) // 2
        canvas.paste(picture, (left, top))
        return cls(canvas, (left, top, left + width, top + height))

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
        left, top, right, bottom = self.frame
        x0, x1 = sorted(left + value * (right - left) / info.width for value in box.box[0::2])
        y0, y1 = sorted(top + value * (bottom - top) / info.height for value in box.box[1::2])
        if x1 < left or y1 < top or x0 > right or y0 > bottom:
            return None
        smallest = 2 * self.line
        x0, y0 = max(left, min(x0, right - smallest)), max(top, min(y0, bottom - smallest))
        x1, y1 = max(min(x1, right), x0 + smallest), max(min(y1, bottom), y0 + smallest)
        return round(x0), round(y0), round(x1) - 1, round(y1) - 1

    def outline(self, rect: Rect, colour: str) -> None:
        """A frame just inside `rect`, with a thin inner line of contrasting brightness to be visible on any picture."""
        pen = ImageDraw.Draw(self.image)
        inner = tuple(value + (self.line if place < 2 else -self.line) for place, value in enumerate(rect))
        if inner[0] < inner[2] and inner[1] < inner[3]:
            pen.rectangle(inner, outline=text_on(colour), width=1)
        pen.rectangle(rect, outline=colour, width=self.line)

    def mask(self, segment: Segment) -> np.ndarray:
        """The segment as a bool array of the picture's size on the canvas."""
        left, top, right, bottom = self.frame
        mask = Image.fromarray(decode_mask(segment.mask_png))
        return np.array(mask.resize((right - left, bottom - top), Image.Resampling.NEAREST), dtype=bool)

    def tint(self, masks: list[tuple[np.ndarray, str]]) -> None:
        """All fills first, then all edges, so that a small segment does not cover a large one's edge."""
        pixels = np.array(self.image.crop(self.frame), dtype=np.uint8)
        for mask, colour in masks:
            pixels[mask] = (pixels[mask] * (1 - TINT) + np.array(rgb(colour)) * TINT).round().astype(np.uint8)
        for mask, colour in masks:
            pixels[mask & ~eroded(mask, (self.line + 1) // 2)] = rgb(colour)
        self.image.paste(Image.fromarray(pixels), self.frame[:2])

    def highlight(self, changed: np.ndarray) -> None:
        left, top, right, bottom = self.frame
        mask = Image.fromarray(changed).resize((right - left, bottom - top), Image.Resampling.NEAREST)
        wider = ~eroded(~np.array(mask, dtype=bool), self.line // 2)
        self.image.paste(CHANGED, self.frame, Image.fromarray(wider))

    def chip(self, label: str, score: float | None, size: int) -> _Chip:
        """A caption of one line, shortened until it fits; the score is never cut."""
        label = printable_label(label)
        shown = "" if score is None or not math.isfinite(score) else f" {percent(score)}"
        font = font_for(label, size)
        padding = max(2, round(size * 0.3))
        room = max(round(self.image.width * 0.7), min(self.image.width, 14 * size)) - 2 * padding
        text = cut(label, font, room, shown)
        width = math.ceil(font.getlength(text)) + 2 * padding
        return _Chip(text, font, min(width, self.image.width), min(round(size * 1.4), self.image.height), padding)

    def caption(self, chip: _Chip, places: Iterable[tuple[int, int]], colour: str) -> None:
        """Draws the caption at the first place that overlaps no other, else where it overlaps least."""
        best: tuple[int, Rect] | None = None
        for x, y in places:
            x = max(0, min(x, self.image.width - chip.width))
            y = max(0, min(y, self.image.height - chip.height))
            rect = (x, y, x + chip.width, y + chip.height)
            hidden = sum(overlap(rect, other) for other in self.taken)
            if best is None or hidden < best[0]:
                best = (hidden, rect)
            if hidden == 0:
                break
        if best is not None and (best[0] == 0 or len(self.taken) < CAPTIONS):
            self.paste(chip, best[1][:2], colour)

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


def around_box(rect: Rect, chip: _Chip) -> Iterator[tuple[int, int]]:
    """Places for a box's caption, best first: on its upper edge, inside, at the other edges, then further down."""
    left, top, right, bottom = rect[0], rect[1], rect[2] - chip.width + 1, rect[3] + 1
    above, below = top - chip.height, bottom - chip.height
    yield from ((left, above), (left, top), (right, above), (right, top))
    yield from ((left, bottom), (left, below), (right, bottom), (right, below))
    for step in range(1, 12):
        yield from ((left, top + step * chip.height // 2), (right, top + step * chip.height // 2))
        yield from ((left, above - step * chip.height // 2), (left, bottom + step * chip.height // 2))


def around_point(point: tuple[int, int], chip: _Chip) -> Iterator[tuple[int, int]]:
    """Places for a caption around a point, the nearest first."""
    left, top = point[0] - chip.width // 2, point[1] - chip.height // 2
    steps = [(x * chip.width // 4, y * chip.height // 2) for x in range(-8, 9) for y in range(-10, 11)]
    for x, y in sorted(steps, key=lambda step: (math.hypot(*step), step)):
        yield left + x, top + y


def thickest_point(mask: np.ndarray) -> tuple[int, int]:
    """x and y of a pixel of `mask` that is as far as any from the mask's edges and the picture's (chessboard distance).

    Of several the one nearest to their median. Raises ValueError for an empty mask.
    """
    from scipy.ndimage import distance_transform_cdt  # imported here: the page's start needs none of it

    distance = distance_transform_cdt(np.pad(mask, 1), metric="chessboard")[1:-1, 1:-1]
    ys, xs = np.nonzero((distance == distance.max()) & mask)
    nearest = np.argmin((xs - np.median(xs)) ** 2 + (ys - np.median(ys)) ** 2)
    return int(xs[nearest]), int(ys[nearest])


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


@lru_cache(maxsize=512)
def font_for(text: str, size: int, bold: bool = False) -> Font:
    """The page's typeface, or the first of `FALLBACK_FONTS` that has all letters of `text`, else Pillow's own font."""
    for face in (_page_font(bold), *FALLBACK_FONTS):
        try:
            font = ImageFont.truetype(face, size)
        except OSError:
            continue
        no_letter = bytes(font.getmask(_NO_LETTER))
        if all(bytes(font.getmask(c)) != no_letter for c in set(text) if unicodedata.category(c)[0] in "LNSP"):
            return font
    return ImageFont.load_default(size)


def _page_font(bold: bool) -> str:
    """The page's typeface is in gradio's package. `find_spec` looks for the package without importing it."""
    package = importlib.util.find_spec("gradio")
    folder = Path(package.origin).parent if package is not None and package.origin else Path()
    name = f"IBMPlexSans-{'Bold' if bold else 'Regular'}.woff2"
    return str(folder / "templates" / "frontend" / "static" / "fonts" / "IBMPlexSans" / name)
