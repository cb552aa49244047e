"""Tables of latencies: those of the Transformers guide (2023; A100, V100, T4) and this project's own.

The guide's numbers are kept as published, including mistakes. Notes say which numbers are known to be wrong. This
project's tables are `assets/measured/*.csv`: the guide's columns, then the interval, versions and settings.
"""

import csv
import json
import logging
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, TypedDict

from pydantic import TypeAdapter

from ..core import program, stats
from ..core.comparison import WayCost, first_call_duration, way_costs
from ..core.format import did_you_mean, milliseconds
from ..core.options import OPTIONS, BadInput
from ..core.stats import Difference
from .export import csv_text, unescape_formula

SOURCE = "https://huggingface.co/docs/transformers/perf_torch_compile"
"""The Transformers guide. An older version of the page printed its tables; today's embeds a viewer of them."""
MEASURED = "measured by this project"
_GUIDE_FOLDER = program.ASSETS / "published"
OOM = "OOM"
"""Stands in place of a time if the run was out of memory, as in the tables of the Transformers guide."""
MEASURED_FOLDER = program.ASSETS / "measured"
SUBSET = "measured"
"""First word of `PublishedRow.subset` in the rows that this project measured: 'measured float16'."""
_GUIDES = {"release": "torch 2.0.1", "nightly": "torch 2.1 nightly", "reduce-overhead": "reduce-overhead"}
"""Titles of the tables of the Transformers guide, by `subset`."""
_WORDS = {"compiler aot": "package (AOTInductor)", "scope layers": "layer by layer"}
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PublishedRow:
    """The times of one checkpoint on one device with one setting, from the Transformers guide or from this project.

    A time is None if memory ran out. In the Transformers guide a time is the mean of 300 calls. In this project it is
    the latency that a run shows. In rows of the guide, the fields after `speedup` have their default values.
    """

    subset: str
    """'release', 'nightly' or 'reduce-overhead' in the Transformers guide; such as 'measured float16' in this
    project."""
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
    speedup_low: float | None = None
    """Lower end of the 95 % interval."""
    speedup_high: float | None = None
    dtype: str = ""
    weights: str = ""
    transformers: str = ""
    triton: str = ""
    device: str = ""
    driver: str = ""
    commit: str = ""
    """Commit of this project; '' without git."""
    date: str = ""
    """Day of the measurement, in UTC: '2026-11-21'."""
    speedup_basis: str = ""
    """Where the spread between processes is from: 'repeats', 'this machine' or 'assumed', as in `Speedup.basis`.

    The interval includes this spread. 'within one process': the interval does not include it."""
    repeats: int | None = None
    """Number of processes over which the speed-up is pooled."""
    threads: int | None = None
    """Threads of torch; None on a GPU."""
    first_call_seconds: float | None = None
    """Seconds of compiled's first call from nothing (empty compile cache).

    None if it was not kept, or if the outputs of eager and compiled differ."""
    kept_first_call_seconds: float | None = None
    """Seconds of compiled's first call with a filled compile cache, or with a finished AOTInductor package."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Options that are not at their default and have no other column: {'freezing': True}."""

    @property
    def measured(self) -> bool:
        """Whether this project measured the row; False for a row of the Transformers guide."""
        return self.subset.split(" ")[0] == SUBSET

    @property
    def verdict(self) -> Difference | None:
        """The speed-up with the verdict of its interval; None without an interval, as in the Transformers guide."""
        if self.speedup is None or self.speedup_low is None or self.speedup_high is None:
            return None
        return stats.compare(stats.Interval(self.speedup, self.speedup_low, self.speedup_high))

    @property
    def costs(self) -> dict[str, tuple[WayCost, WayCost]]:
        """Costs of eager and of compiled in a process, by the state of the compile cache: {'cold': (eager, compiled)}.

        A first call counts as timed once, because a row does not say how often it was. {} if the row has no first
        call, or if its verdict is missing or 'unsure'.
        """
        first_calls = {"cold": self.first_call_seconds, "warm": self.kept_first_call_seconds}
        if self.verdict is None or self.verdict.verdict == "unsure" or self.eager_seconds is None:
            return {}
        return {
            state: way_costs(self.eager_seconds, self.verdict, first_call_duration(state, [seconds]))
            for state, seconds in first_calls.items()
            if seconds is not None
        }


