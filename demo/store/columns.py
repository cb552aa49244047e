"""The flat row of a run: every figure that a table has a column for, defined once.

`EXPORTED` has all columns of a run; `STORED` and `SWEEP_FIGURES` are the tables that take some of them. `TABLE_COLUMNS`
has those of a row of the guide's tables, or of this project's own in the same form. Raw times and predictions are in a
result's JSON only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from demo.core.format import milliseconds
from demo.core.machine import Environment
from demo.core.measurement import Compilation, Measurement
from demo.core.result import RunResult
from demo.core.spec import RunSpec, without_meaning
from demo.store.tables import OOM, Measured, PublishedRow

_TEXT, _WHOLE, _NUMBER, _SWITCH = "string", "Int64", "Float64", "boolean"
"""pandas' types that have a value for 'not measured', so that a column has the same type in every export."""


@dataclasses.dataclass(frozen=True)
class Column:
    kind: str
    """The type of its values, as pandas calls it."""
    read: Callable[[RunResult], Any]
    """None where it was not measured."""


def _option(name: str, annotation: str) -> Column:
    kinds = {"str": _TEXT, "tuple": _TEXT, "int": _WHOLE, "float": _NUMBER, "bool": _SWITCH}

    def value(result: RunResult) -> Any:
        if name in without_meaning(result.spec.task):
            return None
        found = getattr(result.spec, name)
        return ", ".join(found) if isinstance(found, tuple) else found

    return Column(kinds[annotation.split(" ")[0].split("[")[0]], value)


def _environment(kind: str, read: Callable[[Environment], Any]) -> Column:
    return Column(kind, lambda result: read(result.environment) if result.environment else None)


def _compilation(kind: str, read: Callable[[Compilation], Any]) -> Column:
    return Column(kind, lambda result: read(result.compilation) if result.compilation else None)


def _timing(variant: str) -> dict[str, Column]:
    def measured(kind: str, read: Callable[[Measurement], Any]) -> Column:
        def value(result: RunResult) -> Any:
            found: Measurement | None = getattr(result, variant)
            return read(found) if found is not None and found.wall_seconds else None

        return Column(kind, value)

    def latency(result: RunResult) -> float | None:
        seconds = result.latencies.get(variant)
        return milliseconds(seconds) if seconds is not None else None

    return {
        f"{variant}_ms": Column(_NUMBER, latency),
        f"{variant}_median_ms": measured(_NUMBER, lambda found: milliseconds(found.median_seconds)),
        f"{variant}_mean_ms": measured(_NUMBER, lambda found: milliseconds(found.mean_seconds)),
        f"{variant}_p95_ms": measured(_NUMBER, lambda found: milliseconds(found.p95_seconds)),
        f"{variant}_images_per_second": _rate(variant, "image"),
        f"{variant}_calls": measured(_WHOLE, lambda found: len(found.wall_seconds)),
        f"{variant}_peak_memory_bytes": measured(_WHOLE, lambda found: found.peak_memory_bytes),
    }


def _rate(variant: str, unit: str) -> Column:
    def value(result: RunResult) -> float | None:
        seconds = result.latencies.get(variant)
        return result.spec.batch_size / seconds if seconds is not None and result.spec.unit == unit else None

    return Column(_NUMBER, value)


def _milliseconds(both: tuple[float, float] | None, side: int) -> float | None:
    return None if both is None else milliseconds(both[side])


_FIELDS = {field.name: str(field.type) for field in dataclasses.fields(RunSpec)}
_LAST_FIELDS = (
    "iterations", "precision", "most_seconds", "threads", "profile", "repeats", "compiler", "scope", "freezing",
    "dynamic", "another_size", "prompt", "tokens"
)  # fmt: skip
"""Exports have always had these options behind the others."""
_OPTIONS = {
    "threads_asked" if name == "threads" else name: _option(name, _FIELDS[name])  # 'threads' is what torch used
    for name in (*(name for name in _FIELDS if name not in _LAST_FIELDS), *_LAST_FIELDS)
}

