"""Starts and ends child processes. A worker is a child that does one run and sends events through a pipe.

A child ends with the app, even if the app is killed: a further process, the lifeline, then kills what the child started
and removes its files. When memory runs out, Linux kills the child before the app. Not covered: processes that leave the
child's session, and a child that uses the app's files and network.
"""

import contextlib
import json
import math
import os
import queue
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, cast

from ..core import codec, format as fmt
from ..core.machine import HostInfo
from ..core.options import BadInput
from ..core.program import PACKAGE
from ..core.progress import Progress, Provisional
from ..core.result import RunResult
from ..core.result_json import from_json
from .environment import share_headers, worker_environment

EXIT_SECONDS = 2.0
DRAIN_SECONDS = 5.0
"""How long to read the last events after a worker's end: a busy machine reads a large result slowly."""
LAST_WORDS_BYTES = 2000
POLL_SECONDS = 0.2
READY_SECONDS = 120.0
MAX_MESSAGE_CHARACTERS = 64_000_000
"""The longest valid message. A result with its masks and raw times has a few million characters."""


LAST_ERROR = re.compile(r"^[\w.]*(?:Error|Exception)\b:?.*(?:\n.+){0,2}", re.MULTILINE)
"""An exception at the end of a traceback, with up to two more lines of its message."""


class WorkerDied(RuntimeError):
    """Raised if a worker sends no further event, or does not get ready. The message says why, without a full stop."""


def _last_error(words: str) -> str:
    """Returns the last exception in what a process printed, or else its last line, without a full stop."""
    last = (LAST_ERROR.findall(words) or words.splitlines())[-1]
    return fmt.shorten(" ".join(last.split()), 300).rstrip(".")


