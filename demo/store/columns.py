"""The flat row of a run: every figure that an export has a column for, defined once.

Raw times and predictions are in a result's JSON only.
"""

import dataclasses
import typing
from collections.abc import Callable
from typing import Any

from demo.core.format import milliseconds
from demo.core.measurement import Measurement
from demo.core.result import RunResult
from demo.core.spec import RunSpec, without_meaning

_TEXT, _WHOLE, _NUMBER, _SWITCH = "string", "Int64", "Float64", "boolean"
"""pandas' types that have a value for 'not measured', so that a column has the same type in every export."""


@dataclasses.dataclass(frozen=True)
class Column:
    kind: str
    """The type of its values, as pandas calls it."""
    read: Callable[[RunResult], Any]
    """None where it was not measured."""


def _option(name: str, annotation: Any) -> Column:
    kinds = {str: _TEXT, int: _WHOLE, float: _NUMBER, bool: _SWITCH}
    kind, *_ = (*typing.get_args(annotation), annotation)  # of `int | None` int, of `tuple[str, ...]` str

    def value(result: RunResult) -> Any:
        if name in without_meaning(result.spec.task):
            return None
        found = getattr(result.spec, name)
        return ", ".join(found) if isinstance(found, tuple) else found

    return Column(kinds[kind], value)


def _part(kind: str, path: str, convert: Callable[[Any], Any] = lambda found: found) -> Column:
    """What the result has at this path of attributes, converted; None where a part of it is missing."""

    def value(result: RunResult) -> Any:
        found: Any = result
        for name in path.split("."):
            found = getattr(found, name) if found is not None else None
        return convert(found) if found is not None else None

    return Column(kind, value)


def _timing(variant: str) -> dict[str, Column]:
    def measured(kind: str, read: Callable[[Measurement], Any]) -> Column:
        return _part(kind, variant, lambda found: read(found) if found.wall_seconds else None)

    return {
        f"{variant}_ms": _part(
            _NUMBER, "latencies", lambda all: milliseconds(all[variant]) if variant in all else None
        ),
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


_FIELDS = {field.name: field.type for field in dataclasses.fields(RunSpec)}
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
    **{name: _part(_TEXT, name) for name in ("id", "started_at", "status")},
    **_OPTIONS,
    **{name: _part(_TEXT, f"environment.{name}") for name in ("torch", "transformers", "python", "platform")},
    **{name: _part(_TEXT, f"environment.{name}") for name in ("device_name", "cpu")},
    "threads": _part(_WHOLE, "environment.threads"),
    **{name: _part(_TEXT, f"environment.{name}") for name in ("driver", "cuda")},
    **_timing("eager"),
    **_timing("compiled"),
    "speedup": _part(_NUMBER, "speedup.ratio"),
    "speedup_low": _part(_NUMBER, "speedup.low"),
    "speedup_high": _part(_NUMBER, "speedup.high"),
    "verdict": _part(_TEXT, "speedup.verdict"),
    "speedup_within_low": _part(_NUMBER, "speedup.within.low"),
    "speedup_within_high": _part(_NUMBER, "speedup.within.high"),
    "speedup_basis": _part(_TEXT, "speedup.basis"),
    "control_low": _part(_NUMBER, "control.low"),
    "control_high": _part(_NUMBER, "control.high"),
    "first_call_seconds": _part(_NUMBER, "compilation.first_call_seconds"),
    "first_call_cache": _part(_TEXT, "compilation.cache"),
    "graphs": _part(_WHOLE, "compilation.graphs"),
    "graph_breaks": _part(_WHOLE, "compilation.graph_breaks", len),
    "break_even_calls": _part(_WHOLE, "own_break_even.calls"),
    "break_even_seconds": _part(_NUMBER, "own_break_even.seconds"),
    "parity": _part(_TEXT, "parity.verdict"),
    "elapsed_seconds": _part(_NUMBER, "elapsed_seconds"),
    "failure_stage": _part(_TEXT, "failure.phase"),
    "failure_message": _part(_TEXT, "failure.message"),
    "warnings": _part(_TEXT, "warnings", " ".join),
    "eager_first_token_ms": _part(_NUMBER, "prefill_latencies", lambda both: milliseconds(both[0])),
    "compiled_first_token_ms": _part(_NUMBER, "prefill_latencies", lambda both: milliseconds(both[1])),
    "eager_answer_ms": _part(_NUMBER, "answer_seconds", lambda both: milliseconds(both[0])),
    "compiled_answer_ms": _part(_NUMBER, "answer_seconds", lambda both: milliseconds(both[1])),
    "eager_tokens_per_second": _rate("eager", "token"),
    "compiled_tokens_per_second": _rate("compiled", "token"),
}
"""All columns of a run, as an export has them."""
