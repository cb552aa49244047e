"""The doctor meets machines that lack something, then a real worker on this one."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import samples

from demo.cli.main import main
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


def test_a_gpu_that_cannot_be_used_is_a_note_because_a_run_still_works(
    machine: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    machine(dataclasses.replace(MACHINE, gpu_problem="torch is built for CUDA 13 and the driver is too old"))
    assert main(["doctor"]) == 0
    assert "the driver is too old" in " ".join(capsys.readouterr().out.split())


def test_the_doctor_as_json(machine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    machine(MACHINE)
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["machine"]["modes"] == ["default", "reduce-overhead"]
    assert found["problems"] == []


def test_the_checks_of_a_gpu_end_with_0_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []

    def run(command: list[str]) -> Any:
        ran.append(command[1:])
        return SimpleNamespace(returncode=len(ran) - 1)

    monkeypatch.setattr(subprocess, "run", run)
    assert [main(["doctor", "--gpu"]) for _ in range(2)] == [0, 1]
    assert ran[0] == ["-m", "demo.backend.gpu_check"]


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
