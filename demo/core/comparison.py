"""The speed-up of compiled over eager, pooled over several processes, for each quantity that a run times."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from . import stats
from .stats import Difference, Duration, Interval, Measured

Basis = Literal["repeats", "this machine", "assumed", "within one process"]
"""Source of the spread of a speed-up between processes. The interval of the speed-up includes this spread.

- 'repeats': from several processes with these settings, averaged with the spread that was known before
- 'this machine': from repeated runs with other settings on this machine, averaged with an assumed spread
- 'assumed': from measurements on other machines
- 'within one process': the spread is not known, so the interval is right for this one process only
"""
OpenBecause = Literal["", "interval", "control", "machine", "recompiled"]
"""Why the verdict is 'unsure'; '' for any other verdict.

- 'interval': the interval contains 1
- 'control': the interval contains 1 only because it also allows for the difference between two series of eager calls
- 'machine': other programs used CPU cores during the timing
- 'recompiled': the model was recompiled while it was timed
"""


@dataclass(frozen=True)
class Spread:
    """How far a speed-up, or the time of a first call, varies from process to process: assumed, or from other runs."""

    basis: Literal["this machine", "assumed", "within one process"]
    deviation: float
    """Standard deviation of the logarithm of the speed-up or time: 0.03 is about 3 %."""
    freedom: float | None = None
    """Degrees of freedom of `deviation`; None if it is exact."""

    def after(self, deviation: float, freedom: float) -> "Spread":
        """Returns this spread, averaged with the spread that repeated runs on this machine showed.

        - `deviation`: the standard deviation of the logarithm of the speed-up in the repeated runs.
        - `freedom`: the degrees of freedom of `deviation`.
        - If this spread has no `freedom` of its own, it is exact, and is returned unchanged.
        """
        if self.freedom is None:
            return self
        mean = stats.moderated_variance(deviation**2, freedom, self.deviation**2, self.freedom)
        return Spread("this machine", math.sqrt(mean), freedom + self.freedom)


ASSUMED = Spread("assumed", 0.025, 10.0)
"""The spread of speed-ups to assume until runs have been repeated on this machine: 2.5 %, ten degrees of freedom.

Ten spreads measured on CPUs have a root mean square of 2.1 % (`benchmarks/results/reruns.md`). None is from a GPU."""
WITHIN = Spread("within one process", 0.0)
ASSUMED_FIRST_CALLS = {"cold": Spread("assumed", 0.25, 10.0), "warm": Spread("assumed", 0.15, 10.0)}
"""The spread of the time of a first call, by state of the compile cache, to assume for runs on this machine.

Measured on a machine with two cores, with 18 degrees of freedom each:

- on the quiet machine, 12 % cold and 8.7 % warm (`benchmarks/results/first_calls.md`)
- while other programs used the machine, 16 % cold and 28 % warm (the table was not kept)

Nobody knows whether other programs will be busy during a later first call, so the assumed spreads are wider on purpose
than those of the quiet machine: 2.1 times (cold) and 1.7 times (warm)."""
ON_GPU = Spread("within one process", 0.025, 5.0)
"""The spread of speed-ups to assume on a GPU if several processes are pooled. The deviation is that of `ASSUMED`, with
half of the degrees of freedom, because it was measured on CPUs only."""
HOST_BOUND = Spread("within one process", 0.25, 1.0)
"""The spread of speed-ups to assume on a GPU if several processes are pooled, and eager calls wait for the host.

