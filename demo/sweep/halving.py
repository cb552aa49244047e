"""Successive halving: the search for the fastest of many candidates. Pure logic; it knows nothing of models."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from typing import TypeVar

Candidate = TypeVar("Candidate", bound=Hashable)
Event = TypeVar("Event")

KEPT = 3
"""One of this many candidates goes on to the next rung."""


def successive_halving(
    candidates: Sequence[Candidate],
    budgets: Sequence[float],
    measure: Callable[[tuple[Candidate, ...], float], Generator[Event, None, Mapping[Candidate, float]]],
    late: Callable[[Sequence[Candidate]], Sequence[Candidate]] = lambda fastest: (),
) -> Generator[Event, None, tuple[Candidate, ...]]:
    """Measures one rung for each budget and returns the candidates of the last one, fastest first; () if all failed.

    `measure(candidates, budget)` returns the seconds of each candidate, and yields whatever the caller of this wants to
    see meanwhile. A candidate without seconds is out. The fastest third goes on to the next rung (Jamieson and
    Talwalkar, 2016, keep half). `late(fastest)` names further candidates that join in the last rung: those too costly
    to be measured with all others.
    """
    left = tuple(dict.fromkeys(candidates))
    for number, budget in enumerate(budgets, start=1):
        seconds = yield from measure(left, budget)
        ranked = sorted((one for one in left if one in seconds), key=lambda one: seconds[one])
        if number == len(budgets):
            return tuple(ranked)
        left = tuple(ranked[: math.ceil(len(ranked) / KEPT)])
        if number == len(budgets) - 1:
            left += tuple(late(left))
        if len(ranked) <= 1 and len(left) == len(ranked):
            return left  # there is nothing left to choose from
    return left
