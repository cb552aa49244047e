"""The charts of the published tab: the guide's tables and this project's own.

Each GPU has a colour and a shape, none of them eager's or compiled's; a device that this project measured has open
marks, a dashed line and a label that says so.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import plotly.graph_objects as go

from demo.core import format as fmt
from demo.core.languages import Language
from demo.core.result import RunResult
from demo.core.spec import PUBLISHED_CALLS, RunSpec
from demo.present import sentences
from demo.present.figure import LINE, NAMES, bars, directed, dressed, room, scale_of, titled
from demo.present.guide_comparison import GuideComparison
from demo.present.palette import COMPILED, EAGER
from demo.store import published
from demo.store.measured import subset_of
from demo.store.tables import PublishedRow

PALETTE = ("#009E73", "#AA4499", "#6B7280", "#C0392B", "#8C6D1F")
"""Contrast at least 3:1 on both backgrounds. With colour blindness they need `SHAPES` to be told apart."""
SHAPES = ("circle", "diamond", "square", "triangle-up", "x")
_SIGNS = ("●", "◆", "■", "▲", "✕")
_OPEN_SIGNS = ("○", "◇", "□", "△", "✕")
_PAIR = 2.6
"""Places that a model's two bars and the gap below them take."""
_PIXELS = 56
"""Height of a model's bars with the gap."""
_LINES_HEIGHT = 300
_MODELS, _SMALL = 15, 14
"""Pixels of the letters of models' names, and of those of GPUs with a batch size."""


def durations(rows: Sequence[PublishedRow], lang: Language) -> go.Figure | None:
    """Time of one call with and without compiling, by model. `rows` are of one subset, one GPU and one batch size.

    A variant that ran out of memory has that text instead of a bar. None without rows.
    """
    if not rows:
        return None
    scale, unit = scale_of([value for row in rows for value in (row.eager_seconds, row.compiled_seconds)])
    drawn = []
    for name, colour, offset in (("eager", EAGER, 0.0), ("compiled", COMPILED, 1.0)):
        seconds = [row.eager_seconds if name == "eager" else row.compiled_seconds for row in rows]
        values = [None if value is None else value * scale for value in seconds]
        texts = [sentences.out_of_memory(lang) if value is None else _bare(value) for value in values]
        if name == "compiled":
            ratios = ["" if row.speedup is None else f"  <b>{fmt.ratio(row.speedup)}</b>" for row in rows]
            texts = [text + ratio for text, ratio in zip(texts, ratios, strict=True)]
        drawn.append(_Bars(name, colour, offset, 0.86, values, texts))
    figure = _by_model(rows, drawn)
    key = "   ".join(f'<span style="color:{one.colour}">■</span> {sentences.variant(one.name, lang)}' for one in drawn)
    figure.add_annotation(text=key, x=0, xref="paper", y=1, yref="paper", yanchor="bottom", showarrow=False)
    return _finished(figure, rows, titled("chart_time", unit, lang), _source(rows, lang))


def improvements(rows: Sequence[PublishedRow], lang: Language) -> go.Figure | None:
    """Share of the eager time that compiling saves, by model, in per cent; `rows` as for `durations`."""
    if not rows:
        return None
    saved = [None if row.saved is None else row.saved * 100 for row in rows]
    texts = [sentences.out_of_memory(lang) if value is None else f"{_signed(value)} %" for value in saved]
    figure = _by_model(rows, [_Bars("saved", COMPILED, 0.5, 1.3, saved, texts)])
    source = [lang.plain("chart_saved_why"), *_source(rows, lang)]
    return _finished(figure, rows, titled("chart_saved", "%", lang), source)


class _Bars(NamedTuple):
    """One bar for each model."""

    name: str
    colour: str
    offset: float
    """Places below the first place of a model."""
    width: float
    """Places."""
    values: list[float | None]
    texts: list[str]


