"""Times a run with the form's first settings: seconds from the click to the first eager call, and to the answer.

A spare worker, which has imported torch, is ready before the click. Cold is a first run with an empty inductor cache
(in a folder of its own); warm are later runs with the same cache. Limits on two CPU cores: 1.0 s to the first eager
call, 20 s to a cold answer, 8 s to a warm one.
"""

import os
import sys
import tempfile
import time

from benchmarks import report
from demo.core import catalog
from demo.core.options import RunSpec
from demo.core.progress import Progress, Provisional
from demo.core.result import RunResult
from demo.present.report import Report
from demo.runs.runner import Runner
from demo.sweep.grid import PICTURE

WARM_RUNS = 5
SPEC = catalog.make_spec(checkpoint="shapes-vit", task="image-classification")


def one_run(runner: Runner, spec: RunSpec = SPEC) -> tuple[float, float, RunResult]:
    """Makes a run. Returns the seconds to the first eager call, the seconds to the answer, and the result."""
    wait_until_ready(runner)
    started = time.perf_counter()
    first_eager = answered = 0.0
    for event in runner.run(spec, PICTURE):
        if isinstance(event, Progress):
            if event.eager_seconds is not None and not first_eager:
                first_eager = time.perf_counter() - started
            if isinstance(event, Provisional) and not answered:  # only the later start is still measured
                answered = time.perf_counter() - started
        else:
            result = event
    return first_eager, answered or time.perf_counter() - started, result


def wait_until_ready(runner: Runner) -> None:
    while runner.machine is None or not runner._spares or runner._spares[0].machine is None:
        time.sleep(0.1)
    time.sleep(1.0)


def main() -> None:
    rows, failures = [], []
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        runner = Runner(None, spare=True)
        for number in range(1 + WARM_RUNS):
            first, whole, result = one_run(runner)
            limit = 8.0 if number else 20.0
            compilation = result.compilation
            cached = compilation.cache if compilation else "-"
            rows.append(
                [
                    str(number + 1),
                    cached,
                    f"{first:.2f} s",
                    f"{whole:.1f} s",
                    f"{limit:.0f} s",
                    Report(result).headline,
                ]
            )
            if first > 1.0 or whole > limit or result.status != "ok":
                failures.append(number + 1)
        runner.close()
    header = ["run", "cache", "click to first eager time", "answer after", "limit", "answer"]
    report.publish("default_run", "The default run", report.table(header, rows))
    if failures:
        sys.exit(f"over the limit in run {failures}")


if __name__ == "__main__":
    main()
