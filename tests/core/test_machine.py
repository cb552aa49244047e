"""How many cores a process may use, by its affinity and its control groups."""

import math
import os
from pathlib import Path

import pytest

from demo.core import machine


@pytest.mark.parametrize(
    ("own", "files", "quota"),
    [
        ("0::/\n", {}, math.inf),
        ("0::/\n", {"cpu.max": "max 100000"}, math.inf),
        ("0::/\n", {"cpu.max": "150000 100000"}, 1.5),
        ("0::/a/b\n", {"a/cpu.max": "200000 100000", "a/b/cpu.max": "max 100000"}, 2.0),
        ("0::/of/the/host\n", {"cpu.max": "300000 100000"}, 3.0),
        ("7:memory:/\n", {"memory/cpu.max": "100000 100000"}, math.inf),
    ],
)
def test_the_tightest_quota_of_a_control_group_counts(
    own: str, files: dict[str, str], quota: float, tmp_path: Path
) -> None:
    (tmp_path / "own").write_text(own)
    for name, text in files.items():
        (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / name).write_text(f"{text}\n")
    assert machine._quota(tmp_path / "groups", tmp_path / "own") == quota


def test_a_quota_counts_in_whole_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    for quota, cores in [(math.inf, 6), (4.0, 4), (1.5, 1), (0.5, 1)]:
        monkeypatch.setattr(machine, "_quota", lambda quota=quota: quota)
        assert machine.usable_cores() == cores
