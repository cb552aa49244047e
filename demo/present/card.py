"""The card of a run: the picture that previews of its link show, in English.

Readable at a third of its size, in which chats show it: the smallest letters are 24 pixels high.
"""

from __future__ import annotations

import io
import textwrap

from PIL import Image, ImageDraw

from demo.core import format as fmt
from demo.core.languages import ENGLISH
from demo.core.result import RunResult
from demo.present import link_preview, sentences
from demo.present.canvas import cut, font_for, printable_label
from demo.present.palette import COMPILED, EAGER, PAGE_INK, PAGE_LINE, PAGE_MUTED, PAGE_PAPER

WIDTH, HEIGHT = 1200, 630
_EDGE = 48
_ROOM = WIDTH - 2 * _EDGE
_MAX_TEXT = 400
"""Letters of a failure's message that are laid out."""
_BAR_START, _BESIDE = _EDGE + 170, 330
"""Where the bars begin, and the room for the texts beside the longer one."""


def draw(result: RunResult) -> bytes:
    """A PNG of `WIDTH` x `HEIGHT` pixels."""
    image = Image.new("RGB", (WIDTH, HEIGHT), PAGE_PAPER)
    pen = ImageDraw.Draw(image)
    _head(result, pen)
    if sentences.outcome(result) is None:
        _failure(result, pen)
    else:
        _headline(result, pen)
        _bars(result, pen)
        _line(pen, _EDGE, 553, ENGLISH.capital(sentences.interval_alone(result, ENGLISH)), 32)
    _foot(result, pen)
    file = io.BytesIO()
    image.quantize(64, dither=Image.Dither.NONE).save(file, "PNG")  # a third of the bytes, in the same time
    return file.getvalue()


def _head(result: RunResult, pen: ImageDraw.ImageDraw) -> None:
    """The page's name, the device, and below a line what was asked."""
    pen.rectangle((_EDGE, 34, _EDGE + 47, 49), EAGER)
    pen.rectangle((_EDGE, 56, _EDGE + 27, 71), COMPILED)
    _line(pen, _EDGE + 66, 66, ENGLISH.plain("title"), 36, bold=True)
    device = printable_label(link_preview.device(result))
    _line(pen, WIDTH - _EDGE, 66, device, 32, bold=True, room=_ROOM - 402, anchor="rs")
    pen.rectangle((_EDGE, 92, WIDTH - _EDGE - 1, 94), PAGE_INK)
    model = printable_label(link_preview.model(result), 120)
    _line(pen, _EDGE, 141, model, 38, bold=True)
    _line(pen, _EDGE, 182, sentences.settings(result.spec, ENGLISH), 30, colour=PAGE_MUTED)


def _headline(result: RunResult, pen: ImageDraw.ImageDraw) -> None:
    """The answer, as large as it fits: a figure with a word and an arrow, or a phrase."""
    outcome = sentences.outcome(result)
    _, figure, after = sentences.headline_parts(result, ENGLISH) or ("", "", "")  # no word stands before the figure
    if outcome not in ("faster", "slower"):
        phrase = ENGLISH.plain("answer_same") if outcome == "same" else f"{figure} {after}"
        _line(pen, _EDGE, 346, ENGLISH.capital(phrase), 116, bold=True)
        return
    x = _EDGE + _line(pen, _EDGE - 8, 350, figure, 170, bold=True) + 24
    x += _line(pen, x, 350, after, 88, bold=True, room=WIDTH - _EDGE - x - 74) + 28
    foot, tip = (349, 304) if outcome == "faster" else (304, 349)
    pen.polygon([(x, foot), (x + 46, foot), (x + 23, tip)], PAGE_INK)


def _bars(result: RunResult, pen: ImageDraw.ImageDraw) -> None:
    """Eager and compiled from zero, on one scale, with their latencies."""
    one = result.spec.unit == "token" and result.spec.batch_size == 1
    scale = (WIDTH - _EDGE - _BAR_START - _BESIDE) / max(result.latencies.values())
    for (variant, seconds), top, colour in zip(result.latencies.items(), (392, 454), (EAGER, COMPILED), strict=True):
        end = _BAR_START + max(4, round(scale * seconds))
        _line(pen, _EDGE, top + 36, ENGLISH.plain(f"variant_{variant}"), 34)
        pen.rectangle((_BAR_START, top, end - 1, top + 47), colour)
        taken = _line(pen, end + 18, top + 38, fmt.latency(seconds), 38, bold=True)
        per = ENGLISH.plain("per_token" if one else "per_call")
        _line(pen, end + 18 + taken + 18, top + 38, per, 28, colour=PAGE_MUTED)


def _failure(result: RunResult, pen: ImageDraw.ImageDraw) -> None:
    """How the run ended, and the failure's sentences."""
    _line(pen, _EDGE, 306, sentences.status(result, ENGLISH), 112, bold=True)
    failed = result.failure
    told = f"{failed.message} {failed.remedy}" if failed else ENGLISH.plain("no_figures")
    lines = textwrap.wrap(printable_label(told, _MAX_TEXT), 2 * _ROOM // 38, max_lines=4, placeholder="…")
    for number, line in enumerate(lines):
        _line(pen, _EDGE, 384 + 48 * number, line, 38)


def _foot(result: RunResult, pen: ImageDraw.ImageDraw) -> None:
    """What the interval rests on, and the torch version with the date."""
    pen.rectangle((0, HEIGHT - 10, WIDTH, HEIGHT), PAGE_LINE)
    known = [f"torch {result.environment.torch}"] if result.environment is not None else []
    when = " · ".join(printable_label(text, 40) for text in (*known, result.started_at[:10]))
    taken = _line(pen, WIDTH - _EDGE, 598, when, 28, colour=PAGE_MUTED, anchor="rs")
    basis = ENGLISH.capital(sentences.basis(result, ENGLISH)) if sentences.outcome(result) is not None else ""
    _line(pen, _EDGE, 598, basis, 28, colour=PAGE_MUTED, room=_ROOM - taken - 40, least=24)


def _line(
    pen: ImageDraw.ImageDraw,
    x: float,
    y: float,
    text: str,
    size: int,
    bold: bool = False,
    colour: str = PAGE_INK,
    room: float = _ROOM,
    least: int = 26,
    anchor: str = "ls",
) -> float:
    """Writes one line with its baseline at `y` and returns its width in pixels.

    A text that is wider than `room` shrinks to letters of `least` pixels, then it is cut.
    """
    width = font_for(size, bold).getlength(text)
    if width > room:
        size = max(least, int(size * room / width))
    font = font_for(size, bold)
    text = cut(text, font, room)
    pen.text((x, y), text, colour, font, anchor)
    return font.getlength(text)
