"""The script that measures on a GPU, proved on a CPU: its cells, its lots, what it keeps and what it tells."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from samples import GPU, measurement, ok_result, text_result

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


# What is planned


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


# What is taken up again


# What is kept


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
