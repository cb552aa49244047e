"""The app's side of a run: job, progress, a result if the process gives none, and what stored runs add."""

import contextlib
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
from typing import Any

from ..core import codec, format as fmt, limits
from ..core.caveat import Caveat, note
from ..core.comparison import ProcessResult
from ..core.options import OWN_MODEL, RunSpec
from ..core.program import PROGRAM
from ..core.progress import PHASE_DOING, PHASES, Progress
from ..core.refusals import AGAIN, less_memory, on_machine, other_way_to_compile
from ..core.result import Failure, RunResult, Status
from ..store import reruns
from ..store.history import History, HistoryError
from .process import Worker, ending

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Files:
    """The files that a run writes beside its result. None in a field: that file was not asked for."""

    trace: Path | None = None
    """The profiler's trace, for Perfetto."""
    package: Path | None = None
    """The package that AOTInductor builds; only with compiler "aot"."""
    kept_packages: Path | None = None
    """A folder that keeps AOTInductor's package, so that the next process of the same spec need not build it."""

    def existing(self) -> "Files":
        """Returns the paths of files that are on the disk; None for the others and for a folder."""
        return Files(**{name: file for name, file in vars(self).items() if file is not None and file.is_file()})


NO_FILES = Files()


@dataclass
class OngoingRun:
    """A process of a run, while it goes on. If the process gives no result, a method such as `as_crashed` makes one."""

    spec: RunSpec
    input_file: Path | None = None
    files: Files = NO_FILES
    cancel: threading.Event | None = None
    threads: int | None = None
    exactly: bool = False
    """Whether the run is refused if fewer cores than `threads` are free. If False, it then gets fewer threads."""
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    started_at: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    begun: float = field(default_factory=time.monotonic)
    progress: Progress = field(default_factory=lambda: Progress("start", 0.0, 0.0))
    progress_at: float = 0.0
    """When `progress` came, in seconds since `begun`."""
    answer: RunResult | None = None
    """The result, once only the first call with a filled compile cache is left to time. It stays if that call fails."""

    @property
    def elapsed_seconds(self) -> float:
        return time.monotonic() - self.begun

    def progress_after(self, elapsed: float, new: Progress | None = None) -> Progress:
        """Returns the latest progress with its times as of `elapsed`, in seconds since the run began.

        `new`, unless it is None, becomes the latest progress. The remaining time counts down; at 0 it becomes None.
        """
        if new is not None:
            self.progress, self.progress_at = new, elapsed
        latest, passed = self.progress, elapsed - self.progress_at
        remaining = (latest.remaining_seconds or 0.0) - passed
        racing = latest.racing_seconds + passed if latest.racing_seconds is not None else None
        left = remaining if remaining > 0 else None
        return dataclasses.replace(latest, elapsed_seconds=elapsed, remaining_seconds=left, racing_seconds=racing)

    def job(self, folder: str) -> dict[str, Any]:
        """Returns the message that starts the run in a process whose temporary folder is `folder`. Raises OSError."""
        job = {name: getattr(self, name) for name in ("id", "started_at", "threads", "exactly")}
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
        """Returns the result of a process that died or sent an unreadable message. Call it before `worker.close`."""
        code = worker.child.exit_code()
        ended = ending(code) if code is not None else "stopped answering"
        ended = "sent a message that cannot be read" if worker.unreadable else ended
        _log.warning("the worker %s; it printed last: %s", ended, worker.child.last_words() or "nothing")
        change: dict[str, Any] = {}
        if code == -signal.SIGKILL and self.progress.phase != "start" and worker.machine is not None:
            spec = on_machine(self.spec, worker.machine)
            # On a CPU nobody has measured whether half formats are fast, and the process that could is gone.
            half = "float16" if spec.device == "cuda" else ""
            remedy, change = less_memory(spec, self.progress.phase in ("compile", "time"), half)
            remedy = f"A kill often means that the machine ran out of memory. {remedy}"
        elif self.progress.phase == "start":
            remedy = f"{PROGRAM} doctor says what it needs to start."
        elif self.progress.phase in PHASES[: PHASES.index("compile")]:
            remedy = AGAIN  # nothing was compiled yet, so another way to compile would not help
        else:
            other, change = other_way_to_compile(self.spec, {"fullgraph"})  # a graph break ends no process
            remedy = f"{AGAIN} {other}".strip()
        return self._as_failed("crashed", f"The worker process {ended} while {self._doing}.", remedy, change)

    @property
    def _doing(self) -> str:
        return PHASE_DOING.get(self.progress.phase, "running")

    def _as_failed(self, status: Status, message: str, remedy: str, change: dict[str, Any] | None = None) -> RunResult:
        return self.answer or RunResult(
            id=self.id,
            started_at=self.started_at,
            status=status,
            spec=self.spec,
            failure=Failure(self.progress.phase, message, remedy, change or {}),
        )


