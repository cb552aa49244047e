from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from measured_tables import write
from samples import failed_result, measurement, ok_result

from demo.core.languages import ENGLISH
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.present import guide_charts
from demo.present.guide_charts import by_batch, comparable_rows, durations, improvements, run_and_guide
from demo.present.guide_comparison import compare_with_guide
from demo.present.palette import COMPILED, COMPILED_ON_DARK, EAGER
from demo.store import measured, published
from demo.store.tables import PublishedRow

SETTINGS = [(gpu, batch) for gpu in ("A100", "V100", "T4") for batch in (1, 4, 16)]


def rows(gpu: str = "A100", batch_size: int = 1, **asked: Any) -> list[PublishedRow]:
    return published.select(published.rows(), asked.pop("subset", "release"), gpu, batch_size, **asked)


def detr(**changes: Any) -> RunResult:
    return ok_result(spec=RunSpec("facebook/detr-resnet-50", "object-detection", device="cuda", **changes))


def texts(figure: go.Figure) -> list[str]:
    return [re.sub(r"</?(b|span)\b[^>]*>", "", note.text) for note in figure.layout.annotations]


def source(figure: go.Figure) -> str:
    return texts(figure)[-1].replace("<br>", " ")


def figures() -> list[go.Figure]:
    result = detr()
    drawn = [
        durations(rows(), ENGLISH),
        durations(rows("T4", 16), ENGLISH),
        improvements(rows(), ENGLISH),
        by_batch(published.select(published.rows(), "release"), ENGLISH),
        run_and_guide(result, compare_with_guide(result, published.rows(), ENGLISH), ENGLISH),
    ]
    return [figure for figure in drawn if figure is not None]


# The figures are the table's


def test_the_durations_are_the_tables() -> None:
    for gpu, batch_size in SETTINGS:
        table = rows(gpu, batch_size)
        figure = durations(table, ENGLISH)
        scale = 1 if figure.layout.title.text.endswith(", s</b>") else 1e3
        eager, compiled = figure.data
        assert eager.x == pytest.approx([(row.eager_seconds or 0) * scale for row in table])
        assert compiled.x == pytest.approx([(row.compiled_seconds or 0) * scale for row in table])
        assert [name.removesuffix(" †") for name in figure.layout.yaxis.ticktext] == [row.model for row in table]
        assert (eager.marker.color, compiled.marker.color) == (EAGER, COMPILED)


def test_the_improvements_are_the_tables() -> None:
    for gpu, batch_size in SETTINGS:
        table = rows(gpu, batch_size)
        figure = improvements(table, ENGLISH)
        assert figure.data[0].x == pytest.approx([(row.saved or 0) * 100 for row in table])
        assert len(texts(figure)) == len(table) + 1


def test_the_lines_are_the_tables_geometric_means() -> None:
    figure = by_batch(published.select(published.rows(), "release"), ENGLISH)
    means = {line.name: dict(zip(line.x, line.y, strict=True)) for line in figure.data}
    assert means["A100, published"] == pytest.approx({1: 1.449, 4: 1.287, 16: 1.222}, abs=0.0005)
    assert means["V100, published"] == pytest.approx({1: 1.599, 4: 1.221, 16: 1.190}, abs=0.0005)
    assert means["T4, published"] == pytest.approx({1: 1.203, 4: 1.132, 16: 1.157}, abs=0.0005)


def test_the_line_of_one_model_is_its_own_speed_up() -> None:
    table = published.select(published.rows(), "release", model="OwlViT")
    figure = by_batch(table, ENGLISH)
    assert [tuple(line.y) for line in figure.data] == [(pytest.approx(row.speedup),) for row in table]
    assert "speed-up, OwlViT" in source(figure) and "geometric mean" not in source(figure)


# Out of memory


def test_out_of_memory_stands_in_words_where_a_bar_would() -> None:
    table = rows("T4", 16)
    place = [row.model for row in table].index("DETR")
    figure = durations(table, ENGLISH)
    assert figure.data[0].x[place] == figure.data[1].x[place] == 0
    assert texts(figure).count("out of memory") == 2
    assert texts(improvements(table, ENGLISH)).count("out of memory") == 1


def test_the_means_say_how_many_models_ran() -> None:
    figure = by_batch(published.select(published.rows(), "release"), ENGLISH)
    assert "A100: 12, 11 and 11 models" in source(figure) and "T4: 12, 11 and 10 models" in source(figure)


def test_without_rows_there_is_no_chart() -> None:
    assert durations([], ENGLISH) is improvements([], ENGLISH) is by_batch([], ENGLISH) is None
    assert by_batch([row for row in published.rows() if row.speedup is None], ENGLISH) is None


