"""The tab of sweeps without a browser: its handlers and its heat map. A fake runner stands for the models."""

from __future__ import annotations

import csv
import dataclasses
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from samples import failed_result, measurement, ok_result

from demo.core import catalog, limits
from demo.core.languages import LANGUAGES
from demo.core.result import BadInput, RunResult, RunSpec
from demo.store import measured
from demo.store.history import FOLDER_VARIABLE, History
from demo.sweep.grid import Cell, Grid
from demo.ui.html import heatmap
from demo.ui.jobs import sweeps
from demo.ui.jobs.fake_runner import FakeRunner
from demo.ui.jobs.sweeps import Sweep
from demo.ui.page import Page
from demo.ui.tabs import sweep as sweep_tab
from demo.ui.tabs.sweep import SweepTab

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "data"))
    monkeypatch.setattr(sweeps, "UPDATE_SECONDS", 0.01)
    return tmp_path / "data"


def tab(answer: Any = None, seconds: float = 0.0) -> SweepTab:
    page = Page(FakeRunner(answer or (lambda spec, image: ok_result(spec=spec)), seconds))
    page.sweep_tab._sweeps._precompiler = None
    return page.sweep_tab


def asked(session: str) -> Any:
    return SimpleNamespace(session_hash=session)


def started(
    of: SweepTab, session: str = "one", fresh: bool = False, visitor: str | None = None, **axes: Any
) -> Iterator[dict[Any, Any]]:
    """What pressing Start sends to the browser."""
    values = {name: field.value for name, field in of._axes.items()} | axes
    begun = of._run(asked(session), visitor, *values.values(), "pretrained", fresh)
    yield begun
    if begun[of._watched] is not None:
        yield from followed(of, begun[of._watched], session)


def followed(of: SweepTab, going: Sweep, session: str = "one") -> Iterator[dict[Any, Any]]:
    for status, drawn in of._follow(asked(session), going):
        yield {of._status: status, of._map: drawn}
    yield of._over(asked(session), going)


def buttons(of: SweepTab, updates: dict[Any, Any]) -> tuple[bool, bool]:
    """Whether Start and Stop can be pressed."""
    return updates[of._start]["interactive"], updates[of._stop]["interactive"]


def test_a_sweep_fills_the_map_cell_by_cell_and_leaves_the_buttons_ready() -> None:
    of = tab(seconds=0.1)
    updates = list(started(of))
    maps = [update[of._map] for update in updates if of._map in update]
    filled = [shown.count("data-place") for shown in maps]
    assert filled == sorted(filled)
    assert (filled[0], filled[-1]) == (0, 6)
    assert buttons(of, updates[0]) == (False, True)
    assert buttons(of, updates[-1]) == (True, False)
    assert "6 of 6 cells have a value" in updates[-1][of._status]


def test_failures_fill_cells_and_a_refusal_too() -> None:
    def answer(spec: RunSpec, image: Path) -> RunResult | Exception:
        if spec.batch_size == 1:
            return failed_result(spec=spec)
        return BadInput(f"Not to be had: {HOSTILE}") if spec.checkpoint == "shapes-vit" else ok_result(spec=spec)

    of = tab(answer)
    *_, last = started(of)
    assert last[of._map].count("OOM</b>") == 3
    assert last[of._map].count("refused</b>") == 1
    assert HOSTILE not in last[of._map]
    shown = finished(of)
    place = next(place for place, cell in enumerate(shown.cells) if cell.refused)
    opened = of._open(shown, SimpleNamespace(place=place))  # type: ignore[arg-type]
    assert "Not to be had" in opened and HOSTILE not in opened


def finished(of: SweepTab) -> Sweep:
    """A sweep at its end, as the browser's session holds it."""
    first, *_ = started(of)
    found: Sweep = first[of._watched]
    assert found.ended
    return found


