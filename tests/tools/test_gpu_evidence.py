"""The script that measures on a GPU, run once on a CPU, and the tables that are made of what it keeps."""

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
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


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    """The script takes SIGTERM and SIGALRM for the end of its time."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGALRM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_the_quick_mode_measures_on_a_cpu_and_takes_up_where_it_was_broken_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "complete" in script(tmp_path, "--steps", "table 1")
    before = (tmp_path / "cells.jsonl.gz").read_bytes()
    again = [str(tmp_path), "--quick", "--checkpoints", "shapes-vit", "--steps", "machine,table 1"]
    monkeypatch.setattr(gpu_evidence, "STARTED", time.monotonic())
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


def lot(tmp_path: Path, tasks: int, ready_seconds: float = 30.0) -> Iterator[dict[str, Any]]:
    numbered = [Task("repeat", SPEC, number) for number in range(tasks)]
    return gpu_evidence.run_lot(numbered, gpu_evidence.SCENE, tmp_path / "noise", 2, ready_seconds)


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
    records = list(lot(tmp_path, 4, ready_seconds=1.0))
    assert [record["result"]["status"] for record in records] == ["timed_out", "crashed", "timed_out", "ok"]
    assert "1.0 s" in records[0]["result"]["failure"]["message"]


def test_when_the_time_is_up_the_cell_in_hand_is_not_called_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives(monkeypatch, tmp_path / "diary", {1: "hangs"})
    told = []
    gpu_evidence._end_after(3.0)
    with pytest.raises(gpu_evidence.TimeUp):
        for record in lot(tmp_path, 3):
            told.append(record["key"][-1])
    assert told == ["0"]
    assert gpu_evidence.Child.open == []


def test_cells_end_with_the_script_however_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def life(task: Task, image: Path, noise: Path, up: int, down: int) -> None:
        os.setsid()
        (tmp_path / f"pid {task.round}").write_text(str(os.getpid()))
        held = pipes() - {os.readlink(f"/proc/self/fd/{fd}") for fd in (up, down)}
        (tmp_path / f"held {task.round}").write_text(" ".join({*held, "none"}))
        time.sleep(60)

    monkeypatch.setattr(gpu_evidence, "_life", life)
    before = pipes()
    script = os.fork()
    if script == 0:
        list(lot(tmp_path, 2))
    files = [tmp_path / f"{what} {number}" for number in range(2) for what in ("pid", "held")]
    wait_for(lambda: all(file.exists() and file.read_text() for file in files))
    os.kill(script, signal.SIGKILL)
    os.waitpid(script, 0)
    wait_for(lambda: not any(Path("/proc", file.read_text()).exists() for file in files[::2]))
    for file in files[1::2]:
        assert set(file.read_text().split()) - before == {"none"}


def pipes() -> set[str]:
    """The pipes that this process has an end of."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one that lists
            found.add(os.readlink(f"/proc/self/fd/{fd}"))
    return {one for one in found if one.startswith("pipe:")}


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(300):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("not within 30 s")


def test_what_is_worth_most_comes_first_and_a_test_is_a_record_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = list(gpu_evidence.steps(False, gpu_evidence.GUIDES))
    assert order[:5] == ["smoke", "table 1", "text", "fidelity", "repeat"]
    assert order[5:] == ["tests", "table 16", "table 4", "best", "autotune"]
    ended = {"test_a": "passed", "test_b": "FAILED: no"}
    lines = [json.dumps({"test": test, "said": said, "seconds": 1.0}) for test, said in ended.items()]
    book = book_of(tmp_path)
    real = subprocess.Popen
    told = ["/bin/sh", "-c", "printf '%s\\n' \"$@\"", "sh", *lines]
    monkeypatch.setattr(gpu_evidence.subprocess, "Popen", lambda command, **more: real(told, **more))
    gpu_evidence.run_tests(book, tmp_path / "noise.txt")
    assert {"tests", "tests|test_a", "tests|test_b"} <= book.records.keys()
    assert "2 functions were called. test_b: FAILED: no." in evidence_tables.summary(book, None)


def test_a_book_torn_at_any_byte_keeps_what_came_before_even_where_its_repair_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cells.jsonl.gz"
    book_of(tmp_path, {"key": "a", "step": "repeat"}, {"key": "b", "step": "repeat"})
    first = path.stat().st_size
    Book(path).add({"key": "c", "step": "repeat"})
    whole = path.read_bytes()
    for size in range(first + 1, len(whole)):
        path.write_bytes(whole[:size])
        with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
            killed.setattr(evidence_tables.json, "dumps", lambda *_, **__: ended())
            Book(path)
        assert {"a", "b"} <= Book(path).records.keys()
        Book(path).add({"key": "d", "step": "repeat"})
        assert {"a", "b", "d"} <= Book(path).records.keys()


def ended() -> str:
    raise KeyboardInterrupt


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
    assert {row.commit for row in measured.read(rows)} == {"abc"}
    told = table.read_text()
    assert "| 1 | default | 1.59× over 3 of 4 | 4.00× b/fast | 0.50× a/slow |" in told
    assert "[t4.csv](../../assets/measured/t4.csv)" in told and "commit abc" in told
    (text,) = [line.split(" | ") for line in told.splitlines() if line.startswith("| shapes-gemma")]
    assert text[1:4] == ["default", "float32", "2.04 ms → 1.02 ms"]
    assert text[5:9] == ["8.16 ms → 5.10 ms", "14.3 ms → 8.15 ms", "20.0 ms", "–"]
