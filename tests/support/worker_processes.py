"""Finds processes on this machine, for tests that a worker leaves none behind."""

import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

needs_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


def processes_with(marker: str) -> list[int]:
    """Returns the ids of living processes whose environment holds `marker`: a worker and all its descendants."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if marker.encode() in (folder / "environ").read_bytes() and not is_zombie(folder):
                pids.append(int(folder.name))
    return pids


def is_zombie(folder: Path) -> bool:
    return (folder / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"


def alive(pid: int) -> bool:
    """Returns False for a process that is gone, or a zombie whose parent has not waited for it yet."""
    with contextlib.suppress(OSError):
        return not is_zombie(Path(f"/proc/{pid}"))
    return False


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
