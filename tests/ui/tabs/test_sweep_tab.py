"""The tab of sweeps without a browser: its handlers and its heat map. A fake runner stands for the models."""

import csv
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_runner import FakeRunner
from page_support import from_browser, handler
from samples import failed_result, ok_result

from demo.core import catalog, format as fmt, limits
from demo.core.result import RunResult
from demo.core.spec import BadInput, RunSpec
from demo.store import published
from demo.store.history import FOLDER_VARIABLE
from demo.sweep.grid import AXES, PRESETS
from demo.ui import jobs
from demo.ui.jobs import Sweep
from demo.ui.page import Page

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "data"))
    monkeypatch.setattr(jobs, "UPDATE_SECONDS", 0.01)
    return tmp_path / "data"


def runner(answer: Any = None, seconds: float = 0.0) -> FakeRunner:
    return FakeRunner(answer or (lambda spec, image: ok_result(spec=spec)), seconds)


def tab(answer: Any = None, seconds: float = 0.0) -> Page:
    return Page(runner(answer, seconds))


def started(
    of: Page, session: str = "one", fresh: bool = False, visitor: str | None = None, **axes: Any
) -> Iterator[dict[Any, Any]]:
    """What pressing Start sends to the browser."""
    values = {name: field.value for name, field in of.sweep_tab.axes.items()} | axes
    start = handler(of, of=(of.sweep_tab.start_button, "click"))
    begun = start(visitor, *values.values(), "pretrained", fresh, request=from_browser(session))
    yield begun
    if begun[of.sweep_tab.watched] is not None:
        yield from followed(of, begun[of.sweep_tab.watched], session)


def followed(of: Page, going: Sweep, session: str = "one") -> Iterator[dict[Any, Any]]:
    request = from_browser(session)
    yield from handler(of, takes=of.sweep_tab.watched, only=[of.sweep_tab.status, of.sweep_tab.map])(
        going, request=request
    )
    yield handler(of, takes=of.sweep_tab.watched, changes=of.sweep_tab.start_button)(going, request=request)


def arrived(of: Page, session: str, visitor: str | None) -> dict[Any, Any]:
    """What a page gets when it is opened."""
    load = handler(of, changes=of.sweep_tab.watched, of=(of.blocks, "load"))
    updates: dict[Any, Any] = load(visitor, request=from_browser(session))
    return updates


def stop(of: Page, session: str) -> None:
    handler(of, of=(of.sweep_tab.stop_button, "click"))(None, request=from_browser(session))


def cell_at(of: Page, shown: Sweep, place: Any) -> str:
    """What a click on the cell at this place opens."""
    html: str = handler(of, of=(of.sweep_tab.map, "select"))(shown, data={"place": place})
    return html


def added(of: Page, shown: Sweep) -> str:
    """The answer to a press of "Add to published"."""
    html: str = handler(of, of=(of.sweep_tab.keep_button, "click"))(shown)
    return html


def buttons(of: Page, updates: dict[Any, Any]) -> tuple[bool, bool]:
    """Whether Start and Stop can be pressed."""
    return updates[of.sweep_tab.start_button]["interactive"], updates[of.sweep_tab.stop_button]["interactive"]


def test_a_sweep_fills_the_map_cell_by_cell_and_leaves_the_buttons_ready() -> None:
    of = tab(seconds=0.1)
    updates = list(started(of))
    maps = [update[of.sweep_tab.map] for update in updates if of.sweep_tab.map in update]
    filled = [shown.count("data-place") for shown in maps]
    assert filled == sorted(filled)
    assert (filled[0], filled[-1]) == (0, 8)
    assert buttons(of, updates[0]) == (False, True)
    assert buttons(of, updates[-1]) == (True, False)
    assert "8 of 8 cells finished" in updates[-1][of.sweep_tab.status]


def test_failures_fill_cells_and_a_refusal_too() -> None:
    def answer(spec: RunSpec, image: Path) -> RunResult | Exception:
        if spec.batch_size == 1:
            return failed_result(spec=spec)
        return BadInput(f"Not to be had: {HOSTILE}") if spec.checkpoint == "shapes-vit" else ok_result(spec=spec)

    of = tab(answer)
    *_, last = started(of)
    assert last[of.sweep_tab.map].count("OOM</b>") == 4
    assert last[of.sweep_tab.map].count("refused</b>") == 1
    assert HOSTILE not in last[of.sweep_tab.map]
    shown = finished(of)
    place = next(place for place, cell in enumerate(shown.cells) if cell.refused)
    opened = cell_at(of, shown, place)
    assert "Not to be had" in opened and HOSTILE not in opened
    assert "shapes-segformer" in cell_at(of, shown, 3)


