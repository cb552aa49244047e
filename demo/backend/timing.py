"""The measurement protocol: warm-up, then blocks of calls (eager, compiled, compiled, eager) and control blocks.

A control block (A/A control) times eager against itself. The difference that it finds is the machine's noise floor.
Covered: drift of the machine; warm-up that has not ended; slower first calls after a switch of variant; compiling
during the timing (the caller compares the log's events); Python's garbage collector. Not covered: what slows both
variants alike (a throttled clock, a busy machine: `monitor` watches those), and what differs from process to
process. Timing stops once the speed-up's interval is narrow. The interval then holds the true value a little less
often than it claims: `benchmarks/results/honesty.md` has the numbers. The clock is a parameter, so that tests can
simulate it.
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
"""Warm-up has settled when its last three calls lie within this share of one another, as in
torch.utils.benchmark."""
WARMUP_CALLS, MAX_WARMUP_CALLS, MAX_WARMUP_SECONDS = 3, 50, 2.0
CUDA_GRAPH_CALLS = 3
"""Further warm-up calls with CUDA graphs: the first runs eagerly, the second records, and the third replays."""
BLOCK_SECONDS = 0.12
MAX_CALLS_HALF_BLOCK = 14
"""Most calls of a half block. In longer blocks calls settle better, but blocks are fewer, and drift cancels
less."""
MAX_SETTLING_CALLS = 6
"""Most calls after a switch of variant that are not counted: caches hold the other variant's data. On two cores the
first call took 5 to 24 % longer than later calls; the bundled shapes-rtdetr, compiled, came within 2 % with call
8."""
SLOW_SECONDS = 0.1
"""For calls of at least this length a half block is one call, so that more blocks fit, and every call counts. On
five models of the Transformers guide the first call after a switch took 0.99 to 1.01 times as long as later
calls."""
SLOW_BLOCKS_APART = 3
"""With half blocks of one call a control block comes after every third block only, the first one after the
first."""
MIN_BLOCKS, MIN_CALLS = 6, 20
"""Least blocks, and least calls of each variant, if time allows: fewer are no basis for a speed-up."""
MOST_TIMING_SECONDS = 60.0
"""Longest timing at the default limit, however long the first compiled call took."""
REPORT_SECONDS = 0.3
"""Seconds between two reports of `time_fixed_count`."""
NEW_ESTIMATE = 1.1
"""The speed-up is estimated again when the blocks have grown by this factor."""


def wait_for(device: torch.device) -> Callable[[], None]:
    """Returns a function that waits until the device's queue is empty; on a CPU the function does nothing."""
    return torch.cuda.synchronize if device.type == "cuda" else lambda: None


class Clock:
    """Measures the seconds that a caller waits: for a call, and on a GPU for the work that the call queued."""

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
    """When the timing stops. All seconds are of timing, without warm-up and compiling."""

    precision: float = 0.01
    """Stop when both ends of the speed-up's 95 % interval are within this share of the estimate ..."""
    min_seconds: float = 0.5
    """... and each variant has had this much time, `MIN_BLOCKS` and `MIN_CALLS`."""
    max_seconds: float = 3.5
    """Stop after this long, unless there are too few blocks or calls, or the verdict would be 'unsure'. The verdict
    is looked at once: to go on until it is sure would make it wrong more often."""
    longest_seconds: float = 7.0
    """Stop in any case after this long, once there are two blocks."""
    max_calls: int = 5_000
    iterations: int | None = None
    """Calls of each variant, rounded up to whole blocks, after which to stop instead; None: the limits above
    hold."""

    @classmethod
    def of(cls, spec: RunSpec, first_call_seconds: float) -> "Plan":
        """Returns the plan for a spec.

        Its longest time is twice the spec's limit. With the default limit it may be as long as the first compiled
        call, because a slow model compiles for long.
        """
        longest = 2 * spec.max_seconds
        if spec.max_seconds == OPTIONS["max_seconds"].default:
            longest = max(longest, min(first_call_seconds, MOST_TIMING_SECONDS))
        return cls(spec.precision, max_seconds=spec.max_seconds, longest_seconds=longest, iterations=spec.iterations)


class Estimate(NamedTuple):
    """The estimated speed-up and times after a number of blocks."""

    blocks: int = 0
    speedup: stats.Interval | None = None
    """None for fewer than two blocks."""
    eager_seconds: float | None = None
    compiled_seconds: float | None = None
    """Seconds of a call; their quotient is the speed-up. None before the first block."""


