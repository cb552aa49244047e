"""Statistics of timings: ratios with their intervals, and the rule by which two things differ.

Two levels, as in Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time" (2013):

1. Between the calls of one process: `paired_ratio`.
2. Between processes that run the same spec: `rerun_ratio`. Mostly the larger spread: where memory lies and which core a
   thread gets is decided once in a process.

Not covered: differences between days, versions or machines.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np

Verdict = Literal["faster", "same", "slower", "unsure"]
Times = Sequence[float] | np.ndarray
"""Seconds."""

CONFIDENCE = 0.95
TRIMMED = 0.1
"""Share of the blocks that is trimmed at either end."""
FEW_BLOCKS = 6
"""With fewer blocks of two calls, calls are paired: Student's t of one to four degrees of freedom is very wide."""
SMALLEST_DIFFERENCE = 0.01
"""Nothing under 1 % is called faster or slower: criterion's noise threshold."""
SAME_WITHIN = 0.03
EQUIVALENCE = 1.645 / 1.96
"""Width of a 90 % interval over a 95 % one: an equivalence test at 5 % (Schuirmann 1987)."""
TAKEN_FACTOR = 1.75
"""How far a ratio may be off when other programs take cores: up to 1.68× in two rounds of
`benchmarks/taken_cores.py`, the later of which is in `benchmarks/results/taken_cores.md`."""


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % confidence interval. All three are ratios without a unit."""

    ratio: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """The larger side of the interval, relative to the estimate: 0.01 reads 'known to +-1 %'."""
        return max(self.high / self.ratio - 1, 1 - self.low / self.ratio)

    @property
    def too_wide(self) -> bool:
        """Whether nothing should be shown yet."""
        return self.half_width >= 0.5


def side_by_side(slow: Times, fast: Times, calls: int) -> tuple[np.ndarray, np.ndarray]:
    """Times of `slow` and `fast` in pairs, from A B B A blocks with `calls` calls of each.

    A pair is the medians of a block. With fewer than `FEW_BLOCKS` blocks of two calls, it is two neighbouring calls:
    drift within a block then no longer cancels, but widens the interval.
    """
    blocks = min(len(slow), len(fast)) // calls
    sides = [_blocks(times, calls)[:blocks] for times in (slow, fast)]
    one, other = (side.ravel() if calls == 2 and blocks < FEW_BLOCKS else np.median(side, axis=1) for side in sides)
    return one, other


def _blocks(seconds: Times, calls: int) -> np.ndarray:
    """[blocks, calls], without a last, incomplete block."""
    times = np.asarray(seconds, dtype=float)
    return times[: len(times) // calls * calls].reshape(-1, calls)


def paired_ratio(slow: Times, fast: Times) -> Interval:
    """How many times longer `slow` takes than `fast`, from the pairs of `side_by_side`.

    Both times of a pair come from the same A B B A block, so that a slower machine cancels in their ratio. The estimate
    is the geometric mean of the pairs' ratios, trimmed by a tenth at either end against single disturbed blocks. The
    interval is Tukey and McLaughlin's for a trimmed mean (1963): Student's t with the standard error of the winsorised
    logarithms. Unlike a bootstrap it keeps its coverage for the handful of blocks that a slow model leaves time for.

    Raises ValueError if the two differ in length or hold fewer than two pairs.
    """
    if len(slow) != len(fast) or len(slow) < 2:
        raise ValueError(f"paired blocks are needed, two at least: given {len(slow)} and {len(fast)}")
    mean, error, freedom = _trim(np.log(np.asarray(slow, dtype=float)) - np.log(np.asarray(fast, dtype=float)))
    return _interval(mean, error * t_quantile(freedom))


def control_ratio(eager: Sequence[float], control: Sequence[float], calls: int, apart: int = 1) -> Interval | None:
    """Eager over eager by the same protocol, where the true ratio is 1; None with too few blocks.

    There is a control block of `calls` calls after every `apart` blocks, the first after the first of them. It lies
    between the last eager calls of one block and the first of the next, so it is compared with those: the eager times
    shifted by half a block.
    """
    around = _blocks(eager[calls // 2 :], calls)[::apart].ravel()
    if min(len(around), len(control)) < 2 * calls:
        return None
    return paired_ratio(*side_by_side(around, control, calls))


def paired_seconds(slow: Times, fast: Times) -> tuple[float, float]:
    """Seconds of one call of each. Their quotient is the estimate of `paired_ratio` for the same pairs.

    Geometric means over the pairs that the trimming of their ratios keeps. Medians of all calls would have another
    quotient on a disturbed machine. One pair is enough.
    """
    above, below = np.log(np.asarray(slow, dtype=float)), np.log(np.asarray(fast, dtype=float))
    kept = _kept(above - below)
    return math.exp(above[kept].mean()), math.exp(below[kept].mean())


@dataclass(frozen=True)
class PooledEstimate(Interval):
    """An estimate from several processes."""

    deviation: float
    """Standard deviation between processes that the interval includes, of the logarithm of the ratio."""
    weights: tuple[float, ...]
    """Share of each process in the estimate; together 1."""


def rerun_ratio(processes: Sequence[Interval], deviation: float, freedom: float) -> PooledEstimate:
    """The ratio that a further process is expected to show, and its interval, from at least one process.

    `deviation` is the standard deviation between processes (of the logarithm of the ratio), known from `freedom`
    degrees of freedom; infinite if known exactly.

    - Each process after the first adds its own distance from the rest, and one degree of freedom: the moderated
      variance of Smyth (2004). So the known spread is never dropped.
    - A process counts by the inverse of its variance, so that a noisy one blunts nothing. The spread between them is
      DerSimonian and Laird's (1986).
    """
    logs = np.log([one.ratio for one in processes])
    within = np.array([(math.log(one.high / one.low) / 2 / t_quantile(math.inf)) ** 2 for one in processes])
    own, more = _between(logs, within), len(logs) - 1
    if math.isfinite(freedom):
        deviation = math.sqrt((freedom * deviation**2 + more * own) / (freedom + more))
    weights = 1 / np.maximum(within + deviation**2, 1e-12)
    shares = weights / weights.sum()
    half_width = math.sqrt(
        float(((t_quantile(freedom + more) * deviation) ** 2 + t_quantile(math.inf) ** 2 * within) @ shares**2)
    )
    pooled = _interval(float(logs @ shares), half_width)
    return PooledEstimate(pooled.ratio, pooled.low, pooled.high, deviation, tuple(map(float, shares)))


def _between(logs: np.ndarray, within: np.ndarray) -> float:
    """Variance between processes, without what their own variances `within` explain; at least 0."""
    weights = 1 / np.maximum(within, 1e-12)
    scale = weights.sum() - (weights**2).sum() / weights.sum()
    if len(logs) < 2 or scale <= 0:
        return 0.0
    distances = float(weights @ (logs - weights @ logs / weights.sum()) ** 2)
    return max(0.0, (distances - (len(logs) - 1)) / float(scale))


def geometric_mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """`weights`, if any, are together 1."""
    return math.exp(float(np.average(np.log(np.asarray(values, dtype=float)), weights=weights)))


def mean_ratio(slow: Sequence[float], fast: Sequence[float]) -> Interval:
    """The ratio of two plain means of calls, as the guide's recipe reports it, with the delta method's interval.

    That assumes independent calls: drift between the two runs is neither cancelled nor covered.
    """
    errors = (np.std(times, ddof=1) / np.mean(times) / math.sqrt(len(times)) for times in (slow, fast))
    return _interval(math.log(np.mean(slow) / np.mean(fast)), math.hypot(*errors) * t_quantile(math.inf))


def _interval(mean: float, half_width: float) -> Interval:
    """From logarithms back to ratios."""
    return Interval(math.exp(mean), math.exp(mean - half_width), math.exp(mean + half_width))


def _kept(values: np.ndarray) -> np.ndarray:
    """Indices of the values that the trimming keeps, from the lowest to the highest."""
    cut = int(len(values) * TRIMMED)
    return np.argsort(values, kind="stable")[cut : len(values) - cut]


def _trim(values: np.ndarray) -> tuple[float, float, float]:
    """The mean without the lowest and the highest tenth, its standard error, and the degrees of freedom."""
    kept = values[_kept(values)]
    winsorised = np.clip(values, kept[0], kept[-1])
    error = float(winsorised.std(ddof=1)) * math.sqrt(len(values)) / len(kept)
    return float(kept.mean()), error, float(len(kept) - 1)


def t_quantile(freedom: float) -> float:
    """The 97.5 % quantile of Student's t."""
    from scipy.special import stdtrit  # 0.1 s, which commands without a figure should not take

    return float(stdtrit(freedom, 1 - (1 - CONFIDENCE) / 2))


