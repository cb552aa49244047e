"""The speed-up of compiled over eager for one timed quantity ("call", "first_token"), pooled over several processes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from demo.core import stats
from demo.core.stats import Difference, Interval

Basis = Literal["repeats", "this machine", "assumed", "within one process"]
"""Where the spread between processes, by which the interval is widened, comes from.

- 'repeats': from several processes with these settings on this machine
- 'this machine': from runs with other settings that were repeated on this machine
- 'assumed': from measurements on other machines
- 'within one process': no spread is known; the interval holds in this process only
"""
OpenBecause = Literal["", "interval", "control", "machine", "recompiled"]
"""Why the verdict is 'unsure'; '' for any other verdict.

- 'interval': the interval contains 1
- 'control': eager, timed against itself (the A/A control), differed from itself by more than from compiled
- 'machine': other programs used the cores
- 'recompiled': the model was recompiled while it was timed
"""


@dataclass(frozen=True)
class Spread:
    """How far a speed-up varies from process to process, as other runs than the pooled ones showed."""

    basis: Literal["this machine", "assumed", "within one process"]
    deviation: float
    """Standard deviation of the logarithm of the speed-up: 0.03 is about 3 %."""
    freedom: float | None = None
    """Degrees of freedom of `deviation`; None if `deviation` is exact."""


ASSUMED = Spread("assumed", 0.025, 10.0)
"""The spread before this machine has repeated any run: 2.5 %, with ten degrees of freedom.

Ten spreads measured on CPUs have a root mean square of 2.1 % (`benchmarks/results/reruns.md`); none is from a GPU."""
WITHIN = Spread("within one process", 0.0)


@dataclass(frozen=True)
class ProcessFigure:
    """The latencies and the speed-up that one process measured for one timed quantity, such as "call"."""

    eager_seconds: float
    compiled_seconds: float
    """Seconds of one compiled call. `eager_seconds / compiled_seconds` is this process's speed-up."""
    within: Interval
    """The speed-up with its interval for this process alone."""
    control: Interval | None = None
    """The A/A control: the ratio of eager to eager, timed in the same way, whose true value is 1."""


@dataclass(frozen=True)
class ProcessResult:
    """One process of the pool behind a speed-up: a stored run with the same settings and versions on this machine."""

    id: str
    """`RunResult.id` of the stored run."""
    figures: dict[str, ProcessFigure]
    """By the name of the timed quantity: "call", "token" or "first_token"."""
    threads: int | None = None


@dataclass(frozen=True)
class Comparison(Difference):
    """The speed-up over all pooled processes, with its verdict.

    `basis` says whether the interval holds for a rerun.
    """

    eager_seconds: float
    compiled_seconds: float
    """Seconds of one compiled call: a weighted geometric mean over the processes. The quotient of both is
    `ratio`."""
    within: Interval
    """The speed-up with its interval for this run's own process alone."""
    basis: Basis
    control: Interval | None = None
    """The A/A control (eager over eager) over all processes, which average random noise away."""
    processes: int = 1
    deviation: float = 0.0
    """Spread between processes in the interval: standard deviation of the logarithm of the speed-up."""
    open_because: OpenBecause = ""

    @property
    def floor(self) -> float:
        """The noise floor: by how much eager differed from itself in the control; 0.004 is 0.4 %."""
        return stats.noise_floor(self.control)

    @property
    def latencies(self) -> tuple[float, float]:
        """Seconds of one eager call and of one compiled call."""
        return self.eager_seconds, self.compiled_seconds


def compare_variants(
    own: ProcessFigure,
    before: Sequence[ProcessFigure] = (),
    spread: Spread | None = None,
    taken: bool = False,
    recompiled: bool = False,
) -> Comparison:
    """Returns the speed-up of compiled over eager with its verdict, pooled from `own` and the earlier runs `before`.

    `spread`, if None, is `ASSUMED` with and `WITHIN` without earlier runs. `taken`: other programs used cores
    during the timing. `recompiled`: the model was compiled again during the timing, so the verdict is 'unsure'.
    """
    figures = [*before, own]
    spread = spread or (ASSUMED if before else WITHIN)
    pooled = stats.rerun_ratio([one.within for one in figures], spread.deviation, spread.freedom or math.inf)
    controls = [one.control for one in figures if one.control is not None]
    both = stats.rerun_ratio(controls, 0.0, math.inf) if controls else None
    control = Interval(both.ratio, both.low, both.high) if both is not None else None
    stated = stats.compare(pooled, stats.noise_floor(control), taken)
    because: OpenBecause = ""
    if recompiled:
        because = "recompiled"
    elif stated.verdict == "unsure":
        because = "machine" if taken else "interval" if pooled.low <= 1 <= pooled.high else "control"
    return Comparison(
        ratio=stated.ratio,
        low=stated.low,
        high=stated.high,
        verdict="unsure" if recompiled else stated.verdict,
        eager_seconds=stats.geometric_mean([one.eager_seconds for one in figures], pooled.weights),
        compiled_seconds=stats.geometric_mean([one.compiled_seconds for one in figures], pooled.weights),
        within=own.within,
        basis="repeats" if before else spread.basis,
        control=control,
        processes=len(figures),
        deviation=pooled.deviation,
        open_because=because,
    )


@dataclass(frozen=True)
class BreakEven:
    """The number of calls after which compiling has paid for its first call. None in a field: never."""

    calls: int | None
    low: int | None
    high: int | None
    """Most calls within the speed-up's 95 % interval, as `low` is the fewest; None if a gain is not certain."""
    images: int | None
    """`calls` times the batch size: images, or tokens of a text model."""
    seconds: float | None
    """Seconds of the first call, which compiles, plus those of `calls` compiled calls."""
    answers: int | None = None
    """Number of whole generated texts of a text model, reading the prompt included; None for other models."""
