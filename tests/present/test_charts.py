from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest
from samples import ENVIRONMENT, ok_result

from demo.core.languages import ENGLISH
from demo.core.measurement import Compilation, Measurement
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.present import charts, palette
from demo.present.charts import latency_bars, published_bars, trace
from demo.present.figure import TEXT, spread
from demo.present.palette import COMPILED, EAGER
from demo.store.tables import PublishedRow

GPU = dataclasses.replace(ENVIRONMENT, device_name="Tesla T4")


def measured(*seconds: float) -> Measurement:
    return Measurement(seconds, None, (1.0,), 2)


def result(eager: Measurement | None, compiled: Measurement | None, **other: object) -> RunResult:
    given = {"status": "ok", "spec": RunSpec("shapes-vit", "image-classification"), "environment": GPU}
    return RunResult("1", "2026-11-21T09:00:00Z", eager=eager, compiled=compiled, **{**given, **other})


def row(gpu: str, eager: float | None, compiled: float | None, **other: object) -> PublishedRow:
    given = {
        "subset": "release",
        "torch": "2.0.1",
        "mode": "default",
        "batch_size": 1,
        "task": "image-classification",
        "model": "ViT",
        "checkpoint": "google/vit",
    }
    return PublishedRow(gpu=gpu, eager_seconds=eager, compiled_seconds=compiled, **{**given, **other})


def texts(figure) -> list[str]:
    return [re.sub(r"</?(b|span)\b[^>]*>", "", note.text) for note in figure.layout.annotations]


def figures() -> list:
    both = result(measured(0.02, 0.03, 0.02), measured(0.01, 0.01, 0.5))
    return [
        latency_bars(both, ENGLISH),
        trace(both, ENGLISH),
        published_bars([row("A100", 0.02, 0.01), row("T4", 0.02, None)], "google/vit", ENGLISH),
        latency_bars(result(None, None, status="crashed"), ENGLISH),
    ]


# Latency


def test_with_a_graph_break_compiled_has_two_bars_in_one_group() -> None:
    both = result(measured(0.03), measured(0.01), with_break=measured(0.012))
    bars = latency_bars(both, ENGLISH).data[0]
    assert bars.x == pytest.approx([30, 10, 12]) and list(bars.y) == [0, 1, 2]
    assert bars.marker.color == (EAGER, COMPILED, COMPILED) and bars.marker.opacity[2] < bars.marker.opacity[1] == 1
    assert texts(latency_bars(both, ENGLISH))[:3] == ["30.0 ms", "10.0 ms", "12.0 ms"]


def test_the_bars_are_medians_with_the_5th_to_the_95th_percentile_eager_above_compiled() -> None:
    times = np.linspace(0.010, 0.030, 101)
    figure = latency_bars(result(measured(*times, 0.9), measured(0.010, 0.011, 0.9)), ENGLISH)
    bars, error = figure.data[0], figure.data[0].error_x
    assert bars.x == pytest.approx([20.1, 11]) and "ms" in figure.layout.title.text
    assert (error.arrayminus[0], error.array[0]) == pytest.approx((9.09, 9.09))
    assert figure.layout.xaxis.range[1] >= bars.x[1] + error.array[1]
    (eager, compiled), (low, high) = bars.y, sorted(figure.layout.yaxis.range)
    assert list(figure.layout.yaxis.ticktext) == ["eager", "compiled"]
    assert figure.layout.yaxis.range[0] == high and low < eager < compiled < high
    assert list(bars.marker.color) == [EAGER, COMPILED]


def test_a_variant_without_times_has_a_word_instead_of_a_bar() -> None:
    for status, word in [("out_of_memory", "out of memory"), ("failed", "–")]:
        for missing in (None, measured()):
            figure = latency_bars(result(measured(0.02), missing, status=status), ENGLISH)
            assert texts(figure)[:2] == ["20.0 ms", word] and figure.data[0].x[1] == 0


# Every call


