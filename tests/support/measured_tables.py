"""Writes tables of published results like those in `assets/measured`, for tests."""

import csv
from pathlib import Path

from demo.store.published import COLUMNS

LINE = dict(
    zip(
        COLUMNS,
        "measured,H200,2.13.0,default,1,image-classification,ViT,google/vit-base-patch16-224,4.0,2.5,1.62,1.6,1.64,"
        "float32,pretrained,5.23.0,3.7.0,NVIDIA H200,580.1,0123456789ab,2026-11-21,,,,,,".split(","),
        strict=True,
    )
)


def write(path: Path, *changes: dict[str, str]) -> Path:
    """Writes a table to `path` and returns `path`. Each of `changes` makes a row: `LINE` with these entries changed."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows({**LINE, **change} for change in changes)
    return path
