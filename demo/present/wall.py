"""A wall of races: the runs measured so far as small charts on one time axis, sorted by when compiling pays.

A chart shows the calls that compiled has answered so far, divided by those that eager has answered so far. It is 0
while compiled compiles, 1 where the lines of the race cross, and approaches the speed-up. Nothing is animated.
"""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple
from urllib.parse import urlencode

from ..core import format as fmt
from . import naming
from .colours import COMPILED, EAGER
from .race import RaceLine
from .report import Report

WALL_WIDTH, WALL_HEIGHT, WALL_TOP = 240, 84, 6
POINTS = 60
"""Number of points of a curve."""
TIME_TICKS = ((0.1, "0.1 s"), (1, "1 s"), (10, "10 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h"), (86400, "1 day"))
_STYLE = f"""<style>
.wall {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(13.5rem, 1fr)); gap: 1.4rem 1.6rem; }}
.wall {{ margin: 0; padding: 0; list-style: none; }}
.wall li {{ margin: 0; min-width: 0; }}
.wall :is(a, div) {{ display: block; color: inherit; text-decoration: none; font-size: 0.8125rem; line-height: 1.35; }}
.wall a:is(:hover, :focus-visible) b {{ text-decoration: underline; }}
.wall b {{ display: block; font-size: 0.9375rem; overflow-wrap: anywhere; }}
.wall span {{ display: block; color: var(--muted, #59636e); overflow-wrap: anywhere; }}
.wall .pays {{ color: inherit; }}
.wall svg {{ display: block; width: 100%; height: auto; margin: 0.3rem 0; overflow: visible; }}
.wall text {{ font: 11px var(--font, system-ui, sans-serif); fill: var(--muted, #59636e); }}
.wall .eager {{ stroke: var(--eager, {EAGER}); stroke-width: 2; }}
.wall .compiled {{ fill: none; stroke: var(--compiled, {COMPILED}); stroke-width: 2; }}
.wall .kept {{ stroke-dasharray: 5 4; }}
.wall .range {{ stroke: var(--compiled, {COMPILED}); stroke-width: 6; stroke-opacity: 0.35; }}
.wall .dot {{ fill: var(--paper, #fff); stroke: var(--ink, #1f2328); stroke-width: 1.5; }}
.wall .tick {{ stroke: var(--line, #d1d9e0); }}
</style>"""


class _Axis(NamedTuple):
    begin: float
    end: float
    """Where the time axis of all pictures begins and ends, in seconds."""

    def x(self, seconds: float) -> float:
        share = math.log(seconds / self.begin) / math.log(self.end / self.begin)
        return round(WALL_WIDTH * min(max(share, 0.0), 1.0), 1)


def latest(reports: Iterable[Report]) -> list[Report]:
    """Returns the newest report for each model, setting and machine. `reports`: newest first.

    Reports without a race (chart of calls over time) are left out.
    """
    newest: dict[object, Report] = {}
    for report in reports:
        if report.race:
            newest.setdefault((report.result.spec, naming.where(report.result)), report)
    return list(newest.values())


def wall(reports: Sequence[Report], stored: Iterable[str] = ()) -> str:
    """Returns the race of each report (chart of calls over time) as HTML; '' without reports.

    The first chart is the race in which compiling pays the soonest. `stored`: the ids of the runs that the page can
    open; the charts of these runs are links.
    """
    if not reports:
        return ""
    shown, links = sorted(reports, key=_pays_at), set(stored)
    compiled = [line for report in shown for line in report.race[1:]]
    ends = [10 * line.first for line in compiled]
    ends += [1.5 * line.crossing[1] for line in compiled if line.crossing is not None]
    axis = _Axis(min(line.first for line in compiled) / 2, max(ends))
    items = "".join(f"<li>{_item(report, axis, report.result.id in links)}</li>" for report in shown)
    return f'{_STYLE}<ol class="wall">{items}</ol>'


def _pays_at(report: Report) -> float:
    """Returns the seconds from the start of the race until compiling has paid; infinite if it never pays.

    If a race has several compiled lines, for an empty and a filled compile cache, the latest time counts.
    """
    crossings = [line.crossing for line in report.race[1:]]
    return max(math.inf if crossing is None else crossing[1] for crossing in crossings)


def _item(report: Report, axis: _Axis, link: bool) -> str:
    result = report.result
    about = f"{naming.run_settings(result)} · {naming.where(result)} · {result.started_at[:10]}"
    pays = [f"{fmt.duration(line.crossing[1])} {_start(line)}" for line in report.race[1:] if line.crossing is not None]
    words = f"Pays after {', '.join(pays)}" if pays else "Never pays here"
    content = (
        f"<b>{escape(fmt.printable(naming.short(result.spec.checkpoint)))}: {escape(report.ratio)}</b>"
        f'<span>{escape(about)}</span>{_picture(report, axis, words)}<span class="pays">{escape(words)}</span>'
    )
    return f'<a href="?{urlencode({"run": result.id})}">{content}</a>' if link else f"<div>{content}</div>"


def _start(line: RaceLine) -> str:
    return line.name.removeprefix("Compiled ")


def _picture(report: Report, axis: _Axis, words: str) -> str:
    eager, *lines = report.race
    highest = 1.15 * max(1.0, *(eager.each / line.each for line in lines))

    def y(share: float) -> float:
        return round(WALL_TOP + WALL_HEIGHT * (1 - share / highest), 1)

    parts = []
    for seconds, text in TIME_TICKS:
        if axis.begin < seconds < axis.end:
            parts.append(f'<path class="tick" d="M{axis.x(seconds)} {WALL_TOP}V{y(0)}"/>')
            parts.append(f'<text x="{axis.x(seconds)}" y="{y(0) + 12}" text-anchor="middle">{text}</text>')
    parts.append(f'<path class="eager" d="M0 {y(1)}H{WALL_WIDTH}"/>')
    for line in lines:
        times = [line.first * (axis.end / line.first) ** (point / POINTS) for point in range(POINTS + 1)]
        corners = " ".join(f"{axis.x(time)},{y(line.work(time) / eager.work(time))}" for time in times)
        parts.append(f'<polyline class="{line.kind}" points="0,{y(0)} {axis.x(line.first)},{y(0)} {corners}"/>')
    for line in lines:
        if line.crossing is not None:
            low, at, high = line.crossing
            parts.append(f'<path class="range" d="M{axis.x(low)} {y(1)}H{axis.x(min(high, axis.end))}"/>')
            parts.append(f'<circle class="dot" cx="{axis.x(at)}" cy="{y(1)}" r="4"/>')
    label = escape(f"{naming.short(report.result.spec.checkpoint)}: {words}")
    box = f'viewBox="0 0 {WALL_WIDTH} {WALL_TOP + WALL_HEIGHT + 16}"'
    return f'<svg {box} role="img" aria-label="{label}">{"".join(parts)}</svg>'
