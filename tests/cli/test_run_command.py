"""Tests of `run` with a fake runner: what it asks for, what it prints, and how a signal ends it."""

import contextlib
import dataclasses
import json
import signal
import sqlite3
import sys
from typing import Any
from unittest.mock import Mock
from xml.etree import ElementTree

import pytest
from support.command_line import RUN, SIGNALS, quick, stop
from support.samples import MACHINE, failed_result, ok_result
from support.worker_processes import processes_with, wait_until

from demo.cli.main import main
from demo.core import catalog
from demo.core.codec import plain
from demo.core.hub import NoAnswer
from demo.core.measurement import Compilation, CompileCost
from demo.core.options import TEXT_GENERATION, BadInput, RunSpec
from demo.core.outputs import Parity
from demo.core.result import Failure
from demo.core.result_json import dumps
from demo.present import markdown, share, whole_work
from demo.present.report import Report
from demo.runs.ongoing import Files
from demo.store import hub_dataset
from demo.store.history import History


def test_a_package_is_built_by_aot(fake: Any, tmp_path) -> None:
    runner = fake(ok_result())
    assert main([*RUN, "--package", str(tmp_path / "vit")]) == 0
    assert runner.files == [Files(package=tmp_path / "vit.pt2")] and runner.runs[0].compiler == "aot"


@pytest.mark.parametrize(
    ("encoding", "says"),
    [("ascii", "has bytes that are no ascii text. Set PYTHONUTF8=1."), ("utf-8", "are no utf-8 text. Rename it.")],
)
def test_a_name_that_python_cannot_decode_is_refused(encoding: str, says: str, fake: Any, capsys, monkeypatch) -> None:
    """The worker would get other letters, and would not find the file."""
    runner = fake(ok_result())
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: encoding)
    assert main(["run", "--model", "m\udcc3\udcb6del.py:build"]) == 2 and runner.runs == []
    assert says in capsys.readouterr().err


def test_several_texts_are_joined(fake: Any) -> None:
    runner = fake(ok_result())
    main(["run", "--checkpoint", "google/owlvit-base-patch32", "--text", "a cat, a dog", "--text", "a tree"])
    assert [spec.text for spec in runner.runs] == [("a cat", "a dog", "a tree")]


def test_a_trace_never_writes_over_a_file(fake: Any, tmp_path, capsys) -> None:
    fake(ok_result())
    (tmp_path / "seen.json.gz").write_text("mine")
    assert main([*RUN, "--trace", str(tmp_path / "seen.json.gz")]) == 2
    assert "exists already" in capsys.readouterr().err


def test_json_is_all_that_stands_on_standard_output(fake: Any, capsys) -> None:
    runner = fake(ok_result())
    runner.machine = dataclasses.replace(MACHINE, gpu_problem="torch is a CPU build; install another one")
    assert main([*RUN, "--json"]) == 0
    out, err = capsys.readouterr()
    assert out == dumps(ok_result()) + "\n"
    assert err.count("install another one") == 1
    assert err.index("install another one") < err.index("load")


def test_what_the_worker_refuses_is_a_sentence_and_exit_2(fake: Any, capsys) -> None:
    fake(BadInput("empty.png is empty."))
    assert main([*RUN, "--json"]) == 2
    output = capsys.readouterr()
    assert output.out == "" and output.err.endswith("empty.png is empty.\n")


def test_a_run_ends_with_the_command_that_shows_it(fake: Any, tmp_path, capsys) -> None:
    fake(ok_result())
    assert main([*RUN, "--export-markdown", str(tmp_path / "run.md")]) == 0
    assert (tmp_path / "run.md").read_text(encoding="utf-8") == markdown.of_run(Report(ok_result()))
    line = capsys.readouterr().err.splitlines()[-1]
    assert line == f"Stored as {ok_result().id}: python -m demo history {ok_result().id}"
    assert main(line.partition("python -m demo ")[2].split()) == 0


def test_a_run_that_was_not_stored_is_shown_and_no_success(fake: Any, monkeypatch, capsys) -> None:
    fake(ok_result())
    monkeypatch.setattr(History, "append", lambda *_: None)
    assert main(RUN) == 1
    output = capsys.readouterr()
    assert "2.0" in output.out and "Stored" not in output.err


def test_results_that_cannot_be_read_end_no_run(fake: Any, data_folder, tmp_path, capsys) -> None:
    """What was asked for is written, and the gate answers, although the run is no success."""
    fake(ok_result()).history = None
    data_folder.mkdir()
    with contextlib.closing(sqlite3.connect(data_folder / "history.sqlite3")) as newer:
        newer.execute("PRAGMA user_version = 99")
    table = tmp_path / "table.md"
    assert main([*RUN, "--export-markdown", str(table), "--at-least", "1.05"]) == 1
    assert table.read_text().startswith("2.00×")
    out, err = capsys.readouterr()
    assert "Compiled is 2.00× faster" in out and "Passed: " in err and "Stored as" not in err


