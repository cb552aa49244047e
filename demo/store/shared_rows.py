"""Rows of results that somebody shared: flat Parquet files of `columns.EXPORTED`, read without trusting them.

What is covered: a file that is no Parquet, is too large, has a text that is too long, or has other columns is left out
as a whole; a row with a value that is missing, impossible or could mislead a reader is left out and counted.
What is not covered: false figures that look true; files made to exploit the Parquet reader itself; an option that only
a newer version of this program knows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple, get_args

from demo.core import format as fmt
from demo.core import stats
from demo.core.errors import BadInput
from demo.core.result import STATUSES
from demo.core.spec import MAX_PROMPT, OPTIONS, OWN_MODEL, RunSpec
from demo.core.speedup import Basis
from demo.core.stats import Verdict
from demo.store.columns import EXPORTED

SHOWN = ("ok", "out_of_memory", "compile_failed")
"""Statuses that say something about a model on a device. Rows of the others are read and not kept."""
MAX_ROWS = 20_000
MAX_ROWS_OF_A_FILE = 20_000
"""A file has the runs of one program and day: more of them are no measurements."""
MAX_DECODED = 64_000_000
"""Bytes of a file's columns without compression."""
QUOTIENT_TOLERANCE = 0.05
"""Eager over compiled is the speed-up, also of repeats. Another program may have rounded the figures."""
_ALL_NOISE = stats.Interval(1.0, 0.0, math.inf)
_PATTERNS = {
    "id": r"[\w-]{1,60}",
    "started_at": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "checkpoint": r"(?=.{1,96}$)\w[\w.-]*(/\w[\w.-]*)?",
    "torch": r"\d[\w.+-]{0,39}",
    "transformers": r"\d[\w.+-]{0,39}",
    "device_name": r"[ -;=?-\[\]-_a-{}~]{1,120}",  # what can be printed, without < > ` | and the backslash
}
"""What a text has to match as a whole, where `\\w` and `\\d` are ASCII."""
_MOST = {"eager_ms": 3_600_000.0, "compiled_ms": 3_600_000.0} | dict.fromkeys(
    ("speedup", "speedup_low", "speedup_high"), 1_000.0
)
"""The largest value of each figure. Its inverse is the smallest."""
_NEEDED = (*_PATTERNS, *_MOST, "task", "status", "threads", "verdict", "speedup_basis")
_OPTION_COLUMNS = {name: "threads_asked" if name == "threads" else name for name in OPTIONS}
_OF_THE_CELL = ("device", "threads", "text", "prompt", "tokens")
_COMPARED = tuple(
    name for name, option in OPTIONS.items() if name == "protocol" or not (option.timing or name in _OF_THE_CELL)
)


class Setting(NamedTuple):
    """What must be the same for two rows to stand side by side: versions, what is compiled how, and the protocol.

    The model, what it is asked for, and the device are not part of it: a row has those in its cell.
    """

    torch: str
    transformers: str
    options: tuple[tuple[str, Any], ...]
    """By name."""


@dataclass(frozen=True)
class SharedRow:
    id: str
    started_at: str
    status: str
    """One of `SHOWN`. The figures of all but 'ok' are None."""
    spec: RunSpec
    torch: str
    transformers: str
    device_name: str
    threads: int
    eager_ms: float | None
    compiled_ms: float | None
    speedup: float | None
    speedup_low: float | None
    speedup_high: float | None
    verdict: Verdict | None
    speedup_basis: Basis | None

    @property
    def device(self) -> tuple[str, int | None]:
        """The device's name, and torch's threads where they decide the speed: on a CPU."""
        return self.device_name, self.threads if self.spec.device == "cpu" else None

    @property
    def model(self) -> tuple[str, tuple[str, ...], str, int]:
        """The checkpoint with what it is asked for: queries, prompt and tokens."""
        return self.spec.checkpoint, self.spec.text, self.spec.prompt, self.spec.tokens

    @cached_property
    def setting(self) -> Setting:
        return Setting(self.torch, self.transformers, tuple((name, getattr(self.spec, name)) for name in _COMPARED))


_COPIED = tuple(name for name in SharedRow.__dataclass_fields__ if name != "spec")


@dataclass(frozen=True)
class FileRows:
    rows: tuple[SharedRow, ...] = ()
    looked_at: int = 0
    unreadable: int = 0
    """Rows that were left out because they make no sense."""
    readable: bool = True
    """Whether the file is a table of this kind."""


