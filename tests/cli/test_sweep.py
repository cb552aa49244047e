"""Sweeps: the grid, what is stored already, the forecast, the command, and what a kill at any moment costs."""

from __future__ import annotations

import csv
import dataclasses
import importlib.util
import io
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from samples import ENVIRONMENT, MACHINE, measurement, ok_result

from demo.cli import sweep as sweep_command
from demo.cli.run import main
from demo.core import catalog
from demo.core.result import BadInput, ImageInfo, RunResult
from demo.runs.precompiler import Precompiler, worth_it
from demo.runs.runner import Runner
from demo.store import measured
from demo.store.history import FOLDER_VARIABLE, History
from demo.sweep import grid as sweep
from demo.sweep.grid import PICTURE, Cell, Done, Grid

ROOT = Path(__file__).resolve().parents[2]
SEED = 20261121


# The grid


def test_the_grids_task_is_for_the_checkpoints_that_are_not_in_the_list() -> None:
    grid = Grid(("shapes-vit", "somebody/detector"), settings={"task": "object-detection"})
    assert [spec.task for spec in grid.specs(folders=True)] == ["image-classification", "object-detection"]


def test_a_grid_is_every_combination_once_in_order() -> None:
    grid = Grid(("shapes-vit", "shapes-rtdetr", "shapes-vit"), (1, 4), ("default", "lite"), ("float32", "bfloat16"))
    cells = [(s.checkpoint, s.batch_size, s.mode, s.dtype) for s in grid.specs()]
    assert len(cells) == len(set(cells)) == 16
    assert cells[0] == ("shapes-vit", 1, "default", "float32")
    assert [cell[0] for cell in cells] == ["shapes-vit"] * 8 + ["shapes-rtdetr"] * 8


def test_the_published_preset_is_the_guides_table() -> None:
    specs = sweep.PRESETS["published"].specs()
    assert len(specs) == 12 * 3 * 2
    assert {spec.batch_size for spec in specs} == {1, 4, 16}
    assert {spec.mode for spec in specs} == {"default", "reduce-overhead"}
    assert [bool(spec.text) for spec in specs] == [spec.checkpoint == "google/owlvit-base-patch32" for spec in specs]


