"""The charts of one result, alone or beside the guide's bars, and the charts of the published tables.

In these each GPU has a colour and a shape, none of them eager's or compiled's; a device that this project measured has
open marks, a dashed line and a label that says so.
"""

import html
import textwrap
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from demo.core import format as fmt
from demo.core.result import RunResult
from demo.core.spec import PUBLISHED_CALLS, RunSpec
from demo.present import figure as style, naming
from demo.present.guide_comparison import compare_with_guide, versions
from demo.present.pictures import COMPILED, EAGER
from demo.store import published
from demo.store.published import PublishedRow, subset_of

GUIDE = "Source: the Transformers guide on torch.compile"
SLOWEST_SHOWN = 3.0
_DOTS = {"eager": (EAGER, "circle"), "compiled": (COMPILED, "diamond")}
"""Colour and shape of the calls of `trace`: the colour never stands alone."""


def latency_bars(result: RunResult) -> go.Figure | None:
    """Wall time of one call, which of a text model writes one token a prompt, eager above compiled; None without both.

    The line on each bar goes from the 5th to the 95th percentile of the timed calls; it is not the uncertainty of the
    speed-up, whose interval is in the headline.
    """
    sides = [side for *_, side in naming.variants(result) if side.wall_seconds]
    if len(sides) < 2:
        return None
    ranges = [tuple(np.quantile(side.wall_seconds, (0.05, 0.95)).tolist()) for side in sides]
    latencies = list(result.latencies.values())
    batch = result.spec.batch_size
    title = "Latency per token" if result.spec.unit == "token" else "Latency of one call"
    names = [naming.variant_name(name, result.spec).lower() for name in ("eager", "compiled")]
    counts = [str(calls) for calls in sorted({len(side.wall_seconds) for side in sides})]
    counted = f"{fmt.enumerated(counts)} calls each; line: 5th to 95th percentile"
    return style.bars(
        title=f"{title}, batch {batch}" if batch > 1 else title,
        names=names,
        seconds=latencies,
        texts=list(map(fmt.latency, latencies)),
        ranges=ranges,
        source=[counted, *style.provenance(result)],
        right=78,
    )


def _at_eager(name: str) -> str:
    return f"<b>{name}</b>  eager"


def run_and_guide(result: RunResult) -> go.Figure | None:
    """This run's two bars, then the guide's for each GPU, with its batch size where that differs from the run's; None
    where `compare_with_guide` has nothing to tell."""
    comparison = compare_with_guide(result)
    if comparison is None:
        return None
    here, size = result.spec.batch_size, style.NAMES
    own = [result.latencies.get(side) for side in ("eager", "compiled")]
    shown: list[style.Pair] = [(_at_eager("Here"), own, comparison.ratio)]
    for row in comparison.rows:
        name = row.gpu
        if row.batch_size != here:
            name, size = f"{name}, batch {row.batch_size}", style.NAMES - 2
        shown.append((_at_eager(name), (row.eager_seconds, row.compiled_seconds), row.speedup))
    gpus = ", ".join(row.gpu for row in comparison.rows)
    conditions = ", ".join(dict.fromkeys(versions([row]) for row in comparison.rows))
    there = f"{gpus}: mean of {PUBLISHED_CALLS} calls, {conditions}"
    settings = f"Here: {naming.settings(result.spec)}"
    source = [settings, *style.provenance(result), there, GUIDE]
    # right: '43.7 ms  1.00×' beside the longest bar
    return style.paired_bars("Time of one call, here and in the guide", shown, source, right=148, size=size)


