"""Running the cells of a grid: failures, cancelling, waiting; two environments in turns."""

import dataclasses
import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fake_runner import FakeRunner
from samples import ENVIRONMENT, MACHINE, failed_result, ok_result

from demo.core.machine import HostSample
from demo.core.result import RunResult
from demo.core.spec import BadInput, RunSpec
from demo.runs.runner import Runner
from demo.store.history import History
from demo.sweep import run_grid
from demo.sweep.grid import PICTURE, Cell, Grid, make_cells
from demo.sweep.run_grid import Done, Timing, Waiting, paired, run_cells, run_in_turns, with_repeats


def quick_runner(history: History) -> Runner:
    return Runner(history, worker_module="tests.quick_worker")


def cells(*sizes: int) -> list[Cell]:
    return [Cell(spec.on("cpu")) for spec in Grid(("shapes-vit",), sizes).specs()]


def finished(grid: list[Cell], runner: Runner) -> dict[int, Cell]:
    events = run_cells(grid, runner, PICTURE, threading.Event())
    return {event.place: event.cell for event in events if isinstance(event, Done)}


def test_failures_are_values_the_sweep_goes_on_and_a_second_one_runs_only_what_has_no_value(
    history: History, tmp_path, monkeypatch
) -> None:
    log = tmp_path / "log"
    monkeypatch.setenv("QUICK_LOG", str(log))
    specs = Grid(("shapes-vit",), (101, 102, 103, 104, 1)).specs()
    runner = quick_runner(history)
    done = finished(make_cells(specs, [], MACHINE, PICTURE), runner)
    begin = ("OOM", "compile failed: It went wrong", "crashed: ", "refused: This one is not to be had.", "2.0×")
    assert all(done[place].value.startswith(text) for place, text in enumerate(begin))
    assert len(history.all()) == 4  # a refusal is no run
    finished(make_cells(specs, history.all(), MACHINE, PICTURE), runner)
    counts = Counter(line.split()[1] for line in log.read_text().splitlines())
    assert counts == {"101": 1, "102": 1, "103": 2, "104": 2, "1": 1}  # the crash and the refusal are tried again


def test_a_cell_that_was_cut_off_runs_only_the_repeats_that_are_missing(history: History, monkeypatch) -> None:
    monkeypatch.setenv("QUICK_SECONDS", "0.3")
    runner = quick_runner(history)
    specs = Grid(("shapes-vit",), settings={"repeats": 3}).specs()
    cancel = threading.Event()
    for event in run_cells(make_cells(specs, [], MACHINE, PICTURE), runner, PICTURE, cancel):
        if isinstance(event, Timing) and event.progress.repeat == 2:
            cancel.set()
    assert [run.status for run in history.all()] == ["cancelled", "ok"]
    done = finished(make_cells(specs, history.all(), MACHINE, PICTURE), runner)
    assert [run.spec.repeats for run in history.all()] == [3, 3, 3, 3]
    result = done[0].result
    assert result is not None and result.speedup is not None and result.speedup.basis == "repeats"
    assert make_cells(specs, history.all(), MACHINE, PICTURE)[0].result == result


def test_cancel_ends_the_sweep_and_gives_the_cell_in_hand_no_value(history: History, monkeypatch) -> None:
    monkeypatch.setenv("QUICK_SECONDS", "600")
    cancel = threading.Event()
    for event in run_cells(cells(1, 2), quick_runner(history), PICTURE, cancel):
        assert not isinstance(event, Done)
        cancel.set()
    assert [result.status for result in history.all()] == ["cancelled"]


def test_each_cell_waits_for_its_turn() -> None:
    turns: list[str] = []

    @contextmanager
    def turn() -> Iterator[Iterator[int]]:
        turns.append("in")
        yield iter([2, 1])
        turns.append("out")

    fake = FakeRunner(lambda spec, image: ok_result(spec=spec))
    events = list(run_cells(cells(1, 2), fake, PICTURE, threading.Event(), turn=turn))
    assert turns == ["in", "out"] * 2 and fake.to_come == [1, 0]
    assert [event.ahead for event in events if isinstance(event, Waiting)] == [2, 1, 2, 1]


SPEC = dataclasses.replace(ok_result().spec, repeats=4)
PYTHONS = ("old/python", "new/python")


