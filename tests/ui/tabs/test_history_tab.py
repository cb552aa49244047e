"""Tests of the tab History without a browser: what its handlers put into its components."""

from pathlib import Path
from typing import Any

import gradio as gr
import pandas as pd
import pytest
from support.fake_runner import FakeRunner
from support.page_support import HOSTILE, cancel, handler, press, press_row, press_run, shown, stage_of, visitor
from support.samples import failed_result, measurement, ok_result

from demo.core.options import BadInput
from demo.store.history import History
from demo.ui.page import Page
from demo.ui.tabs import history_tab, tables

FAST, FAILED = ok_result(), failed_result()
SLOWER = ok_result(id="slower", compiled=measurement(0.004), started_at="2026-11-21T10:00:00Z")


@pytest.fixture
def history(history: History) -> History:
    for result in (FAST, FAILED, SLOWER):
        history.append(result)
    return history


@pytest.fixture
def page(history: History) -> Page:
    return Page(FakeRunner(lambda *_: ok_result(), seconds=60), history=history)


def list_runs(page: Page, search: str = "", selected: Any = ()) -> dict[Any, Any]:
    tab = page.history_tab
    return handler(page, of=(tab.search, "change"), changes=tab.runs)(search, list(selected))


def compare(page: Page, *selected: str) -> dict[Any, Any]:
    return press(page, page.history_tab.compare_button, list(selected))


def export(page: Page, *selected: str, search: str = "") -> tuple[Any, str]:
    return press(page, page.history_tab.exports["csv"], list(selected), search)


def open_row(page: Page, id: Any, column: int = 1, selected: Any = ()) -> dict[Any, Any]:
    return press_row(page, page.history_tab.runs, visitor("one"), list(selected), row=["+", id], place=(0, column))


def test_runs_are_listed_newest_first(page: Page) -> None:
    update = list_runs(page)[page.history_tab.runs]
    slower, failed, fast = shown(update)
    assert [slower[-1], failed[-1], fast[-1]] == ["slower", FAILED.id, FAST.id]
    assert fast[3:7] == ["2.00× faster ▲", "1.993 to 2.007×", "2.036", "1.018"]
    assert slower[3] == "2.00× slower ▼" and failed[2:7] == ["batch 256 · default · float32", "Out of memory", *"–––"]
    colours = tables.VERDICT_STYLES
    styles = [row[3] for row in update["value"]["metadata"]["styling"]]
    assert styles == [colours["slower"], "", colours["faster"]]


def test_a_list_has_what_fits_up_to_a_limit(page: Page, monkeypatch) -> None:
    monkeypatch.setattr(history_tab, "LISTED", 2)
    for search, ids, summary in (
        ("owlvit", [FAILED.id], "1 run"),
        (HOSTILE, [], "0 runs"),
        ("", ["slower", FAILED.id], "The newest 2 of 3 runs"),
    ):
        updates = list_runs(page, search)
        assert [row[-1] for row in shown(updates[page.history_tab.runs])] == ids
        assert summary in updates[page.history_tab.summary]


@pytest.mark.parametrize("selected", [[], ["slower"], [FAST.id]], ids=["none", "the same", "another"])
def test_the_first_column_selects_the_run(page: Page, selected: list[str]) -> None:
    updates = open_row(page, "slower", 0, selected)
    expected = [*(id for id in selected if id != "slower"), "slower"]
    assert updates == {page.history_tab.selected: expected, page.run_tab.row_run_id: ""}


@pytest.mark.parametrize("search", ["", "owlvit"], ids=["in the list", "hidden by a search"])
def test_a_selection_keeps_its_runs(page: Page, history: History, search: str) -> None:
    history.append(ok_result(id="newer", started_at="2026-11-22T10:00:00Z"))
    history.delete([FAST.id])
    selected = list_runs(page, search, ["slower", FAST.id, HOSTILE])[page.history_tab.selected]
    assert selected["value"] == ["slower"] and "slower" in dict(map(reversed, selected["choices"]))


def test_a_run_that_goes_on_keeps_the_stage(page: Page) -> None:
    running = press_run(page)
    next(running)
    updates = open_row(page, FAST.id)
    assert "going on" in updates[page.history_tab.message]
    assert page.run_tab.pane.top not in updates
    cancel(page, "one")
    list(running)
    assert "2.00×" in stage_of(page, open_row(page, FAST.id))
    assert "Run not found" in stage_of(page, open_row(page, "gone"))


