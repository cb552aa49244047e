from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pytest
from samples import ok_result, text_result

from demo.core.languages import ENGLISH
from demo.core.machine import Environment
from demo.core.measurement import Compilation, Measurement
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.present import charts
from demo.present.charts import latency_bars, published_bars, trace
from demo.present.figure import PAGE_CSS, PLOT_HEIGHT
from demo.present.palette import COMPILED, EAGER
from demo.store.tables import PublishedRow

ENVIRONMENT = Environment("2.13.0", "5.23.0", "3.11", "Linux", "Tesla T4", "cpu", 2, 2, 16_000_000_000)


def measured(*seconds: float) -> Measurement:
    return Measurement(seconds, None, (1.0,), 2)


def result(eager: Measurement | None, compiled: Measurement | None, **other: object) -> RunResult:
    given = {"status": "ok", "spec": RunSpec("shapes-vit", "image-classification"), "environment": ENVIRONMENT}
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
        trace(result(None, None, status="crashed"), ENGLISH),
    ]


# Latency


def test_the_title_names_the_unit_of_the_headline() -> None:
    def title(spec: RunSpec) -> str:
        return latency_bars(text_result(spec=spec), ENGLISH).layout.title.text

    text = text_result().spec
    assert title(text) == "<b>Latency per token, ms</b>"
    assert title(dataclasses.replace(text, batch_size=4)) == "<b>Latency per step of 4 tokens, ms</b>"
    assert title(ok_result().spec) == "<b>Latency of one call, ms</b>"


def test_with_a_graph_break_compiled_has_two_bars_in_one_group() -> None:
    both = result(measured(0.03), measured(0.01), with_break=measured(0.012))
    bars = latency_bars(both, ENGLISH).data[0]
    assert bars.x == pytest.approx([30, 10, 12]) and list(bars.y) == [0, 1, 2]
    assert bars.marker.color == (EAGER, COMPILED, COMPILED) and bars.marker.opacity[2] < bars.marker.opacity[1] == 1
    assert texts(latency_bars(both, ENGLISH))[:3] == ["30.0 ms", "10.0 ms", "12.0 ms"]


def test_the_bars_are_the_medians_in_milliseconds() -> None:
    figure = latency_bars(result(measured(0.020, 0.030, 0.900), measured(0.010, 0.011, 0.012)), ENGLISH)
    assert figure.data[0].x == pytest.approx([30, 11])
    assert "ms" in figure.layout.title.text


def test_eager_stands_above_compiled_each_in_its_colour() -> None:
    figure = latency_bars(result(measured(0.02), measured(0.01)), ENGLISH)
    (eager, compiled), (low, high) = figure.data[0].y, sorted(figure.layout.yaxis.range)
    assert list(figure.layout.yaxis.ticktext) == ["eager", "compiled"]
    assert figure.layout.yaxis.range[0] == high and low < eager < compiled < high
    assert list(figure.data[0].marker.color) == [EAGER, COMPILED]


def test_bars_start_at_zero_though_the_difference_is_small() -> None:
    assert latency_bars(result(measured(1.01), measured(1.0)), ENGLISH).layout.xaxis.range[0] == 0


def test_the_value_is_written_at_the_bar() -> None:
    assert texts(latency_bars(result(measured(0.329), measured(0.144)), ENGLISH))[:2] == ["329 ms", "144 ms"]


def test_seconds_are_seconds_in_bars_and_title() -> None:
    figure = latency_bars(result(measured(3.242), measured(1.175)), ENGLISH)
    assert figure.data[0].x == pytest.approx([3.242, 1.175]) and figure.layout.title.text.endswith(", s</b>")


def test_the_line_goes_from_the_5th_to_the_95th_percentile() -> None:
    times = np.linspace(0.010, 0.030, 101)
    error = latency_bars(result(measured(*times), measured(0.01)), ENGLISH).data[0].error_x
    assert (error.arrayminus[0], error.array[0]) == pytest.approx((9, 9))
    assert (error.arrayminus[1], error.array[1]) == pytest.approx((0, 0))


def test_the_figure_says_what_bar_and_line_are() -> None:
    source = texts(latency_bars(result(measured(0.02, 0.03), measured(0.01, 0.01)), ENGLISH))[-1]
    assert "2 calls each; line: 5th to 95th percentile" in source.replace("<br>", " ")


