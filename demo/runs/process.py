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
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from demo.core import codec, format as fmt
from demo.core.machine import HostInfo
from demo.core.result import Progress, RunResult
from demo.core.result_json import from_json
from demo.core.spec import BadInput
from demo.runs.environment import ROOT, share_headers, worker_environment

EXIT_SECONDS = 2.0
LAST_WORDS_BYTES = 2000
POLL_SECONDS = 0.2
READY_SECONDS = 120.0
MAX_MESSAGE_CHARACTERS = 64_000_000
"""A result with its masks and raw times has a few million characters; a longer message is an error of the worker."""


class WorkerDied(RuntimeError):
    """A process that runs torch ended without an answer. The text is the end of its standard error."""

    @property
    def reason(self) -> str:
        """The last line of that, without its full stop."""
        return (str(self).strip().splitlines() or ["it said nothing"])[-1].rstrip(".")


class Child:
    """A running process, as `child_process` gives it."""

    def __init__(self, process: subprocess.Popen[bytes], folder: str, printed: IO[bytes]) -> None:
        self.pid = process.pid
        self.folder = folder
        self._process = process
        self._stdin, self._stdout = (pipe.fileno() if pipe else -1 for pipe in (process.stdin, process.stdout))
        self._printed = printed

    def send(self, job: dict[str, Any]) -> None:
        """Writes the job as one line of JSON. If the process dies meanwhile, the end of its answers shows it.

        A job can be longer than the pipe holds, and the lifeline keeps the pipe open after the process has died; so
        this writes only as much as fits without blocking, and stops when the process has exited.
        """
        rest = json.dumps(job).encode() + b"\n"
        with contextlib.suppress(OSError):
            while rest and self.exited() is None:
                if _is_ready(self._stdin, select.POLLOUT):
                    rest = rest[os.write(self._stdin, rest[: select.PIPE_BUF]) :]

    def lines(self) -> Iterator[bytes | None]:
        """The lines that it writes to standard output, where that is a pipe; None when none came for 0.2 s.

        Ends when the process has exited, even if one that it started still holds the pipe open.
        """
        rest = b""
        while True:
            exited = self.exited() is not None
            if _is_ready(self._stdout, select.POLLIN):
                if not (read := os.read(self._stdout, 65_536)):
                    return
                *whole, rest = (rest + read).split(b"\n")
                yield from whole
            elif exited:
                return
            else:
                yield None

    def exited(self) -> int | None:
        """The exit code, minus the signal's number for a killed process; None while it runs."""
        return self._process.poll()

    def exit_code(self) -> int | None:
        """The exit code of a process that is about to end: waits for up to 2 s. None where it runs on."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(EXIT_SECONDS)
        return None

    def last_words(self) -> str:
        """The end of what it has printed."""
        self._printed.seek(0, os.SEEK_END)
        self._printed.seek(max(0, self._printed.tell() - LAST_WORDS_BYTES))
        return self._printed.read().decode(errors="replace").strip()


@contextlib.contextmanager
def child_process(
    module: str,
    *arguments: str,
    stdout: int | None = None,
    own_errors: bool = True,
    pass_fds: Sequence[int] = (),
) -> Iterator[Child]:
    """Runs `python -m module arguments` in a session and a folder of its own, and kills it at the end.

    Its standard input is a pipe for one job. Standard error goes to a file, or to this process's own without
    `own_errors`; standard output goes to the file, too, unless `stdout` is subprocess.PIPE. Processes that the child
    starts could hold a pipe open, but not a file.
    Raises OSError where there is no room for files, or no memory or process left; nothing remains then.
    """
    with contextlib.ExitStack() as undo:
        folder = undo.enter_context(tempfile.TemporaryDirectory(prefix="worth-compiling-", ignore_cleanup_errors=True))
        share_headers(folder)
        printed = undo.enter_context(tempfile.TemporaryFile(dir=folder))
        environment = worker_environment(folder)
        # Without this folder importing torch fails in the child, and nothing would say why.
        os.makedirs(environment["TORCHINDUCTOR_CACHE_DIR"], exist_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-m", "demo.backend.lifeline", folder, module, *arguments],
            stdin=subprocess.PIPE,
            stdout=printed if stdout is None else stdout,
            stderr=printed if own_errors else None,
            pass_fds=pass_fds,
            start_new_session=True,
            cwd=ROOT,
            env=environment,
        )
        undo.enter_context(process)  # which closes its pipes
        undo.callback(_kill, process)
        with contextlib.suppress(OSError):  # not Linux
            Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
        yield Child(process, folder, printed)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # the lifeline keeps the group's number taken
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _is_ready(pipe: int, event: int) -> bool:
    """Whether, within 0.2 s, the pipe can be read or written (up to PIPE_BUF bytes) without blocking, or is closed."""
    poll = select.poll()
    poll.register(pipe, event)
    return bool(poll.poll(POLL_SECONDS * 1000))


Event = Progress | RunResult | BadInput


class Worker:
    """One worker process and the pipe of its events. It takes one job."""

    def __init__(self, module: str) -> None:
        """Raises OSError as `child_process` does."""
        self.machine: HostInfo | None = None
        """What the worker said of the machine; None until it is ready."""
        self.refusal = ""
        """Why it cannot be used: its messages are of another version."""
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
            if (version := message.get("version")) == codec.WIRE_VERSION:
                self.machine = codec.load(HostInfo, message["machine"])
            else:
                self.refusal = (
                    f"it sends messages of version {version}, and this program reads version {codec.WIRE_VERSION}"
                )
                self._events.put(BadInput(f"The worker cannot be used: {self.refusal}. Start the program again."))
            self.ready.set()
        elif kind == "progress":
            self._events.put(codec.load(Progress, message["progress"]))
        elif kind == "refused":
            self._events.put(BadInput(fmt.redact(codec.load(str, message["message"]))))
        elif kind == "result":
            self._events.put(from_json(message["result"]))
        else:
            raise ValueError(f"no such event: {kind}")

    def machine_when_ready(self) -> HostInfo:
        """What it says of the machine. Raises WorkerDied, with what it printed last or how it ended, where it says
        nothing within READY_SECONDS."""
        self.ready.wait(READY_SECONDS)
        if self.machine is not None:
            return self.machine
        if self.refusal or self.unreadable:
            raise WorkerDied(self.refusal or "it sent a message that cannot be read")
        code, words = self.child.exit_code(), self.child.last_words()
        if code is None:
            raise WorkerDied(f"it was not ready after {READY_SECONDS:.0f} s")
        raise WorkerDied(words if words and code >= 0 else f"it {ending(code)}")

    def events(self) -> Iterator[Event | None]:
        """Its events; None when none came for 0.2 s.

        Ends when the worker has, even if a process that it started still holds the pipe open, or has sent something
        that cannot be read.
        """
        while True:
            exited = self.child.exited() is not None
            try:
                if (event := self._events.get(timeout=POLL_SECONDS)) is None:
                    return
                yield event
            except queue.Empty:
                if exited:
                    return
                yield None

    def close(self) -> None:
        """Kills the process and everything that it started, and removes its temporary files."""
        self._running.close()


def ending(code: int | None) -> str:
    """How a process ended, as the end of a sentence; None: it did not end, but sent what cannot be read."""
    if code is None:
        return "sent a message that cannot be read"
    if code < 0:
        name = signal.Signals(-code).name if -code in list(signal.Signals) else str(-code)
        return f"was killed by signal {name}"
    return f"ended with exit code {code}"