def _by_model(rows: Sequence[PublishedRow], bars: Sequence[_Bars]) -> go.Figure:
    """Bars to the right, each with its text at its end; the models' names stand on the left, the first on top."""
    figure = go.Figure()
    for name, colour, offset, width, values, texts in bars:
        where = [number * _PAIR + offset for number in range(len(rows))]
        lengths = [value or 0.0 for value in values]
        marker = {"color": colour, "line": {"width": 0}}
        figure.add_trace(
            go.Bar(name=name, orientation="h", y=where, x=lengths, width=width, marker=marker, hoverinfo="skip")
        )
        for at, length, text in zip(where, lengths, texts, strict=True):
            figure.add_annotation(x=max(length, 0.0), y=at, text=text, xanchor="left", xshift=6, showarrow=False)
    names = [html.escape(row.model, quote=False) + (" †" if published.faults_at(row) else "") for row in rows]
    figure.update_yaxes(
        tickvals=[number * _PAIR + 0.5 for number in range(len(rows))],
        ticktext=[name if len(name) <= 18 else f"{name[:17]}…" for name in names],
        range=[(len(rows) - 1) * _PAIR + 1.7, -0.7],
        ticks="",
        showgrid=False,
        zeroline=False,
    )
    known = [value for one in bars for value in one.values if value is not None]
    figure.update_xaxes(range=[min([0.0, *known]), max([0.0, *known]) or 1], nticks=5, showgrid=True, zeroline=True)
    return figure.update_layout(barmode="overlay")


def _finished(figure: go.Figure, rows: Sequence[PublishedRow], title: str, source: list[str]) -> go.Figure:
    dressed(figure, title, source, left=_LEFT, right=96, plot=_PIXELS * len(rows) + 8)
    return _written(figure, _MODELS)


def by_batch(rows: Sequence[PublishedRow], lang: Language) -> go.Figure | None:
    """Speed-up against batch size, one line a GPU: the geometric mean of the models that ran, or the one model's.

    `rows` are of one subset of the guide, of one measured setting, or of both. Each device that this project measured
    has its own line; if it was measured twice, the later one. None where no row has a speed-up.
    """
    rows = published.newest(rows)
    series: dict[tuple[str, str], list[PublishedRow]] = {}
    for row in rows:
        series.setdefault((published.origin(row), row.gpu), []).append(row)
    points = {key: _means(own) for key, own in series.items()}
    points = {key: means for key, means in points.items() if means}
    if not points:
        return None
    batches = sorted({batch for means in points.values() for batch in means})
    every = [value for means in points.values() for value in means.values()]
    low, high = min([1.0, *every]), max([1.0, *every])
    pad = (high - low or 0.1) * 0.08
    low, high = low - pad, high + pad
    hover = lang.composed("asked_batch", size=lang.plain_value("%{x}")) + ": " + lang.plain_value("%{y:.3f}×")
    figure = go.Figure()
    for number, ((origin, gpu), means) in enumerate(points.items()):
        own = origin == published.MEASURED
        whose = lang.plain("published_measured" if own else "chart_published")
        figure.add_trace(
            go.Scatter(
                name=lang.listed([lang.plain_value(gpu), whose]),
                x=list(means),
                y=list(means.values()),
                mode="lines+markers",
                line={"color": _colour(number), "width": 2.5, "dash": "dash" if own else "solid"},
                marker={"size": 11, "symbol": _shape(number) + ("-open" if own else ""), "color": _colour(number)},
                hovertemplate=f"{directed(hover)}<extra>{html.escape(gpu, quote=False)}</extra>",
                cliponaxis=False,
            )
        )
    _write_points(figure, points, batches, low, high, lang)
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
    source = [lang.composed("chart_axes", what=what)]
    versions = dict.fromkeys(
        lang.listed([_versions([row], lang), *([lang.plain_value(row.dtype)] if row.measured else [])]) for row in rows
    )
    source.append(lang.texts["semicolon"].join(versions))
    source += [_counted(gpu, origin, series[origin, gpu], batches, lang) for origin, gpu in points if len(models) > 1]
    source += _origins(rows, lang.plain("chart_dashed"), lang)
    early = any(origin == published.MEASURED and max(means) < batches[-1] for (origin, _), means in points.items())
    right = max(172 if early else 128, *(40 + 9 * len(_name(gpu)) for _, gpu in points))
    title = titled("chart_by_batch", "×", lang)
    figure = dressed(figure, title, source, left=52, right=right, plot=_LINES_HEIGHT)
    for note in figure.layout.annotations[:-1]:
        note.font.size = 14
    return figure


