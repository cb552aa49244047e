"""The work that visitors have started: runs, searches for the best way, sweeps.

All their runs wait in one queue.

Each work has a thread of its own, and goes on when the page that started the work is closed. Any number of pages
may watch the same work. A page finds the work by the visitor's id, which the browser keeps.
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
"""The time between two updates of a browser. An update costs some 20 ms of CPU time on the machine that is
timed."""
MOST_QUIET_SECONDS = 300.0
"""The longest wait for a quiet machine."""
UNWATCHED_SECONDS = 120.0
"""On a Hugging Face Space, a series ends if no page has watched it for this long: its runs keep others waiting."""
MACHINE_SECONDS = 30.0
MAX_STORED = 500
"""The most stored runs of a model, newest first, among which a search looks for runs that need no repetition."""

_log = logging.getLogger(__name__)
T = TypeVar("T")
W = TypeVar("W", bound="Work")


class RunQueue:
    """The queue that the page and the API share: first come, first served, one run at a time."""

    def __init__(self, longest: int | None = None) -> None:
        """`longest` is the most runs in the queue, for tests; None takes the limit from the settings."""
        self._places: dict[object, str] = {}
        """The visitor's id by the ticket of each place, in the queue's order; '' for a run of a series."""
        self._changed = threading.Condition()
        self.longest = longest or limits.current().queue

    def __len__(self) -> int:
        """Returns the number of runs that wait or run."""
        return len(self._places)

    @contextmanager
    def join(self, visitor: str = "", patient: bool = False) -> Iterator[Iterator[int]]:
        """Holds a place in the queue.

        Gives an iterator of the number of runs ahead, which ends when the turn comes.

        The iterator yields every WAITING_SECONDS or more often. Raises BadInput if the visitor has too many places,
        or if the queue is full. `patient`, for a run of a series, may also join a full queue.
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
    """Returns the function's result, or the exception that it raised; logs all but BadInput and HistoryError."""
    try:
        return function()
    except (BadInput, HistoryError) as refused:
        return refused.with_traceback(None)
    except Exception as error:
        _log.exception("what a visitor asked for failed inside the page")
        return error.with_traceback(None)


@dataclass(eq=False)
class Work:
    """One run, search or sweep of a visitor, from its place in the queue to its outcome; the base of all of them."""

    runner: Runner
    queue: RunQueue
    visitor: str
    doing: Any = field(default=None, init=False)
    """The latest event, such as `Waiting` or a `Progress`; None before the first."""
    delivered: bool = field(default=False, init=False)
    """Whether a page has shown the outcome."""
    early_result: RunResult | None = field(default=None, init=False)
    """The result of a run that is complete but for its start with a filled compile cache, which is still
    measured."""
    runs_ended: int = field(default=0, init=False)
    """The number of runs of a series that have ended so far."""
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

        An unchanged event is yielded again, because gradio notices a closed page only when it sends something.
        """
        while not self.ended:
            self._watched_at = time.monotonic()
            yield self.doing
            self._ended.wait(UPDATE_SECONDS)

    def outcome(self) -> Any:
        """Returns the result or the exception, or None if there is neither; marks work that has ended as delivered."""
        self.delivered = self.ended
        return self._outcome

    def begin(self) -> None:
        """Takes a place in the queue, if this kind of work needs one at once.

        Raises BadInput if the queue is full.
        """

    def forget(self) -> None:
        """Removes the work's files and gives up its place in the queue."""

    def run(self) -> None:
        """Does the whole work and stores its outcome. `Supervisor` calls this method on a thread of its own."""
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
        """Yields the events of the work; a RunResult, if any, is the last."""
        raise NotImplementedError

    def _note(self, event: Any) -> None:
        self.doing = event
        if isinstance(event, Progress) and event.answer is not None:
            self.early_result = event.answer


@dataclass(frozen=True)
class WaitingForQuiet:
    """The event of a run whose turn has come, while other programs use this share of the cores, from 0 to 1."""

    share: float


@dataclass(eq=False)
class Job(Work):
    """One run. Its outcome is a RunResult, an exception, or None if the visitor cancelled before the run began."""

    spec: RunSpec
    image: Path | None
    earlier: tuple[ProcessResult, ...] = ()
    """The results of earlier processes with this spec, to which this run adds one."""
    when_quiet: bool = False
    """Whether to begin only when no other program keeps the machine busy."""
    expected_seconds: float | None = None
    """The duration that the form announced; None if there was no estimate."""
    recorded: RunResult | None = None
    """The latest stored run with these settings on this machine that has a verdict; None if there is none."""
    show_recorded: bool = field(default=False, init=False)
    """Whether the job was cancelled to show `recorded` instead."""
    _turn: ExitStack = field(default_factory=ExitStack, init=False)
    """Holds the job's place in the queue, until the job ends."""
    _files: Files = field(default=NO_FILES, init=False)
    _kept: ExitStack = field(default_factory=ExitStack, init=False)
    """Holds the temporary folder of the run's files, if the run is to write any."""

    def __post_init__(self) -> None:
        repeat = len(self.earlier) + 1
        self.at_the_start = Progress("start", 0.0, 0.0, repeat=repeat, repeats=max(repeat, self.spec.repeats))
        self.doing = Waiting(ahead) if (ahead := len(self.queue)) else self.at_the_start

    def files_of(self, id: str) -> Files:
        """Returns the files that the run with this id wrote; NO_FILES if this job has not ended with that run."""
        is_own = isinstance(self._outcome, RunResult) and self._outcome.id == id
        return self._files.existing() if is_own else NO_FILES

    def begin(self) -> None:
        self._places = self._turn.enter_context(self.queue.join(self.visitor))

    def forget(self) -> None:
        self._turn.close()
        self._kept.close()

    def _wanted_files(self) -> Files:
        """Returns the paths to which the run shall write its trace and package; no package on a Hugging Face Space."""
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
        """Yields while other programs use the machine, for MOST_QUIET_SECONDS at most; ends if another run waits."""
        end = time.monotonic() + MOST_QUIET_SECONDS
        while len(self.queue) == 1 and time.monotonic() < end and not self.stopped:
            share = cores.others_share()
            if share is None or share < cores.BUSY_CPU:
                break
            yield WaitingForQuiet(share)