def with_earlier_costs(result: RunResult, history: History) -> RunResult:
    """Adds what earlier runs with the same settings know of a first call with an empty and with a filled cache.

    Their seconds become `first_calls`, over which `starts` are pooled. A cost that the result lacks is the newest of
    theirs. A user's own model gets none: its file may have changed. Raises HistoryError if the history cannot be read.
    """
    compilation = result.compilation
    if compilation is None or result.spec.task == OWN_MODEL:
        return result
    costs = history.compile_costs(result)
    newest = {cache: those[0] for cache, those in costs.items()}
    cold, warm = compilation.cold or newest.get("cold"), compilation.warm or newest.get("warm")
    pool = {
        cache: tuple(cost.first_call_seconds for cost in reversed(those) if cost not in (cold, warm))
        for cache, those in costs.items()
    }
    compilation = dataclasses.replace(compilation, cold=cold, warm=warm)
    return dataclasses.replace(
        result, compilation=compilation, first_calls={key: pool[key] for key in pool if pool[key]}
    )


def with_earlier_runs(result: RunResult, earlier: tuple[ProcessResult, ...], history: History | None) -> RunResult:
    """Adds to the result the earlier processes over which its speed-up is pooled, and the spread between processes.

    `earlier`: previous processes of the same run, stored or not. `history`: None if nothing is stored.
    """
    if result.speedup is None:
        return result
    same, others, deleted = [], [], earlier
    if history is not None:
        with contextlib.suppress(HistoryError):
            same, others = history.reruns(result, same_model=True), history.reruns(result)
            if result.spec.task != OWN_MODEL:  # an own model has no `same`: all of `earlier` count
                deleted = tuple(run for run in earlier if history.get(run.id) is None)
    pool = reruns.earlier_processes(result, same, deleted)
    if left_out := len({run.id for run in earlier} - {run.id for run in pool}):
        result = dataclasses.replace(result, caveats=(*result.caveats, Caveat("not_counted", {"count": left_out})))
    spread = reruns.spread(result, others)
    return dataclasses.replace(result, earlier=pool, spread=spread)


def with_answer_without_breaks(result: RunResult, history: History) -> RunResult:
    """Adds the latest stored speed-up without added graph breaks to a result whose spec asks for such breaks.

    The other settings are the same. A result without such breaks stays as it is. Raises HistoryError.
    """
    if not result.spec.graph_break:
        return result
    plain = dataclasses.replace(result, spec=dataclasses.replace(result.spec, graph_break=False))
    known = reruns.earlier_processes(plain, history.reruns(plain, same_model=True))
    latest = history.get(known[-1].id) if known else None
    return dataclasses.replace(result, without_breaks=latest.speedup if latest is not None else None)


def redact(result: RunResult) -> RunResult:
    """Returns the result without folders and control characters in its texts, because other people may see it."""
    failure = result.failure
    if failure is not None:
        failure = dataclasses.replace(failure, message=fmt.redact(failure.message), remedy=fmt.redact(failure.remedy))
    return dataclasses.replace(result, failure=failure, caveats=tuple(one.redact() for one in result.caveats))


def store(result: RunResult, history: History) -> RunResult:
    """Stores the result and returns it, with a warning if it was not stored or an unusable file was renamed."""
    try:
        notice = history.append(result)
    except HistoryError as error:
        _log.warning("a result was not stored: %s", error)
        notice = f"This result was not stored: {error}"
    return dataclasses.replace(result, caveats=(*result.caveats, note(notice).redact())) if notice else result
