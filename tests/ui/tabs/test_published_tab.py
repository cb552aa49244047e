"""Tests of the tab Published without a browser."""

import csv
import dataclasses
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from support import hub_stub, measured_tables
from support.page_support import answering, handler, press_row, shown
from support.samples import ok_result

from demo.core import limits
from demo.core.result import RunResult
from demo.core.result_json import dumps
from demo.present import wall
from demo.store import hub_results, published
from demo.store.history import FOLDER_VARIABLE, History
from demo.store.hub_dataset import PushedHistory
from demo.ui.page import Page
from demo.ui.tabs import links, published_tab
from demo.ui.tabs.headline import recorded_runs
from demo.ui.tabs.published_tab import FIRST_FILTERS
from tools.measured_table import subset_of


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(answering(ok_result()))


def view(page: Page, query: str = "", **changes: str) -> dict[str, Any]:
    """Returns by attribute of the tab what it shows for the lists' first values with `changes`, or for a `query`."""
    updates = handler(page, takes=page.published_tab.query)(query, *(FIRST_FILTERS | changes).values())
    names = {id(part): name for name, part in vars(page.published_tab).items()}
    names |= {id(part): name for name, part in (page.published_tab.lists | page.published_tab.exports).items()}
    return {names[id(part)]: update for part, update in updates.items()}


def column(table: dict[str, Any], name: str) -> list[str]:
    place = table["value"]["headers"].index(name)
    return [row[place] for row in shown(table)]


@pytest.mark.parametrize(
    "filters", [{}, {"gpu": "T4", "batch_size": "16"}, {"task": "object-detection"}], ids=["first", "T4", "a task"]
)
def test_the_charts_show_the_rows_of_the_table(filters: dict[str, str], page: Page) -> None:
    now = view(page, **filters)
    chart = now["durations"]["value"]
    scale = 1e-3 if chart.layout.title.text.endswith(", s</b>") else 1
    for name, bars in (("Eager, ms", chart.data[0].x[::2]), ("Compiled, ms", chart.data[0].x[1::2])):
        times = [0.0 if cell == "OOM" else float(cell) * scale for cell in column(now["table"], name)]
        assert list(bars) == pytest.approx(times, abs=1e-3)


def test_a_row_with_a_fault_has_its_note(page: Page) -> None:
    table = view(page, subset="nightly", gpu="T4", batch_size="16")["table"]
    notes = dict(zip(column(table, "Model"), column(table, "Note"), strict=True))
    assert "Repeats the A100's row" in notes["BeiT †"]


def test_a_subset_is_called_by_words(page: Page) -> None:
    assert {
        ("Measured here: layer by layer", "measured scope-layers"),
        ("Measured here: package (AOTInductor)", "measured compiler-aot"),
        ("Measured here: as the guide", "measured"),
        ("torch 2.0.1", "release"),
    } <= set(view(page)["subset"]["choices"])


def test_empty_columns_are_left_out(page: Page) -> None:
    first = view(page)["table"]
    assert "Settings" not in first["value"]["headers"] and set(column(first, "Number format")) == {"float32"}
    measured = view(page, subset="measured freezing", gpu="", batch_size="")["table"]
    assert set(column(measured, "Settings")) == {"freezing"}


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
def test_a_row_that_this_page_cannot_run_says_why(own: Path, page: Page, monkeypatch, changes: dict[str, str]) -> None:
    monkeypatch.setattr(limits, "current", lambda: limits.Limits(batch=4, hub_ids=False))
    measured_tables.write(own / "a.csv", changes)
    query, notice = press_row(page, page.published_tab.table, published.measured_rows(), place=(0, 1))
    assert query == "" and "This row cannot be run here" in notice


def test_a_row_fills_the_form(page: Page) -> None:
    rows = published.guide_rows()
    query, notice = press_row(page, page.published_tab.table, rows, place=(3, 1))
    assert query == published_tab.query_of(rows[3]) and notice == gr.skip()


def test_a_choice_that_its_list_lacks_becomes_all(page: Page) -> None:
    now = view(page, subset="reduce-overhead", gpu="V100", batch_size="16")
    assert now["gpu"]["value"] == now["batch_size"]["value"] == ""
    assert len(shown(now["table"])) == len(now["rows"]) == 16


@pytest.mark.parametrize(
    "query, gpu, chosen",
    [
        ("", "T4", "published_gpu=T4"),
        ("?published_gpu=V100&shared_gpu=T4", "A100", "published_gpu=V100"),
        ("?published_gpu=&published_batch_size=3", "T4", "published_gpu=&published_batch_size="),
    ],
    ids=["fields", "a link", "no such size"],
)
def test_a_link_goes_before_the_lists(query: str, gpu: str, chosen: str, page: Page) -> None:
    now = view(page, query, gpu=gpu)
    assert now["query"] == chosen and f"published_gpu={now['gpu']['value']}" in chosen


