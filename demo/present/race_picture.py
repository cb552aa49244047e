"""The race to break-even of a result at rest, as PNG, for programs that show no SVG."""

import io
import itertools

from PIL import Image, ImageDraw

from demo.core import format as fmt
from demo.core.result import RunResult
from demo.core.spec import BadInput
from demo.present import race
from demo.present.pictures import COMPILED, EAGER, PAGE_INK, PAGE_LINE, PAGE_MUTED, PAGE_PAPER, cut, font_for

WIDTH, HEIGHT = 1440, 790
EDGE, TOP, GROUND, ROW = 32, 72, 520, 48
"""Of the plot, and of a line of text below it, in pixels."""
DASH = 14
FINER = 2
"""Lines are drawn so many times larger and made small again, which smooths them."""


def png(result: RunResult) -> bytes:
    """A PNG of `WIDTH` x `HEIGHT` pixels. Raises BadInput where a result has no race."""
    lines = race.lines_of(result)
    if not lines:
        raise BadInput(race.NO_RACE)
    end = race.horizon(lines)
    image = Image.new("RGB", (FINER * WIDTH, FINER * HEIGHT), PAGE_PAPER)
    pen = ImageDraw.Draw(image)
    _stroke(pen, [(EDGE, GROUND), (WIDTH - EDGE, GROUND)], PAGE_LINE, 2)
    most = max(one.work(end) for one in lines)

    def place(seconds: float, calls: float) -> tuple[float, float]:
        right = EDGE + (WIDTH - 2 * EDGE) * min(seconds, end) / end
        return right, GROUND - (GROUND - TOP) * calls / most

    for number, one in enumerate(lines):
        colour = EAGER if one.kind == "eager" else COMPILED
        dashed, y = one.kind.endswith("kept"), GROUND + ROW * (number + 2)
        start = (one.first, 0.0)
        _stroke(pen, [place(0, 0), place(*start), place(end, one.work(end))], colour, 5, dashed)
        _stroke(pen, [(EDGE, y - 9), (EDGE + 46, y - 9)], colour, 5, dashed)
        if one.crossing is not None:
            low, at, high = (place(seconds, lines[0].work(min(seconds, end))) for seconds in one.crossing)
            _stroke(pen, [low, high], colour, 12)
            _stroke(pen, [at, (at[0], GROUND)], PAGE_LINE, 2)
            pen.circle([FINER * part for part in at], FINER * 9, PAGE_PAPER, PAGE_INK, FINER * 3)
    image = image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
    pen = ImageDraw.Draw(image)
    small = font_for(24)
    pen.text((EDGE, TOP - 22), race.TITLE, PAGE_MUTED, small, "ls")
    pen.text((EDGE, GROUND + 34), "0 s", PAGE_MUTED, small, "ls")
    pen.text((WIDTH - EDGE, GROUND + 34), fmt.rounded_duration(end), PAGE_MUTED, small, "rs")
    for number, one in enumerate(lines):
        text = cut(f"{one.name}: {one.said}", font_for(30), WIDTH - 2 * EDGE - 64)
        pen.text((EDGE + 64, GROUND + ROW * (number + 2)), text, PAGE_INK, font_for(30), "ls")
    source = cut(race.source_of(result), small, WIDTH - 2 * EDGE)
    pen.text((EDGE, HEIGHT - 24), source, PAGE_MUTED, small, "ls")
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def _stroke(
    pen: ImageDraw.ImageDraw, points: list[tuple[float, float]], colour: str, width: int, dashed: bool = False
) -> None:
    """A line through `points`; each piece of a dashed one begins with a dash."""
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
        parts = max(1, round(length / DASH)) if dashed else 1
        for part in range(0, parts, 2):
            ends = [part / parts, min(1.0, (part + 1) / parts)]
            line = [(FINER * (x0 + (x1 - x0) * at), FINER * (y0 + (y1 - y0) * at)) for at in ends]
            pen.line(line, colour, FINER * width, "curve")
