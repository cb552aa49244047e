"""The script that measures on a GPU, proved on a CPU: its cells, its lots, what it keeps and what it tells."""

from __future__ import annotations

import contextlib
import csv
import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from samples import GPU, measurement, ok_result, text_result

from demo.backend import caveats
from demo.core import catalog
from demo.core.machine import GpuSample, HostSample
from demo.core.measurement import Compilation, Roofline
from demo.core.outputs import Parity
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.store import measured
from tools import evidence_tables, gpu_evidence
from tools.evidence_tables import Book
from tools.gpu_evidence import Task

SPEC = RunSpec("shapes-vit", "image-classification", device="cpu")


def cell(step: str = "table 1", recipe: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    result = ok_result(**changes)
    task = Task(step, result.spec)
    return {"key": task.key, "step": step, "result": result.to_json(), "recipe": recipe}


def book_of(folder: Path, *records: dict[str, Any]) -> Book:
    book = Book(folder / "cells.jsonl.gz")
    for record in records:
        book.add(record)
    return book


# The whole script


def script(folder: Path, *more: str) -> str:
    command = [sys.executable, "-m", "tools.gpu_evidence", str(folder), "--quick", "--checkpoints", "shapes-vit"]
    done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=540)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_quick_mode_measures_on_a_cpu_and_takes_up_where_it_was_broken_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "complete" in script(tmp_path, "--steps", "table 1")
    before = (tmp_path / "cells.jsonl.gz").read_bytes()
    again = [str(tmp_path), "--quick", "--checkpoints", "shapes-vit", "--steps", "machine,table 1"]
    assert gpu_evidence.main(again) == 0
    assert capsys.readouterr().out.endswith("complete\n")
    assert (tmp_path / "cells.jsonl.gz").read_bytes().startswith(before)
    (line,) = csv.DictReader((tmp_path / "cells.csv").read_text().splitlines())
    assert (line["checkpoint"], line["status"], line["graphs"], line["parity"]) == ("shapes-vit", "ok", "1", "match")
    assert float(line["eager_ms"]) > 0 and float(line["recipe_calls"]) >= gpu_evidence.MIN_RECIPE_CALLS
    assert float(line["eager_kernels"]) > float(line["compiled_kernels"]) > 0
    assert "shapes-vit" in (tmp_path / "summary.md").read_text()
    assert json.loads((tmp_path / "machine.json").read_text())["environment"]["torch"]
    record = Book(tmp_path / "cells.jsonl.gz").of("table")[0]
    result = evidence_tables.result_of(record)
    assert result.compilation.recompiles_while_timing == 0
    assert result.compilation.cold is None and result.compilation.warm is None


def test_without_a_gpu_the_script_says_so_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not gpu_evidence.gpu_problem():
        pytest.skip("there is a GPU")
    assert gpu_evidence.main([str(tmp_path)]) == 2
    assert "--quick" in capsys.readouterr().err


def test_a_step_that_does_not_exist_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_evidence.main([str(tmp_path), "--quick", "--steps", "table 7"]) == 2
    assert "table 16" in capsys.readouterr().err


# What is planned


def test_every_cell_of_the_guides_table_is_planned_once() -> None:
    planned = gpu_evidence.steps(False, gpu_evidence.GUIDES)
    table = [task.spec for name in ("table 1", "table 4", "table 16") for task in planned[name]]
    assert len(table) == len(set(table)) == 12 * 3 * 2
    assert all((spec.dtype, spec.weights, spec.device) == ("float32", "random", "cuda") for spec in table)
    assert len(planned["autotune"]) == 12
    assert len(planned["repeat"]) == 10
    keys = [task.key for tasks in planned.values() for task in tasks]
    assert len(keys) == len(set(keys))


