"""The guide's tables, what Transformers measured in 2023 on an A100, a V100 and a T4, and this project's own.

The guide's are shown as they were published, mistakes included; notes say what is known to be wrong. This project's are
the files `assets/measured/*.csv`: the guide's columns, the interval, and what the figures belong to.
"""

import csv
import json
import logging
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from demo.core import catalog
from demo.core.files import replacing
from demo.core.format import milliseconds
from demo.core.result import RunResult
from demo.core.spec import OPTIONS, BadInput, RunSpec
from demo.store.export import csv_text, unescape_formula

SOURCE = "https://huggingface.co/docs/transformers/perf_torch_compile"
"""Every row comes from this guide: its long form printed the tables, today's short form embeds a viewer of them.
A cell is the mean of 300 calls after a warm-up."""

MEASURED = "measured by this project"
_GUIDE_FOLDER = catalog.ASSETS / "published"
OOM = "OOM"
"""Stands in a table for the time of a variant that ran out of memory, as in the guide."""
MEASURED_FOLDER = catalog.ASSETS / "measured"
SUBSET = "measured"
_GUIDES = {"release": "torch 2.0.1", "nightly": "torch 2.1 nightly", "reduce-overhead": "reduce-overhead"}
"""What the guide's subsets are called."""
_UNNAMED = ("batch_size", "device", "weights", "text", "fullgraph")
"""Options with a column of their own, and those that the name of a subset has never held."""
_WORDS = {("compiler", "aot"): "package (AOTInductor)", ("scope", "layers"): "layer by layer"}
"""Settings whose names in the form say little."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PublishedRow:
    """One row of a table of the guide or of this project.

    None stands for 'OOM'. Times are the guide's means of 300 calls, or the `latencies` of a run of this project. What
    stands below the times is of a row of this project only.
    """

    subset: str
    """'release', 'nightly', 'reduce-overhead'; one that this project measured begins with 'measured'."""
    gpu: str
    torch: str
    mode: str
    batch_size: int
    task: str
    model: str
    checkpoint: str
    eager_seconds: float | None
    compiled_seconds: float | None
    speedup: float | None = None
    measured: bool = False
    speedup_low: float | None = None
    speedup_high: float | None = None
    """The ends of the 95 % interval of the speed-up; None where either variant ran out of memory."""
    dtype: str = ""
    weights: str = ""
    transformers: str = ""
    triton: str = ""
    device: str = ""
    driver: str = ""
    commit: str = ""
    """The commit of this project; '' where it was not under version control."""
    date: str = ""
    """UTC: '2026-11-21'."""
    speedup_basis: str = ""
    """What the interval's spread between processes is taken from, as `RunResult.speedup.basis`."""
    repeats: int | None = None
    """How many processes the row rests on."""
    threads: int | None = None
    """The threads of torch; None on a GPU."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """By option what departs from the guide's settings and has no other column: {'freezing': True}."""

    @property
    def origin(self) -> str:
        return MEASURED if self.measured else "published"


GUIDE = ("subset", "gpu", "torch", "mode", "batch_size", "task", "model", "checkpoint", "eager_ms", "compiled_ms")
"""The columns of the guide's CSV."""
_TEXTS = ("dtype", "weights", "transformers", "triton", "device", "driver", "commit", "date", "speedup_basis")
COLUMNS = (*GUIDE, "speedup", "speedup_low", "speedup_high", *_TEXTS, "repeats", "threads", "settings")
"""The columns of a CSV of this project."""


def read_row(cells: Mapping[str, str], measured: bool = False) -> PublishedRow:
    """A line of CSV, `measured` here or the guide's. Raises an error of any kind for a bad one."""
    values: dict[str, Any] = {"measured": measured}
    for name in COLUMNS if measured else GUIDE:
        cell = cells[name]
        if name in ("eager_ms", "compiled_ms"):
            values[name.replace("_ms", "_seconds")] = None if cell == OOM else float(cell) / 1e3
        elif name in ("speedup", "speedup_low", "speedup_high"):
            values[name] = float(cell) if cell else None
        elif name in ("repeats", "threads"):
            values[name] = int(cell) if cell else None
        elif name == "settings":
            values[name] = {OPTIONS[key].name: value for key, value in json.loads(cell or "{}").items()}
        else:
            values[name] = int(cell) if name == "batch_size" else cell
    eager, compiled = values["eager_seconds"], values["compiled_seconds"]
    return PublishedRow(**{"speedup": eager and compiled and eager / compiled, **values})


# The guide's tables


@cache
def rows() -> tuple[PublishedRow, ...]:
    """The guide's rows, in the order of the file."""
    with (_GUIDE_FOLDER / "published.csv").open(newline="", encoding="utf-8") as file:
        return tuple(map(read_row, csv.DictReader(file)))


def all_rows() -> tuple[PublishedRow, ...]:
    """The guide's rows, then those that this project measured. The latter are read at each call: a new table shows."""
    return (*rows(), *measured_rows())


