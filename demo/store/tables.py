"""A row of the guide's tables, and of those that this project measured in the same form, and how a CSV holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from demo.core.format import milliseconds

OOM = "OOM"
"""Stands in a table for the time of a variant that ran out of memory, as in the guide."""


@dataclass(frozen=True)
class Measured:
    """What a row of this project has beyond the guide's columns: the interval, the versions and the machine."""

    speedup: float | None
    low: float | None
    high: float | None
    """The estimate and the ends of its 95 % interval; None where either variant ran out of memory."""
    dtype: str
    weights: str
    transformers: str
    triton: str
    device: str
    """The device's name in full."""
    driver: str
    commit: str
    """The commit of this project; '' where it was not under version control."""
    date: str
    """UTC: '2026-11-21'."""
    basis: str
    """What the interval's spread between processes is taken from, as `RunResult.speedup.basis`."""
    repeats: int | None
    """How many processes the row rests on."""
    threads: int | None
    """The threads of torch; None on a GPU."""


@dataclass(frozen=True)
class PublishedRow:
    """One row of the guide's tables, or of a table that this project measured in the same form.

    None stands for 'OOM'. Times are the guide's means of 300 calls, or the `latencies` of a run of this project.
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
    measured: Measured | None = None
    """None for a row of the guide."""

    @property
    def speedup(self) -> float | None:
        if self.eager_seconds is None or self.compiled_seconds is None:
            return None
        if self.measured is not None and self.measured.speedup is not None:
            return self.measured.speedup
        return self.eager_seconds / self.compiled_seconds

    @property
    def saved(self) -> float | None:
        """Share of the eager time that compiling saves: 0.23 is 23 %; below 0 where compiled is slower."""
        return None if self.speedup is None else 1 - 1 / self.speedup


COLUMNS = (
    "subset", "gpu", "torch", "mode", "batch_size", "task", "model", "checkpoint", "eager_ms", "compiled_ms", "speedup",
    "speedup_low", "speedup_high", "dtype", "weights", "transformers", "triton", "device", "driver", "commit", "date",
    "speedup_basis", "repeats", "threads"
)  # fmt: skip
"""The columns of a CSV of this project."""


def cells(row: PublishedRow) -> dict[str, Any]:
    """The row by `COLUMNS`, and `saved_percent`, which stands in no file; times are in milliseconds or OOM."""
    own = row.measured
    return {
        **{name: getattr(row, name) for name in COLUMNS[: COLUMNS.index("eager_ms")]},
        "eager_ms": _published_ms(row.eager_seconds),
        "compiled_ms": _published_ms(row.compiled_seconds),
        "speedup": None if row.speedup is None else round(row.speedup, 4),
        "speedup_low": own and own.low,
        "speedup_high": own and own.high,
        "saved_percent": None if row.saved is None else round(row.saved * 100, 2),
        **{name: own and getattr(own, name) for name in _TEXTS},
        "speedup_basis": own and own.basis,
        "repeats": own and own.repeats,
        "threads": own and own.threads,
    }


def read_row(cells: Mapping[str, str]) -> PublishedRow:
    """The row of a line of CSV by its columns; one of this project where it has the ends of the interval.

    Raises KeyError for a column that is missing, ValueError and TypeError for a cell that is no number.
    """
    measured = None
    if "speedup_low" in cells:
        speedup, low, high = (
            float(cells[name]) if cells[name] else None for name in ("speedup", "speedup_low", "speedup_high")
        )
        repeats, threads = (int(cells[name]) if cells[name] else None for name in ("repeats", "threads"))
        texts = {name: cells[name] for name in _TEXTS}
        measured = Measured(speedup, low, high, **texts, basis=cells["speedup_basis"], repeats=repeats, threads=threads)
    eager, compiled = (None if cells[name] == OOM else float(cells[name]) / 1e3 for name in ("eager_ms", "compiled_ms"))
    return PublishedRow(
        subset=cells["subset"],
        gpu=cells["gpu"],
        torch=cells["torch"],
        mode=cells["mode"],
        batch_size=int(cells["batch_size"]),
        task=cells["task"],
        model=cells["model"],
        checkpoint=cells["checkpoint"],
        eager_seconds=eager,
        compiled_seconds=compiled,
        measured=measured,
    )


_TEXTS = ("dtype", "weights", "transformers", "triton", "device", "driver", "commit", "date")


def _published_ms(seconds: float | None) -> float | str:
    return OOM if seconds is None else round(milliseconds(seconds), 4)
