"""The worker's job, and its messages to the process that started it: those that `demo.backend.__main__` lists."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from demo.backend import timing
from demo.core import codec
from demo.core.progress import Progress
from demo.core.spec import RunSpec

MIN_SECONDS_BETWEEN = 0.25
LASTING = ("eager_seconds", "compiled_seconds", "first_seconds", "compile_steps", "graphs", "breaks", "speedup")
"""The fields of Progress that later phases repeat, so that the page keeps showing them."""
TIMING_STARTS, TIMING_SHARE = 0.5, 0.42
"""Where the timing begins on the progress bar of the whole run, and its share of the bar."""


@dataclass(frozen=True)
class Job:
    """One line of JSON on the worker's standard input."""

    spec: RunSpec
    input_file: str | None = None
    """The picture's path."""
    id: str = ""
    started_at: str = ""
    cache_folder: str | None = None
    """An empty folder for this run's compile cache, if the spec asks for an empty one."""
    trace: str | None = None
    """A file to write the profiler's trace to, for Perfetto."""
    package: str | None = None
    """A file for AOTInductor's package. By default it goes with the run's temporary files."""
    kept_packages: str | None = None
    """A folder for packages of this spec: a package that is there is loaded instead of built."""
    threads: int | None = None
    """On a CPU, if the spec leaves them open: torch's threads, as in the earlier runs of this setting."""
    exactly: bool = False
    """Refuse the run if other programs leave fewer cores free than `threads`, instead of using fewer."""

    @property
    def seen_file(self) -> Path | None:
        """The picture's path; None for a model that sees none, whatever the job holds."""
        return Path(self.input_file) if self.input_file is not None and self.spec.sees_picture else None


class Events:
    """Sends messages, and Progress at most four times a second; the first of a phase or a code is always sent."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._start = time.monotonic()
        self._sent_at = 0.0
        self._compile_began: float | None = None
        self._last = Progress(phase="", fraction=0.0, elapsed_seconds=0.0)

    def send(self, event: str, **content: Any) -> None:
        self._stream.write(json.dumps({"event": event, **content}, allow_nan=False) + "\n")
        self._stream.flush()

    def progress(self, phase: str, fraction: float, **more: Any) -> None:
        """Sends a Progress with the fields `more`; those of `LASTING` keep their last values."""
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
        self._last = Progress(phase=phase, fraction=fraction, elapsed_seconds=now - self._start, **fields)
        self._sent_at = now
        self.send("progress", progress=codec.plain(self._last))

    def block_timed(self, samples: timing.Samples, plan: timing.Plan, elapsed: float) -> None:
        """Sends the progress after a block of the interleaved protocol, `elapsed` seconds after the timing began."""
        if plan.iterations:
            done = len(samples.compiled) / plan.iterations
            end = elapsed / done
        else:
            done, end = elapsed / plan.max_seconds, plan.max_seconds
        forecast: dict[str, Any] = {"remaining_seconds": max(0.0, end - elapsed)}
        if not plan.iterations and done >= 1:
            forecast = {"code": "unclear"}  # it ends as soon as the answer is clear
        estimate = samples.estimate()
        seconds = {"eager_seconds": estimate.eager_seconds, "compiled_seconds": estimate.compiled_seconds}
        self.report_timing(min(1.0, done), speedup=estimate.speedup, **seconds, **forecast)

    def report_timing(self, done: float, **more: Any) -> None:
        """Sends progress within the timing, of which the share `done` is over."""
        self.progress("time", TIMING_STARTS + TIMING_SHARE * done, **more)