@cache
def faults() -> list[dict[str, Any]]:
    """What is known to be wrong or missing in the guide: 'id', 'note', 'source' (where it stands there) and 'rows', the
    columns and values of the rows that the note belongs to, None for the guide as a whole."""
    return list(json.loads((_GUIDE_FOLDER / "faults.json").read_text(encoding="utf-8")))


@cache
def sources() -> list[dict[str, str]]:
    """What the tables were taken from, 'what' and 'where'."""
    return list(json.loads((_GUIDE_FOLDER / "sources.json").read_text(encoding="utf-8")))


def faults_at(row: PublishedRow) -> tuple[str, ...]:
    """What is known to be wrong of a row of the guide; most have nothing."""
    of_rows = [] if row.measured else [fault for fault in faults() if fault["rows"] is not None]
    return tuple(fault["note"] for fault in of_rows if fault["rows"].items() <= vars(row).items())


# The filter


def select(
    given: Iterable[PublishedRow],
    subset: str | None = None,
    gpu: str | None = None,
    batch_size: int | str | None = None,
    task: str | None = None,
    model: str | None = None,
) -> list[PublishedRow]:
    """The rows that match every filter; None or '' is no filter. Upper and lower case are the same.

    `model` matches a part of a model's or a checkpoint's name. Raises BadInput for any other value that no row has.
    """
    every = found = list(given)
    for column, asked in (("subset", subset), ("gpu", gpu), ("batch_size", batch_size), ("task", task)):
        if asked not in (None, ""):
            value = _known(column, asked, every)
            found = [row for row in found if getattr(row, column) == value]
    part = str(model or "").strip().lower()
    return [row for row in found if part in row.model.lower() or part in row.checkpoint.lower()]


def values(given: Iterable[PublishedRow], column: str) -> list[Any]:
    """The different values of a column, in the order of the rows; batch sizes ascend."""
    seen = list(dict.fromkeys(getattr(row, column) for row in given))
    return sorted(seen) if column == "batch_size" else seen


def _known(column: str, asked: object, every: Sequence[PublishedRow]) -> Any:
    allowed = values(every, column)
    for value in allowed:
        if str(asked).strip().lower() == str(value).lower():
            return value
    name = {"gpu": "GPU", "batch_size": "batch size"}.get(column, column)
    raise BadInput(f"The tables have no {name} {str(asked)[:80]!r}. They have: {', '.join(map(str, allowed))}.")


# Export


def record(row: PublishedRow) -> dict[str, Any]:
    """A row as JSON's own kinds, times in milliseconds; 'OOM' is a value of either time, None of the speed-up."""
    times = {"eager_ms": row.eager_seconds, "compiled_ms": row.compiled_seconds}
    own = vars(row) if row.measured else {}
    return {
        "origin": row.origin,
        **{name: getattr(row, name) for name in GUIDE[:-2]},
        **{name: OOM if seconds is None else round(milliseconds(seconds), 4) for name, seconds in times.items()},
        "speedup": None if row.speedup is None else round(row.speedup, 4),
        "speedup_low": row.speedup_low,
        "speedup_high": row.speedup_high,
        **{name: own.get(name) for name in (*_TEXTS, "repeats", "threads", "settings")},
        "notes": list(faults_at(row)),
    }


def to_json(given: Iterable[PublishedRow]) -> str:
    return json.dumps([record(row) for row in given], allow_nan=False, ensure_ascii=False, indent=2)


def to_csv(given: Iterable[PublishedRow]) -> str:
    return csv_text(list(record(rows()[0])), map(_cells, given))


def _cells(row: PublishedRow) -> dict[str, Any]:
    """The record of a row, its settings and notes as one text each."""
    settings = json.dumps(dict(row.settings), ensure_ascii=False) if row.settings else ""
    return record(row) | {"settings": settings, "notes": " ".join(faults_at(row))}


# This project's tables


def current_commit() -> str:
    """The commit that this copy of the project is at, '-dirty' behind it where files differ; '' without git."""
    root = Path(__file__).resolve().parents[2]
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def measured_rows() -> list[PublishedRow]:
    """The rows of every table in `MEASURED_FOLDER`. One that cannot be read is left out and logged."""
    rows: list[PublishedRow] = []
    for path in sorted(MEASURED_FOLDER.glob("*.csv")):
        try:
            rows += read_measured(path)
        except BadInput as error:
            _log.warning("%s", error)
    return rows


