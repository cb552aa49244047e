"""One process of a run, as the app sees it: its job, its progress, and a result if the process itself gives none."""

import dataclasses
import logging
import signal
import tempfile
import threading
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ..core import codec, format as fmt, limits
from ..core.options import OWN_MODEL, OptionValues, RunSpec
from ..core.program import PROGRAM
from ..core.progress import PHASE_DOING, PHASES, Progress, Provisional
from ..core.refusals import AGAIN, less_memory, other_way_to_compile
from ..core.result import Failure, RunResult, Status
from .forecast import Forecast
from .process import Worker, ending
from .repeats import ThreadPolicy

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Files:
    """Files that a run writes in addition to its result. None in a field: that file was not asked for."""

    trace: Path | None = None
    """The profiler's trace, for Perfetto."""
    package: Path | None = None
    """The package that AOTInductor builds; only with compiler "aot"."""
    kept_packages: Path | None = None
    """A folder that keeps AOTInductor's package, so that the next process of the same spec need not build it."""

    def existing(self) -> "Files":
        """Returns a copy with the files that exist. Other files' fields are None, and so is `kept_packages`."""
        return Files(**{name: file for name, file in vars(self).items() if file is not None and file.is_file()})


NO_FILES = Files()
LATE, LATE_SECONDS = 1.2, 2.0
"""A run counts as late once it has taken `LATE` times its estimate. The phase "compile" has an estimate of its own, for
the first compiled call. The phase counts as late `LATE_SECONDS` after `LATE` times this estimate, because it also
contains the rest of compiled's warm-up."""


