"""The speed-up of a run with its two levels: within one process, and for a rerun in another one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from demo.core import stats

Basis = Literal["repeats", "same runs", "this machine", "assumed", "within one process"]
"""Where the spread between processes is taken from: this result's own repeats; earlier runs of the same spec; runs of
other specs that this machine repeated; a value measured elsewhere. 'within one process': it was not taken in."""
STUDENT_REPEATS = 3
"""From so many processes on their own spread is the basis."""


@dataclass(frozen=True)
class Speedup(stats.Interval):
    """`low` and `high` hold for a rerun in another process, as far as `basis` says."""

    verdict: stats.Verdict
    within: stats.Interval
    """The estimate of this run's own process, and the interval that holds in it."""
    basis: Basis


@dataclass(frozen=True)
class Spread:
    """What is known of the spread of a speed-up from process to process, where the run was not repeated often."""

    basis: Literal["same runs", "this machine", "assumed"]
    deviation: float
    """Standard deviation of the logarithm of the speed-up: 0.03 is about 3 %."""
    freedom: float | None = None
    """Degrees of freedom from which it is known; None takes it as exact."""


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
class Repeat:
    """An earlier run of the same spec that this result's answer rests on, too."""

    id: str
    eager_seconds: float
    compiled_seconds: float
    """One call of each; their quotient is the speed-up of that process."""
    within: stats.Interval
    break_cost: stats.Interval | None = None
    """Of that process; None where no graph break was added."""
    threads: int | None = None
    prefill: stats.Interval | None = None
    """A text model's time to the first token, eager over compiled, in that process."""
    prefill_seconds: tuple[float, float] | None = None
    """The same of eager and of compiled."""
