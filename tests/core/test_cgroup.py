"""Tests of reading limits from made-up control groups: nested ones, and those of versions 1 and 2."""

import math
from pathlib import Path

import pytest

from demo.core import cgroup

V2, V1 = "0::/user/app\n", "4:memory:/docker/a\n2:cpu,cpuacct:/docker/a\n"
HYBRID = "2:cpu,cpuacct:/docker/a\n0::/user\n"


@pytest.fixture
def groups(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(cgroup, "CGROUP_ROOT", tmp_path / "cgroup")
    monkeypatch.setattr(cgroup, "OWN_GROUPS", tmp_path / "own")
    return tmp_path


def write(groups: Path, own: str, files: dict[str, str]) -> None:
    if own:
        (groups / "own").write_text(own)
    for name, text in files.items():
        file = groups / "cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")


@pytest.mark.parametrize(
    ("own", "files", "cores"),
    [
        ("", {}, math.inf),
        ("", {"cpu.max": "150000 100000"}, 1.5),
        ("0::/\n", {"cpu.max": "max 100000"}, math.inf),
        (V2, {"cpu.max": "max 100000", "user/app/cpu.max": "400000 100000"}, 4),
        (V2, {"user/cpu.max": "200000 100000", "user/app/cpu.max": "400000 100000"}, 2),
        (V2, {"user/cpu.max": "800000 100000", "user/app/cpu.max": "400000 100000"}, 4),
        (V2, {"other/cpu.max": "100000 100000"}, math.inf),
        ("0::/../app\n", {"cpu.max": "300000 100000"}, 3),
        (V1, {"cpu,cpuacct/docker/a/cpu.cfs_quota_us": "50000"}, 0.5),
        (V1, {"cpu/docker/cpu.cfs_quota_us": "90000", "cpu/docker/cpu.cfs_period_us": "30000"}, 3),
        (V1, {"cpu/docker/a/cpu.cfs_quota_us": "-1"}, math.inf),
        (V1, {"cpu/cpu.cfs_quota_us": "200000"}, 2),
        (HYBRID, {"cpu/docker/a/cpu.cfs_quota_us": "100000", "unified/user/cpu.max": "max 100000"}, 1),
        ("garbage\n", {"cpu.max": "100000"}, math.inf),
        ("0::user\n", {"cpu.max": "200000 100000", "user/cpu.max": "100000 0"}, 2),
        ("0::/user\n", {"cpu.max": "200000 100000", "user/cpu.max": "100000 0"}, 2),
    ],
    ids=[
        "no groups", "a container", "no limit", "systemd", "the tightest is around", "the tightest is its own",
        "another's", "outside of its namespace", "version 1", "version 1, around", "version 1, no limit",
        "version 1 in a container", "both versions", "unreadable",
        "a path without a root", "no period",
    ],
)  # fmt: skip
def test_the_tightest_quota_holds(own: str, files: dict[str, str], cores: float, groups: Path) -> None:
    write(groups, own, files)
    assert cgroup.cpu_quota() == cores


@pytest.mark.parametrize(
    ("own", "files", "limit", "left"),
    [
        ("", {}, math.inf, math.inf),
        ("", {"memory.max": "5000", "memory.current": "3000", "memory.stat": "anon 1\ninactive_file 500"}, 5000, 2500),
        ("", {"memory.max": "max", "memory.current": "3000"}, math.inf, math.inf),
        (V2, {"user/memory.max": "4000", "user/app/memory.max": "5000", "user/app/memory.current": "4500"}, 4000, 500),
        (
            V1,
            {
                "memory/docker/a/memory.limit_in_bytes": "7000",
                "memory/docker/a/memory.usage_in_bytes": "6000",
                "memory/docker/a/memory.stat": "inactive_file 1\ntotal_inactive_file 2000",
            },
            7000,
            3000,
        ),
    ],
    ids=["no groups", "a container", "no limit", "nested", "version 1"],
)
def test_the_tightest_memory_holds(own: str, files: dict[str, str], limit: float, left: float, groups: Path) -> None:
    write(groups, own, files)
    assert (cgroup.memory_limit(), cgroup.memory_left()) == (limit, left)