def test_the_smoke_preset_is_the_bundled_checkpoints() -> None:
    assert [spec.checkpoint for spec in sweep.PRESETS["smoke"].specs()] == [
        checkpoint.id for checkpoint in catalog.CHECKPOINTS if checkpoint.bundled
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"checkpoint": "shapes-vit"}, "'checkpoint', which means nothing"),
        ({}, "no checkpoints"),
        ({"checkpoints": ["shapes-vitt"]}, "Did you mean shapes-vit"),
        ({"checkpoints": "shapes-vit", "batch_sizes": [0]}, "from 1 to 256"),
        ({"checkpoints": "shapes-vit", "modes": []}, "no modes"),
        (
            {"checkpoints": "shapes-vit", "batch_sizes": list(range(1, 257)), "modes": list("abcdefgh")},
            "at most 2000 cells. Given: 2048",
        ),
        ({name: list(range(1000)) for name in sweep.AXES}, "at most 2000 cells. Given: 1000000000000"),
        ({"checkpoints": ["shapes-vit", 3]}, "Unknown checkpoint '3'"),
        ({"checkpoints": [["shapes-vit"]]}, "checkpoints must be single values"),
        ({"checkpoints": "shapes-vit", "batch_sizes": [{}]}, "batch sizes must be single values"),
    ],
)
def test_a_grid_that_cannot_be_run_is_refused_with_a_sentence(given: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        sweep.read_grid(given, "grid.yaml").specs()


def test_what_is_named_more_than_once_is_one_cell_and_counts_as_one() -> None:
    many = {"checkpoints": ["shapes-vit"], "batch_sizes": [1], "modes": ["default"], "dtypes": ["float32"]}
    (spec,) = sweep.read_grid({name: values * 1000 for name, values in many.items()}, "grid.yaml").specs()
    assert spec.checkpoint == "shapes-vit"


# What is stored


def stored(picture: Path = PICTURE, **changes: Any) -> RunResult:
    import hashlib

    digest = hashlib.sha256(picture.read_bytes()).hexdigest()
    return ok_result(**{"image": ImageInfo("scene.png", 480, 360, digest, ""), **changes})


SPEC = ok_result().spec


def test_a_stored_cell_with_the_same_spec_versions_and_device_is_done() -> None:
    (cell,) = sweep.cells([SPEC.on("auto")], [stored()], MACHINE, PICTURE)
    assert cell.stored and cell.result == stored()


@pytest.mark.parametrize(
    "other",
    [
        stored(spec=dataclasses.replace(SPEC, batch_size=2)),
        stored(environment=dataclasses.replace(ENVIRONMENT, torch="2.12.0")),
        stored(environment=dataclasses.replace(ENVIRONMENT, transformers="5.22.0")),
        stored(environment=dataclasses.replace(ENVIRONMENT, device_name="Another CPU")),
        stored(environment=None),
        stored(image=ImageInfo("other.png", 480, 360, "00" * 32, "")),
        stored(status="cancelled"),
        stored(status="crashed"),
        stored(status="timed_out"),
    ],
    ids=["spec", "torch", "transformers", "device", "nothing known", "picture", "cancelled", "crashed", "timed out"],
)
def test_any_other_stored_result_does_not_answer_for_it(other: RunResult) -> None:
    (cell,) = sweep.cells([SPEC], [other], MACHINE, PICTURE)
    assert not cell.done


def test_another_driver_of_the_gpu_is_another_device() -> None:
    gpu = dataclasses.replace(MACHINE, gpu="A GPU", driver="580.1", triton="3.5.0")
    environment = dataclasses.replace(ENVIRONMENT, device_name="A GPU", driver="580.1", triton="3.5.0")
    result = stored(spec=SPEC.on("cuda"), environment=environment)
    assert sweep.cells([SPEC.on("auto")], [result], gpu, PICTURE)[0].done
    assert not sweep.cells([SPEC.on("auto")], [result], dataclasses.replace(gpu, driver="581.0"), PICTURE)[0].done


def test_fresh_runs_what_is_stored_too() -> None:
    assert not sweep.cells([SPEC], [stored()], MACHINE, PICTURE, fresh=True)[0].done


def test_a_folder_that_was_written_to_since_is_run_again(tmp_path: Path) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"weights")
    spec = dataclasses.replace(SPEC, checkpoint=str(tmp_path))
    result = stored(spec=spec)
    ran = datetime.fromisoformat(result.started_at).timestamp()
    for seconds, done in ((-60, True), (+60, False)):
        os.utime(weights, (ran + seconds, ran + seconds))
        assert sweep.cells([spec], [result], MACHINE, PICTURE)[0].done is done


def test_the_newest_of_several_answers() -> None:
    (cell,) = sweep.cells([SPEC], [stored(id="new"), stored(id="old")], MACHINE, PICTURE)
    assert cell.result is not None and cell.result.id == "new"


# The forecast


def test_the_forecast_is_the_most_alike_earlier_runs() -> None:
    earlier = [
        stored(elapsed_seconds=10.0),
        stored(elapsed_seconds=30.0),
        stored(elapsed_seconds=500.0, spec=dataclasses.replace(SPEC, mode="max-autotune")),
        stored(elapsed_seconds=900.0, environment=dataclasses.replace(ENVIRONMENT, device_name="Another CPU")),
    ]
    found = sweep.forecast([Cell(SPEC)], earlier, MACHINE)
    assert (found.cells, found.seconds, found.guessed) == (1, 20.0, 0)


def test_where_nothing_was_run_before_the_forecast_says_that_it_guesses() -> None:
    specs = Grid(("shapes-vit", "facebook/convnext-large-224")).specs()
    small, large = (sweep.forecast([Cell(spec)], [], MACHINE) for spec in specs)
    assert small.guessed == large.guessed == 1
    assert 0 < small.seconds < large.seconds


