"""Tests of the script that measures on a GPU: run once on a CPU, and its schedule on a simulated clock."""

import contextlib
import csv
import json
import math
import os
import random
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from support.samples import GPU, measurement, ok_result, text_result
from torch._inductor.runtime.cache_dir_utils import cache_dir
from torch.utils._filelock import FileLock

from demo.backend import models, timing
from demo.backend.effects import Effects
from demo.core.options import RunSpec
from demo.core.result_json import to_json
from demo.store import published
from tools import evidence_tables, gpu_cells, gpu_evidence, gpu_turns, gpu_wave
from tools.evidence_tables import Book
from tools.gpu_cells import Group


def book_of(folder: Path, *records: dict[str, Any]) -> Book:
    book = Book(folder / "cells.jsonl.gz")
    for record in records:
        book.add(record)
    return book


def test_the_quick_mode_goes_on_where_it_was_broken_off(tmp_path, capsys, monkeypatch) -> None:
    options = [str(tmp_path), "--quick", "--checkpoints", "shapes-vit", "--steps"]
    command = [sys.executable, "-m", "tools.gpu_evidence", *options, "table"]
    usual = os.environ | {"TORCHINDUCTOR_CACHE_DIR": cache_dir()}
    process = subprocess.run(command, capture_output=True, text=True, timeout=540, env=usual)
    assert process.returncode == 0 and "complete" in process.stdout, process.stderr
    before = (tmp_path / "cells.jsonl.gz").read_bytes()
    monkeypatch.setattr(gpu_evidence, "_end_after", lambda seconds: None)  # it would take this process's signals
    assert gpu_evidence.main([*options, "machine,table"]) == 0
    assert capsys.readouterr().out.endswith("complete\n")
    assert (tmp_path / "cells.jsonl.gz").read_bytes().startswith(before)
    lines = list(csv.DictReader((tmp_path / "cells.csv").read_text().splitlines()))
    assert [line["mode"] for line in lines] == ["default", "reduce-overhead"]
    for line in lines:
        assert (line["status"], line["graphs"], line["parity"]) == ("ok", "1", "match")
        assert float(line["eager_kernels"]) > float(line["compiled_kernels"]) > 0
    results = [evidence_tables.result_of(record) for record in Book(tmp_path / "cells.jsonl.gz").of("table")]
    assert results[0].eager.wall_seconds == results[1].eager.wall_seconds  # one eager serves both
    assert results[0].compiled.wall_seconds != results[1].compiled.wall_seconds
    for result in results:  # what each run would time again, and the table does not need
        assert result.end_to_end is result.roofline is result.compiled.back_to_back is None
    for compilation in (result.compilation for result in results):
        assert (compilation.recompiles_while_timing, compilation.recompiles) == (0, ())
        assert compilation.cold is None and compilation.warm is None


def test_only_a_first_process_at_batch_1_is_profiled() -> None:
    groups = [group for step in gpu_evidence.steps(False, gpu_evidence.GUIDES).values() for group in step]
    both = [group for group in groups if not group.alone]
    for group in both:
        assert {spec.profile for spec in group.specs} == {
            "on" if group.specs[0].batch_size + group.round == 1 else "off"
        }
    assert {(group.specs[0].batch_size, group.round) for group in both} == {(1, 0), (4, 0), (16, 0), (1, 1), (1, 2)}


@pytest.mark.parametrize(("weights", "place"), [("random", "meta"), ("pretrained", "cpu")])
def test_random_weights_are_made_on_the_device(weights: str, place: str, modes, monkeypatch) -> None:
    """A pretrained model is read into the machine's memory first."""
    monkeypatch.undo()
    made: list[torch.nn.Linear] = []
    spec = SimpleNamespace(device="meta", weights=weights)
    monkeypatch.setattr(models, "_model", lambda spec: torch.nn.Linear(2, 2))
    monkeypatch.setattr(gpu_cells.Run, "load", lambda run: made.append(models._model(spec)))
    modes.cells[0].load()
    assert made[0].weight.device.type == place


