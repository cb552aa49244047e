"""What visitors have started: runs, searches for the best way, sweeps. Each of their runs has a turn in one queue.

They outlive the page that started them, each on a thread of its own. Any number of pages may watch one. It is found by
its visitor's id, which the browser keeps.
"""

import hashlib
import logging
import re
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from demo.core import cores, limits
from demo.core.comparison import ProcessResult
from demo.core.files import temporary_folder
from demo.core.machine import HostInfo
from demo.core.progress import Progress
from demo.core.result import RunResult
from demo.core.spec import BadInput, RunSpec
from demo.runs.forecast import SweepForecast, forecast_sweep
from demo.runs.outcome import NO_FILES, Files
from demo.runs.runner import Runner
from demo.store.history import History, HistoryError
from demo.sweep.best_way import Search
from demo.sweep.grid import PICTURE, Cell, specs_to_run
from demo.sweep.run_grid import Done, Event, Waiting, run_cells

WAITING_SECONDS = 0.5
UPDATE_SECONDS = 1.0
"""Between two updates that a browser gets: one costs some 20 ms of CPU time on the machine that is timed."""
MOST_QUIET_SECONDS = 300.0
"""The longest wait for a quiet machine."""
UNWATCHED_SECONDS = 120.0
"""On a Space, a series that no page has watched for this long ends: other visitors wait at each of its runs."""
MACHINE_SECONDS = 30.0
MAX_STORED = 500
"""Stored runs of the model, newest first, in which a search looks for what it need not run again."""

_log = logging.getLogger(__name__)
T = TypeVar("T")
W = TypeVar("W", bound="Work")


class RunQueue:
    """The queue of the page and the API: first come, first served, one run at a time."""

    def __init__(self, longest: int | None = None) -> None:
        """`longest` is for tests; without it the limit from the settings holds."""
        self._places: dict[object, str] = {}
        """The visitors by their tickets, in order."""
        self._changed = threading.Condition()
        self.longest = longest or limits.current().queue

    def __len__(self) -> int:
        """Runs that wait or run."""
        return len(self._places)

    @contextmanager
    def join(self, visitor: str = "", patient: bool = False) -> Iterator[Iterator[int]]:
        """A place at the end of the queue. Yields the numbers of runs ahead, every WAITING_SECONDS until its turn.

        Raises BadInput if this visitor has too many, and if the queue is full; a run of a series is `patient`, and
        stands behind a full queue, too.
        """
        ticket = object()
        with self._changed:
            if not patient and len(self) >= self.longest:
                raise BadInput(f"The queue is full: {self.longest} runs are waiting. Try again in a few minutes.")
            if visitor and list(self._places.values()).count(visitor) >= limits.current().runs_a_visitor:
                raise BadInput("Your last run is not over yet. Wait for its result, or cancel it, and try again.")
            self._places[ticket] = visitor
        try:
            yield self._ahead(ticket)
        finally:
            with self._changed:
                self._places.pop(ticket, None)
                self._changed.notify_all()

    def _ahead(self, ticket: object) -> Iterator[int]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: next(iter(self._places)) is ticket, WAITING_SECONDS)
                ahead = list(self._places).index(ticket)
            if ahead == 0:
                return
            yield ahead


def result_or_error(function: Callable[[], T]) -> T | Exception:
    """Calls the function and returns its result or its exception. Logs an unexpected exception."""
    try:
        return function()
    except (BadInput, HistoryError) as refused:
        return refused.with_traceback(None)
    except Exception as error:
        _log.exception("what a visitor asked for failed inside the page")
        return error.with_traceback(None)


