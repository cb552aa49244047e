"""Tables that this project measured itself: the guide's columns, the interval, and what the figures belong to.

They are the files `assets/measured/*.csv`. A file that cannot be read as such a table is left out whole, and a sentence
says why.
"""

from __future__ import annotations

import csv
import datetime
import io
import re
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.core import catalog
from demo.core.errors import BadInput
from demo.core.files import replacing
from demo.core.numbers import number, whole_number
from demo.core.result import RunResult
from demo.core.spec import DTYPES, MODES, OPTIONS, TASKS, WEIGHTS, RunSpec
from demo.store import csv_text
from demo.store.columns import TABLE_COLUMNS
from demo.store.tables import OOM, Measured, PublishedRow

FOLDER = catalog.ASSETS / "measured"
SUBSET = "measured"
COLUMNS = tuple(name for name in TABLE_COLUMNS if name != "saved_percent")
_LATER = ("speedup_basis", "repeats", "threads")
"""Columns that older tables lack."""
_LONGEST_CELL = 200


@dataclass(frozen=True)
class Tables:
    """Rows, and one sentence for each file that could not be read."""

    rows: tuple[PublishedRow, ...]
    problems: tuple[str, ...]


def load(folder: Path | None = None) -> Tables:
    """Every table of `folder` (`FOLDER` if None), in the order of their names. Raises for no content of a file."""
    folder = FOLDER if folder is None else folder
    rows: list[PublishedRow] = []
    problems: list[str] = []
    for path in sorted(folder.glob("*.csv")):
        try:
            rows += read(path)
        except BadInput as error:
            problems.append(str(error))
    return Tables(tuple(rows), tuple(problems))


def read(path: Path) -> list[PublishedRow]:
    """One table. Raises BadInput with a sentence that names the file, the line and what is wrong with it."""
    shown = f"{path.parent.name}/{path.name}"
    try:
        text = path.read_text(encoding="utf-8-sig")
        lines = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        missing = [column for column in COLUMNS if column not in (*_LATER, *(lines.fieldnames or ()))]
        if missing:
            raise _Unreadable(f"line 1: the columns lack {', '.join(missing)}")
        rows = []
        for line in lines:
            try:
                rows.append(_row(_original(line)))
            except _Unreadable as error:
                raise _Unreadable(f"line {lines.line_num}: {error}") from error
    except (OSError, UnicodeDecodeError, csv.Error, _Unreadable) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise BadInput(
            f"The measured table {shown} is left out; {reason}. Write it again with demo.store.measured.write_measured."
        ) from error
    return rows


def file_of(device_name: str) -> str:
    """The name of a device's table: 'h200.csv' for 'NVIDIA H200'."""
    return (re.sub(r"[^a-z0-9]+", "-", device_label(device_name).lower()).strip("-") or "device") + ".csv"


def add_measured(results: Iterable[RunResult], path: Path, commit: str | None = None) -> list[RunResult]:
    """As `write_measured`, but keeps those rows of the existing table that `results` do not replace.

    A row replaces another one of the same checkpoint, batch size and subset. If `results` give no row at all, nothing
    is written. Raises BadInput, and changes nothing, if the existing table cannot be read.
    """
    results = list(results)
    if all(_measured_row(result, "") is None for result in results):
        return results
    earlier: list[dict[str, Any]] = []
    if path.exists():
        read(path)
        with path.open(encoding="utf-8-sig", newline="") as file:
            earlier = list(map(_original, csv.DictReader(file)))
    return write_measured(results, path, commit, earlier)


def write_measured(
    results: Iterable[RunResult], path: Path, commit: str | None = None, earlier: Iterable[dict[str, Any]] = ()
) -> list[RunResult]:
    """Writes a table of `results` to `path` and returns the results that have no row in it.

    A row needs a machine and either a speed-up or the word OOM. Runs that failed otherwise, were cancelled or
    recompiled while they were timed have none. `commit` is this project's; git is asked if it is None. The file is
    replaced as a whole or not at all. Raises OSError where it cannot be written.
    """
    commit = current_commit() if commit is None else commit
    lines, left_out = [], []
    for result in results:
        row = _measured_row(result, commit)
        if row is None:
            left_out.append(result)
        else:
            lines.append({name: TABLE_COLUMNS[name](row) for name in COLUMNS})
    places = {_place(line) for line in lines}
    lines = [*(line for line in earlier if _place(line) not in places), *lines]
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as draft:
        draft.write(csv_text.written(COLUMNS, lines).encode())
    return left_out