On an H200 each of three models was timed in two processes (`assets/measured/h200.csv`). An eager call took 3.99 ms in
one process and 7.07 ms in the other; with the other models 4.92 and 6.09 ms, 7.78 and 8.56 ms. The root mean square of
the logarithms of the three ratios, divided by the square root of 2, is 0.25. For each model, the slower process was the
one that compiled with mode reduce-overhead. So the three differences may have one cause, and count as one degree of
freedom."""


def assumed_spread(device: str, host_bound: bool | None) -> Spread:
    """Returns the spread of speed-ups to assume until runs have been repeated on this machine.

    - `device`: 'cpu' or 'cuda'. For 'cuda' the spread is used only if several processes are pooled: the interval of
      one process does not include it.
    - `host_bound`: whether the GPU waits, in an eager call, for the host to launch kernels. None (not known) counts as
      True. Ignored for 'cpu'.
    """
    if device != "cuda":
        return ASSUMED
    return ON_GPU if host_bound is False else HOST_BOUND


@dataclass(frozen=True)
class ProcessFigure:
    """The times of eager and compiled, and the speed-up, that one process measured for one quantity, such as a call."""

    eager_seconds: float
    compiled_seconds: float
    within: Interval
    """The speed-up with its interval, for this process alone."""
    control: Interval | None = None
    """Time of the eager calls, divided by that of a second series of eager calls: 1 without measurement errors."""


@dataclass(frozen=True)
class ProcessResult:
    """The figures of one process. A speed-up is pooled over the processes of runs with the same settings."""

    id: str
    figures: dict[str, ProcessFigure]
    """One figure for each quantity that was timed: "call", or for a text model "token" and "first_token"."""
    threads: int | None = None


@dataclass(frozen=True)
class Speedup(Difference):
    """The speed-up of compiled over eager, pooled over one or more processes, with its interval and verdict."""

    eager_seconds: float
    compiled_seconds: float
    within: Interval
    """The speed-up with its interval for one process alone: the newest of the processes that are pooled."""
    pooled: Measured
    """The speed-up with its interval before `stats.compare` widens the interval for a verdict.

    To compare two runs, their `pooled` are divided, and the quotient gets the verdict."""
    basis: Basis
    control: Interval | None = None
    """Time of the eager calls, divided by that of a second series of eager calls. Pooled over all processes."""
    processes: int = 1
    deviation: float = 0.0
    """Spread between processes, which the interval includes: standard deviation of the logarithm of the speed-up."""
    open_because: OpenBecause = ""

    @property
    def floor(self) -> float:
        """The noise floor: how far two series of eager calls differed, 0.004 for 0.4 %; 0 if not known."""
        return stats.noise_floor(self.control)

    @property
    def widened_by(self) -> Literal["", "control", "machine"]:
        """Why the interval from `low` to `high` is wider than the interval of `pooled`; '' if it is not wider.

        - 'machine': other programs used cores during the timing.
        - 'control': the noise floor is larger than the distance from the speed-up to each end of the interval of
          `pooled`.
        """
        if self.pooled.taken:
            return "machine"
        floor_is_wider = math.log1p(self.floor) > math.log(self.pooled.ratio / self.pooled.low)
        floor_is_wider &= math.log1p(self.floor) > math.log(self.pooled.high / self.pooled.ratio)
        return "control" if floor_is_wider and self.verdict != "same" else ""

    @property
    def latencies(self) -> tuple[float, float]:
        return self.eager_seconds, self.compiled_seconds


def compare_variants(
    own: ProcessFigure,
    before: Sequence[ProcessFigure] = (),
    spread: Spread = WITHIN,
    taken: bool = False,
    recompiled: bool = False,
) -> Speedup:
    """Returns compiled's speed-up over eager, pooled over several processes, with its interval and verdict.

    - `own`: what the process of this run measured.
    - `before`: what earlier processes with the same settings measured. No other program disturbed them.
    - `spread`: how speed-ups vary between processes. A spread with the basis 'within one process' counts only if
      several processes are pooled.
    - `taken`: whether other programs used CPU cores while `own` was timed. If so, `own` is left out; if `before` is
      empty, `own` stays and the interval becomes wider.
    - `recompiled`: whether the model was compiled again while `own` was timed. The verdict is then 'unsure'.
    """
    if taken and before:
        figures, taken = [*before], False
    else:
        figures = [*before, own]
    if len(figures) == 1 and spread.basis == "within one process":
        spread = WITHIN
    pooled = stats.rerun_ratio([figure.within for figure in figures], spread.deviation, spread.freedom or math.inf)
    controls = [figure.control for figure in figures if figure.control is not None]
    both = stats.rerun_ratio(controls, 0.0, math.inf) if controls else None
    control = Interval(both.ratio, both.low, both.high) if both is not None else None
    measured = Measured(pooled.ratio, pooled.low, pooled.high, stats.noise_floor(control), taken)
    stated = measured.judge()
    because: OpenBecause = ""
    if recompiled:
        because = "recompiled"
    elif stated.verdict == "unsure":
        because = "machine" if taken else "interval" if pooled.low <= 1 <= pooled.high else "control"
    return Speedup(
        ratio=stated.ratio,
        low=stated.low,
        high=stated.high,
        verdict="unsure" if recompiled else stated.verdict,
        eager_seconds=stats.geometric_mean([figure.eager_seconds for figure in figures], pooled.weights),
        compiled_seconds=stats.geometric_mean([figure.compiled_seconds for figure in figures], pooled.weights),
        within=figures[-1].within,
        pooled=measured,
        basis="repeats" if len(figures) > 1 else spread.basis,
        control=control,
        processes=len(figures),
        deviation=pooled.deviation,
        open_because=because,
    )


@dataclass(frozen=True)
class BreakEven:
    """The number of compiled calls after which the time saved equals the time of the first call, which compiles.

    `calls` is the estimate. None in `calls`, `low`, `high`, `images` or `seconds` means never.
    """

    calls: int | None
    low: int | None
    high: int | None
    """`low` and `high`: the ends of the 95 % interval of `calls`, from the errors of speed-up and first call."""
    images: int | None
    """Number of images in `calls` calls; for a text model, number of tokens."""
    seconds: float | None
    """Seconds of the first call and `calls` compiled calls together."""
    answers: int | None = None
    """For a text model: how often a batch of whole texts has to be generated until the first call is paid for.

    None for other models, and if it is never paid for."""


@dataclass(frozen=True)
class WayCost:
    """The seconds of a process's first call and of each later call, with one way to run the model, such as eager.

    Eager's first call counts as 0 s, because it compiles nothing.
    """

    first: Duration
    call: Duration
    """Time of each call after the first; for a text model, time of each token."""

    def total(self, calls: float) -> Duration:
        return stats.total(self.first, calls, self.call)


def way_costs(eager_seconds: float, speedup: Difference, first: Duration) -> tuple[WayCost, WayCost]:
    """Returns the cost of eager and the cost of compiled for one process, from a measured speed-up.

    - `eager_seconds`: seconds of an eager call or token. `first`: the time of compiled's first call.
    - If the verdict is 'same', each further compiled call is given the time of an eager call.
    """
    call = eager = Duration(eager_seconds, eager_seconds, eager_seconds)
    if speedup.verdict != "same":
        ends = (speedup.ratio, speedup.high, speedup.low)
        call = Duration(*(eager_seconds / end for end in ends))
    return WayCost(Duration(0.0, 0.0, 0.0), eager), WayCost(first, call)


def calls_that_pay(eager: WayCost, compiled: WayCost) -> tuple[int | None, int | None, int | None]:
    """Returns how many calls make up for compiled's first call: (estimate, fewest, most). None: they never do."""
    return stats.calls_to_pay(compiled.first, stats.difference(eager.call, compiled.call))