def test_what_is_done_takes_no_time() -> None:
    assert sweep.forecast([Cell(SPEC, stored())], [], MACHINE) == sweep.Forecast(0, 0, 0)


# Running it


def quick_runner(tmp_path: Path) -> Runner:
    return Runner(History(tmp_path / "history.sqlite3"), worker_module="tests.quick_worker")


def finished(grid: list[Cell], runner: Runner, **more: Any) -> dict[int, Cell]:
    events = sweep.run(grid, runner, PICTURE, threading.Event(), **more)
    return {event.place: event.cell for event in events if isinstance(event, Done)}


def test_failures_are_values_and_the_sweep_goes_on(tmp_path: Path) -> None:
    grid = [Cell(spec.on("cpu")) for spec in Grid(("shapes-vit",), (101, 102, 103, 104, 1)).specs()]
    done = finished(grid, quick_runner(tmp_path))
    values = [done[place].value for place in range(5)]
    assert values[0] == "OOM"
    assert values[1].startswith("compile failed: It went wrong")
    assert values[2].startswith("crashed: ")
    assert values[3] == "refused: This one is not to be had."
    assert values[4] == "2.00×"
    assert len(History(tmp_path / "history.sqlite3").all()) == 4  # a refusal is no run


def test_a_second_sweep_runs_only_what_has_no_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    monkeypatch.setenv("QUICK_LOG", str(log))
    specs = Grid(("shapes-vit",), (1, 2, 101, 103)).specs()
    runner = quick_runner(tmp_path)
    for _ in range(2):
        results = History(tmp_path / "history.sqlite3").all()
        finished(sweep.cells(specs, results, runner.inspect(), PICTURE), runner)
    counts = Counter(line.split()[1] for line in log.read_text().splitlines())
    assert counts == {"1": 1, "2": 1, "101": 1, "103": 2}  # the crash is tried again


def test_cancel_ends_the_sweep_and_gives_the_cell_in_hand_no_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUICK_SECONDS", "600")
    cancel = threading.Event()
    grid = [Cell(spec) for spec in Grid(("shapes-vit",), (1, 2)).specs()]
    seen = []
    for event in sweep.run(grid, quick_runner(tmp_path), PICTURE, cancel):
        seen.append(event)
        cancel.set()
    assert not [event for event in seen if isinstance(event, Done)]
    assert [result.status for result in History(tmp_path / "history.sqlite3").all()] == ["cancelled"]


def test_each_cell_waits_for_its_turn(tmp_path: Path) -> None:
    turns: list[str] = []

    @contextmanager
    def turn() -> Iterator[Iterator[int]]:
        turns.append("in")
        yield iter([2, 1])
        turns.append("out")

    grid = [Cell(spec) for spec in Grid(("shapes-vit",), (1, 2)).specs()]
    events = list(sweep.run(grid, quick_runner(tmp_path), PICTURE, threading.Event(), turn=turn))
    assert turns == ["in", "out"] * 2
    assert [event.ahead for event in events if isinstance(event, sweep.Waiting)] == [2, 1, 2, 1]


# Compiling ahead


class CountingPrecompiler(Precompiler):
    def __init__(self) -> None:
        super().__init__(processes=1)
        self.lots: list[list[int]] = []

    def compile(self, specs: Any, image: Path) -> Iterator[tuple[int, int]]:
        self.lots.append([spec.batch_size for spec in specs])
        yield len(specs), len(specs)


def test_cells_are_compiled_in_lots_and_each_lot_before_it_is_timed(tmp_path: Path) -> None:
    precompiler = CountingPrecompiler()
    grid = [Cell(spec) for spec in Grid(("shapes-vit",), (1, 2, 3, 4, 5, 6)).specs()]
    order = []
    for event in sweep.run(grid, quick_runner(tmp_path), PICTURE, threading.Event(), precompiler):
        if not isinstance(event, sweep.Timing):
            order.append(type(event).__name__)
    assert precompiler.lots == [[1, 2, 3, 4], [5, 6]]
    assert order == ["Precompiling", "Done", "Done", "Done", "Done", "Precompiling", "Done", "Done"]