def test_a_loss_goes_to_the_left_of_zero() -> None:
    row = rows()[0]
    slow = PublishedRow(**{**vars(row), "compiled_seconds": row.eager_seconds * 2})
    figure = improvements([slow], ENGLISH)
    assert figure.data[0].x == pytest.approx([-100]) and figure.layout.xaxis.range[0] == pytest.approx(-100)
    assert texts(figure)[0] == "−100 %"


# What stands around the figures


def test_a_dagger_stands_at_a_model_with_a_note_and_is_explained() -> None:
    names = durations(rows(), ENGLISH).layout.yaxis.ticktext
    assert "OwlViT †" in names and "ViT" in names
    assert "† has a note" in source(durations(rows(), ENGLISH))
    assert "†" not in source(durations(rows(task="image-classification"), ENGLISH))


def test_every_chart_has_a_title_with_a_unit_and_a_source() -> None:
    for number in range(5):
        figure = figures()[number]
        assert re.search(r", (ms|s|%|×)</b>$", figure.layout.title.text)
        assert "Source: the Transformers guide on torch.compile" in source(figure)
        assert "torch 2.0.1, mode default" in source(figure)


def test_a_chart_fits_a_phone_and_carries_no_theme() -> None:
    for number in range(5):
        layout = figures()[number].layout
        assert layout.width is None and layout.margin.l + layout.margin.r <= 290
        assert layout.paper_bgcolor == layout.plot_bgcolor == "rgba(0,0,0,0)" and layout.showlegend is False
        assert layout.dragmode is False and layout.xaxis.fixedrange and layout.yaxis.fixedrange
        assert all(len(line) <= 52 for line in layout.annotations[-1].text.split("<br>"))


def test_a_chart_is_strict_json() -> None:
    for number in range(5):
        json.loads(figures()[number].to_json(), parse_constant=lambda name: pytest.fail(name))


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_every_line_s_colour_is_seen_on_both_papers() -> None:
    for paper in ["#f4f3ee", "#0e1013"]:
        for colour in guide_charts.PALETTE:
            low, high = sorted((luminance(colour), luminance(paper)))
            assert (high + 0.05) / (low + 0.05) >= 3


def test_no_gpu_has_the_colour_of_eager_or_compiled_and_each_its_shape() -> None:
    assert {EAGER, COMPILED, COMPILED_ON_DARK}.isdisjoint(guide_charts.PALETTE)
    figure = by_batch(published.select(published.rows(), "release"), ENGLISH)
    assert len({line.marker.symbol for line in figure.data}) == len({line.line.color for line in figure.data}) == 3


def test_labels_that_would_overlap_are_moved_apart() -> None:
    moved = guide_charts.moved_apart([100.0, 104.0, 30.0], [17, 17, 17])
    assert moved[1] - moved[0] >= 17 and moved[0] - moved[2] >= 17


# This project's own rows


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(measured, "FOLDER", tmp_path)
    return tmp_path


def test_a_device_measured_twice_counts_once_and_by_its_later_day(own: Path) -> None:
    later = {"speedup": "2", "speedup_low": "2", "speedup_high": "2", "torch": "2.14.0", "date": "2026-11-22"}
    other = {"model": "ResNet", "checkpoint": "microsoft/resnet-50"}
    write(own / "a.csv", later, later | other)
    write(own / "b.csv", {}, other)
    figure = by_batch(published.select(published.tables().rows, "measured"), ENGLISH)
    assert list(figure.data[0].y) == pytest.approx([2.0])
    assert "H200 (own): 2 models" in source(figure) and "2.13.0" not in source(figure)


def test_the_lines_of_measured_rows_tell_their_number_format(own: Path) -> None:
    write(own / "a.csv", {"subset": "measured bfloat16", "dtype": "bfloat16"})
    assert "torch 2.13.0, mode default, bfloat16" in source(by_batch(published.tables().rows[136:], ENGLISH))


def test_a_long_name_of_a_measured_device_has_room_and_its_value_below_it(own: Path) -> None:
    write(own / "a.csv", {"gpu": "W" * 60, "batch_size": "1"}, {"gpu": "L4", "batch_size": "4"})
    figure = by_batch(published.select(published.tables().rows, "measured"), ENGLISH)
    labels = [note.text.split("<br>") for note in figure.layout.annotations if "(own) " in note.text][:2]
    assert [value for _, value in labels] == ["(own) batch 1: 1.62×", "(own) 1.62×"]
    (name, _), _ = labels
    assert figure.layout.margin.r >= 20 + 9 * len(re.sub("<.*?>", "", name))