@dataclass(eq=False)
class Work:
    """One run, search or sweep, from its place in the queue to its outcome."""

    runner: Runner
    queue: RunQueue
    visitor: str
    doing: Any = field(default=None, init=False)
    """The latest event."""
    delivered: bool = field(default=False, init=False)
    """Whether a page has shown the outcome."""
    early_result: RunResult | None = field(default=None, init=False)
    """The result of a run while only its later start is still measured."""
    runs_ended: int = field(default=0, init=False)
    """Runs of a series that have ended so far."""
    _outcome: Any = field(default=None, init=False)
    _cancel: threading.Event = field(default_factory=threading.Event, init=False)
    _ended: threading.Event = field(default_factory=threading.Event, init=False)
    _watched_at: float = field(default_factory=time.monotonic, init=False)

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    @property
    def stopped(self) -> bool:
        return self._cancel.is_set()

    def cancel(self) -> None:
        """Asks the work to end, which it does within a second."""
        self._cancel.set()

    def watch(self) -> Iterator[Any]:
        """Yields the latest event, at once and then every UPDATE_SECONDS, until the work ends.

        An unchanged event comes again: gradio notices a closed page only when it sends something.
        """
        while not self.ended:
            self._watched_at = time.monotonic()
            yield self.doing
            self._ended.wait(UPDATE_SECONDS)

    def outcome(self) -> Any:
        """Returns a result or an exception, which then counts as delivered; None while there is neither."""
        self.delivered = self.ended
        return self._outcome

    def begin(self) -> None:
        """Takes its place in the queue, if it needs one at once. Raises BadInput if there is none."""

    def forget(self) -> None:
        """Removes its files."""

    def run(self) -> None:
        """Works to the end, on a thread of its own."""
        self._outcome = result_or_error(self._work)
        self._ended.set()

    def _work(self) -> RunResult | None:
        with closing(self._events()) as events:
            for event in events:
                if isinstance(event, RunResult):
                    return event
                self._note(event)
        return None

    def _events(self) -> Generator[Any, None, None]:
        """What happens, in the end the result of a run."""
        raise NotImplementedError

    def _note(self, event: Any) -> None:
        self.doing = event
        if isinstance(event, Progress) and event.answer is not None:
            self.early_result = event.answer


@dataclass(frozen=True)
class WaitingForQuiet:
    """It is this run's turn, and other programs keep this share of the cores busy, from 0 to 1."""

    share: float


@dataclass(eq=False)
class Job(Work):
    """One run. Its outcome is a RunResult, an exception, or None if the visitor cancelled before it began."""

    spec: RunSpec
    image: Path | None
    earlier: tuple[ProcessResult, ...] = ()
    """Repeats of this spec, from which the run goes on."""
    when_quiet: bool = False
    """Whether to begin only when no other program keeps the machine busy."""
    expected_seconds: float | None = None
    """What the form announced."""
    recorded: RunResult | None = None
    """The latest stored answer of these settings on this machine."""
    show_recorded: bool = field(default=False, init=False)
    """Whether it was cancelled to show the recorded answer."""
    _turn: ExitStack = field(default_factory=ExitStack, init=False)
    """Its place in the queue, until it ends."""
    _files: Files = field(default=NO_FILES, init=False)
    _kept: ExitStack = field(default_factory=ExitStack, init=False)
    """The folder of the run's files, if it is to leave any."""

    def __post_init__(self) -> None:
        repeat = len(self.earlier) + 1
        self.at_the_start = Progress("start", 0.0, 0.0, repeat=repeat, repeats=max(repeat, self.spec.repeats))
        self.doing = Waiting(ahead) if (ahead := len(self.queue)) else self.at_the_start

    def files_of(self, id: str) -> Files:
        """The files that the run of this id left, if this job ended with it."""
        is_own = isinstance(self._outcome, RunResult) and self._outcome.id == id
        return self._files.existing() if is_own else NO_FILES

    def begin(self) -> None:
        self._places = self._turn.enter_context(self.queue.join(self.visitor))

    def forget(self) -> None:
        self._turn.close()
        self._kept.close()

    def _wanted_files(self) -> Files:
        """Where the run is to leave its files; no package on a Space."""
        machine = self.runner.machine
        on_gpu = machine is not None and machine.gpu is not None and self.spec.device != "cpu"
        profiled = self.spec.profile == "on" or (self.spec.profile == "auto" and on_gpu)
        packaged = self.spec.compiler == "aot" and not limits.on_space()
        if not (profiled or packaged):
            return NO_FILES
        folder = self._kept.enter_context(temporary_folder())
        return Files(folder / "trace.json.gz" if profiled else None, folder / "model.pt2" if packaged else None)

    def _events(self) -> Generator[Any, None, None]:
        with self._turn:
            for ahead in self._places:
                yield Waiting(ahead)
                if self.stopped:
                    return
            yield self.at_the_start
            if self.when_quiet:
                yield from self._until_quiet()
            if not self.stopped:
                self._files = self._wanted_files()
                yield from self.runner.run(self.spec, self.image, self._cancel, self._files, self.earlier)

    def _until_quiet(self) -> Iterator[WaitingForQuiet]:
        """Until other programs leave the machine alone, or another run waits for its turn."""
        end = time.monotonic() + MOST_QUIET_SECONDS
        while len(self.queue) == 1 and time.monotonic() < end and not self.stopped:
            share = cores.others_share()
            if share is None or share < cores.BUSY_CPU:
                break
            yield WaitingForQuiet(share)


