"""A sweep as a table: as a file for other programs, or as this project's own measured table of its device."""

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from demo.core import catalog
from demo.core.catalog import Checkpoint
from demo.core.files import replacing
from demo.core.spec import BadInput
from demo.store import csv_text, export, measured
from demo.store.export import check_place
from demo.sweep.cells import Cell

KINDS = (".csv", ".json", ".parquet")
_FIGURES = (
    "eager_ms", "compiled_ms", "eager_median_ms", "compiled_median_ms", "eager_mean_ms", "compiled_mean_ms", "speedup",
    "speedup_low", "speedup_high", "verdict", "speedup_basis", "control_low", "control_high", "first_call_seconds",
    "compile_cache", "break_even_calls", "break_even_seconds", "eager_peak_memory_bytes", "compiled_peak_memory_bytes",
    "parity", "device_name", "torch", "transformers", "driver", "elapsed_seconds", "started_at", "id"
)  # fmt: skip
"""The columns of a run that stand behind the cell's settings and value."""


def record(cell: Cell) -> dict[str, Any]:
    """A cell as one row of an export; None for what is not known. The history has the whole result under `id`."""
    spec, result = cell.spec, cell.result
    known: Checkpoint | None = catalog.find(spec.checkpoint)
    shared: dict[str, Any] = {
        "model": known.family if known else spec.checkpoint,
        **{f.name: getattr(spec, f.name) for f in dataclasses.fields(spec)},
        "text": ", ".join(spec.text) or None,
        "status": "refused" if cell.refused else result.status if result else None,
        "value": cell.value or None,
    }
    figures = export.row(result) if result else {}
    return shared | {name: figures.get("first_call_cache" if name == "compile_cache" else name) for name in _FIGURES}


def write_device_table(cells: Iterable[Cell], folder: Path | None = None) -> Path:
    """Writes the results into this project's own table of their device, `assets/measured/<device>.csv`; returns it.

    Rows of an earlier table stay unless the sweep has measured them again. Raises BadInput where no result belongs into
    a table, the results are of several devices, or the earlier table cannot be read; OSError where it cannot be
    written.
    """
    results = [cell.result for cell in cells if cell.result is not None]
    devices = {result.environment.device_name for result in results if result.environment is not None}
    if len(devices) != 1:
        reason = f"The results are of {', '.join(sorted(devices))}" if devices else "No cell has a result yet"
        raise BadInput(f"{reason}: a measured table belongs to one device.")
    path = (folder or measured.FOLDER) / measured.file_of(devices.pop())
    if len(measured.add_measured(results, path)) == len(results):
        raise BadInput("None of the results has a speed-up or ran out of memory: there is nothing to put into a table.")
    return path


def check_table(path: Path) -> None:
    """Raises BadInput, before anything is run, where `write_table` would have to refuse."""
    if path.suffix not in KINDS:
        raise BadInput(f"The table's kind is told by its ending: {', '.join(KINDS)}. Given: {str(path)!r}.")
    check_place(path, "table")


def write_table(path: Path, cells: Iterable[Cell]) -> None:
    """Writes the cells that have a value, one row each, as CSV, JSON or Parquet by the file's ending. Raises OSError.

    The file is complete or not there.
    """
    records = [record(cell) for cell in cells if cell.done]
    with replacing(path) as draft:
        if path.suffix == ".csv":
            columns = list(records[0]) if records else []
            draft.write(csv_text.written(columns, records).encode())
        elif path.suffix == ".json":
            draft.write(json.dumps(records, ensure_ascii=False, indent=2).encode("utf-8", "backslashreplace"))
        else:
            import pandas  # takes a second, which the others need not wait for

            pandas.DataFrame(records).to_parquet(draft, index=False)
