"""Tests of how many cores a process may use, and how many other programs leave free, with a made-up /proc."""

import itertools
import math
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from demo.core import cgroup, cores
from demo.core.cores import Crowd, Reading, whole_cores_left


@pytest.fixture
def stat(tmp_path, monkeypatch) -> Path:
    """Simulates a process that may use cores 1 and 2 of four. Returns the path of its made-up /proc/stat."""
    file = tmp_path / "stat"
    monkeypatch.setattr(cores, "PROC_STAT", file)
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda _: {1, 2})
    monkeypatch.setattr(cores.os, "sysconf", lambda _: 100)
    monkeypatch.setattr(cgroup, "cpu_quota", lambda: math.inf)
    return file


def test_the_usable_cores_are_read_with_steal(stat: Path) -> None:
    unused = ["cpu  9 9 9 9 9 9 9 9 9 9", "cpu0 500 0 0 0 0 0 0 0 0 0", "cpu3 500 0 0 0 0 0 0 0 0 0", "intr 1 2 3"]
    stat.write_text("\n".join([*unused, "cpu1 10 20 30 400 50 6 7 77 0 0", "cpu2 100 0 0 500 0 0 0 0 0 0"]))
    reading = cores.sample()
    assert (reading.cores, reading.total, reading.busy) == (2, 12.0, pytest.approx(2.5))


def test_under_a_quota_nothing_is_known_of_others(stat: Path, monkeypatch) -> None:
    stat.write_text("cpu1 10 20 30 400 50 6 7 77 0 0\n")
    assert cores.sample() is not None
    monkeypatch.setattr(cgroup, "cpu_quota", lambda: 1.5)
    assert cores.sample() is None


