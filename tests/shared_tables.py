"""Parquet files as `PushedHistory` pushes them, with any change of their cells, for tests of what is read back."""

from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet
from samples import ok_result

from demo.core import stats
from demo.core.result import RunResult
from demo.store import export

NAME = "rows/2026-11-21-0123abcd.parquet"


def cells(result: RunResult | None = None, **changes: Any) -> dict[str, Any]:
    """A row with these cells changed."""
    return export.row(result or ok_result()) | changes


DEVICES = {
    "Tesla T4": ("cuda", 1.4),
    "NVIDIA A10G": ("cuda", 1.7),
    "NVIDIA L4": ("cuda", 1.6),
    "AMD EPYC 7R32": ("cpu", 1.15),
    "Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz": ("cpu", 1.05),
}
MODELS = {
    "google/vit-base-patch16-224": ("image-classification", 1.0),
    "microsoft/resnet-50": ("image-classification", 1.3),
    "facebook/detr-resnet-50": ("object-detection", 0.85),
    "nvidia/segformer-b0-finetuned-ade-512-512": ("image-segmentation", 1.2),
    "shapes-vit": ("image-classification", 0.7),
}


def plausible(count: int = 360) -> list[dict[str, Any]]:
    """Rows of several devices, models and settings."""
    rows = []
    for number in range(count):
        device, (kind, gain) = list(DEVICES.items())[number % 5]
        model, (task, factor) = list(MODELS.items())[number // 5 % 5]
        ratio = gain * factor * (1 + 0.01 * (number % 7))
        rows.append(
            cells(
                id=f"2026112{number % 3}T{number:06d}-abcdef",
                started_at=f"2026-11-2{number % 3}T{number % 24:02d}:00:00Z",
                checkpoint=model,
                task=task,
                device=kind,
                device_name=device,
                threads=4 if kind == "cpu" else 8,
                torch="2.13.0" if number % 6 else "2.11.0",
                batch_size=1 if number % 4 else 8,
                mode="default" if number % 9 else "max-autotune",
                eager_ms=20.0 * ratio,
                compiled_ms=20.0,
                speedup=ratio,
                speedup_low=ratio * 0.97,
                speedup_high=ratio * 1.03,
                verdict=stats.verdict(stats.Interval(ratio, ratio * 0.97, ratio * 1.03), None),
            )
        )
    oom = {name: None for name in rows[0] if name.startswith(("eager_", "compiled_", "speedup"))}
    rows[1] |= oom | {"status": "out_of_memory", "verdict": None}
    return rows


def write(folder: Path, rows: list[dict[str, Any]], name: str = NAME, **columns: Any) -> Path:
    """A file of these rows below `folder`; `columns` are added or take another's place."""
    table = pyarrow.Table.from_pylist(rows)
    for column, values in columns.items():
        if column in table.column_names:
            table = table.drop_columns([column])
        table = table.append_column(column, values)
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table, path)
    return path
