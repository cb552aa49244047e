"""Draws a result as PNG: a card to share in chats, and the race (calls over time) without its animation."""

import io
from itertools import pairwise

import numpy as np
from PIL import Image, ImageDraw

from ..core import format as fmt
from ..core.options import BadInput
from . import naming, race
from .colours import COMPILED, EAGER, PAGE_INK, PAGE_LINE, PAGE_MUTED, PAGE_PAPER
from .pictures import font_for, printable_label
from .report import Report


def _write(
    pen: ImageDraw.ImageDraw,
    place: tuple[float, float],
    text: str,
    size: int,
    right: int,
    bold: bool = False,
    colour: str = PAGE_INK,
) -> float:
    """Writes a line of text and returns the x of its end. All lengths are in pixels.

    `place`: the left end of the text's baseline. `size`: the size of the font. `right`: the largest x that the text may
    reach; a longer text is cut or shrunk.
    """
    room = right - place[0]
    text, font = printable_label(text, int(room / 10)), font_for(size, bold)
    if "Plex" not in str(font.getname()[0]):  # Pillow's own font has no ×
        text = text.replace("×", "x")
    width = font.getlength(text)
    font = font_for(int(size * min(1.0, room / width)) if text else size, bold)
    pen.text(place, text, colour, font, "ls")
    return place[0] + font.getlength(text)


# ---- the card. Its text is large, because chats show a picture at about a third of its size

CARD_WIDTH, CARD_HEIGHT = 1200, 630
_EDGE = 48
_RIGHT = CARD_WIDTH - _EDGE
_BAR_START, _LONGEST_BAR, _GAP = 218, 604, 18


def card(report: Report) -> bytes:
    """Returns a PNG with a run's settings, machine, verdict and interval; with its status if it has no speed-up."""
    result = report.result
    image = Image.new("RGB", (CARD_WIDTH, CARD_HEIGHT), PAGE_PAPER)
    pen = ImageDraw.Draw(image)
    pen.rectangle((_EDGE, 34, _EDGE + 47, 49), EAGER)
    pen.rectangle((_EDGE, 56, _EDGE + 27, 71), COMPILED)
    pen.rectangle((_EDGE, 92, _RIGHT - 1, 94), PAGE_INK)
    pen.rectangle((0, CARD_HEIGHT - 10, CARD_WIDTH, CARD_HEIGHT), PAGE_LINE)
    torch = f"torch {result.environment.torch}" if result.environment is not None else ""
    where = " · ".join(filter(None, (naming.where(result), torch, result.started_at[:10])))
    answer = report.answer or naming.status_words(result)
    _write(pen, (_EDGE + 66, 66), "Worth compiling?", 36, _RIGHT, bold=True)
    _write(pen, (_EDGE, 141), naming.model(result.spec), 38, _RIGHT, bold=True)
    _write(pen, (_EDGE, 182), naming.run_settings(result), 30, _RIGHT, colour=PAGE_MUTED)
    _write(pen, (_EDGE, 222), where, 28, _RIGHT, colour=PAGE_MUTED)
    _write(pen, (_EDGE, 350), fmt.capital(answer), 130, _RIGHT, bold=True)
    if report.kind is not None:
        _bars(report, pen)
        _write(pen, (_EDGE, 553), report.pays, 32, _RIGHT)
        breaks = "; with added graph breaks" if result.spec.graph_break else ""
        _write(pen, (_EDGE, 598), f"{fmt.capital(report.interval_and_basis)}{breaks}", 28, _RIGHT, colour=PAGE_MUTED)
    return _encode(image.quantize(64, dither=Image.Dither.NONE))  # 29 kB instead of 76


def _bars(report: Report, pen: ImageDraw.ImageDraw) -> None:
    result = report.result
    per = "per token" if result.spec.unit == "token" and result.spec.batch_size == 1 else "per call"
    per += ", disturbed" if report.disturbed else ""
    times = {seconds: fmt.latency(seconds) for seconds in result.latencies.values()}
    words = max(map(font_for(38, bold=True).getlength, times.values())) + font_for(28).getlength(per)
    scale = min(_LONGEST_BAR, _RIGHT - _BAR_START - 2 * _GAP - words) / max(times)
    for (variant, seconds), top, colour in zip(result.latencies.items(), (392, 454), (EAGER, COMPILED), strict=True):
        end = _BAR_START + max(4, round(scale * seconds))
        _write(pen, (_EDGE, top + 36), variant.capitalize(), 34, _RIGHT)
        pen.rectangle((_BAR_START, top, end - 1, top + 47), colour)
        end_of_time = _write(pen, (end + _GAP, top + 38), times[seconds], 38, _RIGHT, bold=True)
        _write(pen, (end_of_time + _GAP, top + 38), per, 28, _RIGHT, colour=PAGE_MUTED)


