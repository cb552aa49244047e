"""The job that a worker process receives, and the messages that it sends. `demo.backend.__main__` lists them."""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from pydantic import validate_call

from ..core import codec
from ..core.options import RunSpec
from ..core.progress import Progress, Provisional
from ..core.result import RunResult
from . import timing

MIN_SECONDS_BETWEEN = 0.25
LASTING = (
    *("eager_seconds", "compiled_seconds", "eager_line", "compiled_line"),
    *("first_seconds", "compile_steps", "graphs", "breaks", "speedup"),
)
"""Fields of Progress that keep the value sent last in all later messages, so that the page keeps showing them."""
BEND = 0.05
"""In the chart of calls over time a line gets a new straight part if the estimated time of a call changes by more than
this share."""
TIMING_STARTS, TIMING_SHARE = 0.5, 0.35
"""Start and length of the timing on the progress bar of the whole run (0 to 1). Then comes a text model's prefill."""


@dataclass(frozen=True)
class WorkerJob:
    """What the worker has to run: one line of JSON on its standard input."""

    spec: RunSpec
    """The settings of the run. The device is "cpu" or "cuda", never "auto"."""
    input_file: str | None = None
    """Path of the picture; None if the run has none."""
    id: str = ""
    started_at: str = ""
    cache_folder: str | None = None
    """An empty folder for this run's compile cache, if the spec asks for an empty cache; None: the usual cache."""
    trace: str | None = None
    """File for torch.profiler's trace, which Perfetto can show; None: the trace is not kept."""
    package: str | None = None
    """File for AOTInductor's package; None: a file in `kept_packages`, or a temporary file."""
    kept_packages: str | None = None
    """Folder that keeps AOTInductor's package. Later runs load it instead of building it. None: not kept."""
    threads: int | None = None
    """Number of torch's threads on a CPU if the spec sets none. It is the number of the runs with which this run will
    be compared. None: torch's default."""
    refuse_fewer_threads: bool = False
    """If other programs leave fewer than `threads` cores free while the model is loaded: True refuses the run, False
    lowers torch's threads. If a core is taken later, torch's threads are lowered in both cases."""
    kept_threads: tuple[int, ...] = ()
    """The thread counts with which stored runs compiled this model. For these, the compile cache should have code."""

    def threads_on(self, free_cores: int, most: int) -> int:
        """Returns how many threads torch should use: one for each free core, but not more than `most`.

        If fewer than `most` cores are free, a number in `kept_threads` is preferred: the largest from half of
        `free_cores` to `free_cores`. The compile cache should have code for that number.
        """
        threads = min(free_cores, most)
        kept = [number for number in self.kept_threads if threads / 2 <= number <= threads]
        return max(kept, default=threads) if threads < most else threads

    @property
    def seen_file(self) -> Path | None:
        """Path of the picture; None for a model that needs no picture, even if the job has one."""
        return Path(self.input_file) if self.input_file is not None and self.spec.sees_picture else None


