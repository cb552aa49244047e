"""Plotly charts: of one run, the published tables, a comparison, a sweep, and several ways to run one model.

Each drawing function returns None if there is nothing to draw.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import plotly.graph_objects as go

from ..core import format as fmt
from ..core.options import PUBLISHED_CALLS
from ..core.result import RunResult
from ..core.stats import Difference, geometric_mean
from ..store import published
from ..store.published import PublishedRow
from . import naming
from .colours import COMPILED, EAGER, GPUS, LINE, TEXT, rgb
from .figure import NAME_SIZE, escape, layout, provenance, time_scale

# ---- one result

_DOTS = {"eager": (EAGER, "circle"), "compiled": (COMPILED, "diamond")}
"""Colour and shape of the dots in `trace`. The shapes differ for readers who cannot tell the colours apart."""


def trace(result: RunResult) -> go.Figure | None:
    """Returns a scatter chart of the time of every call, eager and compiled, in order."""
    sides = naming.variants(result)
    if not sides:
        return None
    scale, unit = time_scale(side.median_seconds for *_, side in sides)
    figure = go.Figure()
    for variant, name, side in sides:
        colour, shape = _DOTS[variant]
        figure.add_scatter(
            name=name.lower(),
            x=list(range(1, len(side.wall_seconds) + 1)),
            y=[time * scale for time in side.wall_seconds],
            text=list(map(fmt.latency, side.wall_seconds)),
            mode="markers",
            marker={"color": colour, "size": 5, "symbol": shape, "opacity": 0.75},
            hovertemplate="call %{x}: %{text}",
        )
    source = ["One dot a call, in the order timed; logarithmic scale", *provenance(result)]
    times = [time * scale for *_, side in sides for time in side.wall_seconds]
    ticks = log_ticks(min(times), max(times))  # plotly's own leave out the decade: '9', '10', '2', '3'
    figure.update_yaxes(type="log", showgrid=True)  # so that one slow call does not squeeze all other dots
    figure.update_yaxes(tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks])
    figure.update_xaxes(nticks=6)
    figure.update_layout(showlegend=True, hovermode="closest")
    words = [f"{name} {fmt.latency(side.median_seconds)}" for _, name, side in sides]
    return layout(figure, f"Every timed call, {unit}", source, words, left=44, right=8, plot=200)


MOST_TICKS = 6


def log_ticks(low: float, high: float) -> list[float]:
    """Returns up to `MOST_TICKS` round numbers from `low` to `high`, both above 0, for a logarithmic axis.

    They are powers of ten. If fewer than three of these lie in the range, they are 1 and 3 times a power, or else 1, 2
    and 5 times, or else finer steps.
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = ((1,), (1, 3), (1, 2, 5), range(1, 10), [step / 10 for step in range(10, 100)])
    ticks: list[float] = []
    for multiples in steps:
        ticks = [float(f"{step * 10.0**decade:.6g}") for decade in decades for step in multiples]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) > 2:
            break
    return ticks[:: -(-len(ticks) // MOST_TICKS) or 1]


# ---- the published tables

GPU_SHAPES = ("circle", "diamond", "square", "triangle-up", "x")


def durations(rows: Sequence[PublishedRow]) -> go.Figure | None:
    """Returns a chart with two bars for each model: the time of an eager call and of a compiled call.

    All `rows` must have the same GPU, batch size and `subset` (name of a published table). A call that ran out of
    memory has no bar.
    """
    if not rows:
        return None
    names: list[str] = []
    seconds: list[float | None] = []
    texts: list[str] = []
    for row in rows:
        name = escape(fmt.shorten(row.model, 18)) + (" †" if published.notes_of(row) else "")
        names += [name, "compiled"]
        pair = (row.eager_seconds, row.compiled_seconds)
        seconds += pair
        texts += ["out of memory" if value is None else fmt.latency(value) for value in pair]
        if row.speedup is not None:
            texts[-1] += f"  <b>{fmt.ratio(row.speedup)}</b>"
    scale, unit = time_scale(seconds)
    lengths = [(value or 0.0) * scale for value in seconds]
    places = [bar + 0.5 * (bar // 2) for bar in range(len(names))]  # a gap after each pair
    colours = [EAGER, COMPILED] * len(rows)
    figure = go.Figure(go.Bar(orientation="h", y=places, x=lengths, width=0.74, marker={"color": colours}))
    for place, length, text in zip(places, lengths, texts, strict=True):
        figure.add_annotation(x=length, y=place, text=text, xshift=8)
    figure.update_yaxes(tickvals=places, ticktext=names, tickfont={"size": NAME_SIZE}, range=[places[-1] + 0.6, -0.6])
    figure.update_xaxes(range=[0, max(lengths) or 1], nticks=5, showgrid=True, zeroline=True)
    noted = ["† has a note at its row of the table"] if any(map(published.notes_of, rows)) else []
    source = [f"{rows[0].gpu}, batch {rows[0].batch_size}", *noted, *_source_lines(rows)]
    words = [f"{name} {text}" for name, text in zip(names, texts, strict=True)]
    height = round(34 * (places[-1] + 1.2))
    return layout(figure, f"Time of one call, {unit}", source, words, left=150, right=110, plot=height)


def _source_lines(rows: Sequence[PublishedRow]) -> list[str]:
    first = rows[0]
    torch = ", ".join(f"torch {name}" for name in published.values(rows, "torch"))
    versions = f"{torch}, mode {first.mode}"
    if first.measured:
        return [f"One call, {versions}, {first.dtype}", "Measured by this project"]
    return [f"Mean of {PUBLISHED_CALLS} calls, {versions}", "Source: the Transformers guide on torch.compile"]


def by_batch(rows: Sequence[PublishedRow]) -> go.Figure | None:
    """Returns a line chart of the mean speed-up by batch size, with one line for each GPU.

    The mean is geometric, over the models that ran. All `rows` must have the same `subset` (name of a published table).
    """
    ratios = [(row, row.speedup) for row in rows if row.speedup is not None]
    if not ratios:
        return None
    rows = [row for row, _ in ratios]
    figure, words = go.Figure(), []
    for number, gpu in enumerate(published.values(rows, "gpu")):
        own = [(row.batch_size, ratio) for row, ratio in ratios if row.gpu == gpu]
        means = {size: geometric_mean([ratio for each, ratio in own if each == size]) for size, _ in sorted(own)}
        colour = GPUS[number % len(GPUS)]
        figure.add_scatter(
            name="<br>".join(map(escape, textwrap.wrap(gpu, 16))),
            x=list(means),
            y=list(means.values()),
            mode="lines+markers",
            line={"color": colour, "width": 2.5},
            marker={"size": 11, "symbol": GPU_SHAPES[number % len(GPU_SHAPES)], "color": colour},
            hovertemplate="batch %{x}: %{y:.3f}×",
            cliponaxis=False,
        )
        words.append(f"{gpu} " + ", ".join(f"{batch}: {mean:.3g}×" for batch, mean in means.items()))
    figure.add_hline(y=1, line={"color": LINE, "width": 1.5}, layer="below")
    batches = published.values(rows, "batch_size")
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=batches)
    figure.update_yaxes(nticks=6, ticksuffix="×", showgrid=True)
    figure.update_layout(showlegend=True, hovermode="closest")
    models = published.values(rows, "model")
    what = models[0] if len(models) == 1 else "geometric mean of the models that ran"
    source = [f"Across: batch size. Up: speed-up, {what}; above 1× compiled is faster", *_source_lines(rows)]
    return layout(figure, "Speed-up by batch size, ×", source, words, left=52, right=24, plot=300)


# ---- a comparison

TICKS = (1.02, 1.05, 1.1, 1.25, 1.5, 2, 3, 5, 10, 20, 50, 100)
"""Speed-ups at which the axis of `intervals` may have a tick. Plotly's own ticks read '3' for 0.3."""


def intervals(runs: Mapping[str, Difference | None]) -> go.Figure | None:
    """Returns a chart with a row for each run: a point for its speed-up, and a line for the 95 % interval.

    `runs`: {label of the row, as HTML: speed-up of the run}. The row is empty for None, and has no point if the verdict
    is 'unsure'.
    """
    points = [(place, speedup) for place, speedup in enumerate(runs.values()) if speedup is not None]
    if not points:
        return None
    places, known = zip(*points, strict=True)
    opacity = [0.0 if speedup.verdict == "unsure" else 1.0 for speedup in known]  # not left out: carries the bar
    figure = go.Figure()
    figure.add_scatter(
        x=[speedup.ratio for speedup in known],
        y=places,
        mode="markers",
        marker={"color": COMPILED, "size": 13, "opacity": opacity},
        error_x={
            "array": [speedup.high - speedup.ratio for speedup in known],
            "arrayminus": [speedup.ratio - speedup.low for speedup in known],
            **{"color": TEXT, "thickness": 2, "width": 6},
        },
    )
    for place, name in enumerate(runs):
        figure.add_annotation(text=name, x=0, xref="paper", xshift=-6, y=place, yanchor="bottom", yshift=6)
    figure.add_vline(x=1, line={"color": LINE, "width": 2}, layer="below")
    reach = 1.05 * max(max(speedup.high, 1 / speedup.low) for speedup in known)
    outer = max((step for step in TICKS if step < reach), default=reach)
    inner = min(TICKS, key=lambda step: abs(math.log(step**2 / outer)))  # about halfway to 1 on this axis
    ticks = sorted({1.0, outer, 1 / outer, inner, 1 / inner})
    figure.update_xaxes(type="log", range=[-math.log10(reach), math.log10(reach)], showgrid=True)
    figure.update_xaxes(tickvals=ticks, ticktext=[f"{tick:.2g}×" if tick < 1 else f"{tick:.3g}×" for tick in ticks])
    figure.update_yaxes(range=[len(runs) - 0.6, -0.9], showticklabels=False)
    source = ["Line: 95 % interval. Right of 1× compiled is faster"]
    words = [f"{name}: {fmt.ends(speedup.low, speedup.high)}" for name, speedup in runs.items() if speedup is not None]
    return layout(figure, "Speed-up", source, words, left=16, right=24, plot=52 * len(runs))


# ---- a sweep

FULL_COLOUR_AT = 3.0
"""Speed-up or slow-down at which a cell of the heat map has its full colour."""
SHADES = [
    (0.0, f"rgba{(*rgb(EAGER), 0.65)}"),
    (0.499, f"rgba{(*rgb(EAGER), 0.2)}"),
    (0.5, "rgba(107, 114, 128, 0.1)"),
    (0.501, f"rgba{(*rgb(COMPILED), 0.15)}"),
    (1.0, f"rgba{(*rgb(COMPILED), 0.55)}"),
]
"""Plotly colour scale from slower (0) to faster (1). Transparent, to be readable on a light and a dark page."""


@dataclass(frozen=True)
class HeatCell:
    group: str
    row: str
    column: str
    text: str
    ratio: float | None = None
    """The speed-up; None, drawn grey, if it is not known whether compiled is faster or slower."""


def heatmap(cells: Sequence[HeatCell]) -> go.Figure | None:
    """Returns a grid of cells in colour: blue if compiled is faster, orange if slower; None without `cells`.

    `HeatCell.group`: the heading above the cell's row.
    """
    if not cells:
        return None
    columns = list(dict.fromkeys(cell.column for cell in cells))
    groups = list(dict.fromkeys(cell.group for cell in cells))
    lines: dict[tuple[str, str], dict[str, HeatCell]] = {}  # by group and row; a group's title is a line of its own
    for cell in sorted(cells, key=lambda cell: groups.index(cell.group)):
        lines.setdefault((cell.group, ""), {})
        lines.setdefault((cell.group, cell.row), {})[cell.column] = cell
    rows = [[line.get(column) for column in columns] for line in lines.values()]
    figure = go.Figure()
    figure.add_heatmap(
        z=[[None if cell is None else math.log(cell.ratio or 1.0) for cell in row] for row in rows],
        zmin=-math.log(FULL_COLOUR_AT),
        zmax=math.log(FULL_COLOUR_AT),
        colorscale=SHADES,
        showscale=False,
        text=[["" if cell is None else escape(cell.text) for cell in row] for row in rows],
        texttemplate="%{text}",
        textfont={"size": 13},
        xgap=3,
        ygap=3,
    )
    labels = [fmt.shorten(row, 22) or group for group, row in lines]
    names = [escape(label) if row else f"<b>{label}</b>" for label, (_, row) in zip(labels, lines, strict=True)]
    figure.update_xaxes(side="top", tickvals=list(range(len(columns))), ticktext=columns)
    figure.update_yaxes(tickvals=list(range(len(lines))), ticktext=names, range=[len(lines) - 0.5, -0.5])
    words = [f"{cell.row}, {cell.column}, {cell.group}: {cell.text}" for cell in cells]
    source = ["Blue: compiled is faster. Orange: compiled is slower"]
    left = 10 + round(0.58 * 13 * max(map(len, labels)))  # of the longest label: 13 pixels, mean letter 0.58 of that
    # `top` has room for the title and, below it, the column heads
    return layout(figure, "Speed-up", source, words, left=left, right=8, plot=40 * len(lines), top=72)


# ---- the ways to run one model

TOTAL_WHY = (
    "Calls since the start of a process; both scales are logarithmic. Each line begins with the first answer over what "
    "an earlier process left. Thick: the way of the answer."
)
WayKind = Literal["winner", "eager", "other"]
_STYLES: dict[str, tuple[str, str]] = {
    "winner": (COMPILED, "solid"),
    "eager": (EAGER, "5px 3px"),
    "other": (LINE, "5px 3px"),
}
_PART_SHADES = ((LINE, 0.4), (LINE, 0.85), (COMPILED, 1.0), (TEXT, 1.0))
"""Colour and opacity of a bar's four parts in `ladder`: from left to right import, load, compile and first run."""


@dataclass(frozen=True)
class WayLine:
    name: str
    kind: WayKind
    start: float
    """Seconds from the start of the process to its first output."""
    seconds: float
    """Seconds of each further call."""


def crossover(ways: Sequence[WayLine], source: Sequence[str]) -> go.Figure | None:
    """Returns a chart of total time by number of calls, with a line for each way to run a model.

    A way is eager, or one way to compile. Returns None for fewer than two ways. Both axes are logarithmic. `source`:
    lines of text below the chart.
    """
    if len(ways) < 2:
        return None
    farthest = max(way.start / way.seconds for way in ways)  # as many calls as take as long as the start
    decades = math.ceil(math.log10(max(10.0, 10 * farthest)))
    calls = [10 ** (step / 12) for step in range(12 * decades + 1)]
    figure = go.Figure()
    for way in sorted(ways, key=lambda way: -list(_STYLES).index(way.kind)):  # the winner is drawn last, on top
        colour, dash = _STYLES[way.kind]
        name = "the other ways" if way.kind == "other" else way.name
        figure.add_scatter(
            name=name,
            x=calls,
            y=[way.start + count * way.seconds for count in calls],
            mode="lines",
            line={"color": colour, "width": 4 if way.kind == "winner" else 2, "dash": dash},
            showlegend=name not in {trace.name for trace in figure.data},
        )
    figure.update_layout(showlegend=True, legend={"x": 0.02, "y": 1, "traceorder": "reversed"})
    low = math.log10(min(way.start for way in ways) / 1.5)
    high = math.log10(1.1 * max(way.start + calls[-1] * way.seconds for way in ways))
    figure.update_xaxes(type="log", range=[0, decades], dtick=1, tickformat="~s", tickangle=0)
    figure.update_yaxes(type="log", range=[low, high], dtick=1, ticksuffix=" s", showgrid=True)
    words = [
        f"{way.name}: {fmt.duration(way.start)} to the first answer, then {fmt.latency(way.seconds)} a call"
        for way in ways
    ]
    title = "Total time by number of calls"
    return layout(figure, title, [TOTAL_WHY, *source], words, left=62, right=12, plot=260)


def ladder(ways: Mapping[str, Mapping[str, float]], source: Sequence[str]) -> go.Figure | None:
    """Returns a bar chart of the time from process start to first output, with a bar for each way to run a model.

    - `ways`: {way: {part of its time: seconds}}, such as {'freezing': {'import': 4.5}}, with the parts from left to
      right. The text below the chart says that the compile cache was filled.
    - `source`: further lines for the text below the chart.
    """
    if not ways:
        return None
    totals = {name: sum(parts.values()) for name, parts in ways.items()}
    scale, unit = time_scale(totals.values())
    parts = list(next(iter(ways.values())))
    figure = go.Figure()
    for part, (colour, opacity) in zip(parts, _PART_SHADES, strict=True):
        figure.add_bar(
            orientation="h",
            y=list(range(len(ways))),
            x=[seconds[part] * scale for seconds in ways.values()],
            width=0.36,
            marker={"color": colour, "opacity": opacity},
        )
    for place, (name, total) in enumerate(totals.items()):
        figure.add_annotation(x=total * scale, y=place, text=fmt.duration(total), xshift=8)
        figure.add_annotation(x=0, y=place, text=name, yanchor="bottom", yshift=8)
    figure.update_layout(barmode="stack")
    figure.update_yaxes(range=[len(ways) - 0.6, -0.8], showticklabels=False)
    figure.update_xaxes(range=[0, max(totals.values()) * scale], nticks=5, showgrid=True, zeroline=True)
    words = [
        f"{name}: {', '.join(f'{part} {fmt.latency(seconds)}' for part, seconds in ways[name].items())}"
        for name in ways
    ]
    below = [f"In one process, from the left: {', '.join(parts)}. Over what an earlier process left", *source]
    return layout(figure, f"Start to first answer, {unit}", below, words, left=8, right=72, plot=46 * len(ways))
