"""The measurement protocol: verified warm-up, then interleaved A B B A blocks with an A/A control.

Covered: drift of the machine; warm-up that has not ended; slower first calls after a switch of variant; compiling
during the timing (the caller compares the log's events); Python's garbage collector; this machine's noise floor.
Not covered: what slows both variants alike (a throttled clock, a busy machine: `monitor` watches those), and what
differs from process to process. Stopping by the interval's width lowers its coverage a little:
`benchmarks/results/honesty.md` has the figures.

The clock is a parameter, so that tests can simulate one.
"""

import contextlib
import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from demo.core import stats
from demo.core.measurement import Measurement
from demo.core.spec import CUDA_GRAPH_MODES, OPTIONS, RunSpec

Call = Callable[[], Any]

SETTLED = 0.10
"""Warm-up has settled when its last three calls lie within 10 % of one another (torch.utils.benchmark's limit)."""
WARMUP_CALLS, MAX_WARMUP_CALLS, MAX_WARMUP_SECONDS = 3, 50, 2.0
CUDA_GRAPH_CALLS = 3
"""Further warm-up calls with CUDA graphs: the first runs eagerly, the second records, and the third replays."""
BLOCK_SECONDS = 0.12
MAX_CALLS_HALF_BLOCK = 14
"""Longer blocks would let calls settle better. But they leave fewer pairs, and drift within a block does not cancel."""
MAX_SETTLING_CALLS = 6
"""After a switch of variant the caches hold the other variant's data. On two cores the first call took 5 to 24 % longer
than steady calls; the compiled shapes-rtdetr came within 2 % with its eighth call."""
SLOW_SECONDS = 0.1
"""From this length on a half block is one call, so that more blocks fit, and no calls settle. Measured on five of the
guide's models: the first call after a switch took 0.99 to 1.01 times as long as the others."""
SLOW_BLOCKS_APART = 3
"""With half blocks of one call the A/A control comes after every third block."""
MIN_BLOCKS, MIN_CALLS = 6, 20
"""Least blocks and calls of each variant, if time allows: fewer are no basis for a figure."""
MOST_TIMING_SECONDS = 60.0
"""The longest timing, however long the first compiled call took."""
REPORT_SECONDS = 0.3
"""Seconds between two reports of `time_fixed_count`."""
NEW_ESTIMATE = 1.1
"""The speed-up is estimated again when the blocks have grown by this factor."""


def wait_for(device: torch.device) -> Callable[[], None]:
    """A function that waits until the device's queue is empty; on a CPU it does nothing."""
    return torch.cuda.synchronize if device.type == "cuda" else lambda: None


class Clock:
    """Measures how long a caller waits: for the call, and on a GPU for the work that it queued."""

    def __init__(self, device: torch.device) -> None:
        self._wait = wait_for(device)

    def time(self, call: Call) -> float:
        self._wait()
        start = time.perf_counter()
        call()
        self._wait()
        return time.perf_counter() - start

    def now(self) -> float:
        return time.perf_counter()


CPU_CLOCK = Clock(torch.device("cpu"))


@dataclass(frozen=True)
class Plan:
    """When to stop. All seconds are of timing, without warm-up and compiling."""

    precision: float = 0.01
    """Stop when both ends of the speed-up's 95 % interval are within this share of the estimate ..."""
    min_seconds: float = 0.5
    """... and each variant has had this much time, `MIN_BLOCKS` and `MIN_CALLS`."""
    max_seconds: float = 3.5
    """Stop after this long, unless there are too few blocks or calls, or the verdict would be 'unsure'. This is decided
    once: extending until the verdict is sure would make it wrong more often."""
    longest_seconds: float = 7.0
    """Stop in any case after this long, once there are two blocks."""
    max_calls: int = 5_000
    iterations: int | None = None
    """Exactly this many calls of each variant instead, rounded up to whole blocks."""

    @classmethod
    def of(cls, spec: RunSpec, first_call_seconds: float) -> "Plan":
        """The spec's limit, at most doubled. With the default limit the timing may also take as long as the first
        compiled call: a slow model compiles for long."""
        longest = 2 * spec.max_seconds
        if spec.max_seconds == OPTIONS["max_seconds"].default:
            longest = max(longest, min(first_call_seconds, MOST_TIMING_SECONDS))
        return cls(spec.precision, max_seconds=spec.max_seconds, longest_seconds=longest, iterations=spec.iterations)


