"""What stored runs add to a new result. Speed-ups differ between processes, and one process cannot tell by how much.

- Stored runs with the same settings as the new run: the new speed-up is pooled with theirs (`earlier_processes`).
- Stored runs with other settings: repeated runs among them show how much processes differ (`spread`).

Not covered: changes from day to day, unless the runs are from several days; a user's own model, whose file may change.
"""

import dataclasses
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence

from ..core import codec, stats
from ..core.comparison import ProcessResult, Spread
from ..core.options import OPTIONS, OWN_MODEL, OptionValues, RunSpec
from ..core.result import RunResult
from ..core.stats import Interval

NEWEST = 300
"""How many of the newest stored runs are read for a new result."""
MIN_FREEDOM = 5
"""With fewer degrees of freedom, stored runs do not tell how far speed-ups vary: a few runs may agree by chance. Three
runs with the same settings have two degrees of freedom."""
VERSIONS = ("transformers", "threads", "driver", "triton", "python")
"""The fields of `Environment` that may change the speed. `versions` returns their values in this order."""
MOST_PROCESSES = 30
"""Over how many processes a speed-up is pooled at most: the new run's and the newest earlier ones."""


@dataclasses.dataclass(frozen=True)
class StoredRun:
    """A stored run, reduced to what the speed-ups of later runs need: its settings, and its speed-up and times."""

    id: str
    spec: RunSpec
    settings: tuple[object, ...]
    """`spec.protocol` of the run, the values of `versions(result)`, and `parity.verdict`.

    Runs with equal `spec` and `settings` are reruns. (`spec` has all timing options, and so the protocol, at their
    default.)
    """
    within: Interval
    """The speed-up with its interval, from the run's own process alone."""
    process: ProcessResult | None = None
    """The process of this run, with its times. None if the speed-ups of later runs must not be pooled with it."""
    host_bound: bool | None = None
    """Whether launching kernels limits eager's speed (`RunResult.host_bound`). If so, speed-ups vary more."""


def compiled_spec(spec: RunSpec) -> RunSpec:
    """Returns the spec with all timing options at their default, so that runs that compile alike have equal specs."""
    defaults: OptionValues = {name: option.default for name, option in OPTIONS.items() if option.timing}
    return dataclasses.replace(spec, **defaults)


def versions(result: RunResult) -> tuple[object, ...]:
    """Returns what may change the speed of a run besides its spec: library versions, threads, environment variables ...

    Returns () if the run ended before these were known.
    """
    machine = result.environment
    if machine is None:
        return ()
    # One entry for both, so that runs stored before variables were known are reruns of those without any.
    further = [machine.settings[name] for name in ("instructions", "variables") if name in machine.settings]
    return *(getattr(machine, name) for name in VERSIONS), "; ".join(further) or None


def rerun_of(result: RunResult) -> StoredRun | None:
    """Returns the result as a `StoredRun`; None if it has no speed-up or does not know its machine."""
    if result.speedup is None or result.environment is None:
        return None
    settings = (result.spec.protocol, *versions(result), result.parity and result.parity.verdict)
    within = result.own_figures[result.main].within
    return StoredRun(result.id, compiled_spec(result.spec), settings, within, result.own_process, result.host_bound)


def dump_rerun(result: RunResult) -> str | None:
    """Returns the JSON of a `StoredRun`; None if later results must not use the run.

    They must not use runs that failed or have no speed-up, runs whose compiled outputs differ from eager's (wrong code
    may be fast), and runs of a user's own model (its file may change).
    """
    rerun = rerun_of(result)
    if rerun is None or result.status != "ok" or result.spec.task == OWN_MODEL or rerun.settings[-1] == "differ":
        return None
    return json.dumps(codec.plain(rerun))


def load_rerun(text: bytes) -> StoredRun | None:
    """Returns the `StoredRun` that `dump_rerun` wrote; None for any other text."""
    try:
        return codec.from_plain(StoredRun, json.loads(text))
    except (ValueError, RecursionError):
        return None


def earlier_processes(
    result: RunResult, stored: Iterable[StoredRun], unstored: Sequence[ProcessResult] = ()
) -> tuple[ProcessResult, ...]:
    """Returns the earlier processes whose speed-ups are pooled with the speed-up of `result`.

    - `stored`: stored runs, newest first. Used are those with the settings and threads of `result`; timing options may
      differ.
    - `unstored`: earlier processes of the run of `result`, not stored. Used are those with the threads of `result`.
    - Order: `unstored`, then `stored` from oldest to newest. If there are more than `MOST_PROCESSES` - 1 processes, the
      first are left out.
    - If other programs took cores from `result`, and no process has its number of threads, processes with the number of
      threads of the newest stored one are used.
    - () if `result` has no speed-up.
    """
    own = rerun_of(result)
    if own is None:
        return ()
    alike = [run for run in stored if (run.spec, _without_threads(run)) == (own.spec, _without_threads(own))]
    pool = [run.process for run in alike if run.settings == own.settings and run.process is not None]
    ids = {process.id for process in pool}
    others = [process for process in unstored if process.id not in ids and process.threads == result.threads]
    counted = [*others, *reversed(pool)]
    if not counted and result.oversubscribed:
        quiet = [*unstored, *(run.process for run in reversed(alike) if run.process is not None)]
        counted = [process for process in quiet if process.threads == quiet[-1].threads]
    return tuple(counted[-(MOST_PROCESSES - 1) :])


def _without_threads(run: StoredRun) -> tuple[object, ...]:
    """Returns `run.settings` without the number of threads, which a process chooses from the number of free cores."""
    return tuple(value for place, value in enumerate(run.settings) if place != 1 + VERSIONS.index("threads"))


def spread(result: RunResult, stored: Iterable[StoredRun]) -> Spread:
    """Returns how much the speed-ups of repeated runs in `stored` differ from process to process.

    - If too few runs in `stored` were repeated, returns the assumed spread.
    - `stored`: runs with the device and torch version of `result`.
    - Left out: runs with the settings of `result`, disturbed runs, and runs whose `host_bound` differs from that of
      `result`. In a host-bound run, launching kernels limits the speed.
    """
    groups: dict[tuple[RunSpec, tuple[object, ...]], list[Interval]] = defaultdict(list)
    for run in stored:
        if run.host_bound == result.host_bound and run.process is not None:
            groups[run.spec, run.settings].append(run.within)
    if (own := rerun_of(result)) is not None:
        groups.pop((own.spec, own.settings), None)  # `earlier_processes` counts these
    repeated = [group for group in groups.values() if len(group) > 1]
    freedom = sum(len(group) - 1 for group in repeated)
    if freedom < MIN_FREEDOM:
        return result.assumed_spread
    return result.assumed_spread.after(stats.spread_between(repeated), freedom)