def test_what_is_stored_is_there_at_once_and_not_run_again() -> None:
    history = History()
    spec = catalog.make_spec("shapes-vit")
    of = tab(seconds=0.2)
    runner = of._runner
    picture = catalog.ASSETS / "examples" / "shapes-scene-1.png"
    import hashlib

    made = ok_result(spec=spec.on("cpu"))
    image = dataclasses.replace(made.image, sha256=hashlib.sha256(picture.read_bytes()).hexdigest())  # type: ignore[type-var]
    environment = dataclasses.replace(
        made.environment,  # type: ignore[type-var]
        torch=runner.machine.torch,  # type: ignore[union-attr]
        transformers=runner.machine.transformers,  # type: ignore[union-attr]
        device_name=runner.machine.cpu,  # type: ignore[union-attr]
    )
    history.append(dataclasses.replace(made, image=image, environment=environment))
    ran: list[RunSpec] = []
    runner._answer = lambda spec, image: ran.append(spec) or ok_result(spec=spec)  # type: ignore[attr-defined]
    first, *_ = started(of, checkpoints=["shapes-vit"], batch_sizes=["1", "2"])
    assert first[of._map].count("data-place") == 1
    assert [spec.batch_size for spec in ran] == [2]
    ran.clear()
    list(started(of, checkpoints=["shapes-vit"], batch_sizes=["1", "2"], fresh=True))
    assert [spec.batch_size for spec in ran] == [1, 2]


def test_stop_ends_the_sweep_and_offers_what_is_there() -> None:
    of = tab(seconds=0.3)
    updates = []
    for update in started(of):
        updates.append(update)
        if of._map in update and update[of._map].count("data-place") == 2:
            of._cancel(asked("one"), None)
    assert "Stopped" in updates[-1][of._status]
    assert updates[-1][of._map].count("data-place") == 2
    assert buttons(of, updates[-1]) == (True, False)
    rows = list(csv.DictReader(open(updates[-1][of._exports[".csv"]]["value"])))
    assert [row["value"] for row in rows] == ["2.00×", "2.00×"]


def test_a_sweep_stands_in_the_line_for_each_cell() -> None:
    """Somebody else's run goes between two cells of a sweep, not after all of them."""
    of = tab(seconds=0.5)
    order: list[str] = []
    of._runner._answer = lambda spec, image: order.append("cell") or ok_result(spec=spec)  # type: ignore[attr-defined]

    def visitor() -> None:
        with of._sweeps._line.join() as place:
            while place.wait(1.0):
                pass
            order.append("visitor")

    thread = None
    for _ in started(of):
        if thread is None and order == ["cell"]:
            thread = threading.Thread(target=visitor)
            thread.start()
            while len(of._sweeps._line._places) < 2:
                time.sleep(0.01)
    assert thread is not None
    thread.join()
    assert order.index("visitor") in (1, 2) and order.count("cell") == 6


def test_a_sweep_waits_where_the_line_is_full_and_then_goes_on() -> None:
    of = tab()
    of._sweeps._line._longest = 1
    place = of._sweeps._line.join("another")
    updates = started(of, checkpoints=["shapes-vit"], batch_sizes=["1"])
    waited = next(update for update in updates if "Another run has its turn first" in update.get(of._status, ""))
    assert "data-place" not in waited[of._map]
    of._sweeps._line.leave(place)
    *_, last = updates
    assert "1 of 1 cells have a value" in last[of._status]


def test_a_visitor_has_one_sweep_at_a_time_and_another_visitor_too() -> None:
    of = tab(seconds=60)
    going = started(of)
    next(going)
    (only,) = started(of)
    assert "Your last sweep is not over yet" in only[of._status]
    assert of._start not in only  # the one that goes on keeps its buttons
    other = started(of, session="two")
    assert of._map in next(other)
    for session, sweep in (("one", going), ("two", other)):
        of._cancel(asked(session), None)
        assert "Stopped" in list(sweep)[-1][of._status]
    again = started(of)
    assert of._map in next(again)
    of._cancel(asked("one"), None)
    list(again)


VISITOR = "0123456789abcdef" * 2


def test_leaving_the_page_ends_no_sweep_and_opening_it_again_brings_it_back() -> None:
    of = tab(seconds=0.2)
    left = started(of, visitor=VISITOR)
    next(left)
    next(left)
    left.close()  # type: ignore[attr-defined]
    assert of._arrive(asked("stranger"), None) == {of._watched: None}
    back = of._arrive(asked("two"), VISITOR)
    assert buttons(of, back) == (False, True) and "cells have a value" in back[of._status]
    *_, last = followed(of, back[of._watched], "two")
    assert last[of._map].count("data-place") == 6 and buttons(of, last) == (True, False)
    assert of._arrive(asked("three"), VISITOR) == {of._watched: None}  # its end was shown