@pytest.mark.parametrize(
    ("ready", "own", "factor", "free"),
    [(1, 0.0, 1.0, None), (2, 0.0, 1.0, 1), (3, 0.0, 1.5, 1), (17, 0.0, 8.5, 1), (3, 2.0, 1.0, None)],
    ids=["idle", "one other", "one on each core", "sixteen", "this program's own"],
)
def test_programs_that_can_run_share_the_cores(
    ready: int, own: float, factor: float, free: int | None, stat: Path, monkeypatch
) -> None:
    """`ready`: how many processes can run on the two cores, this one included.

    `own`: cores that this program's processes use.
    """
    stat.write_text(f"ctxt 5\nprocs_running {ready}\n")
    now = itertools.count()
    monkeypatch.setattr(cores, "time", SimpleNamespace(sleep=lambda _: None, monotonic=lambda: float(next(now))))
    readings = iter([Reading(2, 0.0, 0.0, 0.0), Reading(2, 2.0, 2.0, own)])
    monkeypatch.setattr(cores, "sample", lambda: next(readings))
    monkeypatch.setattr(cores.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(cores, "usable_cores", lambda: 2)
    assert cores.crowd() == Crowd(factor, free)


@pytest.mark.parametrize(("others", "whole"), [(0.0, 4), (0.25, 4), (0.3, 3), (1.3, 2), (2.4, 1), (4.0, 1)])
def test_a_core_counts_as_taken_from_a_quarter_on(others: float, whole: int) -> None:
    before, after = Reading(4, 0.0, 0.0, 0.0), Reading(4, 4.0, others + 0.5, 0.5)
    assert whole_cores_left(before, after) == whole


@pytest.mark.parametrize(
    ("windows", "free", "looks"),
    [
        ([0.0], 2, 0),  # nothing is busy: no time is lost
        ([1.0, 0.0], 2, 1),  # busy at the click only
        ([1.0, 1.0, 0.1], 2, 2),
        ([1.0, 1.0, 1.0, 1.0], 1, 3),
    ],
)
def test_a_busy_window_is_followed_by_others(windows: list[float], free: int, looks: int, monkeypatch) -> None:
    slept: list[float] = []
    busy = [0.0, *itertools.accumulate(windows)]
    ends = [Reading(2, 2.0 * number, seconds, 0.0) for number, seconds in enumerate(busy)]
    readings = iter([ends[0], *(end for end in ends[1:] for _ in range(2))])  # a window begins at the end of the last
    monkeypatch.setattr(cores, "usable_cores", lambda: 2)
    monkeypatch.setattr(cores, "sample", lambda: next(readings))
    monkeypatch.setattr(cores.time, "sleep", slept.append)
    assert cores.free_cores(cores.sample()) == free
    assert slept == [cores.LOOK_SECONDS] * looks


@pytest.mark.parametrize(
    ("busy_looks", "wanted", "free", "waits"),
    [(0, 2, 2, 0), (9, 2, 2, 9), (99, 2, 1, cores.PATIENT_LOOKS), (99, 1, 1, 0)],
    ids=["free", "taken for a moment", "taken for good", "not wanted"],
)
def test_a_patient_look_waits_for_the_wanted_cores(
    busy_looks: int, wanted: int, free: int, waits: int, monkeypatch
) -> None:
    """On a simulated clock, another program uses one of two cores for `busy_looks` looks."""
    now, waited = [1.0], []
    moment = cores.LOOK_SECONDS

    def reading() -> Reading:
        return Reading(2, 2 * now[0], min(now[0], busy_looks * moment), 0.0)

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(cores, "usable_cores", lambda: 2)
    monkeypatch.setattr(cores, "sample", reading)
    monkeypatch.setattr(cores.time, "sleep", sleep)
    now[0] = 0.0
    before = reading()
    sleep(moment)
    assert cores.free_cores(before, wanted, cores.PATIENT_LOOKS, lambda: waited.append(now[0])) == free
    assert len(waited) == waits and len(waited) * moment <= 5.0


@pytest.mark.skipif(cores.sample() is None, reason="no /proc here")
def test_a_process_that_never_rests_is_seen(monkeypatch) -> None:
    """A busy process gets at least a quarter of a core.

    It is a child of this one, and here children count as other programs.
    """
    monkeypatch.setattr(cores, "_relatives_seconds", lambda: 0.0)
    with subprocess.Popen([sys.executable, "-c", "import time\nwhile time.process_time() < 5: pass"]) as busy:
        before = cores.sample()
        time.sleep(1.0)
        after = cores.sample()
        busy.kill()
    assert (before.foreign_share(after) or 0.0) * before.cores > 0.25


@pytest.mark.parametrize(("busy", "own", "share"), [(0.8, 0.0, 0.4), (0.8, 0.8, 0.0), (0.0, 0.0, 0.0)])
def test_the_share_of_others_is_the_least_of_its_windows(busy: float, own: float, share: float, monkeypatch) -> None:
    first, last = Reading(2, 2.0, 2.0, 0.0), Reading(2, 2.0, busy, own)
    nothing = Reading(2, 0.0, 0.0, 0.0)
    readings = iter([nothing, first, nothing, first, nothing, last])
    monkeypatch.setattr(cores, "sample", lambda: next(readings))
    monkeypatch.setattr(cores.time, "sleep", lambda seconds: None)
    assert cores.others_share() == pytest.approx(share)


@pytest.mark.parametrize(("app", "seconds"), [("", 5.0), ("7", 3.0), ("99", 0.0)], ids=["app", "worker", "hidden app"])
def test_this_programs_other_processes_are_no_others(app: str, seconds: float, tmp_path, monkeypatch) -> None:
    """The app leaves out all its descendants. A worker leaves out the app only, which can be read quickly."""
    times = {7: (1, 100, 200, 50, 0), 8: (7, 100, 0, 300, 0), 9: (8, 100, 0, 0, 0), 10: (1, 900, 0, 0, 0)}
    for process, (parent, *ticks) in times.items():
        (tmp_path / f"{process}").mkdir()
        fields = ["S", parent, *[0] * 9, *ticks]
        (tmp_path / f"{process}" / "stat").write_text(f"{process} (a) b) {' '.join(map(str, fields))} 0 0\n")
    monkeypatch.setenv(cores.APP_VARIABLE, app)
    monkeypatch.setattr(cores, "PROC", tmp_path)
    monkeypatch.setattr(cores.os, "getpid", lambda: 7)
    monkeypatch.setattr(cores.os, "sysconf", lambda _: 100)
    assert cores._relatives_seconds() == seconds


@pytest.mark.parametrize(("quota", "whole"), [(math.inf, 6), (4.0, 4), (1.5, 1), (0.5, 1)])
def test_a_quota_counts_in_whole_cores(quota: float, whole: int, monkeypatch) -> None:
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    monkeypatch.setattr(cgroup, "cpu_quota", lambda: quota)
    assert cores.usable_cores() == whole
