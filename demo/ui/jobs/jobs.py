"""Runs that outlive the page that asked for them: a reload, a lost connection or a closed tab ends no run.

A job runs on a thread of its own and keeps its latest news; any number of pages may watch it, from whenever on. It
is found again by its visitor, whose id lies in the browser.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from demo.core.result import BadInput, Progress, RunResult, RunSpec
from demo.runs.runner import own_folder
from demo.ui import runs
from demo.ui.jobs.queue import Line, Place
from demo.ui.runs import AnyRunner

UPDATE_SECONDS = 0.25
"""At most four updates a second reach the browser."""
CALM_SECONDS = 1.0
"""And one a second while a CPU is timed: each takes some 20 ms of its cores where the browser runs on them too."""
QUIET_SECONDS = 0.5
"""A page is told the same again after so long: gradio notices a page that has left only when something is sent."""
KEPT_SECONDS = 3600.0
"""How long an ended job can be found again. Its result lies in the history for longer."""

TRACE = "trace.json.gz"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Waiting:
    ahead: int
    """Runs before this one, the running one included."""


@dataclass(frozen=True)
class Left:
    """The visitor gave up the place in the line before the run had begun."""


@dataclass(frozen=True)
class Refused:
    """The run could not be done as it was asked for; `sentence` says why."""

    sentence: str


@dataclass(frozen=True)
class Broken:
    """An error that nobody expected. It is in the log."""


News = Waiting | Progress
Outcome = RunResult | Left | Refused | Broken


class Job:
    """One run, from its place in the line to its outcome."""

    def __init__(self, spec: RunSpec, image: Path, place: Place, on_gpu: bool) -> None:
        self.spec = spec
        self.image = image
        self._folder: tuple[Path, int] | None = None
        """Of the trace of this run, where it has one, with the hold on it. It goes when nobody finds the job any more;
        what a killed app has left goes with the next start."""
        self.delivered = False
        """Whether some page has shown the outcome."""
        self.ended_at: float | None = None
        self._place = place
        self._on_gpu = on_gpu
        self._cancel = threading.Event()
        self._changed = threading.Condition()
        self._news: News = Waiting(place.wait(0.0))
        self._told = 0
        self._outcome: Outcome | None = None

    @property
    def ended(self) -> bool:
        return self.ended_at is not None

    def cancel(self) -> None:
        """The job ends by itself, within a second, and tells what became of it."""
        self._cancel.set()

    def watch(self) -> Iterator[News]:
        """How the job stands, at once, then whenever that changed, though not too often; ends with the job."""
        seen = -1
        while True:
            with self._changed:
                self._changed.wait_for(lambda seen=seen: self.ended or self._told != seen, QUIET_SECONDS)  # type: ignore[misc]
                if self.ended:
                    return
                news, seen = self._news, self._told
            shown_at = time.monotonic()
            yield news
            with self._changed:
                self._changed.wait_for(lambda: self.ended, shown_at + UPDATE_SECONDS - time.monotonic())
                if self._times_a_cpu:
                    self._changed.wait_for(lambda: not self._times_a_cpu, shown_at + CALM_SECONDS - time.monotonic())

    def outcome(self) -> Outcome | None:
        """What became of the job, which counts as delivered then; None as long as it goes on."""
        self.delivered = self.ended
        return self._outcome

    def trace_of(self, id: str) -> Path | None:
        """What the profiler saw, where the run with this id is the one that this job ended with."""
        if self._folder is None or not isinstance(self._outcome, RunResult) or self._outcome.id != id:
            return None
        return self._folder[0] / TRACE

    def forget(self) -> None:
        """Nothing of the job is left on the disk."""
        if self._folder is not None:
            folder, hold = self._folder
            self._folder = None
            shutil.rmtree(folder, ignore_errors=True)
            os.close(hold)

    @property
    def _times_a_cpu(self) -> bool:
        return not (self._on_gpu or self.ended) and isinstance(self._news, Progress) and self._news.phase == "time"

    @property
    def _profiled(self) -> bool:
        return self.spec.profile == "on" or (self.spec.profile == "auto" and self._on_gpu)

    def run(self, runner: AnyRunner) -> None:
        """The whole life of the job, on the thread that calls this."""
        try:
            if self._profiled:
                folder, hold = own_folder()
                self._folder = Path(folder), hold
            trace = self._folder[0] / TRACE if self._folder else None
            with self._place as place:
                while ahead := place.wait(QUIET_SECONDS):
                    if self._cancel.is_set():
                        return self._end(Left())
                    self._tell(Waiting(ahead))
                outcome: RunResult | None = None
                with runs.start(runner, self.spec, self.image, self._cancel, trace) as events:
                    for event in events:
                        if isinstance(event, RunResult):
                            outcome = event
                        else:
                            self._tell(event)
            if trace is not None and not trace.is_file():
                self.forget()
            self._end(outcome or Broken())
        except BadInput as refused:
            self.forget()
            self._end(Refused(str(refused)))
        except Exception:
            self.forget()
            _log.exception("a run failed inside the page")
            self._end(Broken())

    def _tell(self, news: News) -> None:
        with self._changed:
            if news != self._news:
                self._news = news
                self._told += 1
            self._changed.notify_all()

    def _end(self, outcome: Outcome) -> None:
        with self._changed:
            self._outcome = outcome
            self.ended_at = time.monotonic()
            self._changed.notify_all()


class Jobs:
    """The jobs of all visitors: the latest one of each, one at a time."""

    def __init__(self, runner: AnyRunner, line: Line) -> None:
        self._runner = runner
        self._line = line
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()

    def start(self, visitor: str, spec: RunSpec, image: Path) -> Job:
        """Takes the last place in the line.

        Raises BadInput where it is full, where a run of this visitor goes on, and where no thread is to be had.
        """
        with self._lock:
            self._forget()
            current = self._jobs.get(visitor)
            if current is not None and not current.ended:
                raise BadInput(
                    f"A run of yours is going on already, {current.spec.checkpoint} with batch size "
                    f"{current.spec.batch_size}: wait until it has ended, or cancel it. "
                    "It is shown where this page is opened anew."
                )
            place = self._line.join(visitor)
            machine = self._runner.machine
            job = Job(spec, image, place, machine is not None and machine.gpu is not None and spec.device != "cpu")
            try:
                threading.Thread(target=job.run, args=[self._runner], daemon=True).start()
            except Exception as error:  # no thread to be had: nobody else would ever leave the place
                self._line.leave(place)
                _log.warning("a run could not be started: %s", error)
                raise BadInput("This machine cannot start another run just now. Try again in a few minutes.") from error
            if current is not None:
                current.forget()
            self._jobs[visitor] = job
        return job

    def of(self, visitor: str) -> Job | None:
        """The latest job of this visitor, running or ended not long ago."""
        return self._jobs.get(visitor)

    def _forget(self) -> None:
        now = time.monotonic()
        old = [
            visitor
            for visitor, job in self._jobs.items()
            if job.ended_at is not None and now - job.ended_at > KEPT_SECONDS
        ]
        for visitor in old:
            self._jobs.pop(visitor).forget()
