"""The processes behind an answer, and the spread of speed-ups between processes.

Runs of one spec with the same versions on one machine differ by more than their own intervals say, since memory, cores
and pages fall differently in each process.

- Runs of the same spec are the answer's own processes (`earlier_processes`).
- The spread also comes from other specs that were repeated here (`spread`). It is shrunk towards an assumed one, as a
  few runs often differ little by chance.
- A run whose outputs differ counts nowhere: wrong code may be fast or slow.

Not covered: what changes from day to day, unless the runs lie on several days; a file of a user's own model.
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
"""Number of runs that are read for every new result."""
MIN_FREEDOM = 5
"""Fewest degrees of freedom with which runs tell the spread."""
MOST_PROCESSES = 30
"""Most processes of an answer, the newest ones."""


@dataclasses.dataclass(frozen=True)
class StoredRun:
    """What a stored run tells later answers."""

    id: str
    spec: RunSpec
    settings: tuple[object, ...]
    """What else must be the same for two runs to be reruns of each other."""
    within: Interval
    process: ProcessResult | None = None
    """None if it is no process of an answer."""


_VERSIONS = ("transformers", "threads", "driver", "triton", "python")


def compiled_spec(spec: RunSpec) -> RunSpec:
    """Returns the spec with the defaults of the options for timing."""
    return dataclasses.replace(spec, **{name: option.default for name, option in OPTIONS.items() if option.timing})


def versions(result: RunResult) -> tuple[object, ...]:
    """Returns what decides speed beside spec, device and torch: versions, threads, instructions; () if not known."""
    machine = result.environment
    if machine is None:
        return ()
    return *(getattr(machine, name) for name in _VERSIONS), machine.settings.get("instructions")


def rerun_of(result: RunResult) -> StoredRun | None:
    """Returns what a result tells later answers; None without a speed-up."""
    if result.speedup is None or result.environment is None:
        return None
    settings = (result.spec.protocol, *versions(result), result.parity and result.parity.verdict)
    process = next(reversed(result.as_processes()), None)
    return StoredRun(result.id, compiled_spec(result.spec), settings, result.speedup.within, process)


def dump_rerun(result: RunResult) -> str | None:
    """Returns the JSON of a `StoredRun`; None if no later answer may include this run.

    That is a failed run, one whose outputs differ, or an own model, whose file may change.
    """
    rerun = rerun_of(result)
    if rerun is None or result.status != "ok" or result.spec.task == OWN_MODEL or rerun.settings[-1] == "differ":
        return None
    return json.dumps(codec.plain(rerun))


def load_rerun(text: bytes) -> StoredRun | None:
    """Reads what `dump_rerun` wrote; None for anything else."""
    try:
        return codec.from_plain(StoredRun, json.loads(text))  # type: ignore[no-any-return]
    except (ValueError, RecursionError):
        return None


def earlier_processes(
    result: RunResult, stored: Iterable[StoredRun], deleted: Sequence[ProcessResult] = ()
) -> tuple[ProcessResult, ...]:
    """Returns the earlier processes that the answer of `result` includes, oldest first.

    From `stored` (newest first) those with its settings, threads, versions, instructions and verdict on the outputs.
    `deleted` are processes of an earlier answer whose runs were deleted.
    """
    own = rerun_of(result)
    if own is None:
        return ()
    alike = [run for run in stored if (run.spec, run.settings) == (own.spec, own.settings)]
    pool = [run.process for run in alike if run.process is not None]
    ids = {process.id for process in pool}
    others = [process for process in deleted if process.id not in ids and process.threads == result.threads]
    return (*others, *reversed(pool))[-(MOST_PROCESSES - 1) :]


def spread(result: RunResult, stored: Iterable[StoredRun]) -> Spread:
    """Returns the spread between processes, from `stored`: runs on the device of `result` with its torch.

    Runs of its own spec are left out: they are processes of its answer and count there.
    """
    groups: dict[tuple[RunSpec, tuple[object, ...]], list[Interval]] = defaultdict(list)
    for run in stored:
        groups[run.spec, run.settings].append(run.within)
    if (own := rerun_of(result)) is not None:
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
    """Returns the pooled standard deviation within groups, of the logarithms of the ratios, less what the runs' own
    intervals explain. At least one group must have two runs."""
    squares = sum(np.var(np.log([run.ratio for run in group])) * len(group) for group in groups)
    freedom = sum(len(group) - 1 for group in groups)
    # Half a 95 % interval is about two standard errors.
    within = statistics.fmean((math.log(run.high / run.low) / 4) ** 2 for group in groups for run in group)
    return math.sqrt(max(0.0, squares / freedom - within))