def test_every_call_of_both_variants_is_a_dot_in_order() -> None:
    figure = trace(result(measured(0.03, 0.02, 0.025), measured(0.011, 0.012)), ENGLISH)
    assert [list(part.x) for part in figure.data] == [[1, 2, 3], [1, 2]]
    assert figure.data[0].y == pytest.approx([30, 20, 25]) and figure.data[1].y == pytest.approx([11, 12])
    assert [part.marker.color for part in figure.data] == [EAGER, COMPILED]


def test_a_call_beyond_the_scale_is_a_triangle_on_its_edge_and_is_counted() -> None:
    figure = trace(result(measured(0.02, 0.02, 0.02, 9.0), measured(0.01, 0.01, 0.01)), ENGLISH)
    assert list(figure.data[0].marker.symbol) == ["circle"] * 3 + ["triangle-up"]
    assert figure.data[0].y[3] == pytest.approx(60) == figure.layout.yaxis.range[1]
    assert figure.data[0].text[3] == "9.00 s" and "▲ 1 beyond the scale, the slowest 9.00 s" in texts(figure)[-1]


def test_names_make_room_for_each_other_where_the_medians_coincide() -> None:
    figure = trace(result(measured(0.0100), measured(0.0101)), ENGLISH)
    shift = {note.text.split()[-1]: note.yshift for note in figure.layout.annotations[:2]}
    assert shift["compiled"] > 0 > shift["eager"]
    heights = [50, 52, 10, 49]
    moved = [height + shift for height, shift in zip(heights, spread(heights), strict=True)]
    assert moved[1] - moved[0] >= 20 and moved[0] - moved[3] >= 20 and sum(moved) == pytest.approx(sum(heights))


# The guide's figures


def test_the_guide_s_gpus_stand_in_the_guide_s_order_eager_first() -> None:
    rows = [row("T4", 0.0165, 0.0158), row("A100", 0.0093, 0.0076), row("V100", 0.0105, 0.006)]
    figure = published_bars(rows, "google/vit", ENGLISH)
    names = [re.sub("<.*?>", "", name).split() for name in figure.layout.yaxis.ticktext]
    assert names == [["A100", "eager"], ["compiled"], ["V100", "eager"], ["compiled"], ["T4", "eager"], ["compiled"]]
    assert figure.data[0].x == pytest.approx([9.3, 7.6, 10.5, 6, 16.5, 15.8])
    assert list(figure.data[0].marker.color) == [EAGER, COMPILED] * 3
    assert figure.data[0].error_x.visible is False


# All of them


def test_names_from_outside_are_text_and_not_markup() -> None:
    spec = RunSpec("<a href='javascript:1'>x</a>\n<b>", "image-classification")
    source = texts(latency_bars(result(measured(0.02), measured(0.01), spec=spec), ENGLISH))[-1]
    assert "<a" not in source and "&lt;a href" in source and "\n" not in source


def test_the_page_recolours_the_colours_that_the_figures_have() -> None:
    css = (Path(__file__).parents[2] / "demo" / "ui" / "look" / "figures.css").read_text()
    for colour in (COMPILED, TEXT):
        assert f"fill: rgb{palette.rgb(colour)}" in css
    assert f'tspan[style*="{COMPILED}"]' in css


# In words


def test_every_figure_is_strict_json_and_told_in_words_with_neither_tags_nor_signs() -> None:
    for figure in figures():
        json.loads(figure.to_json(), parse_constant=lambda name: pytest.fail(name))
        said = figure.layout.meta["aloud"]
        title = re.sub("<.*?>", "", figure.layout.title.text)
        assert said.startswith(title) and len(said) > len(title)
        assert not re.search("[<>●◆━┄]", said)


def test_the_lines_of_the_price_begin_at_the_first_call_and_cross_where_it_has_paid() -> None:
    result = ok_result(compilation=Compilation(2.0, "cold", 1))
    eager, cold, crossing = charts.break_even(result, ENGLISH).data
    assert (eager.y[0], cold.y[0]) == (0, 2.0)
    at = crossing.x[0]
    assert at == result.own_break_even.calls
    assert crossing.y[0] == pytest.approx(result.own_break_even.seconds)
    for line in (eager, cold):
        slope = (line.y[1] - line.y[0]) / line.x[1]
        assert line.y[0] + at * slope == pytest.approx(crossing.y[0], rel=1e-3)