def first_call_duration(state: str, seconds: Sequence[float]) -> Duration:
    """Returns the geometric mean of first calls' times. The interval includes the spread of `ASSUMED_FIRST_CALLS`.

    - `state`: the state of the compile cache when the process starts: 'cold', 'partly' or 'warm'.
    - `seconds`: the times of the first calls in runs with the same settings.
    """
    spread = ASSUMED_FIRST_CALLS["warm" if state == "warm" else "cold"]
    return stats.pooled_duration(seconds, spread.deviation, spread.freedom or math.inf)


def known_best(ways: Mapping[str, WayCost], calls: float) -> list[str]:
    """Returns the names of the ways to run a model, such as 'eager', that may be fastest for `calls` calls.

    A way is left out if another way is known to take less time. If several ways are returned, the intervals of their
    times do not tell which one is the fastest.
    """
    totals = {name: way.total(calls) for name, way in ways.items()}
    return [
        name
        for name, total in totals.items()
        if all(stats.difference(total, other).low <= 0 for other in totals.values())
    ]


@dataclass(frozen=True)
class WholeWork:
    """The total time of a process's calls, with eager and with compiled. Compiled's total includes its first call."""

    eager_seconds: float
    compiled: Duration
    saved: Duration
    """Eager's time minus compiled's time; negative if compiling costs more than it saves.

    The interval includes the errors of the speed-up and of the first call. It contains 0 if the number of calls is
    between `BreakEven.low` and `BreakEven.high`."""
    speedup: Interval
    """Eager's time divided by compiled's time."""


def whole_work(calls: float, eager: WayCost, compiled: WayCost) -> WholeWork:
    ours, theirs = eager.total(calls), compiled.total(calls)
    ratio = Interval(ours.seconds / theirs.seconds, ours.seconds / theirs.high, ours.seconds / theirs.low)
    return WholeWork(ours.seconds, theirs, stats.difference(ours, theirs), ratio)
