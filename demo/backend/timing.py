"""The measurement protocol: warm-up, then blocks of calls (eager, compiled, compiled, eager) and control blocks.

- A control block times eager calls only. Their difference from the other eager calls is the machine's noise floor.
- Covered: drift of the machine, an unfinished warm-up, slow first calls after a switch, Python's garbage collector.
- Not covered: what slows eager and compiled alike (`monitor` looks for it), and speed-ups that differ between
  processes.
- Timing stops once the speed-up's 95 % interval is narrow. This could make the interval miss the true value too often;
  `benchmarks/results/honesty.md` counts in simulations how often it does.
"""

import contextlib
import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch

from ..core import stats
from ..core.measurement import Measurement
from ..core.options import CUDA_GRAPH_MODES, OPTIONS, RunSpec

Call = Callable[[], object]

SETTLED = 0.10
"""Warm-up ends when the last three calls lie within this share of one another and none compiled. The share is that of
torch.utils.benchmark's `adaptive_autorange`, whose rule is for the interquartile range."""
WARMUP_CALLS, MAX_WARMUP_CALLS, MAX_WARMUP_SECONDS = 3, 50, 2.0
CUDA_GRAPH_CALLS = 3
"""Further warm-up calls with CUDA graphs. The first call launches kernels one by one, the second records them as a
graph, and only the third replays the graph."""
BLOCK_SECONDS = 0.12
MAX_CALLS_HALF_BLOCK = 14
"""A block is h eager, 2 h compiled and h eager calls. This is the largest h: in a longer block, drift cancels less."""
MAX_SETTLING_CALLS = 6
"""After each switch between eager and compiled, up to this many settling calls are not counted: caches still hold data
of the other model. On two cores the first call took 5 to 24 % longer than later ones. The model that settled last was
within 2 % of its later calls from call 8 on.
"""
SLOW_SECONDS = 0.1
"""A model is slow if a call takes this long or longer. If eager or compiled is slow, a block is eager, compiled,
compiled, eager, one call each, so that more blocks fit. A slow model has no settling calls, except one before the first
compiled call that counts: on five models of the Transformers guide the first call after a switch took 0.99 to 1.01
times as long as later ones. These times were not kept. The limit of 0.1 s was chosen, not measured.
"""
SLOW_BLOCKS_APART = 3
"""For slow models, whose blocks have four calls, a control block (eager calls only) follows the first block, then every
third. For all others it follows each block."""
MIN_BLOCKS, MIN_CALLS = 6, 20
"""Fewest blocks, and fewest calls of each model, before the timing stops, unless `longest_seconds` are over or the
spec sets the number of calls."""
MOST_TIMING_SECONDS = 60.0
"""With the default `max_seconds`, the timing may last as long as the first compiled call, but at most these seconds."""
REPORT_SECONDS = 0.3
"""Seconds between two reports of `time_fixed_count`: often enough to be followed, too rare to disturb the calls."""
NEW_ESTIMATE = 1.1
"""The speed-up is estimated again when there are this many times as many blocks as at the last estimate. With an
estimate after each block, the timing would more often stop because an interval is narrow by chance."""


def wait_for(device: torch.device) -> Callable[[], None]:
    """Returns a function that waits until the GPU has done all queued work; on a CPU it does nothing."""
    return torch.cuda.synchronize if device.type == "cuda" else lambda: None


class PreparedCall:
    """A call with a preceding step, `prepare`, which `Clock.time` does not time. Calling this object does both."""

    def __init__(self, prepare: Callable[[], None], call: Call) -> None:
        self.prepare, self.call = prepare, call

    def __call__(self) -> object:
        self.prepare()
        return self.call()


class Clock:
    """Measures how long a call takes. On a GPU this includes waiting until the work that the call queued is done."""

    def __init__(self, device: torch.device) -> None:
        self._wait = wait_for(device)

    def time(self, call: Call) -> float:
        if isinstance(call, PreparedCall):
            call.prepare()
            call = call.call
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
    """The rules by which the timing stops. Seconds count only the timing, not warm-up and compiling."""

    precision: float = 0.01
    """Stop once the ends of the speed-up's 95 % interval lie within this share of the estimate, after `min_seconds`."""
    min_seconds: float = 0.5
    """Least seconds of eager calls, and of compiled calls, before a narrow interval may end the timing."""
    max_seconds: float = 3.5
    """Stop after this long, unless blocks or calls are too few, or the verdict would be 'unsure'. The verdict is
    computed once, at this time. Waiting for the first sure verdict would make it wrong more often.
    """
    longest_seconds: float = 7.0
    """Stop after this long in any case, once there are two blocks."""
    max_calls: int = 5_000
    iterations: int | None = None
    """If set, stop after this many calls of each variant, rounded up to whole blocks, and ignore all other limits."""

    @classmethod
    def of(cls, spec: RunSpec, first_call_seconds: float) -> "Plan":
        """Returns the plan for a spec. `first_call_seconds`: the time of the first compiled call.

        `Plan.longest_seconds` is twice `max_seconds`. With the default `max_seconds` it is raised to the time of the
        first call if that is longer, but at most to `MOST_TIMING_SECONDS`.
        """
        longest = 2 * spec.max_seconds
        if spec.max_seconds == OPTIONS["max_seconds"].default:
            longest = max(longest, min(first_call_seconds, MOST_TIMING_SECONDS))
        return cls(spec.precision, max_seconds=spec.max_seconds, longest_seconds=longest, iterations=spec.iterations)


