"""Pure logic of a search for the fastest of many settings; knows nothing of models, and measures nothing itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

KEPT = 3
"""One in so many goes on to the next rung."""


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
