"""Tables that this project measured itself: the guide's columns, the interval, and what the figures belong to.

They are the files `assets/measured/*.csv`. A file that cannot be read as such a table is left out whole.
"""

import csv
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from demo.core import catalog
from demo.core.files import replacing
from demo.core.result import RunResult
from demo.core.spec import OPTIONS, BadInput, RunSpec
from demo.store import csv_text
from demo.store.tables import COLUMNS, PublishedRow, cells, read_row

FOLDER = catalog.ASSETS / "measured"
SUBSET = "measured"
_UNNAMED = ("batch_size", "device", "weights", "text", "fullgraph", "graph_break")
"""Options with a column of their own, and those that the name of a subset has never held."""


def load(folder: Path | None = None) -> tuple[list[PublishedRow], list[str]]:
    """The rows of every table of `folder` (`FOLDER` if None), and a sentence for each file that cannot be read."""
    rows: list[PublishedRow] = []
    problems: list[str] = []
    for path in sorted((folder or FOLDER).glob("*.csv")):
        try:
            rows += read(path)
        except BadInput as error:
            problems.append(str(error))
    return rows, problems


def read(path: Path) -> list[PublishedRow]:
    """One table. Raises BadInput with a sentence that names the file and what is wrong with it."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.DictReader(file, strict=True)
            if missing := {*COLUMNS} - {*(lines.fieldnames or ())}:  # also where it has no rows
                raise ValueError(f"the columns lack {', '.join(sorted(missing))}")
            return [
                read_row({name: csv_text.original(line[name]) for name in COLUMNS}, measured=True) for line in lines
            ]
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise BadInput(
            f"The measured table {path.parent.name}/{path.name} is left out: {type(error).__name__}: {error}. "
            "Write it again with demo.store.measured.add_measured."
        ) from error


def file_of(device_name: str) -> str:
    """The name of a device's table: 'h200.csv' for 'NVIDIA H200'."""
    return (re.sub(r"[^a-z0-9]+", "-", device_label(device_name).lower()).strip("-") or "device") + ".csv"


def add_measured(results: Iterable[RunResult], path: Path, commit: str | None = None) -> list[RunResult]:
    """Writes the rows of `results` into a table that may exist, and returns the results that have no row.

    A row needs a machine and either a speed-up or the word OOM. Runs that failed otherwise, were cancelled or
    recompiled while they were timed have none. A row replaces an earlier one of the same checkpoint, batch size and
    subset. `commit` is this project's; git is asked if it is None. The file is replaced as a whole or not at all; if
    `results` give no row it is left as it is. Raises BadInput, and changes nothing, if the existing table cannot be
    read, and OSError where it cannot be written.
    """
    commit = current_commit() if commit is None else commit
    made = [(result, _measured_row(result, commit)) for result in results]
    if rows := [row for _, row in made if row is not None]:
        replaced = set(map(_place, rows))
        earlier = read(path) if path.exists() else []
        rows = [*(row for row in earlier if _place(row) not in replaced), *rows]
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as draft:
            lines = ({name: found[name] for name in COLUMNS} for found in map(cells, rows))
            draft.write(csv_text.written(COLUMNS, lines).encode())
    return [result for result, row in made if row is None]


def _place(row: PublishedRow) -> tuple[str, int, str]:
    return row.checkpoint, row.batch_size, row.subset


def subset_of(spec: RunSpec) -> str:
    """'measured', and every setting in which the run departs from the guide's: 'measured reduce-overhead float16'.

    Random weights are not among them: latency does not depend on the values.
    """
    named = []
    for name, value in spec.departures().items():
        if OPTIONS[name].kind == "switch":
            words = name.replace("_", "-")
        else:
            words = value if name in ("mode", "dtype") else f"{name}-{value}"
        if not OPTIONS[name].timing and name not in _UNNAMED:
            named.append(words)
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
    return [word for word in row.subset.split(" ")[1:] if word not in (row.mode, row.dtype)]


def gain(row: PublishedRow, rows: Iterable[PublishedRow]) -> float | None:
    """How many times as fast compiled is with the row's `further_settings` as without: 1.4.

    The quotient of two speed-ups and not of two compiled times: each speed-up has its own eager time, so a machine that
    had another speed on another day changes nothing. The newest row of the same device without those settings counts.
    None without such a row, and where either ran out of memory.
    """
    if not row.measured or not further_settings(row):
        return None

    def place(one: PublishedRow) -> tuple[object, ...]:
        return one.measured, one.checkpoint, one.batch_size, one.mode, one.dtype, one.device

    alike = [other for other in rows if place(other) == place(row) and not further_settings(other)]
    plain = max(alike, key=lambda other: other.date, default=None)
    if plain is None or not plain.speedup or not row.speedup:
        return None
    return row.speedup / plain.speedup


def device_label(name: str) -> str:
    """'T4' for 'Tesla T4', 'H200' for 'NVIDIA H200'; any other name as it is."""
    return name.removeprefix("NVIDIA ").removeprefix("Tesla ").strip() or name


def _measured_row(result: RunResult, commit: str) -> PublishedRow | None:
    """The row of a run; None for one that `add_measured` leaves out."""
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
        measured=True,
        estimate=round(speedup.ratio, 4) if speedup else None,
        speedup_low=round(speedup.low, 4) if speedup else None,
        speedup_high=round(speedup.high, 4) if speedup else None,
        dtype=spec.dtype,
        weights=spec.weights,
        transformers=machine.transformers,
        triton=machine.triton or "",
        device=machine.device_name,
        driver=machine.driver or "",
        commit=commit,
        date=result.started_at[:10],
        speedup_basis=speedup.basis if speedup else "",
        repeats=len(result.earlier) + 1,
        threads=machine.threads if spec.device == "cpu" else None,
    )


def current_commit() -> str:
    """The commit that this copy of the project is at, '-dirty' behind it where files differ; '' without git."""
    root = Path(__file__).resolve().parents[2]
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
