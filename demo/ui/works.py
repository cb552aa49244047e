"""The work that visitors start: a run, a search for the best way, or a sweep over a grid of options.

Each work has its own thread and goes on after the visitor has closed the page. A page finds it by the visitor's id,
which the browser keeps.
"""

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ..core import cores, limits
from ..core.comparison import ProcessResult
from ..core.files import temporary_folder
from ..core.machine import HostInfo
from ..core.options import BadInput, RunSpec
from ..core.progress import Progress, Provisional
from ..core.result import RunResult
from ..runs.forecast import SweepForecast, forecast_sweep
from ..runs.ongoing import NO_FILES, Files
from ..runs.runner import Runner
from ..store.database import HistoryError
from ..store.history import History
from ..sweep.best_way import Search
from ..sweep.grid import PICTURE, GridRun, specs_to_run
from ..sweep.run_grid import Done, Event, Timing, Waiting, run_cells
from .run_queue import RunQueue

UPDATE_SECONDS = 2.0
"""The time between two updates of a page. An update costs 20 ms of CPU time on the machine that times models."""
MOST_QUIET_SECONDS = 300.0
"""The longest time that a run waits for other programs to leave the machine alone."""
UNWATCHED_SECONDS = 120.0
"""On a Hugging Face Space, a sweep or search ends after this time without an open page, because others wait."""
MACHINE_SECONDS = 30.0
MAX_STORED = 500
"""The most stored runs, newest first, that a search for the best way reads in order to reuse their results."""

_log = logging.getLogger(__name__)
T = TypeVar("T")
W = TypeVar("W", bound="Work")


def result_or_error(function: Callable[[], T]) -> T | Exception:
    """Returns what the function returns, or the exception that it raises.

    The exception is logged, unless it is BadInput or HistoryError.
    """
    try:
        return function()
    except (BadInput, HistoryError) as refused:
        return refused.with_traceback(None)
    except Exception as error:
        _log.exception("what a visitor asked for failed inside the page")
        return error.with_traceback(None)


@dataclass(eq=False)
class Work:
    """Base class for the work of one visitor: a run, a search or a sweep."""

    runner: Runner
    queue: RunQueue
    visitor: str
    doing: object = field(default=None, init=False)
    """The latest event, such as `Waiting` or a `Progress`; None before the first."""
    delivered: bool = field(default=False, init=False)
    """Whether a page has shown the result."""
    runs_ended: int = field(default=0, init=False)
    pages: list[object] = field(default_factory=list, init=False)
    """The pages that began to follow the work, the newest last."""
    _result: RunResult | Exception | None = field(default=None, init=False)
    _cancel: threading.Event = field(default_factory=threading.Event, init=False)
    _ended: threading.Event = field(default_factory=threading.Event, init=False)
    _answered: threading.Event = field(default_factory=threading.Event, init=False)
    """Set when a run has sent a provisional result, and at the end of the work."""
    _watched_at: float = field(default_factory=time.monotonic, init=False)

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    @property
    def stopped(self) -> bool:
        return self._cancel.is_set()

    def cancel(self) -> None:
        """Asks the work to end. It ends within about a second."""
        self._cancel.set()

    def watch(self) -> Iterator[object]:
        """Yields the latest event until the work ends, at least every UPDATE_SECONDS, even if it is unchanged."""
        while not self.ended:
            news = self._ended if self._answered.is_set() else self._answered
            self._watched_at = time.monotonic()
            yield self.doing  # also if unchanged: gradio notices that a page was closed only when it sends an update
            news.wait(UPDATE_SECONDS)

    def take_result(self) -> RunResult | Exception | None:
        """Returns the work's result or exception; None if there is neither.

        If the work has ended, also notes that a page has shown its end (`delivered`).
        """
        self.delivered = self.ended
        return self._result

    def begin(self) -> None:
        """Joins the queue, if the work is a single run. Raises BadInput if the queue refuses it."""

    def forget(self) -> None:
        """Removes the work's files and gives up its place in the queue."""

    def run(self) -> None:
        """Does the whole work and stores its result in this object. `Supervisor` calls this method on a new thread."""
        self._result = result_or_error(self._work)
        self._ended.set()
        self._answered.set()

    def _work(self) -> RunResult | None:
        with closing(self._events()) as events:
            for event in events:
                if isinstance(event, RunResult):
                    return event
                self._note(event)
        return None

    def _events(self) -> Generator[object, None, None]:
        """Does the work, and yields its events. Of a `VisitorRun` that has begun, the last event is the RunResult."""
        raise NotImplementedError

    def _note(self, event: object) -> None:
        self.doing = event
        if isinstance(event, Timing):
            self.queue.expect_end(event.progress.remaining_seconds)
        elif isinstance(event, Progress):
            self.queue.expect_end(event.remaining_seconds)
        if isinstance(event, Provisional):
            self._answered.set()