def test_the_source_names_checkpoint_machine_version_and_day() -> None:
    source = texts(latency_bars(result(measured(0.02), measured(0.01)), ENGLISH))[-1]
    assert source.endswith("<br>shapes-vit, torch 2.13.0, 2026-11-21<br>Tesla T4")


def test_the_batch_size_stands_in_the_title() -> None:
    spec = RunSpec("shapes-vit", "image-classification", batch_size=16)
    assert "batch of 16" in latency_bars(result(measured(0.02), measured(0.01), spec=spec), ENGLISH).layout.title.text


def test_a_variant_without_times_has_a_word_instead_of_a_bar() -> None:
    for status, word in [("out_of_memory", "out of memory"), ("failed", "not timed")]:
        for missing in (None, measured()):
            figure = latency_bars(result(measured(0.02), missing, status=status), ENGLISH)
            assert texts(figure)[:2] == ["20.0 ms", word] and figure.data[0].x[1] == 0


def test_the_longest_line_lies_within_the_scale() -> None:
    figure = latency_bars(result(measured(0.01, 0.01, 0.01, 0.2), measured(0.01)), ENGLISH)
    assert figure.layout.xaxis.range[1] >= figure.data[0].x[0] + figure.data[0].error_x.array[0]


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


def test_without_outliers_the_scale_ends_at_the_slowest_call() -> None:
    figure = trace(result(measured(0.02, 0.022), measured(0.01)), ENGLISH)
    assert figure.layout.yaxis.range[1] == pytest.approx(23.1) and "▲" not in texts(figure)[-1]


def test_names_stand_at_the_medians() -> None:
    figure = trace(result(measured(0.03), measured(0.01)), ENGLISH)
    names = {note.text.split()[-1]: note for note in figure.layout.annotations[:2]}
    assert (names["eager"].y, names["compiled"].y) == pytest.approx((30, 10))
    assert names["eager"].yshift == names["compiled"].yshift == 0


def test_names_make_room_for_each_other_where_the_medians_coincide() -> None:
    figure = trace(result(measured(0.0100), measured(0.0101)), ENGLISH)
    shift = {note.text.split()[-1]: note.yshift for note in figure.layout.annotations[:2]}
    assert shift["compiled"] > 0 > shift["eager"]


def test_a_variant_without_calls_is_simply_absent() -> None:
    assert [part.name for part in trace(result(measured(0.03), None, status="out_of_memory"), ENGLISH).data] == [
        "eager"
    ]


# The guide's figures


def test_the_guide_s_gpus_stand_in_the_guide_s_order_eager_first() -> None:
    rows = [row("T4", 0.0165, 0.0158), row("A100", 0.0093, 0.0076), row("V100", 0.0105, 0.006)]
    figure = published_bars(rows, "google/vit", ENGLISH)
    names = [re.sub("<.*?>", "", name).split() for name in figure.layout.yaxis.ticktext]
    assert names == [["A100", "eager"], ["compiled"], ["V100", "eager"], ["compiled"], ["T4", "eager"], ["compiled"]]
    assert figure.data[0].x == pytest.approx([9.3, 7.6, 10.5, 6, 16.5, 15.8])
    assert list(figure.data[0].marker.color) == [EAGER, COMPILED] * 3
    assert figure.data[0].error_x.visible is False


def test_the_speed_up_is_written_at_the_compiled_bar() -> None:
    assert texts(published_bars([row("T4", 0.020, 0.010)], "google/vit", ENGLISH))[:2] == ["20.0 ms", "10.0 ms  2.00×"]


def test_oom_of_the_guide_is_written_out() -> None:
    figure = published_bars([row("T4", None, None), row("A100", 0.02, None)], "google/vit", ENGLISH)
    assert texts(figure)[:4] == ["20.0 ms", "out of memory", "out of memory", "out of memory"]


def test_rows_of_another_setting_are_not_mixed_in() -> None:
    for other in [{"subset": "nightly"}, {"batch_size": 4}, {"mode": "reduce-overhead"}, {"checkpoint": "google/beit"}]:
        figure = published_bars([row("T4", 0.02, 0.01), row("T4", 7.0, 6.0, **other)], "google/vit", ENGLISH)
        assert figure.data[0].x == pytest.approx([20, 10])


