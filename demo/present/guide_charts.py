"""The charts of the published tab: the guide's tables and this project's own.

Each GPU has a colour and a shape, none of them eager's or compiled's; a device that this project measured has open
marks, a dashed line and a label that says so.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

import plotly.graph_objects as go

from demo.core import format as fmt
from demo.core.languages import Language
from demo.core.spec import PUBLISHED_CALLS, RunSpec
from demo.present import sentences
from demo.present.figure import LINE, Pair, directed, dressed, names_at_end, paired_bars, shortened, titled
from demo.present.guide_comparison import versions
from demo.store import published
from demo.store.measured import subset_of
from demo.store.tables import PublishedRow

PALETTE = ("#009E73", "#AA4499", "#6B7280", "#C0392B", "#8C6D1F")
"""Contrast at least 3:1 on both backgrounds. With colour blindness they need `SHAPES` to be told apart."""
SHAPES = ("circle", "diamond", "square", "triangle-up", "x")
_SIGNS = ("●", "◆", "■", "▲", "✕")
_OPEN_SIGNS = ("○", "◇", "□", "△", "✕")
_LINES_HEIGHT = 300


def durations(rows: Sequence[PublishedRow], lang: Language) -> go.Figure | None:
    """Time of one call with and without compiling, by model. `rows` are of one subset, one GPU and one batch size.

    The model's name stands at eager's bar, the speed-up at the compiled one. A variant that ran out of memory has that
    text instead of a bar. None without rows.
    """
    if not rows:
        return None
    shown: list[Pair] = []
    for row in rows:
        name = _name(row.model, 18) + (" †" if published.faults_at(row) else "")
        shown.append((name, (row.eager_seconds, row.compiled_seconds), row.speedup))
    return paired_bars(lang.plain("chart_time"), shown, _source(rows, lang), right=110, lang=lang, left=150)


def _source(rows: Sequence[PublishedRow], lang: Language) -> list[str]:
    """The source lines: setting, how a time was taken, and who measured it."""
    first, days = rows[0], sorted({row.date for row in rows if row.measured})
    if not first.measured:
        how = lang.composed("chart_mean", calls=lang.plain_value(PUBLISHED_CALLS), versions=versions(rows, lang))
    else:
        period = lang.plain_value(days[0]) if days[0] == days[-1] else lang.plain("between", low=days[0], high=days[-1])
        dtype = lang.plain_value(first.dtype)
        how = lang.composed("chart_measured_call", versions=versions(rows, lang), dtype=dtype, days=period)
    size = first.batch_size
    batch = lang.plain("asked_batch", size=size)
    noted = [lang.plain("chart_noted")] if any(map(published.faults_at, rows)) else []
    own = lang.capital(lang.plain("published_measured"))
    return [lang.listed([lang.plain_value(shortened(first.gpu)), batch]), how, *noted, *_origins(rows, own, lang)]


def by_batch(rows: Sequence[PublishedRow], lang: Language) -> go.Figure | None:
    """Speed-up against batch size, one line a GPU: the geometric mean of the models that ran, or the one model's.

    `rows` are of one subset of the guide, of one measured setting, or of both. Each device that this project measured
    has its own line; if it was measured twice, the later one. None where no row has a speed-up.
    """
    rows = published.newest(rows)
    series: dict[tuple[str, str], list[PublishedRow]] = {}
    for row in rows:
        series.setdefault((published.origin(row), row.gpu), []).append(row)
    points = {key: means for key, own in series.items() if (means := _means(own))}
    if not points:
        return None
    batches = sorted({batch for means in points.values() for batch in means})
    every = [1.0, *(value for means in points.values() for value in means.values())]
    pad = (max(every) - min(every) or 0.1) * 0.1
    low, high = min(every) - pad, max(every) + pad
    hover = lang.composed("asked_batch", size=lang.plain_value("%{x}")) + ": " + lang.plain_value("%{y:.3f}×")
    figure, named, told = go.Figure(), [], []
    for number, ((origin, gpu), means) in enumerate(points.items()):
        own = origin == published.MEASURED
        colour, shape = PALETTE[number % len(PALETTE)], SHAPES[number % len(SHAPES)]
        whose = lang.plain("published_measured" if own else "chart_published")
        figure.add_trace(
            go.Scatter(
                name=lang.listed([lang.plain_value(gpu), whose]),
                x=list(means),
                y=list(means.values()),
                text=[*map(fmt.ratio, [*means.values()][:-1]), ""],  # the last value stands at the name
                textposition="top center",
                mode="lines+markers+text",
                line={"color": colour, "width": 2.5, "dash": "dash" if own else "solid"},
                marker={"size": 11, "symbol": shape + ("-open" if own else ""), "color": colour},
                hovertemplate=f"{directed(hover)}<extra>{html.escape(gpu, quote=False)}</extra>",
                cliponaxis=False,
            )
        )
        sign = (_OPEN_SIGNS if own else _SIGNS)[number % len(_SIGNS)]
        mark, end = f"<br>{lang.plain('chart_own')}" if own else "", means[max(means)]
        named.append((f"{_name(gpu, 16)}{mark} {fmt.ratio(end)}", sign, colour, end))
        told.append(f"{gpu}, {whose} " + ", ".join(f"{x}: {y:.3g}×" for x, y in means.items()))
    figure.add_hline(y=1, line={"color": LINE, "width": 1.5}, layer="below")
    figure.update_xaxes(
        type="log",
        tickvals=batches,
        ticktext=[str(batch) for batch in batches],
        range=[math.log10(batches[0]) - 0.06, math.log10(batches[-1]) + 0.06],
        showgrid=False,
    )
    figure.update_yaxes(range=[low, high], nticks=6, ticksuffix="×", showgrid=True, zeroline=False)
    models = published.values([row for row in rows if row.speedup is not None], "model")
    what = lang.plain_value(models[0]) if len(models) == 1 else lang.plain("chart_mean_models")
    dtypes = [[lang.plain_value(row.dtype)] if row.measured else [] for row in rows]
    settings = [lang.listed([versions([row], lang), *dtype]) for row, dtype in zip(rows, dtypes, strict=True)]
    source = [lang.composed("chart_axes", what=what), lang.texts["semicolon"].join(dict.fromkeys(settings))]
    source += [_counted(gpu, origin, series[origin, gpu], batches, lang) for origin, gpu in points if len(models) > 1]
    source += _origins(rows, lang.plain("chart_dashed"), lang)
    title, right = titled("chart_by_batch", "×", lang), names_at_end(figure, named, _LINES_HEIGHT / (high - low))
    return dressed(figure, title, source, told, left=52, right=right, plot=_LINES_HEIGHT)


def comparable_rows(row: PublishedRow, rows: Sequence[PublishedRow]) -> list[PublishedRow]:
    """The rows that fit on one chart with `row`: its table, and beside the guide's this project's of the same setting.

    That is the same compile mode, float32, and otherwise the guide's settings and checkpoints.
    """
    if row.measured:
        return [other for other in rows if other.subset == row.subset]
    alike = subset_of(RunSpec(checkpoint=row.checkpoint, task=row.task, mode=row.mode))
    guides = {other.checkpoint for other in rows if other.subset == row.subset}
    return [other for other in rows if other.checkpoint in guides and other.subset in (row.subset, alike)]


def _origins(rows: Sequence[PublishedRow], own: str, lang: Language) -> list[str]:
    measured = {row.measured for row in rows}
    return [text for kind, text in ((False, lang.plain("chart_source")), (True, own)) if kind in measured]


def _means(rows: Sequence[PublishedRow]) -> dict[int, float]:
    means = {
        batch: published.mean_speedup([row for row in rows if row.batch_size == batch])
        for batch in published.values(rows, "batch_size")
    }
    return {batch: mean for batch, mean in means.items() if mean is not None}


def _counted(gpu: str, origin: str, rows: Sequence[PublishedRow], batches: Sequence[int], lang: Language) -> str:
    """'A100: 12, 11 and 11 models': a mean of fewer models is another mean."""
    counts = [str(sum(row.batch_size == batch and row.speedup is not None for row in rows)) for batch in batches]
    models = sentences.enumerated(map(lang.plain_value, counts), lang)
    name = lang.plain_value(shortened(gpu))
    own = f"{name} {lang.plain('chart_own')}" if origin == published.MEASURED else name
    return lang.composed("chart_models", gpu=own, counts=models)


def _name(name: str, most: int) -> str:
    """Shortened to `most` letters and escaped for a figure."""
    return html.escape(name if len(name) <= most else f"{name[: most - 1]}…", quote=False)