class Estimate(NamedTuple):
    """The estimate after a number of blocks."""

    blocks: int = 0
    speedup: stats.Interval | None = None
    """None for fewer than two blocks."""
    eager_seconds: float | None = None
    compiled_seconds: float | None = None
    """Seconds of a call; their quotient is the speed-up. None before the first block."""


@dataclass
class Samples:
    """Seconds of the timed calls so far. With h = `calls_per_half_block` a block is h eager, 2 h compiled and h eager
    calls, not counting the calls that settle."""

    calls_per_half_block: int
    eager: list[float] = field(default_factory=list)
    compiled: list[float] = field(default_factory=list)
    control: list[float] = field(default_factory=list)
    """Eager calls of the A/A control blocks."""
    settling: dict[str, list[float]] = field(default_factory=lambda: {"eager": [], "compiled": []})
    """By variant: the first calls after each switch to it, which are not counted."""
    seconds: float = 0.0
    """Clock time from the first call to the last, pauses between calls included."""
    _latest: Estimate = field(default_factory=Estimate)

    @property
    def blocks(self) -> int:
        return len(self.compiled) // (2 * self.calls_per_half_block)

    def estimate(self) -> Estimate:
        """The latest estimate, made again only with a tenth more blocks: a check after every block would stop on lucky
        fluctuations and lower the interval's coverage."""
        if self.blocks >= max(1, self._latest.blocks * NEW_ESTIMATE):
            pairs = self._pairs()
            speedup = stats.paired_ratio(*pairs) if self.blocks >= 2 else None
            self._latest = Estimate(self.blocks, speedup, *stats.paired_seconds(*pairs))
        return self._latest

    @property
    def blocks_apart(self) -> int:
        """The number of blocks from one control block to the next."""
        return SLOW_BLOCKS_APART if self.calls_per_half_block == 1 else 1

    def measurement(self, name: str, warmup: Sequence[float] = ()) -> Measurement:
        """The calls of a variant or of the control. `warmup` has the seconds of its warm-up calls."""
        settling, apart = tuple(self.settling.get(name, ())), self.blocks_apart if name == "control" else 1
        calls = 2 * self.calls_per_half_block
        times = tuple(getattr(self, name))
        return Measurement(times, None, tuple(warmup), calls, settling_seconds=settling, blocks_apart=apart)

    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        return stats.side_by_side(self.eager, self.compiled, 2 * self.calls_per_half_block)

    def unsure(self) -> bool:
        """Whether a verdict on the calls so far would be 'unsure'."""
        control = stats.control_ratio(self.eager, self.control, 2 * self.calls_per_half_block, self.blocks_apart)
        speedup = stats.paired_ratio(*self._pairs())
        return control is None or stats.compare(speedup, stats.noise_floor(control)).verdict == "unsure"


def warm_up(
    call: Call,
    clock: Clock,
    compile_events: Callable[[], int],
    min_calls: int = WARMUP_CALLS,
    first_call_ended: Callable[[], None] = lambda: None,
) -> tuple[list[float], bool]:
    """Calls until the last three agree and none of them compiled anything. `compile_events` counts compile events.

    Returns the seconds of each call, and whether they settled. Makes at least `min_calls` calls, and at most
    `MAX_WARMUP_CALLS`, or `MAX_WARMUP_SECONDS` after the first call, which compiles.
    """
    times: list[float] = []
    without_compiling = 0
    while True:
        before = compile_events()
        times.append(clock.time(call))
        if len(times) == 1:
            first_call_ended()
        without_compiling = without_compiling + 1 if compile_events() == before else 0
        if len(times) < min_calls:
            continue
        last = times[-3:]
        if without_compiling >= 3 and max(last) <= min(last) * (1 + SETTLED):
            return times, True
        if len(times) >= MAX_WARMUP_CALLS or (sum(times[1:]) >= MAX_WARMUP_SECONDS and without_compiling >= 2):
            return times, False


def min_warmup_calls(spec: RunSpec, device: torch.device) -> int:
    """Least warm-up calls of the compiled model: more if its first calls record CUDA graphs."""
    return WARMUP_CALLS + (CUDA_GRAPH_CALLS if device.type == "cuda" and spec.mode in CUDA_GRAPH_MODES else 0)


def median_of_few(call: Call, clock: Clock, calls: int = 5, seconds: float = 0.3) -> float:
    """Median seconds of at most `calls` calls; none begins after `seconds`. For the steps around the model."""
    times = [clock.time(call)]
    while len(times) < calls and sum(times) < seconds:
        times.append(clock.time(call))
    return statistics.median(times)


