"""What a model saw, drawn: labels, boxes and segments on the picture, and where eager and compiled part ways.

Colours tell two things and never both: the two variants have their own (`EAGER`, `COMPILED`), objects have one of
`PALETTE` each, the same for both variants. Every function returns a new RGB image and leaves the preview alone.
"""

from __future__ import annotations

import math
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeVar

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from demo.core.agreement import iou
from demo.core.format import percent
from demo.core.images import decode_mask
from demo.core.result import Box, ImageInfo, Predictions, Segment

EAGER = "#E69F00"
COMPILED = "#0072B2"
COMPILED_ON_DARK = "#56B4E9"
VARIANTS = {"eager": EAGER, "compiled": COMPILED}
Variant = Literal["eager", "compiled"]

PALETTE = ("#CC3311", "#F0E442", "#332288", "#009E73", "#FFAABB", "#8B5CF6", "#663333", "#DDCC77")
"""Chosen by search so that any two, and any of them and the variants' colours, stay apart in normal vision and with
protanopia and deuteranopia. Eight is what can be told apart; more labels share, and their captions tell them apart."""
CHANGED = "#FF2E93"
PAPER = "#FFFFFF"
INK = "#000000"
PAD = "#6B7280"
"""Bands beside a picture that is too narrow to hold a caption."""

MIN_SIDE = 640
"""Smaller pictures are enlarged by a whole factor until their long side has at least this many pixels."""
PIXEL_ART = 128
"""Up to this long side a picture is enlarged pixel by pixel, to be seen as the model gets it; smoothly above."""
MAX_ASPECT = 4
TINT = 0.45
UNTINTED = ("background",)
"""What a segmentation model says of a place where it sees nothing that it knows."""
CAPTIONS = 12
"""So many captions are always written; further ones only where there is room."""
LABEL_LENGTH = 60
SAME_BOX_IOU = 0.9
"""Boxes of one label that overlap less are drawn as a difference."""

T = TypeVar("T")
Rect = tuple[int, int, int, int]
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def draw(
    preview: Image.Image, info: ImageInfo, predictions: Mapping[str, Predictions], variant: Variant
) -> Image.Image:
    """Whatever `variant` of a result's `predictions` holds, by the function below that fits."""
    if predictions[variant].segments is not None:
        return draw_segments(preview, predictions, variant)
    if predictions[variant].boxes is not None:
        return draw_boxes(preview, info, predictions, variant)
    return draw_labels(preview, predictions, variant)


