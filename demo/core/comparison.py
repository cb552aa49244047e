"""How eager and compiled compare in one figure, such as a call or the first token, over the processes that timed it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from demo.core import stats
from demo.core.stats import Difference, Interval

Basis = Literal["repeats", "this machine", "assumed", "within one process"]
"""What the spread between processes is taken from.

- 'repeats': several processes, each a run of these settings here
- 'this machine': runs of other settings that this machine repeated
- 'assumed': a value measured elsewhere
- 'within one process': nothing; the interval holds in this process only
"""
OpenBecause = Literal["", "interval", "control", "machine", "recompiled"]
"""Why there is no verdict; '' if there is one.

- 'interval': it contains 1
- 'control': eager differed from itself by more
- 'machine': other programs took the cores
- 'recompiled': the model was recompiled while it was timed
"""


@dataclass(frozen=True)
class Spread:
    """How far a speed-up varies from process to process, by other runs than the processes of an answer."""

    basis: Literal["this machine", "assumed", "within one process"]
    deviation: float
    """Standard deviation of the logarithm of the speed-up: 0.03 is about 3 %."""
    freedom: float | None = None
    """Degrees of freedom from which it is known; None: exactly."""


ASSUMED = Spread("assumed", 0.025, 10.0)
"""Ten measured spreads (five checkpoints, idle and disturbed, on two cores of a CPU: `benchmarks/results/reruns.md`)
have a root mean square of 2.1 %. Nothing was measured on a GPU."""
WITHIN = Spread("within one process", 0.0)


@dataclass(frozen=True)
class ProcessFigure:
    """One figure of eager and of compiled, as one process timed it."""

    eager_seconds: float
    compiled_seconds: float
    """One call of each; their quotient is the speed-up of that process."""
    within: Interval
    """The speed-up, and the interval that holds in that process."""
    control: Interval | None = None
    """Eager over eager in the same blocks: the A/A control."""


@dataclass(frozen=True)
class ProcessResult:
    """One process of the pool that an answer rests on: a run of the same settings and versions here."""

    id: str
    """The stored run."""
    figures: dict[str, ProcessFigure]
    """By the name of the comparison."""
    threads: int | None = None


@dataclass(frozen=True)
class Comparison(Difference):
    """The speed-up in one figure. Its interval holds for a rerun in another process, as far as `basis` says."""

    eager_seconds: float
    compiled_seconds: float
    """One call of each over all processes: geometric means, weighted as the estimate, which is their quotient."""
    within: Interval
    """The estimate of this run's own process, and the interval that holds in it."""
    basis: Basis
    control: Interval | None = None
    """Eager over eager, over all processes: noise falls out with their number, what this machine does stays."""
    processes: int = 1
    deviation: float = 0.0
    """Standard deviation between processes that the interval includes, of the logarithm of the speed-up."""
    open_because: OpenBecause = ""

    @property
    def floor(self) -> float:
        """The noise floor: by how much the machine showed eager to differ from itself, 0.004 is 0.4 %."""
        return stats.noise_floor(self.control)

    @property
    def latencies(self) -> tuple[float, float]:
        """Seconds of eager and of compiled."""
        return self.eager_seconds, self.compiled_seconds


def compare_variants(
    own: ProcessFigure,
    before: Sequence[ProcessFigure] = (),
    spread: Spread | None = None,
    taken: bool = False,
    recompiled: bool = False,
) -> Comparison:
    """Returns how eager and compiled compare, from this process's figure and those of the processes before it.

    `taken`: other programs took cores while this process was timed. `recompiled`: the model was recompiled meanwhile,
    so no figure means anything.
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
    """When compiling has paid for itself, in calls and in the time that they take. None: never."""

    calls: int | None
    low: int | None
    high: int | None
    """From the speed-up's 95 % interval; `high` is None if the interval includes no gain."""
    images: int | None
    """Images, or tokens of a text model: calls times the batch size."""
    seconds: float | None
    """The first call, which compiles, and `calls` compiled ones: eager needs as long for as many calls."""
    answers: int | None = None
    """Whole answers of a text model, the calls that read their prompts included; None for other models."""
