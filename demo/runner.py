"""Starts, feeds, watches and cancels the worker process. One run, one fresh process; failures become results.

A spare worker that has already imported torch and transformers waits, so that a click does not pay for imports. The
next spare is started when a run has ended, never while one is being timed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from demo import format as fmt
from demo import schema
from demo.history import History, HistoryError
from demo.schema import BadInput, Failure, Machine, Progress, RunResult, RunSpec, Status

POLL_SECONDS = 0.2
"""A Gradio handler sees a cancel only when it yields."""
TIMEOUT_SECONDS = 1800.0
"""Wall clock of one run; a cold compile of the largest checkpoint took 260 s on two CPU cores."""
TIMEOUT_VARIABLE = "WORTH_COMPILING_TIMEOUT"
READY_SECONDS = 120.0
WORKER_MODULE = "demo.backend.worker"
ROOT = Path(__file__).resolve().parent.parent


class Runner:
    """Runs specs one after another, each in a process of its own, and appends every result to the history."""

    def __init__(
        self,
        history: History | None,
        spare: bool = False,
        timeout_seconds: float | None = None,
        worker_module: str = WORKER_MODULE,
    ) -> None:
        self._history = history
        self._worker_module = worker_module
        self._keeps_spare = spare
        self._timeout_seconds = timeout_seconds or _timeout_from_environment()
        self._one_at_a_time = threading.Lock()
        self._machine: Machine | None = None
        self._spare = self._start() if spare else None

    def _start(self) -> Worker:
        return Worker(self._worker_module)

    @property
    def machine(self) -> Machine | None:
        """What the waiting worker said of the machine; None until it is ready."""
        if self._machine is None and self._spare is not None:
            self._machine = self._spare.machine
        return self._machine

    @property
    def modes(self) -> tuple[str, ...]:
        """The compile modes that torch offers here; all known ones until the worker has said."""
        return self.machine.modes if self.machine else schema.MODES

    def inspect(self) -> Machine:
        """Starts a worker only to ask what machine this is. Raises RuntimeError where it cannot even start."""
        with contextlib.closing(self._start()) as worker:
            worker.wait_until_ready()
            if worker.machine is None:
                raise RuntimeError(f"The worker process did not start. Its last words: {worker.last_words()}")
            return worker.machine

    def run(self, spec: RunSpec, image: Path, cancel: threading.Event | None = None) -> Iterator[Progress | RunResult]:
        """Yields Progress at least every 0.2 s and, last, the RunResult, which is then already in the history.

        Setting `cancel` ends the run with a result of status 'cancelled'; closing the generator does so too, with
        nobody left to see it. Raises BadInput where the worker finds that the job cannot be run as given.
        """
        with self._one_at_a_time:
            worker, self._spare = self._spare or self._start(), None
            started = time.monotonic()
            outcome = _Outcome(spec, uuid.uuid4().hex[:12], datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
            result: RunResult | None = None
            refused = False
            own_cache = contextlib.ExitStack()  # left after the worker, which may still be writing into it
            try:
                job = {
                    "id": outcome.id,
                    "started_at": outcome.started_at,
                    "spec": schema.plain(spec),
                    "image": str(image.resolve()),
                }
                if spec.cache == "empty":
                    folder = tempfile.TemporaryDirectory(prefix="worth-compiling-", ignore_cleanup_errors=True)
                    job["cache_folder"] = own_cache.enter_context(folder)
                worker.send(job)
                while result is None:
                    event = worker.next_event(POLL_SECONDS)
                    elapsed = time.monotonic() - started
                    if cancel is not None and cancel.is_set():
                        result = outcome.cancelled()
                    elif elapsed > self._timeout_seconds:
                        result = outcome.timed_out(self._timeout_seconds)
                    elif event is None:
                        yield outcome.progress_after(elapsed)
                    elif event["event"] == "progress":
                        outcome.progress, outcome.told_at = schema.load(Progress, event["progress"]), elapsed
                        yield outcome.progress_after(elapsed)
                    elif event["event"] == "refused":
                        refused = True
                        raise BadInput(event["message"])
                    elif event["event"] == "result":
                        result = RunResult.from_json(event["result"])
                    elif event["event"] == "end":
                        result = outcome.crashed(worker)
            finally:
                worker.close()
                own_cache.close()
                if not refused:
                    result = self._keep(result or outcome.cancelled(), time.monotonic() - started)
                self._machine = worker.machine or self._machine
                if self._keeps_spare:
                    self._spare = self._start()
            yield result

    def _keep(self, result: RunResult, elapsed: float) -> RunResult:
        result = dataclasses.replace(result, elapsed_seconds=round(elapsed, 3))
        if self._history is not None:
            try:
                result = _with_earlier_costs(result, self._history)
                self._history.append(result)
            except HistoryError as error:
                result = dataclasses.replace(
                    result, warnings=(*result.warnings, f"This result was not stored: {error}")
                )
        return result

    def close(self) -> None:
        """Ends the spare. A run in progress ends by closing its generator."""
        self._keeps_spare = False
        if self._spare is not None:
            self._spare.close()
            self._spare = None


def _with_earlier_costs(result: RunResult, history: History) -> RunResult:
    """With the compile cost that this run did not measure, cold or warm, as an earlier run of the same did."""
    compilation = result.compilation
    if compilation is None or (compilation.cold and compilation.warm):
        return result
    known = history.compile_costs(result)
    filled = dataclasses.replace(
        compilation, cold=compilation.cold or known.get("cold"), warm=compilation.warm or known.get("warm")
    )
    return dataclasses.replace(result, compilation=filled)


def _timeout_from_environment() -> float:
    given = os.environ.get(TIMEOUT_VARIABLE, "")
    if not given:
        return TIMEOUT_SECONDS
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise BadInput(f"{TIMEOUT_VARIABLE} must be a number of seconds above 0. Given: {given!r}.")
    return seconds


@dataclasses.dataclass
class _Outcome:
    """A run from outside: what to say of it when the worker itself can say nothing."""

    spec: RunSpec
    id: str
    started_at: str
    progress: Progress = dataclasses.field(default_factory=lambda: Progress("start", 0.0, 0.0))
    told_at: float = 0.0
    """Seconds after the click at which `progress` came."""

    def progress_after(self, elapsed: float) -> Progress:
        """The last progress with the seconds since the click, and the time left counted down."""
        remaining = self.progress.remaining_seconds
        if remaining is not None:
            remaining -= elapsed - self.told_at
        # An estimate that has run out is no longer one.
        known = remaining if remaining is not None and remaining > 0 else None
        return dataclasses.replace(self.progress, elapsed_seconds=elapsed, remaining_seconds=known)

    def cancelled(self) -> RunResult:
        return self._failed("cancelled", f"Cancelled in phase '{self.progress.phase}'.", "Press Run to start it again.")

    def timed_out(self, limit: float) -> RunResult:
        return self._failed(
            "timed_out",
            f"The run was stopped in phase '{self.progress.phase}' after {fmt.duration(limit)}, the limit of one run.",
            f"Choose mode default or a smaller checkpoint, or raise {TIMEOUT_VARIABLE} (seconds).",
        )

    def crashed(self, worker: Worker) -> RunResult:
        code = worker.exit_code()
        if code is not None and code < 0:
            name = signal.Signals(-code).name if -code in list(signal.Signals) else str(-code)
            how = f"was killed by signal {name}"
        else:
            how = f"ended with exit code {code}"
        remedy = (
            "A kill often means that the machine ran out of memory: try a smaller batch size or checkpoint."
            if code == -signal.SIGKILL
            else "Run it again; if it happens again, try another mode."
        )
        sys.stderr.write(f"The worker {how}. Its last words: {worker.last_words()}\n")
        return self._failed("crashed", f"The worker process {how} in phase '{self.progress.phase}'.", remedy)

    def _failed(self, status: Status, message: str, remedy: str) -> RunResult:
        return RunResult(
            id=self.id,
            started_at=self.started_at,
            status=status,
            spec=self.spec,
            failure=Failure(self.progress.phase, message, remedy),
        )


class Worker:
    """One worker process with its pipe. Its own session, so that whatever it starts can be killed with it."""

    def __init__(self, module: str) -> None:
        reading, writing = os.pipe()
        self._noise = tempfile.TemporaryFile()  # what libraries print: shown only after a crash
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, str(writing)],
            stdin=subprocess.PIPE,
            stdout=self._noise,
            stderr=self._noise,
            pass_fds=[writing],
            start_new_session=True,
            cwd=ROOT,
            env=environment,
        )
        os.close(writing)
        self.machine: Machine | None = None
        self._ready = threading.Event()
        self._events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._listen, args=[reading], daemon=True).start()

    def _listen(self, reading: int) -> None:
        with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    event = json.loads(line)
                    if event["event"] == "ready":
                        self.machine = schema.load(Machine, event["machine"])
                        self._ready.set()
                    else:
                        self._events.put(event)
                except (ValueError, KeyError, TypeError):
                    break  # half a message or garbage: the worker is no longer to be trusted
        self._ready.set()
        self._events.put({"event": "end"})

    def wait_until_ready(self) -> None:
        self._ready.wait(READY_SECONDS)

    def send(self, job: dict[str, Any]) -> None:
        """Hands over the one job. A worker that is already dead shows as an 'end' event."""
        pipe = self._process.stdin
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.write(json.dumps(job).encode() + b"\n")
                pipe.flush()

    def next_event(self, seconds: float) -> dict[str, Any] | None:
        """The next event, or None when there was none for so long."""
        try:
            return self._events.get(timeout=seconds)
        except queue.Empty:
            return None

    def exit_code(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
        return self._process.returncode

    def last_words(self) -> str:
        self._noise.seek(0, os.SEEK_END)
        self._noise.seek(max(0, self._noise.tell() - 2000))
        return self._noise.read().decode(errors="replace").strip() or "none"

    def close(self) -> None:
        """Kills the process and everything that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        self._noise.close()