def calls_per_half_block(eager_warmup: list[float], compiled_warmup: list[float], iterations: int | None) -> int:
    """A block takes the slower variant about `BLOCK_SECONDS`, and `MIN_BLOCKS` blocks fit into `iterations`.

    The median of the last three warm-up calls stands for a call. At least 2 calls, else settling would take more than a
    fifth of the timing; 1 call from `SLOW_SECONDS` on.
    """
    slowest = max(sorted(times[-3:])[1] for times in (eager_warmup, compiled_warmup))
    half = min(MAX_CALLS_HALF_BLOCK, round(BLOCK_SECONDS / slowest / 2))
    if iterations is not None:
        half = min(half, iterations // (2 * MIN_BLOCKS))
    return max(1 if slowest >= SLOW_SECONDS else 2, half)


def settling_calls(half: int) -> int:
    """Calls that are not counted after each switch of variant: at most a fifth of a variant's calls, because it has one
    switch for 2 `half` counted calls."""
    return max(1, min(MAX_SETTLING_CALLS, half // 2))


def time_interleaved(
    eager: Call,
    compiled: Call,
    clock: Clock,
    plan: Plan,
    half: int,
    on_block_end: Callable[[Samples], None],
) -> Samples:
    """Times both variants in blocks A B B A, with A/A control blocks between them, until the plan is met.

    1. With `half` = 5 the order is: 5 eager, 10 compiled, 5 eager | 10 eager (control) | 5 eager, 10 compiled, ...
    2. Drift falls on both sides of each comparison. The control lies between eager calls as the compiled calls do, so
       it shows what the protocol reports for two equal variants on this machine.
    3. After a switch of variant `settling_calls` calls are not counted: a server calls one variant only and never waits
       for such a call. Calls that take `SLOW_SECONDS` need none.
    4. `on_block_end` is called between blocks. If it raises, the timing ends.
    """
    samples = Samples(half)
    settling = settling_calls(half)

    def run(call: Call, into: list[float], count: int) -> None:
        for _ in range(count):
            into.append(clock.time(call))

    def switch(name: str, call: Call, into: list[float], count: int) -> None:
        slow = half == 1 and into and statistics.median(into) >= SLOW_SECONDS
        run(call, samples.settling[name], 0 if slow else settling)
        run(call, into, count)

    until = plan.max_seconds
    with garbage_collection_off():
        start = clock.now()
        while True:
            run(eager, samples.eager, half)
            switch("compiled", compiled, samples.compiled, 2 * half)
            switch("eager", eager, samples.eager, half)
            samples.seconds = clock.now() - start
            on_block_end(samples)
            if _done(samples, plan, until):
                time_is_up = until <= samples.seconds < plan.longest_seconds
                if plan.iterations is not None or not time_is_up or not samples.unsure():
                    return samples
                until = plan.longest_seconds
            if (samples.blocks - 1) % samples.blocks_apart == 0:
                run(eager, samples.control, 2 * half)


def _done(samples: Samples, plan: Plan, until: float) -> bool:
    """Whether to stop. `until` is the time limit in force: the plan's, or its longest for an unsure verdict."""
    calls = len(samples.compiled)
    if plan.iterations is not None:
        return calls >= plan.iterations
    if samples.blocks < 2:
        return False
    if samples.seconds >= plan.longest_seconds or calls >= plan.max_calls:
        return True
    if samples.blocks < MIN_BLOCKS or calls < MIN_CALLS:
        return False
    if samples.seconds >= until:
        return True
    if min(sum(samples.eager), sum(samples.compiled)) < plan.min_seconds:
        return False
    speedup = samples.estimate().speedup
    return speedup is not None and speedup.half_width <= plan.precision


def time_fixed_count(
    call: Call, clock: Clock, calls: int, between_calls: Callable[[list[float]], None] = lambda times: None
) -> list[float]:
    """Times `calls` calls, the guide's recipe. Each `REPORT_SECONDS` `between_calls` gets the times so far."""
    times: list[float] = []
    with garbage_collection_off():
        reported = clock.now()
        for _ in range(calls):
            times.append(clock.time(call))
            if clock.now() - reported > REPORT_SECONDS:
                between_calls(times)
                reported = clock.now()
    return times


@contextlib.contextmanager
def garbage_collection_off() -> Iterator[None]:
    """Switches Python's garbage collector off, as `timeit` does: it would run in some calls by chance."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
