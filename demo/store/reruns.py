"""The spread of speed-ups from process to process, as earlier runs on this machine show it.

Covered: runs of one spec with the same versions on the same machine differ by more than the interval of each of them
says, since memory, cores and pages fall differently in each process. Their spread, without the part that their own
intervals explain, is taken from runs of the same spec, else from all specs that were run again here, else assumed.
What a few runs show is drawn towards the assumed spread, since by chance they often show none at all.
Not covered: what changes from day to day, unless the runs lie on several days.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from demo.core import codec
from demo.core.result import RunResult
from demo.core.spec import OPTIONS, OWN_MODEL, RunSpec
from demo.core.speedup import Spread
from demo.core.stats import Interval

NEWEST = 300
"""So many runs are looked at: they are read for every new result."""
ENOUGH = 5
"""Degrees of freedom from which a spread is taken from runs, and as which the assumed spread counts beside it."""
ASSUMED = 0.03
"""Between the 0 and the 5 % that 15 reruns of each of five checkpoints showed on two cores of a CPU, see
`benchmarks/results/reruns.md`; nothing was measured on a GPU."""


@dataclasses.dataclass(frozen=True)
class Rerun:
    """One stored run as far as its speed-up goes."""

    id: str
    spec: RunSpec
    settings: tuple[object, ...]
    """What else must be the same for two runs to be reruns of each other."""
    within: Interval


REREAD = ("id", "spec", "environment.transformers", "environment.threads", "speedup.within", "speedup")
"""The parts of a stored result that make a `Rerun`. Reading it whole takes some hundred times as long."""


def reread(parts: Sequence[Any]) -> Rerun | None:
    """A stored run from the `REREAD` parts of its JSON; None without a speed-up, or where they cannot be read."""
    id, spec, transformers, threads, within, speedup = parts
    try:
        # Results of before the spread between processes was taken in have no `within`: all of theirs was.
        interval = codec.load(Interval, within or speedup)
        read = codec.load(RunSpec, spec)
    except (ValueError, TypeError):
        return None
    # The file of a user's own model may have changed since.
    return None if read.task == OWN_MODEL else _rerun(id, read, transformers, threads, interval)


def compiled_spec(spec: RunSpec) -> RunSpec:
    """The spec with the defaults for all that decides only how a run is timed."""
    return dataclasses.replace(spec, **{name: option.default for name, option in OPTIONS.items() if option.timing})


def _rerun(id: str, spec: RunSpec, transformers: str, threads: int, within: Interval) -> Rerun:
    return Rerun(id, compiled_spec(spec), (spec.protocol, transformers, threads), within)


def rerun_of(result: RunResult) -> Rerun | None:
    """None without a speed-up."""
    if result.speedup is None or result.environment is None:
        return None
    machine = result.environment
    return _rerun(result.id, result.spec, machine.transformers, machine.threads, result.speedup.within)


def processes(of: RunResult, others: Iterable[Rerun]) -> tuple[float, ...]:
    """The speed-up of each process that ran the spec of `of` and counts for an answer, its own last.

    Those that its answer rests on count also where they were deleted, because the answer goes on resting on them.
    """
    own, counted = rerun_of(of), of.as_repeats()
    if own is None or not counted:
        return ()
    alike = [one for one in others if (one.spec, one.settings) == (own.spec, own.settings)]
    kept = {one.id: one.within.ratio for one in counted}
    return (*(one.within.ratio for one in alike if one.id not in kept), *kept.values())


def spread(of: RunResult, others: Iterable[Rerun]) -> Spread:
    """What `others` tell of the spread of a rerun of `of`: earlier runs on its device with its torch."""
    groups: dict[tuple[RunSpec, tuple[object, ...]], list[Interval]] = defaultdict(list)
    for one in others:
        groups[one.spec, one.settings].append(one.within)
    own = rerun_of(of)
    same = groups[own.spec, own.settings] if own is not None else []
    if len(same) > ENOUGH:
        return Spread("same runs", *moderated(deviation([same]), len(same) - 1))
    repeated = [group for group in groups.values() if len(group) > 1]
    freedom = sum(len(group) - 1 for group in repeated)
    if freedom >= ENOUGH:
        return Spread("this machine", *moderated(deviation(repeated), freedom))
    return Spread("assumed", ASSUMED)


def moderated(measured: float, freedom: int) -> tuple[float, float]:
    """A measured deviation and its degrees of freedom, with the assumed one counted in as `ENOUGH` of them.

    Source: the moderated variance of Smyth 2004, "Linear models and empirical Bayes methods".
    """
    variance = (freedom * measured**2 + ENOUGH * ASSUMED**2) / (freedom + ENOUGH)
    return math.sqrt(variance), freedom + ENOUGH


def deviation(groups: Sequence[Sequence[Interval]]) -> float:
    """Standard deviation between the runs of a group, pooled, less what their own intervals explain.

    Of the logarithms of the ratios. One group must have two runs at least.
    """
    squares = sum(np.var(np.log([run.ratio for run in group])) * len(group) for group in groups)
    freedom = sum(len(group) - 1 for group in groups)
    # Half a 95 % interval is about two standard errors.
    within = statistics.fmean((math.log(run.high / run.low) / 4) ** 2 for group in groups for run in group)
    return math.sqrt(max(0.0, squares / freedom - within))