def test_an_end_that_no_page_has_shown_is_shown_by_the_next_one() -> None:
    of = tab()
    begun = next(started(of, visitor=VISITOR))
    ended(begun[of._watched])
    back = of._arrive(asked("two"), VISITOR)
    (only,) = followed(of, back[of._watched], "two")
    assert "6 of 6 cells have a value" in only[of._status]


@pytest.mark.parametrize("space", [True, False], ids=["on a Space", "on a machine of one's own"])
def test_a_sweep_that_nobody_watches_ends_on_a_space_only(space: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "UNWATCHED_SECONDS", 0.2)
    if space:
        monkeypatch.setenv("SPACE_ID", "somebody/space")
    of = tab(seconds=0.3)
    going = next(started(of))[of._watched]
    ended(going)
    assert going.stopped is space and all(cell.done for cell in going.cells) is not space
    assert of._sweeps._line._places == []


def test_closing_the_app_starts_no_further_cell() -> None:
    of = tab(lambda spec, image: failed_result(spec=spec, status="interrupted"))
    going = next(started(of))[of._watched]
    ended(going)
    assert [cell.result is not None for cell in going.cells] == [True, *[False] * 5]


def test_a_page_without_a_sweep_keeps_what_it_shows() -> None:
    """gradio empties the outputs of a handler that yields nothing."""
    (only,) = tab()._follow(asked("one"), None)
    assert all("value" not in update for update in only)


def test_many_names_start_no_more_sweeps_than_the_queue_has_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORTH_COMPILING_QUEUE", "2")
    monkeypatch.setattr(limits, "current", lambda: limits.read(dict(os.environ)))
    of = tab(seconds=60)
    two = [next(started(of, session=name))[of._watched] for name in ("one", "two")]
    (refused,) = started(of, session="three")
    assert "2 sweeps are going on here already" in refused[of._status]
    for name in ("one", "two"):
        of._cancel(asked(name), None)
    for going in two:
        ended(going)
    of._sweeps._runner._seconds = 0.0  # type: ignore[union-attr]
    for number in range(5):
        ended(next(started(of, session=f"later {number}"))[of._watched])
    assert len(of._sweeps._sweeps) <= 3


def ended(going: Sweep) -> None:
    deadline = time.monotonic() + 20
    while not going.ended:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_error_that_nobody_expected_is_told_and_start_is_ready_again() -> None:
    def answer(spec: RunSpec, image: Path) -> RunResult:
        raise RuntimeError(HOSTILE)

    of = tab(answer)
    *_, last = started(of)
    assert "did not expect" in last[of._status] and HOSTILE not in last[of._status]
    assert buttons(of, last) == (True, False) and of._sweeps._line._places == []


def test_a_sweep_from_the_page_has_a_limit_of_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "current", lambda: limits.read({"SPACE_ID": "somebody/space"}))
    of = tab()
    sizes = [str(size) for size in range(1, 10)]
    (only,) = started(of, batch_sizes=sizes)
    assert buttons(of, only) == (True, False)
    assert "at most 24 cells. Given: 27" in only[of._status]
    assert "24 of 24 cells have a value" in list(started(of, batch_sizes=sizes[:8]))[-1][of._status]


def test_a_sweep_reads_no_more_of_the_store_than_its_grid_may_need(monkeypatch: pytest.MonkeyPatch) -> None:
    history = History()
    for number in range(3):
        history.append(ok_result(id=f"vit{number}"))
        history.append(ok_result(id=f"other{number}", spec=catalog.make_spec("shapes-rtdetr").on("cpu")))
    read: list[list[str]] = []
    every = History.all

    def all(self: History, *asked: Any, **more: Any) -> list[RunResult]:
        found = every(self, *asked, **more)
        read.append([result.id for result in found])
        return found

    monkeypatch.setattr(History, "all", all)
    monkeypatch.setattr(sweep_tab, "STORED_A_CELL", 2)
    next(started(tab(), checkpoints=["shapes-vit"], batch_sizes=["1"]))
    assert read == [["vit2", "vit1"]]
    monkeypatch.setattr(sweep_tab, "MOST_STORED", 1)
    next(started(tab(), checkpoints=["shapes-vit"], batch_sizes=["1"]))
    assert read[1:] == [["vit2"]]


