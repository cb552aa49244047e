"""A sweep of the page, from its first cell to its last."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager

from demo.core import limits
from demo.core.machine import HostInfo
from demo.core.result import RunResult
from demo.runs.forecast import SweepForecast, forecast_sweep
from demo.sweep.cells import Cell, unfinished
from demo.sweep.run_grid import Done, Event
from demo.ui.jobs.queue import Full, RunQueue
from demo.ui.jobs.supervisor import Work

UPDATE_SECONDS = 1.0
"""An update costs some 20 ms of CPU time on the machine that is timed."""
WAITING_SECONDS = 0.5
UNWATCHED_SECONDS = 120.0
"""On a Space, a sweep that no page has watched for this time ends: other visitors wait at each of its cells."""

RunCells = Callable[[Sequence[Cell], threading.Event], Generator[Event, None, None]]
"""`run_cells` with everything but the cells and what ends them."""


class Sweep(Work):
    """One sweep. Its outcome is None, Refused or Broken: what there is to show are its cells."""

    def __init__(self, cells: Sequence[Cell], stored: list[RunResult], machine: HostInfo, run: RunCells) -> None:
        """`cells` may have values already; `stored` are earlier runs, newest first, for the forecast of the time."""
        super().__init__()
        self.cells = tuple(cells)
        self.doing: Event | None = None
        """The latest event."""
        self._stored = stored
        self._machine = machine
        self._run_cells = run
        self._watched_at = time.monotonic()

    @property
    def stopped(self) -> bool:
        return self._cancel.is_set()

    def forecast(self) -> SweepForecast:
        """How long the cells without a value will take."""
        return forecast_sweep(unfinished(self.cells), self._stored, self._machine)

    def watch(self) -> Iterator[None]:
        """Yields at once and then every UPDATE_SECONDS. Ends with the sweep."""
        while not self.ended:
            self._watched_at = time.monotonic()
            yield
            with self._changed:
                self._changed.wait_for(lambda: self.ended, UPDATE_SECONDS)

    def _work(self) -> None:
        with closing(self._run_cells(self.cells, self._cancel)) as events:
            for event in events:
                if isinstance(event, Done):
                    self._fill(event)
                self.doing = event
                unwatched = time.monotonic() - self._watched_at > UNWATCHED_SECONDS
                if unwatched and limits.on_space():
                    self.cancel()

    def _fill(self, event: Done) -> None:
        """Replaces the tuple of cells whole, so that no page reads it half changed. Only the sweep's thread does."""
        self.cells = (*self.cells[: event.place], event.cell, *self.cells[event.place + 1 :])
        if (result := event.cell.result) is not None:
            self._stored.insert(0, result)
            if result.status == "interrupted":  # the app is closing: each further cell would start only to be ended
                self.cancel()


@contextmanager
def turn(queue: RunQueue, visitor: str) -> Iterator[Iterator[int]]:
    """A cell's place in the queue of all visitors; yields how many runs are ahead of it."""
    with ExitStack() as tickets:

        def ahead() -> Iterator[int]:
            while True:
                try:
                    ticket = tickets.enter_context(queue.join(f"sweep of {visitor}"))
                    break
                except Full:  # a running sweep waits for a place instead of ending
                    time.sleep(WAITING_SECONDS)
                    yield limits.current().queue
            while waiting := ticket.wait(WAITING_SECONDS):
                yield waiting

        yield ahead()
