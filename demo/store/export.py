"""Results as files for other programs: one flat table (CSV, Parquet), or the whole results (JSON).

CSV is safe to open in a spreadsheet. That runs a cell that begins with =, +, -, @ or their full-width forms, also after
white space: an apostrophe in front makes it a text. Not covered: a program that splits the lines at another character
than the comma.
"""

import csv
import dataclasses
import io
import json
import os
import re
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from demo.core.result import RunResult
from demo.core.result_json import to_json
from demo.core.spec import BadInput, RunSpec, unused_options

if TYPE_CHECKING:
    import pandas as pd

FORMATS = ("csv", "json", "parquet")

_TEXT, _WHOLE, _NUMBER, _SWITCH = "string", "Int64", "Float64", "boolean"
"""pandas' types that have a value for 'not measured', so that a column has the same type in every export."""


def _option(annotation: Any) -> str:
    kinds = {str: _TEXT, int: _WHOLE, float: _NUMBER, bool: _SWITCH}
    kind, *_ = (*typing.get_args(annotation), annotation)  # of `int | None` int, of `tuple[str, ...]` str
    return kinds[kind]


def _timing(variant: str) -> dict[str, tuple[str, str]]:
    return {
        f"{variant}_ms": (_NUMBER, f"{variant}_ms"),
        f"{variant}_median_ms": (_NUMBER, f"{variant}.median_ms"),
        f"{variant}_mean_ms": (_NUMBER, f"{variant}.mean_ms"),
        f"{variant}_p95_ms": (_NUMBER, f"{variant}.p95_ms"),
        f"{variant}_images_per_second": (_NUMBER, f"{variant}.images_per_second"),
        f"{variant}_calls": (_WHOLE, f"{variant}.wall_seconds"),
        f"{variant}_peak_memory_bytes": (_WHOLE, f"{variant}.peak_memory_bytes"),
    }


def _generation(variant: str) -> dict[str, tuple[str, str]]:
    return {
        f"{variant}_first_token_ms": (_NUMBER, f"comparisons.first_token.{variant}_ms"),
        f"{variant}_answer_ms": (_NUMBER, f"answer_ms.{variant}"),
        f"{variant}_tokens_per_second": (_NUMBER, f"{variant}.tokens_per_second"),
    }


EXPORTED: dict[str, tuple[str, str]] = {
    **{name: (_TEXT, name) for name in ("id", "started_at", "status")},
    **{  # 'threads' is what torch used
        "threads_asked" if field.name == "threads" else field.name: (_option(field.type), f"spec.{field.name}")
        for field in dataclasses.fields(RunSpec)
    },
    **{
        name: (_TEXT, f"environment.{name}")
        for name in ("torch", "transformers", "python", "platform", "device_name", "cpu", "driver", "cuda")
    },
    "threads": (_WHOLE, "environment.threads"),
    **_timing("eager"),
    **_timing("compiled"),
    "speedup": (_NUMBER, "speedup.ratio"),
    "speedup_low": (_NUMBER, "speedup.low"),
    "speedup_high": (_NUMBER, "speedup.high"),
    "verdict": (_TEXT, "speedup.verdict"),
    "speedup_within_low": (_NUMBER, "speedup.within.low"),
    "speedup_within_high": (_NUMBER, "speedup.within.high"),
    "speedup_basis": (_TEXT, "speedup.basis"),
    "control_low": (_NUMBER, "control.low"),
    "control_high": (_NUMBER, "control.high"),
    "first_call_seconds": (_NUMBER, "compilation.first_call_seconds"),
    "first_call_cache": (_TEXT, "compilation.cache"),
    "graphs": (_WHOLE, "compilation.graphs"),
    "graph_breaks": (_WHOLE, "compilation.graph_breaks"),
    "break_even_calls": (_WHOLE, "break_even_calls"),
    "break_even_seconds": (_NUMBER, "break_even_seconds"),
    "parity": (_TEXT, "parity.verdict"),
    "elapsed_seconds": (_NUMBER, "elapsed_seconds"),
    "failure_stage": (_TEXT, "failure.stage"),
    "failure_message": (_TEXT, "failure.message"),
    "warnings": (_TEXT, "warnings"),
    **_generation("eager"),
    **_generation("compiled"),
}
"""All columns of a run, in their order: the type as pandas calls it, and the place in the JSON of a result."""