class Estimate(NamedTuple):
    blocks: int = 0
    speedup: stats.Interval | None = None
    """None for fewer than two blocks."""
    eager_seconds: float | None = None
    compiled_seconds: float | None = None
    """Seconds of a compiled call; None before the first block. The speed-up is `eager_seconds / compiled_seconds`."""


@dataclass
class Samples:
    """Seconds of the timed calls of eager and compiled, so far.

    A block is h eager, 2 h compiled and h eager calls; h is `calls_per_half_block`.
    """

    calls_per_half_block: int
    eager: list[float] = field(default_factory=list)
    compiled: list[float] = field(default_factory=list)
    control: list[float] = field(default_factory=list)
    """Eager calls of the control blocks, which time eager against itself."""
    settling: dict[str, list[float]] = field(default_factory=lambda: {"eager": [], "compiled": []})
    """Seconds of the first calls after each switch to eager or to compiled, which do not count."""
    seconds: float = 0.0
    _latest: Estimate = field(default_factory=Estimate)

    @property
    def blocks(self) -> int:
        return len(self.compiled) // (2 * self.calls_per_half_block)

    def estimate(self) -> Estimate:
        """Returns the speed-up and the times of a call as estimated from the calls so far.

        A new estimate is made only when there are 10 % more blocks than at the last estimate. Estimates after each
        block would more often stop the timing because an interval is narrow by chance.
        """
        if self.blocks >= max(1, self._latest.blocks * NEW_ESTIMATE):
            pairs = self._pairs()
            speedup = stats.paired_ratio(*pairs) if self.blocks >= 2 else None
            self._latest = Estimate(self.blocks, speedup, *stats.paired_seconds(*pairs))
        return self._latest

    @property
    def blocks_apart(self) -> int:
        """Number of blocks from one control block, which times eager against itself, to the next."""
        return SLOW_BLOCKS_APART if self.calls_per_half_block == 1 else 1

    def measurement(self, name: str, warmup: Sequence[float] = ()) -> Measurement:
        """Returns the timed calls of "eager", "compiled" or "control". `warmup`: seconds of the warm-up calls."""
        settling, apart = tuple(self.settling.get(name, ())), self.blocks_apart if name == "control" else 1
        calls = 2 * self.calls_per_half_block
        times = tuple(getattr(self, name))
        return Measurement(times, None, tuple(warmup), calls, settling_seconds=settling, blocks_apart=apart)

    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        return stats.side_by_side(self.eager, self.compiled, 2 * self.calls_per_half_block)

    def _series(self) -> tuple[list[float], ...]:
        return self.eager, self.compiled, self.control, *self.settling.values()

    def lengths(self) -> tuple[int, ...]:
        """Returns how many calls of each kind, such as eager or control, there are so far. `cut` takes this value."""
        return tuple(map(len, self._series()))

    def cut(self, lengths: tuple[int, ...]) -> None:
        """Drops all calls that were added since the method `lengths` returned `lengths`."""
        for times, length in zip(self._series(), lengths, strict=True):
            del times[length:]

    def unsure(self) -> bool:
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
    """Repeats a call until its times have settled. Returns the seconds of each call, and whether they settled.

    - `compile_events`: returns a count of compiles. `first_call_ended`: called once, after the first call.
    - Settled: the last three calls took about equally long, and none of them raised the count of compiles.
    - Makes at least `min_calls` calls, and at most `MAX_WARMUP_CALLS`. Also gives up once the calls after the first
      have taken `MAX_WARMUP_SECONDS`, but not if one of the last two calls compiled.
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
    return WARMUP_CALLS + (CUDA_GRAPH_CALLS if device.type == "cuda" and spec.mode in CUDA_GRAPH_MODES else 0)


def median_of_few(call: Call, clock: Clock, calls: int = 5, seconds: float = 0.3) -> float:
    """Returns the median seconds of at most `calls` calls. No call begins after `seconds` have passed."""
    times = [clock.time(call)]
    while len(times) < calls and sum(times) < seconds:
        times.append(clock.time(call))
    return statistics.median(times)


def calls_per_half_block(eager_warmup: list[float], compiled_warmup: list[float], iterations: int | None) -> int:
    """Returns h for blocks of h eager, 2 h compiled and h eager calls: h calls take about half of `BLOCK_SECONDS`.

    - `eager_warmup`, `compiled_warmup`: seconds of the warm-up calls. The last ones of the slower model tell how long a
      call takes.
    - `iterations`: how many calls of each model are planned. h is small enough that they fill `MIN_BLOCKS` blocks.
      None: no such limit.
    - h is at most `MAX_CALLS_HALF_BLOCK`, and at least 2, or 1 if a call takes `SLOW_SECONDS` or more.
    """
    slowest = max(sorted(times[-3:])[1] for times in (eager_warmup, compiled_warmup))
    half = min(MAX_CALLS_HALF_BLOCK, round(BLOCK_SECONDS / slowest / 2))
    if iterations is not None:
        half = min(half, iterations // (2 * MIN_BLOCKS))
    return max(1 if slowest >= SLOW_SECONDS else 2, half)


def time_interleaved(
    eager: Call,
    compiled: Call,
    clock: Clock,
    plan: Plan,
    half: int,
    on_block_end: Callable[[Samples], float | None],
) -> Samples:
    """Times eager and compiled in blocks, with control blocks (eager calls only) between, until the plan says stop.

    - With `half` = 5 the order is: 5 eager, 10 compiled, 5 eager | 10 eager (control) | 5 eager, 10 compiled, ...
    - So a drift of the machine affects eager and compiled equally. The control calls, too, lie between eager calls.
    - The first calls after a switch to the other model do not count, because a server runs only one model. They do
      count if a call takes `SLOW_SECONDS` or more, as the earlier timed calls of that model tell.
    - `on_block_end` is called after each block. If it raises, the timing ends. It returns for how many seconds this
      process was stopped since the last block; 0 or None for none. After a stop, all calls since the last block are
      dropped, and the stopped time does not count.
    """
    samples = Samples(half)
    # At most a fifth of a variant's calls, because there is one switch to it for 2 `half` calls that count.
    settling = max(1, min(MAX_SETTLING_CALLS, half // 2))

    def run(call: Call, into: list[float], count: int) -> None:
        for _ in range(count):
            into.append(clock.time(call))

    def switch(name: str, call: Call, into: list[float], count: int) -> None:
        slow = half == 1 and into and statistics.median(into) >= SLOW_SECONDS
        run(call, samples.settling[name], 0 if slow else settling)
        run(call, into, count)

    until = plan.max_seconds
    with garbage_collection_off():
        start, kept = clock.now(), samples.lengths()
        while True:
            # Before the block: if a stop has dropped the control block, it is timed again, so that each has its place.
            if samples.blocks and (samples.blocks - 1) % samples.blocks_apart == 0:
                run(eager, samples.control, 2 * half)
            run(eager, samples.eager, half)
            switch("compiled", compiled, samples.compiled, 2 * half)
            switch("eager", eager, samples.eager, half)
            samples.seconds = clock.now() - start
            if stopped := on_block_end(samples):
                start += stopped
                samples.cut(kept)
                continue
            kept = samples.lengths()
            if _done(samples, plan, until):
                time_is_up = until <= samples.seconds < plan.longest_seconds
                if plan.iterations is not None or not time_is_up or not samples.unsure():
                    return samples
                until = plan.longest_seconds


def _done(samples: Samples, plan: Plan, until: float) -> bool:
    """Returns whether to stop timing: time, calls or precision have reached their limit in `plan`.

    `until`: after this many seconds the timing stops, even if the interval is still wide. It is the plan's
    `max_seconds`, and `longest_seconds` once the verdict was 'unsure' at that time.
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
    call: Call, clock: Clock, calls: int, between_calls: Callable[[list[float]], float | None] = lambda times: None
) -> list[float]:
    """Returns the seconds of `calls` calls.

    Every `REPORT_SECONDS`, and at the end, calls `between_calls` with the seconds so far. It returns for how many
    seconds this process was stopped since the last time; 0 or None for none. After a stop, the calls since the last
    time are dropped.
    """
    times: list[float] = []
    with garbage_collection_off():
        kept, reported = 0, clock.now()
        while len(times) < calls:
            times.append(clock.time(call))
            if clock.now() - reported > REPORT_SECONDS or len(times) == calls:
                if between_calls(times):
                    del times[kept:]
                kept, reported = len(times), clock.now()
    return times


def time_alone(call: Call, clock: Clock, spec: RunSpec, pause: Callable[[], float]) -> list[float]:
    """Times calls of one model only, for half of the spec's `max_seconds`. Returns the seconds of each call.

    If the spec sets the number of calls (`iterations`), it is used instead. At least `MIN_CALLS` calls are timed, and
    without `iterations` at most `Plan.max_calls`. `pause`: as `Observer.pause`; the calls around a stop are dropped.
    """
    seconds = median_of_few(call, clock)
    calls = spec.iterations or min(Plan.max_calls, round(spec.max_seconds / 2 / seconds))
    return time_fixed_count(call, clock, max(MIN_CALLS, calls), lambda times: pause())


@contextlib.contextmanager
def garbage_collection_off() -> Iterator[None]:
    """Switches Python's garbage collector off, as `timeit` does, because it would slow some calls at random."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
