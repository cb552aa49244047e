"""How many cores a process may use, and what other processes leave of them, by readings of a made-up /proc."""

import math
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from demo.core import cores
from demo.core.cores import Reading, left


@pytest.fixture
def stat(tmp_path, monkeypatch) -> Path:
    """A made-up /proc/stat of a process that may use cores 1 and 2 of four."""
    file = tmp_path / "stat"
    monkeypatch.setattr(cores, "PROC_STAT", file)
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda _: {1, 2})
    monkeypatch.setattr(cores.os, "sysconf", lambda _: 100)
    monkeypatch.setattr(cores, "_quota", lambda: (math.inf, tmp_path))
    return file


def test_only_the_usable_cores_are_read_and_steal_is_busy(stat: Path) -> None:
    lines = ["cpu  9 9 9 9 9 9 9 9 9 9", "cpu0 500 0 0 0 0 0 0 0 0 0", "cpu1 10 20 30 400 50 6 7 77 0 0"]
    lines += ["cpu2 100 0 0 500 0 0 0 0 0 0", "cpu3 500 0 0 0 0 0 0 0 0 0", "intr 1 2 3"]
    stat.write_text("\n".join(lines))
    reading = cores.read()
    assert (reading.cores, reading.total, reading.busy) == (2, 12.0, pytest.approx(2.5))


@pytest.mark.parametrize(
    ("quota", "others", "share", "whole"),
    [(1.0, 0.0, 0.0, 1), (1.5, 0.6, 0.4, 1), (1.5, 0.0, 0.0, 1), (2.0, 0.0, 0.75, 1)],
    ids=["none in the group", "one in the group", "a part of a core", "a quota of all cores"],
)
def test_with_a_quota_below_the_affinity_the_others_are_those_of_the_group(
    quota: float, others: float, share: float, whole: int, stat: Path, tmp_path, monkeypatch
) -> None:
    """All four cores of the node are busy with other tenants."""
    now = SimpleNamespace(wall=100.0, own=0.0)
    monkeypatch.setattr(cores, "_quota", lambda: (quota, tmp_path))
    monkeypatch.setattr(cores.time, "monotonic", lambda: now.wall)
    monkeypatch.setattr(cores.time, "process_time", lambda: now.own)
    readings = []
    for second in range(2):
        now.wall, now.own = 100.0 + second, 0.5 * second
        stat.write_text("\n".join(f"cpu{core} {100 * second} 0 0 0 0 0 0 0 0 0" for core in range(4)))
        used = int(1e6 * second * (0.5 + others))
        (tmp_path / "cpu.stat").write_text(f"usage_usec {used}\nuser_usec 1\nnr_throttled 0\nthrottled_usec 0\n")
        readings.append(cores.read())
    before, after = readings
    assert before.foreign_share(after) == pytest.approx(share)
    assert cores.left(before, after) == whole


@pytest.mark.parametrize(
    ("cores", "usable", "others", "whole"),
    [
        *[(4, 4, others, whole) for others, whole in [(0.0, 4), (0.25, 4), (0.3, 3), (1.3, 2), (2.4, 1), (4.0, 1)]],
        (8, 2, 3.0, 2),  # a quota bounds what is free, and leaves room for others
        (8, 2, 7.0, 1),
    ],
)
def test_a_core_counts_as_taken_from_a_quarter_on_and_one_is_always_left(
    cores: int, usable: int, others: float, whole: int, monkeypatch
) -> None:
    monkeypatch.setattr("demo.core.cores.usable_cores", lambda: usable)
    before, after = Reading(cores, 0.0, 0.0, 0.0), Reading(cores, float(cores), others + 0.5, 0.5)
    assert after.free(after) is None
    assert left(before, after) == whole