def test_the_text_model_is_planned_in_both_number_formats_and_modes() -> None:
    planned = gpu_evidence.steps(False, gpu_evidence.GUIDES)["text"]
    assert [(task.spec.dtype, task.spec.mode) for task in planned] == [
        ("bfloat16", "default"),
        ("bfloat16", "reduce-overhead"),
        ("float32", "default"),
        ("float32", "reduce-overhead"),
    ]
    assert {(task.spec.checkpoint, task.spec.weights) for task in planned} == {("google/gemma-2b", "random")}


def test_the_best_is_looked_for_in_every_number_format() -> None:
    assert [spec.dtype for spec in gpu_evidence.candidates("microsoft/resnet-50", 16, False)] == [
        "tf32",
        "bfloat16",
        "float16",
    ]


def test_only_models_of_convolutions_are_tried_with_channels_last() -> None:
    tried = {
        id: any(spec.channels_last for spec in gpu_evidence.candidates(id, 1, False)) for id in gpu_evidence.GUIDES
    }
    assert tried["microsoft/resnet-50"] and tried["facebook/convnext-large-224"] and tried["facebook/detr-resnet-101"]
    assert not tried["google/vit-base-patch16-224"]
    families = {checkpoint.family for checkpoint in catalog.CHECKPOINTS}
    assert families >= set(gpu_evidence.CONVOLUTIONAL)


# Lots


def lives(monkeypatch: pytest.MonkeyPatch, diary: Path, behaviour: dict[int, str]) -> None:
    """Cells that do nothing but what they are told to, by their round; `diary` says in which order."""

    def write(text: str) -> None:
        with diary.open("a") as file:
            file.write(text + "\n")

    def life(task: Task, image: Path, noise: Path, up: int, down: int) -> None:
        with contextlib.suppress(BaseException):
            os.setsid()
            how = behaviour.get(task.round, "")
            if how == "never ready":
                time.sleep(60)
            if how == "dies early":
                os._exit(3)
            write(f"ready {task.round}")
            os.write(up, b'{"ready": true}\n')
            if os.read(down, 1):
                write(f"begin {task.round}")
                if how == "hangs":
                    time.sleep(60)
                time.sleep(0.1)
                write(f"end {task.round}")
                os.write(up, json.dumps({"result": ok_result().to_json(), "recipe": None}).encode() + b"\n")
        os._exit(0)

    monkeypatch.setattr(gpu_evidence, "_life", life)


def lot(tmp_path: Path, tasks: int, deadline: float = 60.0, ready_seconds: float = 30.0) -> list[dict[str, Any]]:
    numbered = [Task("repeat", SPEC, number) for number in range(tasks)]
    limit = time.monotonic() + deadline
    return list(gpu_evidence.run_lot(numbered, gpu_evidence.SCENE, tmp_path / "noise", limit, 2, ready_seconds))


def test_cells_take_turns_only_when_all_are_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lives(monkeypatch, tmp_path / "diary", {})
    assert [record["result"]["status"] for record in lot(tmp_path, 4)] == ["ok"] * 4
    lines = (tmp_path / "diary").read_text().split("\n")[:-1]
    assert all(line.startswith("ready") for line in lines[:4])
    assert lines[4:] == [f"{what} {number}" for number in range(4) for what in ("begin", "end")]


def test_a_cell_that_dies_or_hangs_is_a_result_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives(monkeypatch, tmp_path / "diary", {0: "never ready", 1: "dies early", 2: "hangs"})
    monkeypatch.setattr(gpu_evidence, "CPU_SECONDS", 1.0)
    records = lot(tmp_path, 4, ready_seconds=1.0)
    assert [record["result"]["status"] for record in records] == ["timed_out", "crashed", "timed_out", "ok"]
    assert "1.0 s" in records[0]["result"]["failure"]["message"]


def test_when_the_time_is_up_the_cell_in_hand_is_not_called_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives(monkeypatch, tmp_path / "diary", {1: "hangs"})
    records = lot(tmp_path, 3, deadline=3.0)
    assert [record["key"][-1] for record in records] == ["0"]


