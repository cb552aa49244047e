"""What each preset of stage mode takes, click to answer, with an empty compile cache and then with a filled one.

A speaker's limit is a minute on two idle CPU cores. Let nothing else run meanwhile. `python -m benchmarks.stage_presets
10` runs the preset with graph breaks ten times over a filled cache instead, and counts what it said they cost.
"""

import os
import sys
import tempfile
import time
from contextlib import closing

from benchmarks import report
from demo.core import catalog
from demo.core.languages import ENGLISH
from demo.core.result import RunResult
from demo.present import sentences
from demo.runs.runner import Runner
from demo.ui.page import Preset, presets

LIMIT_SECONDS = 60.0
SCENE = catalog.ASSETS / "examples" / "shapes-scene-1.png"


def run(runner: Runner, preset: Preset) -> RunResult:
    spec = catalog.make_spec(**preset, device="cpu")
    events = runner.run(spec, SCENE if spec.sees_picture else None)
    return next(event for event in events if isinstance(event, RunResult))


def count_slower(tries: int) -> None:
    """Fails where fewer than nine in ten tries say that the breaks make compiled slower."""
    breaks = next(preset for preset in presets(gpu=False) if preset.get("graph_break"))
    with closing(Runner(None)) as runner:
        run(runner, breaks)  # fills the cache
        results = [run(runner, breaks) for _ in range(tries)]
    costs = [result.break_cost for result in results]
    slower = sum(cost is not None and cost.verdict == "faster" for cost in costs)  # the model without breaks is
    for result in results:
        print(sentences.headline(result))
    print(f"slower with the breaks: {slower} of {tries}")
    if slower < 0.9 * tries:
        sys.exit(1)


def main() -> None:
    if len(sys.argv) > 1:
        return count_slower(int(sys.argv[1]))
    rows, failures = [], []
    for number, preset in enumerate(presets(gpu=False), 1):
        title = ENGLISH.plain(f"preset_{number}")
        with tempfile.TemporaryDirectory() as cache, closing(Runner(None)) as runner:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
            for state in ("empty", "filled"):
                started = time.perf_counter()
                result = run(runner, preset)
                seconds = time.perf_counter() - started
                rows.append([title, state, f"{seconds:.1f} s", sentences.headline(result)])
                if seconds > LIMIT_SECONDS or result.status != "ok":
                    failures.append(f"{title} ({state})")
    header = ["preset", "cache", "whole run", "answer"]
    report.publish("stage_presets", "The presets of stage mode", report.table(header, rows))
    if failures:
        sys.exit(f"over {LIMIT_SECONDS:.0f} s or failed: {', '.join(failures)}")


if __name__ == "__main__":
    main()
