"""The charts of one result, and the charts of the published tables.

In these each GPU has a colour and a shape, none of them eager's or compiled's.
"""

import html
import textwrap
from collections.abc import Sequence

import plotly.graph_objects as go

from demo.core import format as fmt
from demo.core.result import RunResult
from demo.core.spec import PUBLISHED_CALLS
from demo.core.stats import geometric_mean
from demo.present import figure as style, naming
from demo.present.pictures import COMPILED, EAGER
from demo.store import published
from demo.store.published import PublishedRow

GUIDE = "Source: the Transformers guide on torch.compile"
_DOTS = {"eager": (EAGER, "circle"), "compiled": (COMPILED, "diamond")}
"""Colour and shape of the calls of `trace`: the colour never stands alone."""


def trace(result: RunResult) -> go.Figure | None:
    """Every timed call of both variants in the order timed, which shows drift, steps and outliers; None without any.

    The scale is logarithmic, so that one slow call does not press the others together. A call's number counts its
    variant's own calls: between them lie the other variant's, in A B B A order.
    """
    sides = [one for one in naming.variants(result) if one[2].wall_seconds]
    if not sides:
        return None
    scale, unit = style.scale_of(side.median_seconds for *_, side in sides)
    figure = go.Figure()
    for variant, name, side in sides:
        colour, shape = _DOTS[variant]
        figure.add_trace(
            go.Scatter(
                name=name.lower(),
                x=list(range(1, len(side.wall_seconds) + 1)),
                y=[time * scale for time in side.wall_seconds],
                text=[fmt.latency(time) for time in side.wall_seconds],
                mode="markers",
                marker={"color": colour, "size": 5, "symbol": shape, "opacity": 0.75},
                hovertemplate="call %{x}: %{text}",
            )
        )
    source = ["One dot a call, in the order timed; logarithmic scale", *style.provenance(result)]
    figure.update_yaxes(type="log", showgrid=True, nticks=5)
    figure.update_xaxes(showgrid=False, nticks=6)
    figure.update_layout(showlegend=True)
    words = [f"{name} {fmt.latency(side.median_seconds)}" for _, name, side in sides]
    return style.layout(figure, f"Every timed call, {unit}", source, words, left=44, right=8)


# The published tables

GPU_COLOURS = ("#009E73", "#AA4499", "#6B7280", "#C0392B", "#8C6D1F")
"""Contrast at least 3:1 on both backgrounds. With colour blindness they need `SHAPES` to be words apart."""
SHAPES = ("circle", "diamond", "square", "triangle-up", "x")


def durations(rows: Sequence[PublishedRow]) -> go.Figure | None:
    """Time of one call by model; `rows` are of one subset, one GPU and one batch size. None without rows."""
    if not rows:
        return None
    names: list[str] = []
    seconds: list[float | None] = []
    texts: list[str] = []
    for row in rows:
        name = html.escape(fmt.shortened(row.model, 18), quote=False) + (" †" if published.faults_at(row) else "")
        names += [name, "compiled"]
        pair = (row.eager_seconds, row.compiled_seconds)
        seconds += pair
        texts += ["out of memory" if value is None else fmt.latency(value) for value in pair]
        if row.speedup is not None:
            texts[-1] += f"  <b>{fmt.ratio(row.speedup)}</b>"
    noted = ["† has a note at its row of the table"] if any(map(published.faults_at, rows)) else []
    source = [f"{rows[0].gpu}, batch {rows[0].batch_size}", *noted, *_source(rows)]
    return style.bars("Time of one call", names, seconds, texts, source)


def _source(rows: Sequence[PublishedRow]) -> list[str]:
    """The source lines: how a time was taken, and who measured it."""
    first = rows[0]
    torch = [f"torch {name}" for name in published.values(rows, "torch")]
    versions = ", ".join([*torch, f"mode {first.mode}"])
    if first.measured:
        return [", ".join(["One call", versions, first.dtype]), "Measured by this project"]
    return [f"Mean of {PUBLISHED_CALLS} calls, {versions}", GUIDE]


def by_batch(rows: Sequence[PublishedRow]) -> go.Figure | None:
    """Speed-up against batch size, one line a GPU: the geometric mean of the models that ran, or the one model's.

    `rows` are of one subset. None where no row has a speed-up.
    """
    rows = [row for row in rows if row.speedup is not None]
    if not rows:
        return None
    figure, words = go.Figure(), []
    for number, gpu in enumerate(published.values(rows, "gpu")):
        own = [row for row in rows if row.gpu == gpu]
        means = {batch: _mean(own, batch) for batch in published.values(own, "batch_size")}
        colour = GPU_COLOURS[number % len(GPU_COLOURS)]
        figure.add_trace(
            go.Scatter(
                name="<br>".join(html.escape(line, quote=False) for line in textwrap.wrap(gpu, 16)),
                x=list(means),
                y=list(means.values()),
                mode="lines+markers",
                line={"color": colour, "width": 2.5},
                marker={"size": 11, "symbol": SHAPES[number % len(SHAPES)], "color": colour},
                hovertemplate="batch %{x}: %{y:.3f}×",
                cliponaxis=False,
            )
        )
        words.append(f"{gpu} " + ", ".join(f"{batch}: {mean:.3g}×" for batch, mean in means.items()))
    figure.add_hline(y=1, line={"color": style.LINE, "width": 1.5}, layer="below")
    batches = published.values(rows, "batch_size")
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=batches, showgrid=False)
    figure.update_yaxes(nticks=6, ticksuffix="×", showgrid=True, zeroline=False)
    models = published.values(rows, "model")
    what = models[0] if len(models) == 1 else "geometric mean of the models that ran"
    source = [f"Across: batch size. Up: speed-up, {what}; above 1× compiled is faster", *_source(rows)]
    figure.update_layout(showlegend=True)
    return style.layout(figure, "Speed-up by batch size, ×", source, words, left=52, right=24, plot=300)


def _mean(rows: Sequence[PublishedRow], batch: int) -> float:
    return geometric_mean([row.speedup for row in rows if row.batch_size == batch and row.speedup is not None])