def read_measured(path: Path) -> list[PublishedRow]:
    """One table. Raises BadInput with a sentence that names the file and what is wrong with it."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.DictReader(file, strict=True)
            if missing := {*COLUMNS} - {*(lines.fieldnames or ())}:  # also where it has no rows
                raise ValueError(f"the columns lack {', '.join(sorted(missing))}")
            return [read_row({name: unescape_formula(line[name]) for name in COLUMNS}, measured=True) for line in lines]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, csv.Error) as error:
        raise BadInput(
            f"The measured table {path.parent.name}/{path.name} is left out: {type(error).__name__}: {error}. "
            "Write it again with demo.store.published.add_measured."
        ) from error


def file_of(device_name: str) -> str:
    """The name of a device's table: 'h200.csv' for 'NVIDIA H200'."""
    return (re.sub(r"[^a-z0-9]+", "-", device_label(device_name).lower()).strip("-") or "device") + ".csv"


def add_measured(results: Iterable[RunResult], path: Path, commit: str | None = None) -> list[RunResult]:
    """Writes the rows of `results` into a table that may exist, and returns the results that have no row.

    A row needs a machine and either a speed-up or the word OOM. Runs that failed otherwise, were cancelled or
    recompiled while they were timed have none. A row replaces an earlier one of the same checkpoint, batch size and
    subset. `commit` is this project's; git is asked if it is None. The file is replaced as a whole or not at all.
    Raises BadInput if the existing table cannot be read, and OSError where it cannot be written.
    """
    commit = current_commit() if commit is None else commit
    made = [(result, _measured_row(result, commit)) for result in results]
    if rows := [row for _, row in made if row is not None]:
        replaced = {(row.checkpoint, row.batch_size, row.subset) for row in rows}
        earlier = read_measured(path) if path.exists() else []
        rows = [*(row for row in earlier if (row.checkpoint, row.batch_size, row.subset) not in replaced), *rows]
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as draft:
            lines = ({name: cells[name] for name in COLUMNS} for cells in map(_cells, rows))
            draft.write(csv_text(COLUMNS, lines).encode())
    return [result for result, row in made if row is None]


def subset_of(spec: RunSpec) -> str:
    """'measured', and what departs from the guide's settings but random weights: 'measured reduce-overhead float16'."""
    named = [SUBSET]
    for name, value in _departures(spec).items():
        word = name.replace("_", "-") if value is True else f"{name}-{value}"
        named.append(value if name in ("mode", "dtype") else word)
    return " ".join(named)


def _departures(spec: RunSpec) -> dict[str, Any]:
    options = spec.departures().items()
    return {name: value for name, value in options if not OPTIONS[name].timing and name not in _UNNAMED}


def setting_words(row: PublishedRow) -> list[str]:
    """The settings of a row that have no other column, as words: ['freezing', 'layer by layer']."""
    words = []
    for name, value in row.settings.items():
        label = OPTIONS[name].label.lower()
        words.append(label if value is True else _WORDS.get((name, value), f"{label} {value}"))
    return words


def subset_words(subset: str, rows: Iterable[PublishedRow]) -> str:
    """What a subset is called: of the guide's, torch's version or mode; of this project's, the settings that differ."""
    if subset in _GUIDES:
        return _GUIDES[subset]
    row = next(row for row in rows if row.subset == subset)
    settings = [name for name in (row.mode, row.dtype) if name not in ("default", "float32")]
    return f"Measured here: {', '.join([*settings, *setting_words(row)]) or 'as the guide'}"


def device_label(name: str) -> str:
    """'T4' for 'Tesla T4', 'H200' for 'NVIDIA H200'; any other name as it is."""
    return name.removeprefix("NVIDIA ").removeprefix("Tesla ").strip() or name


def _measured_row(result: RunResult, commit: str) -> PublishedRow | None:
    """The row of a run; None for one that `add_measured` leaves out."""
    spec, machine, speedup = result.spec, result.environment, result.speedup
    out_of_memory = result.status == "out_of_memory"
    answered = result.status == "ok" and not result.void and speedup is not None
    if machine is None or not (answered or out_of_memory):
        return None
    known = catalog.find(spec.checkpoint)
    row = PublishedRow(
        subset=subset_of(spec),
        gpu=device_label(machine.device_name),
        torch=machine.torch,
        mode=spec.mode,
        batch_size=spec.batch_size,
        task=spec.task,
        model=known.family if known else spec.checkpoint.rsplit("/", 1)[-1],
        checkpoint=spec.checkpoint,
        eager_seconds=result.latencies.get("eager"),
        compiled_seconds=None if out_of_memory else result.latencies["compiled"],
        measured=True,
        dtype=spec.dtype,
        weights=spec.weights,
        transformers=machine.transformers,
        triton=machine.triton or "",
        device=machine.device_name,
        driver=machine.driver or "",
        commit=commit,
        date=result.started_at[:10],
        repeats=len(result.earlier) + 1,
        threads=machine.threads if spec.device == "cpu" else None,
        settings={name: value for name, value in _departures(spec).items() if name not in ("mode", "dtype")},
    )
    if out_of_memory or speedup is None:
        return row
    ratio, low, high = (round(value, 4) for value in (speedup.ratio, speedup.low, speedup.high))
    return replace(row, speedup=ratio, speedup_low=low, speedup_high=high, speedup_basis=speedup.basis)
