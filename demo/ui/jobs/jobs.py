"""What a visitor starts: a run, a search for the best way, a sweep. Each of their runs has a turn in the queue."""

import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from demo.core import cores, limits
from demo.core.errors import BadInput
from demo.core.machine import HostInfo
from demo.core.result import Progress, RunResult
from demo.core.spec import RunSpec
from demo.core.speedup import ProcessResult
from demo.runs.forecast import SweepForecast, forecast_sweep
from demo.runs.outcome import NO_FILES, Files
from demo.runs.runner import Runner
from demo.store.history import History
from demo.sweep.best_table import Goal
from demo.sweep.best_way import STEADY, Search
from demo.sweep.cells import Cell, unfinished
from demo.sweep.grid import PICTURE
from demo.sweep.run_grid import Done, Event, Waiting, run_cells
from demo.sweep.ways import OTHER_FORMATS
from demo.ui.jobs.queue import RunQueue
from demo.ui.jobs.supervisor import UPDATE_SECONDS, Work

OFTEN_SECONDS = 0.25
"""Between two updates of a run, except while a CPU is timed."""
MOST_QUIET_SECONDS = 300.0
"""A run that waits for a quiet machine begins after this long in any case."""
UNWATCHED_SECONDS = 120.0
"""On a Space, a series that no page has watched for this time ends: other visitors wait at each of its runs."""
MACHINE_SECONDS = 30.0
MAX_STORED = 500
"""Stored runs of the model, newest first, in which a search looks for what it need not run again."""

Events = Generator[Event, None, None]


@dataclass(frozen=True)
class WaitingForQuiet:
    """It is this run's turn, and other programs keep the machine busy."""

    share: float
    """The part of the cores that they use, from 0 to 1."""


@dataclass(eq=False)
class Job(Work):
    """One run. Its outcome is a RunResult, an exception, or None where the visitor cancelled before it began."""

    runner: Runner
    queue: RunQueue
    visitor: str
    spec: RunSpec
    image: Path | None
    earlier: tuple[ProcessResult, ...] = ()
    """Repeats of this spec, from which the run goes on."""
    when_quiet: bool = False
    """It is to begin when no other program keeps the machine busy."""
    _turn: ExitStack = field(default_factory=ExitStack, init=False)
    """Its place in the queue, until it ends."""
    _files: Files = field(default=NO_FILES, init=False)
    _folder: tempfile.TemporaryDirectory[str] | None = field(default=None, init=False)
    """The folder of the run's files, if it is to leave any. Removed with the job, or when the app ends by itself; an
    app that is killed leaves it."""

    def __post_init__(self) -> None:
        self.title = f", {self.spec.checkpoint} with batch size {self.spec.batch_size}"
        repeat = len(self.earlier) + 1
        self.at_the_start = Progress("start", 0.0, 0.0, repeat=repeat, repeats=max(repeat, self.spec.repeats))
        self.doing = Waiting(ahead) if (ahead := len(self.queue)) else self.at_the_start
        machine = self.runner.machine
        self._on_gpu = machine is not None and machine.gpu is not None and self.spec.device != "cpu"

    @property
    def pause_seconds(self) -> float:
        timing = isinstance(self.doing, Progress) and self.doing.phase == "time"
        return UPDATE_SECONDS if timing and not self._on_gpu else OFTEN_SECONDS

    def files_of(self, id: str) -> Files:
        """The files that the run of this id left, if this job ended with it."""
        ended_with_it = isinstance(self._outcome, RunResult) and self._outcome.id == id
        return self._files.written() if ended_with_it else NO_FILES

    def forget(self) -> None:
        self._turn.close()
        if self._folder is not None:
            self._folder.cleanup()

    def _wanted_files(self) -> Files:
        """Where the run is to leave its files: the package not where the page is other people's."""
        profiled = self.spec.profile == "on" or (self.spec.profile == "auto" and self._on_gpu)
        packaged = self.spec.compiler == "aot" and not limits.on_space()
        if not (profiled or packaged):
            return NO_FILES
        self._folder = tempfile.TemporaryDirectory(prefix="worth-compiling-", ignore_cleanup_errors=True)
        folder = Path(self._folder.name)
        return Files(folder / "trace.json.gz" if profiled else None, folder / "model.pt2" if packaged else None)

    def begin(self) -> None:
        self._places = self._turn.enter_context(self.queue.join(self.visitor))

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
        """Until other programs leave the machine alone; not where others wait for their turn, and not for ever."""
        end = time.monotonic() + MOST_QUIET_SECONDS
        while len(self.queue) == 1 and time.monotonic() < end and not self.stopped:
            share = cores.others_share(windows=1)
            if share is None or share < cores.BUSY_CPU:
                break
            yield WaitingForQuiet(share)


