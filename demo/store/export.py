"""Results as files for other programs: one flat table (CSV, Parquet), or the whole results (JSON)."""

import io
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from demo.core.result import RunResult
from demo.core.spec import BadInput
from demo.store import csv_text
from demo.store.columns import EXPORTED

if TYPE_CHECKING:
    import pandas as pd

FORMATS = ("csv", "json", "parquet")


def check_place(path: Path, what: str) -> None:
    """Raises BadInput, before anything is run, where the file, a `what`, could not be written."""
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path) or not os.path.isdir(folder) or not os.access(folder, os.W_OK | os.X_OK):
        why = "it is a folder, or its own folder does not exist or allows no writing"
        raise BadInput(f"The {what} {str(path)!r} cannot be written: {why}. Name another file.")


def row(result: RunResult) -> dict[str, Any]:
    """`columns.EXPORTED` of one result; None where it was not measured.

    A lone surrogate (a file name may hold some) becomes its escape: no format of a table can hold it.
    """
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
    """Writes a file of one of `FORMATS`, one result after another: no more than one is in memory, of Parquet also the
    rows of all.

    JSON keeps everything, and each of its objects can be read by `RunResult.from_json`. Raises BadInput for any other
    format.
    """
    if format == "json":
        for line in json_lines(results, indent=1):
            file.write(line.encode("utf-8", "backslashreplace"))
    elif format == "csv":
        for line in csv_text.lines(list(EXPORTED), map(row, results)):
            file.write(line.encode())
    elif format == "parquet":
        table(results).to_parquet(file, index=False)
    else:
        raise BadInput(f"Runs can be written as {', '.join(FORMATS)}. Given: {format!r}.")


def encoded(results: Iterable[RunResult], format: str) -> bytes:
    """The content of the file that `write` writes."""
    file = io.BytesIO()
    write(results, format, file)
    return file.getvalue()


def json_lines(results: Iterable[RunResult], indent: int) -> Iterator[str]:
    """The text that `json.dumps` gives for the list of the results, in pieces of one result each."""
    margin = "\n" + " " * indent
    before = "["
    for result in results:
        text = json.dumps(result.to_json(), allow_nan=False, ensure_ascii=False, indent=indent)
        yield before + margin + text.replace("\n", margin)  # a line's end within a string is escaped
        before = ","
    yield "[]" if before == "[" else "\n]"