COLUMNS = tuple(field.name.replace("_seconds", "_ms") for field in fields(PublishedRow))
"""Columns of this project's CSV files."""
_TIMES = tuple(name for name in COLUMNS if name.endswith("_ms"))
GUIDE = COLUMNS[: COLUMNS.index("speedup")]
"""Columns of the CSV file with the Transformers guide's tables."""
_ROW = TypeAdapter(PublishedRow)


def read_row(cells: Mapping[str, str]) -> PublishedRow:
    """Returns the row of one line of a CSV file. Raises an error, such as ValueError or KeyError, for a wrong line.

    `cells`: the texts of the line by column.
    """
    times = {name.replace("_ms", "_seconds"): _seconds(cells[name]) for name in _TIMES if name in cells}
    eager, compiled = times["eager_seconds"], times["compiled_seconds"]
    settings = json.loads(cells.get("settings") or "{}")
    if unknown := settings.keys() - OPTIONS.keys():
        raise ValueError(f"the settings have unknown options: {', '.join(sorted(unknown))}")
    values: dict[str, object] = {name: cell for name, cell in cells.items() if cell}  # an empty cell is the default
    values = {"speedup": eager and compiled and eager / compiled, **values, "settings": settings}
    return _ROW.validate_python(values | times)  # reads the numbers


def _seconds(cell: str) -> float | None:
    return None if cell in ("", OOM) else float(cell) / 1e3


# The guide's tables


class Fault(TypedDict):
    """A known mistake in the tables of the Transformers guide on torch.compile."""

    id: str
    note: str
    """What is wrong in the tables or the text of the guide, as a sentence."""
    source: str
    """Where in the Transformers guide the mistake is."""
    rows: dict[str, object] | None
    """Values by column: rows with all these values have the fault. None: the text or whole tables have it."""


@cache
def guide_rows() -> tuple[PublishedRow, ...]:
    with (_GUIDE_FOLDER / "published.csv").open(newline="", encoding="utf-8") as file:
        return tuple(map(read_row, csv.DictReader(file)))


def all_rows() -> tuple[PublishedRow, ...]:
    """Returns the Transformers guide's rows, then this project's, whose files are read again at each call."""
    return (*guide_rows(), *measured_rows())


@cache
def faults() -> list[Fault]:
    """Returns the known mistakes in the tables of the Transformers guide."""
    return list(json.loads((_GUIDE_FOLDER / "faults.json").read_text(encoding="utf-8")))


@cache
def sources() -> list[dict[str, str]]:
    """Returns the origins of the Transformers guide's tables: 'what' (a description) and 'where' (an address)."""
    return list(json.loads((_GUIDE_FOLDER / "sources.json").read_text(encoding="utf-8")))


def notes_of(row: PublishedRow) -> tuple[str, ...]:
    """Returns a sentence for each known mistake in this row; () if there is none, as for a row of this project."""
    of_rows = [] if row.measured else [fault for fault in faults() if fault["rows"] is not None]
    return tuple(fault["note"] for fault in of_rows if (fault["rows"] or {}).items() <= vars(row).items())


# The filter


def select(
    rows: Iterable[PublishedRow],
    subset: str | None = None,
    gpu: str | None = None,
    batch_size: int | str | None = None,
    task: str | None = None,
    model: str | None = None,
) -> list[PublishedRow]:
    """Returns the rows that match every filter, ignoring case. A filter that is None or '' matches all rows.

    `model`: a part of a model's or checkpoint's name. For the other filters, BadInput is raised for a value that no row
    has.
    """
    every = chosen = list(rows)
    for column, wanted in (("subset", subset), ("gpu", gpu), ("batch_size", batch_size), ("task", task)):
        if wanted in (None, ""):
            continue
        text, allowed = str(wanted).strip().lower(), [str(value) for value in values(every, column)]
        if text not in map(str.lower, allowed):
            meant = did_you_mean(wanted, allowed)
            name = {"gpu": "GPU", "batch_size": "batch size"}.get(column, column)
            raise BadInput(f"The tables have no {name} {str(wanted)[:80]!r}. They have: {', '.join(allowed)}.{meant}")
        chosen = [row for row in chosen if str(getattr(row, column)).lower() == text]
    part = str(model or "").strip().lower()
    return [row for row in chosen if part in row.model.lower() or part in row.checkpoint.lower()]


