"""Statistics of timings: the speed-up, its interval and the verdict.

Two levels, as in Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time" (2013): between the calls of one
process (`paired_ratio`), and between processes that run the same spec (`rerun_ratio`). The second is mostly the larger
one: where memory lies and which core a thread gets is decided once in a process. Not covered: differences between days,
versions or machines.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Verdict = Literal["faster", "same", "slower", "unsure"]
Basis = Literal["repeats", "this machine", "assumed", "within one process"]
"""What the spread between processes is taken from: 'repeats' are several processes, each a run of these settings here;
else runs of other settings that this machine repeated, or a value measured elsewhere, or nothing."""
OpenBecause = Literal["", "interval", "control", "machine", "recompiled"]
"""Why no verdict is given: the interval holds 1; eager differed from itself by more; other programs took the cores; or
the model was recompiled while it was timed. '' where there is one."""

RESAMPLES = 2_500
CONFIDENCE = 0.95
SEED = 0
"""Seed of the resampling, so that the same times always give the same interval."""
TRIMMED = 0.1
"""Share of the blocks that is trimmed at either end."""
FEW_BLOCKS = 6
"""From fewer blocks of two calls, calls are paired: Student's t of one to four degrees of freedom is very wide."""
SMALLEST_DIFFERENCE = 0.01
"""Nothing under 1 % is called faster or slower: criterion's noise threshold."""
SAME_WITHIN = 0.03
EQUIVALENCE = 1.645 / 1.96
"""How much narrower a 90 % interval is than a 95 % one: that of an equivalence test at 5 % (Schuirmann 1987)."""
VAGUE = 0.5
"""The estimate is not shown where the half-width of its interval is this or more."""


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
    def vague(self) -> bool:
        """Whether it is too wide to be shown."""
        return self.half_width >= VAGUE


def block_medians(seconds: Sequence[float] | np.ndarray, calls: int) -> np.ndarray:
    """Median of each run of `calls` consecutive timings; a last, incomplete run is left out."""
    return np.median(_blocks(seconds, calls), axis=1)


def side_by_side(
    slow: Sequence[float] | np.ndarray, fast: Sequence[float] | np.ndarray, calls: int
) -> tuple[np.ndarray, np.ndarray]:
    """Times of `slow` and `fast` that were taken beside each other in A B B A blocks of `calls` calls of each.

    The medians of the blocks both have. Of fewer than `FEW_BLOCKS` blocks of two calls every call: each has a
    neighbour of the other variant. Drift within a block then no longer cancels, but widens the interval.
    """
    blocks = min(len(slow), len(fast)) // calls
    sides = [_blocks(times, calls)[:blocks] for times in (slow, fast)]
    one, other = (side.ravel() if calls == 2 and blocks < FEW_BLOCKS else np.median(side, axis=1) for side in sides)
    return one, other


