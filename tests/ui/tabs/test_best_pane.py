"""Tests of the search for the best way on the page, without a browser and with a fake runner."""

import dataclasses
from typing import Any

import pytest
from support.fake_runner import FakeRunner, measured
from support.page_support import (
    HOSTILE,
    cancel,
    ended,
    field_values,
    followed,
    from_browser,
    handler,
    is_ready,
    press_row,
    press_run,
    shown,
    stage_of,
    visitor,
)
from support.samples import failed_result, measurement

from demo.core.options import BadInput, RunSpec
from demo.store.history import History
from demo.ui.page import Page
from demo.ui.tabs import best_pane

pytestmark = pytest.mark.usefixtures("quick")
ME = visitor("me")


def page_of(answer: Any = measured, seconds: float = 0.0) -> tuple[Page, FakeRunner]:
    runner = FakeRunner(lambda spec, image: answer(spec), seconds, history=History())
    return Page(runner, history=runner.history), runner


def press_search(page: Page, minutes: Any = 3, formats: bool = False, **changes: Any) -> Any:
    """Presses the button of the search, with fields of the form changed. Returns the first updates."""
    values = field_values(page, **changes).values()
    search = handler(page, of=(page.run_tab.form.best, "click"), changes=page.best_pane.work_shown)
    return search(ME, minutes, formats, *values)


def search(page: Page) -> dict[Any, Any]:
    """Makes a search on the page. Returns the updates at its end."""
    begun = press_search(page)
    *_, last = followed(page, page.best_pane, begun)
    return begun | last


def arrive(page: Page, **query: str) -> dict[Any, Any]:
    """Returns the updates of a page that this visitor opens with this query, after a search."""
    arrive = handler(page, takes=page.run_tab.visitor, only=page.best_pane.arriving)
    return arrive(ME, request=from_browser("a new page", **query))


def test_a_search_fills_its_table_up_to_charts_with_code() -> None:
    page, _ = page_of(seconds=0.05)
    pane, begun = page.best_pane, press_search(page)
    assert begun[page.run_tab.pane.best]["visible"] and "so far" in begun[pane.head] and not is_ready(page, begun)
    updates = list(followed(page, pane, begun))
    tables = [shown(update[pane.table]) for update in updates if pane.table in update]
    tried = [sum(row[-1] == "agrees" for row in table) for table in tables]
    assert tried[0] == 0 and tried == sorted(tried) and tried[-1] == len(begun[pane.work_shown].search.ways) - 1
    assert any(" left" in update[pane.head] for update in updates)
    last = updates[-1]
    assert "\n## Freezing: 2" in last[pane.head] and " left" not in last[pane.head]
    (first, rank, *_), (second, *_), *_ = shown(last[pane.table])
    assert (first, rank, second) == ("Freezing", "1", "A package")
    assert all(last[plot]["visible"] and last[plot]["value"] is not None for plot in pane.charts.values())
    assert "freezing" in last[pane.code]["value"] and "restarts?" in last[pane.work]["value"]
    assert is_ready(page, last)


def test_headline_and_row_are_of_one_table() -> None:
    """The page updates the rows after each run, but the headline more often. Both must be of the same table."""
    page, _ = page_of()
    going = search(page)[page.best_pane.work_shown]
    head, fresh = best_pane.head(going), dataclasses.replace(going.table.winner.result, id="newer")
    going.search._runs["freezing"].append(dataclasses.replace(fresh, compiled=measurement(0.0001)))
    assert going.search.table() != going.table and best_pane.head(going) == head


def test_an_error_stands_above_what_was_found() -> None:
    page, _ = page_of(lambda spec: RuntimeError("secret words"))
    last = search(page)
    notice = last[page.run_tab.pane.notice]
    assert notice["visible"] and "Something went wrong" in notice["value"] and is_ready(page, last)


def test_a_cancelled_search_goes_on_at_the_next_press() -> None:
    page, runner = page_of(seconds=0.2)
    pane, begun = page.best_pane, press_search(page)
    going = begun[pane.work_shown]
    for _ in followed(page, pane, begun):
        if len(runner.runs) >= 2:
            runner.seconds = 60.0
            cancel(page, "me")
    runner.seconds = 0.0
    ended(going)
    kept = sum(row.result is not None for row in going.search.table().rows)
    assert going.stopped and 0 < kept < len(going.search.ways) - 1
    assert "It was cancelled; not tried: " in arrive(page)[pane.head]
    assert "everything was tried" in search(page)[pane.head]


def test_a_page_shows_its_search_with_the_form_that_began_it() -> None:
    page, _ = page_of(seconds=0.2)
    pane, fields = page.best_pane, page.run_tab.form.inputs
    going = press_search(page, minutes=7, formats=True, batch_size=4)[pane.work_shown]
    back = arrive(page)
    assert back[pane.work_shown] is going and back[fields["batch_size"]]["value"] == 4
    assert (back[page.run_tab.form.minutes], back[page.run_tab.form.other_formats]) == (7.0, True)
    assert not is_ready(page, back)
    assert arrive(page, run="another")[pane.work_shown] is None
    (refused,) = press_run(page, "me")
    assert "Your last run, search or sweep goes on" in stage_of(page, refused)
    cancel(page, "me")
    ended(going)


@pytest.mark.parametrize(
    ("query", "same"),
    [({"checkpoint": "shapes-vit"}, True), ({"checkpoint": "shapes-segformer"}, False), ({"batch_size": "x"}, False)],
    ids=["the same run", "another run", "a bad link"],
)
def test_a_search_whose_end_was_shown_gives_way_to_a_link(query: dict[str, str], same: bool) -> None:
    page, _ = page_of()
    going = search(page)[page.best_pane.work_shown]
    assert (arrive(page, **query)[page.best_pane.work_shown] is going) is same


def test_a_row_opens_its_run() -> None:
    def answer(spec: RunSpec) -> Any:
        if spec.freezing:
            failure = dataclasses.replace(failed_result().failure, message=f"No: {HOSTILE}")
            return dataclasses.replace(measured(spec), status="compile_failed", failure=failure, compiled=None)
        return BadInput(f"Refused: {HOSTILE}") if spec.scope == "layers" else measured(spec)

    page, _ = page_of(answer)
    updates = search(page)
    pane = page.best_pane
    outputs = {row[0]: row[-1] for row in shown(updates[pane.table])}
    assert outputs["Freezing"].startswith("compile failed: No:") and outputs["Layer by layer"].startswith("Refused:")

    def open_row(way: Any) -> str:
        return press_row(page, pane.table, updates[pane.work_shown], row=[way])

    assert "compiler aot" in open_row("package")
    assert "Did not compile" in open_row("freezing") and HOSTILE not in open_row("freezing")
    assert [open_row(way) for way in ("layers", None, 1.5, [])] == [""] * 4
