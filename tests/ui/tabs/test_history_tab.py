"""The tab of stored runs without a browser: what its handlers put into its components."""

from pathlib import Path
from typing import Any

import gradio as gr
import pandas as pd
import pytest
from support.fake_runner import FakeRunner
from support.page_support import HOSTILE, cancel, handler, press, press_row, press_run, shown, stage_of, visitor
from support.samples import failed_result, measurement, ok_result

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


def listed(page: Page, search: str = "", selected: Any = ()) -> dict[Any, Any]:
    tab = page.history_tab
    return handler(page, of=(tab.search, "change"), changes=tab.runs)(search, list(selected))


def compared(page: Page, *selected: str) -> dict[Any, Any]:
    return press(page, page.history_tab.compare_button, list(selected))


def exported(page: Page, *selected: str, search: str = "") -> tuple[Any, str]:
    """The path of the export, and a message."""
    return press(page, page.history_tab.exports["csv"], list(selected), search)


def pressed_run(page: Page, id: Any, column: int = 1, selected: Any = ()) -> dict[Any, Any]:
    return press_row(page, page.history_tab.runs, visitor("one"), list(selected), row=["+", id], place=(0, column))


def test_runs_are_listed_newest_first(page: Page) -> None:
    rows = shown(listed(page)[page.history_tab.runs])
    assert [row[-1] for row in rows] == ["slower", FAILED.id, FAST.id]


def test_a_row_says_what_came_of_its_run(page: Page) -> None:
    slower, failed, fast = shown(listed(page)[page.history_tab.runs])
    assert fast[3:7] == ["2.00× faster ▲", "1.993 to 2.007×", "2.036", "1.018"]
    assert slower[3] == "2.00× slower ▼" and failed[2:7] == ["batch 256 · default · float32", "Out of memory", *"–––"]


def test_a_search_leaves_what_fits(page: Page) -> None:
    assert [row[-1] for row in shown(listed(page, "owlvit")[page.history_tab.runs])] == [FAILED.id]
    assert shown(listed(page, HOSTILE)[page.history_tab.runs]) == []


def test_only_the_newest_of_many_runs_are_listed(page: Page, monkeypatch) -> None:
    monkeypatch.setattr(history_tab, "LISTED", 2)
    updates = listed(page)
    assert len(shown(updates[page.history_tab.runs])) == 2
    assert "The newest 2 of 3 runs" in updates[page.history_tab.shown]


def test_a_press_on_the_first_column_selects_the_run(page: Page) -> None:
    tab = page.history_tab
    for selected, id, then in (
        ([], "slower", ["slower"]),
        (["slower"], FAST.id, ["slower", FAST.id]),
        (["slower"], "slower", ["slower"]),
    ):
        updates = pressed_run(page, id, 0, selected)
        assert updates == {tab.selected: then, page.run_tab.row_run_id: ""}


@pytest.mark.parametrize("search", ["", "owlvit"], ids=["in the list", "hidden by a search"])
def test_a_selection_belongs_to_runs_and_not_to_rows(page: Page, history: History, search: str) -> None:
    history.append(ok_result(id="newer", started_at="2026-11-22T10:00:00Z"))
    history.delete([FAST.id])
    selected = listed(page, search, ["slower", FAST.id, HOSTILE])[page.history_tab.selected]
    assert selected["value"] == ["slower"] and "slower" in dict(map(reversed, selected["choices"]))


@pytest.mark.parametrize("data", [None, [], {}, {"row_value": ["gone"]}, {"row_value": 3, "index": "x"}], ids=str)
def test_a_run_that_is_gone_is_not_found(page: Page, data: Any) -> None:
    updates = press(page, page.history_tab.runs, visitor("one"), [], event="select", data=data)
    assert "Run not found" in stage_of(page, updates)


def test_a_run_that_goes_on_keeps_the_stage(page: Page) -> None:
    running = press_run(page)
    next(running)
    updates = pressed_run(page, FAST.id)
    assert "going on" in updates[page.history_tab.message]
    assert page.run_tab.pane.top not in updates
    cancel(page, "one")
    list(running)
    assert "2.00×" in stage_of(page, pressed_run(page, FAST.id))


def test_runs_are_compared_oldest_first(page: Page) -> None:
    tab = page.history_tab
    updates = compared(page, "slower", FAILED.id, FAST.id)
    assert updates[tab.compared]["visible"] and updates[tab.message] == ""
    assert "They differ in: checkpoint, task, batch size" in updates[tab.answer]
    results = next(row for row in shown(updates[tab.table]) if row[0] == "Result")
    assert results[1:] == ["2.00× faster ▲", "Out of memory", "2.00× slower ▼"]
    assert len(updates[tab.chart]["value"].data[0].x) == 2


