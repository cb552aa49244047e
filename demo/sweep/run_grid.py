"""Runs the cells of a grid on this machine, one after another. A failed cell never ends the sweep."""

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, Unpack

from ..core.comparison import ProcessResult
from ..core.options import BadInput, RunSpec
from ..core.progress import Progress
from ..runs.ongoing import Files
from ..runs.runner import Runner
from .grid import GridRun


@dataclass(frozen=True)
class Waiting:
    ahead: int
    """How many other runs go before the run that waits."""


@dataclass(frozen=True)
class Timing:
    place: int
    """Index of the cell in the grid."""
    progress: Progress


@dataclass(frozen=True)
class Done:
    place: int
    cell: GridRun


Event = Waiting | Timing | Done
Turn = Callable[[], AbstractContextManager[Iterable[int]]]
"""A function that puts a run into a queue. The context manager that it returns yields how many runs go first, until the
run may start. Leaving the context lets the next run start."""


class RunArguments(TypedDict, total=False):
    """Optional arguments of `run_one`, which passes them on to `Runner.run`."""

    files: Files
    earlier: tuple[ProcessResult, ...]
    runs_after: int
    threads: int | None


def no_queue() -> AbstractContextManager[Iterable[int]]:
    return nullcontext(())


def run_cells(
    cells: Sequence[GridRun], runner: Runner, picture: Path, cancel: threading.Event, turn: Turn = no_queue
) -> Generator[Event, None, None]:
    """Runs the unfinished cells of a grid and yields events.

    On a CPU no run uses more threads than cores are free now, unless its spec names a number. Setting `cancel`, or
    closing the generator, also ends the run in progress. `turn`: makes each run wait in a queue.
    """
    threads = runner.free_threads()
    for place, cell in enumerate(cells):
        if not cell.done and not cancel.is_set():
            runs_after = sum(not later.done for later in cells[place + 1 :])
            yield from run_one(place, cell.spec, runner, picture, cancel, turn, runs_after=runs_after, threads=threads)


def run_one(
    place: int,
    spec: RunSpec,
    runner: Runner,
    picture: Path,
    cancel: threading.Event,
    turn: Turn,
    **more: Unpack[RunArguments],
) -> Generator[Event, None, None]:
    """Runs the cell with the index `place` when its turn comes, and yields events. The last event is `Done`.

    If `cancel` is set before the speed-up is known, the run ends without `Done`. `more`: further arguments of
    `Runner.run`.
    """
    with turn() as waiting:
        for ahead in waiting:
            if cancel.is_set():
                return
            yield Waiting(ahead)
        if cancel.is_set():
            return
        try:
            for event in runner.run(spec, picture, cancel, **more):
                if isinstance(event, Progress):
                    yield Timing(place, event)
                elif event.status != "cancelled":
                    yield Done(place, GridRun(spec, event))
        except BadInput as refused:
            yield Done(place, GridRun(spec, refused=str(refused)))
