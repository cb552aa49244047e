"""`python -m demo best` with a runner that makes times up: its report, its JSON and its exit codes."""

import dataclasses
import json
from typing import Any

import pytest
from support.fake_runner import FakeRunner
from support.samples import MACHINE, failed_result, measurement, ok_result

from demo.cli.main import main
from demo.core.machine import HostInfo
from demo.core.measurement import StartUp
from demo.core.spec import RunSpec
from demo.store.history import History


class Runner(FakeRunner):
    def __init__(self, history: Any) -> None:
        super().__init__(self._made)

    def _made(self, spec: RunSpec, image: Any) -> Any:
        seconds = {"eager": 0.010, "control_times": 0.010, "compiled": 0.004 if spec.freezing else 0.008}
        times = {name: measurement(one) for name, one in seconds.items()}
        return ok_result(id="frozen" if spec.freezing else "other", spec=spec, start_up=StartUp(4.0, 1.0), **times)

    def inspect(self) -> HostInfo:
        return MACHINE


@pytest.fixture(autouse=True)
def _made_up(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("demo.runs.runner.Runner", Runner)
    monkeypatch.setenv("WORTH_COMPILING_DATA", str(tmp_path))


def test_the_report_has_the_command_of_the_winner(capsys) -> None:
    assert main(["best", "--batch-size", "2"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("Freezing: 2.5") and "as fast as eager" in said[0]
    assert said[1].startswith("Pays after ")
    head, first = said[3], said[4]
    assert "Speed-up over eager" in head and first.startswith("1  Freezing") and "2.5" in first
    assert any(line.startswith("2") or line.startswith("3") for line in said if "Default mode" in line)
    assert said[-1].endswith("python -m demo script frozen > run.py")


def test_json_is_the_only_thing_on_standard_output(capsys) -> None:
    assert main(["best", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert {row["way"] for row in data["rows"]} >= {"eager", "default", "freezing"}


def test_a_model_of_ones_own_is_run_again(monkeypatch, tmp_path) -> None:
    """Its file may have changed."""
    (tmp_path / "mine.py").write_text("def make(): ...")
    asked: list[RunSpec] = []
    made = Runner._made
    monkeypatch.setattr(Runner, "_made", lambda self, spec, image: asked.append(spec) or made(self, spec, image))
    command = ["best", "--model", f"{tmp_path / 'mine.py'}:make"]
    assert main(command) == 0
    before = asked.copy()
    for number, spec in enumerate(before):
        History().append(dataclasses.replace(made(None, spec, None), id=str(number)))
    assert main(command) == 0 and asked == before * 2


def test_no_answer_is_exit_code_1(monkeypatch, capsys) -> None:
    monkeypatch.setattr(Runner, "_made", lambda self, spec, image: failed_result(spec=spec))
    assert main(["best"]) == 1
    assert "no way could be compared" in capsys.readouterr().out
