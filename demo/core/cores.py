"""How many CPU cores this process may use, and how many of them other programs leave free, read from Linux's /proc.

The time of other programs is all busy time of the cores minus the time of this program. The app subtracts its own time
and that of all its child processes. A worker process has to read quickly: it subtracts only its own time, that of its
children that have ended, and the app's.

The time of other programs is not known without /proc, or if a container's quota allows fewer cores than the CPU
affinity.
"""

import contextlib
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import cgroup

PROC, PROC_STAT = Path("/proc"), Path("/proc/stat")
TAKEN = 0.25
"""A core counts as free if other programs use at most this share of it. The share is small, because torch's threads
wait for the slowest of them after every operation."""
BUSY_CPU = 0.10
"""A run counts as disturbed if other programs use more than this share of all cores, 0 to 1."""
APP_VARIABLE = "DEMO_APP_PID"
"""Environment variable that tells a worker process the process id of the app."""
SPIN_COUNT = "3000"
"""How many times a waiting OpenMP thread of a worker looks for work before it sleeps.

This holds unless the user has set how threads wait. Without this bound all threads spin while one waits for its core.
While another program used one of two cores, a call of 10 ms took 1.5 s without the bound and 0.05 s with it. On an
idle machine the bound costs nothing.
"""
LOOKS, LOOK_SECONDS = 3, 0.3
"""How many times the processor time of other programs is measured, and for how many seconds each time. `free_cores`
counts one measurement before these, and measures no more once enough cores are free."""
PATIENT_LOOKS = 16
"""How many times, within about five seconds, a run checks whether a busy core is free again.

After that it uses fewer threads. Opening the page in a browser on the same machine keeps a core busy for two to four
seconds."""
WAIT_SECONDS = PATIENT_LOOKS * LOOK_SECONDS
CROWD_LOOKS, CROWD_SECONDS = 3, 0.06
"""How many times `crowd` counts the processes that are ready to run, and within how many seconds in total."""


def usable_cores() -> int:
    """Returns how many CPU cores this process may use, at least 1. A container's quota of 1.5 cores counts as 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # Under a quota of 1.5 the kernel would pause two threads often.
    return max(1, math.floor(min(cores, cgroup.cpu_quota())))


@dataclass(frozen=True)
class Reading:
    """Processor time in seconds, counted since the machine started, on the cores that this process may use."""

    cores: int
    total: float
    """Seconds of all cores together, busy and idle."""
    busy: float
    """Time that any process used, or that a hypervisor gave to other machines (steal)."""
    own: float

    def foreign_share(self, later: "Reading") -> float | None:
        """Returns the share of the cores, 0 to 1, that other programs used between this reading and `later`.

        None if no time passed between the two.
        """
        total = later.total - self.total
        if total <= 0:
            return None
        return min(1.0, max(0.0, (later.busy - self.busy - later.own + self.own) / total))

    def free(self, later: "Reading") -> float | None:
        share = self.foreign_share(later)
        return None if share is None else later.cores * (1 - share)


def sample() -> Reading | None:
    """Returns the processor time used until now; None without /proc, or if a container's CPU quota is low.

    With a quota below the number of cores, processor time does not tell how many cores this program can still use.
    """
    try:
        usable, children = os.sched_getaffinity(0), os.times()
        if cgroup.cpu_quota() < len(usable):
            return None
        own = time.process_time() + children.children_user + children.children_system + _relatives_seconds()
        ticks = [
            [int(value) for value in times[:8]]  # the ninth and tenth (guests) are counted in the first two
            for name, *times in map(str.split, PROC_STAT.read_text().splitlines())
            if name.removeprefix("cpu").isdigit() and name != "cpu" and int(name.removeprefix("cpu")) in usable
        ]
        a_second = os.sysconf("SC_CLK_TCK")
    except (AttributeError, IndexError, OSError, ValueError):
        return None
    if not ticks:
        return None
    total = sum(map(sum, ticks))
    idle = sum(core[3] + core[4] for core in ticks)  # idle, and waiting for a disk
    return Reading(len(ticks), total / a_second, (total - idle) / a_second, own)


def others_share() -> float | None:
    """Returns the share of the cores, 0 to 1, that other programs use now; None if not known. Takes about a second.

    The share is measured `LOOKS` times, and the smallest is returned. A short burst of another program is thus ignored.
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
    """Returns the CPU seconds of other processes of this program that still run.

    In a worker this is the app's process. In the app these are all its descendants: its children, their children, and
    so on.
    """
    own, a_second = os.getpid(), os.sysconf("SC_CLK_TCK")
    if app := os.environ.get(APP_VARIABLE):
        with contextlib.suppress(OSError):  # hidden from other processes
            return sum(_read_stat(PROC / app / "stat")[1][:2]) / a_second
        return 0.0
    parents: dict[int, tuple[int, list[int]]] = {}
    for file in PROC.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # it ended meanwhile
            parents[int(file.parent.name)] = _read_stat(file)
    family = {own}
    while children := {process for process, (parent, _) in parents.items() if parent in family} - family:
        family |= children
    return sum(sum(parents[process][1]) for process in family - {own}) / a_second


