"""How every child process is started and ended: the worker, and the processes of a cache file and of a log of sizes.

Covered:
- Leaving `child_process` kills the process and all that it started, also after an error, and removes its temporary
  files.
- It ends with this process, and its temporary files go, even if this one is killed with SIGKILL (see
  `demo.backend.lifeline`).
- When memory runs out, Linux kills it before this process.
- What it prints is kept for an error message.
- A process that dies early, or never reads its job, neither blocks this one nor raises BrokenPipeError here.

Not covered:
- A process that the child moves into a session of its own is not killed.
- The child is not confined: it has the same user, files and network. `environment` says which variables it gets.
- Outside Linux nothing decides which process is killed when memory runs out.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from demo.runs.environment import ROOT, Interpreter, share_headers, worker_environment

LIFELINE_MODULE = "demo.backend.lifeline"
EXIT_SECONDS = 2.0
LAST_WORDS_BYTES = 2000
POLL_SECONDS = 0.2


class Child:
    """A running process, as `child_process` gives it."""

    def __init__(self, process: subprocess.Popen[bytes], folder: str, printed: IO[bytes]) -> None:
        self.pid = process.pid
        self.folder = folder
        """For temporary files. It is removed with the process."""
        self._process = process
        self._printed = printed

    def send(self, job: dict[str, Any]) -> None:
        """Writes the job as one line of JSON. If the process dies meanwhile, the end of its answers shows it.

        A job can be longer than the pipe holds, and the lifeline keeps the pipe open after the process has died; so
        this writes only as much as fits without blocking, and stops when the process has exited.
        """
        pipe = self._pipe(self._process.stdin)
        rest = json.dumps(job).encode() + b"\n"
        with contextlib.suppress(OSError):
            while rest and self.exited() is None:
                if _is_ready(pipe, select.POLLOUT, POLL_SECONDS):
                    rest = rest[os.write(pipe, rest[: select.PIPE_BUF]) :]

    def lines(self) -> Iterator[bytes | None]:
        """The lines that it writes to standard output, where that is a pipe; None when none came for 0.2 s.

        Ends when the process has exited, even if one that it started still holds the pipe open.
        """
        pipe, rest = self._pipe(self._process.stdout), b""
        while True:
            exited = self.exited() is not None
            if _is_ready(pipe, select.POLLIN, POLL_SECONDS):
                if not (read := os.read(pipe, 65_536)):
                    return
                *whole, rest = (rest + read).split(b"\n")
                yield from whole
            elif exited:
                return
            else:
                yield None

    def exited(self) -> int | None:
        """The exit code, minus the signal's number for a killed process; None while it runs.

        Its process group, which `_kill` needs, keeps its number: the lifeline is in it.
        """
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

    def _pipe(self, stream: IO[bytes] | None) -> int:
        if stream is None:
            raise RuntimeError("the process was started without this pipe")
        return stream.fileno()


@contextmanager
def child_process(
    module: str,
    *arguments: str,
    stdout: int | None = None,
    own_errors: bool = True,
    pass_fds: Sequence[int] = (),
    interpreter: Interpreter | None = None,
) -> Iterator[Child]:
    """Runs `python -m module arguments` in a session and a folder of its own, and kills it at the end.

    The python is this program's own, or `interpreter`.

    Its standard input is a pipe for one job. Standard error goes to a file, or to this process's own without
    `own_errors`; standard output goes to the file, too, unless `stdout` is subprocess.PIPE. The file is no pipe because
    processes that the child starts could hold a pipe open.
    Raises OSError where there is no room for files, or no memory or process left; nothing remains then.
    """
    with contextlib.ExitStack() as undo:
        folder = undo.enter_context(tempfile.TemporaryDirectory(prefix="worth-compiling-", ignore_cleanup_errors=True))
        share_headers(folder)
        printed = undo.enter_context(tempfile.TemporaryFile(dir=folder))
        environment = worker_environment(folder, interpreter)
        # Without this folder importing torch fails in the child, and nothing would say why.
        os.makedirs(environment["TORCHINDUCTOR_CACHE_DIR"], exist_ok=True)
        process = subprocess.Popen(
            [interpreter.path if interpreter else sys.executable, "-m", LIFELINE_MODULE, folder, module, *arguments],
            stdin=subprocess.PIPE,
            stdout=printed if stdout is None else stdout,
            stderr=printed if own_errors else None,
            pass_fds=pass_fds,
            start_new_session=True,
            cwd=ROOT,
            env=environment,
        )
        undo.callback(_kill, process)
        with contextlib.suppress(OSError):  # not Linux
            Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
        yield Child(process, folder, printed)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _is_ready(pipe: int, event: int, seconds: float) -> bool:
    """Whether the pipe can be read or written (up to PIPE_BUF bytes) without blocking, or its other end is closed."""
    poll = select.poll()
    poll.register(pipe, event)
    return bool(poll.poll(seconds * 1000))
