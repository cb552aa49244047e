"""Tests of `python -m demo best` with a fake runner: its report, its JSON and its exit codes."""

import dataclasses
import json
import signal

import pytest
from support.command_line import SIGNALS, quick, stop
from support.fake_runner import FakeRunner, measured
from support.samples import failed_result

from demo.cli.main import main
from demo.store.history import History
from demo.sweep.best_way import Search


@pytest.fixture(autouse=True)
def runner(monkeypatch) -> FakeRunner:
    runner = FakeRunner(measured)
    monkeypatch.setattr("demo.runs.runner.Runner", lambda history: runner)
    return runner


def test_the_report_has_the_command_of_the_winner(capsys) -> None:
    assert main(["best", "--batch-size", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Freezing: 2.0×") and "as fast as eager" in lines[0]
    table = lines[lines.index("") + 1 :]
    assert "Speed-up over eager" in table[0] and table[1].startswith("1  Freezing") and "2.0×" in table[1]
    assert "python -m demo script run-" in lines[-1]


def test_json_is_the_only_thing_on_standard_output(capsys) -> None:
    assert main(["best", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert {row["way"] for row in data["rows"]} >= {"eager", "default", "freezing"}


def test_a_model_of_ones_own_is_run_again(runner: FakeRunner, tmp_path) -> None:
    """The model's file may have changed, so stored runs of it do not count."""
    (tmp_path / "mine.py").write_text("def make(): ...")
    command = ["best", "--model", f"{tmp_path / 'mine.py'}:make"]
    assert main(command) == 0
    first = runner.runs.copy()
    for number, spec in enumerate(first):
        History().append(dataclasses.replace(measured(spec), id=str(number)))
    assert main(command) == 0 and runner.runs == first * 2


@pytest.mark.parametrize(("options", "then"), [([], "goes on"), (["--model", "{}:make"], "begins anew")])
def test_a_search_that_ended_early_says_what_another_start_does(
    options: list[str], then: str, capsys, tmp_path, monkeypatch
) -> None:
    (tmp_path / "mine.py").write_text("def make(): ...")
    monkeypatch.setattr(Search, "left_seconds", 0.0)
    main(["best", *(option.format(tmp_path / "mine.py") for option in options)])
    assert f"; the same command {then}." in capsys.readouterr().out


def test_a_search_without_an_answer_exits_with_1(runner: FakeRunner, capsys, tmp_path) -> None:
    runner.answer = lambda spec, image: failed_result(spec=spec)
    script = tmp_path / "best.py"
    assert main(["best", "--script", str(script)]) == 1
    said = capsys.readouterr()
    assert "There is no answer yet: default mode out of memory" in said.out
    assert f"{script} was not written: no way is known to be faster than eager." in said.err and not script.exists()


@pytest.mark.parametrize(("number", "code"), SIGNALS, ids=["Ctrl-C", "SIGTERM"])
def test_a_stopped_search_prints_its_table(number: signal.Signals, code: int, tmp_path) -> None:
    process = quick(tmp_path, "best", QUICK_SECONDS="2")
    out, err = stop(process, number, after="So far")
    assert process.returncode == code and "Traceback" not in err
    assert "It was stopped; " in out and "; the same command goes on." in out and "Speed-up over eager" in out
    assert "Stopped. What is done is stored" in err
