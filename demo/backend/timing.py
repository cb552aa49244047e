"""The measurement protocol: verified warm-up, interleaved A B B A blocks with an A/A control, two clocks.

Knows nothing of models: it times callables. A clock is passed in, so tests run the protocol on a simulated one.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from demo import stats
from demo.schema import Measurement

Call = Callable[[], Any]

SETTLED = 0.10
"""Warm-up has settled when its last three calls lie within 10 % of one another (torch.utils.benchmark's limit)."""
WARMUP_CALLS, WARMUP_MOST, WARMUP_SECONDS = 3, 50, 2.0
CUDA_GRAPH_CALLS = 3
"""A CUDA-graph mode runs once eagerly, records, and replays from the third call on: two calls more to settle."""
BLOCK_SECONDS = 0.03
MOST_CALLS_HALF_BLOCK = 20
LEAST_BLOCKS = 6
DEVICE_CALLS = 20


class Clock(Protocol):
    def time(self, call: Call) -> float:
        """Seconds of one synchronised call."""
        ...

    def now(self) -> float: ...


class WallClock:
    """What one caller waits: the call, and on a GPU the work that it queued."""

    def __init__(self, device: torch.device) -> None:
        self._wait = torch.cuda.synchronize if device.type == "cuda" else (lambda: None)

    def time(self, call: Call) -> float:
        self._wait()
        start = time.perf_counter()
        call()
        self._wait()
        return time.perf_counter() - start

    def now(self) -> float:
        return time.perf_counter()


@dataclass(frozen=True)
class Plan:
    """When to stop. All seconds are of timing, without warm-up and compiling."""

    precision: float = 0.01
    """Stop when the 95 % interval of the speed-up is within this share of the estimate on both sides ..."""
    least_calls: int = 10
    least_seconds: float = 0.5
    """... and each variant has had this many calls and this much time."""
    most_seconds: float = 3.5
    """Stop all the same after this long, once every variant has had `least_calls`."""
    most_calls: int = 5_000
    iterations: int | None = None
    """Exactly this many calls of each variant instead, rounded up to whole blocks."""


@dataclass
class Samples:
    """Times in seconds as they come in. One block is `half` eager, 2 x `half` compiled, `half` eager calls."""

    half: int
    eager: list[float] = field(default_factory=list)
    compiled: list[float] = field(default_factory=list)
    control: list[float] = field(default_factory=list)
    _known: tuple[int, stats.Interval | None] = (0, None)

    @property
    def blocks(self) -> int:
        return len(self.compiled) // (2 * self.half)

    def interval(self) -> stats.Interval | None:
        """The speed-up so far, from fewer resamples than the final one; worked out once a block."""
        if self.blocks < 2:
            return None
        if self._known[0] != self.blocks:
            size = 2 * self.half
            eager, compiled = stats.block_medians(self.eager, size), stats.block_medians(self.compiled, size)
            self._known = (self.blocks, stats.paired_ratio(eager, compiled, resamples=500))
        return self._known[1]


def warm_up(
    call: Call, clock: Clock, compile_events: Callable[[], int], least: int = WARMUP_CALLS
) -> tuple[list[float], bool]:
    """Calls until the last three agree and none of them compiled anything; the times, and whether it settled.

    At least `least` calls, at most `WARMUP_MOST` or `WARMUP_SECONDS` beyond the first call (which compiles).
    """
    times: list[float] = []
    quiet = 0
    while True:
        before = compile_events()
        times.append(clock.time(call))
        quiet = quiet + 1 if compile_events() == before else 0
        if len(times) < least:
            continue
        last = times[-3:]
        if quiet >= 3 and max(last) <= min(last) * (1 + SETTLED):
            return times, True
        if len(times) >= WARMUP_MOST or (sum(times[1:]) >= WARMUP_SECONDS and quiet >= 2):
            return times, False


def half_block(eager_warmup: list[float], compiled_warmup: list[float], iterations: int | None) -> int:
    """Calls in half a block: so many that a block takes the slower variant about 30 ms, and six blocks or more fit in.

    Judged by the last three warm-up calls of each.
    """
    slowest = max(sorted(times[-3:])[1] for times in (eager_warmup, compiled_warmup))
    half = max(1, min(MOST_CALLS_HALF_BLOCK, round(BLOCK_SECONDS / slowest / 2)))
    if iterations is not None:
        half = min(half, max(1, iterations // (2 * LEAST_BLOCKS)))
    return half


def interleaved(
    eager: Call, compiled: Call, clock: Clock, plan: Plan, half: int, look: Callable[[Samples], None]
) -> Samples:
    """Times the two in blocks A B B A, an A/A control block between each two of them, until the plan is met.

    The stream of calls is, for half = 5: 5 eager, 10 compiled, 5 eager | 10 eager (control) | 5 eager, 10 compiled, ...
    So the control lies between two runs of eager calls just as the compiled calls do, and answers what the
    protocol makes of two equal variants on this machine. Drift falls on both sides of each comparison.

    `look` is called between blocks, never inside one.
    """
    samples = Samples(half)

    def run(call: Call, into: list[float], count: int) -> None:
        for _ in range(count):
            into.append(clock.time(call))

    with _no_collection():
        start = clock.now()
        while True:
            run(eager, samples.eager, half)
            run(compiled, samples.compiled, 2 * half)
            run(eager, samples.eager, half)
            look(samples)
            if _done(samples, plan, clock.now() - start):
                return samples
            run(eager, samples.control, 2 * half)


def _done(samples: Samples, plan: Plan, elapsed: float) -> bool:
    calls = len(samples.compiled)
    if plan.iterations is not None:
        return calls >= plan.iterations
    if calls < plan.least_calls or samples.blocks < 2:
        return False
    if elapsed >= plan.most_seconds or calls >= plan.most_calls:
        return True
    if samples.blocks < LEAST_BLOCKS or min(sum(samples.eager), sum(samples.compiled)) < plan.least_seconds:
        return False
    interval = samples.interval()
    return interval is not None and interval.half_width <= plan.precision


def alone(call: Call, clock: Clock, plan: Plan, half: int) -> list[float]:
    """Times one variant by itself, for half of the plan's time: where the two do not fit in memory together."""
    times: list[float] = []
    needed = plan.iterations or plan.least_calls
    with _no_collection():
        start = clock.now()
        while (
            len(times) % (2 * half)
            or len(times) < needed
            or (
                plan.iterations is None and clock.now() - start < plan.most_seconds / 2 and len(times) < plan.most_calls
            )
        ):
            times.append(clock.time(call))
    return times


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Python's garbage collector off, as `timeit` does: it would fall on whichever variant is running."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def device_times(call: Call, wall_seconds: float, calls: int = DEVICE_CALLS) -> tuple[float, ...]:
    """Seconds of GPU work of further calls, by CUDA events, with the kernels' launches already queued.

    Events around a call on an idle GPU would count the gaps in which it waits for the next launch. So the
    stream is first kept busy for longer than the launches take (a sleep kernel, as nvbench blocks its stream): what
    is left between the events is the work alone. A model that waits for the GPU in its own forward is
    still timed with its gaps.
    """
    cycles = int(2.0e9 * min(0.5, 1.5 * wall_seconds))  # no current GPU runs above 2 GHz by much
    times = []
    for _ in range(calls):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        torch.cuda._sleep(cycles)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return tuple(times)


def peak_memory(call: Call, device: torch.device) -> int | None:
    """Peak bytes during one more call, in a pass of its own; None where the system does not tell.

    On CUDA the allocator's peak, weights included; on a CPU the peak resident set of the whole process (Linux).
    """
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        return int(torch.cuda.max_memory_allocated())
    try:
        Path("/proc/self/clear_refs").write_text("5")
        call()
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def measurement(
    wall: list[float], warmup: list[float], half: int, device: tuple[float, ...] | None, memory: int | None
) -> Measurement:
    return Measurement(tuple(wall), device, tuple(warmup), 2 * half, memory)
