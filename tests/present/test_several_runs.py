"""The chart of two runs over time, looked at as Plotly's own data."""

from __future__ import annotations

import dataclasses

import pytest
from samples import failed_result, measurement, ok_result

from demo.core.languages import ENGLISH
from demo.core.measurement import Measurement
from demo.present.several_runs import calls_over_time, timeline

FAST, SLOW = ok_result(), ok_result(eager=measurement(0.2, blocks=7), compiled=measurement(0.15, blocks=7))


def test_each_block_of_both_runs_stands_where_it_was_timed() -> None:
    figure = calls_over_time([FAST, FAST], ENGLISH)
    assert figure is not None and [line.name for line in figure.data] == [
        "A eager", "A compiled", "B eager", "B compiled"
    ]  # fmt: skip
    eager, compiled = figure.data[:2]
    assert eager.x == compiled.x and len(eager.x) == 12
    assert eager.x[0] == pytest.approx(4 * 0.002 + 4 * 0.001)
    assert eager.y[:3] == pytest.approx([2, 2.04, 2.08])


def test_every_block_of_runs_of_different_scale_lies_within_the_axes() -> None:
    figure = calls_over_time([FAST, SLOW], ENGLISH)
    assert figure is not None
    low, high = figure.layout.yaxis.range
    assert low == 0 and all(value <= high for line in figure.data for value in line.y)
    assert figure.layout.xaxis.range[1] >= max(max(line.x) for line in figure.data)


def test_a_block_beyond_the_scale_is_counted() -> None:
    eager = FAST.eager
    assert eager is not None
    slow = dataclasses.replace(eager, wall_seconds=(*eager.wall_seconds[:-4], 0.9, 0.9, 0.9, 0.9))
    figure = calls_over_time([FAST, ok_result(eager=slow)], ENGLISH)
    assert figure is not None and "1 beyond the scale, the slowest 900 ms" in figure.layout.meta["aloud"]


def test_a_run_without_timed_calls_is_not_drawn_and_two_of_them_are_no_chart() -> None:
    figure = calls_over_time([failed_result(), FAST], ENGLISH)
    assert figure is not None and [line.name for line in figure.data] == ["B eager", "B compiled"]
    assert calls_over_time([failed_result(), failed_result(id="b")], ENGLISH) is None
    short = Measurement((0.001,), None, (0.003,), 4)
    assert timeline(ok_result(eager=short, compiled=short)) == {}
