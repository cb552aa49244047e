"""How many cores this process may use, and how many other programs leave free, by Linux's count of processor time.

- Covered: the affinity of this process and its container's quota; what other programs and a hypervisor used of the
  usable cores between two readings.
- This program counts as no other: in the app, the app with all that it started; in a worker, which must read quickly,
  the worker and the app.
- Not covered: processes that a worker has started. While they run, the worker takes them for other programs.
- Unknown: what others use under a quota below the affinity, as on a shared node, and on systems without /proc.
"""

import contextlib
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path

PROC, PROC_STAT = Path("/proc"), Path("/proc/stat")
TAKEN = 0.25
"""A core counts as taken when others use a quarter of it: threads that meet at a barrier wait for the slowest."""
QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""A container's quota (cgroup v2): microseconds in each period, and the period."""
BUSY_CPU = 0.10
"""Share of the cores used by others from which a run counts as disturbed."""
APP_VARIABLE = "DEMO_APP_PID"
"""In a worker's environment: the process id of the app."""
LOOKS, LOOK_SECONDS = 3, 0.3
"""Number and length of the windows in which this process idles and looks for others."""


def usable_cores() -> int:
    """The CPU cores that this process may use; a quota in whole cores: with 1.5 two threads would pause in turns."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.floor(min(cores, _quota())))


def _quota() -> float:
    """Cores that the container allows this process; infinite without a limit."""
    try:
        quota, period = QUOTA.read_text().split()
        return int(quota) / int(period)
    except (OSError, ValueError):  # not there, or 'max'
        return math.inf


@dataclass(frozen=True)
class Reading:
    """Seconds of processor time so far."""

    cores: int
    """Cores that this process may use."""
    total: float
    """All these cores together, idle time included."""
    busy: float
    """What any process used of them, and what a hypervisor kept back (steal)."""
    own: float
    """What this program used."""

    def foreign_share(self, later: "Reading") -> float | None:
        """The share of the cores, 0 to 1, that others used until `later`; None if no time has passed."""
        total = later.total - self.total
        if total <= 0:
            return None
        return min(1.0, max(0.0, (later.busy - self.busy - later.own + self.own) / total))

    def free(self, later: "Reading") -> float | None:
        """The cores that others left until `later`, with fraction; None if no time has passed."""
        share = self.foreign_share(later)
        return None if share is None else later.cores * (1 - share)


def sample() -> Reading | None:
    """None if /proc does not say, and under a quota: what others use of the node takes nothing from it."""
    try:
        usable, children = os.sched_getaffinity(0), os.times()
        if _quota() < len(usable):
            return None
        own = time.process_time() + children.children_user + children.children_system + _relatives_seconds()
        ticks = [
            [int(value) for value in times[:8]]
            for name, *times in map(str.split, PROC_STAT.read_text().splitlines())
            if name.removeprefix("cpu").isdigit() and name != "cpu" and int(name.removeprefix("cpu")) in usable
        ]
        a_second = os.sysconf("SC_CLK_TCK")
    except (AttributeError, IndexError, OSError, ValueError):
        return None
    if not ticks:
        return None
    total = sum(map(sum, ticks))
    idle = sum(core[3] + core[4] for core in ticks)
    return Reading(len(ticks), total / a_second, (total - idle) / a_second, own)


def others_share() -> float | None:
    """The share of the cores, 0 to 1, that other programs use now; None if not known.

    The least of several windows: a moment of work is no busy machine.
    """
    shares = []
    for _ in range(LOOKS):
        before = sample()
        time.sleep(LOOK_SECONDS)
        after = sample()
        if before is None or after is None or (share := before.foreign_share(after)) is None:
            return None
        shares.append(share)
    return min(shares)


def _relatives_seconds() -> float:
    """Processor time so far of this program's other running processes: a worker's app, or the app's descendants."""
    own, a_second = os.getpid(), os.sysconf("SC_CLK_TCK")
    if app := os.environ.get(APP_VARIABLE):
        with contextlib.suppress(OSError):  # hidden from other processes
            return sum(_times(PROC / app / "stat")[1][:2]) / a_second
        return 0.0
    parents: dict[int, tuple[int, list[int]]] = {}
    for file in PROC.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # it ended meanwhile
            parents[int(file.parent.name)] = _times(file)
    family = {own}
    while children := {process for process, (parent, _) in parents.items() if parent in family} - family:
        family |= children
    return sum(sum(parents[process][1]) for process in family - {own}) / a_second


def _times(stat: Path) -> tuple[int, list[int]]:
    """The parent of a process, and clock ticks: its user and system time, and those of its ended children."""
    fields = stat.read_text().rpartition(")")[2].split()
    return int(fields[1]), [int(field) for field in fields[11:15]]


def free_cores(since: Reading | None) -> int | None:
    """The cores that other processes leave free; None if not known.

    The first window begins with `since`, before this process loaded its model. If others were busy in it, this looks
    again while it idles, and takes the least busy window: a click on a page keeps server and browser busy.
    """
    free = left(since, sample())
    for _ in range(LOOKS):
        if free is None or free >= usable_cores():
            return free
        before = sample()
        time.sleep(LOOK_SECONDS)
        free = max(free, left(before, sample()) or 0)
    return free


def free_now() -> int | None:
    """As `free_cores`, for a window that begins now."""
    before = sample()
    time.sleep(LOOK_SECONDS)
    return free_cores(before)


def left(before: Reading | None, after: Reading | None) -> int | None:
    """The whole cores that others left free between two readings, at least one; None if not known."""
    free = before.free(after) if before is not None and after is not None else None
    return None if free is None else max(1, math.floor(free + TAKEN))
