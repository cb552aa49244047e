"""The charts of one result: latency, every timed call, break-even; and the guide's bars, alone or beside a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import plotly.graph_objects as go

from demo.core import format as fmt
from demo.core.languages import Language
from demo.core.measurement import Measurement
from demo.core.result import RunResult
from demo.core.spec import PUBLISHED_CALLS
from demo.present import sentences
from demo.present.figure import (
    NAMES,
    PLOT_HEIGHT,
    SIGN_WIDTH,
    TEXT,
    bars,
    directed,
    dressed,
    error_bar,
    name_at_end,
    provenance,
    room,
    scale_of,
    shortened,
    spread,
    titled,
)
from demo.present.guide_comparison import GPUS, GuideComparison, versions
from demo.present.palette import COMPILED, EAGER
from demo.store.tables import PublishedRow

SLOWEST_SHOWN = 3.0
"""The scale of `trace` ends at this multiple of the slower median."""
NO_TIMES = ("ok", "failed")
"""Statuses that give no reason why a variant has no times."""


def latency_bars(result: RunResult, lang: Language) -> go.Figure:
    """Wall time of one call, which of a text model writes one token a prompt, eager above compiled, with the range of
    nine calls in ten. With added graph breaks compiled is shown without them and with them.

    The line on each bar goes from the 5th to the 95th percentile of the timed calls; it is not the uncertainty of the
    speed-up, whose interval is in the headline. A variant without times has a word instead of a bar.
    """
    timed, latencies = sentences.timed(result), list(sentences.latencies(result).values())
    sides = [side if side and side.wall_seconds else None for side in timed.values()]
    ranges = [tuple(np.quantile(side.wall_seconds, (0.05, 0.95)).tolist()) if side else None for side in sides]
    missing = lang.plain("chart_not_timed" if result.status in NO_TIMES else f"status_{result.status}").lower()
    batch = result.spec.batch_size
    title = "chart_latency_token" if result.spec.unit == "token" else "chart_latency"
    names = [sentences.variant(variant, lang) for variant in timed]
    return bars(
        title=lang.listed([lang.plain(title), *([lang.plain("asked_batch", size=batch)] if batch > 1 else [])]),
        names=names,
        seconds=latencies,
        texts=[missing if seconds is None else fmt.latency(seconds) for seconds in latencies],
        ranges=ranges,
        source=[_counted(sides, lang), *provenance(result)],
        left=room(names),
        right=78,
        lang=lang,
        group=len(names),
    )


def published_bars(rows: Iterable[PublishedRow], checkpoint: str, lang: Language) -> go.Figure | None:
    """What the guide measured for `checkpoint` on its three GPUs: batch 1, mode default, its stable torch release.

    None where the guide has no such row. A time that the guide lacks is 'out of memory'.
    """
    by_gpu = {
        row.gpu: row
        for row in rows
        if (row.checkpoint, row.subset, row.batch_size, row.mode) == (checkpoint, "release", 1, "default")
    }
    shown = [by_gpu[gpu] for gpu in GPUS if gpu in by_gpu]
    if not shown:
        return None
    names, seconds, texts = pairs(
        [(row.gpu, (row.eager_seconds, row.compiled_seconds), row.speedup) for row in shown], lang
    )
    return bars(
        title=lang.plain("chart_title"),
        names=names,
        seconds=seconds,
        texts=texts,
        ranges=[None] * len(names),
        source=[
            shortened(checkpoint),
            lang.plain("chart_conditions", calls=PUBLISHED_CALLS, torch=shown[0].torch),
            lang.plain("chart_source"),
        ],
        left=max(112, room(names)),
        right=118,
        lang=lang,
    )


Pair = tuple[str, Sequence[float | None], float | None]
"""What two bars stand for: a name, the seconds of eager and of compiled, and the speed-up where it is known."""


def pairs(shown: Iterable[Pair], lang: Language) -> tuple[list[str], list[float | None], list[str]]:
    """Names, seconds and texts of `bars`, two for each of `shown`; the speed-up stands at the compiled bar."""
    names: list[str] = []
    seconds: list[float | None] = []
    texts: list[str] = []
    for name, pair, speedup in shown:
        names += [f"<b>{name}</b>  {sentences.variant('eager', lang)}", sentences.variant("compiled", lang)]
        seconds += pair
        texts += [sentences.out_of_memory(lang) if value is None else fmt.latency(value) for value in pair]
        if speedup is not None:
            texts[-1] += f"  <b>{fmt.ratio(speedup)}</b>"
    return names, seconds, texts


def run_and_guide(result: RunResult, comparison: GuideComparison, lang: Language) -> go.Figure:
    """This run's two bars, then the guide's for each GPU; the speed-up stands at the compiled bar.

    A row's batch size stands at its GPU's name where it differs from the run's.
    """
    spec, machine = result.spec, result.environment
    shown: list[Pair] = [
        (lang.plain("chart_here"), [result.latencies.get(side) for side in ("eager", "compiled")], comparison.ratio)
    ]
    for row in comparison.rows:
        batch = [lang.plain("asked_batch", size=row.batch_size)] if row.batch_size != spec.batch_size else []
        name = directed(lang.listed([lang.plain_value(row.gpu), *batch]))
        shown.append((name, (row.eager_seconds, row.compiled_seconds), row.speedup))
    names, seconds, texts = pairs(shown, lang)
    size = NAMES if all(row.batch_size == spec.batch_size for row in comparison.rows) else NAMES - 2
    setting = [
        lang.plain("asked_batch", size=spec.batch_size),
        lang.plain("beside_mode", mode=spec.mode),
        lang.plain_value(spec.dtype),
        sentences.named_setting("weights", spec.weights, lang),
    ]
    source = [
        lang.composed("chart_here_setting", setting=lang.listed(setting)),
        shortened(f"torch {machine.torch}, {machine.device_name}") if machine else "",
        lang.composed(
            "chart_there",
            gpus=lang.listed([lang.plain_value(row.gpu) for row in comparison.rows]),
            calls=lang.plain_value(PUBLISHED_CALLS),
            versions=lang.listed(list(dict.fromkeys(versions([row], lang) for row in comparison.rows))),
        ),
        lang.plain("chart_source"),
    ]
    figure = bars(
        title=lang.plain("chart_beside"),
        names=names,
        seconds=seconds,
        texts=texts,
        ranges=[None] * len(names),
        source=source,
        left=room(names, size),
        right=148,  # '43.7 ms  1.00×' beside the longest bar
        lang=lang,
    )
    return figure.update_yaxes(tickfont={"size": size})


def trace(result: RunResult, lang: Language) -> go.Figure:
    """Every timed call of both variants in the order timed, which shows drift, steps and outliers.

    The scale ends at `SLOWEST_SHOWN` times the slower median; calls beyond it sit on the edge as triangles, and the
    line below says how many and how slow. A call's number counts its variant's own calls: between them lie the other
    variant's, in A B B A order.
    """
    sides = {
        name: (side, colour)
        for name, side, colour in (("eager", result.eager, EAGER), ("compiled", result.compiled, COMPILED))
        if side is not None and side.wall_seconds
    }
    medians = {name: side.median_seconds for name, (side, _) in sides.items()}
    slowest = max((max(side.wall_seconds) for side, _ in sides.values()), default=1.0)
    end = min(SLOWEST_SHOWN * max(medians.values(), default=1.0), slowest * 1.05)
    scale, unit = scale_of([slowest if end == slowest else end])
    names = {name: sentences.variant(name, lang) for name in sides}
    hover = directed(lang.plain("chart_call", number="%{x}", time="%{text}"))
    figure = go.Figure()
    beyond = 0
    shifts = dict(zip(medians, spread([median / end * PLOT_HEIGHT for median in medians.values()]), strict=True))
    for name, (side, colour) in sides.items():
        times = np.asarray(side.wall_seconds)
        far = times > end
        shape, sign = ("circle", "●") if name == "eager" else ("diamond", "◆")  # the colour never stands alone
        beyond += int(far.sum())
        figure.add_trace(
            go.Scatter(
                name=names[name],
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
                hovertemplate=f"{hover}<extra>{names[name]}</extra>",
                cliponaxis=False,
            )
        )
        name_at_end(figure, names[name], medians[name] * scale, sign, colour, shifts[name])
    source = [lang.plain("chart_trace_why"), *provenance(result)]
    if beyond:
        source.append(lang.plain("chart_beyond", count=beyond, time=fmt.latency(slowest)))
    figure.update_yaxes(range=[0, end * scale], showgrid=True, nticks=5)
    calls = max((len(side.wall_seconds) for side, _ in sides.values()), default=0)
    figure.update_xaxes(showgrid=False, nticks=6, range=[0, calls + 1])
    right = SIGN_WIDTH + room(names.values() or [""])
    return dressed(figure, titled("chart_trace", unit, lang), source, left=44, right=right, plot=PLOT_HEIGHT)


def break_even(result: RunResult, lang: Language) -> go.Figure | None:
    """Total time against number of calls: eager, and compiled after each first call that was measured.

    Compiled starts at the seconds of its first call; where its line crosses eager's it has paid for itself. The line
    through a crossing is its range by the speed-up's 95 % interval. The slopes are the latencies, so the lines cross
    where `RunResult.break_even` says. None without a speed-up, where it is too noisy to tell, or without a first call.
    """
    speedup, compilation = result.speedup, result.compilation
    if speedup is None or speedup.verdict == "unsure" or compilation is None:
        return None
    costs = compilation.known_costs
    eager, compiled = result.latencies.values()
    paid = {cache: result.break_even(cost) for cache, cost in costs.items()}
    crossings = {cache: even for cache, even in paid.items() if even is not None and even.calls is not None}
    farthest = max((even.calls or 0 for even in crossings.values()), default=0)
    if farthest == 0 or speedup.verdict != "faster":
        crossings, farthest = {}, math.ceil(max(costs.values()) / eager)
    calls = max(10.0, 1.6 * farthest)
    ends = {"eager": calls * eager} | {cache: cost + calls * compiled for cache, cost in costs.items()}
    scale, unit = _long_scale(max(ends.values()))
    packaged = compilation.package_bytes is not None
    compiled_name = lang.plain("row_package").lower() if packaged else sentences.variant("compiled", lang)
    names = {"eager": sentences.variant("eager", lang)} | {
        cache: lang.listed([compiled_name, lang.plain(f"head_{sentences.cost_key(compilation, cache)}")])
        for cache in costs
    }
    shifts = spread([end / max(ends.values()) * PLOT_HEIGHT for end in ends.values()])
    figure = go.Figure()
    for (name, end), shift in zip(ends.items(), shifts, strict=True):
        colour = EAGER if name == "eager" else COMPILED
        figure.add_trace(
            go.Scatter(
                name=names[name],
                x=[0, calls],
                y=[costs.get(name, 0.0) * scale, end * scale],
                mode="lines",
                line={"color": colour, "width": 3, "dash": "dash" if name == "warm" else "solid"},
                hoverinfo="skip",
            )
        )
        name_at_end(figure, names[name], end * scale, "┄" if name == "warm" else "━", colour, shift)
    for even in crossings.values():
        at = even.calls or 0
        high = calls if even.high is None else min(calls, even.high)
        figure.add_trace(
            go.Scatter(
                name="break-even",
                x=[at],
                y=[(even.seconds or 0.0) * scale],
                mode="markers",
                marker={"color": TEXT, "size": 11, "line": {"width": 0}},
                error_x=error_bar([max(0.0, high - at)], [max(0, at - (even.low or at))]),
                hoverinfo="skip",
            )
        )
        near = at < 0.3 * calls  # too near the axis for a name on its left
        figure.add_annotation(
            x=0 if near else at,
            y=(even.seconds or 0.0) * scale,
            text=directed(sentences.calls_to_pay(even, lang)),
            xanchor="left" if near else "right",
            xshift=6 if near else -10,
            yshift=22 if near else 14,
        )
    meaning = lang.plain("chart_crossing" if crossings else "chart_no_crossing")
    figure.update_xaxes(range=[0, calls], showgrid=False, nticks=4, tickformat="~s", tickangle=0)
    figure.update_yaxes(range=[0, max(ends.values()) * scale * 1.03], showgrid=True, nticks=5, ticksuffix=f" {unit}")
    title, right = lang.plain("chart_total"), SIGN_WIDTH + room(names.values())
    return dressed(figure, title, [meaning, *provenance(result)], left=64, right=right, plot=PLOT_HEIGHT)


def _long_scale(longest: float) -> tuple[float, str]:
    """Factor from seconds, and the unit: 's', 'min' or 'h'."""
    if longest >= 2 * 3600:
        return 1 / 3600, "h"
    return (1 / 60, "min") if longest >= 2 * 60 else (1.0, "s")


def _counted(sides: Iterable[Measurement | None], lang: Language) -> str:
    counts = sorted({len(side.wall_seconds) for side in sides if side})
    if not counts:
        return ""
    return lang.composed("chart_counted", calls=sentences.enumerated(map(lang.plain_value, counts), lang))