def _blocks(seconds: Sequence[float] | np.ndarray, calls: int) -> np.ndarray:
    times = np.asarray(seconds, dtype=float)
    return times[: len(times) // calls * calls].reshape(-1, calls)


def paired_ratio(slow: Sequence[float] | np.ndarray, fast: Sequence[float] | np.ndarray) -> Interval:
    """How many times longer `slow` takes than `fast`, from blocks timed side by side.

    `slow[i]` and `fast[i]` (seconds, see `side_by_side`) come from the same A B B A block, so that a slower machine
    affects both and cancels in their ratio. The estimate is the geometric mean of the blocks' ratios, trimmed by a
    tenth at either end against single disturbed blocks; the interval is Tukey and
    McLaughlin's for a trimmed mean (1963): Student's t with the standard error of the winsorised logarithms. Unlike a
    bootstrap it keeps its coverage for the handful of blocks that a slow model leaves time for.

    Raises ValueError when the two differ in length or hold fewer than two blocks.
    """
    if len(slow) != len(fast) or len(slow) < 2:
        raise ValueError(f"paired blocks are needed, two at least: given {len(slow)} and {len(fast)}")
    mean, error, freedom = _trimmed(np.log(np.asarray(slow, dtype=float)) - np.log(np.asarray(fast, dtype=float)))
    return _interval(mean, error * t_quantile(freedom))


def control_ratio(eager: Sequence[float], control: Sequence[float], calls: int, apart: int = 1) -> Interval | None:
    """Eager over eager by the same protocol: the ratio shown where the true one is 1; None with too few blocks.

    Takes the single times in seconds. Each control block of `calls` calls was timed between the last eager calls of
    one block and the first of the next, so it is compared with those: the eager times shifted by half a block. There
    is one after every `apart` blocks, the first after the first of them.
    """
    beside = _blocks(eager[calls // 2 :], calls)[::apart].ravel()
    if min(len(beside), len(control)) < 2 * calls:
        return None
    return paired_ratio(*side_by_side(beside, control, calls))


def unpaired_ratio(slow: Sequence[float] | np.ndarray, fast: Sequence[float] | np.ndarray) -> Interval:
    """How many times longer `slow` takes than `fast` where the two were timed one after the other.

    By Yuen's interval for the difference of two trimmed means (1974), so slow drift of the machine is *not* cancelled.
    Raises ValueError when either holds fewer than two times.
    """
    if min(len(slow), len(fast)) < 2:
        raise ValueError(f"two times of each are needed at least: given {len(slow)} and {len(fast)}")
    (above, first, few), (below, second, fewer) = (_trimmed(np.log(np.asarray(times))) for times in (slow, fast))
    error = math.hypot(first, second)
    freedom = error**4 / (first**4 / few + second**4 / fewer) if error else 1.0
    return _interval(above - below, error * t_quantile(freedom))


def paired_seconds(slow: Sequence[float] | np.ndarray, fast: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """One call of each in seconds, whose quotient is the estimate of `paired_ratio` for the same blocks.

    Geometric means over the blocks that the trimming of their ratios keeps. Medians of all calls would have another
    quotient where the machine was disturbed. One block is enough.
    """
    above, below = np.log(np.asarray(slow, dtype=float)), np.log(np.asarray(fast, dtype=float))
    kept = _kept(above - below)
    return math.exp(above[kept].mean()), math.exp(below[kept].mean())


def trimmed_seconds(times: Sequence[float] | np.ndarray) -> float:
    """One call in seconds: of two such variants the quotient is the estimate of `unpaired_ratio`."""
    logs = np.log(np.asarray(times, dtype=float))
    return math.exp(logs[_kept(logs)].mean())


@dataclass(frozen=True)
class Pooled(Interval):
    """From several processes, with what it rests on."""

    deviation: float
    """Standard deviation between processes, of the logarithm of the ratio, that the interval counts in."""
    weights: tuple[float, ...]
    """Share of each process in the estimate; 1 together."""


def rerun_ratio(processes: Sequence[Interval], deviation: float, freedom: float) -> Pooled:
    """The ratio that a further process is expected to show, and its interval, from one process or more.

    Takes each process's own estimate with its interval. `deviation` is what is known of the standard deviation between
    processes (of the logarithm of the ratio), from `freedom` degrees of freedom; infinite where it is known exactly.
    With each process after the first their own distances are counted in with one degree more, so the known spread is
    never dropped: the moderated variance of Smyth 2004. A process counts by the inverse of its variance, so that a
    noisy one blunts nothing; the spread between them is that of DerSimonian and Laird 1986.

    Raises ValueError without a process.
    """
    if not processes:
        raise ValueError("one process is needed at least")
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
    return Pooled(pooled.ratio, pooled.low, pooled.high, deviation, tuple(map(float, shares)))


def _between(logs: np.ndarray, within: np.ndarray) -> float:
    """Variance between processes, without what their own variances `within` explain; at least 0."""
    weights = 1 / np.maximum(within, 1e-12)
    scale = weights.sum() - (weights**2).sum() / weights.sum()
    if len(logs) < 2 or scale <= 0:
        return 0.0
    distances = float(weights @ (logs - weights @ logs / weights.sum()) ** 2)
    return max(0.0, (distances - (len(logs) - 1)) / float(scale))


def geometric_mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float:
    """Weighted where `weights`, which are 1 together, are given."""
    return math.exp(float(np.average(np.log(np.asarray(values, dtype=float)), weights=weights)))


def mean_ratio(slow: Sequence[float], fast: Sequence[float]) -> Interval:
    """The ratio of two plain means of calls, as the guide's recipe reports it; each side is resampled on its own.

    The interval, by bootstrap, assumes independent calls: drift between the two runs is neither cancelled nor
    covered.
    """
    rng = np.random.default_rng(SEED)

    def resampled(times: Sequence[float]) -> np.ndarray:
        values = np.asarray(times, dtype=float)
        return values[rng.integers(0, len(values), (RESAMPLES, len(values)))].mean(axis=1)

    low, high = np.quantile(resampled(slow) / resampled(fast), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(float(np.mean(slow) / np.mean(fast)), float(low), float(high))


def _interval(mean: float, half_width: float) -> Interval:
    """From logarithms back to ratios."""
    return Interval(math.exp(mean), math.exp(mean - half_width), math.exp(mean + half_width))


def _kept(values: np.ndarray) -> np.ndarray:
    """Indices of the values that the trimming keeps, from the lowest to the highest."""
    cut = int(len(values) * TRIMMED)
    return np.argsort(values, kind="stable")[cut : len(values) - cut]


def _trimmed(values: np.ndarray) -> tuple[float, float, float]:
    """The mean without the lowest and the highest tenth, its standard error, and the degrees of freedom of that."""
    count = len(values)
    kept = values[_kept(values)]
    winsorised = np.clip(values, kept[0], kept[-1])
    error = float(winsorised.std(ddof=1)) * math.sqrt(count) / len(kept)
    return float(kept.mean()), error, float(len(kept) - 1)


def t_quantile(freedom: float) -> float:
    """The 97.5 % quantile of Student's t."""
    from scipy.special import stdtrit  # 0.1 s, which commands without a figure should not take

    return float(stdtrit(freedom, 1 - (1 - CONFIDENCE) / 2))


def noise_floor(control: Interval | None) -> float:
    """The difference that this machine showed between a model and itself, as a share: 0.004 is 0.4 %."""
    return 0.0 if control is None else max(control.ratio, 1 / control.ratio) - 1


def verdict(speedup: Interval, control: Interval | None) -> Verdict:
    """What may be said of a speed-up, given the A/A control measured beside it.

    A difference counts when its interval leaves out 1 and the estimate is beyond both 1 % and the noise floor.
    'same' needs a 90 % interval within 3 % of 1: an equivalence test at 5 %. Anything else is 'unsure', so a machine
    too noisy to see a difference never says that there is none.
    """
    margin = max(SMALLEST_DIFFERENCE, noise_floor(control))
    if speedup.low > 1 and speedup.ratio > 1 + margin:
        return "faster"
    if speedup.high < 1 and speedup.ratio < 1 / (1 + margin):
        return "slower"
    ends = (speedup.ratio * (end / speedup.ratio) ** EQUIVALENCE for end in (speedup.low, speedup.high))
    return "same" if all(1 / (1 + SAME_WITHIN) <= end <= 1 + SAME_WITHIN for end in ends) else "unsure"


def differ(first: Interval, second: Interval, comparisons: int = 1) -> bool:
    """Whether two independent estimates, with intervals on a scale of ratios, differ at 5 % and by more than 1 %.

    By the normal approximation of their logarithms; `comparisons` is how many such questions are asked of the same
    figures (Bonferroni's correction).
    """
    from scipy.special import ndtri  # 0.1 s, which commands without a figure should not take

    wider = ndtri(1 - (1 - CONFIDENCE) / 2 / max(1, comparisons)) / ndtri((1 + CONFIDENCE) / 2)
    both = math.hypot(*(math.log(one.high / one.low) / 2 for one in (first, second)))
    distance = abs(math.log(first.ratio / second.ratio))
    return distance > max(math.log1p(SMALLEST_DIFFERENCE), float(wider) * both)


def break_even_calls(compile_seconds: float, eager_seconds: float, compiled_seconds: float) -> int | None:
    """Calls after which compiling has paid for itself; None when a compiled call is not faster."""
    saved = eager_seconds - compiled_seconds
    return math.ceil(compile_seconds / saved - 1e-9) if saved > 0 else None  # 1e-9: 10 / (0.3 - 0.1) is 50, not 51


# The speed-up of a run


@dataclass(frozen=True)
class Speedup(Interval):
    """`low` and `high` hold for a rerun in another process, as far as `basis` says."""

    verdict: Verdict
    within: Interval
    """The estimate of this run's own process, and the interval that holds in it."""
    basis: Basis
    processes: int = 1
    deviation: float = 0.0
    """Standard deviation between processes that the interval counts in, of the logarithm of the speed-up."""
    weights: tuple[float, ...] = (1.0,)
    """Share of each process in the estimate, this run's own last; 1 together."""
    open_because: OpenBecause = ""
    widened: bool = False
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
class ProcessResult:
    """One process of the pool that an answer rests on: an earlier run with the same settings and versions here."""

    id: str
    eager_seconds: float
    compiled_seconds: float
    """One call of each; their quotient is the speed-up of that process."""
    within: Interval
    threads: int | None = None
    prefill: Interval | None = None
    """A text model's time to the first token, eager over compiled, in that process."""
    prefill_seconds: tuple[float, float] | None = None
    """Seconds to the first token of eager and of compiled."""
    control: Interval | None = None
    """Eager over eager in that process."""


def judged(
    within: Interval,
    before: Sequence[Interval],
    spread: Spread | None,
    control: Interval | None,
    because: OpenBecause = "",
) -> Speedup:
    """The speed-up with its verdict, from this process's interval and those of the processes before it.

    `control` gives the noise floor; `because` says why there can be no verdict whatever the times are.
    """

    def pooled(processes: Sequence[Interval]) -> Pooled:
        known = spread or ASSUMED
        return rerun_ratio(processes, known.deviation, known.freedom or math.inf)

    basis: Basis = "repeats" if before else spread.basis if spread else "within one process"
    alone = Pooled(within.ratio, within.low, within.high, 0.0, (1.0,))
    found = alone if basis == "within one process" else pooled([*before, within])
    told = verdict(found, control)
    if told == "unsure" and not because:
        because = "interval" if found.low <= 1 <= found.high else "control"
    return Speedup(
        **vars(found),
        verdict="unsure" if because else told,
        within=within,
        basis=basis,
        processes=len(before) + 1,
        open_because=because,
        widened=bool(before) and found.half_width > pooled(before).half_width,
    )
