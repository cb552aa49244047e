"""`run`: what is asked, what is printed, how a signal ends it. A scripted runner stands in for the real one."""

import dataclasses
from typing import Any

from support.samples import MACHINE, failed_result, ok_result
from support.scripted_runner import RUN

from demo.cli.main import main
from demo.core import catalog
from demo.core.caveat import note
from demo.core.progress import Progress
from demo.core.result_json import dumps
from demo.core.spec import TEXT_GENERATION, BadInput, RunSpec
from demo.present import markdown
from demo.runs.outcome import Files


def test_a_package_is_asked_of_the_run_which_then_builds_one(scripted: Any, tmp_path) -> None:
    fake = scripted(ok_result())
    assert main([*RUN, "--package", str(tmp_path / "vit")]) == 0
    assert fake.files == Files(package=tmp_path / "vit.pt2")
    assert fake.specs[0].compiler == "aot"


def test_a_trace_never_writes_over_a_file(scripted: Any, tmp_path, capsys) -> None:
    scripted(ok_result())
    (tmp_path / "seen.json.gz").write_text("mine")
    assert main([*RUN, "--trace", str(tmp_path / "seen.json.gz")]) == 2
    assert "exists already" in capsys.readouterr().err


def test_json_is_all_that_stands_on_standard_output(scripted: Any, capsys) -> None:
    scripted(Progress("time", 0.5, 1.0), ok_result())
    assert main([*RUN, "--json"]) == 0
    said = capsys.readouterr()
    assert said.out == dumps(ok_result()) + "\n"
    assert "time" in said.err


def test_an_unusable_gpu_is_told_before_the_figures(scripted: Any, capsys) -> None:
    fake = scripted(Progress("start", 0.0, 0.1), Progress("time", 0.5, 1.0), ok_result())
    fake.machine = dataclasses.replace(MACHINE, gpu_problem="torch is a CPU build; install another one")
    assert main(RUN) == 0
    said = capsys.readouterr()
    assert said.err.count("install another one") == 1
    assert said.err.index("install another one") < said.err.index("time")


def test_what_the_worker_refuses_is_a_sentence_and_exit_2(scripted: Any, capsys) -> None:
    scripted(BadInput("empty.png is empty."))
    assert main([*RUN, "--json"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.endswith("empty.png is empty.\n")


def test_a_run_ends_with_the_command_that_shows_it(scripted: Any, capsys) -> None:
    scripted(ok_result())
    main(RUN)
    told = capsys.readouterr().err.splitlines()[-1]
    assert told == f"Stored as {ok_result().id}: python -m demo history {ok_result().id}"
    assert main(told.partition("python -m demo ")[2].split()) == 0


def test_a_run_that_was_not_stored_is_shown_and_no_success(scripted: Any, capsys) -> None:
    scripted(ok_result(caveats=(note("This result was not stored: the disk is full."),))).stores = False
    assert main(RUN) == 1
    said = capsys.readouterr()
    assert "not stored" in said.out and "2.0" in said.out and "Stored" not in said.err


def test_the_figures_can_be_written_as_a_table_to_paste(scripted: Any, tmp_path) -> None:
    scripted(ok_result())
    assert main([*RUN, "--export-markdown", str(tmp_path / "run.md")]) == 0
    assert (tmp_path / "run.md").read_text(encoding="utf-8").strip() == markdown.of_run(ok_result()).strip()


def test_a_failure_is_told_with_its_remedy(scripted: Any, capsys) -> None:
    scripted(failed_result())
    assert main(RUN) == 1
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[1:] == ["Batch size 256 ran out of memory on a T4 (15 GB) while compiling.", "Try 64."]


def test_what_was_typed_reaches_the_runner(scripted: Any) -> None:
    fake = scripted(ok_result())
    assert main(["run", "--checkpoint", "shapes-vit", "--batch-size", "4", "--dtype", "bfloat16"]) == 0
    assert fake.specs == [RunSpec("shapes-vit", "image-classification", 4, dtype="bfloat16")]


def test_a_text_model_gets_the_prompt_of_the_page(scripted: Any) -> None:
    fake = scripted(ok_result())
    assert main(["run", "--checkpoint", "shapes-gemma"]) == 0
    assert fake.specs == [RunSpec("shapes-gemma", TEXT_GENERATION, prompt=catalog.PROMPT)]


def test_ctrl_c_closes_the_run_with_130(scripted: Any, capsys) -> None:
    fake = scripted(Progress("time", 0.5, 1.0), KeyboardInterrupt())
    assert main(RUN) == 130
    assert fake.closed and "Cancelled" in capsys.readouterr().err
