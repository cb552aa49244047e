"""Child processes: how each is started and ended, and the worker of a run, which sends its events through a pipe.

- Leaving `child_process` kills the process and all that it started, and removes its temporary files. So does the end of
  this process, even by SIGKILL (see `demo.backend.lifeline`).
- When memory runs out, Linux kills it before this process.
- A process that dies early, or never reads its job, neither blocks this one nor raises BrokenPipeError here.

Not covered: a process that the child moves into a session of its own is not killed, and the child is not confined: it
has the same user, files and network.
"""

import contextlib
import json
import math
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

from demo.core import codec, format as fmt
from demo.core.machine import HostInfo
from demo.core.progress import Progress
from demo.core.result import RunResult
from demo.core.result_json import from_json
from demo.core.spec import BadInput
from demo.runs.environment import ROOT, share_headers, worker_environment

EXIT_SECONDS = 2.0
DRAIN_SECONDS = 5.0
"""How long to wait for a worker's last events once it has ended. It ends as soon as it has sent its result, which takes
longer to read on a busy machine."""
LAST_WORDS_BYTES = 2000
POLL_SECONDS = 0.2
READY_SECONDS = 120.0
MAX_MESSAGE_CHARACTERS = 64_000_000
"""A result with its masks and raw times has a few million characters; a longer message is an error of the worker."""


class WorkerDied(RuntimeError):
    """A process that runs torch ended without an answer. The text says why, without a full stop."""


