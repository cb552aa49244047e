"""Runs that outlive the page that started them: a reload, a lost connection or a closed tab does not end a run.

A job runs on a thread of its own and keeps its latest progress. Any number of pages may watch it, from any time on. A
job is found by the id of its visitor, which the browser keeps.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from demo.core import cores, limits
from demo.core.errors import BadInput
from demo.core.machine import HostInfo
from demo.core.result import Progress, RunResult
from demo.core.spec import RunSpec
from demo.core.speedup import ProcessResult
from demo.runs.outcome import NO_FILES, Files
from demo.ui.jobs.queue import RunQueue, Ticket

UPDATE_SECONDS = 0.25
"""The shortest time between two updates that a browser gets."""
CPU_TIMING_UPDATE_SECONDS = 1.0
"""The same while a CPU is timed: an update costs some 20 ms of CPU time where the browser runs on the same machine."""
REPEAT_SECONDS = 0.5
"""An unchanged state is sent again after this time: gradio notices a closed page only when it sends something."""
MOST_QUIET_SECONDS = 300.0
"""A run that waits for a quiet machine begins after this long in any case."""
KEPT_SECONDS = 3600.0
"""How long an ended job can be found. Its result stays in the history."""

TRACE, PACKAGE = "trace.json.gz", "model.pt2"

_log = logging.getLogger(__name__)

Event = Progress | RunResult


class AnyRunner(Protocol):
    """What the page and the API need of a runner: `demo.runs.runner.Runner`, or `FakeRunner` beside this file."""

    @property
    def machine(self) -> HostInfo | None: ...
    @property
    def modes(self) -> tuple[str, ...]: ...
    def run(
        self,
        spec: RunSpec,
        image: Path | None,
        cancel: threading.Event | None = None,
        files: Files = NO_FILES,
        earlier: tuple[ProcessResult, ...] = (),
    ) -> Iterator[Event]: ...
    def close(self) -> None: ...


def start_run(
    runner: AnyRunner,
    spec: RunSpec,
    image: Path | None,
    cancel: threading.Event | None = None,
    files: Files = NO_FILES,
    earlier: tuple[ProcessResult, ...] = (),
) -> contextlib.closing[Generator[Event, None, None]]:
    """A run as a context manager. Leaving it closes the runner's generator, which ends the worker."""
    return contextlib.closing(cast(Generator[Event, None, None], runner.run(spec, image, cancel, files, earlier)))


@dataclass(frozen=True)
class Waiting:
    ahead: int
    """Runs before this one, the running one included."""


@dataclass(frozen=True)
class WaitingForQuiet:
    """It is this run's turn, and other programs keep the machine busy."""

    share: float
    """Of the cores, that they use."""


@dataclass(frozen=True)
class Left:
    """The visitor cancelled before the run began."""


@dataclass(frozen=True)
class Refused:
    """The run was not possible as requested; `sentence` gives the reason."""

    sentence: str


@dataclass(frozen=True)
class Broken:
    """An unexpected error. The log has it."""


State = Waiting | WaitingForQuiet | Progress
Outcome = RunResult | Left | Refused | Broken


