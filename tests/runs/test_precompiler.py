"""Compiling ahead, where it breaks: it ends in time, leaves nothing behind, and dies before the app does."""

from __future__ import annotations

import runpy
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from test_faults import SCENE, descriptors, gone, needs_linux

from demo.core import limits
from demo.runs import precompiler as precompiling
from demo.runs.precompiler import Precompiler
from demo.sweep.grid import Grid

TWO = Grid(("shapes-vit",), (1, 2)).specs()


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
    monkeypatch.setattr(limits, "current", lambda: limits.Limits(seconds=1.0))
    told = list(stuck.compile(TWO, SCENE))
    assert set(told) == {(0, 2)}
    assert "it took longer than 1.0 s" in caplog.text
    assert gone(f"STUCK_FORK={tmp_path / 'fork'}")
    assert left_in(tmp_path / "temp") == []


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


def test_what_forks_looks_for_a_gpu_without_starting_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look through CUDA's runtime spoils every fork: "Cannot re-initialize CUDA in forked subprocess".

    `demo.backend.cache_artifacts` imports `demo.backend.precompile` before anything else, so what holds for this one
    holds for that one.
    """
    monkeypatch.setenv("PYTORCH_NVML_BASED_CUDA_CHECK", "")
    monkeypatch.delenv("PYTORCH_NVML_BASED_CUDA_CHECK")
    runpy.run_module("demo.backend.precompile")
    monkeypatch.setattr(torch._C, "_cuda_getDeviceCount", lambda: pytest.fail("CUDA was started"), raising=False)
    monkeypatch.setattr(torch.cuda, "_device_count_nvml", lambda: 1)
    assert torch.cuda.is_available()