@pytest.mark.parametrize(("noise", "most"), [(0.0, 1.8), (0.3, 2.5)], ids=["steady", "noisy"])
def test_a_group_of_two_modes_is_timed_for_seconds(noise: float, most: float) -> None:
    """Calls of 5 ms on a simulated clock."""
    clock, draw = timing.Clock(torch.device("cpu")), random.Random(0)
    now = [0.0]

    def timed(call: Callable[[], None]) -> float:
        seconds = 0.005 * (1 + noise * draw.random())
        now[0] += seconds
        return seconds

    clock.now, clock.time = lambda: now[0], timed  # type: ignore[method-assign]
    samples = gpu_cells.time_modes(lambda: None, [lambda: None] * 2, clock, half=4)
    assert 0.5 < now[0] < most and [sample.blocks >= timing.MIN_BLOCKS for sample in samples] == [True, True]


def test_processes_take_turns_on_the_gpu(tmp_path, monkeypatch) -> None:
    """While another process times a kernel, this one waits; it may take the lock again that it already holds."""
    monkeypatch.setattr(gpu_turns, "cache_dir", lambda: str(tmp_path))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(gpu_turns.benchmarking.benchmarker, "benchmark_gpu", lambda: None, raising=False)
    done = threading.Event()
    work = gpu_turns.alone(gpu_turns.alone(done.set))
    other = FileLock(tmp_path / "gpu_turns.lock")
    with other:
        waiting = threading.Thread(target=work, daemon=True)
        waiting.start()
        assert not done.wait(0.3)
    assert done.wait(5)
    waiting.join(5)
    with other.acquire(timeout=5):  # given back
        pass


@pytest.mark.parametrize(("device", "patched"), [("cuda", True), ("cpu", False)])
def test_a_compile_takes_turns_only_on_a_gpu(device: str, patched: bool) -> None:
    before = gpu_turns.CompiledFxGraph.__call__
    timed = type(gpu_turns.benchmarking.benchmarker).benchmark_gpu
    with gpu_turns.turns(torch.device(device)):
        now = gpu_turns.CompiledFxGraph.__call__, type(gpu_turns.benchmarking.benchmarker).benchmark_gpu
        assert [now[0] is not before, now[1] is not timed] == [patched, patched]
    assert gpu_turns.CompiledFxGraph.__call__ is before


def test_one_eager_is_timed_around_all_modes() -> None:
    """On a simulated machine that slows down, each call takes a second longer than the one before."""
    order, clock = "", timing.Clock(torch.device("cpu"))
    clock.now = lambda: float(len(order))  # type: ignore[method-assign]

    def call(name: str) -> Callable[[], None]:
        def log() -> None:
            nonlocal order
            order += name

        return log

    clock.time = lambda call: call() or float(len(order))  # type: ignore[method-assign]
    first, second = gpu_cells.time_modes(call("E"), [call("D"), call("R")], clock, half=1)
    assert order == "EDRRDE" + "EE" + "EDRRDE"
    assert first.eager is second.eager and first.eager == [1, 6, 9, 14]
    assert (first.compiled, second.compiled) == ([2, 5, 10, 13], [3, 4, 11, 12])
    assert first.control == second.control == [7, 8]


@pytest.fixture
def modes(monkeypatch) -> gpu_cells.Modes:
    """Returns a group of two modes (runs in one process), whose steps do nothing."""
    for step in ("load", "compile_ahead", "warm_up_eager", "compile", "time", "examine", "check", "explain"):
        monkeypatch.setattr(gpu_cells.ModeRun, step, lambda *_: None)
    monkeypatch.setattr(gpu_cells.Modes, "_time", lambda *_: None)
    specs = (RunSpec("shapes-vit", "image-classification", mode=mode, device="cpu") for mode in gpu_evidence.MODES)
    return gpu_cells.Modes(Group("table 1", tuple(specs)), gpu_evidence.PICTURE)


@pytest.mark.parametrize("step", ["compile", "time", "examine"])
@pytest.mark.parametrize("failing", gpu_evidence.MODES)
def test_a_mode_that_fails_leaves_the_other_alone(step: str, failing: str, modes, monkeypatch) -> None:
    def fail(cell: gpu_cells.ModeRun, *_: Any) -> None:
        if cell.spec.mode == failing:
            raise torch.OutOfMemoryError("too large")

    monkeypatch.setattr(gpu_cells.ModeRun, step, fail)
    statuses = {result.spec.mode: result.status for result in modes.measure()}
    assert statuses.pop(failing) == "out_of_memory" and list(statuses.values()) == ["ok"]


