"""Rows of results that somebody shared: flat Parquet files of `columns.EXPORTED`, read without trusting them.

What is covered: a file that is no Parquet, is too large, or lacks a column or has it as another type (the file is left
out, its rows counted); a row with a value that is missing, impossible, too long or could mislead a reader (the row is
left out and counted); more rows than fit (the last ones of a file and the newest of all are kept).
What is not covered: false figures that look true; files made to exploit the Parquet reader itself; an option that only
a newer version of this program knows.
"""

from __future__ import annotations

import math
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from demo.core import format as fmt
from demo.core import stats
from demo.core.errors import BadInput
from demo.core.result import STATUSES
from demo.core.spec import MAX_PROMPT, OPTIONS, OWN_MODEL, RunSpec
from demo.core.speedup import Basis
from demo.core.stats import Verdict
from demo.store.columns import EXPORTED

if TYPE_CHECKING:
    import pyarrow

SHOWN = ("ok", "out_of_memory", "compile_failed")
"""Statuses that say something about a model on a device. Rows of the others are read and not kept."""
MAX_ROWS = 20_000
MAX_ROWS_OF_A_FILE = 5_000
"""A file has the runs of one program and day: more of them are no measurements."""
MAX_COUNTED = 5_000_000
"""Rows that a file may say to have; a group of them has to be decoded as a whole."""
MAX_DECODED = 512_000_000
"""Bytes of a file's columns without compression; no further file is read once those that were have as many."""
MAX_MILLISECONDS, MAX_RATIO = 3_600_000.0, 1_000.0
QUOTIENT_TOLERANCE = 0.05
"""Eager over compiled is the speed-up, also of repeats. Another program may have rounded the figures."""
_ALL_NOISE = stats.Interval(1.0, 0.0, math.inf)
_BATCH = 1_000
_OPTION_COLUMNS = {name: "threads_asked" if name == "threads" else name for name in OPTIONS}
_NEEDED = (
    "id", "started_at", "status", "checkpoint", "task", "torch", "transformers", "device_name", "threads", "eager_ms",
    "compiled_ms", "speedup", "speedup_low", "speedup_high", "verdict", "speedup_basis"
)  # fmt: skip
_READ = (*_NEEDED, *(name for name in _OPTION_COLUMNS.values() if name not in _NEEDED))
_PATTERNS = {
    "id": r"[\w-]{1,60}",
    "started_at": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "checkpoint": r"(?=.{1,96}$)\w[\w.-]*(/\w[\w.-]*)?",
    "torch": r"\d[\w.+-]{0,39}",
    "transformers": r"\d[\w.+-]{0,39}",
    "device_name": r"[^<>`|\\]{1,120}",
}
"""What a text has to match as a whole."""


class Unreadable(ValueError):
    """A file or a row that cannot be shown."""


@dataclass(frozen=True)
class SharedRow:
    id: str
    started_at: str
    status: str
    """One of `SHOWN`."""
    spec: RunSpec
    torch: str
    transformers: str
    device_name: str
    threads: int
    eager_ms: float | None
    compiled_ms: float | None
    speedup: float | None
    low: float | None
    high: float | None
    verdict: Verdict | None
    basis: Basis | None

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
        options = tuple((name, getattr(self.spec, name)) for name in _COMPARED)
        return Setting(self.torch, self.transformers, options)


@dataclass(frozen=True)
class Setting:
    """What must be the same for two rows to stand side by side: versions, what is compiled how, and the protocol.

    As in `demo.store.reruns`, but for the model, what it is asked for, and the device: a row has those in its cell.
    """

    torch: str
    transformers: str
    options: tuple[tuple[str, Any], ...]
    """By name."""


_OF_THE_CELL = ("device", "threads", "text", "prompt", "tokens")
_COMPARED = tuple(
    name for name, option in OPTIONS.items() if name == "protocol" or not (option.timing or name in _OF_THE_CELL)
)


@dataclass(frozen=True)
class FileRows:
    rows: tuple[SharedRow, ...] = ()
    looked_at: int = 0
    unreadable: int = 0
    """Rows that were left out because they make no sense."""
    unread: int = 0
    """Rows before the last `MAX_ROWS_OF_A_FILE`, which were not looked at."""
    decoded: int = 0
    """Bytes of the columns without compression."""
    readable: bool = True
    """Whether the file is a table of this kind."""


