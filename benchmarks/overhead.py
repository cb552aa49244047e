"""Measures how long the timing takes besides the timed calls: samples of the machine, messages, statistics, the clock.

Reported is the share of the timing's wall time that lies outside of timed calls, in whole runs of the bundled
vision checkpoints. Aim: less than 5 %.
"""

import sys

from benchmarks import report
from demo.core import catalog
from demo.core.result import RunResult
from demo.runs.runner import Runner
from demo.sweep.grid import PICTURE

AIM = 0.05


def main() -> None:
    runner = Runner(None)
    rows, above = [], []
    for checkpoint in catalog.BUNDLED_VISION:
        *_, result = runner.run(catalog.make_spec(checkpoint.id), PICTURE)
        if not isinstance(result, RunResult) or result.timing_seconds is None:
            sys.exit(f"the run of {checkpoint.id} gave no figures")
        variants = [variant for variant in (result.eager, result.compiled, result.control_times) if variant]
        timed = sum(sum(variant.wall_seconds + variant.settling_seconds) for variant in variants)
        share = 1 - timed / result.timing_seconds
        calls = sum(len(variant.wall_seconds + variant.settling_seconds) for variant in variants)
        rows.append([checkpoint.id, str(calls), f"{timed:.2f} s", f"{result.timing_seconds:.2f} s", f"{share:.1%}"])
        if share >= AIM:
            above.append(checkpoint.id)
    header = ["checkpoint", "timed calls", "in timed calls", "timing in all", "outside"]
    report.publish("overhead", "Time outside the timed calls", report.table(header, rows))
    if above:
        sys.exit(f"5 % or more: {', '.join(above)}")


if __name__ == "__main__":
    main()