def values(rows: Iterable[PublishedRow], column: str) -> list[Any]:
    """Returns the distinct values of a column in the order of the rows; batch sizes in ascending order."""
    seen = list(dict.fromkeys(getattr(row, column) for row in rows))
    return sorted(seen) if column == "batch_size" else seen


# Export


def record(row: PublishedRow) -> dict[str, object]:
    """Returns a dict for JSON with `COLUMNS`, 'origin' and 'notes'.

    Times are in milliseconds; 'OOM' if memory ran out. None: not known.
    """
    values: dict[str, object] = {"origin": MEASURED if row.measured else "published"}
    for name in COLUMNS:
        value = getattr(row, name.replace("_ms", "_seconds"))
        if name in _TIMES:
            unknown = OOM if name in GUIDE else None
            values[name] = unknown if value is None else round(milliseconds(value), 4)
        elif isinstance(value, float):
            values[name] = round(value, 4)
        else:
            values[name] = value if row.measured or name in GUIDE else None
    return values | {"notes": list(notes_of(row))}


def rows_as_json(rows: Iterable[PublishedRow]) -> str:
    return json.dumps([record(row) for row in rows], allow_nan=False, ensure_ascii=False, indent=2)


def to_csv(rows: Iterable[PublishedRow]) -> str:
    return csv_text(list(record(guide_rows()[0])), map(csv_cells, rows))


def csv_cells(row: PublishedRow) -> dict[str, object]:
    settings = json.dumps(dict(row.settings), ensure_ascii=False) if row.settings else ""
    return record(row) | {"settings": settings, "notes": " ".join(notes_of(row))}


# This project's tables


def current_commit() -> str:
    """Returns the commit of this checkout, with '-dirty' added if files were changed; '' without git."""
    root = Path(__file__).resolve().parents[2]
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def measured_rows() -> list[PublishedRow]:
    """Returns the rows of all tables in `MEASURED_FOLDER`. A table that cannot be read is logged and skipped."""
    rows: list[PublishedRow] = []
    for path in sorted(MEASURED_FOLDER.glob("*.csv")):
        try:
            rows += read_measured(path)
        except BadInput as error:
            _log.warning("%s", error)
    return rows


def read_measured(path: Path) -> list[PublishedRow]:
    """Returns the rows of one of this project's tables. Raises BadInput if it cannot be read."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.DictReader(file, strict=True)
            if missing := {*COLUMNS} - {*(lines.fieldnames or ())}:  # also in a table without rows
                raise ValueError(f"the columns lack {', '.join(sorted(missing))}")
            return [read_row({name: unescape_formula(line[name]) for name in COLUMNS}) for line in lines]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, csv.Error) as error:
        raise BadInput(
            f"The measured table {path.parent.name}/{path.name} is left out: {type(error).__name__}: {error}. "
            "Write it again with python -m tools.measured_table."
        ) from error


def setting_words(row: PublishedRow) -> list[str]:
    """Returns `row.settings` in words: ['freezing', 'layer by layer']."""
    settings = [(OPTIONS[name].label.lower(), value) for name, value in row.settings.items()]
    words = [label if value is True else f"{label} {value}" for label, value in settings]
    return [_WORDS.get(word, word) for word in words]


def subset_words(subset: str, rows: Iterable[PublishedRow]) -> str:
    """Returns a subset's title: 'Measured here: float16, freezing', or 'torch 2.0.1' for the Transformers guide."""
    row = next(row for row in rows if row.subset == subset)
    settings = [name for name in (row.mode, row.dtype) if name not in ("default", "float32")]
    measured = ", ".join([*settings, *setting_words(row)])
    return _GUIDES.get(subset, f"Measured here: {measured or 'as the guide'}")
