"""The tab of published tables without a browser."""

import csv
import json
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from support import measured_tables
from support.page_support import answering, handler, press_row, shown
from support.samples import ok_result

from demo.core import limits
from demo.store import published
from demo.ui.page import Page
from demo.ui.tabs import links, published_tab
from demo.ui.tabs.published_tab import FIRST
from tools.measured_table import subset_of


def view(**changes: str) -> dict[str, Any]:
    _, chosen, outputs = published_tab.view(FIRST | changes)
    return chosen | dict(zip(("scope", "durations", "by_batch", "table", "rows", "csv", "json"), outputs, strict=True))


def column(table: dict[str, Any], name: str) -> list[str]:
    place = table["value"]["headers"].index(name)
    return [row[place] for row in shown(table)]


@pytest.mark.parametrize(
    "asked", [{}, {"gpu": "T4", "batch_size": "16"}, {"task": "object-detection"}], ids=["first", "T4", "a task"]
)
def test_the_charts_show_the_rows_of_the_table(asked: dict[str, str]) -> None:
    now = view(**asked)
    chart = now["durations"]["value"]
    scale = 1e-3 if chart.layout.title.text.endswith(", s</b>") else 1
    for name, bars in (("Eager, ms", chart.data[0].x[::2]), ("Compiled, ms", chart.data[0].x[1::2])):
        times = [0.0 if cell == "OOM" else float(cell) * scale for cell in column(now["table"], name)]
        assert list(bars) == pytest.approx(times, abs=1e-3)


def test_a_row_with_a_fault_has_its_note() -> None:
    now = view(subset="nightly", gpu="T4", batch_size="16")["table"]
    notes = dict(zip(column(now, "Model"), column(now, "Note"), strict=True))
    assert "Repeats the A100's row" in notes["BeiT †"]


@pytest.mark.parametrize(
    "subset, words",
    [
        ("measured scope-layers", "Measured here: layer by layer"),
        ("measured compiler-aot", "Measured here: package (AOTInductor)"),
        ("measured", "Measured here: as the guide"),
        ("release", "torch 2.0.1"),
    ],
)
def test_a_subset_is_called_by_words(subset: str, words: str) -> None:
    choices, *_ = published_tab.view(FIRST)
    assert (words, subset) in choices["subset"]


def test_empty_columns_are_left_out() -> None:
    first = view()["table"]
    assert "Settings" not in first["value"]["headers"] and set(column(first, "Number format")) == {"float32"}
    assert set(column(view(subset="measured freezing", gpu="", batch_size="")["table"], "Settings")) == {"freezing"}


@pytest.mark.parametrize(
    "row", published.all_rows(), ids=lambda row: f"{row.subset} {row.gpu} {row.model} {row.batch_size}"
)
def test_a_row_that_ships_asks_for_what_it_measured(row: published.PublishedRow) -> None:
    spec = links.spec_of(links.read_query(published_tab.query_of(row)), "shapes-vit")
    names = ("checkpoint", "task", "batch_size", "mode")
    assert [getattr(spec, name) for name in names] == [getattr(row, name) for name in names]
    assert not row.measured or subset_of(spec) == row.subset


@pytest.mark.parametrize(
    "changes", [{"batch_size": "16"}, {"checkpoint": "some/other"}, {"checkpoint": "/a/folder"}], ids=str
)
def test_a_row_that_this_page_cannot_run_says_why(own: Path, monkeypatch, changes: dict[str, str]) -> None:
    monkeypatch.setattr(limits, "current", lambda: limits.Limits(batch=4, hub_ids=False))
    measured_tables.write(own / "a.csv", changes)
    (row,) = published.measured_rows()
    page = Page(answering(ok_result()))
    query, said = press_row(page, page.published_tab.table, (row,), place=(0, 1))
    assert query == "" and "This row cannot be run here" in said


def test_a_row_fills_the_form() -> None:
    page, rows = Page(answering(ok_result())), tuple(published.guide_rows())
    query, said = press_row(page, page.published_tab.table, rows, place=(3, 1))
    assert query == published_tab.query_of(rows[3]) and said == gr.skip()
    for nowhere in ((-1, 0), (len(rows), 0), ("0", 0), (None, None)):
        assert press_row(page, page.published_tab.table, rows, place=nowhere) == ("", gr.skip())


def test_a_choice_that_its_list_lacks_becomes_all() -> None:
    now = view(subset="reduce-overhead", gpu="V100", batch_size="16")
    assert now["gpu"] == now["batch_size"] == ""
    assert len(shown(now["table"])) == len(now["rows"]) == 16


@pytest.mark.parametrize(
    "query, held, chosen",
    [
        ("", ["release", "T4", "1", ""], "published_gpu=T4"),
        ("?published_gpu=V100&shared_gpu=T4", [], "published_gpu=V100"),
        ("?published_gpu=&published_batch_size=3", [], "published_gpu=&published_batch_size="),
    ],
    ids=["fields", "a link", "no such size"],
)
def test_a_link_goes_before_the_lists(query: str, held: list[str], chosen: str) -> None:
    page = Page(answering(ok_result()))
    now, *lists = handler(page, takes=page.published_tab.query)(query, *held)[:5]
    assert now == chosen
    assert f"published_gpu={lists[1]['value']}" in now or lists[1]["value"] == "A100"


def test_an_export_holds_the_rows_of_the_table() -> None:
    now = view(gpu="T4", batch_size="16")
    records = json.loads(Path(now["json"]).read_text())
    assert len(list(csv.DictReader(open(now["csv"])))) == len(records) == len(now["rows"]) == 11
