"""Starts, feeds, watches and cancels the worker process. One run, one fresh process; failures become results.

A spare worker that has already imported torch and transformers waits, so that a click does not pay for imports. The
next spare is started when a run has ended, never while one is being timed.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import errno
import fcntl
import getpass
import json
import logging
import os
import queue
import re
import shutil
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

from demo.core import format as fmt
from demo.core import limits
from demo.core import result as schema
from demo.core.result import BadInput, Failure, Lost, Machine, Progress, RunResult, RunSpec, Status
from demo.store.history import History, HistoryError
from demo.store.journal import Journal

POLL_SECONDS = 0.2
"""A Gradio handler sees a cancel only when it yields."""
READY_SECONDS = 120.0
CLOSING_SECONDS = 5.0
"""How long closing waits for a run on another thread to end; it looks at least every `POLL_SECONDS`."""
WORKER_MODULE = "demo.backend.run"
ROOT = Path(__file__).resolve().parents[2]
MOST_MESSAGE_CHARACTERS = 64_000_000
"""A message that is longer is none of ours: a result with its masks and raw times takes a few million."""
UNREADABLE = (ValueError, KeyError, TypeError, RecursionError)
"""What reading garbage raises."""
FOLDER_PREFIX = "worth-compiling-"
MARK = ".of-a-worker"
"""The file that says that a folder is a worker's, whatever else may be called as such folders are."""
NEEDED = re.compile(
    "PATH|HOME|USER|LOGNAME|LANG|LANGUAGE|LC_[A-Z]+|TZ|TMPDIR|XDG_CACHE_HOME|VIRTUAL_ENV|CONDA_PREFIX|SPACE_ID"
    "|CC|CXX|CPATH|C_INCLUDE_PATH|CPLUS_INCLUDE_PATH|LIBRARY_PATH|LD_LIBRARY_PATH|LD_PRELOAD"
    "|SSL_CERT_FILE|SSL_CERT_DIR|HF_HOME|HF_ENDPOINT"
    "|(HF_HUB|PYTHON|PYTORCH|TORCH|TORCHINDUCTOR|TRITON|CUDA|NVIDIA|OMP|GOMP|KMP|MKL|WORTH_COMPILING)[A-Z0-9_]*"
)
"""Variables that a worker gets on a Space: what Python, torch, the compilers and the Hub's library go by."""
SECRETS = re.compile("TOKEN|SECRET|PASSW|CREDENTIAL|KEY|AUTH|WORTH_COMPILING_DATASET")
"""And no such one, should its name begin like those."""
PR_SET_DUMPABLE = 4

_log = logging.getLogger(__name__)


class End:
    """The worker says no more: it ended, or what it said cannot be read."""