def read(path: Path) -> FileRows:
    """The rows of one file. It never raises: whatever is wrong with the file is told in the answer."""
    try:
        lines = _lines(path)
    except Exception:  # pandas and pyarrow raise several kinds; none of them may cost more than this file
        return FileRows(readable=False)
    rows, unreadable = [], 0
    make_spec = cache(_spec)  # most rows repeat one
    for line in lines:
        status = line["status"]
        if status in STATUSES and (status not in SHOWN or (status != "ok" and line["torch"] is None)):
            continue  # a run that tells nothing
        spec = make_spec(tuple(line[name] for name in ("checkpoint", "task", *_OPTION_COLUMNS.values())))
        if spec is None or not _makes_sense(line):
            unreadable += 1
        else:
            rows.append(_row(line, spec))
    return FileRows(tuple(rows), len(lines), unreadable)


def newest(files: Iterable[FileRows]) -> tuple[list[SharedRow], bool]:
    """The rows of all files, newest first, each id once, and whether some are left out because there are too many."""
    rows = list({row.id: row for file in files for row in file.rows}.values())
    rows.sort(key=lambda row: (row.started_at, row.id), reverse=True)
    return rows[:MAX_ROWS], len(rows) > MAX_ROWS


def _lines(path: Path) -> list[dict[str, Any]]:
    """The known columns of every row, with the types of an export; None for what has no value.

    Raises ValueError, or an error of pandas or pyarrow, for a file of another kind and for one that is too large.
    """
    import pandas as pd  # here, because only a page with a dataset needs them
    from pyarrow import parquet

    about = parquet.read_metadata(path)
    size = sum(about.row_group(group).total_byte_size for group in range(about.num_row_groups))
    if about.num_rows > MAX_ROWS_OF_A_FILE or size > MAX_DECODED:
        raise ValueError("too large")
    columns = list(dict.fromkeys((*_NEEDED, *_OPTION_COLUMNS.values())))
    present = [name for name in columns if name in about.schema.names]
    texts = [name for name in present if EXPORTED[name].kind == "string"]
    # a dictionary holds each text once, however often it stands in the file
    frame = pd.read_parquet(path, columns=present, dtype_backend="numpy_nullable", read_dictionary=texts)
    if missing := set(_NEEDED) - set(frame):
        raise ValueError(f"no {', '.join(missing)}")
    for name in present:
        if EXPORTED[name].kind == "Int64" and frame[name].dtype.kind == "f":  # `astype` would cut it
            raise ValueError(f"{name} is no whole number")
        if name in texts and any(len(text) > MAX_PROMPT for text in frame[name].dropna().unique()):
            raise ValueError(f"a text in {name} is too long")
    typed = frame.astype({name: EXPORTED[name].kind for name in present}).reindex(columns=columns).astype(object)
    return typed.where(typed.notna(), None).to_dict("records")


def _row(line: dict[str, Any], spec: RunSpec) -> SharedRow:
    values = {name: line[name] for name in _COPIED}
    if line["status"] != "ok":
        values |= dict.fromkeys((*_MOST, "verdict", "speedup_basis"))
    return SharedRow(**values, spec=spec)


def _makes_sense(line: dict[str, Any]) -> bool:
    """Whether every value is possible, and the figures of a run that ended well agree with each other."""
    if not all(re.fullmatch(pattern, line[name] or "", re.ASCII) for name, pattern in _PATTERNS.items()):
        return False
    try:
        started = datetime.fromisoformat(line["started_at"])
    except ValueError:
        return False
    if started > datetime.now(UTC) + timedelta(days=1) or not 1 <= (line["threads"] or 0) <= 4096:
        return False
    if line["status"] != "ok":
        return line["status"] in SHOWN
    if not all(1 / most <= (line[name] or 0.0) <= most for name, most in _MOST.items()):
        return False
    speedup = stats.Interval(line["speedup"], line["speedup_low"], line["speedup_high"])
    quotient = line["eager_ms"] / line["compiled_ms"]
    return (
        speedup.low <= speedup.ratio <= speedup.high
        and math.isclose(quotient, speedup.ratio, rel_tol=QUOTIENT_TOLERANCE)
        # without noise, with noise that hides any difference, and where threads lacked cores
        and line["verdict"] in (stats.verdict(speedup, None), stats.verdict(speedup, _ALL_NOISE), "unsure")
        and line["speedup_basis"] in get_args(Basis)
    )


def _spec(values: Sequence[Any]) -> RunSpec | None:
    """The spec of these cells; what is missing has its default. None where no run of the page could have it."""
    checkpoint, task, *options = values
    asked = {
        name: OPTIONS[name].parsed(value)
        for name, value in zip(_OPTION_COLUMNS, options, strict=True)
        if value is not None
    }
    texts = [value for value in values if isinstance(value, str)]
    if task == OWN_MODEL or any(fmt.printable(text) != text for text in texts):
        return None
    try:
        return RunSpec(checkpoint, task, **asked)
    except (BadInput, TypeError):
        return None