def test_a_model_that_does_not_load_fails_in_all_modes(modes, monkeypatch) -> None:
    monkeypatch.setattr(gpu_cells.ModeRun, "load", lambda _: torch.empty(10**15))
    modes.get_ready()
    assert [result.status for result in modes.measure()] == ["out_of_memory"] * 2


def test_what_the_eager_call_does_besides_holds_for_all_modes(modes, monkeypatch) -> None:
    """It is observed once. A model that draws random numbers is not compared as one that repeats itself."""

    def warm_up(cell: gpu_cells.ModeRun) -> None:
        cell.effects = Effects(draws=True)

    monkeypatch.setattr(gpu_cells.ModeRun, "warm_up_eager", warm_up)
    modes.measure()
    assert [cell.effects.draws for cell in modes.cells] == [True, True]


def test_groups_are_timed_in_turns_once_all_are_ready(tmp_path, monkeypatch) -> None:
    def write(text: str) -> None:
        with (tmp_path / "diary").open("a") as file:
            file.write(text + "\n")

    def life(group: Group, image: Path, noise: Path, up: int, down: int) -> None:
        with contextlib.suppress(BaseException):
            os.setsid()
            if group.round == 0:
                time.sleep(60)  # is never ready
            if group.round == 1:
                os._exit(3)
            write(f"ready {group.round}")
            os.write(up, b'{"ready": true}\n')
            if os.read(down, 1):
                write(f"begin {group.round}")
                if group.round == 2:
                    time.sleep(60)
                write(f"end {group.round}")
                os.write(up, json.dumps({"results": [to_json(ok_result())]}).encode() + b"\n")
        os._exit(0)

    monkeypatch.setattr(gpu_wave, "_life", life)
    monkeypatch.setattr(gpu_cells, "CPU_SECONDS", 1.0)
    monkeypatch.setattr(gpu_wave, "READY_SECONDS", 1.0)
    spec = RunSpec("shapes-vit", "image-classification", device="cpu")
    groups = [Group("table 1", (spec,), number) for number in range(5)]
    records = list(gpu_wave.run_wave(groups, gpu_evidence.PICTURE, tmp_path / "noise"))
    statuses = [record["result"]["status"] for record in records]
    assert statuses == ["timed_out", "crashed", "timed_out", "ok", "ok"]
    assert "1.0 s" in records[0]["result"]["failure"]["message"]
    lines = (tmp_path / "diary").read_text().splitlines()
    assert sorted(lines[:3]) == ["ready 2", "ready 3", "ready 4"]
    assert lines[3:] == ["begin 2", "begin 3", "end 3", "begin 4", "end 4"]


def test_a_group_ends_with_the_script(tmp_path, monkeypatch) -> None:
    """A kill of the script, which cannot clean up then, leaves no process on the GPU."""

    def life(*_: Any) -> None:
        (tmp_path / "draft").write_text(str(os.getpid()))
        (tmp_path / "draft").rename(tmp_path / "pid")
        time.sleep(60)
        os._exit(0)

    monkeypatch.setattr(gpu_wave, "_life", life)
    script = os.fork()
    if script == 0:
        with contextlib.suppress(BaseException):
            gpu_wave.Child(Group("table 1", ()), gpu_evidence.PICTURE, tmp_path / "noise")
            time.sleep(60)
        os._exit(1)
    until = time.monotonic() + 10
    while not (tmp_path / "pid").exists() and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(script, signal.SIGKILL)
    os.waitpid(script, 0)
    group = Path("/proc", (tmp_path / "pid").read_text(), "stat")
    while group.exists() and " Z " not in group.read_text() and time.monotonic() < until:
        time.sleep(0.02)
    assert not group.exists() or " Z " in group.read_text()


