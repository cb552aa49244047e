"""Measures several groups of runs at once (a wave). They compile in parallel, and are timed one after another.

- A group has the runs of one checkpoint at one batch size, in one process. The processes are forked after torch and
  transformers were imported.
- Compiling needs a core, so the groups of a wave load and compile in parallel. On the GPU they take turns. A group
  that is `Group.alone` instead loads and compiles when it is timed.
- Timing needs a quiet machine, so the groups that have compiled are then timed one after another. The waiting groups
  keep their weights on the GPU. A result counts their processes among the other processes on the GPU.
"""

import contextlib
import ctypes
import dataclasses
import json
import os
import select
import signal
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from demo.backend import error_text  # first: it sets what the libraries read when they are imported

import torch  # isort: skip
from PIL import Image

from demo.backend.messages import Events
from demo.core import format as fmt
from demo.core.caveat import note
from demo.core.result import Failure, RunResult, Status
from demo.core.result_json import to_json
from tools.gpu_cells import Alone, Group, Modes, worker_job

READY_SECONDS = 150.0
"""How many seconds a group may take to load and compile before it is timed."""
TURN_GUESS = 5.0
"""Seconds that the timing of one group (a checkpoint at one batch size) may take, as a guess. Compiling ends so early
that this time is left for each group."""
DIE_WITH_PARENT = 1
"""Linux's constant PR_SET_PDEATHSIG, for `prctl`: a signal to this process when its parent ends."""


