"""The guide's own tables: what Transformers measured in 2023 on an A100, a V100 and a T4.

Shown as they were published, mistakes included.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from demo.schema import PublishedRow

SOURCE = "https://huggingface.co/docs/transformers/perf_torch_compile"
"""Every row comes from this guide: its long form printed the tables, today's short form embeds a viewer of them.
A cell is the mean of 300 calls after a warm-up."""

_FILE = Path(__file__).resolve().parent.parent / "assets" / "published" / "published.csv"


def rows() -> list[PublishedRow]:
    """All rows, in the order of the file."""
    return list(_rows())


def for_checkpoint(id: str, batch_size: int = 1, mode: str = "default") -> list[PublishedRow]:
    """What the guide says of one checkpoint: one row a GPU and torch version, none for a checkpoint it lacks."""
    return [row for row in _rows() if (row.checkpoint, row.batch_size, row.mode) == (id, batch_size, mode)]


@cache
def _rows() -> tuple[PublishedRow, ...]:
    with _FILE.open(newline="", encoding="utf-8") as file:
        return tuple(
            PublishedRow(
                subset=line["subset"],
                gpu=line["gpu"],
                torch=line["torch"],
                mode=line["mode"],
                batch_size=int(line["batch_size"]),
                task=line["task"],
                model=line["model"],
                checkpoint=line["checkpoint"],
                eager_seconds=_seconds(line["eager_ms"]),
                compiled_seconds=_seconds(line["compiled_ms"]),
            )
            for line in csv.DictReader(file)
        )


def _seconds(cell: str) -> float | None:
    return None if cell == "OOM" else float(cell) / 1e3