COMPILE_SECONDS = {"facebook/mask2former": 140, "facebook/maskformer": 120, "facebook/detr": 90, "google/owlvit": 80}
"""Guessed seconds that a group's compile takes on one core, by checkpoint. Others take 50, and the mean is about 70."""
TIMED_SECONDS = 4.5


class SimulatedChild:
    """Simulates a group's process on a simulated clock: it compiles on a core of its own, and is then timed."""

    open: ClassVar[list[Any]] = []

    def __init__(self, group: Group, *_: Any) -> None:
        self.group, self.answer = group, None
        self.ready = self.ended = self.going = False
        names = (name for name in COMPILE_SECONDS if group.specs[0].checkpoint.startswith(name))
        self.until = gpu_wave.now() + COMPILE_SECONDS.get(next(names, ""), 50)

    def listen(self) -> None:
        if gpu_wave.now() < self.until:
            return
        self.ready = True
        if self.going:
            self.answer, self.ended = {"results": [to_json(ok_result(spec=spec)) for spec in self.group.specs]}, True

    def go(self, waiting: int) -> None:
        self.going, self.until = True, gpu_wave.now() + TIMED_SECONDS

    def stop(self, seconds: float) -> None:
        self.answer, self.ended = {"timed_out": seconds}, True

    def close(self) -> None:
        pass


@pytest.fixture
def lease(monkeypatch) -> SimpleNamespace:
    """Simulates a machine with 16 cores and its clock, which ends the script when its time is over."""
    clock = SimpleNamespace(now=0.0, end=math.inf)

    def listen(children: list[SimulatedChild], seconds: float) -> None:
        clock.now += seconds
        if clock.now > clock.end:
            raise gpu_evidence.TimeUp
        for child in children:
            child.listen()

    for name, fake in {"Child": SimulatedChild, "listen": listen, "now": lambda: clock.now}.items():
        monkeypatch.setattr(gpu_wave, name, fake)
    monkeypatch.setattr(gpu_evidence, "usable_cores", lambda: 16)
    return clock


TABLE = gpu_evidence.steps(False, gpu_evidence.GUIDES)["table"]


def test_the_table_fits_into_a_call(lease: SimpleNamespace, tmp_path) -> None:
    """The table has 36 groups of two modes each. 16 cores compile and time them within one call of the script."""
    book = book_of(tmp_path)
    cells = list(gpu_evidence._measure(TABLE, book, tmp_path, lambda: 500 - lease.now))
    assert (len(TABLE), len(cells), len(book.records)) == (36, 72, 72)
    assert {record["result"]["status"] for record in cells} == {"ok"} and lease.now < 500


def test_a_compile_that_does_not_end_costs_only_its_group(lease: SimpleNamespace, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(COMPILE_SECONDS, "facebook/mask2former", 10_000)
    cells = list(gpu_evidence._measure(TABLE, book_of(tmp_path), tmp_path, lambda: 500 - lease.now))
    slow = {record["result"]["status"] for record in cells if "mask2former" in record["key"]}
    others = {record["result"]["status"] for record in cells if "mask2former" not in record["key"]}
    assert (slow, others, len(cells)) == ({"timed_out"}, {"ok"}, 72) and lease.now < 500


@pytest.mark.parametrize("end", [90.0, 190.0, 250.0])
def test_a_kill_costs_the_group_in_hand(end: float, lease: SimpleNamespace, tmp_path) -> None:
    book, lease.end = book_of(tmp_path), end
    with pytest.raises(gpu_evidence.TimeUp):
        list(gpu_evidence._measure(TABLE, book, tmp_path, lambda: 500 - lease.now))
    kept = len(Book(tmp_path / "cells.jsonl.gz").records)
    assert kept % 2 == 0 and kept == len(book.records)
    lease.end = math.inf
    list(gpu_evidence._measure(TABLE, book, tmp_path, lambda: math.inf))
    assert len(Book(tmp_path / "cells.jsonl.gz").records) == 72


def test_what_is_ready_is_timed_before_the_call_ends(lease: SimpleNamespace, tmp_path) -> None:
    """In a call of 170 s the longest compiles of the first wave do not end in time. The next call tries them again."""
    book = book_of(tmp_path)
    with pytest.raises(gpu_evidence.TimeUp):
        list(gpu_evidence._measure(TABLE, book, tmp_path, lambda: 170 - lease.now))
    assert 0 < len(book.records) < 32 and lease.now <= 170
    assert {record["result"]["status"] for record in book.records.values()} == {"ok"}


def test_the_compile_cache_goes_from_call_to_call(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(gpu_evidence, "_end_after", lambda seconds: None)  # it would take this process's signals
    for machine in ("first", "second"):
        monkeypatch.setattr(gpu_evidence, "CACHE", cache := tmp_path / machine)
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache))
        if machine == "first":
            (cache / "triton" / "0").mkdir(parents=True)
            (cache / "triton" / "0" / "a.cubin").write_text("kernel")
            (cache / "gpu_turns.lock").touch()
        assert gpu_evidence.main([str(tmp_path / "evidence"), "--quick", "--steps", "autotune"]) == 0  # has no groups
    assert (cache / "triton" / "0" / "a.cubin").read_text() == "kernel" and not (cache / "gpu_turns.lock").exists()