@dataclass
class Samples:
    """Seconds of the timed calls so far.

    With h = `calls_per_half_block` a block is h eager, 2 h compiled and h eager calls. Settling calls, the first
    ones after a switch of variant, are kept apart and not counted.
    """

    calls_per_half_block: int
    eager: list[float] = field(default_factory=list)
    compiled: list[float] = field(default_factory=list)
    control: list[float] = field(default_factory=list)
    """Eager calls of the A/A control blocks."""
    settling: dict[str, list[float]] = field(default_factory=lambda: {"eager": [], "compiled": []})
    """By variant: seconds of the first calls after each switch to the variant, which are not counted."""
    seconds: float = 0.0
    """Clock time from the first call to the last, pauses between calls included."""
    _latest: Estimate = field(default_factory=Estimate)

    @property
    def blocks(self) -> int:
        return len(self.compiled) // (2 * self.calls_per_half_block)

    def estimate(self) -> Estimate:
        """Returns the latest estimate, made anew only with a tenth more blocks: a check after every block would
        stop the timing on lucky fluctuations, and the interval would hold the true value less often."""
        if self.blocks >= max(1, self._latest.blocks * NEW_ESTIMATE):
            pairs = self._pairs()
            speedup = stats.paired_ratio(*pairs) if self.blocks >= 2 else None
            self._latest = Estimate(self.blocks, speedup, *stats.paired_seconds(*pairs))
        return self._latest

    @property
    def blocks_apart(self) -> int:
        """Number of blocks from one control block to the next."""
        return SLOW_BLOCKS_APART if self.calls_per_half_block == 1 else 1

    def measurement(self, name: str, warmup: Sequence[float] = ()) -> Measurement:
        """Returns the calls of "eager", "compiled" or "control". `warmup` has the seconds of its warm-up calls."""
        settling, apart = tuple(self.settling.get(name, ())), self.blocks_apart if name == "control" else 1
        calls = 2 * self.calls_per_half_block
        times = tuple(getattr(self, name))
        return Measurement(times, None, tuple(warmup), calls, settling_seconds=settling, blocks_apart=apart)

    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        return stats.side_by_side(self.eager, self.compiled, 2 * self.calls_per_half_block)

    def unsure(self) -> bool:
        """Returns whether a verdict on the calls so far would be 'unsure'."""
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
    """Repeats a call until its last three times agree and none of the three compiled (`compile_events` stayed equal).

    Returns the seconds of each call, and whether they settled. Makes at least `min_calls` calls. Gives up after
    `MAX_WARMUP_CALLS` calls, or after `MAX_WARMUP_SECONDS` without the first call, which compiles.
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
    """Returns the least warm-up calls of the compiled model: more if its first calls record CUDA graphs."""
    return WARMUP_CALLS + (CUDA_GRAPH_CALLS if device.type == "cuda" and spec.mode in CUDA_GRAPH_MODES else 0)


def median_of_few(call: Call, clock: Clock, calls: int = 5, seconds: float = 0.3) -> float:
    """Returns the median seconds of at most `calls` calls, none begun after `seconds`.

    For steps around the model.
    """
    times = [clock.time(call)]
    while len(times) < calls and sum(times) < seconds:
        times.append(clock.time(call))
    return statistics.median(times)


def calls_per_half_block(eager_warmup: list[float], compiled_warmup: list[float], iterations: int | None) -> int:
    """Returns the calls of a half block, so that the slower variant's half block takes half of `BLOCK_SECONDS`.

    A call's time is the median of the last three warm-up calls. `MIN_BLOCKS` blocks fit into `iterations`. The
    least is 2, else settling would take more than a fifth of the timing; 1 if a call takes `SLOW_SECONDS` or more.
    """
    slowest = max(sorted(times[-3:])[1] for times in (eager_warmup, compiled_warmup))
    half = min(MAX_CALLS_HALF_BLOCK, round(BLOCK_SECONDS / slowest / 2))
    if iterations is not None:
        half = min(half, iterations // (2 * MIN_BLOCKS))
    return max(1 if slowest >= SLOW_SECONDS else 2, half)


def settling_calls(half: int) -> int:
    """Returns how many calls after each switch of variant are not counted: at most a fifth of a variant's calls,
    since there is one switch to it for 2 `half` counted calls.

    `half` is the number of calls of a half block.
    """
    return max(1, min(MAX_SETTLING_CALLS, half // 2))


def time_interleaved(
    eager: Call,
    compiled: Call,
    clock: Clock,
    plan: Plan,
    half: int,
    on_block_end: Callable[[Samples], None],
) -> Samples:
    """Times both variants in blocks, with control blocks (eager against eager) between them, until the plan is met.

    1. With `half` = 5 the order is: 5 eager, 10 compiled, 5 eager | 10 eager (control) | 5 eager, 10 compiled, ...
    2. Drift falls on both sides of each comparison. The control calls lie between eager calls as the compiled calls do,
       so they show what the protocol reports for two equal variants on this machine.
    3. After a switch of variant `settling_calls` calls are not counted: a server calls one variant only, so it never
       switches. Calls that take `SLOW_SECONDS` or longer are all counted.
    4. `on_block_end` is called after each block. If it raises, the timing ends.
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
    """Returns whether to stop.

    `until`: the time limit in force, the plan's, or its longest for an unsure verdict.
    """
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
    """Returns the seconds of `calls` calls. Every `REPORT_SECONDS` `between_calls` gets the times so far."""
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