def noise_floor(control: Interval | None) -> float:
    """The difference that this machine showed between a model and itself, as a share: 0.004 is 0.4 %."""
    return 0.0 if control is None else max(control.ratio, 1 / control.ratio) - 1


@dataclass(frozen=True)
class Difference(Interval):
    """How many times longer one thing takes than another, and whether the two differ."""

    verdict: Verdict
    """'faster' and 'slower' are said of the second; 'unsure' only of an interval that contains 1."""


def compare(ratio: Interval, floor: float = 0.0, taken: bool = False, questions: int = 1) -> Difference:
    """Returns the ratio with the interval that may be stated, and the verdict that follows from it.

    The only rule here by which two things differ: a run's verdict, Compare, the search and reruns use it.

    1. If several `questions` are asked of the same figures, the interval is wider (Bonferroni's correction).
    2. The interval is at least as wide as `floor`, by which the machine showed a model to differ from itself.
    3. If other programs took cores (`taken`), both ends move out by `TAKEN_FACTOR`: that error is not random, so no
       number of calls narrows it.
    4. 'faster' and 'slower': the interval leaves out 1, and the estimate is more than 1 % away.
    5. 'same': the 90 % interval of step 1 lies within 3 % of 1, an equivalence test at 5 %. The floor does not widen
       it: it is no error of blocks timed in turns. Never if cores were taken.
    6. Else 'unsure'. The interval then contains 1: one that leaves it out and is no difference is 'same'.
    """
    known = ratio if questions == 1 else _widen(ratio, questions)
    margin = max(math.log1p(floor), math.log(known.ratio / known.low), math.log(known.high / known.ratio))
    margin += math.log(TAKEN_FACTOR) if taken else 0.0
    low, high = known.ratio * math.exp(-margin), known.ratio * math.exp(margin)
    if low > 1 and known.ratio > 1 + SMALLEST_DIFFERENCE:
        return Difference(known.ratio, low, high, "faster")
    if high < 1 and known.ratio < 1 / (1 + SMALLEST_DIFFERENCE):
        return Difference(known.ratio, low, high, "slower")
    ends = (known.ratio * (end / known.ratio) ** EQUIVALENCE for end in (known.low, known.high))
    if not taken and all(1 / (1 + SAME_WITHIN) <= end <= 1 + SAME_WITHIN for end in ends):
        return Difference(known.ratio, known.low, known.high, "same")
    return Difference(known.ratio, low, high, "unsure")


def _widen(ratio: Interval, questions: int) -> Interval:
    """The interval at 1 - 5 % / questions, by the normal approximation of its logarithm."""
    quantile = NormalDist().inv_cdf
    wider = quantile(1 - (1 - CONFIDENCE) / 2 / questions) / quantile((1 + CONFIDENCE) / 2)
    low, high = (ratio.ratio * (end / ratio.ratio) ** wider for end in (ratio.low, ratio.high))
    return Interval(ratio.ratio, low, high)


def quotient(first: Interval, second: Interval) -> Interval:
    """`first` over `second`, from two independent estimates, by the normal approximation of their logarithms."""
    half = math.hypot(*(math.log(one.high / one.low) / 2 for one in (first, second)))
    return _interval(math.log(first.ratio / second.ratio), half)


def break_even_calls(compile_seconds: float, eager_seconds: float, compiled_seconds: float) -> int | None:
    """Calls after which compiling has paid for itself; None when a compiled call is not faster."""
    saved = eager_seconds - compiled_seconds
    return math.ceil(compile_seconds / saved - 1e-9) if saved > 0 else None  # 1e-9: 10 / (0.3 - 0.1) is 50, not 51
