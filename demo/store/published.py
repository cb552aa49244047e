"""The guide's own tables, what Transformers measured in 2023 on an A100, a V100 and a T4, and what this project adds.

They are shown as they were published, mistakes included; notes say what is known to be wrong. The page, the command
line and the API share one filter.
"""

import csv
import json
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from demo.core import catalog
from demo.core.spec import TASKS, BadInput
from demo.core.stats import geometric_mean
from demo.store import csv_text, measured
from demo.store.tables import PublishedRow, cells, read_row

SOURCE = "https://huggingface.co/docs/transformers/perf_torch_compile"
"""Every row comes from this guide: its long form printed the tables, today's short form embeds a viewer of them.
A cell is the mean of 300 calls after a warm-up."""

PUBLISHED, MEASURED = "published", "measured by this project"
_FOLDER = catalog.ASSETS / "published"


@cache
def rows() -> tuple[PublishedRow, ...]:
    """The guide's rows, in the order of the file."""
    with (_FOLDER / "published.csv").open(newline="", encoding="utf-8") as file:
        return tuple(map(read_row, csv.DictReader(file)))


def all_rows() -> tuple[PublishedRow, ...]:
    """The guide's rows, then those that this project measured. The latter are read at each call: a new table shows."""
    return (*rows(), *measured.load()[0])


@cache
def faults() -> list[dict[str, Any]]:
    """What is known to be wrong or missing in the guide: 'id', 'note', 'source' (where it stands there) and 'rows', the
    columns and values of the rows that the note belongs to, None for the guide as a whole."""
    return list(json.loads((_FOLDER / "faults.json").read_text(encoding="utf-8")))


@cache
def sources() -> list[dict[str, str]]:
    """What the tables were taken from, 'what' and 'where'."""
    return list(json.loads((_FOLDER / "sources.json").read_text(encoding="utf-8")))


def notes(row: PublishedRow) -> tuple[str, ...]:
    """Caveats of a row; most have none."""
    if row.weights == "random":
        return ("Random weights: latency does not depend on their values.",)
    return faults_at(row)


def faults_at(row: PublishedRow) -> tuple[str, ...]:
    """What is known to be wrong of a row of the guide."""
    of_rows = [] if row.measured else [fault for fault in faults() if fault["rows"] is not None]
    return tuple(fault["note"] for fault in of_rows if fault["rows"].items() <= vars(row).items())


def origin(row: PublishedRow) -> str:
    return MEASURED if row.measured else PUBLISHED


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

    `model` matches a part of a model's or a checkpoint's name. Raises BadInput for a value that no row has. Values that
    exist, but in no row together, give an empty list.
    """
    every = found = list(given)
    for column, asked in (("subset", subset), ("gpu", gpu), ("batch_size", batch_size), ("task", task)):
        if every and asked is not None and asked != "":
            value = _known(column, asked, every)
            found = [row for row in found if getattr(row, column) == value]
    if every and model is not None and (part := str(model).strip().lower()):
        if not any(_named(row, part) for row in every):
            known = ", ".join(values(every, "model"))
            raise BadInput(f"No model of the tables is called {str(model)[:80]!r}. They have: {known}.")
        found = [row for row in found if _named(row, part)]
    return found


def values(given: Iterable[PublishedRow], column: str) -> list[Any]:
    """The different values of a column, in the order of the rows; batch sizes ascend."""
    seen = list(dict.fromkeys(getattr(row, column) for row in given))
    return sorted(seen) if column == "batch_size" else seen


def _known(column: str, asked: object, every: Sequence[PublishedRow]) -> Any:
    allowed = values(every, column)
    if column == "task":
        allowed = [task for task in TASKS if task in allowed]
    for value in allowed:
        if str(asked).strip().lower() == str(value).lower():
            return value
    name = {"gpu": "GPU", "batch_size": "batch size"}.get(column, column)
    raise BadInput(f"The tables have no {name} {str(asked)[:80]!r}. They have: {', '.join(map(str, allowed))}.")


def _named(row: PublishedRow, part: str) -> bool:
    return part in row.model.lower() or part in row.checkpoint.lower()


# What the charts need


def newest(given: Iterable[PublishedRow]) -> list[PublishedRow]:
    """One row for each subset, GPU, batch size and checkpoint: of several measurements the one of the latest day."""
    kept: dict[tuple[Any, ...], PublishedRow] = {}
    for row in given:
        key = (row.measured, row.subset, row.gpu, row.batch_size, row.checkpoint)
        if key not in kept or row.date >= kept[key].date:
            kept[key] = row
    return list(kept.values())


def mean_speedup(given: Iterable[PublishedRow]) -> float | None:
    """The geometric mean of the rows that have times; None where none has."""
    ratios = [row.speedup for row in given if row.speedup is not None]
    return geometric_mean(ratios) if ratios else None


# Export


def record(row: PublishedRow) -> dict[str, Any]:
    """A row as JSON's own kinds, times in milliseconds; 'OOM' is a value of either time, None of the speed-up."""
    return {"origin": origin(row), **cells(row), "notes": list(notes(row))}


def to_json(given: Iterable[PublishedRow]) -> str:
    return json.dumps([record(row) for row in given], allow_nan=False, ensure_ascii=False, indent=2)


def to_csv(given: Iterable[PublishedRow]) -> str:
    """The records as CSV: an empty cell for None, notes in one cell."""
    lines = ({**one, "notes": " ".join(one["notes"])} for one in map(record, given))
    return csv_text.written(list(record(rows()[0])), lines)
