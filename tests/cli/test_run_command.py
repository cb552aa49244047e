"""`run`: what is asked, what is printed, how a signal ends it. A fake runner stands in for the real one."""

import dataclasses
from typing import Any

import pytest
from support.command_line import RUN
from support.samples import MACHINE, failed_result, measurement, ok_result

from demo.cli.main import main
from demo.core import catalog
from demo.core.options import TEXT_GENERATION, BadInput, RunSpec
from demo.core.outputs import Parity
from demo.core.result_json import dumps
from demo.present import markdown
from demo.runs.outcome import Files
from demo.store.history import History


def test_a_package_is_built_by_aot(fake: Any, tmp_path) -> None:
    runner = fake(ok_result())
    assert main([*RUN, "--package", str(tmp_path / "vit")]) == 0
    assert runner.files == [Files(package=tmp_path / "vit.pt2")] and runner.runs[0].compiler == "aot"


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
    assert (tmp_path / "run.md").read_text(encoding="utf-8") == markdown.of_run(ok_result())
    line = capsys.readouterr().err.splitlines()[-1]
    assert line == f"Stored as {ok_result().id}: python -m demo history {ok_result().id}"
    assert main(line.partition("python -m demo ")[2].split()) == 0


def test_a_run_that_was_not_stored_is_shown_and_no_success(fake: Any, monkeypatch, capsys) -> None:
    fake(ok_result())
    monkeypatch.setattr(History, "append", lambda *_: None)
    assert main(RUN) == 1
    output = capsys.readouterr()
    assert "2.0" in output.out and "Stored" not in output.err


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


def test_ctrl_c_closes_the_run_with_130(fake: Any, capsys) -> None:
    runner = fake(KeyboardInterrupt())
    assert main(RUN) == 130
    assert runner.closed and "Cancelled" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "bound", "code", "words"),
    [
        ({}, "1.9", 0, "Passed: the speed-up is at least 1.99×, asked 1.9×."),
        ({}, "2.0", 1, "Failed: the speed-up is at least 1.99×, asked 2×."),
        ({"compiled": measurement(0.004)}, "1.05", 1, "Failed: the speed-up is at least 0.50×, asked 1.05×."),
        ({"parity": Parity("differ", 1.0, "")}, "1.05", 1, "Failed: the speed-up is not known, asked 1.05×."),
        ({"compiled": None}, "1.05", 1, "Failed: the speed-up is not known, asked 1.05×."),
        ({"parity": Parity("not comparable", None, "")}, "1.05", 1, "Failed: the speed-up is not known, asked 1.05×."),
    ],
    ids=["beyond the bound", "its near end is not", "slower", "other outputs", "no speed-up", "outputs not compared"],
)
def test_a_build_fails_unless_the_speed_up_is_known(changes: Any, bound: str, code: int, words: str, fake: Any, capsys):
    fake(ok_result(**changes))
    assert main([*RUN, "--at-least", bound]) == code
    assert words in capsys.readouterr().err
