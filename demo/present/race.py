"""Draws the race to break-even as SVG: a chart of how many calls eager and compiled have answered over time.

Eager answers from the start. Compiled answers nothing during its first call, which compiles, and then climbs more
steeply. Where the lines cross, compiling has paid for itself.
"""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import NamedTuple

from ..core import format as fmt
from ..core.options import BadInput, RunSpec
from ..core.progress import Progress
from . import naming
from .colours import COMPILED, EAGER

TITLE = "Calls answered over time"
NO_RACE = "This run has no race: that takes a verdict, outputs that do not differ, and the time of a first call."
PLAYED_SECONDS = 9


class Size(NamedTuple):
    """The size of the picture and of its parts, in SVG units, as all lengths in this file."""

    width: int
    height: int
    """Height of the plot, without the texts."""
    row: int
    """Height of a row of text below the plot."""
    line: int
    """How much lower each further line of a text below the plot is than the line before."""
    letter: float
    """Mean width of a letter, to estimate if a text fits into a line: SVG does not wrap text."""


SIZES = {
    "wide": Size(720, 190, 24, 17, 6.6),
    "narrow": Size(430, 190, 24, 17, 6.6),
    "stage": Size(1000, 84, 30, 24, 10.2),
}
"""The sizes of the race by name. The style sheet shows one of them:

- "wide": on a page. "narrow": on a phone, and for the result of a run in stage mode.
- "stage": in stage mode during a run, and for the recorded race before the first run.
"""
LEFT, TOP = 2, 26
BEYOND_CROSSING, BEYOND_COMPILE = 1.5, 4.0
"""The time axis ends at the later of two times: 1.5 times the last crossing of lines, and 4 times the longest first
call."""
LIVE_HORIZONS = (5, 10, 20, 40, 60, 120, 300, 600, 1800, 3600)
"""Ends of the time axis of a run in progress, in seconds. The first that is at least 1.1 times the time so far is used;
if none is, the axis ends at 1.2 times the time so far."""
_STYLE = f"""<style>
.race {{ display: block; width: 100%; height: auto; }}
.race text {{ font: 13px var(--font, system-ui, sans-serif); fill: var(--ink, #1f2328); }}
.race .small {{ fill: var(--muted, #59636e); }}
.race .line {{ fill: none; stroke-width: 3; }}
.race .axis {{ stroke: var(--line, #d1d9e0); }}
.race .eager {{ stroke: var(--eager, {EAGER}); }}
.race .compiled {{ stroke: var(--compiled, {COMPILED}); }}
.race .kept {{ stroke-dasharray: 7 5; }}
.race .range {{ stroke-width: 7; stroke-opacity: 0.3; }}
.race .level {{ stroke: var(--ink, #1f2328); stroke-dasharray: 2 4; }}
.race .at {{ stroke: var(--paper, #fff); stroke-width: 2; }}
.race .at.eager {{ fill: var(--eager, {EAGER}); }}
.race .at.compiled {{ fill: var(--compiled, {COMPILED}); }}
.race .dot {{ fill: var(--paper, #fff); stroke: var(--ink, #1f2328); stroke-width: 2; }}
.race .clock {{ transform-origin: {LEFT}px 0; animation: race-clock {PLAYED_SECONDS}s linear; }}
.race .mark {{ animation: race-mark 0.4s both; }}
.race.narrow, .race.stage {{ display: none; }}
.race.stage text {{ font-size: 20px; }}
@container (max-width: 719px) {{ .race.wide {{ display: none; }} .race.narrow {{ display: block; }} }}
@keyframes race-clock {{ from {{ transform: scaleX(0); }} }}
@keyframes race-mark {{ from {{ opacity: 0; }} }}
@media (prefers-reduced-motion: reduce) {{ .race * {{ animation: none !important; }} }}
</style>"""


