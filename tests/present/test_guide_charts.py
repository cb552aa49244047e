from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from measured_tables import write
from samples import ok_result

from demo.core.languages import ENGLISH
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.present import guide_charts
from demo.present.charts import run_and_guide
from demo.present.guide_charts import by_batch, comparable_rows, durations
from demo.present.guide_comparison import compare_with_guide
from demo.present.palette import COMPILED, EAGER, contrast
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


# The figures are the table's


def test_the_durations_are_the_tables() -> None:
    for gpu, batch_size in SETTINGS:
        table = rows(gpu, batch_size)
        figure = durations(table, ENGLISH)
        scale = 1 if figure.layout.title.text.endswith(", s</b>") else 1e3
        (bars,) = figure.data
        assert bars.x[::2] == pytest.approx([(row.eager_seconds or 0) * scale for row in table])
        assert bars.x[1::2] == pytest.approx([(row.compiled_seconds or 0) * scale for row in table])
        assert [name.removesuffix(" †") for name in figure.layout.yaxis.ticktext[::2]] == [row.model for row in table]
        assert bars.marker.color == (EAGER, COMPILED) * len(table)


def test_the_lines_are_the_tables_geometric_means() -> None:
    figure = by_batch(published.select(published.rows(), "release"), ENGLISH)
    means = {line.name: dict(zip(line.x, line.y, strict=True)) for line in figure.data}
    assert means["A100, published"] == pytest.approx({1: 1.449, 4: 1.287, 16: 1.222}, abs=0.0005)
    assert means["V100, published"] == pytest.approx({1: 1.599, 4: 1.221, 16: 1.190}, abs=0.0005)
    assert means["T4, published"] == pytest.approx({1: 1.203, 4: 1.132, 16: 1.157}, abs=0.0005)


# Out of memory


def test_out_of_memory_stands_in_words_where_a_bar_would() -> None:
    table = rows("T4", 16)
    place = [row.model for row in table].index("DETR")
    figure = durations(table, ENGLISH)
    assert figure.data[0].x[2 * place : 2 * place + 2] == (0, 0)
    assert texts(figure).count("out of memory") == 2


# What stands around the figures


def test_a_dagger_stands_at_a_model_with_a_note_and_is_explained() -> None:
    names = durations(rows(), ENGLISH).layout.yaxis.ticktext
    assert "OwlViT †" in names and "ViT" in names
    assert "† has a note" in source(durations(rows(), ENGLISH))
    assert "†" not in source(durations(rows(task="image-classification"), ENGLISH))


def test_every_line_s_colour_is_seen_on_both_papers() -> None:
    for paper in ["#f4f3ee", "#0e1013"]:
        assert all(contrast(colour, paper) >= 3 for colour in guide_charts.PALETTE)


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
    figure = by_batch(published.select(published.all_rows(), "measured"), ENGLISH)
    assert list(figure.data[0].y) == pytest.approx([2.0])
    assert "H200 (own): 2 models" in source(figure) and "2.13.0" not in source(figure)


def test_a_measured_device_is_a_line_of_its_own_dashed_open_and_named(own: Path) -> None:
    write(own / "h200.csv", {}, {"batch_size": "16", "speedup": "1.61"})
    table = published.all_rows()
    figure = by_batch(comparable_rows(table[0], table), ENGLISH)
    line = next(line for line in figure.data if line.name == "H200, measured by this project")
    assert list(line.y) == pytest.approx([1.62, 1.61])
    assert line.line.dash == "dash" and line.marker.symbol.endswith("-open")
    assert any("H200<br>(own) 1.61×" in text for text in texts(figure))
    assert "dashed: measured by this project" in source(figure)


def test_only_what_was_measured_alike_joins_a_table(own: Path) -> None:
    for subset, mode, checkpoint, joined in [
        ("measured", "default", "google/vit-base-patch16-224", True),
        ("measured", "default", "shapes-vit", False),
        ("measured reduce-overhead", "reduce-overhead", "google/vit-base-patch16-224", False),
        ("measured float16", "default", "google/vit-base-patch16-224", False),
    ]:
        write(own / "h200.csv", {"subset": subset, "mode": mode, "checkpoint": checkpoint})
        table = published.all_rows()
        assert (table[-1] in comparable_rows(table[0], table)) is joined


def test_names_from_a_measured_table_are_text_and_not_markup(own: Path) -> None:
    write(own / "h200.csv", {"gpu": "<a href=x>y</a>", "model": "<b>m</b>"})
    table = list(published.all_rows()[136:])
    for figure in (durations(table, ENGLISH), by_batch(table, ENGLISH)):
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