class Environments:
    """Two runners that note whose turn it is; the second is slower, and fails from batch size 8 on."""

    def __init__(self) -> None:
        self.turns: list[tuple[int, str]] = []
        self.runners = [FakeRunner(lambda spec, _, side=side: self.answer(spec, side)) for side in (0, 1)]

    def answer(self, spec: RunSpec, side: int) -> RunResult:
        assert spec.repeats == 1
        number = len(self.turns)
        self.turns.append((spec.batch_size, "AB"[side]))
        result = failed_result() if side and spec.batch_size >= 8 else ok_result()
        environment = dataclasses.replace(ENVIRONMENT, interpreter="AB"[side])
        known = {"id": f"{side}-{number}", "started_at": f"2026-11-21T09:{number:02}:00Z", "environment": environment}
        return dataclasses.replace(result, spec=spec, **known)


def run(cells: list[Cell], environments: Environments) -> list[Cell]:
    cells = list(cells)
    for event in run_in_turns(cells, environments.runners, Path(PICTURE), threading.Event()):
        if isinstance(event, Done):
            cells[event.place] = event.cell
    return cells


def pair(*specs: RunSpec) -> list[Cell]:
    return paired([Cell(spec) for spec in specs], [Cell(spec) for spec in specs], PYTHONS)


def test_the_processes_of_each_cell_are_run_in_turns() -> None:
    environments = Environments()
    cells = run(pair(SPEC, dataclasses.replace(SPEC, batch_size=2)), environments)
    by_cell = [[turn for _, turn in group] for _, group in itertools.groupby(environments.turns, lambda one: one[0])]
    assert by_cell == [list("ABBAABBA")] * 2
    assert [cell.python for cell in cells] == [*PYTHONS, *PYTHONS]
    assert all(cell.result is not None and cell.spec.repeats == 4 for cell in cells)


def test_a_failure_ends_the_turns_of_its_environment_alone_and_is_told() -> None:
    environments = Environments()
    cells = run(pair(dataclasses.replace(SPEC, batch_size=8)), environments)
    assert "".join(turn for _, turn in environments.turns) == "ABAAA"
    assert [cell.result.status for cell in cells] == ["ok", "out_of_memory"]
    (verdict,) = run_grid.verdicts(cells)
    assert "new/python" in verdict and "fails where old/python" in verdict


def test_a_process_on_a_busy_machine_does_not_end_the_turns() -> None:
    environments = Environments()
    busy = tuple(HostSample(at, 0.9, free_cores=0.1) for at in (1.0, 2.0))
    answer = environments.answer
    environments.runners[0].answer = lambda spec, _: dataclasses.replace(answer(spec, 0), machine_states=busy)
    cells = run(pair(SPEC), environments)
    assert "".join(turn for _, turn in environments.turns) == "ABBAABBA"
    assert [cell.result.status for cell in cells] == ["ok", "ok"]


def stored(started_at: str, **changes: Any) -> Cell:
    earlier = [ok_result(id=id, started_at=started_at).as_processes()[0] for id in "abc"]
    return Cell(SPEC, ok_result(spec=SPEC, started_at=started_at, earlier=tuple(earlier), **changes), stored=True)


def test_a_stored_pair_is_kept_where_both_ran_beside_each_other() -> None:
    one, beside, later = (stored(f"2026-11-21T{hour}:00:00Z") for hour in ("09", "09", "15"))
    alone = Cell(SPEC, ok_result(spec=SPEC, started_at="2026-11-21T09:00:00Z"), stored=True)  # too few for a verdict
    failed = Cell(SPEC, failed_result(spec=SPEC))
    for other, kept in ((beside, True), (later, False), (Cell(SPEC), False), (alone, False), (failed, True)):
        assert [cell.done for cell in paired([one], [other], PYTHONS)] == [kept, kept]


def test_without_repeats_there_are_enough_for_a_verdict_and_two_are_refused() -> None:
    assert [one.repeats for one in with_repeats([dataclasses.replace(SPEC, repeats=1)])] == [run_grid.PROCESSES]
    assert with_repeats([dataclasses.replace(SPEC, repeats=6)])[0].repeats == 6
    with pytest.raises(BadInput, match="Given: --repeats 2"):
        with_repeats([dataclasses.replace(SPEC, repeats=2)])