@pytest.mark.parametrize("more", [b"", b'{"error": "no room"}\n'], ids=["hangs", "fails with an error"])
def test_figures_are_kept_where_the_profiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: bytes) -> None:
    def life(task: Task, image: Path, noise: Path, up: int, down: int) -> None:
        os.write(up, b'{"ready": true}\n')
        os.read(down, 1)
        message = {"result": ok_result().to_json(), "recipe": None, "more": True}
        os.write(up, json.dumps(message).encode() + b"\n" + more)
        if not more:
            time.sleep(60)
        os._exit(0)

    monkeypatch.setattr(gpu_evidence, "_life", life)
    monkeypatch.setattr(gpu_evidence, "CPU_SECONDS", 1.0)
    (record,) = lot(tmp_path, 1)
    result = evidence_tables.result_of(record)
    assert result.status == "ok"
    assert result.warnings[-1].startswith("Its profile did not come to an end")


def test_a_cell_is_told_how_many_wait_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def life(task: Task, image: Path, noise: Path, up: int, down: int) -> None:
        os.write(up, b'{"ready": true}\n')
        waiting = os.read(down, 1)[0]
        os.write(up, json.dumps({"result": ok_result().to_json(), "recipe": {"calls": waiting}}).encode() + b"\n")
        os._exit(0)

    monkeypatch.setattr(gpu_evidence, "_life", life)
    assert [record["recipe"]["calls"] for record in lot(tmp_path, 3)] == [2, 1, 0]


def test_the_cells_that_wait_are_not_told_as_somebody_else_on_the_gpu() -> None:
    gpu = GpuSample(1e9, 1e9, 50.0, 100.0, foreign_processes=23)
    warnings = tuple(one.text for one in caveats.of_machine([HostSample(0.0, None, gpu)]))
    (alone,) = gpu_evidence._sent(ok_result(warnings=warnings), 0.0, False, 0)["warnings"]
    (beside,) = gpu_evidence._sent(ok_result(warnings=warnings), 0.0, False, 23)["warnings"]
    assert alone == warnings[0]
    assert beside == f"{warnings[0]} Up to 23 of them were cells of this script that waited for their turn and " + (
        "computed nothing."
    )


def test_a_cell_whose_compiled_model_is_gone_has_no_figures_by_the_recipe() -> None:
    gone = gpu_evidence.Cell(SPEC, gpu_evidence.SCENE)
    assert gone.recipe(ok_result()) is None


def test_a_lot_is_as_large_as_there_is_time_for() -> None:
    for left, size in [(540, 24), (361, 24), (360, 15), (200, 7), (100, 4), (61, 4)]:
        assert gpu_evidence.lot_size(left) == size


# What is taken up again