END = End()
Event = Progress | RunResult | BadInput | End


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
        self._journal = Journal(history) if history is not None else None
        self._worker_module = worker_module
        self._keeps_spare = spare
        self._timeout_seconds = timeout_seconds or limits.current().seconds
        self._one_at_a_time = threading.Lock()
        self._closing = threading.Event()
        self._machine: Machine | None = None
        self._spare: Worker | None = None
        if self._journal is not None:
            self._journal.recover()
        _clear_abandoned_folders()
        self._renew_spare()

    def _start(self) -> Worker:
        return Worker(self._worker_module)

    def _renew_spare(self) -> None:
        """A spare is a convenience: where none can be started, the next run says why."""
        if self._keeps_spare:
            try:
                self._spare = self._start()
            except OSError as error:
                _log.warning("no spare worker could be started: %s", error)

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
        """Starts a worker only to ask what machine this is. Raises Lost where it cannot even start."""
        with contextlib.closing(self._start()) as worker:
            worker.wait_until_ready()
            if worker.machine is None:
                raise Lost(worker.last_words())
            return worker.machine

    def run(
        self, spec: RunSpec, image: Path, cancel: threading.Event | None = None, trace: Path | None = None
    ) -> Iterator[Progress | RunResult]:
        """Yields Progress at least every 0.2 s and, last, the RunResult, which is then already in the history.

        Setting `cancel` ends the run with a result of status 'cancelled'; closing the generator does so too, with
        nobody left to see it. Closing the runner makes it 'interrupted'; so does a kill of this program, which the
        journal finds out. Raises BadInput where the worker finds that the job cannot be run as given.

        `trace` is a file that the worker writes what its profiler saw to, where the run has a profile.
        """
        with self._one_at_a_time:
            started = time.monotonic()
            outcome = _Outcome(spec, uuid.uuid4().hex[:12], datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
            entry = self._journal.begin(outcome.lost()) if self._journal is not None else None
            worker: Worker | None = None
            result: RunResult | None = None
            refused: BadInput | None = None
            try:
                try:
                    worker, self._spare = self._spare or self._start(), None
                    job = {
                        "id": outcome.id,
                        "started_at": outcome.started_at,
                        "spec": schema.plain(spec),
                        "image": str(image.resolve()),
                    }
                    if trace is not None:
                        job["trace"] = str(trace.resolve())
                    if spec.cache == "empty":
                        job["cache_folder"] = worker.empty_folder()
                    worker.send(job)
                except OSError as error:
                    result = outcome.not_started(error)
                while result is None and worker is not None:
                    event = worker.next_event(POLL_SECONDS)
                    elapsed = time.monotonic() - started
                    if self._closing.is_set():
                        result = outcome.lost()
                    elif cancel is not None and cancel.is_set():
                        result = outcome.cancelled()
                    elif elapsed > self._timeout_seconds:
                        result = outcome.timed_out(self._timeout_seconds)
                    elif event is None:
                        yield outcome.progress_after(elapsed)
                    elif isinstance(event, Progress):
                        outcome.progress, outcome.told_at = event, elapsed
                        yield outcome.progress_after(elapsed)
                    elif isinstance(event, BadInput):
                        refused = event
                        raise event
                    elif isinstance(event, RunResult) and event.id == outcome.id:
                        result = event
                    else:
                        result = outcome.crashed(worker)
            finally:
                if worker is not None:
                    worker.close()
                    self._machine = worker.machine or self._machine
                if refused is None:
                    result = self._keep(result or outcome.cancelled(), time.monotonic() - started)
                if entry is not None:
                    entry.end()
                self._renew_spare()
            if result is not None:
                yield result

    def _keep(self, result: RunResult, elapsed: float) -> RunResult:
        """Stores the result. What then is said of the storing is not itself stored."""
        result = _fit_to_be_shown(dataclasses.replace(result, elapsed_seconds=round(elapsed, 3)))
        if self._history is None:
            return result
        with contextlib.suppress(HistoryError):
            result = _with_earlier_costs(result, self._history)
        try:
            notice = self._history.append(result)
        except HistoryError as error:
            _log.warning("a result was not stored: %s", error)
            notice = f"This result was not stored: {error}"
        if notice:
            result = dataclasses.replace(result, warnings=(*result.warnings, fmt.for_a_stranger(notice)))
        return result

    def close(self) -> None:
        """Ends the spare, and a run in progress on another thread: its result, 'interrupted', is stored before this
        returns. A run of this very thread ends by closing its generator."""
        self._keeps_spare = False
        self._closing.set()
        if self._one_at_a_time.acquire(timeout=CLOSING_SECONDS):
            self._one_at_a_time.release()
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


def _fit_to_be_shown(result: RunResult) -> RunResult:
    """Errors of libraries name files by their whole paths; a result travels to browsers and to other people."""
    failure = result.failure
    if failure is not None:
        failure = dataclasses.replace(
            failure,
            message=fmt.for_a_stranger(failure.message),
            remedy=fmt.for_a_stranger(failure.remedy),
        )
    return dataclasses.replace(result, failure=failure, warnings=tuple(map(fmt.for_a_stranger, result.warnings)))


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

    def lost(self) -> RunResult:
        """What is stored of a run whose app was ended, or killed, in the middle."""
        return self._failed("interrupted", "The app was ended in the middle of this run.", "Run it again.")

    def not_started(self, error: OSError) -> RunResult:
        _log.warning("no worker process could be started: %s", error)
        why = os.strerror(error.errno) if error.errno else "there is no folder for temporary files"
        remedy = (
            "Free memory, processes and room in the folders for temporary files (TMPDIR) and for what is compiled "
            "(TORCHINDUCTOR_CACHE_DIR), and run it again."
        )
        return self._failed("failed", f"No worker process could be started: {why}.", remedy)

    def cancelled(self) -> RunResult:
        return self._failed("cancelled", f"Cancelled in phase '{self.progress.phase}'.", "Press Run to start it again.")

    def timed_out(self, limit: float) -> RunResult:
        return self._failed(
            "timed_out",
            f"The run was stopped in phase '{self.progress.phase}' after {fmt.duration(limit)}, the limit of one run.",
            f"Choose mode default or a smaller checkpoint, or raise {limits.variable('seconds')} (seconds).",
        )

    def crashed(self, worker: Worker) -> RunResult:
        code = None if worker.unreadable else worker.exit_code()
        if code is None:
            how = "sent a message that cannot be read"
        elif code < 0:
            name = signal.Signals(-code).name if -code in list(signal.Signals) else str(-code)
            how = f"was killed by signal {name}"
        else:
            how = f"ended with exit code {code}"
        remedy = (
            "A kill often means that the machine ran out of memory: try a smaller batch size or checkpoint."
            if code == -signal.SIGKILL
            else "python -m demo doctor says what it needs to start."
            if self.progress.phase == "start"
            else "Run it again; if it happens again, try another mode."
        )
        _log.warning("the worker %s; its last words: %s", how, worker.last_words())
        return self._failed("crashed", f"The worker process {how} in phase '{self.progress.phase}'.", remedy)

    def _failed(self, status: Status, message: str, remedy: str) -> RunResult:
        return RunResult(
            id=self.id,
            started_at=self.started_at,
            status=status,
            spec=self.spec,
            failure=Failure(self.progress.phase, message, remedy),
        )


def worker_environment(folder: str) -> dict[str, str]:
    """What a worker sees: this process's environment with `folder` for temporary files.

    The compile cache stays where torch would have put it, outside of `folder`. On a Space, where strangers choose what
    a worker loads, it gets only what is known to be needed: a secret may have any name.
    """
    environment = dict(os.environ)
    if limits.on_space():
        environment = {
            name: value for name, value in environment.items() if NEEDED.fullmatch(name) and not SECRETS.search(name)
        }
        environment |= {"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1", "HF_TOKEN_PATH": os.devnull}
    return {
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(tempfile.gettempdir(), _torch_folder()),
        **environment,
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "TMPDIR": folder,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }


def hide_environment() -> None:
    """Where this is Linux: no other process of the user can read this one's environment or memory under /proc.

    A worker is one, and this process holds what `worker_environment` leaves out. Root with the capability to trace
    processes reads it all the same, which a container's root does not have unless it was given.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def own_folder() -> tuple[str, int]:
    """A new folder for temporary files, and the lock that says that its app is alive. Raises OSError."""
    while True:
        folder = tempfile.mkdtemp(prefix=FOLDER_PREFIX)
        try:
            hold = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:  # another app, just starting, took it for abandoned
            continue
        with contextlib.suppress(BlockingIOError):  # it is just looking at it
            fcntl.flock(hold, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.isdir(folder):
                try:
                    Path(folder, MARK).touch()
                except OSError:
                    shutil.rmtree(folder, ignore_errors=True)
                    os.close(hold)
                    raise
                _share_headers(folder)
                return folder, hold
        os.close(hold)


def _torch_folder() -> str:
    """What inductor calls its folder among the temporary files."""
    user = re.sub(r'[\\/:*?"<>|]', "_", _user())
    return f"torchinductor_{user}"


def _share_headers(folder: str) -> None:
    """Lets a process whose temporary files lie in `folder` find the C++ headers that were compiled before.

    Inductor keeps them among the temporary files wherever its cache lies, and asks for them before it loads
    a kernel, be it an old one: without them each worker would compile them for itself, which takes seconds.
    """
    shared = Path(tempfile.gettempdir(), _torch_folder())
    with contextlib.suppress(OSError):
        shared.mkdir(exist_ok=True)
        Path(folder, shared.name).symlink_to(shared)


def _clear_abandoned_folders() -> None:
    """Removes what the workers of an app that was killed have left: marked as theirs, and their lock held by nobody.

    Without the mark only an empty folder goes, which an app leaves that is killed before it could mark it.
    """
    with contextlib.suppress(OSError):
        for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
            with contextlib.suppress(OSError):
                lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if (folder / MARK).is_file():
                        shutil.rmtree(folder, ignore_errors=True)
                    else:
                        folder.rmdir()
                finally:
                    os.close(lock)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number that has no name
        return str(os.getuid())


class Worker:
    """One worker process with its pipe. Its own session, so that whatever it starts can be killed with it."""

    def __init__(self, module: str) -> None:
        """Raises OSError where there is no room for files, no memory, no process or no thread left."""
        self.machine: Machine | None = None
        self.unreadable = False
        """It sent a whole message that is none, or one without an end. Half a message is but a sign of its death."""
        self._ready = threading.Event()
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        with contextlib.ExitStack() as undo:
            self._folder, self._hold = own_folder()
            undo.callback(os.close, self._hold)
            undo.callback(shutil.rmtree, self._folder, ignore_errors=True)
            # what libraries print: shown only after a crash
            self._noise = undo.enter_context(tempfile.TemporaryFile(dir=self._folder))
            environment = worker_environment(self._folder)
            # torch's import would fail for want of it, and the run would be a crash without a reason
            os.makedirs(environment["TORCHINDUCTOR_CACHE_DIR"], exist_ok=True)
            reading, writing = os.pipe()
            undo.callback(os.close, reading)
            try:
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
            finally:
                os.close(writing)
            undo.callback(self._kill)
            try:
                threading.Thread(target=self._listen, args=[reading], daemon=True).start()
            except RuntimeError as error:  # the system that has no thread left says no more than that
                raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from error
            undo.pop_all()
        with contextlib.suppress(OSError):  # when memory runs out, Linux shall end this process, not the app
            Path(f"/proc/{self._process.pid}/oom_score_adj").write_text("1000")

    def _listen(self, reading: int) -> None:
        """Puts what the worker says on the queue, and at its end, or at the first thing that is no message, END."""
        with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
            try:
                while (line := lines.readline(MOST_MESSAGE_CHARACTERS)).endswith("\n"):
                    self._hear(json.loads(line))
                self.unreadable = len(line) == MOST_MESSAGE_CHARACTERS
            except UNREADABLE:
                self.unreadable = True
        self._ready.set()
        self._events.put(END)

    def _hear(self, message: dict[str, Any]) -> None:
        kind = message["event"]
        if kind == "ready":
            self.machine = schema.load(Machine, message["machine"])
            self._ready.set()
        elif kind == "progress":
            self._events.put(schema.load(Progress, message["progress"]))
        elif kind == "refused":
            self._events.put(BadInput(fmt.for_a_stranger(schema.load(str, message["message"]))))
        elif kind == "result":
            self._events.put(RunResult.from_json(message["result"]))
        else:
            raise ValueError(f"no such event: {kind}")

    def wait_until_ready(self) -> None:
        self._ready.wait(READY_SECONDS)

    def empty_folder(self) -> str:
        """For a compile cache of this run's own; it goes when the worker does."""
        return tempfile.mkdtemp(prefix="cache-", dir=self._folder)

    def send(self, job: dict[str, Any]) -> None:
        """Hands over the one job. A worker that is already dead shows as END among its events."""
        pipe = self._process.stdin
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.write(json.dumps(job).encode() + b"\n")
                pipe.flush()

    def next_event(self, seconds: float) -> Event | None:
        """The next event, or None when there was none for so long.

        A child of the worker may keep the pipe open after the worker's own end: that end is one all the same.
        """
        try:
            return self._events.get(timeout=seconds)
        except queue.Empty:
            if self._exited() is None:
                return None
        try:
            return self._events.get(timeout=seconds)  # its last words may still be on their way
        except queue.Empty:
            return END

    def exit_code(self) -> int | None:
        """Minus the signal's number for a killed worker; None for one that is still alive after 2 s."""
        deadline = time.monotonic() + 2
        while (code := self._exited()) is None and time.monotonic() < deadline:
            time.sleep(0.02)
        return code

    def _exited(self) -> int | None:
        """Looks without collecting the process: until that its number, and its group's, cannot be given to another."""
        if self._process.returncode is not None:
            return self._process.returncode
        found = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    def last_words(self) -> str:
        self._noise.seek(0, os.SEEK_END)
        self._noise.seek(max(0, self._noise.tell() - 2000))
        return self._noise.read().decode(errors="replace").strip() or "none"

    def close(self) -> None:
        """Kills the process and everything that it started, and removes its temporary files."""
        if self._process.returncode is not None:
            return
        self._kill()
        self._noise.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._hold)

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