def test_a_grid_that_cannot_be_run_is_told_and_the_buttons_are_ready() -> None:
    of = tab()
    (only,) = started(of, batch_sizes=["1", HOSTILE])
    assert buttons(of, only) == (True, False)
    assert "from 1 to 256" in only[of._status] and HOSTILE not in only[of._status]
    (only,) = started(of, modes=[])
    assert "no modes" in only[of._status]


@pytest.mark.parametrize("place", [-1, 6, "0", None, 1.5])
def test_a_place_that_no_cell_has_opens_nothing(place: Any) -> None:
    of = tab()
    assert of._open(finished(of), SimpleNamespace(place=place)) == ""  # type: ignore[arg-type]


def test_a_cell_opens_its_run() -> None:
    of = tab()
    opened = of._open(finished(of), SimpleNamespace(place=3))  # type: ignore[arg-type]
    assert "2.00×" in opened and "shapes-segformer" in opened


def test_a_finished_sweep_can_stand_beside_the_guides_tables_but_not_on_a_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured, "FOLDER", tmp_path)
    of = tab()
    *_, last = started(of)
    assert last[of._keep]["visible"]
    assert "example-cpu.csv" in of._as_measured(finished(of))
    assert len(measured.load(tmp_path).rows) == 6
    (tmp_path / "example-cpu.csv").unlink()
    monkeypatch.setenv("SPACE_ID", "somebody/space")
    *_, last = started(of)
    assert not last[of._keep]["visible"]
    assert of._as_measured(finished(of)) == ""
    assert not list(tmp_path.iterdir())


# The map


def compiled_in(seconds: float, spec: RunSpec) -> Cell:
    return Cell(spec, ok_result(spec=spec, compiled=measurement(seconds)))


def test_the_colour_is_that_of_the_faster_one_and_stands_beside_a_sign() -> None:
    specs = Grid(("shapes-vit",), (1, 2, 4)).specs()
    cells = [compiled_in(seconds, spec) for seconds, spec in zip((0.001, 0.004, 0.002), specs, strict=True)]
    drawn = heatmap.heatmap(cells)
    assert drawn.count('class="fast" data-place="0"') == drawn.count("▲ 2.00×") == 1
    assert drawn.count('class="slow" data-place="1"') == drawn.count("▼ 0.50×") == 1
    assert 'class="same" data-place="2"' in drawn


def test_the_words_in_a_cell_are_the_visitors() -> None:
    spec = ok_result().spec
    result = ok_result(spec=spec)
    assert result.compilation is not None
    void = dataclasses.replace(result, compilation=dataclasses.replace(result.compilation, recompiles_while_timing=1))
    failed = failed_result(status="compile_failed")
    cells = [Cell(spec, void), Cell(spec, failed), Cell(spec, refused="No such model.")]
    assert cells[0].value.endswith("unsure")
    for language in LANGUAGES.values():
        for cell, key in zip(cells, ("heat_unsure", "status_compile_failed", "heat_refused"), strict=True):
            drawn = heatmap.heatmap([cell], say=language)
            assert f"<b>{language.html(key)}</b>" in drawn


def test_each_mode_and_number_format_has_a_facet_of_its_own() -> None:
    specs = Grid(("shapes-vit", "shapes-rtdetr"), (1,), ("default", "lite"), ("float32", "bfloat16")).specs()
    drawn = heatmap.heatmap([Cell(spec) for spec in specs], running=0, share=0.4)
    assert drawn.count("<caption>") == 4
    assert drawn.count('class="now"') == 1 and "40 %" in drawn
    assert drawn.count('class="next"') == 7


def test_names_from_outside_are_made_harmless() -> None:
    spec = dataclasses.replace(ok_result().spec, checkpoint=f"{HOSTILE}/{HOSTILE}")
    assert HOSTILE not in heatmap.heatmap([Cell(spec), Cell(spec, ok_result(spec=spec))])


def test_a_loss_has_as_much_colour_as_a_win_of_the_same_size() -> None:
    win, loss, more = (Cell(ok_result().spec, ok_result(compiled=measurement(at))) for at in (0.001, 0.004, 0.006))
    (fast, strength, up), (slow, same, down), (_, stronger, _) = map(heatmap._heat, (win, loss, more))
    assert (fast, up, slow, down) == ("fast", "▲ ", "slow", "▼ ")
    assert same == pytest.approx(strength) and strength < stronger
