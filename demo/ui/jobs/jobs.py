"""A run of the page: from its place in the queue to its outcome."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from demo.core import cores, limits
from demo.core.result import Progress, RunResult
from demo.core.spec import RunSpec
from demo.core.speedup import ProcessResult
from demo.runs.any_runner import AnyRunner
from demo.runs.outcome import NO_FILES, Files
from demo.ui.jobs.queue import Ticket
from demo.ui.jobs.supervisor import Broken, Work

UPDATE_SECONDS = 0.25
"""The shortest time between two updates that a browser gets."""
CPU_TIMING_UPDATE_SECONDS = 1.0
"""The shortest time while a CPU is timed: an update costs some 20 ms of CPU time where the browser runs on it, too."""
REPEAT_SECONDS = 0.5
"""An unchanged state is sent again after this time: gradio notices a closed page only when it sends something."""
MOST_QUIET_SECONDS = 300.0
"""A run that waits for a quiet machine begins after this long in any case."""

TRACE, PACKAGE = "trace.json.gz", "model.pt2"


@dataclass(frozen=True)
class Waiting:
    ahead: int
    """Runs before this one, the running one included."""


@dataclass(frozen=True)
class WaitingForQuiet:
    """It is this run's turn, and other programs keep the machine busy."""

    share: float
    """The part of the cores that they use, from 0 to 1."""


@dataclass(frozen=True)
class Left:
    """The visitor cancelled before the run began."""


State = Waiting | WaitingForQuiet | Progress


class Job(Work):
    """One run. Its outcome is a RunResult, Left, Refused or Broken."""

    def __init__(
        self,
        runner: AnyRunner,
        ticket: Ticket,
        spec: RunSpec,
        image: Path | None,
        earlier: tuple[ProcessResult, ...] = (),
        when_quiet: bool = False,
    ) -> None:
        """The run goes on from the `earlier` repeats of its spec, and begins `when_quiet` if so asked."""
        super().__init__()
        self.spec = spec
        self.image = image
        self.title = f", {spec.checkpoint} with batch size {spec.batch_size}"
        self._runner = runner
        self._ticket = ticket
        self._when_quiet = when_quiet
        self._earlier = earlier
        repeat = len(earlier) + 1
        self.at_the_start = Progress("start", 0.0, 0.0, repeat=repeat, repeats=max(repeat, spec.repeats))
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        """The folder of the run's files, if it is to leave any. Removed with the job, or when the app ends by itself;
        an app that is killed leaves it."""
        machine = runner.machine
        self._on_gpu = machine is not None and machine.gpu is not None and spec.device != "cpu"
        self._state: State = Waiting(ticket.wait(0.0))

    def watch(self) -> Iterator[State]:
        """Yields the job's state: at once, then after changes, at most every UPDATE_SECONDS. Ends with the job."""
        while not self.ended:
            state = self._state
            yield state
            with self._changed:
                self._changed.wait_for(lambda: self.ended, UPDATE_SECONDS)
                self._changed.wait_for(
                    lambda state=state: self.ended or self._state is not state,  # type: ignore[misc]
                    REPEAT_SECONDS - UPDATE_SECONDS,
                )
                self._changed.wait_for(lambda: not self._times_a_cpu, CPU_TIMING_UPDATE_SECONDS - UPDATE_SECONDS)

    def files_of(self, id: str) -> Files:
        """The files that the run of this id left, if this job ended with it."""
        ended_with_it = isinstance(self._outcome, RunResult) and self._outcome.id == id
        return self._files().written() if ended_with_it else NO_FILES

    def forget(self) -> None:
        self._ticket.leave()
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

    def _work(self) -> RunResult | Left | Broken:
        outcome: RunResult | Left | Broken = Broken()
        try:
            if self._profiled or self._packaged:
                self._folder = tempfile.TemporaryDirectory(prefix="worth-compiling-", ignore_cleanup_errors=True)
            with self._ticket as ticket:
                while ahead := ticket.wait(REPEAT_SECONDS):
                    if self._cancel.is_set():
                        return Left()
                    self._update(Waiting(ahead))
                if self._when_quiet and not self._is_quiet(ticket):
                    return Left()
                files = self._files()
                with contextlib.closing(
                    self._runner.run(self.spec, self.image, self._cancel, files, self._earlier)
                ) as events:
                    for event in events:
                        if isinstance(event, RunResult):
                            outcome = event
                        else:
                            self._update(event)
        finally:
            if not isinstance(outcome, RunResult) or self._files().written() == NO_FILES:
                self.forget()
        return outcome

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
            self._changed.notify_all()