def _life(group: Group, image: Path, noise: Path, up: int, down: int) -> None:
    """Runs in a group's forked process: compiles, waits for its turn to be timed, measures, and sends the results.

    `up` and `down`: the pipes to and from the main process. `noise`: the file for all that the process prints.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()
    log = os.open(noise, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)

    def tell(message: dict[str, Any]) -> None:
        data = memoryview((json.dumps(message, allow_nan=False) + "\n").encode())
        while data:
            data = data[os.write(up, data) :]

    try:
        Image.MAX_IMAGE_PIXELS = None  # demo.core.images has its own, stricter limit
        threads = torch._inductor.config.compile_threads
        torch._inductor.config.compile_threads = 1  # the groups share the cores already
        modes = None if group.alone else Modes(group, image)
        if modes is not None:
            modes.get_ready()
        tell({"ready": True})
        turn = os.read(down, 1)
        if not turn:
            return
        started = time.monotonic()
        if modes is not None:
            results = modes.measure()
        else:  # it compiles in its turn, while the others wait
            torch._inductor.config.compile_threads = threads
            results = [Alone(worker_job(spec, image), Events(open(os.devnull, "w"))).execute() for spec in group.specs]
        tell({"results": [_sent(result, started, turn[0]) for result in results]})
    except BaseException as error:
        traceback.print_exc()
        with contextlib.suppress(OSError):
            tell({"error": error_text.first_line(error)})
    finally:
        os._exit(0)


def _sent(result: RunResult, started: float, waiting: int) -> dict[str, Any]:
    """Returns the result as a dict of JSON values.

    - `started`: when the group's turn to be timed began, by the monotonic clock.
    - `waiting`: how many groups of this program waited for their turn. They hold memory, but compute nothing. The
      caveat about other processes on the GPU names them.
    """
    if waiting:
        groups = f"Up to {waiting} of them were processes of this script that waited for their turn."
        told = (note(f"{caveat} {groups}") if caveat.key == "gpu_others" else caveat for caveat in result.caveats)
        result = dataclasses.replace(result, caveats=tuple(told))
    return to_json(dataclasses.replace(result, elapsed_seconds=round(time.monotonic() - started, 3)))


def end_with(parent: int) -> None:
    """Asks Linux to kill this process when its parent ends, for whatever reason."""
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


class Child:
    """The forked process of a group, as the main process sees it."""

    open: list["Child"] = []  # noqa: RUF012

    def __init__(self, group: Group, image: Path, noise: Path) -> None:
        self.group = group
        self.ready = self.ended = self._closed = False
        self.reading, up = os.pipe()
        down, self._writing = os.pipe()
        parent = os.getpid()
        self.open.append(self)
        self.pid = os.fork()
        if self.pid == 0:
            end_with(parent)
            for other in self.open:  # a pipe ends when its last writer is gone: no group may hold another's ends
                os.close(other.reading)
                os.close(other._writing)
            _life(group, image, noise, up, down)
        os.close(up)
        os.close(down)
        self._said = b""
        self.answer: dict[str, Any] | None = None

    def listen(self) -> None:
        """Reads what the process has sent. Call it when the pipe `reading` has data."""
        said = os.read(self.reading, 1 << 20)
        if not said:
            self.ended = True
            return
        *lines, self._said = (self._said + said).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "ready" in message:
                self.ready = True
            else:
                self.answer, self.ended = message, True

    def go(self, waiting: int) -> None:
        """Tells the process of this group to time its runs now. `waiting`: how many other groups still wait."""
        with contextlib.suppress(OSError):
            os.write(self._writing, bytes([min(waiting, 255)]))

    def stop(self, seconds: float) -> None:
        """Records that the process has exceeded its limit of `seconds`. It is then no longer waited for."""
        self.answer, self.ended = self.answer or {"timed_out": seconds}, True

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for group in (os.killpg, os.kill):  # a child that had no time to call setsid is no group yet
            with contextlib.suppress(ProcessLookupError, PermissionError):
                group(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.reading)
        os.close(self._writing)
        self.open.remove(self)


def run_wave(
    groups: Sequence[Group], image: Path, noise: Path, left: Callable[[], float] = lambda: float("inf")
) -> Iterator[dict[str, Any]]:
    """Compiles the groups in parallel, times those that are ready one after another, and yields a record of each run.

    - `left`: returns how many seconds the program has left. Compiling ends early enough to time all groups.
    - A group that is not ready in `READY_SECONDS` is stopped, and its records say so.
    - If the program's time is short, compiling ends earlier. A group that is not ready then yields nothing, and the
      next start of the program tries it again.
    """
    children = [Child(group, image, noise) for group in groups]
    begun = now()
    try:
        limit = min(READY_SECONDS, left() - TURN_GUESS * len(groups))
        while busy := [child for child in children if not child.ready and not child.ended]:
            if now() - begun > limit:
                for child in busy:
                    child.stop(READY_SECONDS)
                break
            listen(busy, 0.2)
        if limit < READY_SECONDS:
            children = [child for child in children if child.ready or "timed_out" not in (child.answer or {})]
        for place, child in enumerate(children, start=1):
            if not child.ended:
                child.go(sum(not other.ended for other in children[place:]))
                end = now() + child.group.turn_seconds
                while not child.ended:
                    listen([child], 0.2)
                    if now() > end:
                        child.stop(child.group.turn_seconds)
            child.close()
            yield from records(child.group, child.answer)
    finally:
        for child in list(Child.open):
            child.close()


def now() -> float:
    return time.monotonic()


def listen(children: Sequence[Child], seconds: float) -> None:
    """Waits up to `seconds` until one of the children has sent something, and reads it."""
    by_pipe = {child.reading: child for child in children}
    for pipe in select.select(list(by_pipe), [], [], seconds)[0]:
        by_pipe[pipe].listen()


def records(group: Group, answer: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Returns the records of a group's runs.

    `answer`: the message of the group's process, with results or an error. {"timed_out": seconds} if the process
    exceeded its limit; None if it ended without a message. Without results, each record is a failed result.
    """
    if answer is not None and "results" in answer:
        results = answer["results"]
    else:
        status: Status = "crashed"
        message = "The process of this cell ended without an answer."
        if answer is not None and "timed_out" in answer:
            status, message = "timed_out", f"It was stopped after {fmt.duration(answer['timed_out'])}, its limit here."
        elif answer is not None:
            status, message = "failed", f"The cell failed: {answer['error']}"
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        failure = Failure("start", message, "See noise.txt.")
        results = [to_json(RunResult(uuid.uuid4().hex[:12], at, status, spec, failure=failure)) for spec in group.specs]
    return [
        {"key": group.key(spec), "step": group.step, "result": result}
        for spec, result in zip(group.specs, results, strict=True)
    ]