def test_runs_are_compared_oldest_first(page: Page) -> None:
    tab = page.history_tab
    updates = compare(page, "slower", FAILED.id, FAST.id)
    assert updates[tab.compared]["visible"] and updates[tab.message] == ""
    assert "They differ in: checkpoint, task, batch size" in updates[tab.answer]
    assert ["Result", "2.00× faster ▲", "Out of memory", "2.00× slower ▼"] in shown(updates[tab.table])
    assert len(updates[tab.chart]["value"].data[0].x) == 2


@pytest.mark.parametrize("selected", ["", "slower", "slower gone", f"slower {FAST.id} a b c"])
def test_no_other_number_of_runs_is_compared(page: Page, selected: str) -> None:
    message = tables.status_line("Select 2 to 4 runs to compare.")
    assert compare(page, *selected.split()) == {page.history_tab.message: message}


def open_link(page: Page, query: str) -> dict[Any, Any]:
    return handler(page, takes=page.history_tab.query, changes=page.history_tab.compared)(query)


def test_a_link_shows_its_comparison(page: Page) -> None:
    tab = page.history_tab
    by_hand = compare(page, "slower", FAST.id)
    chosen = by_hand[tab.query]
    by_link = open_link(page, f"?tab=history&{chosen}&lang=en")
    assert by_link[tab.answer] == by_hand[tab.answer] and by_link[tab.query] == chosen
    assert open_link(page, "") == {tab.message: gr.skip()}  # as when the tab is opened again
    assert open_link(page, "?tab=history")[tab.compared] == gr.update(visible=False)


@pytest.mark.parametrize("ids", ["gone+slower", "slower+slower"])
def test_a_link_to_runs_that_are_not_here_says_so(page: Page, ids: str) -> None:
    updates = open_link(page, f"?tab=history&history_compare={ids}")
    assert updates[page.history_tab.query] == ""
    assert "The runs that this link compares are not all stored here." in updates[page.history_tab.message]


@pytest.mark.parametrize("selected", [["slower"], []], ids=["selected", "found"])
def test_an_export_holds_the_selected_or_found_runs(page: Page, selected: list[str]) -> None:
    path, message = export(page, *selected, search="owlvit")
    assert list(pd.read_csv(path)["id"]) == (selected or [FAILED.id])
    assert Path(path).name == "worth-compiling-runs.csv" and "1 run written" in message


def test_an_export_has_a_limit(page: Page, monkeypatch) -> None:
    monkeypatch.setattr(history_tab, "MAX_AT_ONCE", 2)
    path, message = export(page)
    assert list(pd.read_csv(path)["id"]) == ["slower", FAILED.id]
    assert "2 runs written" in message and "the newest of 3; on the command line" in message
    for act in (export, lambda page, *ids: delete(page, list(ids))):
        with pytest.raises(BadInput, match=r"At most 2 runs at once\. Selected: 3"):
            act(page, "one", "two", "three")


def test_a_store_that_cannot_be_read_is_said_in_place_of_the_list(history: History) -> None:
    history.path.write_bytes(b"no database" * 1000)
    page = Page(FakeRunner(lambda *_: ok_result()), history=history)
    updates = list_runs(page)
    assert "was damaged" in updates[page.history_tab.summary]
    assert updates[page.history_tab.runs] == gr.update(visible=False)


def delete(page: Page, selected: Any) -> dict[Any, Any]:
    return press(page, page.history_tab.delete_button, selected, "")


def test_deleted_runs_are_gone(page: Page, history: History) -> None:
    tab, updates = page.history_tab, delete(page, ["slower"])
    assert "1 run deleted." in updates[tab.message]
    assert [row[-1] for row in shown(updates[tab.runs])] == [FAILED.id, FAST.id]
    assert updates[tab.selected]["value"] == [] and history.get("slower") is None
    assert delete(page, []) == {tab.message: tables.status_line("No run was deleted.")}


def test_on_a_space_nothing_can_be_deleted(history: History, monkeypatch) -> None:
    monkeypatch.setenv("SPACE_ID", "somebody/space")
    page = Page(FakeRunner(lambda *_: ok_result()), history=history)
    assert page.history_tab.delete_button.visible is False
    assert "No run was deleted." in delete(page, ["slower"])[page.history_tab.message]
    assert history.count() == 3
