"""How far an answer can be relied on: one mark, with one reason and at most one way out.

The first that applies:

1. Rough: other programs took cores, used more than `BUSY_CPU` of the processor or used the GPU; or the GPU slowed down.
2. Rough: eager and compiled were timed one after the other, so drift of the machine is not cancelled.
3. Rough: the interval is wider than `ROUGH` to either side.
4. Fair: fewer than `PROCESSES` processes, or an interval wider than `SOLID`.
5. Solid.
"""

from dataclasses import dataclass
from typing import Literal

from demo.core import format as fmt
from demo.core.cores import BUSY_CPU
from demo.core.result import RunResult

ROUGH, SOLID = 0.20, 0.05
"""Half-widths of the interval."""
PROCESSES = 3
GPU_TROUBLE = ("gpu_others", "gpu_clock", "gpu_slowed")
"""Caveats of a GPU that was not at its usual speed."""


@dataclass(frozen=True)
class Quality:
    mark: Literal["solid", "fair", "rough"]
    reason: str
    """A clause: 'other programs used 24 % of the processor'."""
    remedy: Literal["", "repeat", "quiet"] = ""
    """One more process, or a run when nothing else runs."""


def quality(result: RunResult) -> Quality | None:
    """The mark of a run's answer; None without a speed-up, or if a recompile voids it."""
    speedup = result.speedup
    if speedup is None or result.failure is not None or result.void:
        return None
    others = result.others_share
    if result.oversubscribed:
        return Quality("rough", "other programs took cores while it was timed", "quiet")
    if others is not None and others > BUSY_CPU:
        return Quality("rough", f"other programs used {fmt.percent(others)} of the processor", "quiet")
    for caveat in result.caveats:
        if caveat.key in GPU_TROUBLE:
            return Quality("rough", str(caveat).removesuffix("."), "quiet" if caveat.key == "gpu_others" else "repeat")
    if result.spec.protocol == "as published":
        return Quality("rough", "eager and compiled were timed one after the other")
    width = f"the interval is ±{fmt.percent(speedup.half_width)} wide"
    if speedup.half_width > ROUGH:
        return Quality("rough", width, "repeat")
    if speedup.processes < PROCESSES:
        return Quality("fair", f"it rests on {fmt.count(speedup.processes, 'process')}", "repeat")
    if speedup.half_width > SOLID:
        return Quality("fair", width, "repeat")
    return Quality("solid", f"{speedup.processes} processes, and {width}")
