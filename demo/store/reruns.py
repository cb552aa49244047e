"""What stored runs add to a new result: earlier processes with its settings, and the spread between processes.

Runs of one spec with the same versions on one machine differ by more than their own intervals say, because each
process gets other memory and other cores.

- Stored runs with the same settings are pooled with the new run (`earlier_processes`).
- Other settings that were repeated on this machine tell the spread between processes (`spread`). The spread is shrunk
  towards an assumed value, because a few runs often differ little by chance.
- A run whose compiled outputs differ from eager's is left out: wrong code may be fast or slow.

Not covered: changes from day to day, unless the runs are of several days; a user's own model, whose file may
change.
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
"""Number of the newest stored runs that are read for every new result."""
MIN_FREEDOM = 5
"""Fewest degrees of freedom from which stored runs, and not `ASSUMED` alone, give the spread."""
MOST_PROCESSES = 30
"""Most processes over which a speed-up is pooled: this run and the newest earlier ones."""


@dataclasses.dataclass(frozen=True)
class StoredRun:
    """The part of a stored run that later results need."""

    id: str
    spec: RunSpec
    settings: tuple[object, ...]
    """Protocol, versions, threads and verdict on the outputs. Two reruns are equal in `spec` and `settings`."""
    within: Interval
    """The speed-up with its interval for that run's own process."""
    process: ProcessResult | None = None
    """The process to pool with later runs; None if the run may not be pooled."""


_VERSIONS = ("transformers", "threads", "driver", "triton", "python")


def compiled_spec(spec: RunSpec) -> RunSpec:
    """Returns the spec with the timing options at their defaults, so that specs that compile alike are equal."""
    return dataclasses.replace(spec, **{name: option.default for name, option in OPTIONS.items() if option.timing})


def versions(result: RunResult) -> tuple[object, ...]:
    """Returns everything of the environment that may change a speed: versions, number of threads, vector instructions.

    () for a result without an environment.
    """
    machine = result.environment
    if machine is None:
        return ()
    return *(getattr(machine, name) for name in _VERSIONS), machine.settings.get("instructions")


def rerun_of(result: RunResult) -> StoredRun | None:
    """Returns the part of a result that later results need; None without a speed-up."""
    if result.speedup is None or result.environment is None:
        return None
    settings = (result.spec.protocol, *versions(result), result.parity and result.parity.verdict)
    process = next(reversed(result.as_processes()), None)
    return StoredRun(result.id, compiled_spec(result.spec), settings, result.speedup.within, process)


def dump_rerun(result: RunResult) -> str | None:
    """Returns the JSON of a `StoredRun`; None if no later result may use this run: a failed run, a run whose
    outputs differ, or a user's own model, whose file may change."""
    rerun = rerun_of(result)
    if rerun is None or result.status != "ok" or result.spec.task == OWN_MODEL or rerun.settings[-1] == "differ":
        return None
    return json.dumps(codec.plain(rerun))


def load_rerun(text: bytes) -> StoredRun | None:
    """Returns the `StoredRun` that `dump_rerun` wrote; None for any other text."""
    try:
        return codec.from_plain(StoredRun, json.loads(text))  # type: ignore[no-any-return]
    except (ValueError, RecursionError):
        return None


def earlier_processes(
    result: RunResult, stored: Iterable[StoredRun], deleted: Sequence[ProcessResult] = ()
) -> tuple[ProcessResult, ...]:
    """Returns the earlier processes over which the speed-up of `result` is pooled, oldest first.

    They come from `stored` (newest first): runs with the same spec, versions and threads as `result`, and the same
    verdict on the outputs. `deleted` are further processes, whose stored runs the user has deleted.
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
    """Returns the spread of speed-ups between processes, from repeated settings in `stored`, or else `ASSUMED`.

    `stored` are runs on the device and with the torch of `result`. Runs with the settings of `result` are left out.
    """
    groups: dict[tuple[RunSpec, tuple[object, ...]], list[Interval]] = defaultdict(list)
    for run in stored:
        groups[run.spec, run.settings].append(run.within)
    if (own := rerun_of(result)) is not None:
        groups.pop((own.spec, own.settings), None)  # `earlier_processes` counts these
    repeated = [group for group in groups.values() if len(group) > 1]
    freedom = sum(len(group) - 1 for group in repeated)
    if freedom < MIN_FREEDOM:
        return ASSUMED
    # The moderated variance of Smyth 2004, "Linear models and empirical Bayes methods".
    assumed = ASSUMED.freedom or 0.0  # never None there; for the type checker
    variance = (freedom * deviation(repeated) ** 2 + assumed * ASSUMED.deviation**2) / (freedom + assumed)
    return Spread("this machine", math.sqrt(variance), freedom + assumed)


def deviation(groups: Sequence[Sequence[Interval]]) -> float:
    """Returns the pooled standard deviation of the ratios' logarithms within groups of reruns, less what the
    intervals of the single runs explain.

    At least one group must have two runs.
    """
    squares = sum(np.var(np.log([run.ratio for run in group])) * len(group) for group in groups)
    freedom = sum(len(group) - 1 for group in groups)
    # Half a 95 % interval is about two standard errors.
    within = statistics.fmean((math.log(run.high / run.low) / 4) ** 2 for group in groups for run in group)
    return math.sqrt(max(0.0, squares / freedom - within))