@dataclass(eq=False)
class Series(Work):
    """Runs one after another, without a result of its own."""

    def _note(self, event: Event) -> None:
        super()._note(event)
        self.runs_ended += isinstance(event, Done)
        result = event.cell.result if isinstance(event, Done) else None
        interrupted = result is not None and result.status == "interrupted"  # each further run would be, too
        unwatched = limits.on_space() and time.monotonic() - self._watched_at > UNWATCHED_SECONDS
        if interrupted or unwatched:
            self.cancel()

    def _next_turn(self) -> AbstractContextManager[Iterator[int]]:
        return self.queue.join(patient=True)


@dataclass(eq=False)
class Sweep(Series):
    cells: tuple[Cell, ...]
    stored: list[RunResult]
    """Earlier runs, newest first, for the forecast of the time."""

    def forecast(self) -> SweepForecast:
        """How long the cells without a value will take."""
        return forecast_sweep(specs_to_run(self.cells), self.stored, machine_of(self.runner))

    def _events(self) -> Generator[Event, None, None]:
        return run_cells(self.cells, self.runner, PICTURE, self._cancel, self._next_turn)

    def _note(self, event: Event) -> None:
        """Replaces the tuple of cells whole, so that no page reads it half changed."""
        if isinstance(event, Done):
            self.cells = (*self.cells[: event.place], event.cell, *self.cells[event.place + 1 :])
            if event.cell.result is not None:
                self.stored.insert(0, event.cell.result)
        super()._note(event)


@dataclass(eq=False)
class BestSearch(Series):
    """One search for the best way to run a model."""

    history: History
    spec: RunSpec
    image: Path | None
    other_formats: bool
    minutes: float

    def __post_init__(self) -> None:
        """Raises BadInput and HistoryError."""
        stored = self.history.all(MAX_STORED, checkpoints={self.spec.checkpoint})
        machine, image = machine_of(self.runner), self.image or PICTURE
        self.search = Search(self.spec, machine, stored, image, self.other_formats, self.minutes)

    def _events(self) -> Generator[Event, None, None]:
        return self.search.run(self.runner, self._cancel, self._next_turn)


def machine_of(runner: Runner) -> HostInfo:
    """What the waiting worker says of the machine. Raises BadInput if it says nothing within MACHINE_SECONDS."""
    deadline = time.monotonic() + MACHINE_SECONDS
    while (machine := runner.machine) is None:
        if time.monotonic() > deadline:
            raise BadInput("The process that runs models has not started yet. Try again in a moment.")
        time.sleep(0.2)
    return machine


class Supervisor:
    """The latest work of each visitor, of which one at a time may go on.

    As many go on at once as the queue has places, and as many ended ones are kept: a client can send any number of ids.
    """

    def __init__(self) -> None:
        self._works: dict[str, Work] = {}
        self._lock = threading.Lock()

    def start(self, work: W) -> W:
        """Raises BadInput if its visitor's last work goes on, or if there is no place; that work then stays."""
        with self._lock:
            current = self._works.get(work.visitor)
            if current is not None and not current.ended:
                raise BadInput("Your last run, search or sweep goes on: wait until it has ended, or cancel it.")
            self._make_room()
            work.begin()
            try:
                threading.Thread(target=work.run, daemon=True).start()
            except RuntimeError as error:  # the machine has as many threads as it may
                work.forget()
                raise BadInput("This machine cannot start another run just now. Try again in a minute.") from error
            if (old := self._works.pop(work.visitor, None)) is not None:
                old.forget()
            self._works[work.visitor] = work  # so that the newest stands last
        return work

    def _make_room(self) -> None:
        """Forgets all but the newest of what has ended. Raises BadInput if too much goes on."""
        places = limits.current().queue
        ended = [visitor for visitor, work in self._works.items() if work.ended]
        if (going := len(self._works) - len(ended)) >= places:
            raise BadInput(f"{going} others are going on here already. Try again in a few minutes.")
        for visitor in ended[:-places]:
            self._works.pop(visitor).forget()

    def of(self, visitor: str) -> Work | None:
        """The latest work of this visitor, running or ended."""
        return self._works.get(visitor)


def visitor_name(kept: object, session: str | None) -> str:
    """The id of a visitor. `kept` is what the browser sent and may be anything.

    A new page may send its first Run before it has received its id: then one is made of gradio's session.
    """
    if isinstance(kept, str) and re.fullmatch("[0-9a-f]{32}", kept):
        return kept
    return hashlib.sha256((session or "").encode()).hexdigest()[:32]
