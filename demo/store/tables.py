"""A row of the guide's tables, and of those that this project measured in the same form, and how a CSV holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
    """Of this project; '' where it was not under version control."""
    date: str
    """UTC: '2026-11-21'."""
    basis: str = ""
    """What the interval's spread between processes is taken from, as `RunResult.speedup.basis`; '' in older tables."""
    repeats: int | None = None
    """How many processes the row rests on; None in older tables."""
    threads: int | None = None
    """Of torch; None in older tables, and on a GPU."""


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


def read_row(cells: Mapping[str, str]) -> PublishedRow:
    """The row of a line of CSV by its columns; one of this project where it has the ends of the interval.

    Raises KeyError for a column that is missing, ValueError and TypeError for a cell that is no number.
    """
    measured = None
    if "speedup_low" in cells:
        texts = {name: cells[name] for name in ("dtype", "weights", "transformers", "triton", "device", "driver")}
        measured = Measured(
            speedup=_number(cells["speedup"]),
            low=_number(cells["speedup_low"]),
            high=_number(cells["speedup_high"]),
            **texts,
            commit=cells["commit"],
            date=cells["date"],
            basis=cells.get("speedup_basis", ""),
            repeats=_count(cells.get("repeats", "")),
            threads=_count(cells.get("threads", "")),
        )
    return PublishedRow(
        subset=cells["subset"],
        gpu=cells["gpu"],
        torch=cells["torch"],
        mode=cells["mode"],
        batch_size=int(cells["batch_size"]),
        task=cells["task"],
        model=cells["model"],
        checkpoint=cells["checkpoint"],
        eager_seconds=_seconds(cells["eager_ms"]),
        compiled_seconds=_seconds(cells["compiled_ms"]),
        measured=measured,
    )


def _seconds(cell: str) -> float | None:
    return None if cell == OOM else float(cell) / 1e3


def _number(cell: str) -> float | None:
    return float(cell) if cell else None


def _count(cell: str) -> int | None:
    return int(cell) if cell else None
