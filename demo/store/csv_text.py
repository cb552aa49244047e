"""CSV that a spreadsheet may open, and reading it back: no cell of it can become a formula there.

A spreadsheet runs a cell that begins with =, +, -, @ or their full-width forms, or with such a character after white
space, a tab or a line's end. An apostrophe in front makes it a text. Numbers stay as they are, -0.5 too.
Not covered: a program that splits the lines at another character than the comma.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

_FORMULA = re.compile(r"'*(?:[\t\r\n]|\s*[=+\-@＝＋－＠])")
"""Includes apostrophes in front, so that `original` gives back exactly what `guarded` was given."""
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_BOTH = "\r\n"
"""The csv module quotes a cell for the characters of the line's end only, and a spreadsheet takes either for one."""


def lines(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The rows as lines of CSV, the names of the columns first.

    None, and a column that a row lacks, is an empty cell. Raises ValueError for a row with a further column.
    """
    for row in chain([{name: name for name in columns}], rows):
        line = io.StringIO()
        csv.DictWriter(line, columns, lineterminator=_BOTH).writerow({name: guarded(row[name]) for name in row})
        yield line.getvalue().removesuffix(_BOTH) + "\n"


def written(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """All `lines` in one text."""
    return "".join(lines(columns, rows))


def guarded(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula, with an apostrophe in front; anything else as it is."""
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def original(cell: Any) -> Any:
    """What `guarded` was given for this cell."""
    return cell[1:] if isinstance(cell, str) and cell.startswith("'") and _FORMULA.match(cell) else cell
