"""Statistics of timings: ratios of times with confidence intervals, and the rule that decides whether two times differ.

- Calls of one process vary: `paired_ratio`.
- Processes with the same settings vary too, mostly more, because memory and cores are assigned once per process:
  `rerun_ratio`. See Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time" (2013).
- Not covered: differences between days, versions or machines.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np

Verdict = Literal["faster", "same", "slower", "unsure"]
Times = Sequence[float] | np.ndarray
"""Times in seconds."""

CONFIDENCE = 0.95
TRIMMED = 0.1
"""Share of the values that a trimmed mean leaves out at each end."""
FEW_BLOCKS = 6
"""With fewer blocks than this, and two calls of each model in a block, `side_by_side` pairs single calls. There would
be so few medians of blocks that Student's t makes the interval very wide."""
SMALLEST_DIFFERENCE = 0.01
"""Smallest difference that is called faster or slower: 1 %, as in the benchmark library criterion."""
SAME_WITHIN = 0.03
"""Largest difference that is still called 'same': 3 %."""
EQUIVALENCE = 1.645 / 1.96
"""Factor that turns the width of a 95 % interval into that of a 90 % interval. Schuirmann's equivalence test (1987) at
level 5 % uses a 90 % interval."""
TAKEN_FACTOR = 1.75
"""Factor by which a ratio of two times may be wrong if other programs used cores meanwhile. The largest factor in
`benchmarks/results/taken_cores.md` is 1.65."""


@dataclass(frozen=True)
class Interval:
    """A ratio of two times, with its 95 % confidence interval from `low` to `high`."""

    ratio: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """The distance from the ratio to the farther end, relative to the ratio: 0.01 means 'known to +-1 %'."""
        return max(self.high / self.ratio - 1, 1 - self.low / self.ratio)

    @property
    def too_wide(self) -> bool:
        return self.half_width >= 0.5