def check_place(path: Path, what: str) -> None:
    """Raises BadInput, before anything is run, where the file, a `what`, could not be written."""
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path) or not os.path.isdir(folder) or not os.access(folder, os.W_OK | os.X_OK):
        why = "it is a folder, or its own folder does not exist or allows no writing"
        raise BadInput(f"The {what} {str(path)!r} cannot be written: {why}. Name another file.")


def row(result: RunResult) -> dict[str, Any]:
    """The `EXPORTED` columns of one result, None where not measured; a lone surrogate (of a file name) is escaped."""
    data, values = to_json(result), {}
    for name, (kind, path) in EXPORTED.items():
        value: Any = data
        for key in path.split("."):
            value = (value or {}).get(key)
        if isinstance(value, list):
            value = len(value) if kind == _WHOLE else "; ".join(value)
        if isinstance(value, str):
            value = value.encode("utf-8", "backslashreplace").decode()
        values[name] = value
    return values | dict.fromkeys(unused_options(result.spec.task))


def table(results: Iterable[RunResult]) -> "pd.DataFrame":
    """One row a result, in the order given. What was not measured is missing, not zero."""
    import pandas as pd

    rows = [row(result) for result in results]
    return pd.DataFrame(
        {name: pd.array([one[name] for one in rows], dtype=kind) for name, (kind, _) in EXPORTED.items()}  # type: ignore[call-overload]
    )


def write(results: Iterable[RunResult], format: str, file: BinaryIO) -> None:
    """Writes a file of one of `FORMATS`: JSON has the whole results. Raises BadInput for another format.

    One result is in memory at a time, and the rows of all for CSV and Parquet.
    """
    if format == "json":
        for text in json_lines(results):
            file.write(text.encode("utf-8", "backslashreplace"))
    elif format == "csv":
        file.write(csv_text(list(EXPORTED), map(row, results)).encode())
    elif format == "parquet":
        table(results).to_parquet(file, index=False)
    else:
        raise BadInput(f"Runs can be written as {', '.join(FORMATS)}. Given: {format!r}.")


def to_bytes(results: Iterable[RunResult], format: str) -> bytes:
    file = io.BytesIO()
    write(results, format, file)
    return file.getvalue()


def json_lines(results: Iterable[RunResult]) -> Iterator[str]:
    """The list of the results as JSON, in pieces of a result and a line each."""
    before = "[\n"
    for result in results:
        yield before + json.dumps(to_json(result), allow_nan=False, ensure_ascii=False)
        before = ",\n"
    yield "[]\n" if before == "[\n" else "\n]\n"


# CSV

_FORMULA = re.compile(r"'*\s*[=+\-@＝＋－＠]")
"""Includes apostrophes in front, so that `unescape_formula` gives back exactly what `escape_formula` was given."""


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """The rows as CSV, the names of the columns first.

    None, and a column that a row lacks, is an empty cell. Raises ValueError for a row with a further column.
    """
    file = io.StringIO()
    writer = csv.DictWriter(file, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: escape_formula(row[name]) for name in row} for row in rows)
    return file.getvalue()


def escape_formula(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula, with an apostrophe in front; anything else as it is.

    A carriage return becomes a space: the csv module leaves it unquoted, and readers take it for a line's end.
    """
    if not isinstance(value, str):
        return value
    text = value.replace("\r", " ")
    return f"'{text}" if _FORMULA.match(text) else text


def unescape_formula(cell: str) -> str:
    """What `escape_formula` was given for this cell."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
