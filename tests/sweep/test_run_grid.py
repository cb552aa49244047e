"""Running the cells of a grid: failures, cancelling, turns, and compiling ahead."""

from __future__ import annotations

import dataclasses
import hashlib
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fake_runner import FakeRunner
from samples import MACHINE, ok_result

from demo.core.outputs import ImageInfo
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.runs.precompiler import Precompiler, should_precompile
from demo.runs.runner import Runner
from demo.store.history import History
from demo.sweep.cells import Cell, make_cells
from demo.sweep.grid import PICTURE, Grid
from demo.sweep.run_grid import Done, Timing, Waiting, run_cells
from demo.sweep.table import record

SPEC = ok_result().spec


def quick_runner(tmp_path: Path) -> Runner:
    return Runner(History(tmp_path / "history.sqlite3"), worker_module="tests.quick_worker")


def finished(grid: list[Cell], runner: Runner, **more: Any) -> dict[int, Cell]:
    events = run_cells(grid, runner, PICTURE, threading.Event(), **more)
    return {event.place: event.cell for event in events if isinstance(event, Done)}


def test_failures_are_values_and_the_sweep_goes_on(tmp_path: Path) -> None:
    grid = [Cell(spec.on("cpu")) for spec in Grid(("shapes-vit",), (101, 102, 103, 104, 1)).specs()]
    done = finished(grid, quick_runner(tmp_path))
    values = [done[place].value for place in range(5)]
    assert values[0] == "OOM"
    assert values[1].startswith("compile failed: It went wrong")
    assert values[2].startswith("crashed: ")
    assert values[3] == "refused: This one is not to be had."
    assert values[4] == "2.0×"
    assert len(History(tmp_path / "history.sqlite3").all()) == 4  # a refusal is no run


def test_a_second_sweep_runs_only_what_has_no_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    monkeypatch.setenv("QUICK_LOG", str(log))
    specs = Grid(("shapes-vit",), (1, 2, 101, 103)).specs()
    runner = quick_runner(tmp_path)
    for _ in range(2):
        results = History(tmp_path / "history.sqlite3").all()
        finished(make_cells(specs, results, runner.inspect(), PICTURE), runner)
    counts = Counter(line.split()[1] for line in log.read_text().splitlines())
    assert counts == {"1": 1, "2": 1, "101": 1, "103": 2}  # the crash is tried again


def test_a_cell_that_was_cut_off_runs_only_the_repeats_that_are_missing(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite3")
    runner = quick_runner(tmp_path)
    specs = Grid(("shapes-vit",), settings={"repeats": 3}).specs()
    cancel = threading.Event()
    for event in run_cells(make_cells(specs, [], runner.inspect(), PICTURE), runner, PICTURE, cancel):
        if isinstance(event, Timing) and event.progress.repeat == 2:
            cancel.set()
    assert [run.status for run in history.all()] == ["cancelled", "ok"]
    done = finished(make_cells(specs, history.all(), runner.inspect(), PICTURE), runner)
    assert [run.spec.repeats for run in history.all()] == [3, 3, 3, 3]
    result = done[0].result
    assert result is not None and result.speedup is not None and result.speedup.basis == "repeats"
    assert make_cells(specs, history.all(), runner.inspect(), PICTURE)[0].result == result


def test_cancel_ends_the_sweep_and_gives_the_cell_in_hand_no_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUICK_SECONDS", "600")
    cancel = threading.Event()
    grid = [Cell(spec) for spec in Grid(("shapes-vit",), (1, 2)).specs()]
    seen = []
    for event in run_cells(grid, quick_runner(tmp_path), PICTURE, cancel):
        seen.append(event)
        cancel.set()
    assert not [event for event in seen if isinstance(event, Done)]
    assert [result.status for result in History(tmp_path / "history.sqlite3").all()] == ["cancelled"]


def test_each_cell_waits_for_its_turn(tmp_path: Path) -> None:
    turns: list[str] = []

    @contextmanager
    def turn() -> Iterator[Iterator[int]]:
        turns.append("in")
        yield iter([2, 1])
        turns.append("out")

    grid = [Cell(spec) for spec in Grid(("shapes-vit",), (1, 2)).specs()]
    events = list(run_cells(grid, quick_runner(tmp_path), PICTURE, threading.Event(), turn=turn))
    assert turns == ["in", "out"] * 2
    assert [event.ahead for event in events if isinstance(event, Waiting)] == [2, 1, 2, 1]


class CountingPrecompiler(Precompiler):
    def __init__(self) -> None:
        super().__init__(processes=1)
        self.lots: list[list[int]] = []

    def compile(self, specs: Any, image: Path) -> Iterator[tuple[int, int]]:
        self.lots.append([spec.batch_size for spec in specs])
        yield len(specs), len(specs)


def test_cells_are_compiled_in_lots_and_each_lot_before_it_is_timed(tmp_path: Path) -> None:
    precompiler = CountingPrecompiler()
    grid = [Cell(spec) for spec in Grid(("shapes-vit",), (1, 2, 3, 4, 5, 6)).specs()]
    order = []
    for event in run_cells(grid, quick_runner(tmp_path), PICTURE, threading.Event(), precompiler):
        if not isinstance(event, Timing):
            order.append(type(event).__name__)
    assert precompiler.lots == [[1, 2, 3, 4], [5, 6]]
    assert order == ["Precompiling", "Done", "Done", "Done", "Done", "Precompiling", "Done", "Done"]


def test_what_measures_a_cold_compile_or_tunes_kernels_is_not_compiled_ahead() -> None:
    assert should_precompile(SPEC)
    assert not should_precompile(dataclasses.replace(SPEC, cache="empty"))
    assert not should_precompile(dataclasses.replace(SPEC, freezing=True))
    assert not should_precompile(dataclasses.replace(SPEC, compiler="aot"))
    assert not should_precompile(dataclasses.replace(SPEC, mode="max-autotune"))
    assert not should_precompile(dataclasses.replace(SPEC, mode="max-autotune-no-cudagraphs"))


def test_a_cell_with_repeats_is_the_answer_of_all_of_them_and_one_of_its_processes_does_not_answer_for_it() -> None:
    (spec,) = Grid(("shapes-vit",), settings={"repeats": 3, "device": "cpu"}).specs()
    digest = hashlib.sha256(PICTURE.read_bytes()).hexdigest()

    def answer(asked: RunSpec, image: Path) -> RunResult:
        return ok_result(spec=asked, image=ImageInfo(image.name, 320, 240, digest, "/9j/"))

    (*_, done) = run_cells([Cell(spec)], FakeRunner(answer), PICTURE, threading.Event())
    assert isinstance(done, Done) and done.cell.result is not None and done.cell.result.speedup is not None
    assert len(done.cell.result.as_processes()) == 3 and record(done.cell)["speedup_basis"] == "repeats"
    first = answer(dataclasses.replace(spec, repeats=1), PICTURE)
    (again,), (unfinished,) = (make_cells([spec], stored, MACHINE, PICTURE) for stored in ([done.cell.result], [first]))
    assert again.done and not unfinished.done
