"""A run compared with the guide's rows for the same checkpoint: which rows, and what differs, as sentences.

Each setting that the guide's examples name and in which the run differs has a sentence. One more tells the guide's
picture and precision.
"""

import math
from collections.abc import Iterator
from typing import Any

from demo.core import format as fmt
from demo.core.result import RunResult
from demo.core.spec import OPTIONS, PUBLISHED_CALLS, RunSpec
from demo.present import naming, verdict
from demo.store import published
from demo.store.published import PublishedRow


def compare_with_guide(result: RunResult) -> list[str]:
    """Returns 'On an A100 with torch 2.0.1 the guide saw 1.52×.' for each GPU, the run's own answer, and a sentence for
    each difference; nothing where the guide lacks the checkpoint or the run a result. Out of memory is one."""
    spec = result.spec
    nearest = nearest_rows(spec.checkpoint, spec.mode, spec.batch_size)
    answered = result.status == "out_of_memory" or (result.status == "ok" and result.speedup is not None)
    if not answered or not nearest:
        return []
    return [*(_sentence(row, spec) for row in nearest), _here(result), *_differences(result, nearest)]


def nearest_rows(checkpoint: str, mode: str = "default", batch_size: int = 1) -> tuple[PublishedRow, ...]:
    """One row of the guide for each of its GPUs: in this mode, else in 'default'; then the nearest batch size by ratio,
    of two equally far ones the smaller, and of two tables the first."""

    def distance(row: PublishedRow) -> tuple[float, int]:
        return round(abs(math.log(row.batch_size / batch_size)), 9), row.batch_size

    nearest = []
    for gpu in ("A100", "V100", "T4"):
        own = [row for row in published.rows() if (row.gpu, row.checkpoint) == (gpu, checkpoint)]
        own = [row for row in own if row.mode == mode] or [row for row in own if row.mode == "default"]
        if own:
            nearest.append(min(own, key=distance))
    return tuple(nearest)


def _here(result: RunResult) -> str:
    if result.status == "out_of_memory" or result.speedup is None:
        saw = "out of memory"
    else:  # a void run has an answer and no figure
        saw = verdict.answer(result) if result.void else verdict.speedup_in_full(result)
    torch = result.environment.torch if result.environment is not None else "–"
    return f"Here: {saw}, with torch {torch} on {naming.where(result)}."


def _sentence(row: PublishedRow, spec: RunSpec) -> str:
    setting = [f"batch {row.batch_size}"] if row.batch_size != spec.batch_size else []
    setting += [f"mode {row.mode}"] if row.mode != spec.mode else []
    apart = f" ({', '.join(setting)})" if setting else ""
    saw = "out of memory" if row.speedup is None else fmt.ratio(row.speedup)
    return f"On the {row.gpu} with torch {row.torch}{apart} the guide saw {saw}."


def _differences(result: RunResult, rows: tuple[PublishedRow, ...]) -> Iterator[str]:
    spec, machine = result.spec, result.environment
    guide: dict[str, set[Any]] = {
        "batch_size": {row.batch_size for row in rows},
        "mode": {row.mode for row in rows},
        "dtype": {"float32"},
        "weights": {"pretrained"},
        "channels_last": {False},
        "graph_break": {False},
    }
    for name, there in guide.items():
        here = getattr(spec, name)
        if others := sorted(there - {here}):
            there_too = fmt.enumerated(map(naming.shown_value, others))
            yield f"{OPTIONS[name].label}: {naming.shown_value(here)} here, {there_too} in the guide."
    if machine is not None and "sdpa" in machine.settings.get("attention", ""):
        yield "Attention: SDPA here, plain (eager) in the guide of 2023. --attention eager compares like with like."
    if spec.device == "cpu":
        yield "This run used the CPU; the guide measured GPUs. Their latencies cannot be compared."
    yield (
        f"The guide took two means of {PUBLISHED_CALLS} calls with a picture of 640 × 480 pixels; "
        "its A100 may have used TF32."
    )
    ours = f"torch {machine.torch}, transformers {machine.transformers}" if machine else "–"
    torch = sorted({row.torch for row in rows})
    yield (
        f"The versions differ: {ours} here, torch {fmt.enumerated(map(str, torch))} and the "
        "Transformers of 2023 in the guide."
    )