def test_a_failure_has_its_remedy(fake: Any, capsys) -> None:
    fake(failed_result())
    assert main(RUN) == 1
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[1:] == ["Batch size 256 ran out of memory on a T4 (15 GB) while compiling.", "Try 64."]


def test_the_runner_gets_the_spec(fake: Any) -> None:
    runner = fake(ok_result())
    main(["run", "--checkpoint", "shapes-vit", "--batch-size", "4", "--dtype", "bfloat16"])
    main(["run", "--checkpoint", "shapes-gemma"])
    typed = RunSpec("shapes-vit", "image-classification", 4, dtype="bfloat16")
    assert runner.runs == [typed, RunSpec("shapes-gemma", TEXT_GENERATION, prompt=catalog.PROMPT)]


@pytest.mark.parametrize(("number", "code"), SIGNALS, ids=["Ctrl-C", "SIGTERM"])
def test_a_stopped_run_says_what_was_measured(number: signal.Signals, code: int, tmp_path) -> None:
    process = quick(tmp_path, *RUN, "--at-least", "9", FAULT="hangs while timing")
    out, err = stop(process, number, after="time")
    assert process.returncode == code and "Traceback" not in err
    measured = "Measured so far: eager 2.00 ms, compiled 1.00 ms, speed-up 2.00× (1.90 to 2.10×).\n"
    assert err.startswith(f"Cancelled. {measured}Stored as ") and "Cancelled while timing." in out
    assert [run.status for run in History(tmp_path / "history.sqlite3").all()] == ["cancelled"]
    wait_until(lambda: not processes_with(str(tmp_path)), 5)


def test_a_run_that_is_stopped_after_its_answer_prints_it(tmp_path) -> None:
    process = quick(tmp_path, *RUN, FAULT="after its answer it hangs")
    out, err = stop(process, signal.SIGTERM, after="check")
    assert process.returncode == 143 and "2.0× faster" in out and "Cancelled" not in out + err


def test_repeats_that_are_stopped_print_the_answer_of_those_before(tmp_path) -> None:
    faults = {"FAULT": "speed-ups 2 hangs", "CHILD_FILE": str(tmp_path / "played")}
    process = quick(tmp_path, *RUN, "--repeats", "2", **faults)
    out, err = stop(process, signal.SIGINT, after="run 2 of 2")
    assert process.returncode == 130 and "2.0× faster" in out
    assert "Cancelled. Measured so far: nothing.\nThe answer of the run before it, of 2 that were asked for:" in err


NEAR = {"parity": Parity("not comparable", 0.001, "Much rounding.")}


@pytest.mark.parametrize(
    ("changes", "options", "code", "words"),
    [
        ({}, "1.9", 0, "Passed: the speed-up is 1.993 to 2.007×, asked 1.9×."),
        ({}, "3", 1, "Failed: the speed-up is 1.993 to 2.007×, asked 3×."),
        ({"parity": Parity("differ", 1.0, "")}, "1.05", 1, "Failed: the outputs of eager and compiled differ"),
        ({"parity": Parity("not comparable", None, "")}, "3", 1, "Failed: the speed-up is"),
        ({}, "2.0", 3, "Undecided: the speed-up is 1.993 to 2.007×, asked 2×."),
        ({"compiled": None}, "1.05", 3, "Undecided: the speed-up is not known, asked 1.05×."),
        ({"parity": Parity("not comparable", None, "")}, "1.05", 3, "nobody knows whether the outputs agree"),
        (NEAR, "1.05", 3, "nobody knows whether the outputs agree"),
        ({}, "2.0 --undecided pass", 0, "Passed: the speed-up is 1.993 to 2.007× (--undecided pass), asked 2×."),
        ({}, "2.0 --undecided fail", 1, "Failed: the speed-up is 1.993 to 2.007× (--undecided fail), asked 2×."),
        ({}, "3 --undecided pass", 1, "Failed: the speed-up is 1.993 to 2.007×, asked 3×."),
        (NEAR, "1.05 --undecided pass", 0, "nobody knows whether the outputs agree (--undecided pass)"),
    ],
)
def test_a_gate_exits_with_0_1_or_3(changes: Any, options: str, code: int, words: str, fake: Any, capsys) -> None:
    fake(ok_result(**changes))
    assert main([*RUN, "--at-least", *options.split()]) == code
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "options", "kind", "words"),
    [
        ({}, "1.05", None, ""),
        ({}, "3", "failure", "the speed-up is 1.993 to 2.007×, asked 3×."),
        ({}, "2.0", "skipped", "the speed-up is 1.993 to 2.007×, asked 2×."),
        ({}, "2.0 --undecided pass", None, ""),
        (
            vars(failed_result()) | {"failure": Failure("compile", "no \x1b[31mcompiler", "")},
            "1.05",
            "error",
            "compiler",
        ),
    ],
)
def test_a_gate_is_one_test_of_a_junit_report(
    changes: Any, options: str, kind: str | None, words: str, fake: Any, tmp_path
) -> None:
    fake(ok_result(**changes))
    file = tmp_path / "gate.xml"
    main([*RUN, "--at-least", *options.split(), "--junit", str(file)])
    suite = ElementTree.parse(file).getroot().find("testsuite")
    counted = {name for name in ("failures", "errors", "skipped") if suite.get(name) == "1"}
    (case,) = suite
    ends = [element.tag for element in case if element.tag != "system-out"]
    assert (suite.get("tests"), case.get("name")) == ("1", f"at least {float(options.split()[0]):g}×")
    assert (ends, {name.removesuffix("s") for name in counted}) == ([kind] if kind else [], {kind} - {None})
    assert not kind or words in case.find(kind).get("message")
    assert float(case.get("time")) >= 0 and case.findtext("system-out")


