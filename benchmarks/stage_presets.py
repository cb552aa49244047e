"""What each preset of stage mode takes, click to answer, with an empty compile cache and then with a filled one.

A speaker's limit is a minute on two idle CPU cores. Let nothing else run meanwhile.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import closing

from benchmarks import report
from demo.core import catalog
from demo.core.result import RunResult
from demo.present import sentences
from demo.runs.runner import Runner
from demo.ui.tabs.stage_mode import presets

LIMIT_SECONDS = 60.0
SCENE = catalog.ASSETS / "examples" / "shapes-scene-1.png"


def main() -> None:
    rows, failures = [], []
    for preset in presets(gpu=False):
        with tempfile.TemporaryDirectory() as cache, closing(Runner(None)) as runner:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
            for state in ("empty", "filled"):
                started = time.perf_counter()
                spec = catalog.make_spec(**preset.values, device="cpu")
                result = next(
                    event
                    for event in runner.run(spec, SCENE if spec.sees_picture else None)
                    if isinstance(event, RunResult)
                )
                seconds = time.perf_counter() - started
                rows.append([preset.title, state, f"{seconds:.1f} s", sentences.headline(result)])
                if seconds > LIMIT_SECONDS or result.status != "ok":
                    failures.append(f"{preset.title} ({state})")
    header = ["preset", "cache", "whole run", "answer"]
    report.publish("stage_presets", "The presets of stage mode", report.table(header, rows))
    if failures:
        sys.exit(f"over {LIMIT_SECONDS:.0f} s or failed: {', '.join(failures)}")


if __name__ == "__main__":
    main()
