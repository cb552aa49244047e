"""The charts of several runs, looked at as Plotly's own data."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from samples import failed_result, measurement, ok_result

from demo.core import stats
from demo.core.languages import ENGLISH
from demo.core.measurement import Measurement
from demo.present.several_runs import STACKS, calls_over_time, reruns, timeline

SPEEDUPS = np.exp(np.random.default_rng(4).normal(0.3, 0.04, 40)).tolist()


# Reruns


def test_each_rerun_is_one_dot_next_to_its_value_and_no_two_lie_on_each_other() -> None:
    for count in [3, 7, 40]:
        ratios = SPEEDUPS[:count]
        figure = reruns(ok_result(), ratios, stats.Interval(1.2, 1.1, 1.3), ENGLISH)
        dots, (low, high) = figure.data[0], figure.layout.xaxis.range
        width = (high - low) / STACKS
        assert len(dots.x) == len(set(zip(dots.x, dots.y, strict=True))) == count
        assert all(abs(at - ratio) <= width / 2 for at, ratio in zip(dots.x, ratios, strict=True))
        assert low < min(dots.x) and max(dots.x) < high and max(dots.y) < figure.layout.yaxis.range[1]
        assert list(dots.marker.symbol) == ["circle"] * (count - 1) + ["diamond"]


def test_the_band_is_the_interval_of_the_mean_and_every_value_is_told() -> None:
    ratios = [1.30, 1.42, 1.36]
    together = stats.Interval(1.2, 1.1, 1.3)
    figure = reruns(ok_result(), ratios, together, ENGLISH)
    band, line = figure.layout.shapes
    assert (band.x0, band.x1, line.x0) == (together.low, together.high, together.ratio)
    assert "In ascending order: 1.30×, 1.36×, 1.42×; this run: 1.36×" in figure.layout.meta["aloud"]
    json.loads(figure.to_json(), parse_constant=lambda name: pytest.fail(name))


# Two runs


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


def test_runs_of_very_different_scale_share_a_logarithmic_axis_and_it_is_said() -> None:
    figure = calls_over_time([FAST, SLOW], ENGLISH)
    alike = calls_over_time([FAST, FAST], ENGLISH)
    assert figure is not None and alike is not None
    assert (figure.layout.yaxis.type, alike.layout.yaxis.type) == ("log", None)
    assert "logarithmic" in figure.layout.meta["aloud"] and "logarithmic" not in alike.layout.meta["aloud"]
    low, high = figure.layout.yaxis.range
    assert all(low <= np.log10(value) <= high for line in figure.data for value in line.y)
    assert figure.layout.xaxis.range[1] >= max(max(line.x) for line in figure.data)
    ticks = [float(tick) for tick in figure.layout.yaxis.ticktext]
    assert len(ticks) >= 2 and all(10**low <= tick <= 10**high for tick in ticks)


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
