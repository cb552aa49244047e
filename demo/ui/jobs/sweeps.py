"""A series of runs of the page, each with a turn of its own in the queue: a sweep, from its first cell to its last."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager

from demo.core import limits
from demo.core.errors import BadInput
from demo.core.machine import HostInfo
from demo.core.result import RunResult
from demo.runs.any_runner import AnyRunner
from demo.runs.forecast import SweepForecast, forecast_sweep
from demo.sweep.cells import Cell, unfinished
from demo.sweep.run_grid import Done, Event
from demo.ui.jobs.queue import Full, RunQueue
from demo.ui.jobs.supervisor import Work

UPDATE_SECONDS = 1.0
"""An update costs some 20 ms of CPU time on the machine that is timed."""
WAITING_SECONDS = 0.5
UNWATCHED_SECONDS = 120.0
"""On a Space, a series that no page has watched for this time ends: other visitors wait at each of its runs."""

MACHINE_SECONDS = 30.0

RunCells = Callable[[Sequence[Cell], threading.Event], Generator[Event, None, None]]
"""`run_cells` with everything but the cells and what ends them."""


class Series(Work):
    """Runs one after another. The outcome is None, Refused or Broken: what there is to show are the runs."""

    def __init__(self) -> None:
        super().__init__()
        self.doing: Event | None = None
        """The latest event."""
        self._watched_at = time.monotonic()

    @property
    def stopped(self) -> bool:
        return self._cancel.is_set()

    def watch(self) -> Iterator[None]:
        """Yields at once and then every UPDATE_SECONDS. Ends with the series."""
        while not self.ended:
            self._watched_at = time.monotonic()
            yield
            with self._changed:
                self._changed.wait_for(lambda: self.ended, UPDATE_SECONDS)

    def _events(self) -> Generator[Event, None, None]:
        """What happens, until the last run has ended or `_cancel` is set. Runs on the work's own thread."""
        raise NotImplementedError

    def _work(self) -> None:
        with closing(self._events()) as events:
            for event in events:
                self.doing = event
                unwatched = time.monotonic() - self._watched_at > UNWATCHED_SECONDS
                if is_closing(event) or (unwatched and limits.on_space()):
                    self.cancel()


def is_closing(event: Event) -> bool:
    """Whether the app is closing: each further run would start only to be ended."""
    result = event.cell.result if isinstance(event, Done) else None
    return result is not None and result.status == "interrupted"


class Sweep(Series):
    """One sweep."""

    def __init__(self, cells: Sequence[Cell], stored: list[RunResult], machine: HostInfo, run: RunCells) -> None:
        """`cells` may have values already; `stored` are earlier runs, newest first, for the forecast of the time."""
        super().__init__()
        self.cells = tuple(cells)
        self._stored = stored
        self._machine = machine
        self._run_cells = run

    def forecast(self) -> SweepForecast:
        """How long the cells without a value will take."""
        return forecast_sweep(unfinished(self.cells), self._stored, self._machine)

    def _events(self) -> Generator[Event, None, None]:
        with closing(self._run_cells(self.cells, self._cancel)) as events:
            for event in events:
                if isinstance(event, Done):
                    self._fill(event)
                yield event

    def _fill(self, event: Done) -> None:
        """Replaces the tuple of cells whole, so that no page reads it half changed. Only the sweep's thread does."""
        self.cells = (*self.cells[: event.place], event.cell, *self.cells[event.place + 1 :])
        if event.cell.result is not None:
            self._stored.insert(0, event.cell.result)


def machine_of(runner: AnyRunner) -> HostInfo:
    """What the waiting worker says of the machine. Raises BadInput where it has said nothing within MACHINE_SECONDS."""
    deadline = time.monotonic() + MACHINE_SECONDS
    while (machine := runner.machine) is None:
        if time.monotonic() > deadline:
            raise BadInput("The process that runs models has not started yet. Try again in a moment.")
        time.sleep(0.2)
    return machine


@contextmanager
def turn(queue: RunQueue, whose: str) -> Iterator[Iterator[int]]:
    """A run's place in the queue of all visitors; yields how many runs are ahead of it.

    `whose` is the series and its visitor: a visitor's sweep, search and single run do not count against each other.
    """
    with ExitStack() as tickets:

        def ahead() -> Iterator[int]:
            while True:
                try:
                    ticket = tickets.enter_context(queue.join(whose))
                    break
                except Full:  # a series waits for a place instead of ending
                    time.sleep(WAITING_SECONDS)
                    yield limits.current().queue
            while waiting := ticket.wait(WAITING_SECONDS):
                yield waiting

        yield ahead()