def test_what_measures_a_cold_compile_or_tunes_kernels_is_not_compiled_ahead() -> None:
    assert worth_it(SPEC)
    assert not worth_it(dataclasses.replace(SPEC, cache="empty"))
    assert not worth_it(dataclasses.replace(SPEC, mode="max-autotune"))
    assert not worth_it(dataclasses.replace(SPEC, mode="max-autotune-no-cudagraphs"))


def test_a_run_after_compiling_ahead_finds_everything_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a spec asks: the two have nothing in common but the checkpoint."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    plain = dataclasses.replace(SPEC, iterations=10)
    other = dataclasses.replace(
        plain, batch_size=2, dtype="bfloat16", fullgraph=True, channels_last=True, attention="eager", threads=1
    )
    *_, last = Precompiler(processes=2).compile([plain, other], PICTURE)
    assert last == (2, 2)
    for spec in (plain, other):
        *_, result = Runner(None).run(spec, PICTURE)
        assert isinstance(result, RunResult) and result.compilation is not None
        assert (result.status, result.compilation.cache) == ("ok", "warm")


def test_leaving_the_precompiler_ends_its_processes(tmp_path: Path) -> None:
    lot = Precompiler(processes=2).compile([SPEC, dataclasses.replace(SPEC, batch_size=2)], PICTURE)
    next(lot)
    children = Path(f"/proc/{os.getpid()}/task/{threading.get_native_id()}/children")
    before = set(children.read_text().split())
    lot.close()
    assert len(before - set(children.read_text().split())) == 1


# The command


