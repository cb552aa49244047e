"""A row of the guide's tables, and of those that this project measured in the same form, and how a CSV holds it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from demo.core.format import milliseconds

OOM = "OOM"
"""Stands in a table for the time of a variant that ran out of memory, as in the guide."""


@dataclass(frozen=True)
class PublishedRow:
    """One row of the guide's tables, or of a table that this project measured in the same form.

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
    measured: bool = False
    """Whether this project measured it."""
    estimate: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    """The estimate and the ends of its 95 % interval; None where either variant ran out of memory."""
    dtype: str = ""
    weights: str = ""
    transformers: str = ""
    triton: str = ""
    device: str = ""
    """The device's name in full."""
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

    @property
    def speedup(self) -> float | None:
        if self.eager_seconds is None or self.compiled_seconds is None:
            return None
        return self.estimate if self.estimate is not None else self.eager_seconds / self.compiled_seconds

    @property
    def saved(self) -> float | None:
        """Share of the eager time that compiling saves: 0.23 is 23 %; below 0 where compiled is slower."""
        return None if self.speedup is None else 1 - 1 / self.speedup


GUIDE = ("subset", "gpu", "torch", "mode", "batch_size", "task", "model", "checkpoint", "eager_ms", "compiled_ms")
"""The columns of the guide's CSV."""
_TEXTS = ("dtype", "weights", "transformers", "triton", "device", "driver", "commit", "date", "speedup_basis")
COLUMNS = (*GUIDE, "speedup", "speedup_low", "speedup_high", *_TEXTS, "repeats", "threads")
"""The columns of a CSV of this project."""


def cells(row: PublishedRow) -> dict[str, Any]:
    """The row by `COLUMNS`, and `saved_percent`, which stands in no file; times are in milliseconds or OOM."""
    own = vars(row) if row.measured else {}
    return {
        **{name: getattr(row, name) for name in GUIDE[:-2]},
        "eager_ms": _published_ms(row.eager_seconds),
        "compiled_ms": _published_ms(row.compiled_seconds),
        "speedup": None if row.speedup is None else round(row.speedup, 4),
        "speedup_low": row.speedup_low,
        "speedup_high": row.speedup_high,
        "saved_percent": None if row.saved is None else round(row.saved * 100, 2),
        **{name: own.get(name) for name in (*_TEXTS, "repeats", "threads")},
    }


def read_row(cells: Mapping[str, str], measured: bool = False) -> PublishedRow:
    """The row of a line of CSV by its columns, of the guide or `measured` by this project.

    Raises KeyError for a column that is missing, ValueError and TypeError for a cell that is no number.
    """
    values: dict[str, Any] = {"measured": measured}
    for name in COLUMNS if measured else GUIDE:
        cell = cells[name]
        if name in ("eager_ms", "compiled_ms"):
            values[name.replace("_ms", "_seconds")] = None if cell == OOM else float(cell) / 1e3
        elif name in ("speedup", "speedup_low", "speedup_high"):
            values["estimate" if name == "speedup" else name] = float(cell) if cell else None
        elif name in ("repeats", "threads"):
            values[name] = int(cell) if cell else None
        else:
            values[name] = int(cell) if name == "batch_size" else cell
    return PublishedRow(**values)


def _published_ms(seconds: float | None) -> float | str:
    return OOM if seconds is None else round(milliseconds(seconds), 4)