class Events:
    """Sends the worker's messages.

    Progress is sent at most 4 times a second, but at once if `Progress.phase` or `Progress.code` changes.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._start = time.monotonic()
        self._sent_at = 0.0
        self._compile_began: float | None = None
        self._last = Progress(phase="", fraction=0.0, elapsed_seconds=0.0)

    def send(self, event: str, **content: object) -> None:
        self._stream.write(json.dumps({"event": event, **content}, allow_nan=False) + "\n")
        self._stream.flush()

    def progress(self, phase: str, fraction: float, **more: Any) -> None:
        """Sends a Progress. Sends nothing if one with the same phase and `code` was sent less than 0.25 s ago.

        `more`: further fields of Progress, such as `code`. A field named in `LASTING` that is not in `more` keeps the
        value that was sent last. If nothing is sent, `more` is lost: later messages do not have it.
        """
        now = time.monotonic()
        same = (phase, more.get("code", "")) == (self._last.phase, self._last.code)
        if same and now - self._sent_at < MIN_SECONDS_BETWEEN:
            return
        fields = {name: getattr(self._last, name) for name in LASTING} | more
        if phase == "compile" and self._compile_began is None:
            self._compile_began = now
        if self._compile_began is not None:
            fields["racing_seconds"] = racing = now - self._compile_began
            code, steps = more.get("code"), self._last.compile_steps
            if phase == "compile" and code and (not steps or steps[-1][0] != code):
                fields["compile_steps"] = (*steps, (code, racing))
            if phase == "time" and self._last.phase == "compile":
                fields["first_seconds"] = racing
            for name, begins in (("eager", 0.0), ("compiled", fields["first_seconds"])):
                if begins is not None and (each := fields[f"{name}_seconds"]):
                    fields[f"{name}_line"] = bent(fields[f"{name}_line"], begins, racing, each)
        self._last = Progress(phase=phase, fraction=fraction, elapsed_seconds=now - self._start, **fields)
        self._sent_at = now
        self.send("progress", progress=codec.plain(self._last))

    def provisional(self, result: RunResult, phase: str, fraction: float, **more: object) -> None:
        """Sends a Provisional: the progress, and a result that lacks only the first call of a new process.

        The arguments besides `result` are those of `progress`.
        """
        self.progress(phase, fraction, **more)
        self.send("provisional", provisional=codec.plain(Provisional(result=result, **vars(self._last))))

    def block_timed(self, samples: timing.Samples, plan: timing.Plan, elapsed: float) -> None:
        """Sends the progress after a block of calls, with the speed-up and the times of a call as estimated so far.

        `plan`: when the timing stops. `elapsed`: seconds since the timing began.
        """
        if plan.iterations:
            done = len(samples.compiled) / plan.iterations
            end = elapsed / done
        else:
            done, end = elapsed / plan.max_seconds, plan.max_seconds
        forecast: dict[str, object] = {"remaining_seconds": max(0.0, end - elapsed)}
        if not plan.iterations and done >= 1:
            forecast = {"code": "unclear"}  # no forecast: too few blocks, or the verdict is unsure
        estimate = samples.estimate()
        seconds = {"eager_seconds": estimate.eager_seconds, "compiled_seconds": estimate.compiled_seconds}
        self.report_timing(min(1.0, done), speedup=estimate.speedup, **seconds, **forecast)

    def report_timing(self, done: float, **more: object) -> None:
        """Sends the progress of the timing. `done`: the share of the timing that is over, 0 to 1."""
        self.progress("time", TIMING_STARTS + TIMING_SHARE * done, **more)


Line = tuple[tuple[float, float, float], ...]


def bent(line: Line, begins: float, now: float, each: float) -> Line:
    """Continues a line of the chart "calls answered over time": from `now` on, a call takes `each` seconds.

    - A line is a tuple of straight parts: (seconds at the start of the part, calls until then, seconds of each call).
    - Returns `line` with a new part if `each` differs by more than the share `BEND` from the seconds of a call in the
      last part. Else returns `line` as it is.
    - If `line` is empty, its first part starts at `begins`, not at `now`. Both are in seconds.
    """
    if not line:
        return ((begins, 0.0, each),)
    since, calls, before = line[-1]
    if abs(each / before - 1) <= BEND:
        return line
    return (*line, (now, calls + (now - since) / before, each))


def answer_one_job(function: Callable[..., object]) -> None:
    """Calls `function` with arguments from standard input, prints what it returns, and ends the process.

    The input is a line of JSON with the arguments by name, the output a line of JSON with the returned value. Whatever
    libraries print goes to standard error.
    """
    pipe = os.dup(1)  # processes started here do not inherit it
    os.dup2(2, 1)
    sys.stdout = sys.stderr  # what Python's buffer holds back would follow the last line of a traceback
    answer = validate_call(function)(**json.loads(sys.stdin.buffer.readline()))
    os.write(pipe, json.dumps(codec.plain(answer)).encode() + b"\n")
    os._exit(0)  # a normal exit takes seconds that nobody should wait for: inductor's pool and CUDA's teardown
