"""Charts of several runs: the speed-ups of reruns as dots, and the calls of two runs over time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from demo.core import format as fmt
from demo.core import stats
from demo.core.languages import Language
from demo.core.measurement import Measurement
from demo.core.result import RunResult
from demo.present import sentences
from demo.present.charts import SLOWEST_SHOWN, spread
from demo.present.figure import (
    LINE,
    PLOT_HEIGHT,
    SIGN_WIDTH,
    TEXT,
    directed,
    dressed,
    provenance,
    room,
    scale_of,
    titled,
)
from demo.present.palette import COMPILED, VARIANTS

STACKS = 24
"""Dots that fit beside each other on a phone: an axis of 300 pixels with dots of 12."""
DOT = 12
"""Largest width of a dot in pixels. A high stack has smaller ones."""
FAR_APART = 5.0
"""The scale of `calls_over_time` is logarithmic where one median is so many times another."""
MARKS = 8
"""Signs on a line of `calls_over_time`: they tell the variants apart where colours do not."""
LETTERS = ("A", "B")


# Reruns


def reruns(result: RunResult, ratios: Sequence[float], together: stats.Interval, lang: Language) -> go.Figure:
    """A dot for each process's speed-up, the last one this result's, and their mean with its interval as a band.

    Dots that would overlap on a phone stand on each other, in the middle of where they lie: Wilkinson's dot plot ("Dot
    plots", 1999). So a dot is at most half its width away from its value, and the height shows how many there are.
    """
    low, high = min(*ratios, together.low), max(*ratios, together.high)
    margin = 0.06 * (high - low) or 0.01 * low
    low, high = low - margin, high + margin
    columns, levels = stacks(ratios, (high - low) / STACKS)
    highest = max(levels)
    size = min(DOT, PLOT_HEIGHT / 2 / (highest + 1))
    last = [place == len(ratios) - 1 for place in range(len(ratios))]
    figure = go.Figure(
        go.Scatter(
            name=lang.plain("chart_reruns"),
            x=columns,
            y=levels,
            text=[fmt.ratio(ratio) for ratio in ratios],
            mode="markers",
            marker={
                "color": [TEXT if this else COMPILED for this in last],
                "symbol": ["diamond" if this else "circle" for this in last],
                "size": [size + 2 if this else size for this in last],
                "opacity": 1.0,
                "line": {"width": 0},
            },
            hovertemplate="%{text}<extra></extra>",
            cliponaxis=False,
        )
    )
    figure.add_vrect(x0=together.low, x1=together.high, fillcolor=COMPILED, opacity=0.2, line_width=0, layer="below")
    figure.add_vline(x=together.ratio, line={"color": LINE, "width": 2}, layer="below")
    plot = round(max(3, highest + 1) * (size + 2)) + 24
    figure.update_xaxes(range=[low, high], nticks=5, ticksuffix="×", showgrid=True, zeroline=False, showline=True)
    figure.update_yaxes(
        range=[-9 / (size + 2), (plot - 9) / (size + 2)], showticklabels=False, showgrid=False, zeroline=False
    )
    title, source = lang.plain("chart_reruns"), [lang.plain("chart_reruns_why"), *provenance(result)]
    every, own = (
        lang.listed([lang.plain_value(fmt.ratio(ratio)) for ratio in some]) for some in (sorted(ratios), ratios[-1:])
    )
    told = [lang.composed("chart_reruns_all", ratios=every, own=own)]
    return dressed(figure, title, source, left=14, right=14, plot=plot, told=told)


def stacks(values: Sequence[float], width: float) -> tuple[list[float], list[int]]:
    """Where each value's dot stands: its column and its place in it, from 0. The last value stands on top of its own.

    Sorted, a value joins the column before it if it is less than `width` above that column's first one.
    """
    columns, levels = [0.0] * len(values), [0] * len(values)
    group: list[int] = []
    order = sorted(range(len(values)), key=lambda place: values[place])
    for at, place in enumerate(order):
        group.append(place)
        following = order[at + 1] if at + 1 < len(order) else None
        if following is not None and values[following] - values[group[0]] < width:
            continue
        middle = (values[group[0]] + values[group[-1]]) / 2
        for level, one in enumerate(sorted(group)):
            columns[one], levels[one] = middle, level
        group = []
    return columns, levels


# Two runs over time


def calls_over_time(results: Sequence[RunResult], lang: Language) -> go.Figure | None:
    """The median call of each block of two runs, eager and compiled, by the seconds that their timed calls took.

    The colour and the sign of a line are its variant's, its dashes its run's. None for another number of runs, and
    where neither has timed calls. Calls that settle, controls and pauses are no part of the time.
    """
    if len(results) != len(LETTERS):
        return None
    lines = [
        (letter, variant, *times)
        for letter, result in zip(LETTERS, results, strict=True)
        for variant, times in timeline(result).items()
    ]
    if not lines:
        return None
    medians = [float(np.median(seconds)) for *_, seconds in lines]
    slowest = max(float(seconds.max()) for *_, seconds in lines)
    least = min(float(seconds.min()) for *_, seconds in lines) / 1.1
    far = least > 0 and max(medians) > FAR_APART * min(medians)
    end = slowest * 1.05 if far else min(SLOWEST_SHOWN * max(medians), slowest * 1.05)
    scale, unit = scale_of([min(end, slowest)])
    names = [directed(f"{letter} {sentences.variant(variant, lang)}") for letter, variant, *_ in lines]
    ends = [min(float(seconds[-1]), end) for *_, seconds in lines]
    shifts = spread([PLOT_HEIGHT * _share(value, least if far else 0.0, end, far) for value in ends])
    figure = go.Figure()
    for (letter, variant, at, seconds), name, value, shift in zip(lines, names, ends, shifts, strict=True):
        first = letter == LETTERS[0]
        figure.add_trace(
            go.Scatter(
                name=name,
                x=at.tolist(),
                y=(np.minimum(seconds, end) * scale).tolist(),
                text=[fmt.latency(one) for one in seconds],
                mode="lines+markers",
                line={"color": VARIANTS[variant], "width": 2.5, "dash": "solid" if first else "6px 4px"},
                marker={
                    "symbol": "circle" if variant == "eager" else "diamond",
                    "size": 8,
                    "maxdisplayed": MARKS,
                    "line": {"width": 0},
                },
                hovertemplate=f"%{{text}}<extra>{name}</extra>",
            )
        )
        sign = ("●" if variant == "eager" else "◆") + ("━" if first else "┄")
        figure.add_annotation(
            x=1,
            xref="paper",
            xanchor="left",
            xshift=8,
            y=np.log10(value * scale) if far else value * scale,
            yshift=shift,
            text=f'<span style="color:{VARIANTS[variant]}">{sign}</span> {name}',
            showarrow=False,
        )
    source = [lang.plain("chart_both_runs_why", first=LETTERS[0], second=LETTERS[1])]
    beyond = sum(int((seconds > end).sum()) for *_, seconds in lines)
    if far:
        source.append(lang.plain("chart_log"))
    if beyond:
        source.append(lang.plain("chart_beyond", count=beyond, time=fmt.latency(slowest)))
    for letter, result in zip(LETTERS, results, strict=True):
        source.append(f"{letter}: {', '.join(provenance(result))}")
    figure.update_yaxes(nticks=5, showgrid=True, type="log" if far else "linear")
    figure.update_yaxes(range=[np.log10(least * scale), np.log10(end * scale)] if far else [0, end * scale])
    last = max(float(at[-1]) for *_, at, _ in lines)
    figure.update_xaxes(range=[0, last * 1.02], showgrid=False, nticks=6, ticksuffix=" s")
    title = titled("chart_both_runs", unit, lang)
    told = [
        lang.composed("chart_series", name=name, **_in_figures(seconds, lang))
        for name, (*_, seconds) in zip(names, lines, strict=True)
    ]
    right = SIGN_WIDTH + 14 + room(names)
    return dressed(figure, title, source, left=48, right=right, plot=PLOT_HEIGHT, told=told)


def timeline(result: RunResult) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """For each variant with a whole block of timed calls: when each block was timed, and its median call, in seconds.

    A block stands in the middle of its calls. Where the variants were timed in turns, both share the time of a block;
    else compiled follows eager.
    """
    sides = {"eager": result.eager, "compiled": result.compiled}
    timed = {name: side for name, side in sides.items() if side is not None and len(side.blocks)}
    took = {name: _block_seconds(side) for name, side in timed.items()}
    if len(took) == 2 and result.interleaved and result.spec.protocol == "interleaved":
        blocks = min(map(len, took.values()))
        both = took["eager"][:blocks] + took["compiled"][:blocks]
        return {name: (both.cumsum() - both / 2, side.blocks[:blocks]) for name, side in timed.items()}
    found, passed = {}, 0.0
    for name, side in timed.items():
        found[name] = (passed + took[name].cumsum() - took[name] / 2, side.blocks)
        passed += float(took[name].sum())
    return found


def _block_seconds(side: Measurement) -> np.ndarray:
    """All calls of each block together."""
    blocks = len(side.blocks)
    times = np.asarray(side.wall_seconds[: blocks * side.calls_per_block])
    return times.reshape(blocks, side.calls_per_block).sum(axis=1)


def _share(value: float, low: float, high: float, far: bool) -> float:
    """Where a value lies on its axis, 0 at the lower end and 1 at the upper."""
    if far:
        return float(np.log(value / low) / np.log(high / low))
    return (value - low) / (high - low)


def _in_figures(seconds: np.ndarray, lang: Language) -> dict[str, str]:
    figures = {"median": np.median(seconds), "low": seconds.min(), "high": seconds.max()}
    return {name: lang.plain_value(fmt.latency(float(value))) for name, value in figures.items()}