class Job:
    """One run, from its place in the queue to its outcome."""

    def __init__(
        self,
        spec: RunSpec,
        image: Path | None,
        ticket: Ticket,
        on_gpu: bool,
        earlier: tuple[ProcessResult, ...] = (),
        when_quiet: bool = False,
    ) -> None:
        self.spec = spec
        self.image = image
        self._when_quiet = when_quiet
        self._earlier = earlier
        repeat = len(earlier) + 1
        self.at_the_start = Progress("start", 0.0, 0.0, repeat=repeat, repeats=max(repeat, spec.repeats))
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        """The folder of the run's files, if it is to leave any. Removed with the job, or when the app ends by itself;
        an app that is killed leaves it."""
        self.delivered = False
        """Whether a page has shown the outcome."""
        self.ended_at: float | None = None
        self._ticket = ticket
        self._on_gpu = on_gpu
        self._cancel = threading.Event()
        self._changed = threading.Condition()
        self._state: State = Waiting(ticket.wait(0.0))
        self._changes = 0
        self._outcome: Outcome | None = None

    @property
    def ended(self) -> bool:
        return self.ended_at is not None

    def cancel(self) -> None:
        """Asks the job to end. It does within a second, with an outcome."""
        self._cancel.set()

    def watch(self) -> Iterator[State]:
        """Yields the job's state: at once, then after changes, at most every UPDATE_SECONDS. Ends with the job."""
        seen = -1
        while True:
            with self._changed:
                self._changed.wait_for(lambda seen=seen: self.ended or self._changes != seen, REPEAT_SECONDS)  # type: ignore[misc]
                if self.ended:
                    return
                state, seen = self._state, self._changes
            shown_at = time.monotonic()
            yield state
            with self._changed:
                self._changed.wait_for(lambda: self.ended, shown_at + UPDATE_SECONDS - time.monotonic())
                if self._times_a_cpu:
                    pause = shown_at + CPU_TIMING_UPDATE_SECONDS - time.monotonic()
                    self._changed.wait_for(lambda: not self._times_a_cpu, pause)

    def outcome(self) -> Outcome | None:
        """The outcome, which then counts as delivered; None while the job goes on."""
        self.delivered = self.ended
        return self._outcome

    def files_of(self, id: str) -> Files:
        """The files that the run of this id left, if this job ended with it."""
        ended_with_it = isinstance(self._outcome, RunResult) and self._outcome.id == id
        return self._files().written() if ended_with_it else NO_FILES

    def forget(self) -> None:
        """Removes the job's files."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    @property
    def _times_a_cpu(self) -> bool:
        return not (self._on_gpu or self.ended) and isinstance(self._state, Progress) and self._state.phase == "time"

    @property
    def _profiled(self) -> bool:
        return self.spec.profile == "on" or (self.spec.profile == "auto" and self._on_gpu)

    @property
    def _packaged(self) -> bool:
        """Whether the visitor may take the package along: not where the page is other people's."""
        return self.spec.compiler == "aot" and not limits.on_space()

    def _files(self) -> Files:
        """Where the run leaves its files."""
        if self._folder is None:
            return NO_FILES
        folder = Path(self._folder.name)
        return Files(folder / TRACE if self._profiled else None, folder / PACKAGE if self._packaged else None)

    def run(self, runner: AnyRunner) -> None:
        """Waits for its turn, runs, and sets the outcome. Called on the job's own thread."""
        try:
            if self._profiled or self._packaged:
                self._folder = tempfile.TemporaryDirectory(prefix="worth-compiling-", ignore_cleanup_errors=True)
            files = self._files()
            with self._ticket as ticket:
                while ahead := ticket.wait(REPEAT_SECONDS):
                    if self._cancel.is_set():
                        return self._end(Left())
                    self._update(Waiting(ahead))
                if self._when_quiet and not self._is_quiet(ticket):
                    return self._end(Left())
                outcome: RunResult | None = None
                with start_run(runner, self.spec, self.image, self._cancel, files, self._earlier) as events:
                    for event in events:
                        if isinstance(event, RunResult):
                            outcome = event
                        else:
                            self._update(event)
            if files.written() == NO_FILES:
                self.forget()
            self._end(outcome or Broken())
        except BadInput as refused:
            self.forget()
            self._end(Refused(str(refused)))
        except Exception:
            self.forget()
            _log.exception("a run failed inside the page")
            self._end(Broken())

    def _is_quiet(self, ticket: Ticket) -> bool:
        """Waits until other programs leave the machine alone; not where others wait for their turn, and not for ever.

        False where the visitor cancelled meanwhile.
        """
        end = time.monotonic() + MOST_QUIET_SECONDS
        while not ticket.others and time.monotonic() < end and not self._cancel.is_set():
            share = cores.others_share(windows=1)
            if share is None or share < cores.BUSY_CPU:
                break
            self._update(WaitingForQuiet(share))
        return not self._cancel.is_set()

    def _update(self, state: State) -> None:
        with self._changed:
            if state != self._state:
                self._state = state
                self._changes += 1
            self._changed.notify_all()

    def _end(self, outcome: Outcome) -> None:
        with self._changed:
            self._outcome = outcome
            self.ended_at = time.monotonic()
            self._changed.notify_all()


class Jobs:
    """The latest job of each visitor. A visitor has one running job at a time."""

    def __init__(self, runner: AnyRunner, queue: RunQueue) -> None:
        self._runner = runner
        self._queue = queue
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()

    def start(
        self,
        visitor: str,
        spec: RunSpec,
        image: Path | None,
        earlier: tuple[ProcessResult, ...] = (),
        when_quiet: bool = False,
    ) -> Job:
        """Queues a run, which goes on from the `earlier` repeats of its spec, and begins `when_quiet` if so asked.

        Raises BadInput if the queue is full, a run of this visitor goes on, or no thread can be started.
        """
        with self._lock:
            self._forget_old()
            current = self._jobs.get(visitor)
            if current is not None and not current.ended:
                raise BadInput(
                    f"A run of yours is going on already, {current.spec.checkpoint} with batch size "
                    f"{current.spec.batch_size}: wait until it has ended, or cancel it. "
                    "It is shown where this page is opened anew."
                )
            ticket = self._queue.join(visitor)
            machine = self._runner.machine
            on_gpu = machine is not None and machine.gpu is not None and spec.device != "cpu"
            job = Job(spec, image, ticket, on_gpu, earlier, when_quiet)
            # The visitor's request goes with the context: on ZeroGPU the package `spaces` reads whose quota it is.
            run = contextvars.copy_context().run
            try:
                threading.Thread(target=run, args=[job.run, self._runner], daemon=True).start()
            except Exception as error:  # without its thread the job would never leave the queue
                self._queue.leave(ticket)
                _log.warning("a run could not be started: %s", error)
                raise BadInput("This machine cannot start another run just now. Try again in a few minutes.") from error
            if current is not None:
                current.forget()
            self._jobs[visitor] = job
        return job

    def of(self, visitor: str) -> Job | None:
        """The latest job of this visitor: running, or ended within KEPT_SECONDS."""
        return self._jobs.get(visitor)

    def _forget_old(self) -> None:
        now = time.monotonic()
        old = [
            visitor
            for visitor, job in self._jobs.items()
            if job.ended_at is not None and now - job.ended_at > KEPT_SECONDS
        ]
        for visitor in old:
            self._jobs.pop(visitor).forget()