def _read_stat(stat: Path) -> tuple[int, list[int]]:
    """Returns what the file /proc/ID/stat says about a process: its parent's id, and its CPU times in clock ticks.

    The four times: user and system time of the process, then those of its ended children.
    """
    fields = stat.read_text().rpartition(")")[2].split()  # a process's name, in parentheses, may hold spaces
    return int(fields[1]), [int(field) for field in fields[11:15]]


def free_cores(
    since: Reading | None,
    wanted: int | None = None,
    looks: int = LOOKS,
    on_wait: Callable[[], None] = lambda: None,
) -> int | None:
    """Returns how many whole cores other programs leave free, at least 1; None if not known, or if `since` is None.

    - `since`: the start of the first measurement, which ends now.
    - `wanted`: how many free cores are enough. None: all that this process may use.
    - `looks`: how many short measurements may follow while too few cores are free. `on_wait` is called before each.
    - The largest number of free cores is returned, so a short burst of another program is ignored.
    """
    free = whole_cores_left(since, sample())
    for _ in range(looks):
        if free is None or free >= (usable_cores() if wanted is None else wanted):
            return free
        on_wait()
        before = sample()
        time.sleep(LOOK_SECONDS)
        free = max(free, whole_cores_left(before, sample()) or 0)
    return free


@dataclass(frozen=True)
class Crowd:
    """How other programs load the cores of this machine now."""

    factor: float = 1.0
    """How many times longer a computation on one core takes because of other programs; at least 1."""
    free: int | None = None
    """How many whole cores other programs leave free, at least 1; None if they leave all free, or if not known."""


def crowd() -> Crowd:
    """Returns how other programs load the cores now. Takes 0.06 s.

    It counts the processes of other programs that are ready to run, and assumes that one process of this program shares
    the cores with them. Without /proc, or if a CPU quota is low, it returns `Crowd()`: no load.
    """
    before, ready, began = sample(), list[int](), time.monotonic()
    for _ in range(CROWD_LOOKS):
        time.sleep(CROWD_SECONDS / CROWD_LOOKS)
        with contextlib.suppress(OSError, ValueError, StopIteration):
            lines = PROC_STAT.read_text().splitlines()
            ready.append(int(next(line.split()[1] for line in lines if line.startswith("procs_running"))) - 1)
    after, seconds = sample(), time.monotonic() - began
    if before is None or after is None or not ready:
        return Crowd()
    others = sum(ready) / len(ready) - (after.own - before.own) / seconds
    cores = os.cpu_count() or 1
    free = max(1, min(usable_cores(), cores - round(others)))
    return Crowd(max(1.0, (others + 1) / cores), free if free < usable_cores() else None)


def free_now() -> int | None:
    """Returns how many whole cores other programs leave free now, at least 1; None if not known.

    A short burst of another program does not count. Takes 0.3 s, or up to 1.2 s if a core seems taken.
    """
    before = sample()
    time.sleep(LOOK_SECONDS)
    return free_cores(before)


def whole_cores_left(before: Reading | None, after: Reading | None) -> int | None:
    """Returns how many whole cores other programs left free between two readings, at least 1; None if not known."""
    free = before.free(after) if before is not None and after is not None else None
    return None if free is None else max(1, math.floor(free + TAKEN))
