"""How far a run's speed-up can be relied on: one mark with one reason, and at most one remedy.

The first rule that applies gives the mark:

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
"""Half-widths of the interval, relative to the speed-up: wider than 20 % is rough, at most 5 % may be solid."""
PROCESSES = 3
"""Fewest processes of a solid speed-up."""
GPU_TROUBLE = ("gpu_others", "gpu_clock", "gpu_slowed")
"""Keys of the caveats that say that the GPU was slower than usual."""


@dataclass(frozen=True)
class Quality:
    mark: Literal["solid", "fair", "rough"]
    reason: str
    """A clause: 'other programs used 24 % of the processor'."""
    remedy: Literal["", "repeat", "quiet"] = ""
    """'repeat': measure in one more process. 'quiet': run again while no other program works. '': nothing helps."""


def quality(result: RunResult) -> Quality | None:
    """Returns the mark of a run's speed-up; None for a failed run, a run without a speed-up or a recompiled model."""
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
