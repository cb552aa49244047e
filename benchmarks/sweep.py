"""The bundled checkpoints at two batch sizes: run one by one, and as a sweep that compiles ahead. Wall time of both.

Each side starts with an empty compile cache of its own, and stores into a folder of its own. The wanted ratio on two
cores is 1.3 or more; a machine with more cores gains more, since it compiles more cells at once. The benchmark fails
below that, and where a cell that was compiled ahead had to compile again.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks import report
from demo.core import catalog
from demo.core import format as fmt
from demo.core.machine import usable_cores
from demo.runs.precompiler import Precompiler
from demo.runs.runner import Runner
from demo.store.history import History
from demo.sweep.cells import Cell
from demo.sweep.grid import PRESETS, Grid
from demo.sweep.run_grid import Done, run_cells

LIMIT = 1.3
SCENE = catalog.ASSETS / "examples" / "shapes-scene-1.png"
GRID = Grid(PRESETS["smoke"].checkpoints, (1, 4))


def one_sweep(precompiler: Precompiler | None) -> tuple[float, float, list[Cell]]:
    """Wall seconds, the share of the cores' time that was used, and the cells of the grid; from an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        runner = Runner(History(Path(folder) / "history.sqlite3"))
        grid = [Cell(spec) for spec in GRID.specs()]
        started, used = time.perf_counter(), children_seconds()
        for event in run_cells(grid, runner, SCENE, threading.Event(), precompiler):
            if isinstance(event, Done):
                grid[event.place] = event.cell
        seconds = time.perf_counter() - started
        return seconds, (children_seconds() - used) / seconds / usable_cores(), grid


def children_seconds() -> float:
    """CPU time of all processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    precompiler = Precompiler()
    alone, busy_alone, one_by_one = one_sweep(None)
    ahead, busy_ahead, together = one_sweep(precompiler)
    rows = [
        [
            f"{first.spec.checkpoint}, batch {first.spec.batch_size}",
            *(
                f"{cell.value}, {fmt.duration(cell.result.elapsed_seconds)}, {cell.result.compilation.cache}"
                if cell.result and cell.result.compilation
                else cell.value
                for cell in (first, second)
            ),
        ]
        for first, second in zip(one_by_one, together, strict=True)
    ]
    rows.append(["**whole sweep**", fmt.duration(alone), fmt.duration(ahead)])
    rows.append(["of the cores' time, used", fmt.percent(busy_alone), fmt.percent(busy_ahead)])
    header = ["cell", "one by one: speed-up, run, compile cache", "compiled ahead: the same"]
    text = report.table(header, rows) + (
        f"\n\nCompiled ahead by {precompiler.processes} processes, the sweep takes 1/{alone / ahead:.2f} of the time "
        f"(wanted on two cores: 1/{LIMIT} or less)."
    )
    report.publish("sweep", "A sweep that compiles ahead", text)
    if any(cell.result is None or cell.result.status != "ok" for cell in one_by_one + together):
        sys.exit("a run failed")
    if cold := [cell for cell in together if not _is_warm(cell)]:
        sys.exit(f"{len(cold)} of the cells that were compiled ahead found a cold cache")
    if alone / ahead < LIMIT:
        sys.exit("below the limit")


def _is_warm(cell: Cell) -> bool:
    return cell.result is not None and cell.result.compilation is not None and cell.result.compilation.cache == "warm"


if __name__ == "__main__":
    main()
