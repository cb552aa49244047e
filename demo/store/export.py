"""Results as files for other programs: one flat table (CSV, Parquet), or the whole results (JSON).

CSV is safe to open in a spreadsheet. That runs a cell that begins with =, +, -, @ or their full-width forms, or with
such a character after white space, a tab or a line's end: an apostrophe in front makes it a text. Numbers stay as they
are, -0.5 too. Not covered: a program that splits the lines at another character than the comma.
"""

import csv
import dataclasses
import io
import json
import os
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from demo.core.format import milliseconds
from demo.core.measurement import Measurement
from demo.core.result import FIRST_TOKEN, RunResult
from demo.core.result_json import to_json
from demo.core.spec import BadInput, RunSpec, without_meaning

if TYPE_CHECKING:
    import pandas as pd

FORMATS = ("csv", "json", "parquet")

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
    def latency(result: RunResult) -> float | None:
        seconds = result.latencies.get(variant)
        return milliseconds(seconds) if seconds is not None else None

    def measured(kind: str, read: Callable[[Measurement], Any]) -> Column:
        return _part(kind, variant, lambda found: read(found) if found.wall_seconds else None)

    return {
        f"{variant}_ms": Column(_NUMBER, latency),
        f"{variant}_median_ms": measured(_NUMBER, lambda found: milliseconds(found.median_seconds)),
        f"{variant}_mean_ms": measured(_NUMBER, lambda found: milliseconds(found.mean_seconds)),
        f"{variant}_p95_ms": measured(_NUMBER, lambda found: milliseconds(found.p95_seconds)),
        f"{variant}_images_per_second": Column(_NUMBER, lambda result: _rate(result, variant, "image")),
        f"{variant}_calls": measured(_WHOLE, lambda found: len(found.wall_seconds)),
        f"{variant}_peak_memory_bytes": measured(_WHOLE, lambda found: found.peak_memory_bytes),
    }


def _generation(side: int, variant: str) -> dict[str, Column]:
    def first_token(result: RunResult) -> float | None:
        first = result.comparisons.get(FIRST_TOKEN)
        return milliseconds(first.latencies[side]) if first is not None else None

    return {
        f"{variant}_first_token_ms": Column(_NUMBER, first_token),
        f"{variant}_answer_ms": _part(_NUMBER, "answer_seconds", lambda both: milliseconds(both[side])),
        f"{variant}_tokens_per_second": Column(_NUMBER, lambda result: _rate(result, variant, "token")),
    }


def _rate(result: RunResult, variant: str, unit: str) -> float | None:
    seconds = result.latencies.get(variant)
    return result.spec.batch_size / seconds if seconds is not None and result.spec.unit == unit else None


EXPORTED: dict[str, Column] = {
    **{name: _part(_TEXT, name) for name in ("id", "started_at", "status")},
    **{  # 'threads' is what torch used
        "threads_asked" if field.name == "threads" else field.name: _option(field.name, field.type)
        for field in dataclasses.fields(RunSpec)
    },
    **{
        name: _part(_TEXT, f"environment.{name}")
        for name in ("torch", "transformers", "python", "platform", "device_name", "cpu", "driver", "cuda")
    },
    "threads": _part(_WHOLE, "environment.threads"),
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
    "failure_stage": _part(_TEXT, "failure.stage"),
    "failure_message": _part(_TEXT, "failure.message"),
    "warnings": _part(_TEXT, "warnings", " ".join),
    **_generation(0, "eager"),
    **_generation(1, "compiled"),
}
"""All columns of a run, in their order."""


def check_place(path: Path, what: str) -> None:
    """Raises BadInput, before anything is run, where the file, a `what`, could not be written."""
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path) or not os.path.isdir(folder) or not os.access(folder, os.W_OK | os.X_OK):
        why = "it is a folder, or its own folder does not exist or allows no writing"
        raise BadInput(f"The {what} {str(path)!r} cannot be written: {why}. Name another file.")


def row(result: RunResult) -> dict[str, Any]:
    """The `EXPORTED` columns of one result, None where not measured; a lone surrogate (of a file name) is escaped."""
    values = {name: column.read(result) for name, column in EXPORTED.items()}
    return {
        name: value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for name, value in values.items()
    }


def table(results: Iterable[RunResult]) -> "pd.DataFrame":
    """One row a result, in the order given. What was not measured is missing, not zero."""
    import pandas as pd

    rows = [row(result) for result in results]
    return pd.DataFrame(
        {name: pd.array([one[name] for one in rows], dtype=column.kind) for name, column in EXPORTED.items()}  # type: ignore[call-overload]
    )


def write(results: Iterable[RunResult], format: str, file: BinaryIO) -> None:
    """Writes a file of one of `FORMATS`: JSON has the whole results. Raises BadInput for another format.

    One result is in memory at a time, and all rows for Parquet.
    """
    if format == "json":
        for line in json_lines(results, indent=1):
            file.write(line.encode("utf-8", "backslashreplace"))
    elif format == "csv":
        for line in csv_lines(list(EXPORTED), map(row, results)):
            file.write(line.encode())
    elif format == "parquet":
        table(results).to_parquet(file, index=False)
    else:
        raise BadInput(f"Runs can be written as {', '.join(FORMATS)}. Given: {format!r}.")


def to_bytes(results: Iterable[RunResult], format: str) -> bytes:
    file = io.BytesIO()
    write(results, format, file)
    return file.getvalue()


def json_lines(results: Iterable[RunResult], indent: int) -> Iterator[str]:
    """The text that `json.dumps` gives for the list of the results, in pieces of one result each."""
    margin = "\n" + " " * indent
    before = "["
    for result in results:
        text = json.dumps(to_json(result), allow_nan=False, ensure_ascii=False, indent=indent)
        yield before + margin + text.replace("\n", margin)  # a line's end within a string is escaped
        before = ","
    yield "[]" if before == "[" else "\n]"


# CSV

_FORMULA = re.compile(r"'*(?:[\t\r\n]|\s*[=+\-@＝＋－＠])")
"""Includes apostrophes in front, so that `unescape_formula` gives back exactly what `escape_formula` was given."""
_PLAIN_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_BOTH = "\r\n"
"""The csv module quotes a cell for the characters of the line's end only, and a spreadsheet takes either for one."""


def csv_lines(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The rows as lines of CSV, the names of the columns first.

    None, and a column that a row lacks, is an empty cell. Raises ValueError for a row with a further column.
    """
    for row in chain([{name: name for name in columns}], rows):
        line = io.StringIO()
        csv.DictWriter(line, columns, lineterminator=_BOTH).writerow({name: escape_formula(row[name]) for name in row})
        yield line.getvalue().removesuffix(_BOTH) + "\n"


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """All `csv_lines` in one text."""
    return "".join(csv_lines(columns, rows))


def escape_formula(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula, with an apostrophe in front; anything else as it is."""
    if isinstance(value, str) and _FORMULA.match(value) and not _PLAIN_NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def unescape_formula(cell: Any) -> Any:
    """What `escape_formula` was given for this cell."""
    return cell[1:] if isinstance(cell, str) and cell.startswith("'") and _FORMULA.match(cell) else cell