class Child:
    """A running process, as `child_process` gives it."""

    def __init__(self, process: subprocess.Popen[bytes], folder: str, output: IO[bytes], errors: IO[bytes]) -> None:
        self.pid = process.pid
        self.folder = folder
        self._process, self._output, self._errors = process, output, errors

    def send(self, job: dict[str, Any]) -> None:
        """Writes the job as one line of JSON. If the process dies meanwhile, the end of its answers shows it.

        A job can be longer than the pipe holds, and the lifeline keeps the pipe open after the process has died; so
        this writes only as much as fits without blocking, and stops when the process has exited.
        """
        pipe, rest = cast(IO[bytes], self._process.stdin).fileno(), json.dumps(job).encode() + b"\n"
        poll = select.poll()
        poll.register(pipe, select.POLLOUT)
        with contextlib.suppress(OSError):
            while rest and self.exited() is None:
                if poll.poll(POLL_SECONDS * 1000):
                    rest = rest[os.write(pipe, rest[: select.PIPE_BUF]) :]

    def exited(self) -> int | None:
        """The exit code, minus the signal's number for a killed process; None while it runs."""
        return self._process.poll()

    def exit_code(self, seconds: float | None = EXIT_SECONDS) -> int | None:
        """Waits at most `seconds` for the end, or for ever if None. The exit code; None if the process still runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def output(self) -> list[str]:
        """The lines of its standard output. Call it once the process has ended: both share one place in the file."""
        self._output.seek(0)
        return self._output.read().decode(errors="replace").splitlines()

    def last_words(self) -> str:
        """The end of what it has written to standard error."""
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - LAST_WORDS_BYTES))
        return self._errors.read().decode(errors="replace").strip()


@contextlib.contextmanager
def child_process(module: str, *arguments: str, pass_fds: Sequence[int] = ()) -> Iterator[Child]:
    """Runs `python -m module arguments` in a session and a folder of its own, and kills it at the end.

    Its standard input is a pipe for one job. What it prints goes to files: processes that it starts could hold a pipe
    open.
    Raises OSError where there is no room for files, or no memory or process left; nothing remains then.
    """
    with contextlib.ExitStack() as undo:
        folder = undo.enter_context(tempfile.TemporaryDirectory(prefix="worth-compiling-", ignore_cleanup_errors=True))
        share_headers(folder)
        output, errors = (undo.enter_context(tempfile.TemporaryFile(dir=folder)) for _ in range(2))
        environment = worker_environment(folder)
        # Without this folder importing torch fails in the child, and nothing would say why.
        os.makedirs(environment["TORCHINDUCTOR_CACHE_DIR"], exist_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-m", "demo.backend.lifeline", folder, module, *arguments],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=errors,
            pass_fds=pass_fds,
            start_new_session=True,
            cwd=ROOT,
            env=environment,
        )
        undo.enter_context(process)  # which closes its pipes
        undo.callback(_kill, process)
        with contextlib.suppress(OSError):  # not Linux
            Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
        yield Child(process, folder, output, errors)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # the lifeline keeps the group's number taken
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


Event = Progress | RunResult | BadInput


class Worker:
    """One worker process and the pipe of its events. It takes one job."""

    def __init__(self, module: str) -> None:
        """Raises OSError as `child_process` does."""
        self.machine: HostInfo | None = None
        """What the worker said of the machine; None until it is ready."""
        self.unreadable = False
        """Whether it sent a whole message that is no event, or an endless one. One cut short shows that it died."""
        self.ready = threading.Event()
        """Set once it has imported its libraries, or ended."""
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        """None: there are no more."""
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
        """Puts the worker's events on the queue until there are no more or one cannot be read."""
        with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
            try:
                while (line := lines.readline(MAX_MESSAGE_CHARACTERS)).endswith("\n"):
                    self._receive(json.loads(line))
                self.unreadable = len(line) == MAX_MESSAGE_CHARACTERS
            except (ValueError, KeyError, TypeError, RecursionError):  # of a message that is no event
                self.unreadable = True
        self.ready.set()
        self._events.put(None)

    def _receive(self, message: dict[str, Any]) -> None:
        kind = message["event"]
        if kind == "ready":
            self.machine = codec.from_plain(HostInfo, message["machine"])
            self.ready.set()
        elif kind == "progress":
            self._events.put(codec.from_plain(Progress, message["progress"]))
        elif kind == "refused":
            self._events.put(BadInput(fmt.redact(codec.from_plain(str, message["message"]))))
        elif kind == "result":
            self._events.put(from_json(message["result"]))
        else:
            raise ValueError(f"no such event: {kind}")

    def machine_when_ready(self) -> HostInfo:
        """Waits for what the worker says of the machine, `READY_SECONDS` at most. Raises WorkerDied with the last line
        that it printed, or how it ended."""
        self.ready.wait(READY_SECONDS)
        if self.machine is not None:
            return self.machine
        if self.unreadable:
            raise WorkerDied("it sent a message that cannot be read")
        code, words = self.child.exit_code(), self.child.last_words()
        if code is None:
            raise WorkerDied(f"it was not ready after {READY_SECONDS:.0f} s")
        raise WorkerDied(words.splitlines()[-1].rstrip(".") if words and code >= 0 else f"it {ending(code)}")

    def events(self) -> Iterator[Event | None]:
        """Its events; None when none came for 0.2 s.

        Ends with the pipe, or `DRAIN_SECONDS` after the worker if a process that it started holds the pipe open.
        """
        exited_at = math.inf
        while True:
            if self.child.exited() is not None:
                exited_at = min(exited_at, time.monotonic())
            try:
                if (event := self._events.get(timeout=POLL_SECONDS)) is None:
                    return
                yield event
            except queue.Empty:
                if time.monotonic() > exited_at + DRAIN_SECONDS:
                    return
                yield None

    def close(self) -> None:
        """Kills the process and everything that it started, and removes its temporary files."""
        self._running.close()


def ending(code: int | None) -> str:
    """How a process ended, as the end of a sentence. A code of None: it sent a message that cannot be read."""
    if code is None:
        return "sent a message that cannot be read"
    if code < 0:
        name = signal.Signals(-code).name if -code in list(signal.Signals) else str(-code)
        return f"was killed by signal {name}"
    return f"ended with exit code {code}"
