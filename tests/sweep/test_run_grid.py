"""Tests of running the cells of a grid: failures, cancelling, waiting in a queue."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from support.fake_runner import FakeRunner
from support.samples import MACHINE, ok_result

from demo.runs.runner import Runner
from demo.store.history import History
from demo.sweep.grid import PICTURE, GridRun, make_cells, make_specs
from demo.sweep.run_grid import Done, Waiting, run_cells


def quick_runner(history: History) -> Runner:
    return Runner(history, worker_module="tests.support.quick_worker")


def cells(*sizes: int) -> list[GridRun]:
    return [GridRun(spec.on("cpu")) for spec in make_specs({"checkpoints": "shapes-vit", "batch_sizes": sizes})]


def finished(grid: list[GridRun], runner: Runner) -> dict[int, GridRun]:
    events = run_cells(grid, runner, PICTURE, threading.Event())
    return {event.place: event.cell for event in events if isinstance(event, Done)}


def test_a_second_sweep_runs_only_what_has_no_final_value(history: History, tmp_path, monkeypatch) -> None:
    log = tmp_path / "log"
    monkeypatch.setenv("QUICK_LOG", str(log))
    specs = make_specs({"checkpoints": "shapes-vit", "batch_sizes": [101, 102, 103, 104, 1]})
    runner = quick_runner(history)
    events = finished(make_cells(specs, [], MACHINE, PICTURE), runner)
    begin = ("OOM", "compile failed: It went wrong", "crashed: ", "refused: This one is not to be had.", "2.0×")
    assert all(events[place].value.startswith(text) for place, text in enumerate(begin))
    assert len(history.all()) == 4  # a refusal is no run
    finished(make_cells(specs, history.all(), MACHINE, PICTURE), runner)
    counts = Counter(line.split()[1] for line in log.read_text().splitlines())
    assert counts == {"101": 1, "102": 1, "103": 2, "104": 2, "1": 1}  # the crash and the refusal are tried again


def test_a_cancelled_cell_has_no_value(history: History, monkeypatch) -> None:
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
    fake.free = 1
    events = list(run_cells(cells(1, 2), fake, PICTURE, threading.Event(), turn=turn))
    assert fake.threads == [1, 1]  # whatever is free when each begins
    assert turns == ["in", "out"] * 2 and fake.runs_after == [1, 0]
    assert [event.ahead for event in events if isinstance(event, Waiting)] == [2, 1, 2, 1]