@pytest.mark.parametrize(("free", "folder"), [(70e9, "/dev/shm"), (64e6, tempfile.gettempdir())], ids=["room", "none"])
def test_the_cache_of_a_start_is_in_memory_if_there_is_room(free: float, folder: str, monkeypatch) -> None:
    monkeypatch.setattr(os, "environ", variables := {"HOME": "/root"})
    monkeypatch.setattr(os, "access", lambda path, mode: True)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    monkeypatch.setattr(sys, "argv", ["gpu_evidence", "--help"])
    with pytest.raises(SystemExit), pytest.warns(RuntimeWarning, match="found in sys.modules"):
        runpy.run_module("tools.gpu_evidence", run_name="__main__")
    assert variables["TORCHINDUCTOR_CACHE_DIR"] == f"{folder}/worth-compiling-evidence"
    assert variables["TRITON_STORE_BINARY_ONLY"] == "1"


def test_the_tables_are_made_of_the_evidence(tmp_path) -> None:
    machine = {"key": "machine", "step": "machine", "facts": {"environment": None, "at": "now", "commit": "abc"}}
    (failed,) = gpu_wave.records(Group("table 1", (RunSpec("d", "object-detection", device="cuda"),)), None)
    folder = tmp_path / "evidence"
    folder.mkdir()
    records: list[dict[str, Any]] = [machine, failed, {"key": "text", "step": "text", "result": to_json(text_result())}]
    for checkpoint, compiled in (("a/slow", 0.004), ("b/fast", 0.0005), ("c", 0.001)):
        spec = RunSpec(checkpoint, "image-classification", device="cuda")
        result = to_json(ok_result(spec=spec, environment=GPU, compiled=measurement(compiled)))
        records.append({"key": checkpoint, "step": "table 1", "result": result})
    book_of(folder, *records)
    again = to_json(ok_result(id="2", spec=spec, environment=GPU, compiled=measurement(0.001)))
    records.append({"key": "c again", "step": "processes", "result": again})
    book_of(folder, records[-1])
    rows, table, raw = evidence_tables.publish(folder, tmp_path)
    assert raw.read_bytes() == (folder / "cells.jsonl.gz").read_bytes()
    assert raw == rows.with_name("t4.jsonl.gz")
    assert [row.repeats for row in published.read_measured(rows)] == [1, 1, 2]
    assert rows == tmp_path / "assets" / "measured" / "t4.csv"
    assert {row.commit for row in published.read_measured(rows)} == {"abc"}
    page = table.read_text()
    assert "| 1 | geometric mean of 4 | 1.59× over 3 |" in page
    assert "| 1 | b/fast | 4.0" in page and "| 1 | d | crashed |" in page
    assert "[t4.csv](../../assets/measured/t4.csv)" in page and "commit abc" in page
    (text,) = [line.split(" | ") for line in page.splitlines() if line.startswith("| shapes-gemma")]
    assert text[1:4] == ["default", "float32", "2.04 ms → 1.02 ms"]
    assert text[5:8] == ["8.16 ms → 5.10 ms", "14.3 ms → 8.15 ms", "match"]