def test_a_measured_device_is_a_line_of_its_own_dashed_open_and_named(own: Path) -> None:
    write(own / "h200.csv", {}, {"batch_size": "16", "speedup": "1.61"})
    table = published.tables().rows
    figure = by_batch(comparable_rows(table[0], table), ENGLISH)
    line = next(line for line in figure.data if line.name == "H200, measured by this project")
    assert list(line.y) == pytest.approx([1.62, 1.61])
    assert line.line.dash == "dash" and line.marker.symbol.endswith("-open")
    assert any("H200 (own)" in text for text in texts(figure))
    assert "dashed: measured by this project" in source(figure)


@pytest.mark.parametrize(
    ("subset", "mode", "joined"),
    [
        ("measured", "default", True),
        ("measured reduce-overhead", "reduce-overhead", False),
        ("measured float16", "default", False),
    ],
)
def test_only_what_was_measured_alike_joins_a_table(own: Path, subset: str, mode: str, joined: bool) -> None:
    write(own / "h200.csv", {"subset": subset, "mode": mode})
    table = published.tables().rows
    assert (table[-1] in comparable_rows(table[0], table)) is joined


def test_a_measured_setting_says_whose_it_is(own: Path) -> None:
    write(own / "h200.csv", {})
    said = source(durations(list(published.tables().rows[136:]), ENGLISH))
    assert "Measured by this project" in said and "2026-11-21" in said and "guide" not in said


def test_names_from_a_measured_table_are_text_and_not_markup(own: Path) -> None:
    write(own / "h200.csv", {"gpu": "<a href=x>y</a>", "model": "<b>m</b>"})
    table = list(published.tables().rows[136:])
    for figure in (durations(table, ENGLISH), improvements(table, ENGLISH), by_batch(table, ENGLISH)):
        assert "<a href" not in figure.to_json() and "<b>m" not in figure.to_json()


# A run beside the table


def test_the_run_stands_first_and_the_guides_gpus_follow() -> None:
    result = detr(batch_size=4)
    found = compare_with_guide(result, published.rows(), ENGLISH)
    figure = run_and_guide(result, found, ENGLISH)
    names = [re.sub("<.*?>", "", name).split()[0] for name in figure.layout.yaxis.ticktext[::2]]
    assert names == ["Here", "A100", "V100", "T4"]
    times = list(result.latencies.values())
    for row in found.rows:
        times += [row.eager_seconds, row.compiled_seconds]
    assert figure.data[0].x == pytest.approx([seconds * 1e3 for seconds in times])
    assert texts(figure)[1].endswith("2.00×") and texts(figure)[3].endswith("1.50×")


def test_another_batch_size_stands_at_the_gpus_name() -> None:
    result = detr(batch_size=8)
    figure = run_and_guide(result, compare_with_guide(result, published.rows(), ENGLISH), ENGLISH)
    assert "<b>A100, batch 4</b>  eager" in figure.layout.yaxis.ticktext
    assert "batch 8" in source(figure)


def test_out_of_memory_on_either_side_is_written_out() -> None:
    spec = RunSpec("facebook/detr-resnet-50", "object-detection", batch_size=16, device="cuda")
    result = failed_result(spec=spec, eager=measurement(0.5))
    said = texts(run_and_guide(result, compare_with_guide(result, published.rows(), ENGLISH), ENGLISH))
    assert said[0] == "510 ms" and said[1] == "out of memory"
    assert said[4:8] == ["out of memory"] * 4


def test_every_published_figure_is_told_in_words() -> None:
    for figure in figures():
        said = figure.layout.meta["aloud"]
        assert said.startswith(re.sub("<.*?>", "", figure.layout.title.text))
    lines = by_batch(published.select(published.rows(), "release"), ENGLISH)
    assert "A100, published 1: 1.45×, 4: 1.29×, 16: 1.22×" in lines.layout.meta["aloud"]
    assert "ViT 9.32, 7.58 1.23×" in durations(rows(), ENGLISH).layout.meta["aloud"]


def test_the_figures_beside_the_bars_have_three_digits_however_small() -> None:
    rows = [row for row in published.rows() if row.gpu == "T4" and row.batch_size == 16]
    figure = guide_charts.durations(rows, ENGLISH)
    assert figure is not None
    texts = {note.text.split(" ")[0] for note in figure.layout.annotations}
    small = [row for row in rows if row.eager_seconds is not None and row.eager_seconds < 0.1]
    assert small and all(f"{row.eager_seconds:#.3g}" in texts for row in small)
