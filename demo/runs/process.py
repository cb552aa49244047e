"""The worker process as its runner sees it: the events that it sends through a pipe, and its death."""

import contextlib
import dataclasses
import json
import os
import queue
import signal
import threading
from typing import Any

from demo.core import codec, format as fmt
from demo.core.machine import HostInfo
from demo.core.result import Progress, RunResult
from demo.core.spec import BadInput
from demo.runs.child import child_process
from demo.runs.environment import Interpreter

READY_SECONDS = 120.0
MAX_MESSAGE_CHARACTERS = 64_000_000
"""A result with its masks and raw times has a few million characters; a longer message is an error of the worker."""
UNREADABLE = (ValueError, KeyError, TypeError, RecursionError)
"""What parsing a message that is no event raises."""


class WorkerDied(RuntimeError):
    """A process that runs torch ended without an answer. The text is the end of its standard error."""

    @property
    def reason(self) -> str:
        """The last line of that, without its full stop."""
        return (str(self).strip().splitlines() or ["it said nothing"])[-1].rstrip(".")


class WorkerExited:
    """The last event of every worker: it ended, or it sent something that cannot be read."""


WORKER_EXITED = WorkerExited()
Event = Progress | RunResult | BadInput | WorkerExited


class Worker:
    """One worker process and the pipe of its events. It takes one job."""

    def __init__(self, module: str, interpreter: Interpreter | None = None) -> None:
        """Raises OSError where there is no room for files, no memory or no process left, or where `interpreter` is no
        program."""
        self._interpreter = interpreter
        self.machine: HostInfo | None = None
        """What the worker said of the machine; None until it is ready."""
        self.refusal = ""
        """Why it cannot be used although it is ready: its messages are of another version."""
        self.unreadable = False
        """Whether it sent a complete message that is no event, or an endless one. A message that is cut short does not
        count: it only shows that the worker died."""
        self._ready = threading.Event()
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        reading, writing = os.pipe()
        try:
            with contextlib.ExitStack() as undo:
                self.child = undo.enter_context(
                    child_process(module, str(writing), pass_fds=[writing], interpreter=interpreter)
                )
                threading.Thread(target=self._listen, args=[reading], daemon=True).start()
                self._running = undo.pop_all()
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)

    def _listen(self, reading: int) -> None:
        """Puts the worker's events on the queue, and WORKER_EXITED when there are no more or one cannot be read."""
        with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
            try:
                while (line := lines.readline(MAX_MESSAGE_CHARACTERS)).endswith("\n"):
                    self._receive(json.loads(line))
                self.unreadable = len(line) == MAX_MESSAGE_CHARACTERS
            except UNREADABLE:
                self.unreadable = True
        self._ready.set()
        self._events.put(WORKER_EXITED)

    def _receive(self, message: dict[str, Any]) -> None:
        kind = message["event"]
        if kind == "ready":
            if (version := message.get("version")) == codec.WIRE_VERSION:
                label = self._interpreter.label if self._interpreter else None
                self.machine = dataclasses.replace(codec.load(HostInfo, message["machine"]), interpreter=label)
            else:
                self.refusal = (
                    f"it sends messages of version {version}, and this program reads version {codec.WIRE_VERSION}"
                )
                self._events.put(BadInput(f"The worker cannot be used: {self.refusal}. Start the program again."))
            self._ready.set()
        elif kind == "progress":
            self._events.put(codec.load(Progress, message["progress"]))
        elif kind == "refused":
            self._events.put(BadInput(fmt.redact(codec.load(str, message["message"]))))
        elif kind == "result":
            self._events.put(RunResult.from_json(message["result"]))
        else:
            raise ValueError(f"no such event: {kind}")

    def machine_when_ready(self) -> HostInfo:
        """What it says of the machine once it has imported its libraries.

        Raises WorkerDied, with what it printed last or how it ended, where it says nothing within READY_SECONDS.
        """
        self._ready.wait(READY_SECONDS)
        if self.machine is not None:
            return self.machine
        if self.refusal or self.unreadable:
            raise WorkerDied(self.refusal or "it sent a message that cannot be read")
        code, words = self.child.exit_code(), self.child.last_words()
        if code is None:
            raise WorkerDied(f"it was not ready after {READY_SECONDS:.0f} s")
        raise WorkerDied(words if words and code >= 0 else f"it {ending(code)}")

    def next_event(self, seconds: float) -> Event | None:
        """The next event, or None if none came in this time.

        A process that the worker started may hold the pipe open after the worker has died, so this also looks at the
        worker itself.
        """
        try:
            return self._events.get(timeout=seconds)
        except queue.Empty:
            if self.child.exited() is None:
                return None
        try:
            return self._events.get(timeout=seconds)  # its last event may still be in the pipe
        except queue.Empty:
            return WORKER_EXITED

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