@dataclass(eq=False)
class Series(Work):
    """Work of several runs, one after another. A series has no result of its own."""

    def _note(self, event: Event) -> None:
        super()._note(event)
        self.runs_ended += isinstance(event, Done)
        result = event.cell.result if isinstance(event, Done) else None
        interrupted = result is not None and result.status == "interrupted"  # the app ends, so no later run can finish
        unwatched = limits.on_space() and time.monotonic() - self._watched_at > UNWATCHED_SECONDS
        if interrupted or unwatched:
            self.cancel()

    def _next_turn(self) -> AbstractContextManager[Iterator[int]]:
        return self.queue.join(patient=True)


@dataclass(eq=False)
class Sweep(Series):
    cells: tuple[Cell, ...]
    stored: list[RunResult]
    """Stored runs, newest first, from which `forecast` estimates the time."""

    def forecast(self) -> SweepForecast:
        """Returns how many cells are still to run, and the seconds that they will take."""
        return forecast_sweep(specs_to_run(self.cells), self.stored, machine_of(self.runner))

    def _events(self) -> Generator[Event, None, None]:
        return run_cells(self.cells, self.runner, PICTURE, self._cancel, self._next_turn)

    def _note(self, event: Event) -> None:
        """Stores the event. Replaces the whole tuple of cells, so that no page reads a half-changed one."""
        if isinstance(event, Done):
            self.cells = (*self.cells[: event.place], event.cell, *self.cells[event.place + 1 :])
            if event.cell.result is not None:
                self.stored.insert(0, event.cell.result)
        super()._note(event)


@dataclass(eq=False)
class BestSearch(Series):
    """One search for the best way to run a model: eager, a compile mode, a package ... Its runs take `minutes`."""

    history: History
    spec: RunSpec
    image: Path | None
    other_formats: bool
    minutes: float

    def __post_init__(self) -> None:
        """Prepares the search from the stored runs. Raises BadInput and HistoryError."""
        stored = self.history.all(MAX_STORED, checkpoints={self.spec.checkpoint})
        machine, image = machine_of(self.runner), self.image or PICTURE
        self.search = Search(self.spec, machine, stored, image, self.other_formats, self.minutes)

    def _events(self) -> Generator[Event, None, None]:
        return self.search.run(self.runner, self._cancel, self._next_turn)


def machine_of(runner: Runner) -> HostInfo:
    """Returns the machine that the worker process reports, once it has. Raises BadInput after MACHINE_SECONDS."""
    deadline = time.monotonic() + MACHINE_SECONDS
    while (machine := runner.machine) is None:
        if time.monotonic() > deadline:
            raise BadInput("The process that runs models has not started yet. Try again in a moment.")
        time.sleep(0.2)
    return machine


class Supervisor:
    """The starter of work, which keeps the latest work of each visitor.

    A visitor's works go on one at a time.

    At most as many works go on, and as many ended ones are kept, as the queue has places: a client may invent any
    ids.
    """

    def __init__(self) -> None:
        self._works: dict[str, Work] = {}
        self._lock = threading.Lock()

    def start(self, work: W) -> W:
        """Starts `work` and returns it.

        Raises BadInput if the visitor's last work goes on, or if too many works do.
        """
        with self._lock:
            current = self._works.get(work.visitor)
            if current is not None and not current.ended:
                raise BadInput("Your last run, search or sweep goes on: wait until it has ended, or cancel it.")
            self._make_room()
            work.begin()
            try:
                threading.Thread(target=work.run, daemon=True).start()
            except RuntimeError as error:  # the operating system allows no further thread
                work.forget()
                raise BadInput("This machine cannot start another run just now. Try again in a minute.") from error
            if (old := self._works.pop(work.visitor, None)) is not None:
                old.forget()
            self._works[work.visitor] = work  # after the pop, so that the newest is last: `_make_room` needs this order
        return work

    def _make_room(self) -> None:
        """Forgets ended works, but for the newest.

        Raises BadInput if as many works go on as the queue has places.
        """
        places = limits.current().queue
        ended = [visitor for visitor, work in self._works.items() if work.ended]
        if (going := len(self._works) - len(ended)) >= places:
            raise BadInput(f"{going} others are going on here already. Try again in a few minutes.")
        for visitor in ended[:-places]:
            self._works.pop(visitor).forget()

    def of(self, visitor: str) -> Work | None:
        """Returns the latest work of this visitor, running or ended; None if there is none."""
        return self._works.get(visitor)


def visitor_name(kept: object, session: str | None) -> str:
    """Returns a visitor's id, 32 hexadecimal digits: `kept`, which the browser sent, if `kept` is a valid id.

    A new page may send its first Run before it has received an id. The id is then made from gradio's `session`.
    """
    if isinstance(kept, str) and re.fullmatch("[0-9a-f]{32}", kept):
        return kept
    return hashlib.sha256((session or "").encode()).hexdigest()[:32]
