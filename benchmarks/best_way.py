"""How long the search for the best way to run a model takes, what it finds, and whether its times add up.

The best way for `shapes-vit` is searched twice, each time without a stored run. The first search fills the compile
cache. The second finds it filled, and is the one that counts. Then the best way for ResNet-50 with random weights is
searched within the usual budget.

A first answer is the time from a process's start to its first output. The search reports it in parts. To check them,
further processes import, load, and call the model once, with the filled cache or the package. A stopwatch outside of
the process times each.

Aims on two idle cores: the second search of `shapes-vit` takes at most 90 s; that of ResNet-50 stays within its budget;
the parts of a first answer add up to the stopwatch's time within 5 % (the median of `STARTS` starts).
"""

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import report
from demo.cli import best_command
from demo.core import catalog, codec, format as fmt
from demo.core.options import RunSpec
from demo.runs.ongoing import Files
from demo.runs.runner import Runner
from demo.store.history import History
from demo.sweep.best_table import BestTable, Way
from demo.sweep.best_way import MINUTES, Search
from demo.sweep.grid import PICTURE

MAX_SECONDS, MAX_APART, STARTS = 90.0, 0.05, 3
LADDERS = ("default", "layers", "package")
"""Ways to run a model for which the time to a process's first output is checked with a stopwatch."""


def search(spec: RunSpec) -> tuple[BestTable, list[tuple[Way, bool]], float]:
    """Searches for the best way to run the model of `spec`, without stored runs.

    Returns the table, the ways still to run (each with whether it has run before), and the seconds of the search.
    """
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder) / "history.sqlite3")
        runner = Runner(history)
        try:
            whole = Search(spec, runner.inspect(), [], PICTURE)
            started = time.monotonic()
            for _ in whole.run(runner, threading.Event()):
                pass
            return whole.table(), whole.missing, time.monotonic() - started
        finally:
            runner.close()


def starts(spec: RunSpec, package: Path | None) -> Iterator[float]:
    """Yields, by a stopwatch, the seconds of new processes that load and call the model of `spec` for the first time.

    The compile cache is filled. `package`: an AOTInductor package to load instead of compiling; None for none.
    """
    files = {"input_file": str(PICTURE), "package": package and str(package)}
    job = json.dumps({"spec": codec.plain(spec), **files})
    for _ in range(STARTS):
        started = time.monotonic()
        subprocess.run(
            [sys.executable, "-m", "demo.backend.first_call"], input=job, text=True, check=True, capture_output=True
        )
        yield time.monotonic() - started


def ladders(table: BestTable) -> tuple[list[list[str]], list[str]]:
    rows, missed = [], []
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "model.pt2"
        for row in table.rows:
            name = row.way.name
            parts = row.first_answers.get("warm")
            if name not in LADDERS or parts is None:
                continue
            if name == "package":
                runner = Runner(None)
                list(runner.run(row.way.spec, PICTURE, files=Files(package=package)))
                runner.close()
            watch = statistics.median(starts(row.way.spec, package if name == "package" else None))
            ours = sum(parts.values())
            apart = ours / watch - 1
            rows.append(
                [
                    name,
                    *(f"{parts[part]:.2f}" for part in parts),
                    f"{ours:.2f}",
                    f"{watch:.2f}",
                    f"{apart:+.1%}",
                ]
            )
            if abs(apart) > MAX_APART:
                missed.append(f"{name}'s start is {apart:+.1%} off the stopwatch")
    return rows, missed


def main() -> None:
    vit = catalog.make_spec("shapes-vit")
    search(vit)
    small, missing, seconds = search(vit)
    rows, missed = ladders(small)
    if seconds > MAX_SECONDS or missing:
        missed.append(
            f"shapes-vit took {seconds:.0f} s of {MAX_SECONDS:.0f}{' and was not complete' if missing else ''}"
        )
    large, large_missing, large_seconds = search(catalog.make_spec("microsoft/resnet-50", weights="random"))
    if large_seconds > 60 * MINUTES + 1:
        missed.append(f"ResNet-50 took {large_seconds:.0f} s of {60 * MINUTES:.0f}")
    parts = ["import", "load", "compile or load", "first call"]
    ladder = report.table(["way", *parts, "together", "stopwatch", "apart"], rows)
    text = "\n\n".join(
        [
            f"shapes-vit, cache filled: {fmt.duration(seconds)}, {'not complete' if missing else 'complete'}.",
            f"```\n{best_command.best_report(small, missing)}\n```",
            f"Seconds to the first answer of the next process ({STARTS} starts by the stopwatch, their median):",
            ladder,
            f"ResNet-50 with random weights: {fmt.duration(large_seconds)} of {fmt.duration(60 * MINUTES)}, "
            f"{'not complete' if large_missing else 'complete'}.",
            f"```\n{best_command.best_report(large, large_missing)}\n```",
            f"Missed: {'; '.join(missed)}." if missed else "The aims are met.",
        ]
    )
    report.publish("best_way", "The search for the best way", text)
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