def test_an_export_holds_the_rows_of_the_table(page: Page) -> None:
    now = view(page, gpu="T4", batch_size="16")
    records = json.loads(Path(now["json"]).read_text())
    assert len(list(csv.DictReader(open(now["csv"])))) == len(records) == len(now["rows"]) == 11


def wall_of(page: Page, place: int = 0) -> tuple[str, str]:
    """Returns the wall of races, and the sentences below it, as the tab opens. `place` 1: after it read the dataset."""
    tab = page.published_tab
    wired = [fn.fn for fn in page.fns.values() if fn.outputs == [tab.wall, tab.wall_note]]
    html, note = wired[place]()
    return html, note


def test_the_wall_has_the_stored_races_as_links(history: History) -> None:
    for result in (ok_result(), ok_result(id="no-race", compilation=None)):
        history.append(result)
    html, note = wall_of(Page(answering(ok_result()), history=history))
    assert f'href="?run={ok_result().id}"' in html and "no-race" not in html
    tables = wall.of_rows(published.measured_rows())
    assert html.count("<li>") == 1 + len(recorded_runs()) + len(tables)
    assert html.count("This project's table".replace("'", "&#x27;")) == len(tables) > 0
    assert html.count(published_tab.RECORDED_HERE) == len(recorded_runs())
    assert "of 31 no first call was kept" in note


def test_the_wall_names_how_many_rows_have_no_race(own: Path) -> None:
    kept = {"first_call_ms": "9000"}
    unclear = {"speedup": "1.02", "speedup_low": "0.9", "speedup_high": "1.2"}
    measured_tables.write(own / "a.csv", {}, kept, kept | unclear)
    note = wall_of(Page(answering(ok_result())))[1]
    sentence = "2 of the 3 rows that this project measured have no race: of 1 no first call was kept"
    assert sentence in note and "the speed-up of 1 is not clear" in note
    measured_tables.write(own / "a.csv", kept)
    assert wall_of(Page(answering(ok_result())))[1] == ""


@pytest.fixture
def pushed(tmp_path, monkeypatch) -> Iterator[tuple[Page, PushedHistory, Path]]:
    """Yields a page whose results are pushed to a dataset, its history, and the dataset's folder in a stub."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "data"))
    monkeypatch.setattr(PushedHistory, "_connect", lambda _: None)
    history = PushedHistory("somebody/runs")
    folder = tmp_path / "dataset"
    with (
        hub_stub.serve({"datasets/somebody/runs": folder}) as address,
        hub_stub.taken_for_the_hub(address, tmp_path / "cache"),
    ):
        yield Page(answering(ok_result()), history=history), history, folder


def in_dataset(folder: Path, result: RunResult) -> None:
    file = folder / f"runs/{result.started_at[:10]}/{result.id}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dumps(result))


def test_the_wall_has_the_runs_of_the_dataset(pushed: tuple[Page, PushedHistory, Path]) -> None:
    page, history, folder = pushed
    elsewhere = dataclasses.replace(ok_result().spec, batch_size=8)
    for result in (ok_result(), ok_result(id="there", spec=elsewhere)):
        in_dataset(folder, result)
    history.append(ok_result())
    for place, others in ((0, 0), (1, 1)):
        html, _ = wall_of(page, place)
        assert html.count("From the dataset somebody/runs") == others
        assert f'href="?run={ok_result().id}"' in html and "?run=there" not in html


def test_the_wall_says_that_results_of_the_dataset_are_missing(
    pushed: tuple[Page, PushedHistory, Path], monkeypatch
) -> None:
    page, _, folder = pushed
    in_dataset(folder, ok_result(id="there"))
    sentence = "Not all results of the dataset somebody/runs are read yet: open this tab again later."
    monkeypatch.setattr(hub_results, "READING_SECONDS", 0.0)
    monkeypatch.setattr(hub_results, "ask", lambda question, seconds: question())
    monkeypatch.setattr(hub_results.HubResults, "_download", lambda *_: time.sleep(0.3))
    assert sentence in wall_of(page, 1)[1]


def test_a_deleted_run_is_not_on_the_wall_before_the_next_push(pushed: tuple[Page, PushedHistory, Path]) -> None:
    page, history, folder = pushed
    in_dataset(folder, ok_result())
    history.append(ok_result())
    history.delete([ok_result().id])
    assert "From the dataset" not in wall_of(page, 1)[0]


def test_without_the_hub_the_wall_says_so(pushed: tuple[Page, PushedHistory, Path], monkeypatch) -> None:
    page, history, _ = pushed
    history.append(ok_result())
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    html, note = wall_of(page, 1)
    assert f'href="?run={ok_result().id}"' in html
    assert "The dataset somebody/runs is missing: " in note and "does not answer" in note
