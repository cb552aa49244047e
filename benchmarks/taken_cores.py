"""How wrong is a speed-up that is measured while other programs take cores, if torch keeps its number of threads?

Each checkpoint runs with a thread for each core: alone, beside one busy program, and beside two. The report has the
lowest and the highest speed-up, divided by the mean speed-up of the runs alone. `stats.TAKEN_FACTOR` should be larger
than these errors. No run may say 'slower' if the runs alone are faster, or the reverse.
"""

import contextlib
import statistics
import sys

from benchmarks import report
from benchmarks.neighbour import busy_neighbours
from demo.core import catalog, stats
from demo.core.cores import usable_cores
from demo.core.result import RunResult
from demo.runs.runner import Runner
from demo.sweep.grid import PICTURE

CHECKPOINTS = ("shapes-vit", "shapes-segformer")
NEIGHBOURS = (0, 1, 2)
RUNS = 3


def run(checkpoint: str, neighbours: int) -> RunResult:
    """Makes one run while `neighbours` processes keep a core busy each.

    It has no history, so that its speed-up is not pooled with other runs.
    """
    with contextlib.closing(Runner(None)) as runner, busy_neighbours(neighbours, rest_seconds=0.0):
        *_, result = runner.run(catalog.make_spec(checkpoint, threads=usable_cores()), PICTURE)
    if not isinstance(result, RunResult) or result.speedup is None:
        raise RuntimeError(f"{checkpoint} has no speed-up")
    return result


def main() -> None:
    rows, farthest, opposite = [], 1.0, []
    for checkpoint in CHECKPOINTS:
        runs_by_neighbours = {number: [run(checkpoint, number) for _ in range(RUNS)] for number in NEIGHBOURS}
        idle = stats.geometric_mean([run.speedup.within.ratio for run in runs_by_neighbours[0] if run.speedup])
        for number, results in runs_by_neighbours.items():
            speedups = [run.speedup for run in results if run.speedup is not None]
            off = [speedup.within.ratio / idle for speedup in speedups]
            verdicts = [speedup.verdict for speedup in speedups]
            farthest = max(farthest, *off, *(1 / ratio for ratio in off)) if number else farthest
            opposite += [verdict for verdict in verdicts if verdict in ("slower" if idle > 1 else "faster",)]
            taken = sum(run.oversubscribed for run in results)
            counted = [f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts)]
            middle = statistics.median(speedup.within.ratio for speedup in speedups)
            shown = f"{min(off):.2f} to {max(off):.2f}"
            place = [checkpoint, str(number), f"{taken} of {len(results)}"]
            rows.append([*place, f"{middle:.2f}×", shown, ", ".join(counted)])
    header = ["checkpoint", "neighbours", "cores taken", "speed-up, median", "over the idle one", "verdicts"]
    sentence = f"Farthest from the idle speed-up: {farthest:.2f}×; the bound is {stats.TAKEN_FACTOR}×."
    text = f"{report.table(header, rows)}\n\n{sentence}"
    report.publish("taken_cores", "How far off is a speed-up while other programs take cores?", text)
    if opposite or farthest > stats.TAKEN_FACTOR:
        sys.exit("outside the bound")


if __name__ == "__main__":
    main()