def read(path: Path) -> FileRows:
    """The rows of one file. It never raises: whatever is wrong with the file is told in the answer."""
    from pyarrow import parquet  # here, because only a page with a dataset needs it

    bounds = {"thrift_string_size_limit": 1_000_000, "thrift_container_size_limit": 100_000}
    try:
        with parquet.ParquetFile(path, **bounds) as file:
            metadata = file.metadata
            texts = [name for name in _columns(file.schema_arrow) if EXPORTED[name].kind == "string"]
        # texts as a dictionary: one of a million equal texts is held once
        with parquet.ParquetFile(path, metadata=metadata, read_dictionary=texts, **bounds) as file:
            return _read(file)
    except Exception:  # pyarrow raises several kinds; none of them may cost more than this file
        return FileRows(readable=False)


def newest(files: Iterable[FileRows]) -> tuple[list[SharedRow], bool]:
    """The rows of all files, newest first, each id once, and whether some are left out because there are too many."""
    rows = list({row.id: row for file in files for row in file.rows}.values())
    rows.sort(key=lambda row: (row.started_at, row.id), reverse=True)
    return rows[:MAX_ROWS], len(rows) > MAX_ROWS


def _read(file: Any) -> FileRows:
    total, groups = file.metadata.num_rows, file.metadata.num_row_groups
    decoded = sum(file.metadata.row_group(group).total_byte_size for group in range(groups))
    if not 0 <= total <= MAX_COUNTED or decoded > MAX_DECODED:
        raise Unreadable("too large")
    names = _columns(file.schema_arrow)
    kept: deque[dict[str, list[Any]]] = deque()
    count = 0
    for group in reversed(range(groups)):
        batches: deque[pyarrow.RecordBatch] = deque(maxlen=MAX_ROWS_OF_A_FILE // _BATCH + 1)
        batches.extend(file.iter_batches(_BATCH, row_groups=[group], columns=names, use_threads=False))
        for batch in reversed(batches):
            if count < MAX_ROWS_OF_A_FILE:
                kept.appendleft({name: _values(batch.column(name)) for name in names})
                count += batch.num_rows
        if count >= MAX_ROWS_OF_A_FILE:
            break
    lines = list(_lines(kept))[-MAX_ROWS_OF_A_FILE:]
    rows, unreadable = [], 0
    reader = _RowReader()
    for line in lines:
        try:
            row = reader.row(line)
        except Unreadable:
            unreadable += 1
        else:
            rows += [row] if row is not None else []
    return FileRows(tuple(rows), len(lines), unreadable, total - len(lines), decoded)


def _lines(batches: Iterable[dict[str, list[Any]]]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        for values in zip(*batch.values(), strict=True):
            yield dict(zip(batch, values, strict=True))


def _columns(schema: pyarrow.Schema) -> list[str]:
    """The known columns that the file has. Raises Unreadable where one is missing, there twice, or of another type."""
    names = [name for name in _READ if schema.get_all_field_indices(name)]
    if missing := set(_NEEDED) - set(names):
        raise Unreadable(f"no {', '.join(missing)}")
    for name in names:
        if len(schema.get_all_field_indices(name)) > 1 or not _fits(schema.field(name).type, EXPORTED[name].kind):
            raise Unreadable(f"another {name}")
    return names


def _fits(kind: pyarrow.DataType, wanted: str) -> bool:
    from pyarrow import types

    if types.is_null(kind):  # of a column in which nothing was measured
        return True
    if wanted == "string":
        kind = kind.value_type if types.is_dictionary(kind) else kind
        return bool(types.is_string(kind) or types.is_large_string(kind))
    if wanted == "boolean":
        return bool(types.is_boolean(kind))
    return bool(types.is_integer(kind) or (wanted == "Float64" and types.is_floating(kind)))


_TOO_LONG = object()
"""Stands for a text that no cell of a row may hold."""


def _values(array: pyarrow.Array) -> list[Any]:
    """The values of a column. Each text is decoded once, however often it stands there."""
    from pyarrow import binary, types

    if not (types.is_dictionary(array.type) or types.is_string(array.type) or types.is_large_string(array.type)):
        return list(array.to_pylist())
    coded = array if types.is_dictionary(array.type) else array.dictionary_encode()
    texts = [_text(value) for value in coded.dictionary.cast(binary())]
    return [None if place is None else texts[place] for place in coded.indices.to_pylist()]


def _text(value: pyarrow.BinaryScalar) -> Any:
    held = value.as_buffer()
    if held is None:
        return None
    if held.size > 4 * MAX_PROMPT:
        return _TOO_LONG
    try:
        return held.to_pybytes().decode()
    except UnicodeDecodeError:
        return _TOO_LONG


class _RowReader:
    """Makes rows of one file. Most of them repeat a spec and its texts, which are then checked once."""

    def __init__(self) -> None:
        self._latest = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._text = cache(_checked_text)
        self._spec = cache(_spec)

    def row(self, line: dict[str, Any]) -> SharedRow | None:
        """None for a run that tells nothing. Raises Unreadable."""
        status = line["status"]
        if status not in STATUSES:
            raise Unreadable("status")
        if status not in SHOWN or (status != "ok" and line["torch"] is None):
            return None
        text = {name: self._text(name, line[name]) for name in _PATTERNS}
        if text["started_at"] > self._latest:
            raise Unreadable("time")
        spec = self._spec(tuple(line.get(column) for column in ("checkpoint", "task", *_OPTION_COLUMNS.values())))
        if spec is None:
            raise Unreadable("spec")
        threads = line["threads"]
        if not isinstance(threads, int) or not 1 <= threads <= 4096:
            raise Unreadable("threads")
        if status == "ok":
            times = tuple(_within(line[name], MAX_MILLISECONDS) for name in ("eager_ms", "compiled_ms"))
            low, ratio, high = (_within(line[f"speedup{end}"], MAX_RATIO) for end in ("_low", "", "_high"))
            if not low <= ratio <= high:
                raise Unreadable("interval")
            if not math.isclose(times[0] / times[1], ratio, rel_tol=QUOTIENT_TOLERANCE):
                raise Unreadable("speed-up")
            verdict, basis = line["verdict"], line["speedup_basis"]
            if verdict not in _verdicts(stats.Interval(ratio, low, high)) or basis not in get_args(Basis):
                raise Unreadable("verdict")
            figures: tuple[Any, ...] = (*times, ratio, low, high, verdict, basis)
        else:
            figures = (None,) * 7
        return SharedRow(
            text["id"], text["started_at"], status, spec, text["torch"], text["transformers"], text["device_name"],
            threads, *figures
        )  # fmt: skip


def _verdicts(speedup: stats.Interval) -> set[Verdict]:
    """What may be said of it: without noise, with noise that hides any difference, and where threads lacked cores."""
    return {stats.verdict(speedup, None), stats.verdict(speedup, _ALL_NOISE), "unsure"}


def _checked_text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(_PATTERNS[name], value, re.ASCII):
        raise Unreadable(name)
    if fmt.printable(value, kept="") != value:
        raise Unreadable(name)
    if name == "started_at":
        try:
            time.strptime(value, "%Y-%m-%dT%H:%M:%SZ")
        except ValueError as error:
            raise Unreadable(name) from error
    return value


def _within(value: Any, most: float) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value) or not 1 / most <= value <= most:
        raise Unreadable("figure")
    return float(value)


def _spec(values: Sequence[Any]) -> RunSpec | None:
    """The spec of these cells; what is missing has its default. None where no run of the page could have it."""
    checkpoint, task, *options = values
    asked = {
        name: OPTIONS[name].parsed(value)
        for name, value in zip(_OPTION_COLUMNS, options, strict=True)
        if value is not None
    }
    texts = [value for value in values if isinstance(value, str)]
    if task == OWN_MODEL or _TOO_LONG in values or any(fmt.printable(text) != text for text in texts):
        return None
    try:
        return RunSpec(checkpoint, task, **asked)
    except (BadInput, TypeError):
        return None