class Called:
    """The script's main without cells: which were asked for, lot by lot, and what each of them answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answers: list[dict[str, Any] | None]) -> None:
        self.asked: list[str] = []
        self.answers = answers
        monkeypatch.setattr(gpu_evidence.machine, "warm_imports", lambda: None)
        monkeypatch.setattr(gpu_evidence, "run_lot", self._run_lot)

    def _run_lot(self, tasks: list[Task], *rest: Any) -> Any:
        for task in tasks:
            self.asked.append(task.key)
            yield gpu_evidence.record(task, self.answers.pop(0))

    def __call__(self, folder: Path, *more: str) -> int:
        quick = [str(folder), "--quick", "--checkpoints", "shapes-vit", "--commit", "abc"]
        return gpu_evidence.main([*quick, "--steps", "fidelity", *more])


def test_what_took_too_long_or_crashed_is_tried_again_only_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine = {"result": ok_result().to_json(), "recipe": None}
    loop = {"loop": {"eager_seconds": 1.0, "compiled_seconds": 1.0}}
    called = Called(monkeypatch, [{"timed_out": 75.0}, None, fine, loop])
    called(tmp_path)
    first = called.asked[:]
    assert len(first) == 4
    called(tmp_path)
    assert called.asked == first
    called.answers = [None, loop]
    called(tmp_path, "--again", "--steps", "fidelity,fidelity")
    assert called.asked == first + first[:2]
    called.answers = [fine]
    called(tmp_path, "--again")
    assert called.asked == first + first[:2] + first[:1]
    assert all(gpu_evidence._is_final(record) for record in Book(tmp_path / "cells.jsonl.gz").records.values())


def test_what_lacks_memory_beside_cells_that_wait_is_run_once_more_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine = {"result": ok_result().to_json(), "recipe": None}
    full = {"result": ok_result(status="out_of_memory").to_json(), "recipe": None}
    one_at_a_time = {"result": ok_result(interleaved=False).to_json(), "recipe": None}
    no_room = {"error": "CUDA out of memory. Tried to allocate 2.00 GiB."}
    loop = {"loop": {"eager_seconds": 1.0, "compiled_seconds": 1.0}}
    called = Called(monkeypatch, [one_at_a_time, no_room, full, no_room, fine, loop, full])
    called(tmp_path)
    in_turns = called.asked[:4]
    assert called.asked == in_turns + in_turns[:3]  # nobody waited beside the last one
    records = Book(tmp_path / "cells.jsonl.gz").records
    assert records[in_turns[0]]["result"]["interleaved"]
    assert records[in_turns[1]]["loop"] == loop["loop"]
    assert records[in_turns[2]]["result"]["status"] == "out_of_memory"
    assert records[in_turns[3]]["loop"] is None


def test_without_pytest_the_tests_are_found_by_their_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An installed package may be called `tests` too."""
    monkeypatch.setitem(sys.modules, "tests", None)
    monkeypatch.setattr(gpu_evidence.torch.cuda, "is_available", lambda: True)
    module = type(sys)("made_up")
    module.test_that_passes = lambda: None  # type: ignore[attr-defined]
    monkeypatch.setattr(gpu_evidence.importlib.util, "module_from_spec", lambda spec: module)

    def load(loader: Any, found: Any) -> None:
        assert Path(loader.path).read_text().startswith('"""What only a GPU can show.')

    monkeypatch.setattr("importlib.machinery.SourceFileLoader.exec_module", load)
    with pytest.raises(SystemExit) as ended:
        gpu_evidence.call_tests()
    assert ended.value.code == 0
    assert capsys.readouterr().out == "passed test_that_passes\n0 failed\n"


def test_tests_that_were_cut_short_are_not_booked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []

    def run_tests(folder: Path, seconds: float) -> dict[str, Any]:
        given.append(seconds)
        return {"code": None if len(given) == 1 else 0, "seconds": 1.0, "said": "9 passed"}

    monkeypatch.setattr(gpu_evidence, "run_tests", run_tests)
    called = Called(monkeypatch, [])
    called(tmp_path, "--steps", "tests", "--minutes", "3.9")
    assert not given
    for _ in range(3):
        called(tmp_path, "--steps", "tests", "--minutes", "5")
    assert len(given) == 2
    assert all(290 < seconds <= 295 for seconds in given)


def test_the_commit_is_kept_and_its_want_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called = Called(monkeypatch, [])
    monkeypatch.setattr(gpu_evidence, "look_at_machine", lambda device: {"environment": None, "at": "now"})
    called(tmp_path, "--steps", "machine")
    assert json.loads((tmp_path / "machine.json").read_text())["commit"] == "abc"
    assert "--commit" not in capsys.readouterr().err
    monkeypatch.setattr(gpu_evidence, "current_commit", lambda: "")
    called(tmp_path / "other", "--steps", "machine", "--commit", "")
    assert "name the commit with --commit" in capsys.readouterr().err


# What is kept


def test_what_was_torn_off_in_the_middle_of_a_line_costs_that_line_only(tmp_path: Path) -> None:
    book = book_of(tmp_path, cell(), cell("best"))
    path = tmp_path / "cells.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-20])
    again = Book(path)
    assert list(again.records) == list(book.records)[:1]
    again.add(cell("autotune"))
    assert len(Book(path).records) == 2
    with gzip.open(path, "rt") as lines:
        assert len(list(lines)) == 2


