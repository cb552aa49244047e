"""Reads how many cores and how much memory this process may use under Linux control groups, such as a container's.

Control groups are nested: the lowest limit of the process's own group and of all groups around it holds. Versions 1 and
2 of control groups are read. Without control groups, as on macOS, there is no limit.
"""

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

CGROUP_ROOT, OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def cpu_quota() -> float:
    """Returns how many cores this process may use on average, such as 1.5; infinity without a limit."""
    quotas = [math.inf]
    for group in _groups("cpu"):
        with contextlib.suppress(OSError, ValueError, ZeroDivisionError):  # version 2: '150000 100000', or 'max 100000'
            quota, period = (group / "cpu.max").read_text().split()
            quotas.append(int(quota) / int(period))
        if (allowed := _number(group / "cpu.cfs_quota_us")) is not None and allowed > 0:  # version 1; -1: no limit
            quotas.append(allowed / (_number(group / "cpu.cfs_period_us") or 100_000))
    return min(quotas)


def memory_limit() -> float:
    """Returns the bytes of memory that this process may use.

    Without a limit: infinity, or about 2**63 under version 1 of control groups.
    """
    return min((limit for limit, _ in _memory()), default=math.inf)


def memory_left() -> float:
    """Returns the bytes that this process can still allocate under its control groups.

    Without a limit: as `memory_limit`.
    """
    return min((limit - used for limit, used in _memory()), default=math.inf)


def _memory() -> Iterator[tuple[int, int]]:
    """Yields (limit, used), in bytes, for each control group that has a memory limit.

    Cached files that were not used lately do not count as used, because the kernel drops them first.
    """
    names = [("memory.max", "memory.current", "inactive_file ")]
    names += [("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ")]
    for group in _groups("memory"):
        for limit_name, used_name, cached_name in names:
            limit, used, cached = _number(group / limit_name), _number(group / used_name), 0
            with contextlib.suppress(OSError, ValueError):
                lines = (group / "memory.stat").read_text().splitlines()
                cached = sum(int(line.split()[1]) for line in lines if line.startswith(cached_name))
            if limit is not None:
                yield limit, (used or 0) - cached


def _groups(controller: str) -> Iterator[Path]:
    """Yields the folders of this process's control groups that `controller`, such as "cpu", may limit.

    Each mounted tree of groups gives the process's own group first, then each group around it, up to the root.
    """
    mounts = {CGROUP_ROOT: PurePosixPath("/"), CGROUP_ROOT / controller: PurePosixPath("/")}
    with contextlib.suppress(OSError, ValueError):
        for line in OWN_GROUPS.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:  # version 2; in a hybrid tree it has a folder of its own
                mounts[CGROUP_ROOT] = mounts[CGROUP_ROOT / "unified"] = PurePosixPath(path)
            elif controller in controllers.split(","):
                mounts[CGROUP_ROOT / controller] = mounts[CGROUP_ROOT / controllers] = PurePosixPath(path)
    for mount, own in mounts.items():
        inside = own.relative_to("/") if own.is_absolute() and ".." not in own.parts else PurePosixPath()
        yield from (mount / part for part in (inside, *inside.parents))


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):  # not there, or 'max'
        return None
