"""Charts of several runs: the intervals of a comparison, the heat map of a sweep, and two charts of the ways to run
one model, total time by calls and the time to the first answer.

They take plain values, so that a caller decides what a line is. All return None if there is nothing to draw.
"""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import plotly.graph_objects as go

from demo.core import format as fmt
from demo.core.stats import Interval
from demo.present.figure import LINE, TEXT, error_bar, layout, room, scale_of
from demo.present.pictures import COMPILED, EAGER, rgb

# ---- a comparison

INTERVAL_HEIGHT = 52
"""Pixels of one run: its name above its interval."""


@dataclass(frozen=True)
class RunInterval:
    name: str
    """What stands above it: '<b>A</b>  2.00×  freezing'."""
    speedup: Interval | None
    decided: bool = True
    """A point on the axis states a ratio, so an open verdict has none."""


def intervals(runs: Sequence[RunInterval]) -> go.Figure | None:
    """The speed-up of each run with its 95 % interval, on one logarithmic axis around 1×."""
    known = [(place, run, run.speedup) for place, run in enumerate(runs) if run.speedup is not None]
    if not known:
        return None
    figure = go.Figure(
        go.Scatter(
            x=[speedup.ratio for *_, speedup in known],
            y=[place for place, *_ in known],
            mode="markers",
            marker={"color": COMPILED, "size": 13, "opacity": [1.0 if run.decided else 0.0 for _, run, _ in known]},
            error_x=error_bar(
                [speedup.high - speedup.ratio for *_, speedup in known],
                [speedup.ratio - speedup.low for *_, speedup in known],
            ),
            hoverinfo="skip",
        )
    )
    for place, run in enumerate(runs):
        figure.add_annotation(
            text=run.name, y=place, yanchor="bottom", yshift=6, x=0, xref="paper", xanchor="left", xshift=-6
        )
    figure.add_vline(x=1, line={"color": LINE, "width": 2}, layer="below")
    reach = 1.05 * max(max(speedup.high, 1 / speedup.low) for *_, speedup in known)
    ends = math.log10(reach)
    figure.update_xaxes(type="log", range=[-ends, ends], nticks=5, ticksuffix="×", showgrid=True)
    figure.update_yaxes(range=[len(runs) - 0.6, -0.9], showticklabels=False, showgrid=False, zeroline=False)
    source = ["Line: 95 % interval. Right of 1× compiled is faster"]
    words = [f"{run.name}: {fmt.ratio(speedup.low)} to {fmt.ratio(speedup.high)}" for _, run, speedup in known]
    return layout(figure, "Speed-up", source, words, left=16, right=24, plot=INTERVAL_HEIGHT * len(runs))


# ---- a sweep

ROW_HEIGHT = 40
FULL_COLOUR_AT = 3.0
"""A cell has its full colour from this speed-up or slow-down on."""
SHADES = [
    (0.0, f"rgba{(*rgb(EAGER), 0.65)}"),
    (0.499, f"rgba{(*rgb(EAGER), 0.2)}"),
    (0.5, "rgba(107, 114, 128, 0.1)"),
    (0.501, f"rgba{(*rgb(COMPILED), 0.15)}"),
    (1.0, f"rgba{(*rgb(COMPILED), 0.55)}"),
]
"""From slower over no difference to faster. The page shows through, light or dark, so that text can be read on them."""


@dataclass(frozen=True)
class HeatCell:
    group: str
    row: str
    column: str
    text: str
    ratio: float | None = None
    """The speed-up where it is decided."""


def heatmap(cells: Sequence[HeatCell]) -> go.Figure | None:
    """Groups of rows, one above the other: blue where compiled is faster, orange where it is slower."""
    if not cells:
        return None
    columns = list(dict.fromkeys(cell.column for cell in cells))
    lines: dict[tuple[str, str], dict[str, HeatCell]] = {}  # by group and row; a group's title is a line of its own
    for group in dict.fromkeys(cell.group for cell in cells):
        lines[group, ""] = {}
        for cell in cells:
            if cell.group == group:
                lines.setdefault((group, cell.row), {})[cell.column] = cell
    of_cells = [[line.get(column) for column in columns] for line in lines.values()]
    figure = go.Figure(
        go.Heatmap(
            z=[[None if cell is None else math.log(cell.ratio or 1.0) for cell in line] for line in of_cells],
            zmin=-math.log(FULL_COLOUR_AT),
            zmax=math.log(FULL_COLOUR_AT),
            colorscale=SHADES,
            showscale=False,
            text=[["" if cell is None else html.escape(cell.text, quote=False) for cell in line] for line in of_cells],
            texttemplate="%{text}",
            textfont={"size": 13},
            hoverinfo="skip",
            xgap=3,
            ygap=3,
        )
    )
    names = [html.escape(fmt.shortened(row, 22), quote=False) or f"<b>{group}</b>" for group, row in lines]
    figure.update_xaxes(side="top", tickvals=list(range(len(columns))), ticktext=columns)
    figure.update_yaxes(tickvals=list(range(len(lines))), ticktext=names, range=[len(lines) - 0.5, -0.5])
    for axis in (figure.update_xaxes, figure.update_yaxes):
        axis(showgrid=False, zeroline=False, ticks="")
    words = [f"{cell.row}, {cell.column}, {cell.group}: {cell.text}" for cell in cells]
    source = ["Blue: compiled is faster. Orange: compiled is slower"]
    height = ROW_HEIGHT * len(lines)
    # top: the title, then the batch sizes
    return layout(figure, "Speed-up", source, words, left=room(names, 13), right=8, plot=height, top=72)