class Child:
    """A process started by `child_process`, with a `folder` for its temporary files."""

    def __init__(self, process: subprocess.Popen[bytes], folder: str, output: IO[bytes], errors: IO[bytes]) -> None:
        self.pid = process.pid
        self.folder = folder
        self._process, self._output, self._errors = process, output, errors

    def send(self, job: Mapping[str, object]) -> None:
        """Writes the job as one line of JSON. No error is raised if the process dies meanwhile."""
        pipe, rest = cast(IO[bytes], self._process.stdin).fileno(), json.dumps(job).encode() + b"\n"
        writable = select.poll()
        writable.register(pipe, select.POLLOUT)
        # A plain write of a long prompt could block for ever: the lifeline keeps the pipe open after the process has
        # died. When poll reports room, PIPE_BUF bytes fit.
        with contextlib.suppress(OSError):
            while rest and self.exit_code_now() is None:
                if writable.poll(POLL_SECONDS * 1000):
                    rest = rest[os.write(pipe, rest[: select.PIPE_BUF]) :]

    def exit_code_now(self) -> int | None:
        """Returns the exit code, such as -9 if signal 9 killed the process; None while the process runs."""
        return self._process.poll()

    def exit_code(self, seconds: float | None = EXIT_SECONDS) -> int | None:
        """Waits at most `seconds` (None: no limit). Returns the exit code; None if the process still runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def output(self) -> list[str]:
        """Returns the lines of standard output.

        Call it only after the process has ended: it moves the position at which the process would write.
        """
        self._output.seek(0)
        return self._output.read().decode(errors="replace").splitlines()

    def last_words(self) -> str:
        """Returns the last characters that the process wrote to standard error."""
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - LAST_WORDS_BYTES))
        return self._errors.read().decode(errors="replace").strip()


@contextlib.contextmanager
def child_process(module: str, *arguments: str, pass_fds: Sequence[int] = ()) -> Iterator[Child]:
    """Runs `python -m module arguments` in a session and a temporary folder of its own. Kills it at the end.

    The process inherits the file descriptors `pass_fds`. Raises OSError if disk, memory or processes run out.
    """
    with contextlib.ExitStack() as undo:
        folder = undo.enter_context(tempfile.TemporaryDirectory(prefix="worth-compiling-", ignore_cleanup_errors=True))
        share_headers(folder)
        # Files and not pipes, because processes that the child starts could hold a pipe open.
        output, errors = (undo.enter_context(tempfile.TemporaryFile(dir=folder)) for _ in range(2))
        environment = worker_environment(folder)
        # Without this folder the child could not import torch, and nothing would say why.
        os.makedirs(environment["TORCHINDUCTOR_CACHE_DIR"], exist_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", f"{PACKAGE}.backend.lifeline", folder, module, *arguments],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=errors,
            pass_fds=pass_fds,
            start_new_session=True,
            env=environment,
        )
        undo.enter_context(process)  # closes the pipes at the end
        undo.callback(_kill, process)
        # When memory runs out, Linux first kills the process with the highest score: 1000 is the maximum.
        with contextlib.suppress(OSError):  # other systems have no such file
            Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
        yield Child(process, folder, output, errors)


def _kill(process: subprocess.Popen[bytes]) -> None:
    # The number cannot be another group's by now: the lifeline stays in this group until the app closes the pipe.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


WorkerEvent = Progress | RunResult | BadInput


class Worker:
    """A process that receives one job, and the pipe through which it sends events."""

    def __init__(self, module: str) -> None:
        """Starts the process. Raises OSError."""
        self.machine: HostInfo | None = None
        """The machine as the process reports it once it has imported its libraries, and again when it is ready.

        None before."""
        self.unreadable = False
        """Whether a message was too long, no valid event, or the result of another run. A half-sent one does not count:
        the process has died."""
        self.ready = threading.Event()
        """Set when the process can take a job, or has ended. A new compile cache needs the instruction probe first."""
        self._events: queue.SimpleQueue[WorkerEvent | None] = queue.SimpleQueue()
        self._exited_at = math.inf
        """When the process ended, by `time.monotonic`. A process that it started may hold the pipe open after that."""
        reading, writing = os.pipe()
        try:
            with contextlib.ExitStack() as undo:
                self.child = undo.enter_context(child_process(module, str(writing), pass_fds=[writing]))
                threading.Thread(target=self._listen, args=[reading], daemon=True).start()
                self._running = undo.pop_all()
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)

    def _listen(self, reading: int) -> None:
        with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
            try:
                while (line := lines.readline(MAX_MESSAGE_CHARACTERS)).endswith("\n"):
                    self._receive(json.loads(line))
                self.unreadable = len(line) == MAX_MESSAGE_CHARACTERS
            except (ValueError, KeyError, TypeError, RecursionError):  # the message is no event
                self.unreadable = True
        self.ready.set()
        self._events.put(None)  # the end

    def _receive(self, message: codec.JsonObject) -> None:
        kind = message["event"]
        if kind in ("machine", "ready"):
            self.machine = codec.from_plain(HostInfo, message["machine"])
            if kind == "ready":
                self.ready.set()
        elif kind == "progress":
            self._events.put(codec.from_plain(Progress, message["progress"]))
        elif kind == "provisional":
            self._events.put(codec.from_plain(Provisional, message["provisional"]))
        elif kind == "refused":
            self._events.put(BadInput(fmt.redact(codec.from_plain(str, message["message"]))))
        elif kind == "result":
            self._events.put(from_json(message["result"]))
        else:
            raise ValueError(f"no such event: {kind}")

    def machine_when_ready(self, on_probe: Callable[[], None] = lambda: None) -> HostInfo:
        """Waits until the process can receive a job, at most `READY_SECONDS`. Returns its report of the machine.

        Calls `on_probe` once if the process first runs inductor's instruction probe, which takes seconds. If the
        process reported but did not get ready in time, the report is returned. Raises WorkerDied if none came.
        """
        end, probe_reported = time.monotonic() + READY_SECONDS, False
        while not self.ready.wait(POLL_SECONDS) and time.monotonic() < end:
            if self.machine is not None and not probe_reported:
                probe_reported = True
                on_probe()
        if self.machine is not None:
            return self.machine
        if self.unreadable:
            raise WorkerDied("it sent a message that cannot be read")
        code, words = self.child.exit_code(), self.child.last_words()
        if code is None:
            raise WorkerDied(f"it was not ready after {READY_SECONDS:.0f} s")
        raise WorkerDied(_last_error(words) if words and code >= 0 else f"it {ending(code)}")

    def next_event(self) -> WorkerEvent | None:
        """Returns the process's next event; None if none came for 0.2 s. Raises WorkerDied after the last event."""
        if self.child.exit_code_now() is not None:
            self._exited_at = min(self._exited_at, time.monotonic())
        try:
            event = self._events.get(timeout=POLL_SECONDS)
        except queue.Empty:
            if time.monotonic() <= self._exited_at + DRAIN_SECONDS:
                return None
            event = None
        if event is None:
            raise WorkerDied("it sends no further event")
        return event

    def close(self) -> None:
        """Kills the process and all processes that it started, and removes its temporary files."""
        self._running.close()


def ending(code: int) -> str:
    """Returns how a process with this exit code ended: 'was killed by signal SIGKILL'."""
    if code < 0:
        name = signal.Signals(-code).name if -code in list(signal.Signals) else str(-code)
        return f"was killed by signal {name}"
    return f"ended with exit code {code}"