@dataclass(frozen=True)
class WaitingForQuiet:
    """The event of a run that waits until no other program keeps the machine busy."""

    share: float
    """The part of all cores that other programs use, from 0 to 1."""


@dataclass(eq=False)
class VisitorRun(Work):
    """One run. Its result is a RunResult, an exception, or None if the visitor cancelled it before it began."""

    spec: RunSpec
    image: Path | None
    earlier: tuple[ProcessResult, ...] = ()
    """The results of earlier processes of the same run. This visitor's run adds one process to them."""
    when_quiet: bool = False
    """Whether to begin only when no other program keeps the machine busy."""
    expected_seconds: float | None = None
    """The duration that the form announced; None without an estimate."""
    recorded: RunResult | None = None
    """A stored or recorded run that the visitor can choose instead of waiting; None if there is none."""
    show_recorded: bool = field(default=False, init=False)
    """Whether the run was cancelled to show `recorded` instead."""
    _turn: ExitStack = field(default_factory=ExitStack, init=False)
    """Gives up the run's place in the queue when closed."""
    _files: Files = field(default=NO_FILES, init=False)
    _kept: ExitStack = field(default_factory=ExitStack, init=False)
    """Removes the temporary folder of the run's files when closed."""

    def __post_init__(self) -> None:
        repeat = len(self.earlier) + 1
        self.at_the_start = Progress("start", 0.0, 0.0, repeat=repeat, repeats=max(repeat, self.spec.repeats))
        self.doing = Waiting(ahead) if (ahead := len(self.queue)) else self.at_the_start

    def files_of(self, id: str) -> Files:
        """Returns the trace and the package that this run wrote; NO_FILES if `id` is not the id of its result."""
        is_own = isinstance(self._result, RunResult) and self._result.id == id
        return self._files.existing() if is_own else NO_FILES

    def begin(self) -> None:
        self._places = self._turn.enter_context(self.queue.join(self.visitor))

    def forget(self) -> None:
        self._turn.close()
        self._kept.close()

    def _wanted_files(self) -> Files:
        machine = self.runner.machine
        on_gpu = machine is not None and machine.gpu is not None and self.spec.device != "cpu"
        profiled = self.spec.profile == "on" or (self.spec.profile == "auto" and on_gpu)
        packaged = self.spec.compiler == "aot" and not limits.on_space()
        if not (profiled or packaged):
            return NO_FILES
        folder = self._kept.enter_context(temporary_folder())
        return Files(folder / "trace.json.gz" if profiled else None, folder / "model.pt2" if packaged else None)

    def _events(self) -> Generator[object, None, None]:
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
        """Yields events until the machine is quiet, another run waits, MOST_QUIET_SECONDS have passed, or a cancel.

        If it is not known what other programs use, it yields nothing.
        """
        end = time.monotonic() + MOST_QUIET_SECONDS
        while len(self.queue) == 1 and time.monotonic() < end and not self.stopped:
            share = cores.others_share()
            if share is None or share < cores.BUSY_CPU:
                break
            yield WaitingForQuiet(share)


@dataclass(eq=False)
class Series(Work):
    """Base class for a search or a sweep: several runs, one after another. Its result is None or an exception."""

    def _note(self, event: object) -> None:
        super()._note(event)
        if isinstance(event, Done):
            self.runs_ended += 1
            if event.cell.result is not None and event.cell.result.status == "interrupted":
                self.cancel()  # the app ends, so no later run can finish
        if limits.on_space() and time.monotonic() - self._watched_at > UNWATCHED_SECONDS:
            self.cancel()

    def _next_turn(self) -> AbstractContextManager[Iterator[int]]:
        return self.queue.join(patient=True)


