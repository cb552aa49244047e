"""Pure logic of a search for the fastest of many settings; knows nothing of models, and measures nothing itself."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from typing import TypeVar

from demo.stats import Interval

T = TypeVar("T", bound=Hashable)

KEPT = 3
"""One in so many goes on to the next rung."""
_T_975 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
"""Student's t, two-sided 95 %, by degrees of freedom."""


def successive_halving(
    candidates: Sequence[T],
    budgets: Sequence[float],
    late: Callable[[Sequence[T]], Sequence[T]] = lambda fastest: (),
) -> Generator[tuple[tuple[T, ...], float], Mapping[T, float], tuple[T, ...]]:
    """Yields a rung (who is to be measured, with how much), is sent the seconds of each, and returns the last ones.

    Of each rung the fastest third goes on, with the next, larger budget (Jamieson and Talwalkar 2016, with a third for
    their half). A candidate without a time is out. The last rung's are returned fastest first; none where all failed.
    `late` is given those that reach the last rung, fastest first, and names others that join them there: candidates
    too costly to be tried with everybody else.
    """
    left = tuple(dict.fromkeys(candidates))
    for number, budget in enumerate(budgets, start=1):
        seconds = yield left, budget
        ranked = sorted((candidate for candidate in left if candidate in seconds), key=lambda one: seconds[one])
        if number == len(budgets):
            return tuple(ranked)
        left = tuple(ranked[: math.ceil(len(ranked) / KEPT)])
        if number == len(budgets) - 1:
            left += tuple(late(left))
        if len(ranked) <= 1 and len(left) == len(ranked):
            return left  # a further rung would choose among nobody
    return left


def ratio_of_runs(slow: Sequence[float], fast: Sequence[float]) -> Interval:
    """How many times longer `slow` takes than `fast`, from the medians (seconds) of runs made in alternation.

    The two were never timed in the same process, so their calls cannot be paired. What can be are whole runs that
    followed one another: the estimate is the geometric mean of the pairs' ratios, the interval Student's t over their
    logarithms. It is wide with few runs, and holds what differs from process to process, which the many calls
    of a single run know nothing of. Raises ValueError for fewer than 2 pairs or more than 10.
    """
    if len(slow) != len(fast) or not 2 <= len(slow) <= 1 + max(_T_975):
        raise ValueError(f"2 to {1 + max(_T_975)} pairs of runs are needed, given {len(slow)} and {len(fast)}")
    logs = [math.log(a) - math.log(b) for a, b in zip(slow, fast, strict=True)]
    centre = statistics.fmean(logs)
    half = _T_975[len(logs) - 1] * statistics.stdev(logs) / math.sqrt(len(logs))
    return Interval(math.exp(centre), math.exp(centre - half), math.exp(centre + half))