def _original(line: dict[str, Any]) -> dict[str, Any]:
    """The cells as they were before they were made safe for a spreadsheet; '' for columns that the table lacks."""
    return {**dict.fromkeys(_LATER, ""), **{name: csv_text.original(cell) for name, cell in line.items()}}


def _place(line: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(line[column]) for column in ("checkpoint", "batch_size", "subset"))


def subset_of(spec: RunSpec) -> str:
    """'measured', and every setting in which the run departs from the guide's: 'measured reduce-overhead float16'.

    Random weights are not among them: latency does not depend on the values.
    """
    named = []
    for name, value in spec.departures().items():
        option = OPTIONS[name]
        if option.timing or name in _UNNAMED:
            continue
        if option.kind == "switch":
            named.append(name.replace("_", "-"))
        else:
            named.append(value if name in ("mode", "dtype") else f"{name}-{value}")
    return " ".join([SUBSET, *named])


def settings_of(subset: str) -> dict[str, Any]:
    """The settings that `subset_of` named in this subset, by option, values as text; mode and dtype are left out."""
    settings, prompt, rest = subset.partition(" prompt-")
    named: dict[str, Any] = {}
    if prompt:  # it may hold anything, and is followed by the tokens alone
        named["prompt"], _, tokens = rest.rpartition(" tokens-") if " tokens-" in rest else (rest, "", "")
        named |= {"tokens": tokens} if tokens else {}
    for word in settings.split(" ")[1:]:
        for name, option in OPTIONS.items():
            if option.kind == "switch" and word == name.replace("_", "-"):
                named[name] = True
            elif option.kind != "switch" and word.startswith(f"{name}-"):
                named[name] = word.removeprefix(f"{name}-")
    return named


def further_settings(row: PublishedRow) -> list[str]:
    """What the name of a table says beside compile mode and number format, which have columns: ['freezing']."""
    dtype = row.measured.dtype if row.measured is not None else ""
    return [word for word in row.subset.split(" ")[1:] if word not in (row.mode, dtype)]


def without_further(row: PublishedRow, rows: Iterable[PublishedRow]) -> PublishedRow | None:
    """The newest row like this one, measured on the same device without the `further_settings`; None without any."""
    if row.measured is None or not further_settings(row):
        return None
    alike = [
        other
        for other in rows
        if other.measured is not None
        and not further_settings(other)
        and (other.checkpoint, other.batch_size, other.mode, other.measured.dtype, other.measured.device)
        == (row.checkpoint, row.batch_size, row.mode, row.measured.dtype, row.measured.device)
    ]
    return max(alike, key=lambda other: other.measured.date if other.measured else "", default=None)


_UNNAMED = ("batch_size", "device", "weights", "text", "fullgraph", "graph_break")
"""Options with a column of their own, and those that the name of a subset has never held."""


def device_label(name: str) -> str:
    """'T4' for 'Tesla T4', 'H200' for 'NVIDIA H200'; any other name as it is."""
    return name.removeprefix("NVIDIA ").removeprefix("Tesla ").strip() or name


def current_commit() -> str:
    """The commit that this copy of the project is at, '-dirty' behind it where files differ; '' without git."""
    root = Path(__file__).resolve().parents[2]
    try:
        asked = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""


def _measured_row(result: RunResult, commit: str) -> PublishedRow | None:
    """None for a run that has no row: see `write_measured`."""
    spec, machine, speedup = result.spec, result.environment, result.speedup
    if machine is None:
        return None
    compiled = None
    if result.status == "out_of_memory":
        speedup = None
    elif result.status != "ok" or result.void or speedup is None:
        return None
    else:
        compiled = result.latencies["compiled"]
    known = catalog.find(spec.checkpoint)
    return PublishedRow(
        subset=subset_of(spec),
        gpu=device_label(machine.device_name),
        torch=machine.torch,
        mode=spec.mode,
        batch_size=spec.batch_size,
        task=spec.task,
        model=known.family if known else spec.checkpoint.rsplit("/", 1)[-1],
        checkpoint=spec.checkpoint,
        eager_seconds=result.latencies.get("eager"),
        compiled_seconds=compiled,
        measured=Measured(
            speedup=round(speedup.ratio, 4) if speedup else None,
            low=round(speedup.low, 4) if speedup else None,
            high=round(speedup.high, 4) if speedup else None,
            dtype=spec.dtype,
            weights=spec.weights,
            transformers=machine.transformers,
            triton=machine.triton or "",
            device=machine.device_name,
            driver=machine.driver or "",
            commit=commit,
            date=result.started_at[:10],
            basis=speedup.basis if speedup else "",
            repeats=len(result.earlier) + 1,
            threads=machine.threads if spec.device == "cpu" else None,
        ),
    )