@dataclass(eq=False)
class Sweep(Series):
    cells: list[GridRun]
    stored: list[RunResult]
    """Earlier runs and those of this sweep, newest first, from which `forecast` estimates the time."""
    crowd: cores.Crowd = field(default_factory=lambda: cores.crowd())
    """How other programs loaded the cores when this sweep was created, or after its latest run, if any."""

    def forecast(self) -> SweepForecast:
        return forecast_sweep(specs_to_run(self.cells), self.stored, machine_of(self.runner), self.crowd)

    def _events(self) -> Generator[Event, None, None]:
        return run_cells(self.cells, self.runner, PICTURE, self._cancel, self._next_turn)

    def _note(self, event: object) -> None:
        if isinstance(event, Done):
            self.cells[event.place] = event.cell
            self.crowd = cores.crowd()
            if event.cell.result is not None:
                self.stored.insert(0, event.cell.result)
        super()._note(event)


@dataclass(eq=False)
class BestSearch(Series):
    """A search for the best way to run a model: eager, a compile mode, a package and so on."""

    history: History
    spec: RunSpec
    image: Path | None
    other_formats: bool
    minutes: float
    """The time limit of the search. Time in the queue does not count."""

    def __post_init__(self) -> None:
        """Reads the stored runs and prepares the search for the best way. Raises HistoryError or BadInput."""
        stored = self.history.all(MAX_STORED, checkpoints={self.spec.checkpoint})
        machine, image = machine_of(self.runner), self.image or PICTURE
        self.search = Search(self.spec, machine, stored, image, self.other_formats, self.minutes)
        self.table = self.search.table()
        """The table after the last run that ended. All parts of the page show this one, so that their figures agree."""

    def _note(self, event: object) -> None:
        if isinstance(event, Done):
            self.table = self.search.table()
        super()._note(event)

    def _events(self) -> Generator[Event, None, None]:
        return self.search.run(self.runner, self._cancel, self._next_turn)


def machine_of(runner: Runner) -> HostInfo:
    """Waits until the runner's worker process has reported the machine. Raises BadInput after MACHINE_SECONDS."""
    deadline = time.monotonic() + MACHINE_SECONDS
    while (machine := runner.machine) is None:
        if time.monotonic() > deadline:
            raise BadInput("The process that runs models has not started yet. Try again in a moment.")
        time.sleep(0.2)
    return machine


class Supervisor:
    """Starts runs, searches and sweeps, one at a time for each visitor, and keeps each visitor's latest work.

    A client can invent any number of visitors. So a start is refused while `limits.current().queue` works of other
    visitors go on. Of the works that have ended, the newest are kept, at most `limits.current().queue`.
    """

    def __init__(self) -> None:
        self._works: dict[str, Work] = {}
        self._lock = threading.Lock()

    def start(self, work: W) -> W:
        """Starts `work` and returns it.

        Raises BadInput if the visitor's last work still goes on, if too many other visitors' works do, or if the queue
        or the operating system refuses the work.
        """
        with self._lock:
            current = self._works.get(work.visitor)
            if current is not None and not current.ended:
                raise BadInput(
                    "Your last run, search or sweep goes on. Wait until it has ended, or reload the page and cancel it."
                )
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
        places = limits.current().queue
        ended = [visitor for visitor, work in self._works.items() if work.ended]
        if (going := len(self._works) - len(ended)) >= places:
            raise BadInput(f"{going} others are going on here already. Try again in a few minutes.")
        for visitor in ended[:-places]:
            self._works.pop(visitor).forget()

    def of(self, visitor: str) -> Work | None:
        """Returns the visitor's latest work, running or ended; None if there is none."""
        return self._works.get(visitor)


def visitor_name(kept: str | None, session: str | None) -> str:
    """Returns the visitor's id: `kept`, which the browser sent, or else an id made from gradio's `session`.

    A new page may start a run before it has received an id.
    """
    return kept or hashlib.sha256((session or "").encode()).hexdigest()[:32]
