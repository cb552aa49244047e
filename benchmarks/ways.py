"""First call and speed-up of each way to compile: the whole model, its layers, with freezing, ahead of time.

Each way is one run with an empty cache. Its first call is timed in the run itself, from nothing, and once more in a
further process, with the filled cache or the package. Models: the three bundled vision checkpoints, and four of the
Transformers guide's with random weights. Runs that are stored are not made again, so a benchmark that was interrupted
continues; `--fresh` makes all runs.

Aims on two cores: a package is loaded in less than 0.1 s; with layers the first call takes at most 0.45 times as long
as with the whole model, for ViT and BEiT; freezing is at least 1.3 times as fast as no freezing, for ResNet-50.
"""

import argparse
import contextlib
import sys
import threading
from collections.abc import Sequence
from typing import Any

from benchmarks import report
from demo.core import catalog, format as fmt
from demo.core.machine import HostInfo
from demo.core.result import RunResult
from demo.present.report import Report
from demo.runs.runner import Runner
from demo.store.history import History
from demo.sweep.grid import PICTURE, GridRun, make_cells
from demo.sweep.run_grid import Done, run_cells

WAYS: dict[str, dict[str, Any]] = {
    "whole model": {},
    "layers": {"scope": "layers"},
    "freezing": {"freezing": True},
    "package": {"compiler": "aot"},
}
VIT, BEIT, RESNET = "google/vit-base-patch16-224", "microsoft/beit-base-patch16-224-pt22k-ft22k", "microsoft/resnet-50"
FULL_SIZE = (VIT, BEIT, RESNET, "facebook/detr-resnet-50")
MAX_LOAD_SECONDS, MAX_LAYERS_SHARE, MIN_FREEZING_GAIN = 0.1, 0.45, 1.3
TIMED = ["eager", "compiled", "speed-up", "memory"]
HEADER = ["checkpoint", "way", "first call, from nothing", "first call, next process", *TIMED]


def cells(stored: Sequence[RunResult], machine: HostInfo, fresh: bool) -> dict[tuple[str, str], GridRun]:
    """Returns the runs of the benchmark, by (checkpoint, way to compile). `fresh`: whether to use no stored results."""
    bundled = tuple(checkpoint.id for checkpoint in catalog.BUNDLED_VISION)
    places = [(checkpoint, way) for checkpoint in (*bundled, *FULL_SIZE) for way in WAYS]
    specs = [
        catalog.make_spec(
            checkpoint, weights="pretrained" if checkpoint in bundled else "random", cache="empty", **WAYS[way]
        )
        for checkpoint, way in places
    ]
    return dict(zip(places, make_cells(specs, stored, machine, PICTURE, fresh), strict=True))


def row(place: tuple[str, str], cell: GridRun) -> list[str]:
    result, compiled = cell.result, cell.result.compilation if cell.result else None
    if result is None or result.speedup is None or compiled is None:
        return [*place, cell.value, *[""] * (len(HEADER) - 3)]
    first = fmt.duration(compiled.first_call_seconds)
    loaded = compiled.warm.parts.get("load") if compiled.warm else None
    again = fmt.duration(compiled.warm.first_call_seconds) if compiled.warm else "unknown"
    again += f", {fmt.duration(loaded)} of it to load" if loaded is not None else ""
    latencies = map(fmt.latency, result.latencies.values())
    peaks = [side.peak_memory_bytes for side in (result.eager, result.compiled) if side is not None]
    memory = fmt.size(max(peak or 0 for peak in peaks))
    return [*place, first, again, *latencies, Report(result).ratio_in_full, memory]


def in_short(grid: dict[tuple[str, str], GridRun]) -> str:
    """Returns a table with a row for each checkpoint and a column for each way to compile.

    A cell has the time of the first call with an empty compile cache, and the speed-up.
    """
    rows = []
    for checkpoint in dict.fromkeys(checkpoint for checkpoint, _ in grid):
        rows.append([checkpoint])
        for way in WAYS:
            rows[-1].append(_cost_and_gain(grid[checkpoint, way].result))
    return report.table(["checkpoint", *WAYS], rows)


def _cost_and_gain(result: RunResult | None) -> str:
    if result is None or result.speedup is None or result.compilation is None:
        return "–"
    return f"{fmt.duration(result.compilation.first_call_seconds)}, {fmt.ratio(result.speedup.ratio)}"


def probe(grid: dict[tuple[str, str], GridRun]) -> str:
    """Returns how long inductor's test for vector instructions took, '15 s', or 'an unknown time'.

    The times of first calls do not include it.
    """
    compiled = [cell.result.compilation for cell in grid.values() if cell.result and cell.result.compilation]
    seconds = [took for cost in compiled if (took := cost.instruction_probe.built_seconds) is not None]
    return fmt.duration(seconds[0]) if seconds else "an unknown time"


def outside(grid: dict[tuple[str, str], GridRun]) -> list[str]:
    """Returns a sentence for each measured value that is worse than the limits of this benchmark; [] if none is."""
    missed = []
    for (checkpoint, way), cell in grid.items():
        compiled = cell.result.compilation if cell.result else None
        if way == "package" and compiled is not None and compiled.warm is not None:
            if (seconds := compiled.warm.parts["load"]) > MAX_LOAD_SECONDS:
                missed.append(f"{checkpoint}: its package takes {fmt.duration(seconds)} to load")
    for checkpoint in (VIT, BEIT):
        whole, layers = (first_call(grid[checkpoint, way]) for way in ("whole model", "layers"))
        if not layers <= MAX_LAYERS_SHARE * whole:
            missed.append(f"{checkpoint}: with layers the first call takes {layers / whole:.2f} of the whole model's")
    plain, frozen = (compiled_seconds(grid[RESNET, way]) for way in ("whole model", "freezing"))
    if not plain >= MIN_FREEZING_GAIN * frozen:
        missed.append(f"{RESNET}: freezing is {plain / frozen:.2f} times as fast as without")
    return missed


def first_call(cell: GridRun) -> float:
    """Returns the seconds of the first call in the run; NaN if the run failed."""
    compiled = cell.result.compilation if cell.result else None
    return compiled.first_call_seconds if compiled is not None else float("nan")


def compiled_seconds(cell: GridRun) -> float:
    return cell.result.latencies.get("compiled", float("nan")) if cell.result else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fresh", action="store_true", help="run those again that the history holds")
    fresh = parser.parse_args().fresh
    history = History()
    with contextlib.closing(Runner(history)) as runner:
        grid = cells(history.all(), runner.inspect(), fresh)
        places = list(grid)
        for event in run_cells(list(grid.values()), runner, PICTURE, threading.Event()):
            if isinstance(event, Done):
                grid[places[event.place]] = event.cell
                print(*places[event.place], event.cell.value, sep=" · ", file=sys.stderr, flush=True)
    text = (
        f"The first call from nothing, and the speed-up:\n\n{in_short(grid)}\n\n"
        "One run each, every one a fresh process with an empty cache. The next process finds the cache filled, or the "
        f"package. Inductor's probe of the processor's instructions, once for the cache, took {probe(grid)} more. "
        "Memory is the largest resident set of the process that timed.\n\n"
        + report.table(HEADER, [row(place, cell) for place, cell in grid.items()])
    )
    report.publish("ways", "The ways to compile", text)
    if missed := outside(grid):
        sys.exit("; ".join(missed))


if __name__ == "__main__":
    main()
