"""The card of a run: the picture that previews of its link show, in English.

Readable at a third of its size, in which chats show it: the smallest letters are 26 pixels high.
"""

from __future__ import annotations

import io

from PIL import Image, ImageDraw

from demo.core import format as fmt
from demo.core.languages import ENGLISH
from demo.core.result import RunResult
from demo.present import link_preview, sentences
from demo.present.fonts import Font, font_for, printable_label
from demo.present.palette import COMPILED, EAGER, PAGE_INK, PAGE_LINE, PAGE_MUTED, PAGE_PAPER

WIDTH, HEIGHT = 1200, 630
_EDGE = 48
_ROOM = WIDTH - 2 * _EDGE
_BAR, _GAP = 48, 14
_MAX_TEXT = 400
"""Letters of a failure's message that are laid out."""


def draw(result: RunResult) -> bytes:
    """A PNG of `WIDTH` x `HEIGHT` pixels."""
    sheet = _Sheet()
    _head(result, sheet)
    parts = sentences.headline_parts(result, ENGLISH)
    if parts is None:
        _failure(result, sheet)
    else:
        _headline(result, parts, sheet)
        _bars(result, sheet)
        sheet.text(_EDGE, 553, ENGLISH.capital(sentences.interval_alone(result, ENGLISH)), 32, room=_ROOM)
    _foot(result, sheet)
    return sheet.png()


def _head(result: RunResult, sheet: _Sheet) -> None:
    """The page's name, the device, and below a line what was asked."""
    spec = result.spec
    sheet.bar(_EDGE, 34, _EDGE + 48, 50, EAGER)
    sheet.bar(_EDGE, 56, _EDGE + 28, 72, COMPILED)
    named = sheet.text(_EDGE + 66, 66, ENGLISH.plain("title"), 36, bold=True)
    where = link_preview.device(result)
    room = _ROOM - 66 - named - 40
    sheet.text(_EDGE, 66, printable_label(where), 32, bold=True, room=room, least=26, end=True)
    sheet.bar(_EDGE, 92, WIDTH - _EDGE, 95, PAGE_INK)
    model = printable_label(link_preview.model(result), 120)
    if font_for(model, 28, bold=True).getlength(model) > _ROOM:  # the model's own name says more than its owner's
        model = printable_label(sentences.short(spec.checkpoint), 120)
    sheet.text(_EDGE, 141, model, 38, bold=True, room=_ROOM, least=28)
    asked = sentences.settings(spec, ENGLISH)
    sheet.text(_EDGE, 182, asked, 30, colour=PAGE_MUTED, room=_ROOM, least=26)


def _headline(result: RunResult, parts: tuple[str, str, str], sheet: _Sheet) -> None:
    """The answer, as large as it fits: a figure with a word and an arrow, or a phrase."""
    outcome = sentences.outcome(result)
    _, figure, after = parts  # in English no word stands before the figure
    if outcome not in ("faster", "slower"):
        phrase = ENGLISH.plain("answer_same") if outcome == "same" else f"{figure} {after}"
        sheet.lines(_EDGE, 346, ENGLISH.capital(phrase), 116, bold=True, most=2, least=62, up=True)
        return
    x = _EDGE + sheet.text(_EDGE, 350, figure, 178, bold=True, tracking=-0.045) + 32
    x += sheet.text(x, 350, after, 88, bold=True, tracking=-0.02, room=_ROOM - x - 28)
    sheet.arrow(x + 28, 350, 46, up=outcome == "faster")


def _bars(result: RunResult, sheet: _Sheet) -> None:
    """Eager and compiled from zero, on one scale, with their latencies."""
    rows = [
        (ENGLISH.plain(f"variant_{name}"), seconds, fmt.latency(seconds), colour)
        for (name, seconds), colour in zip(result.latencies.items(), (EAGER, COMPILED), strict=False)
    ]
    if not rows:
        return
    one = result.spec.unit == "token" and result.spec.batch_size == 1
    per = ENGLISH.plain("per_token" if one else "per_call")
    longest = max(seconds for _, seconds, _, _ in rows)
    start = _EDGE + 24 + max(sheet.width(name, 34) for name, *_ in rows)
    values = [sheet.width(value, 38, bold=True) + 18 for _, _, value, _ in rows]
    shortest = min(range(len(rows)), key=lambda row: rows[row][1] / longest * 1000 + values[row])
    aside = [18 + sheet.width(per, 28) if row == shortest else 0.0 for row in range(len(rows))]
    scale = min(
        (WIDTH - _EDGE - start - values[row] - aside[row]) / max(seconds / longest, 1e-3)
        for row, (_, seconds, _, _) in enumerate(rows)
    )
    for row, (name, seconds, value, colour) in enumerate(rows):
        top = 392 + row * (_BAR + _GAP)
        end = start + max(4.0, scale * seconds / longest)
        sheet.text(_EDGE, top + 36, name, 34)
        sheet.bar(start, top, end, top + _BAR, colour)
        sheet.text(end + 18, top + 38, value, 38, bold=True)
        if row == shortest:
            sheet.text(end + values[row] + 18, top + 38, per, 28, colour=PAGE_MUTED)


