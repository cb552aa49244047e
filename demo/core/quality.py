"""How far a run's speed-up can be relied on: a mark (rough, fair or solid) with its reason and a remedy.

- rough: other programs disturbed a process that counts, eager and compiled did not take turns, or the interval is wider
  than ±`ROUGH`.
- fair: fewer than `PROCESSES` processes, an interval wider than ±`SOLID`, or eager waits for a GPU's host while other
  programs use that host.
- solid: otherwise.

A GPU that lowers its clock does not change the mark: eager and compiled slow down alike. If they do not, the interval
becomes wider.
"""

from dataclasses import dataclass
from typing import Literal

from . import format as fmt
from .cores import BUSY_CPU
from .result import RunResult

ROUGH, SOLID = 0.20, 0.05
"""Half-widths of the 95 % interval, relative to the speed-up. Above 20 %, the mark is rough; up to 5 %, it may be
solid."""
PROCESSES = 3
"""A speed-up can be solid only if it is pooled over at least this many processes."""


@dataclass(frozen=True)
class Quality:
    mark: Literal["solid", "fair", "rough"]
    reason: str
    """A clause: 'other programs used 24 % of the processor'."""
    remedy: Literal["", "repeat", "quiet"] = ""
    """'repeat': measure in one more process. 'quiet': run again while no other program works. '': no remedy."""


def quality(result: RunResult) -> Quality | None:
    """Returns how reliable a run's speed-up is.

    Returns None if the run failed, has no speed-up, or compiled the model again while it was timed.
    """
    speedup = result.speedup
    if speedup is None or result.failure is not None or result.void:
        return None
    if not result.set_aside and (disturbed := _disturbance(result)):
        return Quality("rough", disturbed, "quiet")
    if not result.in_turns:
        return Quality("rough", "eager and compiled were timed one after the other")
    width = f"the interval is ±{fmt.percent(speedup.half_width)} wide"
    if speedup.half_width > ROUGH:
        return Quality("rough", width, "repeat")
    if result.host_disturbed and not result.set_aside:
        taken = fmt.percent(result.host_taken or 0.0)
        return Quality("fair", f"others kept the host, for which eager waits, from it for {taken} of the time", "quiet")
    if speedup.processes < PROCESSES:
        return Quality("fair", f"it rests on {fmt.count(speedup.processes, 'process')}", "repeat")
    if speedup.half_width > SOLID:
        return Quality("fair", width, "repeat")
    return Quality("solid", f"{speedup.processes} processes, and {width}")


def _disturbance(result: RunResult) -> str:
    """Returns, as a clause, how other programs disturbed the process of this run; '' if they did not."""
    others = result.others_share
    if result.oversubscribed:
        return "other programs took cores while it was timed"
    if others is not None and others > BUSY_CPU:
        return f"other programs used {fmt.percent(others)} of the processor"
    return next((str(caveat).removesuffix(".") for caveat in result.caveats if caveat.key == "gpu_others"), "")
