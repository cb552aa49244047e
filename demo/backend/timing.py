"""The measurement protocol: verified warm-up, interleaved A B B A blocks with an A/A control, two clocks.

Knows nothing of models: it times callables. A clock is passed in, so tests run the protocol on a simulated one.
"""

from __future__ import annotations

import contextlib
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from demo.core import stats
from demo.core.result import BackToBack, RunSpec

Call = Callable[[], Any]

SETTLED = 0.10
"""Warm-up has settled when its last three calls lie within 10 % of one another (torch.utils.benchmark's limit)."""
WARMUP_CALLS, WARMUP_MOST, WARMUP_SECONDS = 3, 50, 2.0
CUDA_GRAPH_CALLS = 3
"""A CUDA-graph mode runs once eagerly, records, and replays from the third call on: two calls more to settle."""
BLOCK_SECONDS = 0.03
MOST_CALLS_HALF_BLOCK = 20
LEAST_BLOCKS = 6
DEVICE_CALLS, LEAST_DEVICE_CALLS = 20, 3
DEVICE_SECONDS = 1.0
LOOK_SECONDS = 0.3
RENEW = 1.1
BACK_TO_BACK_SECONDS = {"cpu": 0.2, "cuda": 1.0}
"""On CUDA long enough for the driver's energy counter, which moves some ten times a second."""


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
    """Stop all the same after this long, once every variant has had `least_calls`; go on to twice as long where the
    verdict would be 'unsure'. It is looked at once only: looking until it is sure would make it wrong more often."""
    most_calls: int = 5_000
    iterations: int | None = None
    """Exactly this many calls of each variant instead, rounded up to whole blocks."""

    @classmethod
    def of(cls, spec: RunSpec) -> Plan:
        return cls(precision=spec.precision, most_seconds=spec.most_seconds, iterations=spec.iterations)


@dataclass
class Samples:
    """Times in seconds as they come in. One block is `half` eager, 2 x `half` compiled, `half` eager calls."""

    half: int
    eager: list[float] = field(default_factory=list)
    compiled: list[float] = field(default_factory=list)
    control: list[float] = field(default_factory=list)
    seconds: float = 0.0
    """Clock time from the first call to the last, what lies between calls included."""
    _known: tuple[int, stats.Interval | None] = (0, None)

    @property
    def blocks(self) -> int:
        return len(self.compiled) // (2 * self.half)

    def interval(self) -> stats.Interval | None:
        """The speed-up so far.

        Looked at anew only when there is a tenth more to know: who looks at every block stops at every lucky one, and
        the interval then keeps its word less often.
        """
        if self.blocks < 2:
            return None
        if self.blocks >= max(2, self._known[0] * RENEW):
            size = 2 * self.half
            eager, compiled = stats.block_medians(self.eager, size), stats.block_medians(self.compiled, size)
            self._known = (self.blocks, stats.paired_ratio(eager, compiled))
        return self._known[1]

    def unsure(self) -> bool:
        """Whether the verdict would be 'unsure' if this were the end."""
        size = 2 * self.half
        control = stats.control_ratio(self.eager, self.control, size)
        if control is None:
            return True
        eager, compiled = stats.block_medians(self.eager, size), stats.block_medians(self.compiled, size)
        return stats.verdict(stats.paired_ratio(eager, compiled), control) == "unsure"


def warm_up(
    call: Call,
    clock: Clock,
    compile_events: Callable[[], int],
    least: int = WARMUP_CALLS,
    first_call_ended: Callable[[], None] = lambda: None,
) -> tuple[list[float], bool]:
    """Calls until the last three agree and none of them compiled anything; the times, and whether it settled.

    At least `least` calls, at most `WARMUP_MOST` or `WARMUP_SECONDS` beyond the first call (which compiles).
    """
    times: list[float] = []
    quiet = 0
    while True:
        before = compile_events()
        times.append(clock.time(call))
        if len(times) == 1:
            first_call_ended()
        quiet = quiet + 1 if compile_events() == before else 0
        if len(times) < least:
            continue
        last = times[-3:]
        if quiet >= 3 and max(last) <= min(last) * (1 + SETTLED):
            return times, True
        if len(times) >= WARMUP_MOST or (sum(times[1:]) >= WARMUP_SECONDS and quiet >= 2):
            return times, False


def median_of_few(call: Call, clock: Clock, calls: int = 5, seconds: float = 0.3) -> float:
    """Median seconds of `calls` calls at most, no more once `seconds` have passed: for what is not the model."""
    times = [clock.time(call)]
    while len(times) < calls and sum(times) < seconds:
        times.append(clock.time(call))
    return statistics.median(times)


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

    most_seconds, extended = plan.most_seconds, False
    with _no_collection():
        start = clock.now()
        while True:
            run(eager, samples.eager, half)
            run(compiled, samples.compiled, 2 * half)
            run(eager, samples.eager, half)
            samples.seconds = clock.now() - start
            look(samples)
            if _done(samples, plan, most_seconds):
                if extended or samples.seconds < most_seconds or plan.iterations is not None or not samples.unsure():
                    return samples
                most_seconds, extended = 2 * most_seconds, True
            run(eager, samples.control, 2 * half)