@pytest.mark.parametrize(
    ("windows", "free", "looks"),
    [
        ([0.0], 2, 0),  # nothing is busy: no time is lost
        ([1.0, 0.0], 2, 1),  # busy at the click only
        ([1.0, 1.0, 0.1], 2, 2),
        ([1.0, 1.0, 1.0, 1.0], 1, 3),
    ],
)
def test_it_looks_again_only_where_the_first_window_was_busy(
    windows: list[float], free: int, looks: int, monkeypatch
) -> None:
    slept: list[float] = []
    ends, busy = [Reading(2, 0.0, 0.0, 0.0)], 0.0
    for number, others in enumerate(windows):
        busy += others
        after = Reading(2, 2.0 * (number + 1), busy, 0.0)
        ends += [after, after]  # a window begins where the one before ended
    readings = iter(ends)
    monkeypatch.setattr(cores, "usable_cores", lambda: 2)
    monkeypatch.setattr(cores, "read", lambda: next(readings))
    monkeypatch.setattr(cores.time, "sleep", slept.append)
    assert cores.free_cores(cores.read()) == free
    assert slept == [cores.IDLE_SECONDS] * looks


@pytest.mark.skipif(cores.read() is None, reason="no /proc here")
def test_a_process_that_never_rests_is_seen(monkeypatch) -> None:
    """It keeps a quarter of a core busy at the least, however many others want one. As a child it would be no other."""
    monkeypatch.setattr(cores, "_relatives_seconds", lambda: 0.0)
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        before = cores.read()
        time.sleep(1.0)
        after = cores.read()
    finally:
        busy.kill()
        busy.wait()
    assert (before.foreign_share(after) or 0.0) * before.cores > 0.25


@pytest.mark.parametrize(("busy", "own", "share"), [(0.8, 0.0, 0.4), (0.8, 0.8, 0.0), (0.0, 0.0, 0.0)])
def test_the_share_of_others_is_the_least_of_its_windows(busy: float, own: float, share: float, monkeypatch) -> None:
    first, last = Reading(2, 2.0, 2.0, 0.0), Reading(2, 2.0, busy, own)
    nothing = Reading(2, 0.0, 0.0, 0.0)
    readings = iter([nothing, first, nothing, first, nothing, last])
    monkeypatch.setattr(cores, "read", lambda: next(readings))
    monkeypatch.setattr(cores.time, "sleep", lambda seconds: None)
    assert cores.others_share() == pytest.approx(share)


@pytest.mark.parametrize(("app", "seconds"), [("", 5.0), ("7", 3.0), ("99", 0.0)], ids=["app", "worker", "hidden app"])
def test_this_programs_other_processes_are_no_others(app: str, seconds: float, tmp_path, monkeypatch) -> None:
    """Of the app all that descends from it, of a worker the app alone, which is read quickly."""
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


@pytest.mark.parametrize(
    ("own", "files", "quota", "limited"),
    [
        ("0::/\n", {}, math.inf, "."),
        ("0::/\n", {"cpu.max": "max 100000"}, math.inf, "."),
        ("0::/\n", {"cpu.max": "150000 100000"}, 1.5, "."),
        ("0::/a/b\n", {"a/cpu.max": "200000 100000", "a/b/cpu.max": "max 100000"}, 2.0, "a"),
        ("0::/of/the/host\n", {"cpu.max": "300000 100000"}, 3.0, "."),
        ("7:memory:/\n", {"memory/cpu.max": "100000 100000"}, math.inf, "."),
    ],
)
def test_the_tightest_quota_of_a_control_group_counts(
    own: str, files: dict[str, str], quota: float, limited: str, tmp_path
) -> None:
    (tmp_path / "own").write_text(own)
    for name, text in files.items():
        (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / name).write_text(f"{text}\n")
    found, group = cores._quota(tmp_path / "groups", tmp_path / "own")
    assert (found, group.relative_to(tmp_path / "groups").as_posix()) == (quota, limited)


def test_a_quota_counts_in_whole_cores(monkeypatch) -> None:
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    for quota, whole in [(math.inf, 6), (4.0, 4), (1.5, 1), (0.5, 1)]:
        monkeypatch.setattr(cores, "_quota", lambda quota=quota: (quota, Path()))
        assert cores.usable_cores() == whole
