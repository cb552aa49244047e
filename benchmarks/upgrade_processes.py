"""Does "should I upgrade?" say what is so of real processes? Two environments of equal versions, in turns.

`python -m benchmarks.upgrade_processes PYTHON PYTHON` runs shapes-vit as `python -m demo sweep` does, A B B A, and
judges each window of consecutive processes by itself: as it is, when "same" and "unsure" are right, and with the second
environment's calls made 10 % longer, in the figures, when "slower" is. Nothing else may be running. Aim: at least 19
of 20 windows as they are; the rest says how many processes a delay of 10 % needs on this machine.

`--keep FOLDER` keeps the results there; started again with it, nothing is run and the kept ones are judged.
"""

import argparse
import dataclasses
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks import report
from demo.core.measurement import Measurement
from demo.core.result import RunResult
from demo.present import upgrade
from demo.runs.environment import other_python
from demo.store.history import FILE_NAME, History
from demo.sweep.run_grid import PROCESSES

SWEEPS, REPEATS, DELAY, AIM = 2, 20, 1.1, 0.95
WINDOWS = (PROCESSES, 8, 16, 32)


def measure(pythons: Sequence[str], folder: Path) -> None:
    command = [sys.executable, "-m", "demo", "sweep", "--checkpoint", "shapes-vit", "--device", "cpu", "--yes"]
    command += ["--repeats", str(REPEATS), *(word for python in pythons for word in ("--python", python))]
    for number in range(SWEEPS):  # each with a store of its own: what is stored is not run again
        store = {"WORTH_COMPILING_DATA": str(folder / str(number))}
        subprocess.run(command, env=os.environ | store, check=True)


def kept(folder: Path) -> list[RunResult]:
    """The results of all sweeps that have figures, in the order of time."""
    found: list[RunResult] = []
    for number in range(SWEEPS):
        found += [one for one in History(folder / str(number) / FILE_NAME).all() if one.as_processes()]
    return sorted(found, key=lambda one: one.started_at)


def slowed(result: RunResult, factor: float) -> RunResult:
    """The result, had each of its calls taken `factor` times as long."""

    def longer(calls: Measurement | None) -> Measurement | None:
        times = tuple(factor * seconds for seconds in calls.wall_seconds) if calls is not None else ()
        return calls and dataclasses.replace(calls, wall_seconds=times)

    return dataclasses.replace(result, eager=longer(result.eager), compiled=longer(result.compiled), earlier=())


def window(results: Sequence[RunResult], factor: float = 1.0) -> RunResult:
    """The last of the results, resting on the processes of all of them."""
    runs = [slowed(result, factor) for result in results]
    return dataclasses.replace(runs[-1], earlier=tuple(one for run in runs[:-1] for one in run.as_processes()))


def verdicts(sides: Sequence[Sequence[RunResult]], processes: int, factor: float) -> Counter[str]:
    """How often each verdict was given, over the windows of so many processes of each that share none."""
    given: Counter[str] = Counter()
    for start in range(0, min(map(len, sides)) - processes + 1, processes):
        first, second = (side[start : start + processes] for side in sides)
        found = upgrade.compare(window(first), window(second, factor))
        given[found.verdict if found is not None else "none"] += 1
    return given


def spread(results: Sequence[RunResult], variant: str) -> str:
    """How much a call differed from process to process, as the standard deviation over the mean."""
    seconds = [one.latencies[variant] for one in results]
    return f"{statistics.fmean(seconds) * 1000:.2f} ms ± {statistics.stdev(seconds) / statistics.fmean(seconds):.1%}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("python", nargs=2)
    arguments.add_argument("--keep", type=Path)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        if not (folder / "0").exists():
            measure(options.python, folder)
        results = kept(folder)
    labels = [other.label if (other := other_python(python)) else None for python in options.python]
    sides = [[one for one in results if one.environment and one.environment.interpreter == label] for label in labels]
    rows, met = [], True
    for processes in WINDOWS:
        for name, factor, right in (("equal", 1.0, ("same", "unsure")), ("second 10 % slower", DELAY, ("slower",))):
            given = verdicts(sides, processes, factor)
            share = sum(given[one] for one in right) / max(1, given.total())
            met &= factor != 1.0 or share >= AIM
            said = ", ".join(f"{verdict} {count}" for verdict, count in given.most_common())
            rows.append([name, str(processes), str(given.total()), f"{share:.0%}", said])
    calls = "; ".join(
        f"{name}: eager {spread(side, 'eager')}, compiled {spread(side, 'compiled')}"
        for name, side in zip(("first", "second"), sides, strict=True)
    )
    text = (
        f"{len(sides[0])} and {len(sides[1])} processes of shapes-vit in two environments of equal versions, in turns. "
        f"A call, and its standard deviation from process to process, {calls}. The delay is planted in the figures.\n\n"
        + report.table(("case", "processes of each", "windows", "right", "verdicts"), rows)
        + f"\n\nThe aim for equal versions is {'met' if met else 'NOT met'}."
    )
    report.publish("upgrade_processes", "Should I upgrade? The verdict on real processes of equal versions", text)
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
