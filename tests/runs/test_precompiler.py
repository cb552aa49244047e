"""Compiling ahead, where it breaks: it ends in time, leaves nothing behind, and dies before the app does."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from test_faults import ROOT, SCENE, descriptors, gone, killed, needs_linux, processes_with, wait_until

from demo.core import limits
from demo.runs import precompiler as precompiling
from demo.runs.precompiler import Precompiler
from demo.sweep.grid import Grid

TWO = Grid(("shapes-vit",), (1, 2)).specs()
APP = """
import sys
from pathlib import Path
from demo.runs.precompiler import Precompiler
from demo.sweep.grid import Grid
specs = Grid(("shapes-vit",), (1, 2)).specs()
for _ in Precompiler(2, "tests.endless_precompile").compile(specs, Path(sys.argv[1])):
    pass
"""


@pytest.fixture
def stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Precompiler:
    """One whose compiles never end. What it starts carries `STUCK_FORK=...` in its environment."""
    monkeypatch.setenv("STUCK_FORK", str(tmp_path / "fork"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    return Precompiler(2, "tests.stuck_precompile")


def left_in(temp: Path) -> list[str]:
    return [path.name for path in temp.iterdir() if not path.name.startswith("torchinductor_")]


@needs_linux
def test_a_compile_that_never_ends_is_given_up_after_the_time_of_a_run(
    stuck: Precompiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "current", lambda: limits.Limits(seconds=2.0))
    told = list(stuck.compile(TWO, SCENE))
    assert set(told) == {(0, 2)}
    assert "it took longer than 2.0 s" in caplog.text
    assert gone(f"STUCK_FORK={tmp_path / 'fork'}")
    assert left_in(tmp_path / "temp") == []


@needs_linux
def test_when_memory_runs_out_what_compiles_ahead_ends_before_the_app(stuck: Precompiler, tmp_path: Path) -> None:
    own = Path("/proc/self/oom_score_adj").read_text()
    compiling = stuck.compile(TWO, SCENE)
    for _ in compiling:
        if (tmp_path / "fork").exists():
            break
    compiling.close()  # type: ignore[attr-defined]
    assert (tmp_path / "fork").read_text() == "1000\n" != own


@pytest.mark.parametrize("fails", ["the process", "its folder"])
def test_where_nothing_can_be_started_nothing_is_left_and_the_runs_go_on(
    stuck: Precompiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    def refused(*asked: Any, **more: Any) -> Any:
        raise OSError(12, "Cannot allocate memory")

    if fails == "the process":
        monkeypatch.setattr(precompiling.subprocess, "Popen", refused)
    else:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp" / "none"))
    before = descriptors()
    assert list(stuck.compile(TWO, SCENE)) == []
    assert descriptors() == before
    assert left_in(tmp_path / "temp") == []


@needs_linux
def test_what_compiles_ahead_does_not_outlive_an_app_that_was_killed(tmp_path: Path) -> None:
    """The real process with its watcher, and its forks in the middle of a compile that has no end."""
    forks = tmp_path / "forks"
    forks.mkdir()
    environment = os.environ | {"FORKS": str(forks)}
    app = subprocess.Popen([sys.executable, "-c", APP, str(SCENE)], env=environment, cwd=ROOT, text=True)
    try:
        wait_until(lambda: len(list(forks.iterdir())) == 2)
        (group,) = {path.name.partition("-")[2] for path in forks.iterdir()}
        assert int(group) != os.getpgid(app.pid)
        assert len(processes_with(f"FORKS={forks}")) >= 4  # the app, the process, and its two forks
    finally:
        killed(app)
    assert gone(f"FORKS={forks}")


@pytest.mark.parametrize("module", ["demo.backend.cache_artifacts", "tools.gpu_evidence"])
def test_what_forks_looks_for_a_gpu_without_starting_cuda(module: str) -> None:
    """A look through CUDA's runtime spoils every fork: "Cannot re-initialize CUDA in forked subprocess".

    The first imports `demo.backend.precompile` before anything else, so what holds for it holds for that one.
    """
    look = f"""
import {module}, torch
def spoiled():
    raise SystemExit("CUDA was started")
torch._C._cuda_getDeviceCount = spoiled
torch.cuda._device_count_nvml = lambda: 1
assert torch.cuda.is_available()
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTORCH_NVML_BASED_CUDA_CHECK"}
    done = subprocess.run([sys.executable, "-c", look], env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
