"""The search for the best way on the page, without a browser. A fake runner stands for the models."""

import dataclasses
from typing import Any

import pytest
from support.fake_runner import SearchRunner, measured
from support.page_support import (
    HOSTILE,
    cancel,
    ended,
    field_values,
    followed,
    from_browser,
    handler,
    press_row,
    press_run,
    shown,
    stage_of,
    visitor,
)
from support.samples import failed_result

from demo.core.spec import BadInput, RunSpec
from demo.store.history import History
from demo.ui.jobs import BestSearch
from demo.ui.page import Page

pytestmark = pytest.mark.usefixtures("quick")
ME = visitor("me")


def page_of(answer: Any = measured, seconds: float = 0.0) -> tuple[Page, SearchRunner]:
    runner = SearchRunner(History(), answer, seconds)
    return Page(runner, history=runner.history), runner


def pressed(page: Page, session: str = "a page", minutes: Any = 3, formats: bool = False, **changes: Any) -> Any:
    """What a press of the button sends at first, from the form with these fields changed."""
    values = field_values(page, **changes).values()
    search = handler(page, of=(page.run_tab.form.best, "click"), changes=page.best_pane.watched)
    return search(ME, minutes, formats, *values, request=from_browser(session))


def searched(page: Page, **asked: Any) -> dict[Any, Any]:
    """What the page shows at the end of a search, with the search."""
    begun = pressed(page, **asked)
    *_, last = followed(page, page.best_pane, begun)
    return begun | last


def row_at(page: Page, going: BestSearch | None, way: Any) -> str:
    """What a press on the row of this way opens."""
    return press_row(page, page.best_pane.table, going, row=[way])


def found(page: Page, **query: str) -> dict[Any, Any]:
    """What a page gets of this visitor's search when it is opened by a link with this query."""
    arrive = handler(page, takes=page.run_tab.visitor, only=page.best_pane.arriving)
    return arrive(ME, request=from_browser("a new page", **query))


def order(table: dict[str, Any]) -> list[str]:
    """The ways of the table from the top."""
    return [row[0] for row in shown(table)]


def tried(table: dict[str, Any]) -> int:
    """The ways that have run."""
    return sum(row[-1] == "agrees" for row in shown(table))


def test_a_search_fills_its_table_row_by_row_and_ends_with_the_answer_its_charts_and_its_code() -> None:
    page, _ = page_of(seconds=0.05)
    pane, begun = page.best_pane, pressed(page)
    assert begun[page.run_tab.pane.best]["visible"] and "so far" in begun[pane.head]
    assert not begun[page.run_tab.form.run]["interactive"] and begun[page.run_tab.form.cancel]["interactive"]
    updates = list(followed(page, pane, begun))
    rows = [tried(update[pane.table]) for update in updates if pane.table in update]
    assert rows[0] == 0 and rows == sorted(rows) and rows[-1] == len(begun[pane.watched].search.ways) - 1
    assert any(" left" in update[pane.head] for update in updates)
    last = updates[-1]
    assert "\n## Freezing: 2" in last[pane.head] and " left" not in last[pane.head]
    assert order(last[pane.table])[:2] == ["Freezing", "A package"]
    assert all(last[plot]["visible"] and last[plot]["value"] is not None for plot in pane.charts.values())
    assert "freezing" in last[pane.code]["value"]
    assert last[page.run_tab.form.run]["interactive"] and not last[page.run_tab.form.cancel]["interactive"]


def test_cancel_keeps_what_was_measured_and_another_press_goes_on_from_there() -> None:
    page, runner = page_of(seconds=0.2)
    pane, begun = page.best_pane, pressed(page)
    going = begun[pane.watched]
    for _ in followed(page, pane, begun):
        if len(runner.runs) >= 2:
            runner.seconds = 60.0
            cancel(page, "me")
    runner.seconds = 0.0
    ended(going)
    kept = sum(row.result is not None for row in going.search.table().rows)
    assert going.stopped and 0 < kept < len(going.search.ways) - 1
    assert "Cancelled" in found(page)[pane.head]
    before = len(runner.runs)
    assert "everything was tried" in searched(page)[pane.head]
    assert len(runner.runs) > before


def test_a_page_that_opens_finds_the_search_running_or_ended_with_the_form_that_made_it() -> None:
    page, _ = page_of(seconds=0.2)
    pane, fields = page.best_pane, page.run_tab.form.inputs
    begun = pressed(page, minutes=7, formats=True, batch_size=4)
    back = found(page)
    assert back[pane.watched] is begun[pane.watched] and back[fields["batch_size"]]["value"] == 4
    assert (back[page.run_tab.form.minutes], back[page.run_tab.form.other_formats]) == (7.0, True)
    assert not back[page.run_tab.form.run]["interactive"]
    assert found(page, run="another")[pane.watched] is None
    cancel(page, "me")
    list(followed(page, pane, back))
    assert found(page, checkpoint="shapes-vit", batch_size="4")[pane.watched] is begun[pane.watched]
    for another in ({"checkpoint": "shapes-segformer"}, {"batch_size": "many"}):
        assert found(page, **another)[pane.watched] is None  # its end was shown


def test_a_visitor_has_a_run_or_a_search_and_not_both_at_once() -> None:
    page, _ = page_of(seconds=60.0)
    going = pressed(page)[page.best_pane.watched]
    (refused,) = press_run(page, "me")
    assert "Your last run, search or sweep goes on" in stage_of(page, refused)
    cancel(page, "me")
    ended(going)


def test_a_row_opens_its_run_and_one_of_a_way_that_fails_says_why_and_never_wins() -> None:
    def answer(spec: RunSpec) -> Any:
        if spec.freezing:
            failure = dataclasses.replace(failed_result().failure, message=f"No: {HOSTILE}")
            return dataclasses.replace(measured(spec), status="compile_failed", failure=failure, compiled=None)
        return BadInput(f"Refused: {HOSTILE}") if spec.scope == "layers" else measured(spec)

    page, _ = page_of(answer)
    updates = searched(page)
    pane, table = page.best_pane, updates[page.best_pane.table]
    assert order(table)[0] == "A package" and set(order(table)[-2:]) == {"Freezing", "Layer by layer"}
    outputs = {row[0]: row[-1] for row in shown(table)}
    assert outputs["Freezing"].startswith("compile failed: No:") and outputs["Layer by layer"].startswith("Refused:")
    going = updates[pane.watched]
    opened = row_at(page, going, "Freezing")
    assert "Did not compile" in opened and HOSTILE not in opened
    for nowhere in ("Layer by layer", None, 1.5, []):
        assert row_at(page, going, nowhere) == ""
    assert "compiler aot" in row_at(page, going, "A package")