@dataclass(frozen=True)
class RaceLine:
    """The line of eager or of compiled in a race, the chart of calls over time. Seconds count from the race's start."""

    kind: str
    """CSS classes: 'eager', 'compiled', or 'compiled kept' for compiled with a filled compile cache."""
    name: str
    words: str
    """Text after `name`: 'pays after about 20 000 calls', '4 200 calls', 'is warming up'."""
    first: float
    """Time at which the line leaves 0; infinite while unknown.

    0 for eager. For compiled the end of its first call, or of its warm-up in an ongoing run."""
    each: float
    """Seconds of each further call; infinite while unknown."""
    crossing: tuple[float, float, float] | None = None
    """When compiled has answered as many calls as eager: (earliest, estimate, latest). Infinite: never. None: not
    drawn. Earliest and latest are a 95 % interval, which includes the errors of the first call and of the speed-up."""

    bends: tuple[tuple[float, float, float], ...] = ()
    """The straight parts of the line of an ongoing run: (its begin in seconds, calls answered until then, seconds of
    each further call), as in `Progress.eager_line`."""

    def work(self, seconds: float) -> float:
        """Returns how many calls have been answered after `seconds`; a call in progress counts as a fraction."""
        parts = [part for part in self.bends if part[0] <= seconds]
        since, calls, each = parts[-1] if parts else (self.first, 0.0, self.each)
        return calls + max(0.0, seconds - since) / each


# ---- of a result


class Below(NamedTuple):
    """A picture below the chart in a file: SVG as wide as the chart, in which a width may be '100%', and its height."""

    svg: str
    height: int


def file(lines: Sequence[RaceLine], source: str, below: Below | None = None) -> str:
    """Returns the race (chart of calls over time) of a result as an SVG file's text. Raises BadInput without lines."""
    if not lines:
        raise BadInput(NO_RACE)
    return picture(lines, source=source, below=below)


def picture(
    lines: Sequence[RaceLine], size: str = "wide", source: str = "", plays: bool = True, below: Below | None = None
) -> str:
    """Returns the race of a result, calls answered over time, as SVG; '' if there are no lines.

    `size`: a key of `SIZES`. `source`: a last line of text; '' for none. `plays`: whether the drawing of the lines is
    animated.
    """
    if not lines:
        return ""
    end = horizon(lines)
    scale = fmt.rounded_duration(end) + (f", played in {PLAYED_SECONDS} s" if plays else "")
    return _svg(lines, end, end, TITLE, scale, size, source, plays, below, marked=True)


def horizon(lines: Sequence[RaceLine]) -> float:
    """Returns the end of the time axis, in seconds."""
    crossings = [line.crossing[1] for line in lines if line.crossing is not None]
    return max([BEYOND_COMPILE * max(line.first for line in lines), *(BEYOND_CROSSING * end for end in crossings)])


# ---- of a run that goes on


def of_progress(progress: Progress, spec: RunSpec, size: str = "wide") -> str:
    """Returns the race (chart of calls over time) of an ongoing run, up to now, as SVG. `size`: a key of `SIZES`."""
    now, first = progress.racing_seconds or 0.0, progress.first_seconds
    waits = f"compiling for {fmt.duration(now)}" if now else "comes next"
    if first is not None:
        waits = f"took {fmt.duration(first)} to compile and warm up"
    lines = [
        _live_line("eager", "Eager", "is warming up", progress.eager_seconds, 0.0, now, progress.eager_line),
        _live_line(
            "compiled",
            naming.variant_name("compiled", spec),
            waits,
            progress.compiled_seconds,
            first,
            now,
            progress.compiled_line,
        ),
    ]
    end = next((end for end in LIVE_HORIZONS if end >= 1.1 * now), 1.2 * now)
    return _svg(lines, now, end, "Calls each would have answered by now", fmt.rounded_duration(end), size)


def _live_line(
    kind: str,
    name: str,
    waits: str,
    each: float | None,
    first: float | None,
    now: float,
    bends: tuple[tuple[float, float, float], ...],
) -> RaceLine:
    """Returns the line of one variant in a run that is going on, with a text such as 'Eager, 1.45 ms: 4 200 calls'.

    - `name`: 'Eager' or 'Compiled'. `each`: seconds of a call; None if not known yet.
    - `waits`: the text after the name while `each` is not known, such as 'is warming up'.
    - `first`: as in `RaceLine`; None if not known yet.
    - `now`: seconds since the start of the race. `bends`: as in `RaceLine`.
    """
    begins = math.inf if first is None else first
    if not each:
        return RaceLine(kind, name, waits, begins, math.inf)
    line = RaceLine(kind, f"{name}, {fmt.latency(each)}", "", begins, each, bends=bends)
    return replace(line, words=fmt.count(fmt.two_digits(int(line.work(now))), "call"))


# ---- the picture


