"""Runs the cells of a grid on this machine, one after another. A failure is a cell's value and never ends the sweep.

In two environments the processes of each cell take turns, A B B A, so that drift of the machine hits both.
"""

import dataclasses
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.core.languages import ENGLISH
from demo.core.result import Progress
from demo.core.spec import BadInput, RunSpec
from demo.present import sentences, upgrade
from demo.runs.runner import Runner
from demo.sweep.grid import Cell

PROCESSES = 4
"""Of each environment, where no number of repeats was asked for: A B B A A B B A. With so many a difference of 10 % is
found on a machine whose processes spread by 2.5 % (`benchmarks/results/upgrade.md`)."""


@dataclass(frozen=True)
class Waiting:
    """Other runs use the machine: this many are ahead."""

    ahead: int


@dataclass(frozen=True)
class Timing:
    place: int
    """The cell's index in the grid."""
    progress: Progress


@dataclass(frozen=True)
class Done:
    place: int
    """The cell's index in the grid."""
    cell: Cell


Event = Waiting | Timing | Done
Turn = Callable[[], AbstractContextManager[Iterable[int]]]
"""Entered, it gives the number of runs ahead until it is this one's turn; left, the next run may start."""


def at_once() -> AbstractContextManager[Iterable[int]]:
    """The turn of a run that waits for nobody."""
    return nullcontext(())


def run_cells(
    cells: Sequence[Cell], runner: Runner, picture: Path, cancel: threading.Event, turn: Turn = at_once
) -> Generator[Event, None, None]:
    """Runs the cells without a value, one by one. `cancel`, and closing the generator, end the run in progress, too."""
    for place, cell in enumerate(cells):
        if not cell.done and not cancel.is_set():
            to_come = sum(not one.done for one in cells[place + 1 :])
            yield from run_one(place, cell, runner, picture, cancel, turn, to_come=to_come)


def run_one(
    place: int,
    cell: Cell,
    runner: Runner,
    picture: Path,
    cancel: threading.Event,
    turn: Turn = at_once,
    **more: Any,
) -> Generator[Event, None, None]:
    """One cell in its turn: how it goes and, unless it is cancelled, its value. `more` is for the runner."""
    with turn() as waiting:
        for ahead in waiting:
            if cancel.is_set():
                return
            yield Waiting(ahead)
        if cancel.is_set():
            return
        try:
            for event in runner.run(cell.spec, picture, cancel, earlier=cell.earlier, **more):
                if isinstance(event, Progress):
                    yield Timing(place, event)
                elif event.status != "cancelled":
                    yield Done(place, Cell(cell.spec, event))
        except BadInput as refused:
            yield Done(place, Cell(cell.spec, refused=str(refused)))


# In two environments


def with_repeats(specs: Iterable[RunSpec]) -> list[RunSpec]:
    """The specs with `PROCESSES` where nothing else was asked for. Raises BadInput for too few of them."""
    specs = list(specs)
    if few := [spec.repeats for spec in specs if 1 < spec.repeats < upgrade.FEWEST_PROCESSES]:
        raise BadInput(
            f"Two environments are told apart by {upgrade.FEWEST_PROCESSES} processes of each at least. "
            f"Given: --repeats {few[0]}. Leave it out for {PROCESSES}."
        )
    return [dataclasses.replace(spec, repeats=PROCESSES) if spec.repeats == 1 else spec for spec in specs]


def paired(first: Sequence[Cell], second: Sequence[Cell], pythons: Sequence[str]) -> list[Cell]:
    """The cells of both environments, each spec's two beside each other: at even places the first environment's.

    Where one of the two has to be run, or too few of their processes ran beside each other, both are run again.
    """
    cells = []
    for both in zip(first, second, strict=True):
        results = [cell.result for cell in both if cell.result is not None]
        failed = any(one.status != "ok" for one in results)
        kept = len(results) == 2 and (failed or upgrade.enough(*upgrade.beside(*results)))
        for cell, python in zip(both, pythons, strict=True):
            cells.append(dataclasses.replace(cell if kept else Cell(cell.spec), python=python))
    return cells


def run_in_turns(
    cells: Sequence[Cell], runners: Sequence[Runner], picture: Path, cancel: threading.Event
) -> Generator[Event, None, None]:
    """Runs the pairs of `paired` by their two `runners`. A failure ends its own turns, and is its cell's value."""
    for place in range(0, len(cells), 2):
        pair = list(cells[place : place + 2])
        for side, last in order(pair[0].spec.repeats):
            cell = pair[side]
            if cell.done or cancel.is_set():
                continue
            once = dataclasses.replace(cell, spec=dataclasses.replace(cell.spec, repeats=1))
            for event in run_one(place + side, once, runners[side], picture, cancel):
                if not isinstance(event, Done):
                    yield event
                    continue
                result = event.cell.result
                if result is not None and result.status == "ok" and not last:
                    pair[side] = dataclasses.replace(cell, earlier=result.as_processes() or cell.earlier)
                    continue
                pair[side] = dataclasses.replace(cell, result=result, refused=event.cell.refused)
                yield Done(place + side, pair[side])


def order(processes: int) -> Iterator[tuple[int, bool]]:
    """The environment of each turn, 0 or 1, and whether it is its last: 0, 1, 1, 0 and so on."""
    for number in range(processes):
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            yield side, number == processes - 1


def verdicts(cells: Sequence[Cell]) -> Iterator[str]:
    """Of each pair that has an answer whether to change to the second environment."""
    for first, second in zip(cells[::2], cells[1::2], strict=True):
        if first.result is not None and second.result is not None:
            told = upgrade.told(first.result, second.result, (first.python, second.python), ENGLISH)
            if told:
                yield f"{sentences.settings_line(first.spec, ENGLISH)}: {told}"