def _done(samples: Samples, plan: Plan, most_seconds: float) -> bool:
    calls = len(samples.compiled)
    if plan.iterations is not None:
        return calls >= plan.iterations
    if calls < plan.least_calls or samples.blocks < 2:
        return False
    if samples.seconds >= most_seconds or calls >= plan.most_calls:
        return True
    if samples.blocks < LEAST_BLOCKS or min(sum(samples.eager), sum(samples.compiled)) < plan.least_seconds:
        return False
    interval = samples.interval()
    return interval is not None and interval.half_width <= plan.precision


def in_a_row(
    call: Call, clock: Clock, calls: int, look: Callable[[list[float]], None] = lambda times: None
) -> list[float]:
    """So many calls of one variant: the guide's recipe. `look` is called between two calls, a few times a second."""
    times: list[float] = []
    with _no_collection():
        looked = clock.now()
        for _ in range(calls):
            times.append(clock.time(call))
            if clock.now() - looked > LOOK_SECONDS:
                look(times)
                looked = clock.now()
    return times


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
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def device_calls(wall_seconds: float, most: int) -> int:
    """How many calls of so many seconds `device_times` makes, each behind a sleep of 1.5 times its length.

    About `DEVICE_SECONDS` in all, but `LEAST_DEVICE_CALLS` of a slow model.
    """
    return max(LEAST_DEVICE_CALLS, min(most, int(DEVICE_SECONDS / (2.5 * wall_seconds))))


def device_times(call: Call, wall_seconds: float, calls: int = DEVICE_CALLS) -> tuple[float, ...]:
    """Seconds of GPU work of `calls` further calls at most (see `device_calls`), by CUDA events, launches queued.

    Events around a call on an idle GPU would count the gaps in which it waits for the next launch. So the
    stream is first kept busy for longer than the launches take (a sleep kernel, as nvbench blocks its stream): what
    is left between the events is the work alone. A model that waits for the GPU in its own forward is
    still timed with its gaps.
    """
    cycles = int(3.0e9 * min(0.5, 1.5 * wall_seconds))  # no current GPU runs above 3 GHz
    times = []
    for _ in range(device_calls(wall_seconds, calls)):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        torch.cuda._sleep(cycles)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return tuple(times)


def back_to_back(
    call: Call, device: torch.device, wall_seconds: float, energy: Callable[[], float | None]
) -> BackToBack:
    """Calls that do not wait for one another, for 0.2 s on a CPU and 1 s on a GPU, three at least.

    `wall_seconds` is what one call took. `energy` reads the device's counter, in joules, before and after.
    """
    calls = max(3, round(BACK_TO_BACK_SECONDS[device.type] / wall_seconds))
    wait = torch.cuda.synchronize if device.type == "cuda" else (lambda: None)
    with _no_collection():
        wait()
        before, start = energy(), time.perf_counter()
        for _ in range(calls):
            call()
        wait()
        seconds, after = time.perf_counter() - start, energy()
    drawn = after - before if before is not None and after is not None else None
    return BackToBack(calls, seconds, drawn)


def peak_memory(call: Call, device: torch.device, replays: bool = False) -> tuple[int | None, int | None]:
    """Peak bytes (in use, reserved) during one more call, in a pass of its own; None where the system does not tell.

    On CUDA those of torch's allocator, weights included; on a CPU the peak resident set of the whole process (Linux),
    and nothing is known of a reserve.

    A CUDA graph holds the memory of all that it computes in a pool of its own, for as long as it lives, and asks the
    allocator for none when it is replayed. So that pool counts as in use for the variant that `replays` it, whole, and
    not at all for the other.
    """
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()  # else the reserve would still be that of whatever ran before
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        held, live = _graph_pools()
        used, reserved = int(torch.cuda.max_memory_allocated()), int(torch.cuda.max_memory_reserved())
        return (used - live + held, reserved) if replays else (used - live, reserved - held)
    try:
        Path("/proc/self/clear_refs").write_text("5")
        call()
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024, None
    except OSError:
        pass
    return None, None


def _graph_pools() -> tuple[int, int]:
    """Bytes that the pools of CUDA graphs hold of the GPU, and how many of them are given out."""
    pools = [part for part in torch.cuda.memory_snapshot() if tuple(part["segment_pool_id"]) != (0, 0)]
    return sum(part["total_size"] for part in pools), sum(part["allocated_size"] for part in pools)
