"""Tests of `doctor` on simulated machines, each of which lacks something."""

import dataclasses
import errno
import json
import subprocess
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from support.samples import MACHINE

from demo.cli import doctor_command
from demo.cli.main import main
from demo.core.hub import Trouble
from demo.core.machine import HostInfo
from demo.runs import runner
from demo.runs.process import WorkerDied, child_process


@pytest.fixture
def machine(monkeypatch) -> Any:
    """Returns a function that simulates a machine for the doctor.

    An exception in its place: the worker dies with it.
    """

    def meet(answer: HostInfo | Exception, reachable: bool = True) -> None:
        monkeypatch.setattr(runner.Runner, "inspect", Mock(side_effect=[answer]))
        trouble = None if reachable else Trouble("HF_HUB_OFFLINE is set", "unset it")
        monkeypatch.setattr("demo.core.hub.problem", lambda: trouble)
        monkeypatch.setattr(doctor_command, "compile_problems", list)

    return meet


@pytest.mark.parametrize(
    ("lacks", "code", "parts"),
    [
        ({}, 0, ("torch 2.13.0", "g++ 12.2.0", "reachable", "A run would work here.")),
        ({"compile_problem": "No Python.h. Install it."}, 1, ("A run would fail here", "No Python.h. Install it.")),
        ({"gpu_problem": "torch is built for CUDA 13 and the driver is too old"}, 0, ("the driver is too old",)),
    ],
)
def test_the_doctor_names_what_is_missing_and_the_remedy(lacks, code, parts, machine, capsys):
    machine(dataclasses.replace(MACHINE, **lacks))
    assert main(["doctor"]) == code
    out = " ".join(capsys.readouterr().out.split())
    assert [part for part in parts if part not in out] == []


def test_the_doctor_prints_its_problems_and_notes_as_json(machine: Any, capsys) -> None:
    machine(WorkerDied("ImportError: no libcudart"), reachable=False)
    assert main(["doctor", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["machine"] is None and "ImportError: no libcudart. Install" in report["problems"][0]
    assert not report["hub_reachable"]
    assert "Hub cannot be reached: HF_HUB_OFFLINE is set; unset it." in report["notes"][0]


@pytest.mark.parametrize(
    ("variable", "error", "ends"),
    [
        (
            "TORCH_LOGS",
            "ValueError: Invalid log settings: +x",
            "settings: +x. TORCH_LOGS is '+x': correct or unset it.",
        ),
        ("PYTHONWARNINGS", "DeprecationWarning: old", "old. PYTHONWARNINGS is '+x': correct or unset it."),
        ("PYTHONOPTIMIZE", "ValueError: No docstring", "PYTHONOPTIMIZE is '+x': correct or unset it."),
        ("PYTHONUTF8", "'ascii' codec can't decode byte 0xe2", "PYTHONUTF8 is '+x': correct or unset it."),
        ("PYTHONOPTIMIZE", "RuntimeError: of another kind", "RuntimeError: of another kind."),
    ],
)
def test_a_process_that_does_not_start_has_a_remedy_for_a_known_cause_only(
    variable: str, error: str, ends: str, machine: Any, capsys, monkeypatch
) -> None:
    monkeypatch.setenv(variable, "+x")
    machine(WorkerDied(error))
    assert main(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["problems"][0].endswith(ends)


def test_the_checks_of_a_gpu_decide_the_exit_code(monkeypatch) -> None:
    run = Mock(return_value=SimpleNamespace(returncode=1))
    monkeypatch.setattr(subprocess, "run", run)
    assert main(["doctor", "--gpu"]) == 1
    assert run.call_args.args[0][1:] == ["-P", "-m", "demo.backend.gpu_check"]


@pytest.mark.parametrize(
    ("code", "problems"),
    [
        ("print('a warning'); print('nothing')", []),
        ("print('No -lgomp. Install it.')", ["No -lgomp. Install it."]),
        ("import os; os.abort()", ["A process that loads a small C++ extension was killed by signal SIGABRT."]),
    ],
    ids=["it works", "it fails", "it dies"],
)
def test_what_a_real_compile_says_is_the_problem(code: str, problems: list[str], monkeypatch, tmp_path) -> None:
    (tmp_path / "compile_for_real.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(doctor_command, "child_process", lambda _: child_process("compile_for_real"))
    assert doctor_command.compile_problems() == problems


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (lambda folder: folder.write_text(""), "its folder is a file"),
        (lambda folder: (folder.mkdir(), (folder / "history.sqlite3").write_text("x" * 9999)), "was damaged"),
    ],
    ids=["no folder", "damaged"],
)
def test_the_doctor_says_whether_results_can_be_stored(break_it, words, machine, data_folder, capsys) -> None:
    machine(MACHINE)
    break_it(data_folder)
    assert main(["doctor"]) == 1
    assert words in " ".join(capsys.readouterr().out.split())


def test_the_doctor_finds_a_full_disk_without_storing_anything(machine: Any, data_folder, monkeypatch, capsys) -> None:
    machine(MACHINE)
    monkeypatch.setattr("os.fsync", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    assert main(["doctor", "--json"]) == 1
    assert "Results cannot be stored in" in (problem := json.loads(capsys.readouterr().out)["problems"][0])
    assert "No space left on device. Make room" in problem and list(data_folder.iterdir()) == []


def test_the_doctor_says_what_it_does(machine: Any, capsys) -> None:
    machine(MACHINE)
    main(["doctor"])
    steps = capsys.readouterr().err.splitlines()
    assert steps[0] == "Starting a process with torch ..." and len(steps) == 4