class _Unreadable(ValueError):
    """Carries what is wrong with a line."""


def _row(line: dict[str, Any]) -> PublishedRow:
    if None in line or None in line.values():
        raise _Unreadable("it has more or fewer cells than the first line")
    for column in COLUMNS:
        if len(line[column]) > _LONGEST_CELL or not line[column].isprintable():
            raise _Unreadable(f"{column} is longer than {_LONGEST_CELL} characters, or holds unprintable ones")
    eager, compiled = _cell(line, "eager_ms", _seconds), _cell(line, "compiled_ms", _seconds)
    timed = eager is not None and compiled is not None
    interval = [_cell(line, column, _ratio) for column in ("speedup_low", "speedup", "speedup_high")]
    if timed and None in interval:
        raise _Unreadable("it has times, but not the speed-up with both ends of its interval")
    if not timed and interval != [None, None, None]:
        raise _Unreadable("it has a speed-up although a variant ran out of memory")
    if timed and interval != sorted(interval, key=lambda value: value or 0.0):
        raise _Unreadable("the speed-up lies outside its interval")
    low, speedup, high = interval
    if line["subset"].split(" ")[0] != SUBSET:
        raise _Unreadable(f"subset is {line['subset']!r}, and a measured table's begins with {SUBSET!r}")
    for column, allowed in (("mode", MODES), ("task", TASKS), ("dtype", DTYPES), ("weights", WEIGHTS)):
        if line[column] not in allowed:
            raise _Unreadable(f"{column} is {line[column]!r}, which is none of {', '.join(allowed)}")
    usual = (("mode", "default"), ("dtype", "float32"))
    departures = [line[column] for column, value in usual if line[column] != value]
    if [name for name in line["subset"].split(" ") if name in (*MODES, *DTYPES)] != departures:
        raise _Unreadable(f"subset is {line['subset']!r}, but mode is {line['mode']} and dtype {line['dtype']}")
    for column in ("gpu", "torch", "model", "checkpoint", "transformers", "device"):
        if not line[column].strip():
            raise _Unreadable(f"{column} is empty")
    return PublishedRow(
        subset=line["subset"],
        gpu=line["gpu"],
        torch=line["torch"],
        mode=line["mode"],
        batch_size=_cell(line, "batch_size", _batch_size),
        task=line["task"],
        model=line["model"],
        checkpoint=line["checkpoint"],
        eager_seconds=eager,
        compiled_seconds=compiled,
        measured=Measured(
            speedup=speedup,
            low=low,
            high=high,
            dtype=line["dtype"],
            weights=line["weights"],
            transformers=line["transformers"],
            triton=line["triton"],
            device=line["device"],
            driver=line["driver"],
            commit=line["commit"],
            date=_cell(line, "date", _day),
            basis=line["speedup_basis"],
            repeats=_cell(line, "repeats", _count),
            threads=_cell(line, "threads", _count),
        ),
    )


def _cell(line: dict[str, str], column: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(line[column])
    except ValueError:
        raise _Unreadable(f"{column} is {line[column]!r}, which cannot be read") from None


def _seconds(cell: str) -> float | None:
    return None if cell == OOM else _positive(cell) / 1e3


def _ratio(cell: str) -> float | None:
    return None if cell == "" else _positive(cell)


def _positive(cell: str) -> float:
    value = number(cell)
    if value is None or value <= 0:
        raise ValueError(cell)
    return value


def _batch_size(cell: str) -> int:
    size = whole_number(cell)
    if size is None or size < 1:
        raise ValueError(cell)
    return size


def _count(cell: str) -> int | None:
    return None if cell == "" else _batch_size(cell)


def _day(cell: str) -> str:
    return datetime.date.fromisoformat(cell).isoformat()
