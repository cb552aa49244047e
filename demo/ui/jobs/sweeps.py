"""Sweeps that outlive the page that asked for them, as `jobs` do: a reload or a closed tab ends none.

A sweep runs on a thread of its own and keeps how it stands; any page of its visitor may watch it, from whenever on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from demo.core import limits
from demo.core.result import BadInput, Machine, RunResult
from demo.runs.precompiler import Precompiler
from demo.store.history import HistoryError
from demo.sweep import grid as sweep
from demo.sweep.grid import Cell, Done, Forecast
from demo.ui.jobs.jobs import KEPT_SECONDS, Broken, Refused
from demo.ui.jobs.queue import Full, Line
from demo.ui.runs import AnyRunner

UPDATE_SECONDS = 1.0
"""Each update takes some 20 ms of cores on which a cell may be timed."""
WAITING_SECONDS = 0.5
UNWATCHED_SECONDS = 120.0
"""On a Space, a sweep that no page has watched for so long ends: others wait at each of its cells."""

_log = logging.getLogger(__name__)


class Sweep:
    """One sweep, from its first cell to its last."""

    def __init__(self, cells: Sequence[Cell], stored: list[RunResult], machine: Machine) -> None:
        """`cells` may have values already; `stored` are earlier runs, newest first, from which times are forecast."""
        self.cells = tuple(cells)
        self.doing: sweep.Event | None = None
        """The latest event."""
        self.problem: Refused | Broken | None = None
        """Why it ended before its time."""
        self.delivered = False
        """Whether some page has shown the end."""
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
        """The cell in hand ends within a second and has no value then."""
        self._cancel.set()

    def forecast(self) -> Forecast:
        """How long the cells without a value will take."""
        return sweep.forecast(self.cells, self._stored, self._machine)

    def watch(self) -> Iterator[None]:
        """Yields at once, then every second, for some event comes more often than that; ends with the sweep."""
        while not self.ended:
            self._watched_at = time.monotonic()
            yield
            self._over.wait(UPDATE_SECONDS)

    def run(self, runner: AnyRunner, picture: Path, precompiler: Precompiler | None, line: Line, visitor: str) -> None:
        """The whole life of the sweep, on the thread that calls this."""
        try:
            events = sweep.run(
                self.cells, runner, picture, self._cancel, precompiler, lambda: self._turn(line, visitor)
            )
            with closing(events):
                for event in events:
                    self._tell(event)
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

    def _tell(self, event: sweep.Event) -> None:
        """No page sees a cell half done: each value is put in place whole, and only this thread changes them."""
        if isinstance(event, Done):
            self.cells = (*self.cells[: event.place], event.cell, *self.cells[event.place + 1 :])
            if event.cell.result is not None:
                self._stored.insert(0, event.cell.result)
        self.doing = event

    @contextmanager
    def _turn(self, line: Line, visitor: str) -> Iterator[Iterator[int]]:
        """A cell's place in the line with everybody else."""
        with ExitStack() as left:

            def ahead() -> Iterator[int]:
                while True:
                    try:
                        place = left.enter_context(line.join(f"sweep of {visitor}"))
                        break
                    except Full:  # a sweep that has begun waits for a place rather than ending
                        time.sleep(WAITING_SECONDS)
                        yield limits.current().queue
                while waiting := place.wait(WAITING_SECONDS):
                    yield waiting

            yield ahead()


def _is_interrupted(event: sweep.Event) -> bool:
    """Whether the app is being closed: it would start a process for each further cell, only to end it."""
    return isinstance(event, Done) and event.cell.result is not None and event.cell.result.status == "interrupted"


class Sweeps:
    """The sweeps of all visitors: the latest one of each, one at a time; at once as many as the queue has places.

    A client can call itself by many names, so of those that have ended no more are kept either.
    """

    def __init__(self, runner: AnyRunner, line: Line, precompiler: Precompiler | None) -> None:
        self._runner = runner
        self._line = line
        self._precompiler = precompiler
        self._sweeps: dict[str, Sweep] = {}
        self._lock = threading.Lock()

    def start(self, visitor: str, new: Sweep, picture: Path) -> None:
        """Raises BadInput where a sweep of this visitor goes on, too many others do, or no thread is to be had."""
        with self._lock:
            if self.is_running(visitor):
                raise BadInput("A sweep of yours is going on already.")
            most = limits.current().queue
            going = {name: one for name, one in self._sweeps.items() if not one.ended}
            if len(going) >= most:
                raise BadInput(f"{len(going)} sweeps are going on here already. Try again in a few minutes.")
            old = time.monotonic() - KEPT_SECONDS
            ended = {name: one for name, one in self._sweeps.items() if one.ended_at is not None and one.ended_at > old}
            self._sweeps = dict(list(ended.items())[-most:]) | going
            self._sweeps.pop(visitor, None)  # so that the newest stands last
            work = (self._runner, picture, self._precompiler, self._line, visitor)
            try:
                threading.Thread(target=new.run, args=work, daemon=True).start()
            except Exception as error:
                _log.warning("a sweep could not be started: %s", error)
                raise BadInput(
                    "This machine cannot start another sweep just now. Try again in a few minutes."
                ) from error
            self._sweeps[visitor] = new

    def of(self, visitor: str) -> Sweep | None:
        """The latest sweep of this visitor, going on or ended not long ago."""
        return self._sweeps.get(visitor)

    def is_running(self, visitor: str) -> bool:
        going = self.of(visitor)
        return going is not None and not going.ended
