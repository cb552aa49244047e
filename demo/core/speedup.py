"""The speed-up of a run with its two levels: within one process, and for a rerun in another one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from demo.core import stats

Basis = Literal["repeats", "this machine", "assumed", "within one process"]
"""What the spread between processes is taken from: 'repeats' are several processes, each a run of these settings here;
else runs of other settings that this machine repeated, or a value measured elsewhere, or nothing."""
OpenBecause = Literal["", "interval", "control", "machine", "recompiled"]
"""Why no verdict is given: the interval holds 1; eager differed from itself by more; other programs took the cores; or
the model was recompiled while it was timed. '' where there is one."""


@dataclass(frozen=True)
class Speedup(stats.Pooled):
    """`low` and `high` hold for a rerun in another process, as far as `basis` says."""

    verdict: stats.Verdict
    within: stats.Interval
    """The estimate of this run's own process, and the interval that holds in it."""
    basis: Basis
    processes: int
    """This run's own is the last of them, in `weights` too."""
    open_because: OpenBecause
    widened: bool
    """This run's process lies so far from those before it that the interval is wider with it than without."""


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
class Gain:
    """What another way to compile brought in earlier runs on the same machine with the same versions."""

    option: str
    """A field of `RunSpec`."""
    value: Any
    ratio: float
    """Its speed-up over that of the option's value in this run, as a geometric mean over the checkpoints."""
    checkpoints: tuple[str, ...]
    """Where it was measured: this run's own, or others where that was not tried."""


@dataclass(frozen=True)
class ProcessResult:
    """One process of the pool that an answer rests on: an earlier run with the same settings and versions here."""

    id: str
    eager_seconds: float
    compiled_seconds: float
    """One call of each; their quotient is the speed-up of that process."""
    within: stats.Interval
    break_cost: stats.Interval | None = None
    """The cost of added graph breaks in that process; None where none were added."""
    threads: int | None = None
    prefill: stats.Interval | None = None
    """A text model's time to the first token, eager over compiled, in that process."""
    prefill_seconds: tuple[float, float] | None = None
    """Seconds to the first token of eager and of compiled."""
    control: stats.Interval | None = None
    """Eager over eager in that process."""
    started_at: str = ""
    """When that run began, as `RunResult.started_at`; '' in older results."""


def judged(
    within: stats.Interval,
    before: Sequence[stats.Interval],
    spread: Spread | None,
    control: stats.Interval | None,
    because: OpenBecause = "",
) -> Speedup:
    """The speed-up with its verdict, from this process's interval and those of the processes before it.

    `control` gives the noise floor; `because` says why there can be no verdict whatever the times are.
    """

    def pooled(processes: Sequence[stats.Interval]) -> stats.Pooled:
        known = spread or ASSUMED
        return stats.rerun_ratio(processes, known.deviation, known.freedom or math.inf)

    basis: Basis = "repeats" if before else spread.basis if spread else "within one process"
    alone = stats.Pooled(within.ratio, within.low, within.high, 0.0, (1.0,))
    found = alone if basis == "within one process" else pooled([*before, within])
    verdict = stats.verdict(found, control)
    if verdict == "unsure" and not because:
        because = "interval" if found.low <= 1 <= found.high else "control"
    return Speedup(
        **vars(found),
        verdict="unsure" if because else verdict,
        within=within,
        basis=basis,
        processes=len(before) + 1,
        open_because=because,
        widened=bool(before) and found.half_width > pooled(before).half_width,
    )