def trace(result: RunResult) -> go.Figure | None:
    """Every timed call of both variants in the order timed, which shows drift, steps and outliers; None without any.

    The scale ends at `SLOWEST_SHOWN` times the slower median; calls beyond it sit on the edge as triangles, and the
    line below says how many and how slow. A call's number counts its variant's own calls: between them lie the other
    variant's, in A B B A order.
    """
    sides = [one for one in naming.variants(result) if one[2].wall_seconds]
    if not sides:
        return None
    slowest = max(max(side.wall_seconds) for *_, side in sides)
    end = min(SLOWEST_SHOWN * max(side.median_seconds for *_, side in sides), slowest * 1.05)
    scale, unit = style.scale_of([end])
    figure, beyond = go.Figure(), 0
    for variant, name, side in sides:
        colour, shape = _DOTS[variant]
        times = np.asarray(side.wall_seconds)
        far = times > end
        beyond += int(far.sum())
        figure.add_trace(
            go.Scatter(
                name=name.lower(),
                x=list(range(1, len(times) + 1)),
                y=(np.minimum(times, end) * scale).tolist(),
                text=[fmt.latency(time) for time in side.wall_seconds],
                mode="markers",
                marker={
                    "color": colour,
                    "size": [9 if out else 5 for out in far],
                    "symbol": ["triangle-up" if out else shape for out in far],
                    "opacity": 0.75,
                    "line": {"width": 0},
                },
                hovertemplate="call %{x}: %{text}",
                cliponaxis=False,
            )
        )
    source = ["One dot a call, in the order timed", *style.provenance(result)]
    if beyond:
        source.append(f"▲ {beyond} beyond the scale, the slowest {fmt.latency(slowest)}")
    figure.update_yaxes(range=[0, end * scale], showgrid=True, nticks=5)
    figure.update_xaxes(showgrid=False, nticks=6, range=[0, max(len(side.wall_seconds) for *_, side in sides) + 1])
    figure.update_layout(showlegend=True)
    words = [f"{name} {fmt.latency(side.median_seconds)}" for _, name, side in sides]
    return style.layout(figure, f"Every timed call, {unit}", source, words, left=44, right=8)


# The published tables

GPU_COLOURS = ("#009E73", "#AA4499", "#6B7280", "#C0392B", "#8C6D1F")
"""Contrast at least 3:1 on both backgrounds. With colour blindness they need `SHAPES` to be words apart."""
SHAPES = ("circle", "diamond", "square", "triangle-up", "x")
_LINES_HEIGHT = 300


def durations(rows: Sequence[PublishedRow]) -> go.Figure | None:
    """Time of one call by model; `rows` are of one subset, one GPU and one batch size. None without rows."""
    if not rows:
        return None
    shown: list[style.Pair] = []
    for row in rows:
        name = _name(row.model, 18) + (" †" if published.faults_at(row) else "")
        shown.append((name, (row.eager_seconds, row.compiled_seconds), row.speedup))
    return style.paired_bars("Time of one call", shown, _source(rows), right=110, left=150)


def _source(rows: Sequence[PublishedRow]) -> list[str]:
    """The source lines: setting, how a time was taken, and who measured it."""
    first, days = rows[0], sorted({row.date for row in rows if row.measured})
    how = f"Mean of {PUBLISHED_CALLS} calls, {versions(rows)}"
    if first.measured:
        how = ", ".join(["One call", versions(rows), first.dtype, *days])
    noted = ["† has a note at its row of the table"] if any(map(published.faults_at, rows)) else []
    return [f"{first.gpu}, batch {first.batch_size}", how, *noted, *_origins(rows, "Measured by this project")]


LABEL_SHARE = 0.06
"""Height of a label as a share of `by_batch`'s plot."""


