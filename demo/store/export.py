"""Results as files for other programs: one flat table (CSV, Parquet), or the whole results (JSON)."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demo.core.format import milliseconds
from demo.core.result import BadInput, Compilation, Environment, Measurement, RunResult, RunSpec

if TYPE_CHECKING:
    import pandas as pd

FORMATS = ("csv", "json", "parquet")


def check_place(path: Path, what: str) -> None:
    """Raises BadInput, before anything is run, where the file, a `what`, could not be written."""
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path):  # Path's own raises OSError for a name that is too long, or in a folder that is locked
        raise BadInput(f"The {what} {str(path)!r} is a folder. Name a file.")
    if not os.path.isdir(folder):
        raise BadInput(f"The folder {folder!r} does not exist. Make it, or name another file.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInput(f"The folder {folder!r} does not allow writing. Allow it, or name another file.")


_Column = tuple[str, Callable[[RunResult], Any]]
_TEXT, _WHOLE, _NUMBER, _SWITCH = "string", "Int64", "Float64", "boolean"
"""pandas' types that know 'not measured': the same column of two exports has the same type, whatever stands in it."""


def _asked(read: Callable[[RunSpec], Any]) -> Callable[[RunResult], Any]:
    return lambda result: read(result.spec)


def _known(read: Callable[[Environment], Any]) -> Callable[[RunResult], Any]:
    return lambda result: read(result.environment) if result.environment else None


def _compiled(read: Callable[[Compilation], Any]) -> Callable[[RunResult], Any]:
    return lambda result: read(result.compilation) if result.compilation else None


def _timed(variant: str) -> dict[str, _Column]:
    def column(kind: str, read: Callable[[Measurement], Any]) -> _Column:
        def value(result: RunResult) -> Any:
            measured: Measurement | None = getattr(result, variant)
            return read(measured) if measured is not None and measured.wall_seconds else None

        return kind, value

    def rate(result: RunResult) -> float | None:
        measured: Measurement | None = getattr(result, variant)
        return result.spec.batch_size / measured.median_seconds if measured and measured.wall_seconds else None

    return {
        f"{variant}_median_ms": column(_NUMBER, lambda measured: milliseconds(measured.median_seconds)),
        f"{variant}_mean_ms": column(_NUMBER, lambda measured: milliseconds(measured.mean_seconds)),
        f"{variant}_p95_ms": column(_NUMBER, lambda measured: milliseconds(measured.p95_seconds)),
        f"{variant}_images_per_second": (_NUMBER, rate),
        f"{variant}_calls": column(_WHOLE, lambda measured: len(measured.wall_seconds)),
        f"{variant}_peak_memory_bytes": column(_WHOLE, lambda measured: measured.peak_memory_bytes),
    }


