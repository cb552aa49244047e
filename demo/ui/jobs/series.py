"""A series of runs of the page, each with a turn of its own in the queue: a sweep, or a search for the best way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from demo.core import limits
from demo.core.errors import BadInput
from demo.core.machine import HostInfo
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.runs.any_runner import AnyRunner
from demo.runs.forecast import SweepForecast, forecast_sweep
from demo.store.history import History
from demo.sweep.best_way import STEADY, Search
from demo.sweep.cells import Cell, unfinished
from demo.sweep.grid import PICTURE
from demo.sweep.run_grid import Done, Event
from demo.sweep.ways import OTHER_FORMATS
from demo.ui.jobs.queue import Full, RunQueue
from demo.ui.jobs.supervisor import Work

UPDATE_SECONDS = 1.0
"""An update costs some 20 ms of CPU time on the machine that is timed."""
WAITING_SECONDS = 0.5
UNWATCHED_SECONDS = 120.0
"""On a Space, a series that no page has watched for this time ends: other visitors wait at each of its runs."""
MACHINE_SECONDS = 30.0
MAX_STORED = 500
"""Stored runs of the model, newest first, in which a search looks for what it need not run again."""

Events = Generator[Event, None, None]


class Series(Work):
    """Runs one after another. The outcome is None, Refused or Broken: what there is to show are the runs."""

    def __init__(self, run: Callable[[threading.Event], Events]) -> None:
        """`run` gives what happens, until the last run has ended or the event is set."""
        super().__init__()
        self.doing: Event | None = None
        """The latest event."""
        self._run = run
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

    def _note(self, event: Event) -> None:
        """Called with each event, on the work's own thread."""
        self.doing = event

    def _work(self) -> None:
        with closing(self._run(self._cancel)) as events:
            for event in events:
                self._note(event)
                unwatched = time.monotonic() - self._watched_at > UNWATCHED_SECONDS
                if is_closing(event) or (unwatched and limits.on_space()):
                    self.cancel()


def is_closing(event: Event) -> bool:
    """Whether the app is closing: each further run would start only to be ended."""
    result = event.cell.result if isinstance(event, Done) else None
    return result is not None and result.status == "interrupted"


class Sweep(Series):
    """One sweep."""

    def __init__(
        self,
        cells: Sequence[Cell],
        stored: list[RunResult],
        machine: HostInfo,
        run: Callable[[Sequence[Cell], threading.Event], Events],
    ) -> None:
        """`cells` may have values already; `stored` are earlier runs, newest first, for the forecast of the time. `run`
        is `run_cells` with everything but the cells and what ends them."""
        super().__init__(lambda cancel: run(self.cells, cancel))
        self.cells = tuple(cells)
        self._stored = stored
        self._machine = machine

    def forecast(self) -> SweepForecast:
        """How long the cells without a value will take."""
        return forecast_sweep(unfinished(self.cells), self._stored, self._machine)

    def _note(self, event: Event) -> None:
        """Replaces the tuple of cells whole, so that no page reads it half changed."""
        if isinstance(event, Done):
            self.cells = (*self.cells[: event.place], event.cell, *self.cells[event.place + 1 :])
            if event.cell.result is not None:
                self._stored.insert(0, event.cell.result)
        super()._note(event)


class BestSearch(Series):
    """One search for the best way to run a model. Several pages may watch it; they share its goal."""

    def __init__(
        self, search: Search, spec: RunSpec, image: Path | None, runner: AnyRunner, queue: RunQueue, visitor: str
    ) -> None:
        """`spec` and `image` are what the form asked for, to fill it again."""
        super().__init__(lambda cancel: search.run(runner, cancel, lambda: turn(queue, f"search of {visitor}")))
        self.search = search
        self.spec = spec
        self.image = image
        self.title = f", the search for the best way to run {spec.checkpoint} with batch size {spec.batch_size}"
        self.goal = STEADY
        self._queue = queue

    @property
    def other_formats(self) -> bool:
        """Whether it tries other number formats, too."""
        return any(way.name in OTHER_FORMATS for way in self.search.ways)

    @property
    def others(self) -> int:
        """Runs that wait while one of this search goes on; each goes before the next run of it."""
        return len(self._queue) - 1


def make_search(
    runner: AnyRunner, history: History, spec: RunSpec, image: Path | None, other_formats: bool, minutes: float
) -> Search:
    """The search for a model, an input and a batch size. Raises BadInput and HistoryError."""
    stored = history.all(MAX_STORED, checkpoints={spec.checkpoint})
    return Search(spec, machine_of(runner), stored, image or PICTURE, other_formats, minutes)


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