def by_batch(rows: Sequence[PublishedRow]) -> go.Figure | None:
    """Speed-up against batch size, one line a GPU: the geometric mean of the models that ran, or the one model's.

    `rows` are of one subset of the guide, of one measured setting, or of both. Each device that this project measured
    has its own line; if it was measured twice, the later one. None where no row has a speed-up.
    """
    rows = published.newest(rows)
    series: dict[tuple[str, str], list[PublishedRow]] = {}
    for row in rows:
        series.setdefault((row.origin, row.gpu), []).append(row)
    points = {key: means for key, own in series.items() if (means := _means(own))}
    if not points:
        return None
    batches = sorted({batch for means in points.values() for batch in means})
    every = [1.0, *(value for means in points.values() for value in means.values())]
    pad = (max(every) - min(every) or 0.1) * 0.1
    low, high = min(every) - pad, max(every) + pad
    figure, words, counted = go.Figure(), [], []
    labelled: dict[int, list[float]] = {}

    def label(batch: int, ratio: float) -> str:
        """The ratio where no label of another line is in its place; hovering tells the others."""
        near = any(abs(ratio - other) < (high - low) * LABEL_SHARE for other in labelled.get(batch, []))
        labelled.setdefault(batch, []).extend([] if near else [ratio])
        return "" if near else fmt.ratio(ratio)

    for number, ((origin, gpu), means) in enumerate(points.items()):
        own = origin == published.MEASURED
        colour, shape = GPU_COLOURS[number % len(GPU_COLOURS)], SHAPES[number % len(SHAPES)]
        whose = "measured by this project" if own else "published"
        lines = [*textwrap.wrap(gpu, 16), *(["(own)"] if own else [])]
        figure.add_trace(
            go.Scatter(
                name="<br>".join(html.escape(line, quote=False) for line in lines),
                x=list(means),
                y=list(means.values()),
                text=[label(*point) for point in means.items()],
                textposition="top center",
                mode="lines+markers+text",
                line={"color": colour, "width": 2.5, "dash": "dash" if own else "solid"},
                marker={"size": 11, "symbol": shape + ("-open" if own else ""), "color": colour},
                hovertemplate="batch %{x}: %{y:.3f}×",
                cliponaxis=False,
            )
        )
        # a mean of fewer models is another mean
        ran = [row.batch_size for row in series[origin, gpu] if row.speedup is not None]
        counts = fmt.enumerated(str(ran.count(batch)) for batch in batches)
        counted.append(f"{gpu}{' (own)' if own else ''}: {counts} models")
        words.append(f"{gpu}, {whose} " + ", ".join(f"{x}: {y:.3g}×" for x, y in means.items()))
    figure.add_hline(y=1, line={"color": style.LINE, "width": 1.5}, layer="below")
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=batches, showgrid=False)
    figure.update_yaxes(range=[low, high], nticks=6, ticksuffix="×", showgrid=True, zeroline=False)
    models = published.values([row for row in rows if row.speedup is not None], "model")
    what = models[0] if len(models) == 1 else "geometric mean of the models that ran"
    settings = [", ".join([versions([row]), *([row.dtype] if row.measured else [])]) for row in rows]
    source = [
        f"Across: batch size. Up: speed-up, {what}; above 1× compiled is faster",
        "; ".join(dict.fromkeys(settings)),
    ]
    source += counted if len(models) > 1 else []
    source += _origins(rows, "(own), dashed: measured by this project")
    figure.update_layout(showlegend=True)
    return style.layout(figure, "Speed-up by batch size, ×", source, words, left=52, right=24, plot=_LINES_HEIGHT)


def comparable_rows(row: PublishedRow, rows: Sequence[PublishedRow]) -> list[PublishedRow]:
    """The rows that fit on one chart with `row`: its table, and beside the guide's this project's of the same mode in
    float32, with the guide's settings and checkpoints."""
    if row.measured:
        return [other for other in rows if other.subset == row.subset]
    alike = subset_of(RunSpec(checkpoint=row.checkpoint, task=row.task, mode=row.mode))
    guides = {other.checkpoint for other in rows if other.subset == row.subset}
    return [other for other in rows if other.checkpoint in guides and other.subset in (row.subset, alike)]


def _origins(rows: Sequence[PublishedRow], own: str) -> list[str]:
    measured = {row.measured for row in rows}
    return ([GUIDE] if False in measured else []) + ([own] if True in measured else [])


def _means(rows: Sequence[PublishedRow]) -> dict[int, float]:
    means = {
        batch: published.mean_speedup([row for row in rows if row.batch_size == batch])
        for batch in published.values(rows, "batch_size")
    }
    return {batch: mean for batch, mean in means.items() if mean is not None}


def _name(name: str, most: int) -> str:
    """Shortened to `most` letters and escaped for a figure."""
    return html.escape(fmt.shortened(name, most), quote=False)