COLUMNS: dict[str, _Column] = {
    "id": (_TEXT, lambda result: result.id),
    "started_at": (_TEXT, lambda result: result.started_at),
    "status": (_TEXT, lambda result: result.status),
    "checkpoint": (_TEXT, _asked(lambda spec: spec.checkpoint)),
    "task": (_TEXT, _asked(lambda spec: spec.task)),
    "batch_size": (_WHOLE, _asked(lambda spec: spec.batch_size)),
    "mode": (_TEXT, _asked(lambda spec: spec.mode)),
    "fullgraph": (_SWITCH, _asked(lambda spec: spec.fullgraph)),
    "dtype": (_TEXT, _asked(lambda spec: spec.dtype)),
    "device": (_TEXT, _asked(lambda spec: spec.device)),
    "weights": (_TEXT, _asked(lambda spec: spec.weights)),
    "text": (_TEXT, _asked(lambda spec: ", ".join(spec.text))),
    "protocol": (_TEXT, _asked(lambda spec: spec.protocol)),
    "channels_last": (_SWITCH, _asked(lambda spec: spec.channels_last)),
    "attention": (_TEXT, _asked(lambda spec: spec.attention)),
    "cache": (_TEXT, _asked(lambda spec: spec.cache)),
    "graph_break": (_SWITCH, _asked(lambda spec: spec.graph_break)),
    "iterations": (_WHOLE, _asked(lambda spec: spec.iterations)),
    "precision": (_NUMBER, _asked(lambda spec: spec.precision)),
    "most_seconds": (_NUMBER, _asked(lambda spec: spec.most_seconds)),
    "threads_asked": (_WHOLE, _asked(lambda spec: spec.threads)),
    "profile": (_TEXT, _asked(lambda spec: spec.profile)),
    "torch": (_TEXT, _known(lambda known: known.torch)),
    "transformers": (_TEXT, _known(lambda known: known.transformers)),
    "python": (_TEXT, _known(lambda known: known.python)),
    "platform": (_TEXT, _known(lambda known: known.platform)),
    "device_name": (_TEXT, _known(lambda known: known.device_name)),
    "cpu": (_TEXT, _known(lambda known: known.cpu)),
    "threads": (_WHOLE, _known(lambda known: known.threads)),
    "driver": (_TEXT, _known(lambda known: known.driver)),
    "cuda": (_TEXT, _known(lambda known: known.cuda)),
    **_timed("eager"),
    **_timed("compiled"),
    "speedup": (_NUMBER, lambda result: result.speedup and result.speedup.ratio),
    "speedup_low": (_NUMBER, lambda result: result.speedup and result.speedup.low),
    "speedup_high": (_NUMBER, lambda result: result.speedup and result.speedup.high),
    "verdict": (_TEXT, lambda result: result.speedup and result.speedup.verdict),
    "control_low": (_NUMBER, lambda result: result.control and result.control.low),
    "control_high": (_NUMBER, lambda result: result.control and result.control.high),
    "first_call_seconds": (_NUMBER, _compiled(lambda compiled: compiled.first_call_seconds)),
    "first_call_cache": (_TEXT, _compiled(lambda compiled: compiled.cache)),
    "graphs": (_WHOLE, _compiled(lambda compiled: compiled.graphs)),
    "graph_breaks": (_WHOLE, _compiled(lambda compiled: len(compiled.graph_breaks))),
    "break_even_calls": (_WHOLE, lambda result: result.break_even_calls),
    "parity": (_TEXT, lambda result: result.parity and result.parity.verdict),
    "elapsed_seconds": (_NUMBER, lambda result: result.elapsed_seconds),
    "failure_stage": (_TEXT, lambda result: result.failure and result.failure.stage),
    "failure_message": (_TEXT, lambda result: result.failure and result.failure.message),
    "warnings": (_TEXT, lambda result: " ".join(result.warnings)),
}
"""The table's columns: what was asked, where, and what came of it. Raw times and predictions are in the JSON only."""


def row(result: RunResult) -> dict[str, Any]:
    """`COLUMNS` of one result; None where it was not measured.

    Half a character (a file name may hold some) becomes its escape: no format of a table has a place for it.
    """
    values = {name: read(result) for name, (_, read) in COLUMNS.items()}
    return {
        name: value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for name, value in values.items()
    }


def table(results: Sequence[RunResult]) -> pd.DataFrame:
    """One row a result, in the order given; what was not measured is missing, not zero."""
    import pandas as pd

    rows = [row(result) for result in results]
    return pd.DataFrame(
        {name: pd.array([one[name] for one in rows], dtype=kind) for name, (kind, _) in COLUMNS.items()}  # type: ignore[call-overload]
    )


def encoded(results: Sequence[RunResult], format: str) -> bytes:
    """The content of a file of one of `FORMATS`. JSON keeps everything, and can be read by `RunResult.from_json`.

    Raises BadInput for any other format, and for Parquet where pyarrow is not installed.
    """
    if format == "json":
        whole = [result.to_json() for result in results]
        return json.dumps(whole, allow_nan=False, ensure_ascii=False, indent=1).encode("utf-8", "backslashreplace")
    if format == "csv":
        return table(results).to_csv(index=False).encode()
    if format == "parquet":
        buffer = io.BytesIO()
        try:
            table(results).to_parquet(buffer, index=False, engine="pyarrow")
        except ImportError as error:
            raise BadInput(
                "Parquet needs pyarrow: pip install -r requirements.txt. CSV and JSON need nothing."
            ) from error
        return buffer.getvalue()
    raise BadInput(f"Runs can be written as {', '.join(FORMATS)}. Given: {format!r}.")