def command(data: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.quick_sweep", "sweep", *arguments],
        env={**os.environ, FOLDER_VARIABLE: str(data), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
    )


GRID = ("--checkpoint", "shapes-vit", "--batch-size", "1,101", "--batch-size", "2", "--cache", "empty")


def test_the_command_says_how_many_and_how_long_and_asks_nothing_without_a_terminal(tmp_path: Path) -> None:
    done = command(tmp_path, *GRID)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("3 cells. 3 to run: about ")
    assert "a rough guess for 3 of them" in done.stderr
    assert "Start?" not in done.stderr
    assert [line.split()[-2] for line in done.stdout.splitlines()[1:]] == ["2.00×", "OOM", "2.00×"]
    again = command(tmp_path, *GRID)
    assert again.stderr == "3 cells, 3 of them stored already.\n"
    assert again.stdout == done.stdout
    fresh = command(tmp_path, *GRID, "--fresh")
    assert fresh.stderr.startswith("3 cells. 3 to run")
    assert len(History(tmp_path / "history.sqlite3").all()) == 6


@pytest.mark.parametrize("ending", [".csv", ".json"])
def test_the_table_is_written_in_the_kind_of_its_ending(ending: str, tmp_path: Path) -> None:
    out = tmp_path / f"table{ending}"
    assert command(tmp_path, *GRID, "--out", str(out)).returncode == 0
    rows = list(csv.DictReader(out.open())) if ending == ".csv" else json.loads(out.read_text())
    assert [row["value"] for row in rows] == ["2.00×", "OOM", "2.00×"]
    assert [int(row["batch_size"]) for row in rows] == [1, 101, 2]
    assert float(rows[0]["eager_median_ms"]) == pytest.approx(2.04)
    assert not rows[1]["compiled_median_ms"]
    stored = {result.id for result in History(tmp_path / "history.sqlite3").all()}
    assert {row["id"] for row in rows} == stored


@pytest.mark.skipif(not importlib.util.find_spec("pyarrow"), reason="pyarrow is not installed: requirements-sweep.txt")
def test_the_table_can_be_parquet(tmp_path: Path) -> None:
    import pandas

    out = tmp_path / "table.parquet"
    sweep.write_table(out, [Cell(SPEC, stored())])
    assert list(pandas.read_parquet(out)["id"]) == [stored().id]


def test_a_sweep_becomes_the_measured_table_of_its_device(tmp_path: Path) -> None:
    failed = stored(id="two", status="out_of_memory", compiled=None)
    path = sweep.keep_as_measured([Cell(SPEC, stored()), Cell(SPEC, failed), Cell(SPEC)], tmp_path)
    assert path == tmp_path / "example-cpu.csv"
    rows = measured.read(path)
    assert [row.compiled_seconds for row in rows] == [pytest.approx(0.00102), None]
    assert {row.gpu for row in rows} == {"Example CPU"}


def test_a_small_sweep_leaves_the_rows_of_a_measured_table_that_it_does_not_measure(tmp_path: Path) -> None:
    large = dataclasses.replace(SPEC, batch_size=4)
    other = dataclasses.replace(SPEC, mode="lite")
    sweep.keep_as_measured([Cell(one, stored(spec=one)) for one in (SPEC, large, other)], tmp_path)
    again = stored(compiled=measurement(0.0005))
    path = sweep.keep_as_measured([Cell(SPEC, again)], tmp_path)
    rows = {(row.batch_size, row.mode): row.compiled_seconds for row in measured.read(path)}
    assert rows == {
        (4, "default"): pytest.approx(0.00102),
        (1, "lite"): pytest.approx(0.00102),
        (1, "default"): pytest.approx(0.00051),
    }


def test_a_measured_table_that_cannot_be_read_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "example-cpu.csv").write_text("my,own,notes\n")
    with pytest.raises(BadInput, match=r"measured table .*columns lack"):
        sweep.keep_as_measured([Cell(SPEC, stored())], tmp_path)
    assert (tmp_path / "example-cpu.csv").read_text() == "my,own,notes\n"


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ([], "No cell has a result"),
        ([stored(status="failed", compiled=None)], "nothing to put into a table"),
        (
            [stored(), stored(environment=dataclasses.replace(ENVIRONMENT, device_name="Another"))],
            "Another, Example CPU: a measured table belongs to one device",
        ),
    ],
    ids=["none", "failed only", "two devices"],
)
def test_a_table_of_nothing_or_of_two_devices_is_refused(results: list[RunResult], words: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=words):
        sweep.keep_as_measured([Cell(SPEC, result) for result in results], tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "No grid was given"),
        (("--preset", "nope"), "Unknown preset 'nope'"),
        (("--preset", "smoke", "grid.yaml"), "not both"),
        (("nowhere.yaml",), "cannot be read"),
        (("--preset", "smoke", "--out", "table.txt"), ".parquet"),
        (("--preset", "smoke", "--out", "/no/such/folder/t.csv"), "does not exist"),
        (("--preset", "smoke", "--out", "{folder}"), "is a folder"),
        (("--preset", "smoke", "--image", "/no/such.png"), "does not exist"),
        (("--preset", "smoke", "--dtype", "float8"), "float8"),
    ],
)
def test_bad_input_is_a_sentence_before_anything_is_run(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    folder = tmp_path / "t.csv"
    folder.mkdir()
    done = command(tmp_path, *(argument.format(folder=folder) for argument in arguments))
    assert done.returncode == 2
    assert words in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "history.sqlite3").exists()


def test_a_yaml_file_is_a_grid_and_options_go_before_it(tmp_path: Path) -> None:
    grid = tmp_path / "grid.yaml"
    grid.write_text("checkpoints: [shapes-vit, shapes-rtdetr]\nbatch_sizes: [1, 2]\ncache: empty\niterations: 20\n")
    done = command(tmp_path, str(grid), "--batch-size", "3")
    assert done.returncode == 0, done.stderr
    results = History(tmp_path / "history.sqlite3").all()
    assert {(r.spec.checkpoint, r.spec.batch_size, r.spec.iterations) for r in results} == {
        ("shapes-vit", 3, 20),
        ("shapes-rtdetr", 3, 20),
    }


