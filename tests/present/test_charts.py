import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from support.measured_tables import write
from support.samples import ENVIRONMENT, ok_result

from demo.core.measurement import Measurement
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.present import pictures
from demo.present.charts import by_batch, comparable_rows, durations, latency_bars, run_and_guide, trace
from demo.present.figure import TEXT
from demo.present.guide_comparison import compare_with_guide
from demo.present.pictures import COMPILED, EAGER
from demo.store import published
from demo.store.published import PublishedRow

GPU = dataclasses.replace(ENVIRONMENT, device_name="Tesla T4")


def measured(*seconds: float) -> Measurement:
    return Measurement(seconds, None, (1.0,), 2)


def result(eager: Measurement | None, compiled: Measurement | None, **other: object) -> RunResult:
    given = {"status": "ok", "spec": RunSpec("shapes-vit", "image-classification"), "environment": GPU}
    return RunResult("1", "2026-11-21T09:00:00Z", eager=eager, compiled=compiled, **{**given, **other})


def texts(figure) -> list[str]:
    return [re.sub(r"</?(b|span)\b[^>]*>", "", note.text) for note in figure.layout.annotations]


def test_the_bar_of_compiled_says_that_it_has_added_breaks() -> None:
    broken = RunSpec("shapes-vit", "image-classification", graph_break=True)
    figure = latency_bars(result(measured(0.03), measured(0.01), spec=broken))
    assert list(figure.layout.yaxis.ticktext) == ["eager", "compiled, with breaks"]


def test_the_bars_are_medians_with_the_5th_to_the_95th_percentile_eager_above_compiled() -> None:
    times = np.linspace(0.010, 0.030, 101)
    figure = latency_bars(result(measured(*times, 0.9), measured(0.010, 0.011, 0.9)))
    bars, error = figure.data[0], figure.data[0].error_x
    assert bars.x == pytest.approx([20.1, 11]) and "ms" in figure.layout.title.text
    assert (error.arrayminus[0], error.array[0]) == pytest.approx((9.09, 9.09))
    assert figure.layout.xaxis.range[1] >= bars.x[1] + error.array[1]
    (eager, compiled), (low, high) = bars.y, sorted(figure.layout.yaxis.range)
    assert list(figure.layout.yaxis.ticktext) == ["eager", "compiled"]
    assert figure.layout.yaxis.range[0] == high and low < eager < compiled < high
    assert list(bars.marker.color) == [EAGER, COMPILED]


def test_there_are_no_bars_of_one_variant() -> None:
    assert latency_bars(result(measured(0.02), None)) is latency_bars(result(measured(0.02), measured())) is None


def test_every_call_of_both_variants_is_a_dot_in_order() -> None:
    figure = trace(result(measured(0.03, 0.02, 0.025), measured(0.011, 0.012)))
    assert [list(part.x) for part in figure.data] == [[1, 2, 3], [1, 2]]
    assert figure.data[0].y == pytest.approx([30, 20, 25]) and figure.data[1].y == pytest.approx([11, 12])
    assert [part.marker.color for part in figure.data] == [EAGER, COMPILED]


def test_a_call_beyond_the_scale_is_a_triangle_on_its_edge_and_is_counted() -> None:
    figure = trace(result(measured(0.02, 0.02, 0.02, 9.0), measured(0.01, 0.01, 0.01)))
    assert list(figure.data[0].marker.symbol) == ["circle"] * 3 + ["triangle-up"]
    assert figure.data[0].y[3] == pytest.approx(60) == figure.layout.yaxis.range[1]
    assert figure.data[0].text[3] == "9.00 s" and "▲ 1 beyond the scale, the slowest 9.00 s" in texts(figure)[-1]


def test_names_from_outside_are_text_and_not_markup() -> None:
    table = [dataclasses.replace(published.rows()[0], gpu="<a href=x>y</a>", model="<b>m</b>")]
    for figure in (durations(table), by_batch(table)):
        assert "<a href" not in figure.to_json() and "<b>m" not in figure.to_json()
    spec = RunSpec("<a href='javascript:1'>x</a>\n<b>", "image-classification")
    source = texts(latency_bars(result(measured(0.02), measured(0.01), spec=spec)))[-1]
    assert "<a" not in source and "&lt;a href" in source and "\n" not in source


def test_the_page_recolours_the_colours_that_the_figures_have() -> None:
    css = (Path(__file__).parents[2] / "demo" / "ui" / "look" / "figures.css").read_text()
    for colour in (COMPILED, TEXT):
        assert f"fill: rgb{pictures.rgb(colour)}" in css
    assert f'tspan[style*="{COMPILED}"]' in css


def test_every_figure_is_strict_json_and_told_in_words_with_neither_tags_nor_signs() -> None:
    both = result(measured(0.02, 0.03, 0.02), measured(0.01, 0.01, 0.5))
    for figure in (latency_bars(both), trace(both)):
        json.loads(figure.to_json(), parse_constant=lambda name: pytest.fail(name))
        said = figure.layout.meta["aloud"]
        title = re.sub("<.*?>", "", figure.layout.title.text)
        assert said.startswith(title) and len(said) > len(title)
        assert not re.search("[<>●◆━┄]", said)


