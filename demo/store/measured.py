"""Tables that this project measured itself: the guide's columns, the interval, and what the figures belong to.

They lie in `assets/measured/*.csv`. A file that does not read as such a table is left out whole, and said.
"""

from __future__ import annotations

import csv
import datetime
import io
import math
import os
import re
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.core import catalog
from demo.core.format import milliseconds
from demo.core.result import DTYPES, MODES, TASKS, WEIGHTS, BadInput, Measured, PublishedRow, RunResult, RunSpec

FOLDER = catalog.ASSETS / "measured"
SUBSET = "measured"
OOM = "OOM"
"""How a table writes that a variant ran out of memory, as the guide does."""
GUIDE_COLUMNS = (
    "subset",
    "gpu",
    "torch",
    "mode",
    "batch_size",
    "task",
    "model",
    "checkpoint",
    "eager_ms",
    "compiled_ms",
)
COLUMNS = (
    *GUIDE_COLUMNS,
    "speedup",
    "speedup_low",
    "speedup_high",
    "dtype",
    "weights",
    "transformers",
    "triton",
    "device",
    "driver",
    "commit",
    "date",
)
_LONGEST_CELL = 200


@dataclass(frozen=True)
class Tables:
    """Rows, and one sentence for each file that could not be read."""

    rows: tuple[PublishedRow, ...]
    problems: tuple[str, ...]


def load(folder: Path | None = None) -> Tables:
    """Every table of `folder` (`FOLDER` if None), in the order of the names; never raises for what a file holds."""
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
        missing = [column for column in COLUMNS if column not in (lines.fieldnames or ())]
        if missing:
            raise _Unreadable(f"line 1: the columns lack {', '.join(missing)}")
        rows = []
        for line in lines:
            try:
                rows.append(_row(line))
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
    """As `write_measured`, but rows of the table that is there already stay where `results` have none for their place.

    A place is checkpoint, batch size and subset. Where `results` have no row at all, nothing is written. Raises
    BadInput, and changes nothing, where the table that is there cannot be read.
    """
    results = list(results)
    if all(_line(result, "") is None for result in results):
        return results
    earlier: list[dict[str, Any]] = []
    if path.exists():
        read(path)
        with path.open(encoding="utf-8-sig", newline="") as file:
            earlier = list(csv.DictReader(file))
    return write_measured(results, path, commit, earlier)


def write_measured(
    results: Iterable[RunResult], path: Path, commit: str | None = None, earlier: Iterable[dict[str, Any]] = ()
) -> list[RunResult]:
    """Writes a table of `results` to `path` and gives those back that it has no row for.

    A row needs a machine and either a speed-up or the word OOM: runs that failed otherwise, were cancelled or
    recompiled while timed have none. `commit` is this project's, asked of git where none is given. The file is replaced
    at once or not at all. Raises OSError where it cannot be written.
    """
    commit = current_commit() if commit is None else commit
    lines, left_out = [], []
    for result in results:
        line = _line(result, commit)
        if line is None:
            left_out.append(result)
        else:
            lines.append(line)
    places = {_place(line) for line in lines}
    lines = [*(line for line in earlier if _place(line) not in places), *lines]
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return left_out


def _place(line: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(line[column]) for column in ("checkpoint", "batch_size", "subset"))


def subset_of(spec: RunSpec) -> str:
    """'measured', and every setting in which the run departs from the guide's: 'measured reduce-overhead float16'.

    Random weights are not among them: latency does not depend on the values.
    """
    departures = (
        (spec.mode != "default", spec.mode),
        (spec.dtype != "float32", spec.dtype),
        (spec.channels_last, "channels-last"),
        (spec.attention != "auto", f"attention-{spec.attention}"),
        (spec.threads is not None, f"threads-{spec.threads}"),
    )
    return " ".join([SUBSET, *(name for departs, name in departures if departs)])


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


def _line(result: RunResult, commit: str) -> dict[str, Any] | None:
    spec, machine, speedup = result.spec, result.environment, result.speedup
    if machine is None:
        return None
    if result.status == "out_of_memory":
        eager = result.eager.median_seconds if result.eager and result.eager.wall_seconds else None
        times: dict[str, Any] = {"eager_ms": OOM if eager is None else _ms(eager), "compiled_ms": OOM}
        times |= {"speedup": "", "speedup_low": "", "speedup_high": ""}
    else:
        if result.status != "ok" or result.void or speedup is None or result.eager is None or result.compiled is None:
            return None
        times = {
            "eager_ms": _ms(result.eager.median_seconds),
            "compiled_ms": _ms(result.compiled.median_seconds),
            "speedup": round(speedup.ratio, 4),
            "speedup_low": round(speedup.low, 4),
            "speedup_high": round(speedup.high, 4),
        }
    known = catalog.find(spec.checkpoint)
    return {
        "subset": subset_of(spec),
        "gpu": device_label(machine.device_name),
        "torch": machine.torch,
        "mode": spec.mode,
        "batch_size": spec.batch_size,
        "task": spec.task,
        "model": known.family if known else spec.checkpoint.rsplit("/", 1)[-1],
        "checkpoint": spec.checkpoint,
        **times,
        "dtype": spec.dtype,
        "weights": spec.weights,
        "transformers": machine.transformers,
        "triton": machine.triton or "",
        "device": machine.device_name,
        "driver": machine.driver or "",
        "commit": commit,
        "date": result.started_at[:10],
    }


def _ms(seconds: float) -> float:
    return round(milliseconds(seconds), 4)


class _Unreadable(ValueError):
    """What is wrong with a line, for the sentence about its file."""


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
    value = float(cell)
    if not math.isfinite(value) or value <= 0:
        raise ValueError(cell)
    return value


def _batch_size(cell: str) -> int:
    if not cell.isascii() or not cell.isdigit() or int(cell) == 0:
        raise ValueError(cell)
    return int(cell)


def _day(cell: str) -> str:
    return datetime.date.fromisoformat(cell).isoformat()