def test_a_report_of_no_gate_is_refused(fake: Any, tmp_path, capsys) -> None:
    fake(ok_result())
    assert main([*RUN, "--junit", str(tmp_path / "gate.xml")]) == 2
    assert "--junit says how a gate ends: give --at-least RATIO with it." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("calls", "least", "code", "words"),
    [
        ("1000", "1.05", 1, "Failed: the speed-up over 1 000 calls is 0.19 to 0.49×, asked 1.05×."),
        ("8000", "1.05", 3, "Undecided: the speed-up over 8 000 calls is 0.92 to 1.44×, asked 1.05×."),
        ("1000000", "1.05", 0, "Passed: the speed-up over 1 000 000 calls is 1.979 to 1.997×, asked 1.05×."),
    ],
)
def test_a_gate_over_the_whole_work_counts_the_first_call(
    calls: str, least: str, code: int, words: str, fake: Any, capsys
) -> None:
    fake(ok_result())
    assert main([*RUN, "--calls", calls, "--at-least", least]) == code
    assert words in capsys.readouterr().err.replace("\N{NARROW NO-BREAK SPACE}", " ")


def test_a_gate_over_the_whole_work_counts_the_start_that_costs_most(fake: Any, capsys) -> None:
    starts = Compilation(5.5, "cold", 1, cold=CompileCost(5.5, {}), warm=CompileCost(0.1, {}))
    fake(ok_result(compilation=starts))
    assert main([*RUN, "--calls", "1000", "--at-least", "1.05"]) == 1
    assert "is 0.19 to 0.49×" in capsys.readouterr().err


def test_a_number_of_calls_is_answered_in_words_and_as_json(fake: Any, capsys) -> None:
    fake(ok_result())
    assert main([*RUN, "--calls", "40000"]) == 0
    assert f"\n  {whole_work.calls_sentence(Report(ok_result()), 40_000)}\n" in capsys.readouterr().out
    fake(ok_result(id="another"))
    for command in ([*RUN, "--json"], ["history", ok_result().id, "--json"]):
        assert main([*command, "--calls", "40000"]) == 0
        work = json.loads(capsys.readouterr().out)["whole_work"]
        assert work["calls"] == 40_000
        assert work["starts"]["cold"]["saved"] == plain(ok_result().whole_work(40_000)["cold"].saved)


@pytest.mark.parametrize("option", ["--share", "--html"])
def test_one_file_to_send_is_written_into_this_folder(option: str, fake: Any, tmp_path, monkeypatch, capsys) -> None:
    fake(ok_result())
    monkeypatch.chdir(tmp_path)
    assert main([*RUN, "--calls", "40000", option]) == 0
    file = tmp_path / f"worth-compiling-{ok_result().id}.html"
    assert file.read_text(encoding="utf-8") == share.page(Report(ok_result()), 40_000)
    assert f"One file to send lies in {file}.\n" in capsys.readouterr().err
    assert main(["history", "share", ok_result().id, str(tmp_path / "again.html"), "--calls", "40000"]) == 0
    assert (tmp_path / "again.html").read_bytes() == file.read_bytes()


@pytest.mark.parametrize("push", [lambda *_: "https://hub/page.html", Mock(side_effect=NoAnswer("no way to the Hub"))])
def test_a_file_to_send_is_brought_to_the_dataset(push: Any, fake: Any, tmp_path, monkeypatch, capsys) -> None:
    fake(ok_result())
    monkeypatch.setenv(hub_dataset.VARIABLE, "me/runs")
    monkeypatch.setattr(hub_dataset, "push_page", push)
    for command in ([*RUN, "--share"], ["history", "share", ok_result().id]):
        assert main([*command, str(tmp_path / "run.html")]) == 0
        err = capsys.readouterr().err
        assert f"lies in {tmp_path / 'run.html'}" in err
        failed = "could not be brought to the dataset me/runs: 'no way to the Hub'"
        assert "https://hub/page.html" in err or failed in err


@pytest.mark.parametrize("calls", ["0", "2e9", "many", "1.5"])
def test_a_wrong_number_of_calls_is_refused_before_the_run(calls: str, fake: Any, capsys) -> None:
    runner = fake(ok_result())
    assert main([*RUN, "--calls", calls]) == 2 and runner.runs == []
    assert capsys.readouterr().err.startswith("The number of calls between two restarts must be a whole number from 1")