def _failure(result: RunResult, sheet: _Sheet) -> None:
    """How the run ended, and the failure's sentences."""
    failed = result.failure
    sheet.text(_EDGE - 5, 306, sentences.status(result, ENGLISH), 112, bold=True, room=_ROOM, tracking=-0.03)
    if failed is None:
        sheet.lines(_EDGE, 384, ENGLISH.plain("no_figures"), 38, most=2)
        return
    lines = sheet.lines(_EDGE, 384, failed.message, 38, most=3)
    if failed.remedy:
        sheet.lines(_EDGE, 390 + 48 * lines, failed.remedy, 32, most=2 if lines < 3 else 1, colour=PAGE_MUTED)


def _foot(result: RunResult, sheet: _Sheet) -> None:
    known = [f"torch {result.environment.torch}"] if result.environment is not None else []
    when = " · ".join(map(printable_label, (*known, result.started_at[:10])))
    taken = sheet.text(_EDGE, 598, when, 28, colour=PAGE_MUTED, end=True, room=_ROOM)
    rests = ENGLISH.capital(sentences.basis(result, ENGLISH)) if sentences.outcome(result) is not None else ""
    sheet.text(_EDGE, 598, rests, 28, colour=PAGE_MUTED, room=_ROOM - taken - 40, least=24)


class _Sheet:
    """The card being drawn. `y` of a text is its baseline."""

    def __init__(self) -> None:
        self._image = Image.new("RGB", (WIDTH, HEIGHT), PAGE_PAPER)
        self._pen = ImageDraw.Draw(self._image)
        self._pen.rectangle((0, HEIGHT - 10, WIDTH, HEIGHT), fill=PAGE_LINE)

    def png(self) -> bytes:
        file = io.BytesIO()
        self._image.quantize(64, dither=Image.Dither.NONE).save(file, "PNG")  # a third of the bytes, in the same time
        return file.getvalue()

    def bar(self, left: float, top: float, right: float, bottom: float, colour: str) -> None:
        self._pen.rectangle((round(left), top, round(right) - 1, bottom - 1), fill=colour)

    def arrow(self, left: float, y: float, side: float, up: bool) -> None:
        """A triangle that stands on `y`."""
        foot, tip = (y, y - side) if up else (y - side, y)
        self._pen.polygon([(left, foot), (left + side, foot), (left + side / 2, tip)], fill=PAGE_INK)

    def width(self, text: str, size: int, bold: bool = False) -> float:
        return font_for(text, size, bold).getlength(text)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: int,
        bold: bool = False,
        colour: str = PAGE_INK,
        room: float = 0,
        least: int = 26,
        end: bool = False,
        tracking: float = 0,
    ) -> float:
        """Writes one line and returns its width. Wider than `room` it shrinks to `least`, then is cut.

        `end` counts `x` from the right. `tracking` is added between letters, as a share of their size.
        """
        text, size = _fitted(text, size, bold, room, least) if room else (text, size)
        font = font_for(text, size, bold)
        if tracking:
            spacing = tracking * size
            for place, letter in enumerate(text):  # kerned, as `getlength` measures
                at = font.getlength(text[: place + 1]) - font.getlength(letter) + place * spacing
                self._pen.text((x + at, y), letter, colour, font, "ls")
            return font.getlength(text) + (len(text) - 1) * spacing
        self._pen.text((WIDTH - x if end else x, y), text, colour, font, "rs" if end else "ls")
        return font.getlength(text)

    def lines(
        self,
        x: float,
        y: float,
        text: str,
        size: int,
        most: int,
        bold: bool = False,
        colour: str = PAGE_INK,
        least: int = 0,
        up: bool = False,
    ) -> int:
        """Writes at most `most` lines, the last one cut, and returns their number. `up` makes `y` that of the last.

        A text that is wider than a line shrinks to `least` first.
        """
        text = printable_label(text, _MAX_TEXT)
        if least:
            size = max(least, min(size, int(size * _ROOM / font_for(text, size, bold).getlength(text))))
        lines = _wrapped(text, font_for(text, size, bold), _ROOM)
        shown = [*lines[: most - 1], " ".join(lines[most - 1 :])]
        shown = [line for line in shown if line]
        if up:
            y -= round(1.26 * size) * (len(shown) - 1)
        for number, line in enumerate(shown):
            self.text(x, y + round(1.26 * size) * number, line, size, bold, colour, _ROOM, size)
        return len(shown)


def _fitted(text: str, size: int, bold: bool, room: float, least: int) -> tuple[str, int]:
    """The text, cut if it has to be, and a size in which it is not wider than `room`."""
    width = font_for(text, size, bold).getlength(text)
    if width <= room:
        return text, size
    size = max(min(size, least), int(size * room / width))
    font = font_for(text, size, bold)
    if font.getlength(text) <= room:
        return text, size
    while text and font.getlength(f"{text}…") > room:
        text = text[:-1]
    return f"{text.rstrip()}…", size


def _wrapped(text: str, font: Font, room: float) -> list[str]:
    """Lines that are not wider than `room`; a longer word is parted anywhere."""
    lines = [""]
    for word in text.split():
        if lines[-1] and font.getlength(f"{lines[-1]} {word}") > room:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
        while font.getlength(lines[-1]) > room:
            kept = next(n for n in range(len(lines[-1]) - 1, 0, -1) if font.getlength(lines[-1][:n]) <= room)
            lines[-1:] = [lines[-1][:kept], lines[-1][kept:]]
    return lines