# ---- the ways to run one model

HEIGHT, BAR_HEIGHT = 260, 46
"""Pixels: between the axes of `crossover`, and a bar of `ladder` with the name above it."""
BEYOND = 10
"""`crossover` ends at so many times the calls after which calls outweigh every start."""
TOTAL_WHY = (
    "Calls since the start of a process; both scales are logarithmic. Each line begins with the first answer over what "
    "an earlier process left. Thick: the way of the answer."
)
Kind = Literal["winner", "eager", "other"]
_STYLES: dict[str, tuple[str, str]] = {
    "winner": (COMPILED, "solid"),
    "eager": (EAGER, "5px 3px"),
    "other": (LINE, "5px 3px"),
}
"""Colour and dashes of a line of `crossover`, by what its way is."""
_PART_SHADES = ((LINE, 0.4), (LINE, 0.85), (COMPILED, 1.0), (TEXT, 1.0))
"""Colour and opacity of each part of a first answer, in their order."""


@dataclass(frozen=True)
class WayLine:
    name: str
    kind: Kind
    start: float
    """Seconds to the first answer."""
    seconds: float
    """Of each further call."""


def crossover(ways: Sequence[WayLine], source: Sequence[str]) -> go.Figure | None:
    """Total time against the calls since the start of a process, on logarithmic axes: `start + calls * seconds`.

    The winner and eager are named, in the corner where no line comes. None for fewer than two ways.
    """
    if len(ways) < 2:
        return None
    farthest = max(way.start / way.seconds for way in ways)
    decades = math.ceil(math.log10(max(10.0, BEYOND * farthest)))
    steps = [10 ** (step / 12) for step in range(12 * decades + 1)]
    figure = go.Figure()
    for way in sorted(ways, key=lambda way: -list(_STYLES).index(way.kind)):  # the winner is drawn last, on top
        colour, dash = _STYLES[way.kind]
        name = "the other ways" if way.kind == "other" else way.name
        times = [way.start + step * way.seconds for step in steps]
        figure.add_trace(
            go.Scatter(
                name=name,
                x=steps,
                y=times,
                mode="lines",
                line={"color": colour, "width": 4 if way.kind == "winner" else 2, "dash": dash},
                hoverinfo="skip",
                showlegend=name not in {trace.name for trace in figure.data},
            )
        )
    figure.update_layout(showlegend=True, legend={"x": 0.02, "y": 1, "traceorder": "reversed"})
    low = math.log10(min(way.start for way in ways) / 1.5)
    high = math.log10(1.1 * max(way.start + steps[-1] * way.seconds for way in ways))
    figure.update_xaxes(type="log", range=[0, decades], dtick=1, tickformat="~s", tickangle=0, showgrid=False)
    figure.update_yaxes(type="log", range=[low, high], dtick=1, ticksuffix=" s", showgrid=True)
    words = [
        f"{way.name}: {fmt.duration(way.start)} to the first answer, then {fmt.latency(way.seconds)} a call"
        for way in ways
    ]
    below = [TOTAL_WHY, *source]
    return layout(figure, "Total time by number of calls", below, left=62, right=12, plot=HEIGHT, words=words)


def ladder(ways: Mapping[str, Mapping[str, float]], source: Sequence[str]) -> go.Figure | None:
    """A bar a way: the seconds of the parts, by their names and in their order, from the start of a process to its
    first answer, over what an earlier process left."""
    if not ways:
        return None
    totals = {name: sum(parts.values()) for name, parts in ways.items()}
    scale, unit = scale_of(totals.values())
    parts = list(next(iter(ways.values())))
    figure = go.Figure()
    for part, (colour, opacity) in zip(parts, _PART_SHADES, strict=True):
        figure.add_trace(
            go.Bar(
                orientation="h",
                y=list(range(len(ways))),
                x=[seconds[part] * scale for seconds in ways.values()],
                width=0.36,
                marker={"color": colour, "opacity": opacity, "line": {"width": 0}},
                hoverinfo="skip",
            )
        )
    for place, (name, total) in enumerate(totals.items()):
        figure.add_annotation(x=total * scale, y=place, text=fmt.duration(total), xanchor="left", xshift=8)
        figure.add_annotation(x=0, y=place, text=name, xanchor="left", yanchor="bottom", yshift=8)
    figure.update_layout(barmode="stack")
    figure.update_yaxes(range=[len(ways) - 0.6, -0.8], showticklabels=False, ticks="", showgrid=False, zeroline=False)
    figure.update_xaxes(range=[0, max(totals.values()) * scale], nticks=5, showgrid=True, zeroline=True)
    words = [
        f"{name}: {', '.join(f'{part} {fmt.latency(seconds)}' for part, seconds in ways[name].items())}"
        for name in ways
    ]
    below = [f"In one process, from the left: {', '.join(parts)}. Over what an earlier process left", *source]
    title = f"Start to first answer, {unit}"
    return layout(figure, title, below, words, left=8, right=72, plot=BAR_HEIGHT * len(ways))