EXPORTED: dict[str, Column] = {
    "id": Column(_TEXT, lambda result: result.id),
    "started_at": Column(_TEXT, lambda result: result.started_at),
    "status": Column(_TEXT, lambda result: result.status),
    **_OPTIONS,
    "torch": _environment(_TEXT, lambda machine: machine.torch),
    "transformers": _environment(_TEXT, lambda machine: machine.transformers),
    "python": _environment(_TEXT, lambda machine: machine.python),
    "platform": _environment(_TEXT, lambda machine: machine.platform),
    "device_name": _environment(_TEXT, lambda machine: machine.device_name),
    "cpu": _environment(_TEXT, lambda machine: machine.cpu),
    "threads": _environment(_WHOLE, lambda machine: machine.threads),
    "driver": _environment(_TEXT, lambda machine: machine.driver),
    "cuda": _environment(_TEXT, lambda machine: machine.cuda),
    **_timing("eager"),
    **_timing("compiled"),
    "speedup": Column(_NUMBER, lambda result: result.speedup and result.speedup.ratio),
    "speedup_low": Column(_NUMBER, lambda result: result.speedup and result.speedup.low),
    "speedup_high": Column(_NUMBER, lambda result: result.speedup and result.speedup.high),
    "verdict": Column(_TEXT, lambda result: result.speedup and result.speedup.verdict),
    "speedup_within_low": Column(_NUMBER, lambda result: result.speedup and result.speedup.within.low),
    "speedup_within_high": Column(_NUMBER, lambda result: result.speedup and result.speedup.within.high),
    "speedup_basis": Column(_TEXT, lambda result: result.speedup and result.speedup.basis),
    "control_low": Column(_NUMBER, lambda result: result.control and result.control.low),
    "control_high": Column(_NUMBER, lambda result: result.control and result.control.high),
    "first_call_seconds": _compilation(_NUMBER, lambda compilation: compilation.first_call_seconds),
    "first_call_cache": _compilation(_TEXT, lambda compilation: compilation.cache),
    "graphs": _compilation(_WHOLE, lambda compilation: compilation.graphs),
    "graph_breaks": _compilation(_WHOLE, lambda compilation: len(compilation.graph_breaks)),
    "break_even_calls": Column(_WHOLE, lambda result: result.break_even_calls),
    "break_even_seconds": Column(_NUMBER, lambda result: result.break_even_seconds),
    "parity": Column(_TEXT, lambda result: result.parity and result.parity.verdict),
    "elapsed_seconds": Column(_NUMBER, lambda result: result.elapsed_seconds),
    "failure_stage": Column(_TEXT, lambda result: result.failure and result.failure.phase),
    "failure_message": Column(_TEXT, lambda result: result.failure and result.failure.message),
    "warnings": Column(_TEXT, lambda result: " ".join(result.warnings)),
    "eager_first_token_ms": Column(_NUMBER, lambda result: _milliseconds(result.prefill_latencies, 0)),
    "compiled_first_token_ms": Column(_NUMBER, lambda result: _milliseconds(result.prefill_latencies, 1)),
    "eager_answer_ms": Column(_NUMBER, lambda result: _milliseconds(result.answer_seconds, 0)),
    "compiled_answer_ms": Column(_NUMBER, lambda result: _milliseconds(result.answer_seconds, 1)),
    "eager_tokens_per_second": _rate("eager", "token"),
    "compiled_tokens_per_second": _rate("compiled", "token"),
}
"""All columns of a run, as an export has them."""

STORED = (
    "id", "started_at", "status", "task", "checkpoint", "batch_size", "mode", "dtype", "device", "weights",
    "device_name", "torch"
)  # fmt: skip
"""The columns of the history's table beside the whole result."""

_SWEEP_FIGURES = (
    "eager_ms", "compiled_ms", "eager_median_ms", "compiled_median_ms", "eager_mean_ms", "compiled_mean_ms", "speedup",
    "speedup_low", "speedup_high", "verdict", "speedup_basis", "control_low", "control_high", "first_call_seconds",
    "compile_cache", "break_even_calls", "break_even_seconds", "eager_peak_memory_bytes", "compiled_peak_memory_bytes",
    "parity", "device_name", "torch", "transformers", "driver", "elapsed_seconds", "started_at", "id"
)  # fmt: skip
_SWEEP_NAMES = {"compile_cache": "first_call_cache"}
SWEEP_FIGURES = {name: EXPORTED[_SWEEP_NAMES.get(name, name)] for name in _SWEEP_FIGURES}
"""The columns of a sweep's table behind the cell's spec and value."""


def _own(read: Callable[[Measured], Any]) -> Callable[[PublishedRow], Any]:
    """Of a row that this project measured; None for the guide's."""
    return lambda row: read(row.measured) if row.measured else None


def _published_ms(seconds: float | None) -> float | str:
    return OOM if seconds is None else round(milliseconds(seconds), 4)


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


TABLE_COLUMNS: dict[str, Callable[[PublishedRow], Any]] = {
    "subset": lambda row: row.subset,
    "gpu": lambda row: row.gpu,
    "torch": lambda row: row.torch,
    "mode": lambda row: row.mode,
    "batch_size": lambda row: row.batch_size,
    "task": lambda row: row.task,
    "model": lambda row: row.model,
    "checkpoint": lambda row: row.checkpoint,
    "eager_ms": lambda row: _published_ms(row.eager_seconds),
    "compiled_ms": lambda row: _published_ms(row.compiled_seconds),
    "speedup": lambda row: _rounded(row.speedup, 4),
    "speedup_low": _own(lambda own: own.low),
    "speedup_high": _own(lambda own: own.high),
    "saved_percent": lambda row: None if row.saved is None else _rounded(row.saved * 100, 2),
    "dtype": _own(lambda own: own.dtype),
    "weights": _own(lambda own: own.weights),
    "transformers": _own(lambda own: own.transformers),
    "triton": _own(lambda own: own.triton),
    "device": _own(lambda own: own.device),
    "driver": _own(lambda own: own.driver),
    "commit": _own(lambda own: own.commit),
    "date": _own(lambda own: own.date),
    "speedup_basis": _own(lambda own: own.basis),
    "repeats": _own(lambda own: own.repeats),
    "threads": _own(lambda own: own.threads),
}
"""The columns of a row of the guide's tables, and of this project's own beside them. Times are in milliseconds or OOM.

`saved_percent` is computed from the speed-up and stands in no file of this project.
"""