def draw_labels(
    preview: Image.Image, predictions: Mapping[str, Predictions], variant: Variant, count: int = 3
) -> Image.Image:
    """The `count` likeliest labels in the lower left corner, the first one larger."""
    stage = _Stage.of(preview)
    stage.tag(variant)
    labels = sorted(predictions[variant].labels or (), key=lambda label: -_order(label.score))[:count]
    if not labels:
        stage.note("nothing recognised")
    bottom = stage.image.height - stage.line
    for place, label in reversed(list(enumerate(labels))):
        size = round(stage.font_size * (1.3 if place == 0 else 0.9))
        chip = stage.chip(_first_name(label.label), label.score, size)
        bottom -= chip.height
        stage.paste(chip, (stage.line, bottom), VARIANTS[variant] if place == 0 else INK)
        bottom -= max(1, stage.line // 2)
    return stage.image


def draw_boxes(
    preview: Image.Image, info: ImageInfo, predictions: Mapping[str, Predictions], variant: Variant
) -> Image.Image:
    """Each box with its label and score; the most certain ones lie on top and have first choice of a caption's place.

    A box that is not finite, or lies outside the picture, is left out.
    """
    stage = _Stage.of(preview)
    colours = label_colours(box.label for side in predictions.values() for box in side.boxes or ())
    boxes = sorted(predictions[variant].boxes or (), key=lambda box: -_order(box.score))
    placed = [(box, rect) for box in boxes if (rect := stage.rect(box, info)) is not None]
    if not placed:
        stage.note("nothing found")
    for box, rect in reversed(placed):
        stage.outline(rect, colours[box.label])
    stage.tag(variant)
    size = stage.crowded(len(placed))
    for box, rect in placed:
        chip = stage.chip(box.label, box.score, size)
        stage.caption(chip, _around_box(rect, chip), colours[box.label])
    return stage.image


def draw_segments(preview: Image.Image, predictions: Mapping[str, Predictions], variant: Variant) -> Image.Image:
    """Each segment tinted and outlined in its label's colour, its caption well inside it; large ones come first.

    Segments named in `UNTINTED` stay as they are.
    """
    stage = _Stage.of(preview)
    colours = label_colours(segment.label for side in predictions.values() for segment in side.segments or ())
    segments = sorted(predictions[variant].segments or (), key=lambda segment: -segment.area)
    masks = [(segment, stage.mask(segment)) for segment in segments if segment.label.lower() not in UNTINTED]
    masks = [(segment, mask) for segment, mask in masks if mask.any()]
    if not masks:
        stage.note("nothing found")
    stage.tint([(mask, colours[segment.label]) for segment, mask in masks])
    stage.tag(variant)
    size = stage.crowded(len(masks))
    for segment, mask in masks:
        chip = stage.chip(_first_name(segment.label), segment.score, size)
        stage.caption(chip, _around_point(stage.inside(mask), chip), colours[segment.label])
    return stage.image


def difference(preview: Image.Image, info: ImageInfo, eager: Predictions, compiled: Predictions) -> Image.Image | None:
    """Where two sets of boxes or segments differ, on a faded picture; None where they do not, or hold only labels.

    Boxes: those without a partner of the same label at an IoU of `SAME_BOX_IOU`, each in its variant's colour.
    Segments: every pixel whose label or object changed, widened so that a single one can be seen. Scores that
    differ while the shapes agree are no difference here.
    """
    stage = _Stage.of(preview, faded=True)
    if eager.segments is not None and compiled.segments is not None:
        changed = _changed(eager.segments, compiled.segments)
        if not changed.any():
            return None
        share = float(changed.mean())
        stage.highlight(changed)
        shown = "under 0.1 %" if share < 0.0005 else percent(share)
        stage.note(f"{shown} of the pixels differ", CHANGED)
        return stage.image
    alone = _without_partner(eager.boxes or (), compiled.boxes or ())
    placed = [(name, box, rect) for name, box in alone if (rect := stage.rect(box, info)) is not None]
    if not placed:
        return None
    for name, _, rect in placed:
        stage.outline(rect, VARIANTS[name])
    size = stage.crowded(len(placed))
    for name, box, rect in placed:
        chip = stage.chip(f"only {name}: {box.label}", box.score, size)
        stage.caption(chip, _around_box(rect, chip), VARIANTS[name])
    return stage.image


def label_colours(labels: Iterable[str]) -> dict[str, str]:
    """A colour of `PALETTE` for each label: the same whatever their order, and different while there are enough.

    A label keeps the colour that its letters give it; where two want the same, the later in the alphabet gives way.
    """
    colours: dict[str, str] = {}
    for label in sorted(set(labels)):
        wish = zlib.crc32(label.encode("utf-8", "replace"))
        free = [place for place in range(len(PALETTE)) if PALETTE[place] not in colours.values()]
        place = wish % len(PALETTE)
        if free and place not in free:
            place = free[wish % len(free)]
        colours[label] = PALETTE[place]
    return colours


def text_on(colour: str) -> str:
    """Ink or paper, whichever is easier to read on `colour` (WCAG contrast)."""
    return max((INK, PAPER), key=lambda text: contrast(text, colour))


def contrast(one: str, other: str) -> float:
    """WCAG 2 contrast ratio of two hex colours, 1 to 21."""

    def luminance(colour: str) -> float:
        channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@dataclass(frozen=True)
class _Chip:
    text: str
    font: Font
    width: int
    height: int
    padding: int


@dataclass
class _Stage:
    """The picture being drawn on. Coordinates are canvas pixels unless a name says otherwise."""

    image: Image.Image
    frame: Rect
    """Where the picture lies in the canvas."""
    taken: list[Rect] = field(default_factory=list)
    """Captions written so far."""

    @classmethod
    def of(cls, preview: Image.Image, faded: bool = False) -> _Stage:
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

    def crowded(self, captions: int) -> int:
        """The font size for so many captions: smaller for many, never under two thirds."""
        return round(self.font_size * min(1.0, max(0.66, (8 / max(1, captions)) ** 0.5)))

    def rect(self, box: Box, info: ImageInfo) -> Rect | None:
        """A box of the input image on the canvas, clamped to the picture; None where there is nothing of it."""
        if not all(map(math.isfinite, box.box)):
            return None
        left, top, right, bottom = self.frame
        x0, x1 = sorted(value * (right - left) / info.width for value in box.box[0::2])
        y0, y1 = sorted(value * (bottom - top) / info.height for value in box.box[1::2])
        if x1 < 0 or y1 < 0 or x0 > right - left or y0 > bottom - top:
            return None
        smallest = 2 * self.line
        x0, x1 = max(0.0, min(x0, right - left - smallest)), min(x1, right - left)
        y0, y1 = max(0.0, min(y0, bottom - top - smallest)), min(y1, bottom - top)
        return (
            left + round(x0),
            top + round(y0),
            left + round(max(x1, x0 + smallest)) - 1,
            top + round(max(y1, y0 + smallest)) - 1,
        )

    def outline(self, rect: Rect, colour: str) -> None:
        """A frame just inside `rect`, with a hair of the opposite brightness within so that it shows on anything."""
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
        """Fills first, edges over them: the edge of a large segment stays whole beside a small one."""
        pixels = np.array(self.image.crop(self.frame), dtype=np.uint8)
        for mask, colour in masks:
            pixels[mask] = (pixels[mask] * (1 - TINT) + np.array(_rgb(colour)) * TINT).round().astype(np.uint8)
        for mask, colour in masks:
            pixels[mask & ~_eroded(mask, (self.line + 1) // 2)] = _rgb(colour)
        self.image.paste(Image.fromarray(pixels), self.frame[:2])

    def highlight(self, changed: np.ndarray) -> None:
        left, top, right, bottom = self.frame
        mask = Image.fromarray(changed).resize((right - left, bottom - top), Image.Resampling.NEAREST)
        wider = ~_eroded(~np.array(mask, dtype=bool), self.line // 2)
        self.image.paste(CHANGED, self.frame, Image.fromarray(wider))

    def inside(self, mask: np.ndarray) -> tuple[int, int]:
        """The middle of the thickest part of a mask of the picture's size, as a point of the canvas."""
        x, y = _thickest(mask)
        return self.frame[0] + x, self.frame[1] + y

    def chip(self, label: str, score: float | None, size: int) -> _Chip:
        """A caption of one line, shortened until it fits; the score is never cut."""
        label = _printable(label)
        shown = "" if score is None or not math.isfinite(score) else f" {percent(score)}"
        font = _font_for(label, size)
        label = _plainer(label, font)
        padding = max(2, round(size * 0.3))
        room = max(round(self.image.width * 0.7), min(self.image.width, 14 * size)) - 2 * padding
        text = label + shown
        if font.getlength(text) > room:
            while label and font.getlength(f"{label}…{shown}") > room:
                label = label[:-1]
            text = f"{label.rstrip()}…{shown}"
        width = math.ceil(font.getlength(text)) + 2 * padding
        return _Chip(text, font, min(width, self.image.width), min(round(size * 1.4), self.image.height), padding)

    def caption(self, chip: _Chip, places: Iterable[tuple[int, int]], colour: str) -> None:
        """Writes at the first place that overlaps no other caption, else where it overlaps least."""
        best: tuple[int, Rect] | None = None
        for x, y in places:
            x = max(0, min(x, self.image.width - chip.width))
            y = max(0, min(y, self.image.height - chip.height))
            rect = (x, y, x + chip.width, y + chip.height)
            hidden = sum(_overlap(rect, other) for other in self.taken)
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

    def tag(self, variant: Variant) -> None:
        """Whose picture it is, in the upper right corner."""
        chips = {name: self.chip(name, None, round(self.font_size * 0.85)) for name in VARIANTS}
        chip, widest = chips[variant], max(each.width for each in chips.values())
        self.paste(chip, (self.image.width - chip.width - self.line, self.line), VARIANTS[variant])
        # a caption that makes way for one of the two tags does so in both pictures: else they would seem to differ
        self.taken[-1] = (self.image.width - widest - self.line, *self.taken[-1][1:])

    def note(self, text: str, colour: str = INK) -> None:
        chip = self.chip(text, None, self.font_size)
        self.paste(chip, (self.line, self.image.height - chip.height - self.line), colour)


def _around_box(rect: Rect, chip: _Chip) -> Iterator[tuple[int, int]]:
    """Places for a box's caption, best first: on its upper edge, inside, at the other edges, then further down."""
    left, top, right, bottom = rect[0], rect[1], rect[2] - chip.width + 1, rect[3] + 1
    above, below = top - chip.height, bottom - chip.height
    yield from ((left, above), (left, top), (right, above), (right, top))
    yield from ((left, bottom), (left, below), (right, bottom), (right, below))
    for step in range(1, 12):
        yield from ((left, top + step * chip.height // 2), (right, top + step * chip.height // 2))
        yield from ((left, above - step * chip.height // 2), (left, bottom + step * chip.height // 2))


def _around_point(point: tuple[int, int], chip: _Chip) -> Iterator[tuple[int, int]]:
    """Places for a caption around a point, the nearest first."""
    left, top = point[0] - chip.width // 2, point[1] - chip.height // 2
    steps = [(x * chip.width // 4, y * chip.height // 2) for x in range(-8, 9) for y in range(-10, 11)]
    for x, y in sorted(steps, key=lambda step: (math.hypot(*step), step)):
        yield left + x, top + y


def _thickest(mask: np.ndarray) -> tuple[int, int]:
    """x and y of a point of `mask` about as far from its edges, and the picture's, as any: what erosion leaves last.

    Looks at every nth pixel of a large mask, 64 a side; a mask with nothing set has no such point: ValueError.
    """
    step = math.ceil(max(mask.shape) / 64)
    small = mask[::step, ::step]
    if not small.any():
        step, small = 1, mask
    small = np.pad(small, 1)
    while (fewer := _eroded(small, 1)).any():
        small = fewer
    ys, xs = np.nonzero(small)
    nearest = np.argmin((xs - np.median(xs)) ** 2 + (ys - np.median(ys)) ** 2)
    return int(xs[nearest] - 1) * step, int(ys[nearest] - 1) * step


def _eroded(mask: np.ndarray, by: int) -> np.ndarray:
    """A bool mask without its outer `by` pixels (a square brush); the picture's border is not an edge."""
    for axis in (0, 1):
        padding = [(by, by) if axis == side else (0, 0) for side in (0, 1)]
        views = np.lib.stride_tricks.sliding_window_view(
            np.pad(mask, padding, constant_values=True), 2 * by + 1, axis=axis
        )
        mask = np.logical_and.reduce([views[..., offset] for offset in range(2 * by + 1)])
    return mask


def _changed(eager: Iterable[Segment], compiled: Iterable[Segment]) -> np.ndarray:
    """True where a pixel's label or object is not the same in both, as an array of the masks' size.

    Objects of one label are paired by overlap, the best pair first; what has no partner has changed as a whole.
    """
    sides: tuple[dict[str, list[np.ndarray]], dict[str, list[np.ndarray]]] = ({}, {})
    shape: tuple[int, int] | None = None
    for side, segments in zip(sides, (eager, compiled), strict=True):
        for segment in segments:
            mask = decode_mask(segment.mask_png)
            if shape is None:
                shape = (mask.shape[0], mask.shape[1])
            if mask.shape != shape:
                mask = np.array(Image.fromarray(mask).resize(shape[::-1], Image.Resampling.NEAREST), dtype=bool)
            side.setdefault(segment.label, []).append(mask)
    changed = np.zeros(shape or (1, 1), bool)
    for label in {*sides[0], *sides[1]}:
        ours, theirs = sides[0].get(label, []), sides[1].get(label, [])
        pairs, alone, alone_too = _pair(ours, theirs, _mask_iou, 0.0)
        for one, other in pairs:
            changed |= one ^ other
        for mask in alone + alone_too:
            changed |= mask
    return changed


def _without_partner(eager: Iterable[Box], compiled: Iterable[Box]) -> list[tuple[str, Box]]:
    ours, theirs = ([box for box in side if all(map(math.isfinite, box.box))] for side in (eager, compiled))
    _, alone, alone_too = _pair(ours, theirs, _box_iou, SAME_BOX_IOU)
    return [("eager", box) for box in alone] + [("compiled", box) for box in alone_too]


def _pair(
    ours: list[T], theirs: list[T], likeness: Callable[[T, T], float], least: float
) -> tuple[list[tuple[T, T]], list[T], list[T]]:
    """Partners whose likeness is above 0 and at least `least`, the most alike first, and those of either side left."""
    ranked = sorted(
        ((likeness(one, other), -i, -j) for i, one in enumerate(ours) for j, other in enumerate(theirs)), reverse=True
    )
    found: dict[int, int] = {}
    for value, i, j in ranked:
        if value > 0 and value >= least and -i not in found and -j not in found.values():
            found[-i] = -j
    return (
        [(ours[i], theirs[j]) for i, j in found.items()],
        [one for i, one in enumerate(ours) if i not in found],
        [other for j, other in enumerate(theirs) if j not in found.values()],
    )


def _mask_iou(one: np.ndarray, other: np.ndarray) -> float:
    union = np.count_nonzero(one | other)
    return np.count_nonzero(one & other) / union if union else 1.0


def _box_iou(one: Box, other: Box) -> float:
    """0 for boxes of different labels."""
    return iou(one, other) if one.label == other.label else 0.0


def _overlap(one: Rect, other: Rect) -> int:
    """Pixels that two rectangles share."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(0, width) * max(0, height)


def _order(score: float) -> float:
    return score if math.isfinite(score) else -1.0


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _first_name(label: str) -> str:
    """'lion' of ImageNet's 'lion, king of beasts, Panthera leo'. Not for boxes: a query may hold a comma."""
    return label.split(",")[0].strip() or label


def _printable(label: str) -> str:
    """One line without control characters (joiners stay: Persian and Hindi need them), not endlessly long."""
    joiners = "\u200c\u200d"
    kept = (c if unicodedata.category(c)[0] != "C" or c in joiners else " " for c in label[: 4 * LABEL_LENGTH])
    text = " ".join("".join(kept).split())
    return text if len(text) <= LABEL_LENGTH else text[: LABEL_LENGTH - 1].rstrip() + "…"


FALLBACK_FONTS = (
    "DejaVuSans.ttf",
    "NotoSans-Regular.ttf",
    "NotoSansCJK-Regular.ttc",
    "NotoSansArabic-Regular.ttf",
    "NotoSansDevanagari-Regular.ttf",
    "NotoSansBengali-Regular.ttf",
    "NotoSansThai-Regular.ttf",
    "Arial Unicode.ttf",
    "arial.ttf",
    "msyh.ttc",
    "Nirmala.ttf",
)
"""Looked for among the machine's fonts where a label needs more than the ASCII letters of Pillow's own font."""
NO_LETTER = "\U0010fffe"
"""No font has it: what is drawn for it is what a font draws for any letter that it lacks."""


def _font_for(text: str, size: int) -> Font:
    return _font(_face_for(text), size)


def _plainer(text: str, font: Font) -> str:
    """`text` with the accents taken off letters that `font` lacks; other letters that it lacks stay empty boxes."""
    if text.isascii():
        return text
    missing = _glyph(font, NO_LETTER)
    plain = {c: unicodedata.normalize("NFKD", c)[0] for c in set(text) if not c.isascii()}
    return "".join(plain[c] if c in plain and plain[c].isascii() and _glyph(font, c) == missing else c for c in text)


@lru_cache(maxsize=256)
def _face_for(text: str) -> str:
    """The first font that has all letters of `text`, else the one that lacks fewest; '' is Pillow's own."""
    letters = {c for c in text if not c.isascii() and unicodedata.category(c)[0] in "LNSP"}
    lacking: dict[str, int] = {}
    for face in ("", *FALLBACK_FONTS):
        try:
            font = _font(face, 16)
        except OSError:
            continue
        missing = _glyph(font, NO_LETTER)
        lacking[face] = sum(_glyph(font, letter) == missing for letter in letters)
        if lacking[face] == 0:
            return face
    return min(lacking, key=lambda face: lacking[face])


@lru_cache(maxsize=64)
def _font(face: str, size: int) -> Font:
    return ImageFont.truetype(face, size) if face else ImageFont.load_default(size)


def _glyph(font: Font, letter: str) -> tuple[tuple[int, int], bytes]:
    mask = font.getmask(letter)
    return mask.size, bytes(mask)