def test_a_checkpoint_that_the_guide_lacks_has_no_figure() -> None:
    assert published_bars([row("T4", 0.02, 0.01)], "shapes-vit", ENGLISH) is None


# All of them


def test_a_figure_carries_no_theme_of_its_own() -> None:
    for number in range(5):
        layout = figures()[number].layout
        assert layout.paper_bgcolor == layout.plot_bgcolor == "rgba(0,0,0,0)"
        assert layout.showlegend is False and layout.template.layout.to_plotly_json() == {}


def test_a_figure_fits_a_phone_and_lets_a_finger_scroll_past() -> None:
    for number in range(5):
        layout = figures()[number].layout
        assert layout.width is None and layout.margin.l + layout.margin.r <= 240
        assert layout.dragmode is False and layout.xaxis.fixedrange and layout.yaxis.fixedrange
        assert all(len(line) <= 52 for line in layout.annotations[-1].text.split("<br>"))


def test_a_figure_is_strict_json() -> None:
    for number in range(5):
        json.loads(figures()[number].to_json(), parse_constant=lambda name: pytest.fail(name))


def test_names_from_outside_are_text_and_not_markup() -> None:
    spec = RunSpec("<a href='javascript:1'>x</a>\n<b>", "image-classification")
    source = texts(latency_bars(result(measured(0.02), measured(0.01), spec=spec), ENGLISH))[-1]
    assert "<a" not in source and "&lt;a href" in source and "\n" not in source


def test_an_endless_checkpoint_name_is_shortened() -> None:
    spec = RunSpec("x" * 500, "image-classification")
    source = texts(latency_bars(result(measured(0.02), measured(0.01), spec=spec), ENGLISH))[-1]
    assert "xxx…xxx" in source and max(map(len, source.split("<br>"))) <= 52


def test_the_page_s_style_recolours_the_blue_that_the_figures_use() -> None:
    assert "rgb(0, 114, 178)" in PAGE_CSS and COMPILED == "#0072B2" and "{" + "{" not in PAGE_CSS


# In words


def test_each_bars_figure_is_told_after_its_own_name() -> None:
    figure = published_bars([row("A100", 0.02, 0.01), row("T4", 0.03, None)], "google/vit", ENGLISH)
    said = figure.layout.meta["aloud"]
    assert said.startswith("What the guide measured, ms. A100 eager 20.0 ms; compiled 10.0 ms 2.00×; T4 eager 30.0 ms;")
    assert "compiled out of memory" in said and said.endswith("Source: the Transformers guide on torch.compile")


def test_every_figure_is_told_in_words_with_neither_tags_nor_signs() -> None:
    for figure in figures():
        said = figure.layout.meta["aloud"]
        title = re.sub("<.*?>", "", figure.layout.title.text)
        assert said.startswith(title) and len(said) > len(title)
        assert not re.search("[<>●◆━┄]", said)


def test_the_variants_of_the_trace_differ_in_shape() -> None:
    eager, compiled = trace(result(measured(0.02, 0.03), measured(0.01, 0.01)), ENGLISH).data
    assert set(eager.marker.symbol).isdisjoint(compiled.marker.symbol)


def test_the_lines_of_the_price_begin_at_the_first_call_and_cross_where_it_has_paid() -> None:
    result = ok_result(compilation=Compilation(2.0, "cold", 1))
    eager, cold, crossing = charts.break_even(result, ENGLISH).data
    assert (eager.y[0], cold.y[0]) == (0, 2.0)
    at = crossing.x[0]
    assert at == result.break_even_calls
    assert crossing.y[0] == pytest.approx(result.break_even_seconds)
    for line in (eager, cold):
        slope = (line.y[1] - line.y[0]) / line.x[1]
        assert line.y[0] + at * slope == pytest.approx(crossing.y[0], rel=1e-3)


def test_labels_at_the_upper_edge_make_room_downwards() -> None:
    top = PLOT_HEIGHT
    moved = [height + shift for height, shift in zip([top, top, 40.0], charts.spread([top, top, 40.0]), strict=True)]
    assert max(moved) == top
    assert sorted(moved)[2] - sorted(moved)[1] >= 20