# ---- the race

RACE_WIDTH, RACE_HEIGHT = 1440, 900
RACE_LEFT, RACE_RIGHT, RACE_TOP, RACE_GROUND = 32, 1408, 214, 630
"""Edges of the plot in pixels; `RACE_GROUND` is the lower one."""
ROW = 48
"""Height of a line of text in pixels."""
DASH = 14
OVERSAMPLE = 2
"""The lines are drawn larger by this factor and then reduced, which smooths them."""


def race_at_rest(report: Report) -> bytes:
    """Returns a PNG with a result's verdict and its race (chart of calls over time). Raises BadInput without a race."""
    lines = report.race
    if not lines:
        raise BadInput(race.NO_RACE)
    end = race.horizon(lines)
    most = max(line.work(end) for line in lines)
    rows = [RACE_GROUND + ROW * number for number in range(2, 2 + len(lines))]
    image = Image.new("RGB", (OVERSAMPLE * RACE_WIDTH, OVERSAMPLE * RACE_HEIGHT), PAGE_PAPER)
    pen = ImageDraw.Draw(image, "RGBA")

    def place(seconds: float, calls: float) -> tuple[float, float]:
        return RACE_LEFT + (RACE_RIGHT - RACE_LEFT) * min(seconds, end) / end, RACE_GROUND - (
            RACE_GROUND - RACE_TOP
        ) * calls / most

    _stroke(pen, [(RACE_LEFT, RACE_GROUND), (RACE_RIGHT, RACE_GROUND)], PAGE_LINE, 2)
    for line, row in zip(lines, rows, strict=True):
        colour, dashed = (EAGER if line.kind == "eager" else COMPILED), line.kind.endswith("kept")
        _stroke(pen, [place(0, 0), place(line.first, 0), place(end, line.work(end))], colour, 5, dashed)
        _stroke(pen, [(RACE_LEFT, row - 9), (RACE_LEFT + 46, row - 9)], colour, 5, dashed)
        if line.crossing is not None:
            low, at, high = (place(seconds, lines[0].work(min(seconds, end))) for seconds in line.crossing)
            _stroke(pen, [low, high], f"{colour}59", 12)  # a third opaque: eager's line is seen below
            _stroke(pen, [at, (at[0], RACE_GROUND)], PAGE_LINE, 2)
            pen.circle((OVERSAMPLE * at[0], OVERSAMPLE * at[1]), OVERSAMPLE * 9, PAGE_PAPER, PAGE_INK, OVERSAMPLE * 3)
    image = image.resize((RACE_WIDTH, RACE_HEIGHT), Image.Resampling.LANCZOS)
    pen = ImageDraw.Draw(image)
    _write(pen, (RACE_LEFT, 78), fmt.capital(report.answer), 64, RACE_RIGHT, bold=True)
    _write(pen, (RACE_LEFT, 120), report.pays, 28, RACE_RIGHT)
    _write(pen, (RACE_LEFT, 154), fmt.capital(report.interval_and_basis), 24, RACE_RIGHT, colour=PAGE_MUTED)
    _write(pen, (RACE_LEFT, RACE_TOP - 22), race.TITLE, 24, RACE_RIGHT, colour=PAGE_MUTED)
    _write(pen, (RACE_LEFT, RACE_GROUND + 34), "0 s", 24, RACE_RIGHT, colour=PAGE_MUTED)
    pen.text((RACE_RIGHT, RACE_GROUND + 34), fmt.rounded_duration(end), PAGE_MUTED, font_for(24), "rs")
    for line, row in zip(lines, rows, strict=True):
        _write(pen, (RACE_LEFT + 64, row), f"{line.name}: {line.words}", 30, RACE_RIGHT)
    _write(pen, (RACE_LEFT, RACE_HEIGHT - 24), report.source, 24, RACE_RIGHT, colour=PAGE_MUTED)
    return _encode(image)


def _stroke(
    pen: ImageDraw.ImageDraw, points: list[tuple[float, float]], colour: str, width: int, dashed: bool = False
) -> None:
    """Draws a line through `points`. A dashed line starts with a dash at each point."""
    for start, end in pairwise(OVERSAMPLE * np.array(points)):
        dashes = max(1, round(float(np.hypot(*(end - start))) / (OVERSAMPLE * DASH))) if dashed else 1
        for begin, finish in list(pairwise(np.linspace(start, end, dashes + 1)))[::2]:
            pen.line([*begin, *finish], colour, OVERSAMPLE * width)


def _encode(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()
