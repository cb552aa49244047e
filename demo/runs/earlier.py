"""Adds to a new result what stored runs and earlier processes with the same settings measured, and stores it."""

import contextlib
import dataclasses
import logging
from collections.abc import Iterable

from ..core import format as fmt
from ..core.caveat import Caveat
from ..core.comparison import ProcessResult
from ..core.machine import HostInfo
from ..core.options import OWN_MODEL, RunSpec
from ..core.result import RunResult
from ..store import reruns
from ..store.database import HistoryError
from ..store.history import History
from ..store.reruns import compiled_spec

_log = logging.getLogger(__name__)


def with_earlier_costs(result: RunResult, history: History) -> RunResult:
    """Adds to a result how long the first calls of stored runs with the same settings took.

    - If no first call with an empty cache was timed, `compilation` gets the newest stored one. The same holds for a
      filled cache.
    - `first_calls` gets the seconds of the other stored first calls, by state of the compile cache: 'cold' (empty),
      'warm' (filled).
    - A result of a user's own model stays as it is, because the model's file may have changed.
    - Raises HistoryError if the history cannot be read.
    """
    compilation = result.compilation
    if compilation is None or result.spec.task == OWN_MODEL:
        return result
    costs = history.compile_costs(result)
    newest = {cache: cache_costs[0] for cache, cache_costs in costs.items()}
    cold, warm = compilation.cold or newest.get("cold"), compilation.warm or newest.get("warm")
    pool = {
        cache: tuple(cost.model_seconds for cost in reversed(cache_costs) if cost not in (cold, warm))
        for cache, cache_costs in costs.items()
    }
    compilation = dataclasses.replace(compilation, cold=cold, warm=warm)
    return dataclasses.replace(
        result, compilation=compilation, first_calls={key: pool[key] for key in pool if pool[key]}
    )


def with_earlier_runs(result: RunResult, earlier: tuple[ProcessResult, ...], history: History | None) -> RunResult:
    """Adds to the result the earlier processes whose speed-ups it pools with its own, and how much processes differ.

    - `earlier`: the earlier processes of the same run, whether or not they were stored. If some are not pooled, a
      caveat counts them.
    - `history`: where earlier runs are looked up; None if this program stores no results. If it cannot be read, only
      `earlier` counts.
    - A result without a speed-up stays as it is.
    """
    if result.speedup is None:
        return result
    same, others, unstored = [], [], earlier
    if history is not None:
        with contextlib.suppress(HistoryError):
            same, others = history.reruns(result, same_model=True), history.reruns(result)
            if result.spec.task != OWN_MODEL:  # an own model has no `same`: all of `earlier` count
                unstored = tuple(run for run in earlier if history.get(run.id) is None)
    pool = reruns.earlier_processes(result, same, unstored)
    if left_out := len({run.id for run in earlier} - {run.id for run in pool}):
        result = dataclasses.replace(result, caveats=(*result.caveats, Caveat("not_counted", {"count": left_out})))
    spread = reruns.spread(result, others)
    return dataclasses.replace(result, earlier=pool, spread=spread)


def with_answer_without_breaks(result: RunResult, history: History) -> RunResult:
    """Adds to a result with added graph breaks the latest stored speed-up without them, for otherwise equal settings.

    A result without added graph breaks stays as it is. Raises HistoryError if the history cannot be read.
    """
    if not result.spec.graph_break:
        return result
    plain = dataclasses.replace(result, spec=dataclasses.replace(result.spec, graph_break=False))
    known = reruns.earlier_processes(plain, history.reruns(plain, same_model=True))
    latest = history.get(known[-1].id) if known else None
    return dataclasses.replace(result, without_breaks=latest.speedup if latest is not None else None)


def kept_threads(spec: RunSpec, machine: HostInfo, stored: Iterable[RunResult]) -> tuple[int, ...]:
    """Returns the numbers of threads for which the compile cache should have the code of `spec`.

    These are the numbers with which `stored` runs filled the cache. Returns () if `spec` uses no cache.
    """
    here = [run for run in stored if run.environment is not None and run.environment.torch == machine.torch]
    alike = [run for run in here if compiled_spec(run.spec) == compiled_spec(spec) and run.compilation is not None]
    threads = {run.threads or 0 for run in alike if run.status == "ok" and run.spec.cache == "keep"}
    return tuple(sorted(threads)) if spec.cached else ()


def complete(
    result: RunResult, earlier: tuple[ProcessResult, ...], elapsed: float, history: History | None
) -> RunResult:
    """Returns the result as it is to be stored: redacted, and with its duration `elapsed`, in seconds.

    - `earlier`: the earlier processes of the same run. Their speed-ups are pooled with the result's own.
    - `history`: from here come further speed-ups to pool, the spread between processes, times of first calls, and the
      speed-up without added graph breaks. None if this program stores no results.
    """
    result = redact_result(dataclasses.replace(result, elapsed_seconds=round(elapsed, 3)))
    result = with_earlier_runs(result, earlier, history)
    if history is None:
        return result
    with contextlib.suppress(HistoryError):
        result = with_earlier_costs(result, history)
        result = with_answer_without_breaks(result, history)
    return result


def redact_result(result: RunResult) -> RunResult:
    """Returns the result without folder names and control characters in its error and caveats: others may see them."""
    failure = result.failure
    if failure is not None:
        failure = dataclasses.replace(failure, message=fmt.redact(failure.message), remedy=fmt.redact(failure.remedy))
    return dataclasses.replace(result, failure=failure, caveats=tuple(caveat.redact() for caveat in result.caveats))


def store(result: RunResult, history: History) -> RunResult:
    """Stores the result and returns it as stored. If that fails, the returned result has a note that says so."""
    try:
        return history.append(result)
    except HistoryError as error:
        _log.warning("a result was not stored: %s", error)
        return result.with_note(f"This result was not stored: {error}")


def store_note(result: RunResult, sentence: str, history: History | None) -> RunResult:
    """Adds a sentence to the caveats of a stored result, stores it again, and returns it."""
    noted = result.with_note(sentence)
    if history is not None:
        try:
            history.overwrite(noted)
        except HistoryError as error:
            _log.warning("a stored result did not get its note: %s", error)
    return noted
