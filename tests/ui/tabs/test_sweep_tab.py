"""Tests of the tab Sweep without a browser and with a fake runner: its handlers and components."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.fake_runner import FakeRunner
from support.page_support import HOSTILE, ended, followed, from_browser, handler, press, press_row, shown, stage_of
from support.samples import failed_result, info_of, ok_result

from demo.core import catalog, format as fmt, limits
from demo.core.options import BadInput, RunSpec
from demo.core.result import RunResult
from demo.store.history import History
from demo.sweep.grid import AXES, PICTURE, PRESETS
from demo.ui import works
from demo.ui.page import Page
from demo.ui.tabs.sweep_tab import SweepTab
from demo.ui.works import Sweep

pytestmark = pytest.mark.usefixtures("quick")
VISITOR = "0123456789abcdef" * 2


def page_of(answer: Any = None, seconds: float = 0.0) -> tuple[Page, SweepTab]:
    page = Page(FakeRunner(answer or (lambda spec, image: ok_result(spec=spec)), seconds))
    return page, page.sweep_tab


def start(
    page: Page, session: str = "one", fresh: bool = False, visitor: str | None = None, **axes: Any
) -> Iterator[dict[Any, Any]]:
    tab = page.sweep_tab
    values = {name: field.value for name, field in tab.axes.items()} | axes
    press_start = handler(page, of=(tab.start_button, "click"))
    begun = press_start(visitor, *values.values(), "pretrained", fresh, request=from_browser(session))
    yield from followed(page, tab, begun)


def arrive(page: Page, session: str, visitor: str | None) -> dict[Any, Any]:
    load = handler(page, changes=page.sweep_tab.work_shown, of=(page, "load"))
    return load(visitor, request=from_browser(session))


def buttons(page: Page, updates: dict[Any, Any]) -> tuple[bool, bool]:
    """Returns whether Start and Stop can be pressed."""
    tab = page.sweep_tab
    return updates[tab.start_button]["interactive"], updates[tab.stop_button]["interactive"]


def count_values(page: Page, updates: dict[Any, Any]) -> int:
    """Returns how many cells have a value, in the table as in the map."""
    values = [row[4] for row in shown(updates[page.sweep_tab.table])]
    texts = [text for line in updates[page.sweep_tab.map]["value"].data[0].text for text in line]
    assert len(values) - values.count("–") == len(values) - texts.count("·")
    return len(values) - values.count("–")


def run_sweep(page: Page, **options: Any) -> Sweep:
    return ended(next(start(page, **options))[page.sweep_tab.work_shown])


def test_a_sweep_fills_its_map_cell_by_cell() -> None:
    page, tab = page_of(seconds=0.3)
    updates = list(start(page))
    counts = [count_values(page, update) for update in updates if tab.table in update]
    assert counts == sorted(counts) and (counts[0], counts[-1]) == (0, 8)
    assert (buttons(page, updates[0]), buttons(page, updates[-1])) == ((False, True), (True, False))
    assert "8 of 8 cells finished" in updates[-1][tab.status]
    drawn = counts[1:-1]  # a chart is drawn anew only when a cell has ended
    assert len(set(drawn)) == len(drawn) < len(updates) / 2


def test_failures_fill_cells() -> None:
    def answer(spec: RunSpec, image: Path) -> RunResult | Exception:
        if spec.batch_size == 1:
            return failed_result(spec=spec)
        return BadInput(f"Not to be had: {HOSTILE}") if spec.checkpoint == "shapes-vit" else ok_result(spec=spec)

    page, tab = page_of(answer)
    *_, last = start(page)
    texts = [text for line in last[tab.map]["value"].data[0].text for text in line]
    assert [texts.count(text) for text in ("OOM", "refused", "2.00×")] == [4, 1, 3]
    refused = next(row for row in shown(last[tab.table]) if row[-2] == "refused")
    assert "Not to be had" in refused[4]
    assert press_row(page, tab.table, None, row=refused).keys() == {tab.message, page.run_tab.row_run_id}


def test_a_row_opens_its_run(history: History) -> None:
    history.append(ok_result())
    page = Page(FakeRunner(lambda *_: ok_result()), history=history)
    opened = press_row(page, page.sweep_tab.table, None, row=["shapes-vit", ok_result().id])
    assert opened[page.sweep_tab.tabs]["selected"] == "run" and "2.00×" in stage_of(page, opened)


def test_a_stopped_sweep_exports_its_cells() -> None:
    page, tab = page_of(seconds=0.3)
    updates = []
    for update in start(page):
        updates.append(update)
        if tab.table in update and count_values(page, update) >= 2:
            press(page, tab.stop_button, None, request=from_browser("one"))
    assert "Stopped" in updates[-1][tab.status]
    count = count_values(page, updates[-1])
    assert 2 <= count < 8
    assert buttons(page, updates[-1]) == (True, False)
    rows = list(csv.DictReader(open(updates[-1][tab.exports[".csv"]]["value"])))
    assert [row["value"] for row in rows] == ["2.00×"] * count


def test_a_sweep_outlives_its_page() -> None:
    page, tab = page_of(seconds=0.2)
    left = start(page, visitor=VISITOR, batch_sizes=["2", "8"])
    next(left)
    next(left)
    left.close()  # type: ignore[attr-defined]
    assert arrive(page, "stranger", None) == {tab.work_shown: None}
    back = arrive(page, "two", VISITOR)
    assert buttons(page, back) == (False, True) and "cells finished" in back[tab.status]
    assert back[tab.axes["batch_sizes"]] == ["2", "8"]  # the form shows this sweep, so Start continues it
    *_, last = followed(page, tab, back)
    assert count_values(page, last) == 8 and buttons(page, last) == (True, False)
    assert arrive(page, "three", VISITOR) == {tab.work_shown: None}  # its end was shown


@pytest.mark.parametrize(
    ("space", "seconds", "ends"),
    [("somebody/space", 0.05, True), ("somebody/space", 60.0, False), ("", 0.05, False)],
    ids=["on a Space", "not at once", "on a machine of one's own"],
)
def test_an_unwatched_sweep_ends_on_a_space(space: str, seconds: float, ends: bool, monkeypatch) -> None:
    monkeypatch.setattr(works, "UNWATCHED_SECONDS", seconds)
    monkeypatch.setenv("SPACE_ID", space)
    page, _ = page_of(seconds=0.1)
    going = run_sweep(page)
    assert going.stopped is ends and all(cell.done for cell in going.cells) is not ends
    assert len(page.desk.queue) == 0


def test_closing_the_app_starts_no_further_cell() -> None:
    page, tab = page_of(lambda spec, image: failed_result(spec=spec, status="interrupted"))
    assert [cell.result is not None for cell in run_sweep(page, visitor=VISITOR).cells] == [True, *[False] * 7]
    assert "Stopped" in arrive(page, "later", VISITOR)[tab.status]  # no page has shown its end


@pytest.mark.parametrize(
    "sizes, words",
    [(list(map(str, range(1, 10))), "at most 24 cells. Given: 36"), (["1", HOSTILE], "from 1 to 256")],
    ids=["too large", "a bad size"],
)
def test_a_bad_grid_is_refused(sizes: list[str], words: str, monkeypatch) -> None:
    monkeypatch.setattr(limits, "current", lambda: limits.limits_from({"SPACE_ID": "somebody/space"}))
    page, tab = page_of()
    (only,) = start(page, batch_sizes=sizes)
    assert words in only[tab.status] and HOSTILE not in only[tab.status]
    assert tab.start_button not in only


def test_what_start_would_fill_is_shown_before(history: History) -> None:
    """If the page shows a sweep already, the cells of this sweep stay."""
    history.append(ok_result(spec=catalog.make_spec("shapes-vit", device="cpu"), image=info_of(PICTURE)))
    page = Page(FakeRunner(lambda *_: ok_result()), history=history)
    tab = page.sweep_tab
    change = handler(page, of=(tab.axes["modes"], "change"))
    values = [*(field.value for field in tab.axes.values()), "pretrained", False]
    cells = [row[-2] for row in shown(change(None, *values)[tab.table])]
    assert cells.count("to run") == 7 and cells.count("stored already") == 1
    assert change(run_sweep(page), *values).keys() == {tab.plan}


def test_the_plan_has_cells_time_downloads(monkeypatch) -> None:
    page, tab = page_of()

    def planned(weights: str = "pretrained", **axes: Any) -> str:
        values = {name: field.value for name, field in tab.axes.items()} | axes
        change = handler(page, of=(tab.axes["modes"], "change"))
        return change(None, *values.values(), weights, False)[tab.plan]

    guides = {name: [str(value) for value in PRESETS["published"][name]] for name in AXES}
    monkeypatch.setattr("demo.core.hub.holds_weights", lambda checkpoint: checkpoint == "microsoft/resnet-50")
    plan = planned(**guides)
    assert "Cells: 72. Stored already: 0. To run: 72." in plan and "Time: about " in plan
    size = 4 * sum(checkpoint.parameters for checkpoint in catalog.PUBLISHED if checkpoint.id != "microsoft/resnet-50")
    assert f"Checkpoints to download: 11, about {fmt.size(size)}." in plan
    assert "download" not in planned("random", **guides)
