"""A wall of races: runs as small charts of calls over time, on one time axis, sorted by when compiling pays.

A chart shows the calls that compiled has answered so far, divided by those that eager has answered so far. It is 0
while compiled compiles, 1 where the lines of the race cross, and approaches the speed-up. Nothing is animated.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple
from urllib.parse import urlencode

from ..core import format as fmt
from ..core.comparison import calls_that_pay
from ..store.published import PublishedRow, setting_words
from . import naming, speedup_words
from .colours import COMPILED, EAGER
from .race import RaceLine
from .report import STARTS, Report

WALL_WIDTH, WALL_HEIGHT, WALL_TOP = 240, 84, 6
BESIDE = 18
"""Room to the right of a chart, for half of the last text below its axis, in SVG units."""
POINTS = 60
"""Number of points of a curve."""
TICK_APART = 36
"""Least distance of two texts below the axis, in SVG units. A text that would be nearer to the one before it is left
out."""
TIME_TICKS = (
    (0.01, "10 ms"),
    (0.1, "0.1 s"),
    (1, "1 s"),
    (10, "10 s"),
    (60, "1 min"),
    (600, "10 min"),
    (3600, "1 h"),
    (86400, "1 day"),
)
_STYLE = f"""<style>
.wall {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(13.5rem, 1fr)); gap: 1.4rem 1.6rem; }}
.wall {{ margin: 0; padding: 0; list-style: none; }}
/* the charts of a row stand at one height */
.wall :is(li, a, div) {{ display: grid; grid-row: span 4; grid-template-rows: subgrid; gap: 0; }}
.wall li {{ margin: 0; min-width: 0; }}
.wall :is(a, div) {{ color: inherit; text-decoration: none; font-size: 0.8125rem; line-height: 1.35; }}
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
    """`begin` and `end`: the two ends of the time axis of all pictures, in seconds."""

    def x(self, seconds: float) -> float:
        share = math.log(seconds / self.begin) / math.log(self.end / self.begin)
        return round(WALL_WIDTH * min(max(share, 0.0), 1.0), 1)


@dataclass(frozen=True)
class Race:
    """What the wall shows of one run or of one row of a table."""

    name: str
    """Name of the model."""
    ratio: str
    """The speed-up: '1.44×'."""
    about: str
    """Settings, machine and day."""
    lines: Sequence[RaceLine]
    """Eager's line, then those of compiled."""
    source: str
    """Where the figures are from, for a run that the page cannot open; '' for one that it opens."""
    query: str = ""
    """The query of a link that opens the run; '' if the page cannot open it."""

    @property
    def pays_at(self) -> float:
        """Seconds after which compiling has paid, first call included; infinite if it never pays.

        If there are several compiled lines, for an empty and a filled compile cache, the latest time counts.
        """
        return max(math.inf if line.crossing is None else line.crossing[1] for line in self.lines[1:])


def of_runs(reports: Iterable[Report], sources: Mapping[str, str]) -> list[Race]:
    """Returns the race of the newest run for each model, setting and machine. `reports`: newest first.

    `sources`: {id of a run that the page cannot open: where it is from}. Runs without a race are left out.
    """
    newest: dict[object, Race] = {}
    for report in reports:
        result = report.result
        if report.race:
            about = f"{naming.run_settings(result)} · {naming.where(result)} · {result.started_at[:10]}"
            source = sources.get(result.id, "")
            query = "" if source else urlencode({"run": result.id})
            race = Race(naming.short(result.spec.checkpoint), report.ratio, about, report.race, source, query)
            newest.setdefault((result.spec, naming.where(result)), race)
    return list(newest.values())


def of_rows(rows: Iterable[PublishedRow]) -> list[Race]:
    """Returns the races of `rows` of this project's tables. A row without a first call or a clear speed-up has none."""
    races = []
    for row in rows:
        if row.verdict is None or not row.costs or row.eager_seconds is None:
            continue
        lines = [RaceLine("eager", "Eager", "", 0.0, row.eager_seconds)]
        for state, (eager, compiled) in row.costs.items():
            crossing = None
            if row.verdict.verdict == "faster":
                paid = calls_that_pay(eager, compiled)
                at, low, high = (math.inf if calls is None else calls * row.eager_seconds for calls in paid)
                crossing = (low, at, high)
            kept = "with the package kept" if row.settings.get("compiler") == "aot" else STARTS["warm"]
            kind, start = ("compiled kept", kept) if state == "warm" else ("compiled", STARTS[state])
            each = compiled.call.seconds
            lines.append(RaceLine(kind, f"Compiled {start}", "", compiled.first.seconds, each, crossing))
        settings = [
            row.mode,
            row.dtype,
            *setting_words(row),
            *([f"batch {row.batch_size}"] if row.batch_size > 1 else []),
        ]
        settings += [fmt.count(row.threads, "thread")] if row.threads else []
        about = " · ".join([*settings, row.gpu, row.date])
        ratio = speedup_words.ratio_or_range(row.verdict)
        races.append(Race(naming.short(row.checkpoint), ratio, about, lines, "This project's table"))
    return races


def wall(races: Sequence[Race]) -> str:
    """Returns the races (charts of calls over time) as HTML; '' if there are none.

    The first chart is the race in which compiling pays the soonest.
    """
    if not races:
        return ""
    compiled = [line for race in races for line in race.lines[1:]]
    ends = [10 * line.first for line in compiled]
    ends += [1.5 * line.crossing[1] for line in compiled if line.crossing is not None]
    axis = _Axis(min(line.first for line in compiled) / 2, max(ends))
    items = "".join(f"<li>{_item(race, axis)}</li>" for race in sorted(races, key=lambda race: race.pays_at))
    return f'{_STYLE}<ol class="wall">{items}</ol>'


def _item(race: Race, axis: _Axis) -> str:
    pays = [f"{fmt.duration(line.crossing[1])} {_start(line)}" for line in race.lines[1:] if line.crossing is not None]
    words = f"Pays after {', '.join(pays)}" if pays else "Never pays here"
    about = "<br/>".join(escape(text) for text in (race.about, race.source) if text)
    content = (
        f"<b>{escape(fmt.printable(race.name))}: {escape(race.ratio)}</b><span>{about}</span>"
        f'{_picture(race, axis, words)}<span class="pays">{escape(words)}</span>'
    )
    return f'<a href="?{race.query}">{content}</a>' if race.query else f"<div>{content}</div>"


def _start(line: RaceLine) -> str:
    return line.name.removeprefix("Compiled ")


def _picture(race: Race, axis: _Axis, words: str) -> str:
    eager, *lines = race.lines
    highest = 1.15 * max(1.0, *(eager.each / line.each for line in lines))

    def y(share: float) -> float:
        return round(WALL_TOP + WALL_HEIGHT * (1 - share / highest), 1)

    parts, text_at = [], -math.inf
    for seconds, text in TIME_TICKS:
        x = axis.x(seconds)
        if not axis.begin < seconds < axis.end:
            continue
        parts.append(f'<path class="tick" d="M{x} {WALL_TOP}V{y(0)}"/>')
        if x - text_at >= TICK_APART:
            text_at = x
            parts.append(f'<text x="{x}" y="{y(0) + 12}" text-anchor="middle">{text}</text>')
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
    label = escape(f"{race.name}: {words}")
    box = f'viewBox="0 0 {WALL_WIDTH + BESIDE} {WALL_TOP + WALL_HEIGHT + 16}"'
    return f'<svg {box} role="img" aria-label="{label}">{"".join(parts)}</svg>'