@pytest.mark.parametrize(
    "selected, here", [("", 0), ("slower", 1), ("slower gone", 1), ("gone lost", 0), ("a b c d e", 5)]
)
def test_no_other_number_of_runs_is_compared(page: Page, selected: str, here: int) -> None:
    updates = compared(page, *selected.split())
    assert set(updates) == {page.history_tab.message}
    assert f"Select 2 to 4 runs to compare. Selected: {here}." in updates[page.history_tab.message]


def linked(page: Page, query: str, chosen: str = "") -> dict[Any, Any]:
    """What a link brings to a page that shows the comparison of `chosen`."""
    return handler(page, takes=page.history_tab.asked, changes=page.history_tab.compared)(query, chosen)


def test_a_link_shows_the_comparison_that_it_was_copied_from(page: Page) -> None:
    tab = page.history_tab
    by_hand = compared(page, "slower", FAST.id)
    chosen = by_hand[tab.chosen]
    by_link = linked(page, f"?tab=history&{chosen}&lang=en")
    assert by_link[tab.answer] == by_hand[tab.answer] and by_link[tab.chosen] == chosen
    assert linked(page, f"?{chosen}", chosen) == {tab.message: gr.skip()}  # as when the tab is opened again
    assert linked(page, "?tab=history", chosen)[tab.compared] == gr.update(visible=False)


@pytest.mark.parametrize("ids", ["gone+slower", "a+b+c+d+e", "%3Cscript%3E", "+".join(map(str, range(2000)))])
def test_a_link_to_runs_that_are_not_here_says_so(page: Page, ids: str) -> None:
    updates = linked(page, f"?tab=history&history_compare={ids}", "history_compare=slower+slower2")
    assert updates[page.history_tab.chosen] == ""
    assert "The runs that this link compares are not all stored here." in updates[page.history_tab.message]


def test_an_export_holds_what_is_selected(page: Page) -> None:
    path, message = exported(page, "slower", search="owlvit")
    assert list(pd.read_csv(path)["id"]) == ["slower"]
    assert Path(path).name == "worth-compiling-runs.csv" and "1 run written" in message


def test_an_export_without_a_selection_holds_what_is_found(page: Page) -> None:
    path, _ = exported(page, search="owlvit")
    assert list(pd.read_csv(path)["id"]) == [FAILED.id]


def test_an_export_has_a_limit_and_says_so(page: Page, monkeypatch) -> None:
    monkeypatch.setattr(history_tab, "MAX_AT_ONCE", 2)
    path, message = exported(page)
    assert list(pd.read_csv(path)["id"]) == ["slower", FAILED.id]
    assert "2 runs written" in message and "the newest of 3; on the command line" in message


def test_a_selection_without_end_is_refused(page: Page) -> None:
    many = list(map(str, range(history_tab.MAX_AT_ONCE + 1)))
    with pytest.raises(gr.Error, match="At most 1000 runs at once"):
        exported(page, *many)
    assert "At most 1000 runs at once" in compared(page, *many)[page.history_tab.message]
    assert "At most 1000 runs at once" in deleted(page, many)[page.history_tab.message]


def deleted(page: Page, selected: Any) -> dict[Any, Any]:
    return press(page, page.history_tab.delete_button, selected, "")


def test_deleted_runs_are_gone_from_the_list_and_the_selection(page: Page, history: History) -> None:
    tab, updates = page.history_tab, deleted(page, ["slower"])
    assert "1 run deleted." in updates[tab.message]
    assert [row[-1] for row in shown(updates[tab.runs])] == [FAILED.id, FAST.id]
    assert updates[tab.selected]["value"] == [] and history.get("slower") is None


@pytest.mark.parametrize("selected", [[], None, ["gone"]], ids=["none", "nothing", "gone"])
def test_without_a_selection_nothing_is_deleted(page: Page, selected: Any) -> None:
    assert deleted(page, selected) == {page.history_tab.message: tables.status("No run was deleted.")}


def test_on_a_space_nothing_can_be_deleted_from_the_page(history: History, monkeypatch) -> None:
    monkeypatch.setenv("SPACE_ID", "somebody/space")
    page = Page(FakeRunner(lambda *_: ok_result()), history=history)
    assert page.history_tab.delete_button.visible is False
    assert "No run was deleted." in deleted(page, ["slower"])[page.history_tab.message]
    assert history.count() == 3