def test_a_cell_that_failed_keeps_its_row_and_its_reason(tmp_path: Path) -> None:
    record = gpu_evidence.record(Task("table 1", SPEC), {"timed_out": 75.0})
    line = evidence_tables.row(record)
    assert (line["status"], line["eager_ms"], line["speedup"]) == ("timed_out", "", "")
    assert "**Took too long**: It was stopped after 75 s" in evidence_tables.summary(book_of(tmp_path, record), None)


def test_the_means_are_geometric_and_say_how_many_cells_have_none(tmp_path: Path) -> None:
    failed = gpu_evidence.record(Task("table 1", RunSpec("b", "object-detection", device="cpu")), None)
    told = evidence_tables.summary(book_of(tmp_path, cell(), failed), "abc")
    assert "batch 1, default: 2.000× over 1 of 2 cells" in told
    assert evidence_tables.geometric_mean([1.0, 4.0]) == pytest.approx(2.0)


def test_the_best_is_compared_with_plain_eager_float32_and_must_agree(tmp_path: Path) -> None:
    half = RunSpec("shapes-vit", "image-classification", device="cpu", dtype="bfloat16")
    wrong = RunSpec("shapes-vit", "image-classification", device="cpu", dtype="float16")
    parity = type(ok_result().parity)("differ", 1.0, "no")
    book = book_of(
        tmp_path,
        cell(),
        cell("best", spec=half, eager=measurement(0.001), compiled=measurement(0.0005)),
        cell("best", spec=wrong, compiled=measurement(0.0001), parity=parity),
    )
    told = evidence_tables.summary(book, None)
    assert "shapes-vit, batch 1: 4.00× by default, bfloat16" in told
    assert (
        "Not the autopilot's search but a fixed choice" in told and "and default, bfloat16; default, float16." in told
    )


def test_a_best_cell_without_a_profile_has_the_roofline_of_its_number_format(tmp_path: Path) -> None:
    tuned = RunSpec("shapes-vit", "image-classification", mode="max-autotune", device="cpu")
    half = RunSpec("shapes-vit", "image-classification", device="cpu", dtype="bfloat16")
    book = book_of(
        tmp_path,
        cell(roofline=Roofline(1_000_000, 1_000, 1e10, 1e10)),  # 0.1 ms at least
        cell("best", spec=half, roofline=Roofline(1_000_000, 1_000, 1e11, 1e10)),
        cell("autotune", spec=tuned, compiled=measurement(0.0005)),
    )
    assert "4.00× by max-autotune, float32, 20 % of its own roofline" in evidence_tables.summary(book, None)


def test_a_best_cell_that_gives_no_finite_number_is_left_out(tmp_path: Path) -> None:
    half = RunSpec("shapes-vit", "image-classification", device="cpu", dtype="float16")
    parity = Parity("not comparable", None, "Eager gives no finite number.")
    book = book_of(tmp_path, cell(), cell("best", spec=half, compiled=measurement(0.0001), parity=parity))
    assert "float16" not in evidence_tables._best(book).split("- shapes-vit")[1]


def on_a_gpu(checkpoint: str, compiled: float, **changes: Any) -> dict[str, Any]:
    spec = RunSpec(checkpoint, "image-classification", device="cuda")
    return cell(spec=spec, environment=GPU, compiled=measurement(compiled), **changes)


