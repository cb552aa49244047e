"""Runs the cells of a grid on this machine, one after another. A failure is a cell's value and never ends the sweep."""

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.core.progress import Progress
from demo.core.spec import BadInput
from demo.runs.runner import Runner
from demo.sweep.grid import Cell


@dataclass(frozen=True)
class Waiting:
    ahead: int
    """Runs that use the machine first."""


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


def no_queue() -> AbstractContextManager[Iterable[int]]:
    """The turn of a run that waits for nobody."""
    return nullcontext(())


def run_cells(
    cells: Sequence[Cell], runner: Runner, picture: Path, cancel: threading.Event, turn: Turn = no_queue
) -> Generator[Event, None, None]:
    """Runs the cells without a value, one by one, on a CPU with the threads that are free at the beginning. `cancel`,
    and closing the generator, end the run in progress, too."""
    threads = runner.free_threads()
    for place, cell in enumerate(cells):
        if not cell.done and not cancel.is_set():
            to_come = sum(not one.done for one in cells[place + 1 :])
            yield from run_one(place, cell, runner, picture, cancel, turn, to_come=to_come, threads=threads)


def run_one(
    place: int,
    cell: Cell,
    runner: Runner,
    picture: Path,
    cancel: threading.Event,
    turn: Turn = no_queue,
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