def finished(of: Page) -> Sweep:
    """A sweep at its end, as the browser's session holds it."""
    first, *_ = started(of)
    found: Sweep = first[of.sweep_tab.watched]
    assert found.ended
    return found


def test_stop_ends_the_sweep_and_offers_what_is_there() -> None:
    of = tab(seconds=0.3)
    updates = []
    for update in started(of):
        updates.append(update)
        if of.sweep_tab.map in update and update[of.sweep_tab.map].count("data-place") == 2:
            stop(of, "one")
    assert "Stopped" in updates[-1][of.sweep_tab.status]
    assert updates[-1][of.sweep_tab.map].count("data-place") == 2
    assert buttons(of, updates[-1]) == (True, False)
    rows = list(csv.DictReader(open(updates[-1][of.sweep_tab.exports[".csv"]]["value"])))
    assert [row["value"] for row in rows] == ["2.00×", "2.00×"]


def test_a_sweep_stands_in_the_line_for_each_cell() -> None:
    """Somebody else's run goes between two cells of a sweep, not after all of them."""
    order: list[str] = []
    of = tab(lambda spec, image: order.append("cell") or ok_result(spec=spec), seconds=0.5)

    def visitor() -> None:
        with of.queue.join() as places:
            for _ in places:
                pass
            order.append("visitor")

    thread = None
    for _ in started(of):
        if thread is None and order == ["cell"]:
            thread = threading.Thread(target=visitor)
            thread.start()
            while len(of.queue) < 2:
                time.sleep(0.01)
    assert thread is not None
    thread.join()
    assert order.index("visitor") in (1, 2) and order.count("cell") == 8


def test_a_visitor_has_one_sweep_at_a_time_and_another_visitor_too() -> None:
    of = tab(seconds=60)
    going, other = started(of), started(of, session="two")
    next(going)
    (only,) = started(of)
    assert "A sweep of yours is going on already" in only[of.sweep_tab.status]
    assert of.sweep_tab.start_button not in only  # the one that goes on keeps its buttons
    assert of.sweep_tab.map in next(other)
    for session, sweep in (("one", going), ("two", other)):
        stop(of, session)
        assert "Stopped" in list(sweep)[-1][of.sweep_tab.status]


VISITOR = "0123456789abcdef" * 2


def test_leaving_the_page_ends_no_sweep_and_opening_it_again_brings_it_back() -> None:
    of = tab(seconds=0.2)
    left = started(of, visitor=VISITOR, batch_sizes=["2", "8"])
    next(left)
    next(left)
    left.close()  # type: ignore[attr-defined]
    assert arrived(of, "stranger", None) == {of.sweep_tab.watched: None}
    back = arrived(of, "two", VISITOR)
    assert buttons(of, back) == (False, True) and "cells finished" in back[of.sweep_tab.status]
    assert back[of.sweep_tab.axes["batch_sizes"]] == ["2", "8"]  # the form shows this sweep, so Start continues it
    *_, last = followed(of, back[of.sweep_tab.watched], "two")
    assert last[of.sweep_tab.map].count("data-place") == 8 and buttons(of, last) == (True, False)
    assert arrived(of, "three", VISITOR) == {of.sweep_tab.watched: None}  # its end was shown


@pytest.mark.parametrize("space", [True, False], ids=["on a Space", "on a machine of one's own"])
def test_a_sweep_that_nobody_watches_ends_on_a_space_only(space: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "UNWATCHED_SECONDS", 0.05)
    if space:
        monkeypatch.setenv("SPACE_ID", "somebody/space")
    of = tab(seconds=0.1)
    going = next(started(of))[of.sweep_tab.watched]
    ended(going)
    assert going.stopped is space and all(cell.done for cell in going.cells) is not space
    assert len(of.queue) == 0