def test_the_short_table_and_the_devices_rows_are_made_of_the_evidence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = {"key": "machine", "step": "machine", "facts": {"environment": None, "at": "now", "commit": "abc"}}
    failed = gpu_evidence.record(Task("table 1", RunSpec("d", "object-detection", device="cuda")), None)
    folder = tmp_path / "evidence"
    folder.mkdir()
    of_text = {"key": "text", "step": "text", "result": text_result().to_json(), "recipe": None}
    cells = on_a_gpu("a/slow", 0.004), on_a_gpu("b/fast", 0.0005), on_a_gpu("c", 0.001), failed, of_text
    book_of(folder, machine, *cells)
    rows, table = evidence_tables.publish(folder, tmp_path)
    assert rows == tmp_path / "assets" / "measured" / "t4.csv"
    assert {row.measured.commit for row in measured.read(rows)} == {"abc"}
    told = table.read_text()
    assert "| 1 | default | 1.59× over 3 of 4 | 4.00× b/fast | 0.50× a/slow |" in told
    assert "[t4.csv](../../assets/measured/t4.csv)" in told and "commit abc" in told
    (text,) = [line.split(" | ") for line in told.splitlines() if line.startswith("| shapes-gemma")]
    assert text[1:4] == ["default", "float32", "2.04 ms → 1.02 ms"]
    assert text[5:9] == ["8.16 ms → 5.10 ms", "14.3 ms → 8.15 ms", "20.0 ms", "–"]


def test_evidence_of_a_cpu_is_not_published(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    book_of(tmp_path, cell())
    assert evidence_tables.main([str(tmp_path)]) == 2
    assert "no evidence of one GPU" in capsys.readouterr().err
    assert evidence_tables.main([str(tmp_path / "nowhere")]) == 2


def test_fidelity_is_our_median_over_the_loops(tmp_path: Path) -> None:
    run = cell("fidelity")
    result = RunResult.from_json(run["result"])
    loop = {
        "eager_seconds": result.eager.median_seconds / 1.01,
        "compiled_seconds": result.compiled.median_seconds / 0.99,
    }
    plain = gpu_evidence.record(Task("fidelity", result.spec, 0, True), {"loop": loop})
    told = evidence_tables.summary(book_of(tmp_path, run, plain), None)
    assert "shapes-vit, eager: 1.010" in told
    assert "shapes-vit, compiled: 0.990" in told


def test_repetitions_tell_whether_the_verdict_stays(tmp_path: Path) -> None:
    spec = RunSpec("shapes-vit", "image-classification", device="cpu")
    again = {**cell("repeat"), "key": Task("repeat", spec, 1).key}
    slower = {**cell("repeat", compiled=measurement(0.004)), "key": Task("repeat", spec, 2).key}
    assert "2 runs of 2 gave faster;" in evidence_tables.summary(book_of(tmp_path, cell("repeat"), again), None)
    assert "gave faster and slower" in evidence_tables.summary(book_of(tmp_path, slower), None)


def test_cuda_graphs_and_breaks_stand_in_the_table(tmp_path: Path) -> None:
    record = cell(compilation=Compilation(1.0, "cold", 1, cudagraphs="skipped: mutated inputs"))
    assert "| match | 0 | skipped: mutated inputs |" in evidence_tables.summary(book_of(tmp_path, record), None)


def test_the_table_for_the_explorer_can_be_read_by_it(tmp_path: Path) -> None:
    evidence_tables.write_tables(tmp_path, book_of(tmp_path, cell()), "0123456789ab")
    (row,) = measured.read(tmp_path / "measured.csv")
    assert (row.checkpoint, row.batch_size, row.measured.commit) == ("shapes-vit", 1, "0123456789ab")


def test_a_cell_that_was_measured_again_and_again_has_an_interval_for_a_rerun(tmp_path: Path) -> None:
    book = Book(tmp_path / "cells.jsonl.gz")
    for number, seconds in enumerate((0.0010, 0.00104, 0.00102)):
        result = ok_result(compiled=measurement(seconds)).to_json()
        book.add({"key": str(number), "step": "repeat", "result": result, "recipe": None})
    text = evidence_tables.summary(book, None)
    assert "speed-up 1.923 to 2.000×, together 1.90 to 2.02× (95 % confidence for a rerun)." in text
    assert evidence_tables.row(book.of("repeat")[0])["speedup_basis"] == "within one process"
