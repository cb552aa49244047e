"""Sweeps that outlive the page that started them, as the runs in `jobs` do.

A sweep runs on a thread of its own and keeps its state. Any page of its visitor may watch it, from any time on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from demo.core import limits
from demo.core.errors import BadInput
from demo.core.machine import HostInfo
from demo.core.result import RunResult
from demo.runs.forecast import SweepForecast, forecast_sweep
from demo.runs.precompiler import Precompiler
from demo.store.history import HistoryError
from demo.sweep.cells import Cell, unfinished
from demo.sweep.run_grid import Done, Event, run_cells
from demo.ui.jobs.jobs import KEPT_SECONDS, AnyRunner, Broken, Refused
from demo.ui.jobs.queue import Full, RunQueue

UPDATE_SECONDS = 1.0
"""An update costs some 20 ms of CPU time on the machine that is timed."""
WAITING_SECONDS = 0.5
UNWATCHED_SECONDS = 120.0
"""On a Space, a sweep that no page has watched for this time ends: other visitors wait at each of its cells."""

_log = logging.getLogger(__name__)


class Sweep:
    """One sweep, from its first cell to its last."""

    def __init__(self, cells: Sequence[Cell], stored: list[RunResult], machine: HostInfo) -> None:
        """`cells` may have values already; `stored` are earlier runs, newest first, for the forecast of the time."""
        self.cells = tuple(cells)
        self.doing: Event | None = None
        """The latest event."""
        self.problem: Refused | Broken | None = None
        """Why it ended early."""
        self.delivered = False
        """Whether a page has shown the end."""
        self.ended_at: float | None = None
        self._stored = stored
        self._machine = machine
        self._cancel = threading.Event()
        self._over = threading.Event()
        self._watched_at = time.monotonic()

    @property
    def ended(self) -> bool:
        return self.ended_at is not None

    @property
    def stopped(self) -> bool:
        return self._cancel.is_set()

    def cancel(self) -> None:
        """Ends the running cell within a second, without a value, and starts no other."""
        self._cancel.set()

    def forecast(self) -> SweepForecast:
        """How long the cells without a value will take."""
        return forecast_sweep(unfinished(self.cells), self._stored, self._machine)

    def watch(self) -> Iterator[None]:
        """Yields at once and then every UPDATE_SECONDS. Ends with the sweep."""
        while not self.ended:
            self._watched_at = time.monotonic()
            yield
            self._over.wait(UPDATE_SECONDS)

    def run(
        self, runner: AnyRunner, picture: Path, precompiler: Precompiler | None, queue: RunQueue, visitor: str
    ) -> None:
        """Runs all cells. Called on the sweep's own thread."""
        try:
            events = run_cells(
                self.cells, runner, picture, self._cancel, precompiler, lambda: self._turn(queue, visitor)
            )
            with closing(events):
                for event in events:
                    self._take(event)
                    unwatched = time.monotonic() - self._watched_at > UNWATCHED_SECONDS
                    if _is_interrupted(event) or (unwatched and limits.on_space()):
                        self.cancel()
        except (BadInput, HistoryError) as refused:
            self.problem = Refused(str(refused))
        except Exception:
            _log.exception("a sweep failed inside the page")
            self.problem = Broken()
        finally:
            self.ended_at = time.monotonic()
            self._over.set()

    def _take(self, event: Event) -> None:
        """Replaces the tuple of cells whole, so that no page reads it half changed. Only the sweep's thread does."""
        if isinstance(event, Done):
            self.cells = (*self.cells[: event.place], event.cell, *self.cells[event.place + 1 :])
            if event.cell.result is not None:
                self._stored.insert(0, event.cell.result)
        self.doing = event

    @contextmanager
    def _turn(self, queue: RunQueue, visitor: str) -> Iterator[Iterator[int]]:
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


def _is_interrupted(event: Event) -> bool:
    """Whether the app is closing. Each further cell would start a process only to end it."""
    return isinstance(event, Done) and event.cell.result is not None and event.cell.result.status == "interrupted"


class Sweeps:
    """The latest sweep of each visitor. A visitor has one running sweep at a time.

    As many sweeps run at once as the queue has places, and as many ended ones are kept: a client can send any number
    of visitor ids.
    """

    def __init__(self, runner: AnyRunner, queue: RunQueue, precompiler: Precompiler | None) -> None:
        self._runner = runner
        self._queue = queue
        self._precompiler = precompiler
        self._sweeps: dict[str, Sweep] = {}
        self._lock = threading.Lock()

    def start(self, visitor: str, new: Sweep, picture: Path) -> None:
        """Raises BadInput if a sweep of this visitor goes on, too many others do, or no thread can be started."""
        with self._lock:
            if self.is_running(visitor):
                raise BadInput("A sweep of yours is going on already.")
            max_sweeps = limits.current().queue
            going = {name: one for name, one in self._sweeps.items() if not one.ended}
            if len(going) >= max_sweeps:
                raise BadInput(f"{len(going)} sweeps are going on here already. Try again in a few minutes.")
            old = time.monotonic() - KEPT_SECONDS
            ended = {name: one for name, one in self._sweeps.items() if one.ended_at is not None and one.ended_at > old}
            self._sweeps = dict(list(ended.items())[-max_sweeps:]) | going
            self._sweeps.pop(visitor, None)  # so that the newest stands last
            work = (self._runner, picture, self._precompiler, self._queue, visitor)
            try:
                threading.Thread(target=new.run, args=work, daemon=True).start()
            except Exception as error:
                _log.warning("a sweep could not be started: %s", error)
                raise BadInput(
                    "This machine cannot start another sweep just now. Try again in a few minutes."
                ) from error
            self._sweeps[visitor] = new

    def __len__(self) -> int:
        """Sweeps that are kept, running or ended."""
        return len(self._sweeps)

    def of(self, visitor: str) -> Sweep | None:
        """The latest sweep of this visitor: running, or ended within KEPT_SECONDS."""
        return self._sweeps.get(visitor)

    def is_running(self, visitor: str) -> bool:
        going = self.of(visitor)
        return going is not None and not going.ended
