"""Replaces `demo.runs.runner.Runner`, for tests of the page: nothing is loaded or timed.

It sends `Progress` in the order of a real run, and ends with a result that the test made.
"""

import dataclasses
import itertools
import threading
import time
from collections.abc import Callable, Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from support.samples import MACHINE, info_of, measurement, ok_result

from demo.core.catalog import scenes
from demo.core.comparison import ProcessResult
from demo.core.machine import HostInfo
from demo.core.measurement import Compilation, CompileCost, StartUp
from demo.core.options import RunSpec
from demo.core.progress import Progress
from demo.core.result import Failure, RunResult
from demo.runs.ongoing import NO_FILES, Files
from demo.store.history import History


@dataclasses.dataclass(eq=False)
class FakeRunner:
    """A runner whose processes take `seconds` each, write the files asked for, and end with what `answer` returns.

    `answer` gets spec and picture, and returns a result or an error to raise. While `hold` is True, a run stays in the
    middle of its timing. `history` stores every result, as with the real runner. Lists such as `runs` and
    `pictures` keep the arguments of each call of `run`.
    """

    answer: Callable[[RunSpec, Any], RunResult | BaseException]
    seconds: float = 0.0
    machine: HostInfo | None = MACHINE
    history: History | None = None
    hold: bool = False
    free: int | None = None
    """Number of threads that a run would get now, as `free_threads` tells; None if unknown."""
    runs: list[RunSpec] = dataclasses.field(default_factory=list)
    pictures: list[Path | None] = dataclasses.field(default_factory=list)
    files: list[Files] = dataclasses.field(default_factory=list)
    runs_after: list[int] = dataclasses.field(default_factory=list)
    threads: list[int | None] = dataclasses.field(default_factory=list)
    running: int = 0
    closed: bool = False

    def run(
        self,
        spec: RunSpec,
        image: Path | None,
        cancel: threading.Event | None = None,
        files: Files = NO_FILES,
        earlier: tuple[ProcessResult, ...] = (),
        runs_after: int = 0,
        threads: int | None = None,
    ) -> Generator[Progress | RunResult, None, None]:
        repeats = max(len(earlier) + 1, spec.repeats)
        self.running += 1
        self.runs.append(spec)
        self.pictures.append(image)
        self.files.append(files)
        self.runs_after.append(runs_after)
        self.threads.append(threads)
        for file in filter(None, (files.trace, files.package)):
            file.write_bytes(b"what the run leaves")
        try:
            while True:
                answer = self.answer(spec, image)
                started = time.monotonic()
                while (elapsed := time.monotonic() - started) < self.seconds or self.hold:
                    if self.hold:
                        elapsed = 0.7 * self.seconds
                    if cancel is not None and cancel.is_set():
                        yield cancelled(spec)
                        return
                    now = progress(elapsed, self.seconds, answer if isinstance(answer, RunResult) else None)
                    yield dataclasses.replace(now, repeat=len(earlier) + 1, repeats=repeats)
                    time.sleep(0.1)
                if isinstance(answer, BaseException):
                    raise answer
                result = dataclasses.replace(answer, earlier=earlier)
                if self.history is not None:
                    self.history.append(result)
                earlier = result.as_processes()
                if not 0 < len(earlier) < repeats:
                    break
            yield result
        finally:
            self.running -= 1

    def inspect(self, on_probe: Callable[[], None] = lambda: None) -> HostInfo | None:
        return self.machine

    def free_threads(self) -> int | None:
        return self.free

    def close(self) -> None:
        self.closed = True


def cancelled(spec: RunSpec) -> RunResult:
    failure = Failure("compile", "Cancelled while compiling.", "Press Run to start it again.")
    return RunResult("fake", "2026-11-21T09:00:00Z", "cancelled", spec, failure)


def progress(elapsed: float, total: float, result: RunResult | None) -> Progress:
    """Returns the progress after `elapsed` of `total` seconds; from the timing on with the speed-up of `result`."""
    share = elapsed / total
    phase = next(name for name, end in _ENDS if share < end or name == "check")
    now = Progress(phase, share, elapsed, total - elapsed)
    if phase not in ("time", "check") or result is None or result.speedup is None:
        return now
    latencies = {f"{name}_seconds": seconds for name, seconds in result.latencies.items()}
    return dataclasses.replace(now, **latencies, speedup=result.speedup.within)


_ENDS = (("load", 0.1), ("warm up", 0.2), ("compile", 0.5), ("time", 0.9), ("check", 1.0))


# ---- the search for the best way


SCENE = scenes()[0]
SAW = info_of(SCENE)
_count = itertools.count()


def measured(spec: RunSpec, image: Any = None) -> RunResult:
    """Returns a result for `spec`: with freezing, compiled is twice as fast as eager, but starts slowly.

    With a package, it is 1.33 times as fast, and starts fast once the package is built. In any other way, it is as fast
    as eager.
    """
    compiled = 0.002 if spec.freezing else 0.003 if spec.compiler == "aot" else 0.004
    cold, warm = (30.0, 20.0) if spec.freezing else (40.0, 0.1) if spec.compiler == "aot" else (20.0, 5.0)
    costs = {name: CompileCost(cost, {"first run": 0.05}) for name, cost in (("cold", cold), ("warm", warm))}
    return ok_result(
        id=f"run-{next(_count)}",
        started_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        spec=spec,
        image=SAW,
        eager=measurement(0.004),
        compiled=measurement(compiled),
        control_times=measurement(0.004),
        start_up=StartUp(2.0, 1.0),
        compilation=Compilation(cold, "cold", 1, **costs),
    )