@dataclass
class OngoingRun:
    """One process of a run that is going on. If it gives no result, a method such as `as_crashed` makes one."""

    spec: RunSpec
    """The settings of the run. The device may be 'auto' until the worker has reported the machine."""
    input_file: Path | None = None
    files: Files = NO_FILES
    cancel: threading.Event | None = None
    threads: ThreadPolicy = field(default_factory=ThreadPolicy)
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    started_at: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    begun: float = field(default_factory=time.monotonic)
    progress: Progress = field(default_factory=lambda: Progress("start", 0.0, 0.0))
    progress_at: float = 0.0
    """When `progress` came, in seconds since `begun`."""
    expected: Forecast | None = None
    """How long this process is expected to take; None if that is not known."""

    @property
    def answer(self) -> RunResult | None:
        """The provisional result: it lacks only the first call with a filled compile cache. None before it comes.

        If this first call fails, or the run is cancelled meanwhile, the provisional result is the run's result.
        """
        return self.progress.result if isinstance(self.progress, Provisional) else None

    @property
    def elapsed_seconds(self) -> float:
        return time.monotonic() - self.begun

    def progress_after(self, elapsed: float, new: Progress | None = None) -> Progress:
        """Returns the latest progress, with its times as of `elapsed`, in seconds since the process began.

        `new` becomes the latest progress, unless it is None or a provisional result is known. The remaining time counts
        down from the one that the process sent or, if it sent none, from the forecast `expected`. It is None
        once it has reached 0, once an estimate is exceeded, and when the process is done.
        """
        if new is not None and not isinstance(self.progress, Provisional):
            self.progress, self.progress_at = new, elapsed
        latest, passed = self.progress, elapsed - self.progress_at
        remaining = (latest.remaining_seconds or 0.0) - passed
        racing = latest.racing_seconds + passed if latest.racing_seconds is not None else None
        exceeded = None
        if self.expected is not None and latest.remaining_seconds is None:
            remaining, exceeded = self.expected.seconds - elapsed, self._late_estimate(elapsed, racing)
        left = remaining if remaining > 0 and exceeded is None and latest.phase != "done" else None
        return dataclasses.replace(
            latest,
            elapsed_seconds=elapsed,
            remaining_seconds=left,
            racing_seconds=racing,
            exceeded_seconds=exceeded,
        )

    def _late_estimate(self, elapsed: float, racing: float | None) -> float | None:
        """Returns the estimate, in seconds, that the run has exceeded; None if it has exceeded none.

        During the compile this is the compile's estimate, if exceeded. Otherwise it is that of the whole process.
        `elapsed`: seconds since the process began. `racing`: seconds since the compile began; None before.
        """
        if self.expected is None:
            return None
        compiles = self.expected.compile_seconds if self.progress.phase == "compile" else None
        if compiles is not None and racing is not None and racing > LATE * compiles + LATE_SECONDS:
            return compiles
        return self.expected.seconds if elapsed > LATE * self.expected.seconds else None

    def job(self, folder: str) -> dict[str, object]:
        """Returns the job to send to a process whose temporary folder is `folder`. Raises OSError."""
        job: dict[str, object] = {"id": self.id, "started_at": self.started_at, **vars(self.threads)}
        files = vars(self.files) | {"input_file": self.input_file}
        job |= {name: str(file.resolve()) for name, file in files.items() if file is not None}
        if self.spec.cache == "empty":
            job["cache_folder"] = tempfile.mkdtemp(prefix="cache-", dir=folder)
        return job | {"spec": codec.plain(self.spec)}

    def as_interrupted(self) -> RunResult:
        return self._as_failed("interrupted", "The app was ended in the middle of this run.", AGAIN)

    def not_started(self, error: OSError) -> RunResult:
        _log.warning("no worker process could be started: %s", error)
        remedy = (
            "Free memory, processes and room in the folders for temporary files (TMPDIR) and for what is compiled "
            "(TORCHINDUCTOR_CACHE_DIR), and run it again."
        )
        if isinstance(error, FileExistsError | NotADirectoryError):
            remedy = "Set TORCHINDUCTOR_CACHE_DIR and TMPDIR to folders: one of them names a file."
        return self._as_failed("failed", f"No worker process could be started: {error.strerror}.", remedy)

    def as_cancelled(self) -> RunResult:
        return self._as_failed("cancelled", f"Cancelled while {self._doing}.", AGAIN)

    def as_timed_out(self, limit: float) -> RunResult:
        change = {} if self.spec.mode == "default" else {"mode": "default"}
        return self._as_failed(
            "timed_out",
            f"The run was stopped while {self._doing} after {fmt.duration(limit)}, the limit of one run.",
            f"Choose {'mode default or ' if change else ''}a smaller model, or raise "
            f"{limits.VARIABLES['seconds']} (seconds).",
            change,
        )

    def as_crashed(self, worker: Worker) -> RunResult:
        """Returns the result for a process that died or sent an unreadable message. Call it before `worker.close`."""
        code = worker.child.exit_code()
        ended = ending(code) if code is not None else "stopped answering"
        ended = "sent a message that cannot be read" if worker.unreadable else ended
        words = worker.child.last_words()
        _log.warning("the worker %s; it printed last: %s", ended, fmt.without_secrets(words) or "nothing")
        change: OptionValues = {}
        if code == -signal.SIGKILL and self.progress.phase != "start":
            # On a CPU nobody has measured whether half formats are fast, and the process that could is gone.
            half = "float16" if self.spec.device == "cuda" else ""
            remedy, change = less_memory(self.spec, self.progress.phase in ("compile", "time"), half)
            remedy = f"A kill often means that the machine ran out of memory. {remedy}"
        elif self.progress.phase == "start":
            remedy = f"{PROGRAM} doctor says what it needs to start."
        elif self.spec.task == OWN_MODEL and self.progress.phase in PHASES[: PHASES.index("compile")]:
            remedy = "Call your function and its module in a Python process of your own: if that ends, too, fix them."
        elif self.progress.phase in PHASES[: PHASES.index("compile")]:
            remedy = AGAIN  # nothing was compiled yet, so another way to compile would not help
        else:
            other, change = other_way_to_compile(self.spec, {"fullgraph"})  # a graph break ends no process
            remedy = f"{AGAIN} {other}".strip()
        return self._as_failed("crashed", f"The worker process {ended} while {self._doing}.", remedy, change)

    @property
    def _doing(self) -> str:
        return PHASE_DOING.get(self.progress.phase, "running")

    def _as_failed(self, status: Status, message: str, remedy: str, change: OptionValues | None = None) -> RunResult:
        return self.answer or RunResult(
            id=self.id,
            started_at=self.started_at,
            status=status,
            spec=self.spec,
            failure=Failure(self.progress.phase, message, remedy, change or {}),
        )