@pytest.mark.parametrize(
    "content",
    [
        "checkpoints: [",
        "- shapes-vit",
        "batchsizes: [1]",
        "checkpoints: shapes-vit\nmodes: lite\ncheckpoints: shapes-rtdetr",
    ],
)
def test_a_broken_grid_file_is_refused_by_name(content: str, tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(content)
    done = command(tmp_path, str(tmp_path / "grid.yaml"))
    assert done.returncode == 2
    assert "grid.yaml" in done.stderr and "Traceback" not in done.stderr


def test_without_pyyaml_a_grid_file_is_refused_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "grid.yaml").write_text("checkpoints: [shapes-vit]\n")
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert main(["sweep", str(tmp_path / "grid.yaml")]) == 2
    assert "pip install pyyaml" in capsys.readouterr().err


def test_a_measured_table_that_cannot_be_written_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(measured, "FOLDER", tmp_path / "file" / "measured")
    with pytest.raises(BadInput, match=r"The measured table was not written: .*The results are in the store"):
        sweep_command._kept_as_measured([Cell(SPEC, stored())])


def test_sigterm_ends_a_sweep_with_the_table_of_what_it_has(tmp_path: Path) -> None:
    out = tmp_path / "table.csv"
    asked = ["sweep", "--checkpoint", "shapes-vit", "--cache", "empty", "--batch-size", "1,2,3", "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.quick_sweep", *asked],
        env={**os.environ, FOLDER_VARIABLE: str(tmp_path), "QUICK_SECONDS": "2"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stderr is not None
    while not process.stderr.readline().startswith("[1/3]"):
        assert process.poll() is None
    process.terminate()
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 143
    assert "Traceback" not in said
    assert len(out.read_text().splitlines()) == 1 + 1


def test_a_kill_at_any_moment_loses_at_most_the_cell_in_hand(tmp_path: Path) -> None:
    """Twenty kills, in turns by SIGINT and SIGKILL, then the rest: each cell has one result, and few ran twice."""
    moments = random.Random(SEED)
    log, data = tmp_path / "log", tmp_path / "data"
    log.touch()
    sizes = ",".join(str(size) for size in range(1, 61))
    arguments = ["sweep", "--checkpoint", "shapes-vit", "--batch-size", sizes, "--cache", "empty"]
    environment = {**os.environ, FOLDER_VARIABLE: str(data), "QUICK_LOG": str(log), "QUICK_SECONDS": "0.05"}
    known: set[str] = set()
    for kill in range(20):
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.quick_sweep", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
        )
        before = len(log.read_text().splitlines())
        while process.poll() is None and len(log.read_text().splitlines()) == before:
            time.sleep(0.01)
        time.sleep(moments.uniform(0.0, 0.8))
        process.send_signal(signal.SIGINT if kill % 2 else signal.SIGKILL)
        process.wait()
        now = {r.id for r in History(data / "history.sqlite3").all() if r.status == "ok"}
        assert known <= now
        known = now
    done = subprocess.run(
        [sys.executable, "-m", "tests.quick_sweep", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert known and f"{len(known)} of them stored already" in done.stderr
    counts = Counter(r.spec.batch_size for r in History(data / "history.sqlite3").all() if r.status == "ok")
    assert counts == Counter(range(1, 61))
    assert len(log.read_text().splitlines()) <= 60 + 20


def test_a_sweep_that_ended_before_its_first_value_leaves_an_earlier_table_alone(tmp_path: Path) -> None:
    out = tmp_path / "table.csv"
    out.write_text("an earlier table")
    spec = ok_result().spec
    with pytest.raises(KeyboardInterrupt), sweep_command._kept([Cell(spec)], out):
        raise KeyboardInterrupt
    assert out.read_text() == "an earlier table"
    with pytest.raises(KeyboardInterrupt), sweep_command._kept([Cell(spec, ok_result())], out):
        raise KeyboardInterrupt
    assert "2.00×" in out.read_text()


@pytest.mark.parametrize(("typed", "starts"), [("\n", True), ("Y\n", True), ("no\n", False), ("", False), ("y", False)])
def test_the_end_of_the_input_is_no_answer(typed: str, starts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = type("Terminal", (io.StringIO,), {"isatty": lambda self: True})
    monkeypatch.setattr("sys.stdin", terminal(typed))
    monkeypatch.setattr("sys.stderr", terminal())
    assert sweep_command._wanted() is starts