def comparable_rows(row: PublishedRow, rows: Sequence[PublishedRow]) -> list[PublishedRow]:
    """The rows that fit on one chart with `row`: its table, and beside the guide's this project's of the same setting.

    That is the same compile mode, float32, and otherwise the guide's settings.
    """
    if row.measured:
        return [other for other in rows if other.subset == row.subset]
    alike = subset_of(RunSpec(checkpoint=row.checkpoint, task=row.task, mode=row.mode))
    return [other for other in rows if other.subset == row.subset or other.subset == alike]


def run_and_guide(result: RunResult, comparison: GuideComparison, lang: Language) -> go.Figure:
    """This run's two bars, then the guide's for each GPU; the speed-up stands at the compiled bar.

    A row's batch size stands at its GPU's name where it differs from the run's.
    """
    spec, machine = result.spec, result.environment
    own = [result.latencies.get(variant) for variant in ("eager", "compiled")]
    shown = [(lang.plain("chart_here"), own, comparison.ratio)]
    for row in comparison.rows:
        batch = [lang.plain("asked_batch", size=row.batch_size)] if row.batch_size != spec.batch_size else []
        name = directed(lang.listed([lang.plain_value(row.gpu), *batch]))
        shown.append((name, [row.eager_seconds, row.compiled_seconds], row.speedup))
    names, seconds, texts = [], [], []
    for name, pair, speedup in shown:
        names += [f"<b>{name}</b>  {sentences.variant('eager', lang)}", sentences.variant("compiled", lang)]
        seconds += pair
        texts += [sentences.out_of_memory(lang) if value is None else fmt.latency(value) for value in pair]
        if speedup is not None:
            texts[-1] += f"  <b>{fmt.ratio(speedup)}</b>"
    setting = [
        lang.plain("asked_batch", size=spec.batch_size),
        lang.plain("beside_mode", mode=spec.mode),
        lang.plain_value(spec.dtype),
        sentences.named_setting("weights", spec.weights, lang),
    ]
    source = [
        lang.composed("chart_here_setting", setting=lang.listed(setting)),
        _short(f"torch {machine.torch}, {machine.device_name}") if machine else "",
        lang.composed(
            "chart_there",
            gpus=lang.listed([lang.plain_value(row.gpu) for row in comparison.rows]),
            calls=lang.plain_value(PUBLISHED_CALLS),
            versions=lang.listed(list(dict.fromkeys(_versions([row], lang) for row in comparison.rows))),
        ),
        lang.plain("chart_source"),
    ]
    small = _SMALL if any(row.batch_size != spec.batch_size for row in comparison.rows) else NAMES
    left, right = room(names, small), 20 + 8 * small  # '43.7 ms  1.00×' beside the longest bar
    figure = bars(lang.plain("chart_beside"), names, seconds, texts, [None] * len(names), source, left, right, lang)
    return _written(figure, small)


_LEFT = 138


def _written(figure: go.Figure, size: int) -> go.Figure:
    """Names and values in letters of `size` pixels."""
    figure.update_yaxes(tickfont={"size": size})
    for note in figure.layout.annotations[:-1]:
        note.font.size = size
    return figure


def _source(rows: Sequence[PublishedRow], lang: Language) -> list[str]:
    """The source lines: setting, how a time was taken, and who measured it."""
    first, versions = rows[0], _versions(rows, lang)
    days = sorted({row.date for row in rows if row.measured})
    if not first.measured:
        how = lang.composed("chart_mean", calls=lang.plain_value(PUBLISHED_CALLS), versions=versions)
    else:
        period = lang.plain_value(days[0]) if days[0] == days[-1] else lang.plain("between", low=days[0], high=days[-1])
        how = lang.composed("chart_measured_call", versions=versions, dtype=lang.plain_value(first.dtype), days=period)
    size = first.batch_size
    batch = lang.plain("asked_batch", size=size)
    noted = [lang.plain("chart_noted")] if any(map(published.faults_at, rows)) else []
    own = lang.capital(lang.plain("published_measured"))
    return [lang.listed([lang.plain_value(_short(first.gpu)), batch]), how, *noted, *_origins(rows, own, lang)]


