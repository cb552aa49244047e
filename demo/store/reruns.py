"""The pool of processes behind an answer, and the spread of speed-ups from process to process.

Runs of one spec with the same versions on the same machine differ by more than the interval of each of them says, since
memory, cores and pages fall differently in each process. Runs of the same spec are an answer's own processes
(`comparable`). A run whose outputs differ counts nowhere: wrong code may be fast or slow. How processes differ beside
them is taken from other specs that were run again here, shrunk towards an assumed spread, as a few runs often show none
by chance. Not covered: what changes from day to day, unless the runs lie on several days; a file of a user's own model.
"""

import dataclasses
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from demo.core import codec
from demo.core.comparison import ASSUMED, ProcessResult, Spread
from demo.core.result import RunResult
from demo.core.spec import OPTIONS, OWN_MODEL, RunSpec
from demo.core.stats import Interval

NEWEST = 300
"""So many runs are looked at: they are read for every new result."""
MIN_FREEDOM = 5
"""Degrees of freedom from which the spread is taken from runs."""
MOST_PROCESSES = 30
"""The newest so many are an answer's pool."""


@dataclasses.dataclass(frozen=True)
class StoredRun:
    """One stored run as far as its speed-up goes."""

    id: str
    spec: RunSpec
    settings: tuple[object, ...]
    """What else must be the same for two runs to be reruns of each other."""
    within: Interval
    process: ProcessResult | None = None
    """None where the result is no basis of an answer."""


_VERSIONS = ("transformers", "threads", "driver", "triton", "python")


def compiled_spec(spec: RunSpec) -> RunSpec:
    """The spec with the defaults for all that decides only how a run is timed."""
    return dataclasses.replace(spec, **{name: option.default for name, option in OPTIONS.items() if option.timing})


def versions(result: RunResult) -> tuple[object, ...]:
    """What else than its spec, device and torch decides how fast a model runs and compiles; () without a machine."""
    machine = result.environment
    if machine is None:
        return ()
    return *(getattr(machine, name) for name in _VERSIONS), machine.settings.get("instructions")


def rerun_of(result: RunResult) -> StoredRun | None:
    """A result as far as its speed-up goes; None without one."""
    if result.speedup is None or result.environment is None:
        return None
    settings = (result.spec.protocol, *versions(result), result.parity and result.parity.verdict)
    process = next(reversed(result.as_processes()), None)
    return StoredRun(result.id, compiled_spec(result.spec), settings, result.speedup.within, process)


def dump_rerun(result: RunResult) -> str | None:
    """Returns the JSON of a `StoredRun`; None if no later run may count this one: a failed run, one whose outputs
    differ, or a model of the user's own, whose file may change."""
    rerun = rerun_of(result)
    if rerun is None or result.status != "ok" or result.spec.task == OWN_MODEL or rerun.settings[-1] == "differ":
        return None
    return json.dumps(codec.plain(rerun))


def load_rerun(text: bytes) -> StoredRun | None:
    """Reads what `dump_rerun` wrote; None for anything else."""
    try:
        return codec.load(StoredRun, json.loads(text))  # type: ignore[no-any-return]
    except (ValueError, RecursionError):
        return None


def comparable(
    of: RunResult, others: Iterable[StoredRun], kept: Sequence[ProcessResult] = ()
) -> tuple[ProcessResult, ...]:
    """The processes before `of` that its answer rests on, too, the oldest first: those of `others` (the newest first)
    with its settings, threads, versions, instructions and verdict on the outputs, and those of `kept`, an earlier
    answer's, whose runs were deleted since."""
    own = rerun_of(of)
    if own is None:
        return ()
    alike = [one for one in others if (one.spec, one.settings) == (own.spec, own.settings) and one.id != of.id]
    stored = [one.process for one in alike if one.process is not None]
    known = {process.id for process in stored}
    deleted = [one for one in kept if one.id not in known and one.threads == of.threads]
    return (*deleted, *reversed(stored))[-(MOST_PROCESSES - 1) :]


def spread(of: RunResult, others: Iterable[StoredRun]) -> Spread:
    """What `others`, earlier runs on its device with its torch, tell of the spread between processes of `of`.

    Runs of its own spec are left out: they are processes of its answer, whose distances count there.
    """
    groups: dict[tuple[RunSpec, tuple[object, ...]], list[Interval]] = defaultdict(list)
    for one in others:
        groups[one.spec, one.settings].append(one.within)
    if (own := rerun_of(of)) is not None:
        groups.pop((own.spec, own.settings), None)
    repeated = [group for group in groups.values() if len(group) > 1]
    freedom = sum(len(group) - 1 for group in repeated)
    if freedom < MIN_FREEDOM:
        return ASSUMED
    # The moderated variance of Smyth 2004, "Linear models and empirical Bayes methods".
    assumed = ASSUMED.freedom or 0.0
    variance = (freedom * deviation(repeated) ** 2 + assumed * ASSUMED.deviation**2) / (freedom + assumed)
    return Spread("this machine", math.sqrt(variance), freedom + assumed)


def deviation(groups: Sequence[Sequence[Interval]]) -> float:
    """Standard deviation between the runs of a group, pooled, less what their own intervals explain.

    Of the logarithms of the ratios. One group must have two runs at least.
    """
    squares = sum(np.var(np.log([run.ratio for run in group])) * len(group) for group in groups)
    freedom = sum(len(group) - 1 for group in groups)
    # Half a 95 % interval is about two standard errors.
    within = statistics.fmean((math.log(run.high / run.low) / 4) ** 2 for group in groups for run in group)
    return math.sqrt(max(0.0, squares / freedom - within))