def test_closing_the_app_starts_no_further_cell() -> None:
    of = tab(lambda spec, image: failed_result(spec=spec, status="interrupted"))
    going = next(started(of))[of.sweep_tab.watched]
    ended(going)
    assert [cell.result is not None for cell in going.cells] == [True, *[False] * 7]


def test_many_names_start_no_more_sweeps_than_the_queue_has_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORTH_COMPILING_QUEUE", "2")
    monkeypatch.setattr(limits, "current", lambda: limits.read(dict(os.environ)))
    fake = runner(seconds=60)
    of = Page(fake)
    two = [next(started(of, session=name))[of.sweep_tab.watched] for name in ("one", "two")]
    (refused,) = started(of, session="three")
    assert "2 sweeps are going on here already" in refused[of.sweep_tab.status]
    for name in ("one", "two"):
        stop(of, name)
    for going in two:
        ended(going)
    fake.seconds = 0.0
    for number in range(5):
        ended(next(started(of, session=f"later {number}"))[of.sweep_tab.watched])
    assert len(of.sweep_tab.works._works) <= 3


def ended(going: Sweep) -> None:
    deadline = time.monotonic() + 20
    while not going.ended:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_sweep_from_the_page_has_a_limit_of_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "current", lambda: limits.read({"SPACE_ID": "somebody/space"}))
    of = tab()
    sizes = [str(size) for size in range(1, 10)]
    (only,) = started(of, batch_sizes=sizes)
    assert "at most 24 cells. Given: 36" in only[of.sweep_tab.status]
    assert "24 of 24 cells finished" in list(started(of, batch_sizes=sizes[:6]))[-1][of.sweep_tab.status]


def test_a_grid_that_cannot_be_run_is_told_and_the_buttons_are_ready() -> None:
    of = tab()
    (only,) = started(of, batch_sizes=["1", HOSTILE])
    assert of.sweep_tab.start_button not in only
    assert "from 1 to 256" in only[of.sweep_tab.status] and HOSTILE not in only[of.sweep_tab.status]
    (only,) = started(of, modes=[])
    assert "no modes" in only[of.sweep_tab.status]


def test_a_finished_sweep_can_stand_beside_the_guides_tables_but_not_on_a_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "MEASURED_FOLDER", tmp_path)
    of = tab()
    *_, last = started(of)
    assert last[of.sweep_tab.keep_button]["visible"]
    assert "example-cpu.csv" in added(of, finished(of))
    assert len(published.measured_rows(tmp_path)[0]) == 8
    (tmp_path / "example-cpu.csv").unlink()
    monkeypatch.setenv("SPACE_ID", "somebody/space")
    *_, last = started(of)
    assert not last[of.sweep_tab.keep_button]["visible"]
    assert added(of, finished(of)) == ""
    assert not list(tmp_path.iterdir())


# ---- before Start


def planned(of: Page, weights: str = "pretrained", **axes: Any) -> str:
    """What the tab says of a choice before Start is pressed."""
    values = {name: field.value for name, field in of.sweep_tab.axes.items()} | axes
    plan: str = handler(of, changes=of.sweep_tab.plan)(*values.values(), weights, False)
    return plan


def guides_table() -> dict[str, list[str]]:
    grid = PRESETS["published"]
    return {name: [str(value) for value in getattr(grid, name)] for name in AXES}


def test_cells_time_and_downloads_are_told_before_start(monkeypatch: pytest.MonkeyPatch) -> None:
    of = tab()
    monkeypatch.setattr("demo.core.hub.reachable", lambda: True)
    monkeypatch.setattr("demo.core.hub.holds_weights", lambda checkpoint: checkpoint == "microsoft/resnet-50")
    told = planned(of, **guides_table())
    assert "Cells: 72. Stored already: 0. To run: 72." in told and "Time: about " in told
    size = 4 * sum(one.parameters for one in catalog.PUBLISHED if one.id != "microsoft/resnet-50")
    assert f"Checkpoints to download: 11, about {fmt.size(size)}." in told
    assert "download" not in planned(of, "random", **guides_table())
    assert "download" not in planned(of)
    assert "The sweep has no checkpoints" in planned(of, checkpoints=[])
    monkeypatch.setattr("demo.core.hub.reachable", lambda: False)
    assert "Checkpoints not on this machine: 11." in planned(of, **guides_table())
