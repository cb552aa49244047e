"""The chart of two runs over time: their calls, block by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from demo.core import format as fmt
from demo.core.languages import Language
from demo.core.measurement import Measurement
from demo.core.result import RunResult
from demo.present import sentences
from demo.present.charts import SLOWEST_SHOWN
from demo.present.figure import (
    PLOT_HEIGHT,
    SIGN_WIDTH,
    directed,
    dressed,
    name_at_end,
    provenance,
    room,
    scale_of,
    spread,
    titled,
)
from demo.present.palette import VARIANTS, Variant

MARKS = 6
"""Signs on a line of `calls_over_time`: they tell the variants apart where colours do not."""
LETTERS = ("A", "B")


@dataclass(frozen=True)
class _Line:
    """One variant of one run: when each block was timed, and its median call, in seconds."""

    letter: str
    variant: Variant
    at: np.ndarray
    seconds: np.ndarray

    def name(self, lang: Language) -> str:
        return directed(f"{self.letter} {sentences.variant(self.variant, lang)}")

    def told(self, lang: Language) -> str:
        figures = {"median": np.median(self.seconds), "low": self.seconds.min(), "high": self.seconds.max()}
        texts = {name: lang.plain_value(fmt.latency(float(value))) for name, value in figures.items()}
        return lang.composed("chart_series", name=self.name(lang), **texts)


def calls_over_time(results: Sequence[RunResult], lang: Language) -> go.Figure | None:
    """The median call of each block of two runs, eager and compiled, by the seconds that their timed calls took.

    The colour and the sign of a line are its variant's, its dashes its run's. None for another number of runs, and
    where neither has timed calls. Calls that settle, controls and pauses are no part of the time.
    """
    if len(results) != len(LETTERS):
        return None
    lines = [
        _Line(letter, variant, *times)
        for letter, result in zip(LETTERS, results, strict=True)
        for variant, times in timeline(result).items()
    ]
    if not lines:
        return None
    slowest = max(float(line.seconds.max()) for line in lines)
    end = min(SLOWEST_SHOWN * max(float(np.median(line.seconds)) for line in lines), slowest * 1.05)
    scale, unit = scale_of([min(end, slowest)])
    ends = [min(float(line.seconds[-1]), end) for line in lines]
    shifts = spread([PLOT_HEIGHT * value / end for value in ends])
    figure = go.Figure()
    for line, value, shift in zip(lines, ends, shifts, strict=True):
        figure.add_trace(_drawn(line, np.minimum(line.seconds, end) * scale, lang))
        sign = ("●" if line.variant == "eager" else "◆") + ("━" if line.letter == LETTERS[0] else "┄")
        name_at_end(figure, line.name(lang), value * scale, sign, VARIANTS[line.variant], shift)
    figure.update_yaxes(range=[0, end * scale], nticks=5, showgrid=True)
    first, second = LETTERS
    source = [lang.plain("chart_both_runs_why", first=first, second=second), lang.plain("chart_by_seconds")]
    if beyond := sum(int((line.seconds > end).sum()) for line in lines):
        source.append(lang.plain("chart_beyond", count=beyond, time=fmt.latency(slowest)))
    for letter, result in zip(LETTERS, results, strict=True):
        source.append(f"{letter}: {', '.join(provenance(result))}")
    longest = max(float(line.at[-1]) for line in lines)
    figure.update_xaxes(range=[0, longest * 1.02], showgrid=False, nticks=4, tickangle=0, ticksuffix=" s")
    right = SIGN_WIDTH + 14 + room([line.name(lang) for line in lines])
    told = [line.told(lang) for line in lines]
    title = titled("chart_both_runs", unit, lang)
    return dressed(figure, title, source, left=48, right=right, plot=PLOT_HEIGHT, told=told)


def _drawn(line: _Line, heights: np.ndarray, lang: Language) -> go.Scatter:
    return go.Scatter(
        name=line.name(lang),
        x=line.at.tolist(),
        y=heights.tolist(),
        text=[fmt.latency(one) for one in line.seconds],
        mode="lines+markers",
        line={
            "color": VARIANTS[line.variant],
            "width": 2.5,
            "dash": "solid" if line.letter == LETTERS[0] else "6px 4px",
        },
        marker={
            "symbol": "circle" if line.variant == "eager" else "diamond",
            "size": 7,
            "maxdisplayed": MARKS,
            "line": {"width": 0},
        },
        hovertemplate=f"%{{text}}<extra>{line.name(lang)}</extra>",
    )


def timeline(result: RunResult) -> dict[Variant, tuple[np.ndarray, np.ndarray]]:
    """For each variant with a whole block of timed calls: when each block was over, and its median call, in seconds.

    A block stands at the end of its calls. Where the variants were timed in turns, both share the time of a block;
    else compiled follows eager.
    """
    sides: dict[Variant, Measurement | None] = {"eager": result.eager, "compiled": result.compiled}
    timed = {name: side for name, side in sides.items() if side is not None and len(side.blocks)}
    took = {name: _block_seconds(side) for name, side in timed.items()}
    if len(took) == 2 and result.interleaved and result.spec.protocol == "interleaved":
        blocks = min(map(len, took.values()))
        both = took["eager"][:blocks] + took["compiled"][:blocks]
        return {name: (both.cumsum(), side.blocks[:blocks]) for name, side in timed.items()}
    found: dict[Variant, tuple[np.ndarray, np.ndarray]] = {}
    passed = 0.0
    for name, side in timed.items():
        found[name] = (passed + took[name].cumsum(), side.blocks)
        passed += float(took[name].sum())
    return found


def _block_seconds(side: Measurement) -> np.ndarray:
    """All calls of each block together."""
    blocks = len(side.blocks)
    times = np.asarray(side.wall_seconds[: blocks * side.calls_per_block])
    return times.reshape(blocks, side.calls_per_block).sum(axis=1)
