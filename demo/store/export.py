"""Writes results as files for other programs: a flat table (CSV, Parquet), or whole results (JSON).

In CSV, an apostrophe is put before a text that a spreadsheet would run as a formula.
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
from typing import Any, BinaryIO

from ..core.options import BadInput, RunSpec, unused_options
from ..core.result import RunResult
from ..core.result_json import to_json

FORMATS = ("csv", "json", "parquet")

_TEXT, _WHOLE, _NUMBER, _SWITCH = "string", "Int64", "Float64", "boolean"
"""pandas' types that allow missing values, so that a column has one type in every export."""


def _option(annotation: object) -> str:
    kinds = {str: _TEXT, int: _WHOLE, float: _NUMBER, bool: _SWITCH}
    kind, *_ = (*typing.get_args(annotation), annotation)  # int for `int | None`, str for `tuple[str, ...]`
    return kinds[kind]


def _figures_of(variant: str) -> dict[str, tuple[str, str]]:
    return {
        f"{variant}_ms": (_NUMBER, f"{variant}_ms"),
        f"{variant}_median_ms": (_NUMBER, f"{variant}.median_ms"),
        f"{variant}_mean_ms": (_NUMBER, f"{variant}.mean_ms"),
        f"{variant}_p95_ms": (_NUMBER, f"{variant}.p95_ms"),
        f"{variant}_images_per_second": (_NUMBER, f"{variant}.images_per_second"),
        f"{variant}_calls": (_WHOLE, f"{variant}.wall_seconds"),
        f"{variant}_peak_memory_bytes": (_WHOLE, f"{variant}.peak_memory_bytes"),
        f"{variant}_first_token_ms": (_NUMBER, f"comparisons.first_token.{variant}_ms"),
        f"{variant}_answer_ms": (_NUMBER, f"answer_ms.{variant}"),
        f"{variant}_tokens_per_second": (_NUMBER, f"{variant}.tokens_per_second"),
    }


EXPORTED: dict[str, tuple[str, str]] = {
    **{name: (_TEXT, name) for name in ("id", "started_at", "status")},
    **{  # the column 'threads' below is the number that torch used, 'threads_asked' the option of the spec
        "threads_asked" if field.name == "threads" else field.name: (_option(field.type), f"spec.{field.name}")
        for field in dataclasses.fields(RunSpec)
    },
    **{
        name: (_TEXT, f"environment.{name}")
        for name in ("torch", "transformers", "python", "platform", "device_name", "cpu", "driver", "cuda")
    },
    "threads": (_WHOLE, "environment.threads"),
    **_figures_of("eager"),
    **_figures_of("compiled"),
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
}
"""The columns of an exported table of results: for each its pandas type and its path in `to_json(result)`."""
COLUMN_TYPES = {name: kind for name, (kind, _) in EXPORTED.items()}


def check_place(path: Path, what: str) -> None:
    """Raises BadInput if no file can be written at `path`. `what`: the message's word for it, such as 'report'."""
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path) or not os.path.isdir(folder) or not os.access(folder, os.W_OK | os.X_OK):
        why = "it is a folder, or its own folder does not exist or allows no writing"
        raise BadInput(f"The {what} {str(path)!r} cannot be written: {why}. Name another file.")


def row(result: RunResult) -> dict[str, object]:
    """Returns a value for each column of `EXPORTED`; None if it was not measured, or if the task has no such option."""
    data, values = to_json(result), {}
    for name, (kind, path) in EXPORTED.items():
        value: Any = data
        for key in path.split("."):
            value = (value or {}).get(key)
        if isinstance(value, list):
            value = len(value) if kind == _WHOLE else "; ".join(value)
        if isinstance(value, str):  # CSV and Parquet are UTF-8, which has no lone surrogates
            value = value.encode("utf-8", "backslashreplace").decode()
        values[name] = value
    return values | dict.fromkeys(unused_options(result.spec.task))


def write(results: Iterable[RunResult], format: str, file: BinaryIO) -> None:
    """Writes results to an open file in one of `FORMATS`. Only one result at a time is held in memory.

    For CSV and Parquet all rows are held, too."""
    if format == "json":
        for text in json_lines(results):
            file.write(text.encode("utf-8", "backslashreplace"))
    else:
        write_rows(map(row, results), COLUMN_TYPES, format, file)


def write_rows(rows: Iterable[Mapping[str, object]], kinds: Mapping[str, str], format: str, file: BinaryIO) -> None:
    """Writes rows as 'csv' or 'parquet'. `kinds`: the pandas type of each column, in the order of the columns."""
    if format == "csv":
        file.write(csv_text(list(kinds), rows).encode())
        return
    import pandas as pd  # takes a second

    held = list(rows)
    columns: dict[str, object] = {
        name: pd.array([row[name] for row in held], dtype=kind) for name, kind in kinds.items()
    }
    pd.DataFrame(columns).to_parquet(file, index=False)


def to_bytes(results: Iterable[RunResult], format: str) -> bytes:
    file = io.BytesIO()
    write(results, format, file)
    return file.getvalue()


def json_lines(results: Iterable[RunResult]) -> Iterator[str]:
    """Yields the pieces of a JSON list with one line for each result."""
    before = "[\n"
    for result in results:
        yield before + json.dumps(to_json(result), allow_nan=False, ensure_ascii=False)
        before = ",\n"
    yield "[]\n" if before == "[\n" else "\n]\n"


# CSV

_FORMULA = re.compile(r"'*\s*[=+\-@＝＋－＠﹦﹢﹣﹫]")
"""Matches a text that a spreadsheet may run as a formula: it begins, after spaces, with =, +, -, @ or a full-width or
small form.

Apostrophes in front match too, so that `unescape_formula` removes only one that `escape_formula` added.
"""


def _is_formula(text: str) -> bool:
    """Returns whether a spreadsheet may run the text as a formula, also if it drops invisible characters in front."""
    return bool(_FORMULA.match("".join(letter for letter in text if letter.isprintable() or letter.isspace())))


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Returns the rows as CSV text with a header. None and a missing column become an empty cell."""
    file = io.StringIO()
    writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: escape_formula(row[name]) for name in row} for row in rows)
    return file.getvalue()


def escape_formula(value: object) -> object:
    """Returns a text with spaces for carriage returns, and an apostrophe in front if it is a formula.

    Values that are no texts are returned unchanged.
    """
    if not isinstance(value, str):
        return value
    text = value.replace("\r", " ")  # the csv module does not quote \r, and readers end the line there
    return f"'{text}" if _is_formula(text) else text


def unescape_formula(cell: str) -> str:
    """Returns the cell without the apostrophe that `escape_formula` added. Carriage returns are not restored."""
    return cell[1:] if cell.startswith("'") and _is_formula(cell) else cell