def _versions(rows: Sequence[PublishedRow], lang: Language) -> str:
    """'torch 2.0.1, mode default', of rows in one mode."""
    torch = [lang.plain_value(f"torch {name}") for name in dict.fromkeys(_short(row.torch) for row in rows)]
    return lang.listed([sentences.enumerated(torch, lang), lang.plain("beside_mode", mode=rows[0].mode)])


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
    name = lang.plain_value(_short(gpu))
    own = f"{name} {lang.plain('chart_own')}" if origin == published.MEASURED else name
    return lang.composed("chart_models", gpu=own, counts=models)


def _write_points(
    figure: go.Figure,
    points: dict[tuple[str, str], dict[int, float]],
    batches: Sequence[int],
    low: float,
    high: float,
    lang: Language,
) -> None:
    """Writes the value at each point, and the GPU's name with its last value on the right, so that no two overlap.

    The last value stands below the name for a device that this project measured and for a line that ends early.
    """
    for batch in batches:
        at_end = batch == batches[-1]
        here = list(points) if at_end else [key for key, means in points.items() if batch in means]
        values = [points[key].get(batch, points[key][max(points[key])]) for key in here]
        heights = [(value - low) / (high - low) * _LINES_HEIGHT for value in values]
        labels = [_label(list(points).index(key), key, points[key], batch, lang) for key in here]
        texts = labels if at_end else [fmt.ratio(value) for value in values]
        lifted = heights if at_end else [height + 16 for height in heights]
        sizes = [17 * (1 + text.count("<br>")) for text in texts]
        for value, text, height, free in zip(values, texts, heights, moved_apart(lifted, sizes), strict=True):
            figure.add_annotation(
                x=math.log10(batch),
                y=value,
                text=text,
                align="left",
                xanchor="left" if at_end else "center",
                xshift=11 if at_end else 4,
                yshift=free - height,
                showarrow=False,
            )


def _label(number: int, key: tuple[str, str], means: dict[int, float], batch: int, lang: Language) -> str:
    """A line's sign, name and last value, with its batch size where the line ends before `batch`."""
    (origin, gpu), last = key, max(means)
    own = origin == published.MEASURED
    sign = (_OPEN_SIGNS if own else _SIGNS)[number % len(_SIGNS)]
    early = [f"{lang.plain('asked_batch', size=last)}:"] if last != batch else []
    texts = [*([lang.plain("chart_own")] if own else []), *early, lang.plain_value(fmt.ratio(means[last]))]
    gap = "<br>" if len(texts) > 1 else " "
    return f'<span style="color:{_colour(number)}">{sign}</span> <b>{_name(gpu)}</b>{gap}{directed(" ".join(texts))}'


def moved_apart(heights: Sequence[float], sizes: Sequence[float]) -> list[float]:
    """Heights of the texts' middles, in pixels, moved apart so that texts of these sizes do not overlap."""
    order = sorted(range(len(heights)), key=lambda place: heights[place])
    free = list(heights)
    for before, place in pairwise(order):
        free[place] = max(free[place], free[before] + (sizes[before] + sizes[place]) / 2)
    moved = (sum(free) - sum(heights)) / len(heights) if heights else 0.0
    return [value - moved for value in free]


def _colour(number: int) -> str:
    return PALETTE[number % len(PALETTE)]


def _shape(number: int) -> str:
    return SHAPES[number % len(SHAPES)]


def _bare(value: float) -> str:
    """Three significant digits without a unit, which the title has: '1444', '14.4', '1.44', '0.0385'."""
    return f"{value:.0f}" if value >= 100 else f"{value:#.3g}"


def _signed(value: float) -> str:
    """With a minus sign instead of a hyphen, as Plotly writes its axes."""
    return (f"{value:.0f}" if abs(value) >= 9.95 else f"{value:.1f}").replace("-", "−")


def _short(name: str) -> str:
    """At most 48 characters."""
    return name if len(name) <= 48 else f"{name[:47]}…"


def _name(gpu: str) -> str:
    """Shortened and escaped for a figure."""
    return html.escape(gpu if len(gpu) <= 16 else f"{gpu[:15]}…", quote=False)
