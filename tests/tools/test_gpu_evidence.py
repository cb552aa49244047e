"""The script that measures on a GPU, run once on a CPU, and the tables that are made of what it keeps."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
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
