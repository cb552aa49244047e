"""A runner without models: the same events in the same order, and a result that was stored before.

For tests of the page, and for looking at it: nothing is loaded and nothing is timed.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from demo.core import result as schema
from demo.core.result import Failure, Machine, Progress, RunResult, RunSpec
from demo.core.stats import Interval

MACHINE = Machine(
    torch="2.13.0",
    transformers="5.23.0",
    python="3.11.2",
    cpu="A made-up CPU",
    memory_bytes=8_000_000_000,
    modes=schema.MODES,
    compiler="g++ 12.2.0",
    gpu=None,
    driver=None,
    gpu_problem=None,
    triton=None,
    inductor_cache="",
)


class FakeRunner:
    """Takes `seconds` for a run, then gives what `answer` makes of the spec: a result, or an exception to raise."""

    def __init__(
        self, answer: Callable[[RunSpec, Path], RunResult | Exception], seconds: float = 0.0, machine: Machine = MACHINE
    ) -> None:
        self._answer = answer
        self._seconds = seconds
        self.machine: Machine | None = machine
        self.modes = machine.modes
        self.running = 0
        self.closed = False

    def run(
        self, spec: RunSpec, image: Path, cancel: threading.Event | None = None, trace: Path | None = None
    ) -> Iterator[Progress | RunResult]:
        answer = self._answer(spec, image)
        self.running += 1
        started = time.monotonic()
        try:
            while (elapsed := time.monotonic() - started) < self._seconds:
                if cancel is not None and cancel.is_set():
                    yield cancelled(spec)
                    return
                yield progress(elapsed, self._seconds, answer if isinstance(answer, RunResult) else None)
                time.sleep(0.1)
            if isinstance(answer, Exception):
                raise answer
            yield answer
        finally:
            self.running -= 1

    def close(self) -> None:
        self.closed = True


def cancelled(spec: RunSpec) -> RunResult:
    failure = Failure("compile", "Cancelled in phase 'compile'.", "Press Run to start it again.")
    return RunResult("fake", "2026-11-21T09:00:00Z", "cancelled", spec, failure)


def progress(elapsed: float, total: float, result: RunResult | None) -> Progress:
    """What a run would say after `elapsed` of `total` seconds, on its way to `result`."""
    share = elapsed / total
    phase = next(name for name, end in _ENDS if share < end or name == "check")
    said = Progress(phase, share, elapsed, total - elapsed)
    if phase not in ("time", "check") or result is None or result.speedup is None:
        return said
    done = min(1.0, (share - 0.5) / 0.4)
    wide = 1 + 0.25 * (1 - done) ** 2
    eager, compiled, measured = result.eager, result.compiled, result.speedup
    return dataclasses.replace(
        said,
        calls=round(done * len(eager.wall_seconds)) if eager else 0,
        eager_seconds=eager.median_seconds if eager else None,
        compiled_seconds=compiled.median_seconds if compiled else None,
        speedup=Interval(measured.ratio, measured.low / wide, measured.high * wide),
        timing_done=done,
    )


_ENDS = (("load", 0.1), ("warm up", 0.2), ("compile", 0.5), ("time", 0.9), ("check", 1.0))
