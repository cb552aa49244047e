"""Rows of a measured table, for tests."""

import csv
from pathlib import Path

from demo.store.published import COLUMNS

LINE = {
    "subset": "measured",
    "gpu": "H200",
    "torch": "2.13.0",
    "mode": "default",
    "batch_size": "1",
    "task": "image-classification",
    "model": "ViT",
    "checkpoint": "google/vit-base-patch16-224",
    "eager_ms": "4.0",
    "compiled_ms": "2.5",
    "speedup": "1.62",
    "speedup_low": "1.6",
    "speedup_high": "1.64",
    "dtype": "float32",
    "weights": "pretrained",
    "transformers": "5.23.0",
    "triton": "3.7.0",
    "device": "NVIDIA H200",
    "driver": "580.1",
    "commit": "0123456789ab",
    "date": "2026-11-21",
    "speedup_basis": "",
    "repeats": "",
    "threads": "",
}


def write(path: Path, *changes: dict[str, str], columns: tuple[str, ...] = COLUMNS) -> Path:
    """A table with one line for each of `changes`, what is not changed as in `LINE`."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows({**LINE, **change} for change in changes)
    return path
