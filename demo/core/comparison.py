"""How eager and compiled compare in one figure, such as a call or the first token, over the processes that timed it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from demo.core import stats
from demo.core.stats import Difference, Interval, Pooled

Basis = Literal["repeats", "this machine", "assumed", "within one process"]
"""What the spread between processes is taken from: 'repeats' are several processes, each a run of these settings here;
else runs of other settings that this machine repeated, or a value measured elsewhere, or nothing."""
OpenBecause = Literal["", "interval", "control", "machine", "recompiled"]
"""Why no verdict is given: the interval holds 1; eager differed from itself by more; other programs took the cores; or
the model was recompiled while it was timed. '' where there is one."""


@dataclass(frozen=True)
class Spread:
    """What is known of the spread of a speed-up from process to process beside this run's own processes."""

    basis: Literal["this machine", "assumed"]
    deviation: float
    """Standard deviation of the logarithm of the speed-up: 0.03 is about 3 %."""
    freedom: float | None = None
    """Degrees of freedom from which it is known; None takes it as exact."""


ASSUMED = Spread("assumed", 0.025, 10.0)
"""Ten measured spreads (five checkpoints, idle and disturbed, on two cores of a CPU: `benchmarks/results/reruns.md`)
have a root mean square of 2.1 %. Nothing was measured on a GPU."""


@dataclass(frozen=True)
class ProcessFigure:
    """One figure of eager and of compiled, as one process timed it."""

    eager_seconds: float
    compiled_seconds: float
    """Of each; their quotient is the speed-up of that process."""
    within: Interval
    """The speed-up, and the interval that holds in that process."""
    control: Interval | None = None
    """Eager over eager in the same blocks: the A/A control."""


@dataclass(frozen=True)
class ProcessResult:
    """One process of the pool that an answer rests on: a run of the same settings and versions here."""

    id: str
    """Of the stored run."""
    figures: dict[str, ProcessFigure]
    """By the name of the comparison."""
    threads: int | None = None


@dataclass(frozen=True)
class Comparison(Difference):
    """The speed-up in one figure. Its interval holds for a rerun in another process, as far as `basis` says."""

    eager_seconds: float
    compiled_seconds: float
    """Of each, over all processes: geometric means, weighted as the estimate, which is their quotient."""
    within: Interval
    """The estimate of this run's own process, and the interval that holds in it."""
    basis: Basis
    control: Interval | None = None
    """Eager over eager, over all processes: noise falls out with their number, what this machine does stays."""
    processes: int = 1
    deviation: float = 0.0
    """Standard deviation between processes that the interval counts in, of the logarithm of the speed-up."""
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

    Other programs took cores while this one was timed (`taken`), or the model was `recompiled` meanwhile: then no
    figure means anything. Without a `spread` the interval holds within this process only.
    """
    figures = [*before, own]
    basis: Basis = "repeats" if before else spread.basis if spread else "within one process"

    if basis == "within one process":
        found = Pooled(own.within.ratio, own.within.low, own.within.high, 0.0, (1.0,))
    else:
        known = spread or ASSUMED
        found = stats.rerun_ratio([one.within for one in figures], known.deviation, known.freedom or math.inf)
    controls = [one.control for one in figures if one.control is not None]
    both = stats.rerun_ratio(controls, 0.0, math.inf) if controls else None
    control = Interval(both.ratio, both.low, both.high) if both is not None else None
    stated = stats.compare(found, stats.noise_floor(control), taken)
    because: OpenBecause = ""
    if recompiled:
        because = "recompiled"
    elif stated.verdict == "unsure":
        because = "machine" if taken else "interval" if found.low <= 1 <= found.high else "control"
    return Comparison(
        ratio=stated.ratio,
        low=stated.low,
        high=stated.high,
        verdict="unsure" if recompiled else stated.verdict,
        eager_seconds=stats.geometric_mean([one.eager_seconds for one in figures], found.weights),
        compiled_seconds=stats.geometric_mean([one.compiled_seconds for one in figures], found.weights),
        within=own.within,
        basis=basis,
        control=control,
        processes=len(figures),
        deviation=found.deviation,
        open_because=because,
    )


@dataclass(frozen=True)
class BreakEven:
    """When compiling has paid for itself, in calls and in the time that they take. None: never."""

    calls: int | None
    low: int | None
    high: int | None
    """From the speed-up's 95 % interval; `high` is None where the interval holds no gain at all."""
    images: int | None
    """Images, or tokens of a text model: calls times the batch size."""
    seconds: float | None
    """Seconds of work until then: the first call, which compiles, and `calls` compiled ones. Eager works as long for as
    many calls, up to the rounding to whole calls."""
    answers: int | None = None
    """Whole answers of a text model, the calls that read their prompts counted in; None of other models."""