SETTINGS = [(gpu, batch) for gpu in ("A100", "V100", "T4") for batch in (1, 4, 16)]


def guide_rows(gpu: str = "A100", batch_size: int = 1, **asked: Any) -> list[PublishedRow]:
    return published.select(published.rows(), "release", gpu, batch_size, **asked)


def source(figure: go.Figure) -> str:
    return texts(figure)[-1].replace("<br>", " ")


def test_the_durations_are_the_tables() -> None:
    for gpu, batch_size in SETTINGS:
        table = guide_rows(gpu, batch_size)
        figure = durations(table)
        scale = 1 if figure.layout.title.text.endswith(", s</b>") else 1e3
        (bars,) = figure.data
        assert bars.x[::2] == pytest.approx([(row.eager_seconds or 0) * scale for row in table])
        assert bars.x[1::2] == pytest.approx([(row.compiled_seconds or 0) * scale for row in table])
        assert [name.removesuffix(" †") for name in figure.layout.yaxis.ticktext[::2]] == [row.model for row in table]
        assert bars.marker.color == (EAGER, COMPILED) * len(table)


def test_the_lines_are_the_tables_geometric_means() -> None:
    figure = by_batch(published.select(published.rows(), "release"))
    means = {line.name.split()[0]: dict(zip(line.x, line.y, strict=True)) for line in figure.data}
    assert means["A100"] == pytest.approx({1: 1.449, 4: 1.287, 16: 1.222}, abs=0.0005)
    assert means["V100"] == pytest.approx({1: 1.599, 4: 1.221, 16: 1.190}, abs=0.0005)
    assert means["T4"] == pytest.approx({1: 1.203, 4: 1.132, 16: 1.157}, abs=0.0005)


def test_out_of_memory_stands_in_words_where_a_bar_would() -> None:
    table = guide_rows("T4", 16)
    place = [row.model for row in table].index("DETR")
    figure = durations(table)
    assert figure.data[0].x[2 * place : 2 * place + 2] == (0, 0)
    assert texts(figure).count("out of memory") == 2


def test_a_device_measured_twice_counts_once_and_by_its_later_day(own: Path) -> None:
    later = {"speedup": "2", "speedup_low": "2", "speedup_high": "2", "torch": "2.14.0", "date": "2026-11-22"}
    other = {"model": "ResNet", "checkpoint": "microsoft/resnet-50"}
    write(own / "a.csv", later, later | other)
    write(own / "b.csv", {}, other)
    figure = by_batch(published.select(published.all_rows(), "measured"))
    assert list(figure.data[0].y) == pytest.approx([2.0])
    assert "H200 (own): 2 models" in source(figure) and "2.13.0" not in source(figure)


def test_a_measured_device_is_a_line_of_its_own_dashed_open_and_named(own: Path) -> None:
    write(own / "h200.csv", {}, {"batch_size": "16", "speedup": "1.61"})
    table = published.all_rows()
    figure = by_batch(comparable_rows(table[0], table))
    line = next(line for line in figure.data if line.name == "H200<br>(own)")
    assert list(line.y) == pytest.approx([1.62, 1.61])
    assert line.line.dash == "dash" and line.marker.symbol.endswith("-open")
    assert line.text[-1] == "1.61×"  # at batch 1 another label is in its place
    assert "dashed: measured by this project" in source(figure)


def test_only_what_was_measured_alike_joins_a_table(own: Path) -> None:
    vit = "google/vit-base-patch16-224"
    for subset, mode, checkpoint, joined in [
        ("measured", "default", vit, True),
        ("measured", "default", "shapes-vit", False),
        ("measured reduce-overhead", "reduce-overhead", vit, False),
        ("measured float16", "default", vit, False),
    ]:
        write(own / "h200.csv", {"subset": subset, "mode": mode, "checkpoint": checkpoint})
        table = published.all_rows()
        assert (table[-1] in comparable_rows(table[0], table)) is joined


def test_the_run_stands_first_and_the_guides_gpus_follow() -> None:
    result = ok_result(spec=RunSpec("facebook/detr-resnet-50", "object-detection", 4, device="cuda"))
    found = compare_with_guide(result)
    figure = run_and_guide(result)
    names = [re.sub("<.*?>", "", name).split()[0] for name in figure.layout.yaxis.ticktext[::2]]
    assert names == ["Here", "A100", "V100", "T4"]
    times = list(result.latencies.values())
    for row in found.rows:
        times += [row.eager_seconds, row.compiled_seconds]
    assert figure.data[0].x == pytest.approx([seconds * 1e3 for seconds in times])
    assert texts(figure)[1].endswith("2.00×") and texts(figure)[3].endswith("1.50×")


def test_labels_of_lines_that_meet_do_not_cover_each_other() -> None:
    figure = by_batch(published.select(published.rows(), "release"))
    last = {line.name: line.text[-1] for line in figure.data}
    assert last["A100"] == "1.22×" and sum(map(bool, last.values())) < len(last)