def _svg(
    lines: Sequence[RaceLine],
    now: float,
    end: float,
    title: str,
    scale: str,
    size: str,
    source: str = "",
    plays: bool = False,
    below: Below | None = None,
    marked: bool = False,
) -> str:
    """Returns the race as SVG: each line is drawn up to the time `now`, on an axis from 0 to `end`, all in seconds.

    - `title`: the text above the lines. `scale`: the text at the end of the axis. `source`: a last line of text; '' for
      none. `size`: a key of `SIZES`.
    - `plays`: whether the drawing of the lines is animated. `below`: a picture to draw below the chart; None for none.
    - `marked`: whether the SVG has attributes with the course of each line. The page has a slider for a number of
      calls, and whole_work.js needs these attributes to mark that number on the lines.
    """
    width, height, row_height, line_height, letter = SIZES[size]
    right, indent = width - 10, LEFT + 30
    most = max((line.work(end) for line in lines), default=0.0) or 1.0

    def x(seconds: float) -> float:
        return round(LEFT + (right - LEFT) * min(seconds, end) / end, 1)

    def y(calls: float) -> float:
        return round(TOP + height * (1 - calls / most), 1)

    paths, marks, rows = [], [], []
    row = TOP + height + row_height
    for line in lines:
        corners = [(0.0, 0.0), (min(line.first, now), 0.0)]
        corners += [(seconds, calls) for seconds, calls, _ in line.bends[1:] if seconds < now]
        points = " ".join(f"{x(seconds)},{y(calls)}" for seconds, calls in (*corners, (now, line.work(now))))
        slope = f' data-first="{line.first:.9g}" data-each="{line.each:.9g}"' if marked else ""
        paths.append(f'<polyline class="line {line.kind}"{slope} points="{points}"/>')
        row = top = row + row_height
        sample = f'<path class="line {line.kind}" d="M{LEFT} {top - 4}h22"/>'
        letters = int((right - indent) / letter)
        if len(f"{line.name}: {line.words}") < letters:
            words = f'<tspan class="said">: {escape(line.words)}</tspan>'
        else:  # the words go to lines of their own
            own = textwrap.wrap(line.words, letters)
            place = f'class="said" x="{indent}" dy="{line_height}"'
            words = "".join(f" <tspan {place}>{escape(part)}</tspan>" for part in own)
            row += line_height * len(own)
        rows.append(f'{sample}<text x="{indent}" y="{top}">{escape(line.name)}{words}</text>')
        if line.crossing is not None:
            low, at, high = ((x(time), y(lines[0].work(min(time, end)))) for time in line.crossing)
            delay = ""
            if plays:
                delay = f'class="mark" style="animation-delay:{PLAYED_SECONDS * line.crossing[1] / end:.2f}s"'
            marks.append(
                f'<g {delay}><path class="range {line.kind.split()[0]}" d="M{low[0]} {low[1]}L{high[0]} {high[1]}"/>'
                f'<path class="axis" d="M{at[0]} {at[1]}V{y(0)}"/>'
                f'<circle class="dot" cx="{at[0]}" cy="{at[1]}" r="5"/></g>'
            )
    if below is not None:
        place = f'x="{LEFT}" y="{row + 12}" width="{right - LEFT}" height="{below.height}"'
        rows.append(f"<svg {place}>{below.svg}</svg>")
        row += 12 + below.height
    if source:
        row += row_height
        shown = fmt.printable(fmt.shorten(source, int(width / letter)))  # a control character is no XML
        rows.append(f'<text class="small" x="{LEFT}" y="{row}">{escape(shown)}</text>')
    label = escape(". ".join([title, *(f"{line.name}: {line.words}" for line in lines)]))
    clip = within = ""
    if plays:  # a rectangle that becomes wider uncovers the lines
        clip = f'<clipPath id="race-{size}"><rect class="clock" width="{width}" height="{row}"/></clipPath>'
        within = f' clip-path="url(#race-{size})"'
    plot = f' data-plot="[{LEFT},{right},{TOP},{height},{end:.9g},{most:.9g}]"' if marked else ""
    return (
        f'<svg class="race {size}"{plot} xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {row + 8}" role="img" '
        f'aria-label="{label}">{_STYLE}{clip}'
        f'<text class="small" x="{LEFT}" y="{TOP - 6}">{title}</text>'
        f'<path class="axis" d="M{LEFT} {y(0)}H{right}"/>'
        f'<text class="small" x="{LEFT}" y="{TOP + height + 20}">0 s</text>'
        f'<text class="small" x="{right}" y="{TOP + height + 20}" text-anchor="end">{escape(scale)}</text>'
        f"<g{within}>{''.join(paths)}</g>{''.join(marks)}{''.join(rows)}</svg>"
    )
