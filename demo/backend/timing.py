"""The measurement protocol: verified warm-up, then interleaved A B B A blocks with an A/A control.

Covered: drift of the machine, warm-up that has not ended, the slower first calls after a switch of variant, compiling
during the timing (the caller compares the log's events), Python's garbage collector, and this machine's noise floor.
Not covered: what is wrong for both variants alike (a throttled clock, a busy machine: `monitor` watches those), and
what differs from process to process. Stopping by the interval's width lowers its coverage a little:
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
"""Further warm-up calls of a CUDA-graph mode, which runs once eagerly, then records, and replays from the third on."""
BLOCK_SECONDS = 0.12
MAX_CALLS_HALF_BLOCK = 14
"""Longer blocks would let calls settle better, but leave fewer pairs, and drift within a block does not cancel."""
MAX_SETTLING_CALLS = 6
"""After a switch of variant the caches hold the other one's data: on two cores the first call took 5 to 24 % longer
than the steady ones, and the compiled shapes-rtdetr came within 2 % with its eighth."""
SLOW_SECONDS = 0.1
"""Calls at least this long have one call per half block, so that more blocks fit, and no settling calls (measured on
five of the guide's models: the first after a switch took 0.99 to 1.01 times as long as the others)."""
SLOW_BLOCKS_APART = 3
"""With half blocks of one call the A/A control comes after every third block only."""
MIN_BLOCKS, MIN_CALLS = 6, 20
"""Least blocks and calls of each variant, where time allows: fewer are no basis for a figure."""
MOST_TIMING_SECONDS = 60.0
"""Seconds of timing at most, however long the first compiled call took."""
REPORT_SECONDS = 0.3
"""Seconds between two reports of `time_fixed_count`."""
NEW_ESTIMATE = 1.1
"""The speed-up is estimated anew when there are this many times as many blocks."""


def wait_for(device: torch.device) -> Callable[[], None]:
    """Waits for what a GPU has in its queue; on a CPU there is nothing to wait for."""
    return torch.cuda.synchronize if device.type == "cuda" else lambda: None


class Clock:
    """The time that one caller waits: for the call, and on a GPU for the work that it queued."""

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
    """Stop after this long, unless there are fewer blocks or calls than that, or the verdict would be 'unsure'. That is
    decided once: extending until the verdict is sure would make it wrong more often."""
    longest_seconds: float = 7.0
    """Stop in any case after this long, once there are two blocks."""
    max_calls: int = 5_000
    iterations: int | None = None
    """Exactly this many calls of each variant instead, rounded up to whole blocks."""

    @classmethod
    def of(cls, spec: RunSpec, first_call_seconds: float) -> "Plan":
        """The spec's limit, at most doubled. If nobody chose one, a slow model, which compiles for long, may also take
        as long as its first compiled call did."""
        longest = 2 * spec.max_seconds
        if spec.max_seconds == OPTIONS["max_seconds"].default:
            longest = max(longest, min(first_call_seconds, MOST_TIMING_SECONDS))
        return cls(spec.precision, max_seconds=spec.max_seconds, longest_seconds=longest, iterations=spec.iterations)


class Estimate(NamedTuple):
    """What is known after so many blocks."""

    blocks: int = 0
    speedup: stats.Interval | None = None
    """None of fewer than two blocks."""
    eager_seconds: float | None = None
    compiled_seconds: float | None = None
    """A call of each, whose quotient is the speed-up; None before the first block."""


@dataclass
class Samples:
    """Seconds of the timed calls, as they come in. With h for `calls_per_half_block`, a block is h eager, 2 h compiled
    and h eager calls, beside the calls that settle."""

    calls_per_half_block: int
    eager: list[float] = field(default_factory=list)
    compiled: list[float] = field(default_factory=list)
    control: list[float] = field(default_factory=list)
    """Eager calls of the A/A control blocks."""
    settling: dict[str, list[float]] = field(default_factory=lambda: {"eager": [], "compiled": []})
    """By variant, its first calls after switches to it, which are not counted."""
    seconds: float = 0.0
    """Clock time from the first call to the last, with what lies between calls."""
    _latest: Estimate = field(default_factory=Estimate)

    @property
    def blocks(self) -> int:
        return len(self.compiled) // (2 * self.calls_per_half_block)

    def estimate(self) -> Estimate:
        """Made anew only when there are a tenth more blocks: a check after every block would stop on lucky fluctuations
        and lower the interval's coverage."""
        if self.blocks >= max(1, self._latest.blocks * NEW_ESTIMATE):
            pairs = self._pairs()
            speedup = stats.paired_ratio(*pairs) if self.blocks >= 2 else None
            self._latest = Estimate(self.blocks, speedup, *stats.paired_seconds(*pairs))
        return self._latest

    @property
    def blocks_apart(self) -> int:
        """A control block comes after every so many blocks."""
        return SLOW_BLOCKS_APART if self.calls_per_half_block == 1 else 1

    def measurement(self, name: str, warmup: Sequence[float] = ()) -> Measurement:
        """The calls of a variant or of the control, after warm-up calls of `warmup` seconds."""
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
    """Calls until the last three agree and none of them compiled anything.

    Returns the seconds of each call, and whether they settled. At least `min_calls` calls; at most `MAX_WARMUP_CALLS`,
    or `MAX_WARMUP_SECONDS` after the first call, which compiles. `compile_events` counts what was compiled so far.
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
    """Least warm-up calls of the compiled model: more where its first calls record CUDA graphs."""
    return WARMUP_CALLS + (CUDA_GRAPH_CALLS if device.type == "cuda" and spec.mode in CUDA_GRAPH_MODES else 0)


def median_of_few(call: Call, clock: Clock, calls: int = 5, seconds: float = 0.3) -> float:
    """Median seconds of at most `calls` calls, none of them begun after `seconds`. For what surrounds the model."""
    times = [clock.time(call)]
    while len(times) < calls and sum(times) < seconds:
        times.append(clock.time(call))
    return statistics.median(times)


def calls_per_half_block(eager_warmup: list[float], compiled_warmup: list[float], iterations: int | None) -> int:
    """So many that a block takes the slower variant about `BLOCK_SECONDS`, and `MIN_BLOCKS` fit into `iterations`.

    The seconds of a call are the median of the last three warm-up calls. At least 2, else settling would take more than
    a fifth of the timing; or 1 from `SLOW_SECONDS` on.
    """
    slowest = max(sorted(times[-3:])[1] for times in (eager_warmup, compiled_warmup))
    half = min(MAX_CALLS_HALF_BLOCK, round(BLOCK_SECONDS / slowest / 2))
    if iterations is not None:
        half = min(half, iterations // (2 * MIN_BLOCKS))
    return max(1 if slowest >= SLOW_SECONDS else 2, half)


def settling_calls(half: int) -> int:
    """Calls that are not counted after each switch of variant: at most a fifth of its calls, as each variant has one
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
    """Times the two in blocks A B B A, with an A/A control block between two of them, until the plan is met.

    With `half` = 5 calls per half block the order is: 5 eager, 10 compiled, 5 eager | 10 eager (control) | 5 eager,
    10 compiled, ... The control lies between eager calls just as the compiled calls do: it shows what the protocol
    reports for two equal variants on this machine. Drift falls on both sides of each comparison.

    After a switch of variant `settling_calls` calls are not counted: a server, which calls one variant only, never
    waits for such a call. Calls that take `SLOW_SECONDS` need none.

    `on_block_end` is called between blocks. What it raises breaks the timing off.
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
    """Whether to stop, where the verdict is sure or the timing has lasted `until` its end."""
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
    """The guide's recipe: `calls` calls of one variant. `between_calls` gets the times so far each `REPORT_SECONDS`."""
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
    """Switches Python's garbage collector off, as `timeit` does: it would run in calls of either variant by chance."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
