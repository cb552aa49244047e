"""The doctor meets machines that lack something, then a real worker on this one."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import samples

from demo.cli import diagnosis
from demo.cli.main import main
from demo.core.errors import WorkerDied
from demo.core.machine import HostInfo
from demo.runs import runner
from demo.store.history import FOLDER_VARIABLE

ROOT = Path(__file__).resolve().parents[2]

MACHINE = dataclasses.replace(samples.MACHINE, modes=("default", "reduce-overhead"), inductor_cache="/no/such/cache")


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets the doctor meet this machine, with the Hub answering; an exception stands for a worker that dies."""

    def meets(answer: HostInfo | Exception, reachable: bool = True) -> None:
        def inspect(self: runner.Runner) -> HostInfo:
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(runner.Runner, "inspect", inspect)
        monkeypatch.setattr("demo.core.hub.reachable", lambda: reachable)

    return meets


def test_a_doctor_who_finds_nothing_in_the_way_exits_0(machine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    machine(MACHINE)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for part in ("torch 2.13.0", "g++ 12.2.0", "reduce-overhead", "reachable", "A run would work here."):
        assert part in out


def test_the_doctor_names_a_missing_compiler_and_the_remedy(machine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    machine(dataclasses.replace(MACHINE, compiler=None))
    assert main(["doctor"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "A run would fail here" in out and "build-essential" in out


def test_the_doctor_names_a_worker_that_does_not_start(machine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    machine(WorkerDied("The worker did not start.\nModuleNotFoundError: No module named 'torch'"))
    assert main(["doctor"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "No module named 'torch'" in out and "pip install -r requirements.txt" in out


def test_a_gpu_that_cannot_be_used_is_a_note_because_a_run_still_works(
    machine: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    machine(dataclasses.replace(MACHINE, gpu_problem="torch is built for CUDA 13 and the driver is too old"))
    assert main(["doctor"]) == 0
    assert "the driver is too old" in " ".join(capsys.readouterr().out.split())


def test_a_gpu_is_named_with_its_memory_and_a_driver_that_is_not_known_is_said(
    machine: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    machine(dataclasses.replace(MACHINE, gpu="Tesla T4", gpu_memory_bytes=15_800_000_000))
    assert main(["doctor"]) == 0
    assert "Tesla T4, 15.8 GB of memory, driver not known" in " ".join(capsys.readouterr().out.split())


def test_no_network_is_a_note_that_says_what_still_runs(machine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    machine(MACHINE, reachable=False)
    assert main(["doctor"]) == 0
    assert "--weights random" in " ".join(capsys.readouterr().out.split())


def test_a_folder_that_takes_no_results_is_a_note(
    machine: Any, capsys: pytest.CaptureFixture[str], data_folder: Path
) -> None:
    data_folder.write_text("in the way")
    machine(MACHINE)
    assert main(["doctor"]) == 0
    assert FOLDER_VARIABLE in capsys.readouterr().out


def test_the_doctor_counts_the_bytes_of_a_cache(machine: Any, tmp_path: Path) -> None:
    (tmp_path / "cache" / "deep").mkdir(parents=True)
    (tmp_path / "cache" / "deep" / "kernel").write_bytes(b"x" * 1234)
    machine(dataclasses.replace(MACHINE, inductor_cache=str(tmp_path / "cache")))
    assert diagnosis.examine().inductor_cache == diagnosis.Folder(str(tmp_path / "cache"), 1234)


def test_the_doctor_as_json(machine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    machine(MACHINE)
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["machine"]["modes"] == ["default", "reduce-overhead"]
    assert found["problems"] == []


def test_the_doctor_asks_a_real_worker() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "demo", "doctor", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    found = json.loads(answer.stdout)
    assert found["machine"]["torch"] and "default" in found["machine"]["modes"]
    assert answer.returncode == (1 if found["problems"] else 0)