def side_by_side(slow: Times, fast: Times, calls: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns pairs of times, measured close together, as two arrays of equal length: one of `slow`, one of `fast`.

    - `slow`, `fast`: seconds of each call of two models, timed in blocks of slow, fast, fast, slow calls.
    - `calls`: how many calls of each model are in one block.
    - Each block gives one pair: the median of its slow calls and the median of its fast calls. A drift of the machine
      within the block cancels.
    - With 2 `calls` in a block and fewer than `FEW_BLOCKS` blocks, each slow call is paired with the fast call beside
      it. A drift then does not cancel and widens the interval.
    """
    blocks = min(len(slow), len(fast)) // calls
    sides = [_split_blocks(times, calls)[:blocks] for times in (slow, fast)]
    first, other = (side.ravel() if calls == 2 and blocks < FEW_BLOCKS else np.median(side, axis=1) for side in sides)
    return first, other


def _split_blocks(seconds: Times, calls: int) -> np.ndarray:
    """Returns the times as an array [blocks, calls]. An incomplete last block is dropped."""
    times = np.asarray(seconds, dtype=float)
    return times[: len(times) // calls * calls].reshape(-1, calls)


def paired_ratio(slow: Times, fast: Times) -> Interval:
    """Returns how many times longer `slow` takes than `fast`. Times with the same index are a pair of `side_by_side`.

    Raises ValueError if `slow` and `fast` differ in length or have fewer than two times.
    - The two times of a pair were measured close together, so a change in the machine's speed cancels in their ratio.
    - Estimate: the geometric mean of the pairs' ratios, without the lowest and the highest tenth.
    - Interval: Tukey and McLaughlin's for a trimmed mean (1963). It is Student's t with the standard error of the
      winsorised logarithms. For a handful of pairs a bootstrap's interval would be too narrow.
    """
    if len(slow) != len(fast) or len(slow) < 2:
        raise ValueError(f"paired blocks are needed, two at least: given {len(slow)} and {len(fast)}")
    mean, error, freedom = _trimmed_mean(np.log(np.asarray(slow, dtype=float)) - np.log(np.asarray(fast, dtype=float)))
    return _interval(mean, error * t_quantile(freedom))


def control_ratio(eager: Sequence[float], control: Sequence[float], calls: int, apart: int = 1) -> Interval | None:
    """Compares eager with itself: returns the ratio of `eager` to `control`, two series of times of one eager model.

    Without measurement errors the ratio is 1.

    - `control`: times from control blocks, further blocks of eager calls, each of `calls` calls.
    - `apart`: a control block follows the first block of the timing, and then every `apart`-th block.
    - Each control block is compared with the calls of `eager` just before it and just after it.
    - Returns None for fewer than two control blocks.
    """
    around = _split_blocks(eager[calls // 2 :], calls)[::apart].ravel()
    if min(len(around), len(control)) < 2 * calls:
        return None
    return paired_ratio(*side_by_side(around, control, calls))


def paired_seconds(slow: Times, fast: Times) -> tuple[float, float]:
    """Returns the mean seconds of a call of `slow` and of `fast`. Times with the same index were measured together.

    Both are geometric means, without the tenth of the pairs with the lowest ratios and the tenth with the highest. So
    the quotient of the two means is the ratio that `paired_ratio` returns.
    """
    above, below = np.log(np.asarray(slow, dtype=float)), np.log(np.asarray(fast, dtype=float))
    kept = _kept_indices(above - below)
    return math.exp(above[kept].mean()), math.exp(below[kept].mean())


@dataclass(frozen=True)
class PooledEstimate(Interval):
    """A ratio with its interval, pooled from several processes."""

    deviation: float
    """Spread between processes, which the interval includes: standard deviation of the logarithm of the ratio."""
    weights: tuple[float, ...]
    """Weight of each process in the ratio; the sum is 1."""


def rerun_ratio(processes: Sequence[Interval], deviation: float, freedom: float) -> PooledEstimate:
    """Returns the ratio pooled over at least one process. Its interval includes the spread between processes.

    - `processes`: the ratio and the interval that each process measured.
    - `deviation`: the spread between processes known from other runs: the standard deviation of the ratio's logarithm.
    - `freedom`: the degrees of freedom of `deviation`; infinite if `deviation` is exact.
    - The variance between `processes` is DerSimonian and Laird's (1986). It is averaged with the square of `deviation`,
      weighted by degrees of freedom: Smyth's moderated variance (2004).
    - The weight of a process is the inverse of its variance, so a noisy process counts little.
    """
    logs = np.log([process.ratio for process in processes])
    within = np.array([_log_error(process) ** 2 for process in processes])
    own, more = _variance_between(logs, within), len(logs) - 1
    if math.isfinite(freedom):
        deviation = math.sqrt(moderated_variance(own, more, deviation**2, freedom))
    weights = 1 / np.maximum(within + deviation**2, 1e-12)
    shares = weights / weights.sum()
    # Student's t for the spread between processes, which few of them show. The error within a process comes from many
    # calls: the normal distribution.
    half_width = math.sqrt(
        float(((t_quantile(freedom + more) * deviation) ** 2 + t_quantile(math.inf) ** 2 * within) @ shares**2)
    )
    pooled = _interval(float(logs @ shares), half_width)
    return PooledEstimate(pooled.ratio, pooled.low, pooled.high, deviation, tuple(map(float, shares)))


def _variance_between(logs: np.ndarray, within: np.ndarray) -> float:
    """Returns the variance of `logs` that comes from differences between processes; at least 0.

    `within`: the variance of each process's own estimate, which is subtracted.
    """
    weights = 1 / np.maximum(within, 1e-12)
    scale = weights.sum() - (weights**2).sum() / weights.sum()
    if len(logs) < 2 or scale <= 0:
        return 0.0
    distances = float(weights @ (logs - weights @ logs / weights.sum()) ** 2)
    return max(0.0, (distances - (len(logs) - 1)) / float(scale))


def moderated_variance(now: float, freedom: float, before: float, freedom_before: float) -> float:
    """Returns the mean of two variances, weighted by their degrees of freedom: Smyth's moderated variance (2004).

    - `now`: the variance in new measurements. `freedom`: its degrees of freedom.
    - `before`: the variance that was known before. `freedom_before`: its degrees of freedom.
    - With few new measurements the result stays close to `before`.
    """
    return (freedom * now + freedom_before * before) / (freedom + freedom_before)


def spread_between(groups: Sequence[Sequence[Interval]]) -> float:
    """Returns how far ratios differ between reruns: the standard deviation of their logarithm, pooled over `groups`.

    - `groups`: each group has the ratios of runs with the same settings. At least one group needs two runs.
    - The variance within a run, which follows from its 95 % interval, is averaged over all runs and subtracted.
    """
    squares = sum(np.var(np.log([run.ratio for run in group])) * len(group) for group in groups)
    freedom = sum(len(group) - 1 for group in groups)
    within = np.mean([_log_error(run) ** 2 for group in groups for run in group])
    return math.sqrt(max(0.0, float(squares / freedom - within)))


def unpaired_ratio(slow: Sequence[float], fast: Sequence[float], within: Sequence[Interval]) -> Interval:
    """Returns how many times longer `slow` takes than `fast`, if no process measured both.

    - `slow`, `fast`: the seconds that each process measured. Their geometric means are compared.
    - `slow` needs at least two processes, which show how much processes differ. The processes of `fast` are assumed to
      differ as much. The interval uses Student's t with the degrees of freedom of `slow`.
    - `within`: the speed-up that each process of `fast` measured. The width of its interval is taken as the error of
      that process's time.
    """
    above, below = np.log(np.asarray(slow, dtype=float)), np.log(np.asarray(fast, dtype=float))
    between = float(above.std(ddof=1)) * math.sqrt(1 / len(above) + 1 / len(below)) * t_quantile(len(above) - 1)
    inside = t_quantile(math.inf) * np.mean([_log_error(process) for process in within]) / math.sqrt(len(within))
    return _interval(float(above.mean() - below.mean()), math.hypot(between, inside))


def geometric_mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float:
    return math.exp(float(np.average(np.log(np.asarray(values, dtype=float)), weights=weights)))


def mean_ratio(slow: Sequence[float], fast: Sequence[float]) -> Interval:
    """Returns the ratio of two plain means, as in the Transformers guide. The interval is by the delta method.

    The interval is right only for independent calls on a machine that does not drift between `slow` and `fast`.
    """
    errors = (np.std(times, ddof=1) / np.mean(times) / math.sqrt(len(times)) for times in (slow, fast))
    return _interval(math.log(np.mean(slow) / np.mean(fast)), math.hypot(*errors) * t_quantile(math.inf))


def _interval(mean: float, half_width: float) -> Interval:
    return Interval(math.exp(mean), math.exp(mean - half_width), math.exp(mean + half_width))


def _log_error(ratio: Interval) -> float:
    """Returns the standard error of the ratio's logarithm, computed from the interval for a normal distribution."""
    return math.log(ratio.high / ratio.low) / 2 / t_quantile(math.inf)


def _kept_indices(values: np.ndarray) -> np.ndarray:
    """Returns the indices of `values` in ascending order of the values, without the lowest and the highest tenth."""
    cut = int(len(values) * TRIMMED)
    return np.argsort(values, kind="stable")[cut : len(values) - cut]


def _trimmed_mean(values: np.ndarray) -> tuple[float, float, float]:
    """Returns the mean of `values` without the lowest and highest tenth, its standard error and degrees of freedom."""
    kept = values[_kept_indices(values)]
    winsorised = np.clip(values, kept[0], kept[-1])
    error = float(winsorised.std(ddof=1)) * math.sqrt(len(values)) / len(kept)
    return float(kept.mean()), error, float(len(kept) - 1)


def t_quantile(freedom: float) -> float:
    """Returns half the width of a 95 % interval, in standard errors: the 97.5 % quantile of Student's t.

    `freedom`: the degrees of freedom.
    """
    from scipy.special import stdtrit  # 0.1 s, which commands without a figure should not take

    return float(stdtrit(freedom, 1 - (1 - CONFIDENCE) / 2))


def noise_floor(control: Interval | None) -> float:
    """Returns the noise floor: how far two series of eager calls differed. 0.004 is 0.4 %.

    `control`: the ratio of the two series; None gives 0.
    """
    return 0.0 if control is None else max(control.ratio, 1 / control.ratio) - 1


@dataclass(frozen=True)
class Difference(Interval):
    """How many times longer a first model takes than a second, and whether the two differ."""

    verdict: Verdict
    """'faster' means that the second model is faster. `compare` has the rule. A speed-up is also 'unsure' if the model
    was recompiled while it was timed."""


def compare(ratio: Interval, floor: float = 0.0, taken: bool = False, questions: int = 1) -> Difference:
    """Returns the ratio with a widened interval, and the verdict. All verdicts of the project come from this rule.

    - `questions`: how many ratios are judged together. The interval is wider for more than one (Bonferroni).
    - `floor`: the noise floor, 0.01 for 1 %. The interval extends at least this far to either side of the ratio, unless
      the verdict is 'same'.
    - `taken`: whether other programs used cores while the ratio was measured. Both ends of the interval then move out
      by the factor `TAKEN_FACTOR`.
    - 'faster' and 'slower': the interval does not contain 1, and the ratio is more than 1 % away from 1.
    - 'same': the 90 % interval lies within 3 % of 1 (an equivalence test). This interval is widened for `questions`,
      not for `floor`. If `taken`, the verdict is never 'same'.
    - 'unsure': otherwise. The interval then contains 1.
    """
    known = ratio if questions == 1 else _widen(ratio, questions)
    margin = max(math.log1p(floor), math.log(known.ratio / known.low), math.log(known.high / known.ratio))
    margin += math.log(TAKEN_FACTOR) if taken else 0.0  # more calls would not help: this error is not random
    low, high = known.ratio * math.exp(-margin), known.ratio * math.exp(margin)
    if low > 1 and known.ratio > 1 + SMALLEST_DIFFERENCE:
        return Difference(known.ratio, low, high, "faster")
    if high < 1 and known.ratio < 1 / (1 + SMALLEST_DIFFERENCE):
        return Difference(known.ratio, low, high, "slower")
    # Without the floor: a ratio of calls timed in turns does not have the error that the floor shows.
    ends = (known.ratio * (end / known.ratio) ** EQUIVALENCE for end in (known.low, known.high))
    if not taken and all(1 / (1 + SAME_WITHIN) <= end <= 1 + SAME_WITHIN for end in ends):
        return Difference(known.ratio, known.low, known.high, "same")
    return Difference(known.ratio, low, high, "unsure")


@dataclass(frozen=True)
class Measured(Interval):
    """A measured ratio without a verdict. `judge` gives the verdict, from the interval, `floor` and `taken`."""

    floor: float = 0.0
    taken: bool = False
    """Whether other programs used cores while any of the ratio's times was measured."""

    def judge(self, questions: int = 1) -> Difference:
        """Returns the verdict on this ratio by `compare`. `questions`: how many ratios are judged together."""
        return compare(self, self.floor, self.taken, questions)

    def over(self, other: "Measured") -> "Measured":
        """Divides this ratio by `other`, which other processes measured. The result has no verdict yet.

        - Noise floors are independent errors, so their squares add.
        - If other programs took cores during both measurements, the interval is widened by `TAKEN_FACTOR` once, not
          twice. In `benchmarks/results/taken_cores.md` a ratio was 0.61 to 0.65 times the true ratio while others took
          cores, and else 0.98 to 1.01 times. So the quotient of two ratios is wrong by at most 1.01 / 0.61 = 1.66.
        """
        both = quotient(self, other)
        floor = math.expm1(math.hypot(math.log1p(self.floor), math.log1p(other.floor)))
        return Measured(both.ratio, both.low, both.high, floor, self.taken or other.taken)

    def around(self, ratio: float) -> "Measured":
        """Returns `ratio` with the interval of this ratio, scaled to the same width in percent."""
        moved = ratio / self.ratio
        return Measured(ratio, self.low * moved, self.high * moved, self.floor, self.taken)


def _widen(ratio: Interval, questions: int) -> Interval:
    """Returns the ratio with a wider interval, of confidence 1 - 5 % / `questions`, as Bonferroni's correction needs.

    The error of the ratio's logarithm is taken to be normally distributed.
    """
    quantile = NormalDist().inv_cdf
    wider = quantile(1 - (1 - CONFIDENCE) / 2 / questions) / quantile((1 + CONFIDENCE) / 2)
    low, high = (ratio.ratio * (end / ratio.ratio) ** wider for end in (ratio.low, ratio.high))
    return Interval(ratio.ratio, low, high)


def quotient(first: Interval, second: Interval) -> Interval:
    """Returns `first` divided by `second`, for two independent ratios.

    The interval is that of Zou and Donner (2008): on the logarithmic scale, the distances from the two ratios to the
    ends of their intervals are squared and added. If the interval of `second` begins at 0 or below, the interval of
    the quotient ends at infinity.
    """
    below = math.hypot(math.log(first.ratio / first.low), math.log(second.high / second.ratio))
    reach = math.log(second.ratio / second.low) if second.low > 0 else math.inf
    above = math.hypot(math.log(first.high / first.ratio), reach)
    ratio = first.ratio / second.ratio
    return Interval(ratio, ratio * math.exp(-below), ratio * math.exp(above))


@dataclass(frozen=True)
class Duration:
    """A time in seconds, with its 95 % interval."""

    seconds: float
    low: float
    high: float


def pooled_duration(runs: Sequence[float], deviation: float, freedom: float) -> Duration:
    """Returns the geometric mean of the seconds in `runs`. Its interval includes the spread between processes.

    - `runs`: the time that each process measured; at least one. Each time is taken as exact.
    - `deviation`: the spread between processes known from other runs: the standard deviation of the time's logarithm.
    - `freedom`: the degrees of freedom of `deviation`; infinite if `deviation` is exact.
    """
    pooled = rerun_ratio([Interval(seconds, seconds, seconds) for seconds in runs], deviation, freedom)
    return Duration(pooled.ratio, pooled.low, pooled.high)


def difference(first: Duration, second: Duration) -> Duration:
    """Returns `first` minus `second` for two independent times.

    The interval is that of Zou and Donner (2008): the distances from the two times to the ends of their intervals are
    squared and added.
    """
    seconds = first.seconds - second.seconds
    below = _both(first.seconds - first.low, second.high - second.seconds)
    above = _both(first.high - first.seconds, second.seconds - second.low)
    return Duration(seconds, seconds - below, seconds + above)


def total(first: Duration, calls: float, each: Duration) -> Duration:
    """Returns the time of a `first` call and of `calls` further calls, of which each takes the time `each`.

    The two times are taken as independent, and the interval is made as in `difference`.
    """
    seconds = first.seconds + calls * each.seconds
    below = _both(first.seconds - first.low, calls * (each.seconds - each.low))
    above = _both(first.high - first.seconds, calls * (each.high - each.seconds))
    return Duration(seconds, seconds - below, seconds + above)


def _both(one: float, other: float) -> float:
    # not math.hypot, whose last digit may differ from that of a browser: demo/present/whole_work.js has the same lines
    return math.sqrt(one * one + other * other)


def calls_to_pay(cost: Duration, saved: Duration) -> tuple[int | None, int | None, int | None]:
    """Returns after how many calls compiling has paid for itself: (estimate, fewest, most). None: never.

    - `cost`: the time of the first call, which compiles. `saved`: the time that each later call saves.
    - `fewest` and `most` are the ends of a 95 % interval (Donner and Zou, 2012). For a number of calls between them,
      the interval of `calls * saved - cost` contains 0.
    """
    # Less than this is a rounding of the figures, and the calls that it asks for are beyond a float.
    least = 1e-15 * cost.seconds
    saved = Duration(*(end if abs(end) > least else 0.0 for end in (saved.seconds, saved.low, saved.high)))
    if saved.high <= 0:
        return None, None, None
    product = saved.seconds * cost.seconds
    # The ends solve (calls * saved - cost)^2 = (calls * (saved.end - saved))^2 + (cost.end - cost)^2 for `calls`.
    square, constant = saved.high * (2 * saved.seconds - saved.high), cost.low * (2 * cost.seconds - cost.low)
    fewest = _whole_calls(constant / (product + math.sqrt(max(0.0, product**2 - square * constant))))
    if saved.seconds <= 0:
        return None, fewest, None
    estimate = _whole_calls(cost.seconds / saved.seconds)
    if saved.low <= 0:
        return estimate, fewest, None
    square, constant = saved.low * (2 * saved.seconds - saved.low), cost.high * (2 * cost.seconds - cost.high)
    most = _whole_calls((product + math.sqrt(max(0.0, product**2 - square * constant))) / square)
    return estimate, fewest, most


def break_even_calls(compile_seconds: float, eager_seconds: float, compiled_seconds: float) -> int | None:
    """Returns after how many calls compiling has paid for itself; None if a compiled call is not faster.

    `compile_seconds`: the time of the first call. The other two: the time of one eager and of one compiled call.
    """
    saved = eager_seconds - compiled_seconds
    return _whole_calls(compile_seconds / saved) if saved > 0 else None


def _whole_calls(calls: float) -> int:
    return math.ceil(calls - 1e-9)  # 10 / (0.3 - 0.1) is 50, not 51