class Series(Work):
    """Runs one after another. It has no result: what there is to show are the runs."""

    def _note(self, event: Event) -> None:
        super()._note(event)
        unwatched = time.monotonic() - self._watched_at > UNWATCHED_SECONDS
        if is_closing(event) or (unwatched and limits.on_space()):
            self.cancel()


def is_closing(event: Event) -> bool:
    """Whether the app is closing: each further run would start only to be ended."""
    result = event.cell.result if isinstance(event, Done) else None
    return result is not None and result.status == "interrupted"


@dataclass(eq=False)
class Sweep(Series):
    """One sweep."""

    cells: tuple[Cell, ...]
    """Some may have values already."""
    stored: list[RunResult]
    """Earlier runs, newest first, for the forecast of the time."""
    runner: Runner
    queue: RunQueue
    visitor: str

    def forecast(self) -> SweepForecast:
        """How long the cells without a value will take."""
        return forecast_sweep(unfinished(self.cells), self.stored, machine_of(self.runner))

    def _events(self) -> Events:
        turn = partial(self.queue.join, f"sweep of {self.visitor}", patient=True)
        return run_cells(self.cells, self.runner, PICTURE, self._cancel, turn)

    def _note(self, event: Event) -> None:
        """Replaces the tuple of cells whole, so that no page reads it half changed."""
        if isinstance(event, Done):
            self.cells = (*self.cells[: event.place], event.cell, *self.cells[event.place + 1 :])
            if event.cell.result is not None:
                self.stored.insert(0, event.cell.result)
        super()._note(event)


@dataclass(eq=False)
class BestSearch(Series):
    """One search for the best way to run a model. Several pages may watch it; they share its goal."""

    search: Search
    spec: RunSpec
    """What the form asked for, to fill it again, as `image`."""
    image: Path | None
    runner: Runner
    queue: RunQueue
    visitor: str
    goal: Goal = STEADY

    def __post_init__(self) -> None:
        spec = self.spec
        self.title = f", the search for the best way to run {spec.checkpoint} with batch size {spec.batch_size}"

    def _events(self) -> Events:
        turn = partial(self.queue.join, f"search of {self.visitor}", patient=True)
        return self.search.run(self.runner, self._cancel, turn)

    @property
    def other_formats(self) -> bool:
        """Whether it tries other number formats, too."""
        return any(way.name in OTHER_FORMATS for way in self.search.ways)

    @property
    def others(self) -> int:
        """Runs that wait while one of this search goes on; each goes before the next run of it."""
        return len(self.queue) - 1


def make_search(
    runner: Runner, history: History, spec: RunSpec, image: Path | None, other_formats: bool, minutes: float
) -> Search:
    """The search for a model, an input and a batch size. Raises BadInput and HistoryError."""
    stored = history.all(MAX_STORED, checkpoints={spec.checkpoint})
    return Search(spec, machine_of(runner), stored, image or PICTURE, other_formats, minutes)


def machine_of(runner: Runner) -> HostInfo:
    """What the waiting worker says of the machine. Raises BadInput where it has said nothing within MACHINE_SECONDS."""
    deadline = time.monotonic() + MACHINE_SECONDS
    while (machine := runner.machine) is None:
        if time.monotonic() > deadline:
            raise BadInput("The process that runs models has not started yet. Try again in a moment.")
        time.sleep(0.2)
    return machine
