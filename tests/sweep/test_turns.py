"""A grid in two environments: whose turn it is, what a failure costs, and what is run again."""

from __future__ import annotations

import dataclasses
import itertools
import threading
from pathlib import Path
from typing import Any

import pytest
from fake_runner import FakeRunner
from samples import ENVIRONMENT, failed_result, ok_result

from demo.core.errors import BadInput
from demo.core.machine import HostSample
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.sweep import turns
from demo.sweep.cells import Cell
from demo.sweep.grid import PICTURE
from demo.sweep.run_grid import Done

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
        known = {
            "id": f"{side}-{number}",
            "started_at": f"2026-11-21T09:{number:02}:00Z",
            "environment": dataclasses.replace(ENVIRONMENT, interpreter="AB"[side]),
            "spec": spec,
        }
        return failed_result(**known) if side and spec.batch_size >= 8 else ok_result(**known)


def run(cells: list[Cell], environments: Environments) -> list[Cell]:
    cells = list(cells)
    for event in turns.run_in_turns(cells, environments.runners, Path(PICTURE), threading.Event()):
        if isinstance(event, Done):
            cells[event.place] = event.cell
    return cells


def pair(*specs: RunSpec) -> list[Cell]:
    return turns.paired([Cell(spec) for spec in specs], [Cell(spec) for spec in specs], PYTHONS)


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
    (verdict,) = turns.verdicts(cells)
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
        assert [cell.done for cell in turns.paired([one], [other], PYTHONS)] == [kept, kept]


def test_without_repeats_there_are_enough_for_a_verdict_and_two_are_refused() -> None:
    assert [one.repeats for one in turns.with_repeats([dataclasses.replace(SPEC, repeats=1)])] == [turns.PROCESSES]
    assert turns.with_repeats([dataclasses.replace(SPEC, repeats=6)])[0].repeats == 6
    with pytest.raises(BadInput, match="Given: --repeats 2"):
        turns.with_repeats([dataclasses.replace(SPEC, repeats=2)])
