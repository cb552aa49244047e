"""The script that measures on a GPU, run once on a CPU, and the tables that are made of what it keeps."""

import contextlib
import csv
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from support.samples import GPU, measurement, ok_result, text_result

from demo.core.options import RunSpec
from demo.core.result_json import to_json
from demo.store import published
from tools import evidence_tables, gpu_cells, gpu_evidence
from tools.evidence_tables import Book
from tools.gpu_cells import Task


def book_of(folder: Path, *records: dict[str, Any]) -> Book:
    book = Book(folder / "cells.jsonl.gz")
    for record in records:
        book.add(record)
    return book


def test_the_quick_mode_goes_on_where_it_was_broken_off(tmp_path, capsys, monkeypatch) -> None:
    asked = [str(tmp_path), "--quick", "--checkpoints", "shapes-vit", "--steps"]
    command = [sys.executable, "-m", "tools.gpu_evidence", *asked, "table 1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=540)
    assert done.returncode == 0 and "complete" in done.stdout, done.stderr
    before = (tmp_path / "cells.jsonl.gz").read_bytes()
    monkeypatch.setattr(gpu_evidence, "_end_after", lambda seconds: None)  # it would take this process's signals
    assert gpu_evidence.main([*asked, "machine,table 1"]) == 0
    assert capsys.readouterr().out.endswith("complete\n")
    assert (tmp_path / "cells.jsonl.gz").read_bytes().startswith(before)
    (line,) = csv.DictReader((tmp_path / "cells.csv").read_text().splitlines())
    assert (line["checkpoint"], line["status"], line["graphs"], line["parity"]) == ("shapes-vit", "ok", "1", "match")
    assert float(line["eager_recipe_ms"]) > 0 and float(line["recipe_calls"]) >= gpu_cells.MIN_RECIPE_CALLS
    assert float(line["eager_kernels"]) > float(line["compiled_kernels"]) > 0
    result = evidence_tables.result_of(Book(tmp_path / "cells.jsonl.gz").of("table")[0])
    assert result.compilation.recompiles_while_timing == 0
    assert result.compilation.cold is None and result.compilation.warm is None


def test_cells_take_turns_once_all_are_ready(tmp_path, monkeypatch) -> None:
    def write(text: str) -> None:
        with (tmp_path / "diary").open("a") as file:
            file.write(text + "\n")

    def life(task: Task, image: Path, noise: Path, up: int, down: int) -> None:
        with contextlib.suppress(BaseException):
            os.setsid()
            if task.round == 0:
                time.sleep(60)  # is never ready
            if task.round == 1:
                os._exit(3)
            write(f"ready {task.round}")
            os.write(up, b'{"ready": true}\n')
            if os.read(down, 1):
                write(f"begin {task.round}")
                if task.round == 2:
                    time.sleep(60)
                write(f"end {task.round}")
                os.write(up, json.dumps({"result": to_json(ok_result()), "recipe": None}).encode() + b"\n")
        os._exit(0)

    monkeypatch.setattr(gpu_cells, "_life", life)
    monkeypatch.setattr(gpu_cells, "CPU_SECONDS", 1.0)
    spec = RunSpec("shapes-vit", "image-classification", device="cpu")
    tasks = [Task("repeat", spec, number) for number in range(5)]
    records = list(gpu_cells.run_lot(tasks, gpu_evidence.PICTURE, tmp_path / "noise", 2, ready_seconds=1.0))
    found = [record["result"]["status"] for record in records]
    assert found == ["timed_out", "crashed", "timed_out", "ok", "ok"]
    assert "1.0 s" in records[0]["result"]["failure"]["message"]
    lines = (tmp_path / "diary").read_text().splitlines()
    assert sorted(lines[:3]) == ["ready 2", "ready 3", "ready 4"]
    assert lines[3:] == ["begin 2", "begin 3", "end 3", "begin 4", "end 4"]


def test_the_tables_are_made_of_the_evidence(tmp_path) -> None:
    machine = {"key": "machine", "step": "machine", "facts": {"environment": None, "at": "now", "commit": "abc"}}
    failed = gpu_cells.record(Task("table 1", RunSpec("d", "object-detection", device="cuda")), None)
    folder = tmp_path / "evidence"
    folder.mkdir()
    records = [machine, failed, {"key": "text", "step": "text", "result": to_json(text_result()), "recipe": None}]
    for checkpoint, compiled in (("a/slow", 0.004), ("b/fast", 0.0005), ("c", 0.001)):
        spec = RunSpec(checkpoint, "image-classification", device="cuda")
        result = to_json(ok_result(spec=spec, environment=GPU, compiled=measurement(compiled)))
        records.append({"key": Task("table 1", spec).key, "step": "table 1", "result": result, "recipe": None})
    book_of(folder, *records)
    rows, table = evidence_tables.publish(folder, tmp_path)
    assert rows == tmp_path / "assets" / "measured" / "t4.csv"
    assert {row.commit for row in published.read_measured(rows)} == {"abc"}
    told = table.read_text()
    assert "| 1 | geometric mean of 4 | 1.59× over 3 |" in told
    assert "| 1 | b/fast | 4.0" in told and "| 1 | d | crashed |" in told
    assert "[t4.csv](../../assets/measured/t4.csv)" in told and "commit abc" in told
    (text,) = [line.split(" | ") for line in told.splitlines() if line.startswith("| shapes-gemma")]
    assert text[1:4] == ["default", "float32", "2.04 ms → 1.02 ms"]
    assert text[5:8] == ["8.16 ms → 5.10 ms", "14.3 ms → 8.15 ms", "match"]
