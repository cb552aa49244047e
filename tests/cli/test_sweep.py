"""The command `sweep`: what it says, what it writes, and what a kill at any moment costs."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from samples import ok_result

from demo.cli import sweep as sweep_command
from demo.cli.common import wanted
from demo.cli.main import main
from demo.core.errors import BadInput
from demo.store import measured
from demo.store.history import FOLDER_VARIABLE, History
from demo.sweep.cells import Cell

ROOT = Path(__file__).resolve().parents[2]
SEED = 20261121
SPEC = ok_result().spec


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
    assert [line.split()[-2] for line in done.stdout.splitlines()[1:]] == ["2.0×", "OOM", "2.0×"]
    again = command(tmp_path, *GRID)
    assert again.stderr == "3 cells, 3 of them stored already.\n"
    assert again.stdout == done.stdout
    fresh = command(tmp_path, *GRID, "--fresh")
    assert fresh.stderr.startswith("3 cells. 3 to run")
    assert len(History(tmp_path / "history.sqlite3").all()) == 6


def test_pictures_and_text_go_into_one_sweep_each_with_its_own_settings(tmp_path: Path) -> None:
    grid = ("--checkpoint", "shapes-vit,shapes-gemma", "--prompt", "The", "--tokens", "9", "--cache", "empty")
    done = command(tmp_path, *grid)
    assert done.returncode == 0, done.stderr
    results = {result.spec.checkpoint: result for result in History(tmp_path / "history.sqlite3").all()}
    assert results["shapes-vit"].spec.prompt == "" and results["shapes-gemma"].spec.prompt == "The"


@pytest.mark.parametrize("ending", [".csv", ".json"])
def test_the_table_is_written_in_the_kind_of_its_ending(ending: str, tmp_path: Path) -> None:
    out = tmp_path / f"table{ending}"
    assert command(tmp_path, *GRID, "--out", str(out)).returncode == 0
    rows = list(csv.DictReader(out.open())) if ending == ".csv" else json.loads(out.read_text())
    assert [row["value"] for row in rows] == ["2.0×", "OOM", "2.0×"]
    assert [int(row["batch_size"]) for row in rows] == [1, 101, 2]
    assert float(rows[0]["eager_median_ms"]) == pytest.approx(2.04)
    assert not rows[1]["compiled_median_ms"]
    stored = {result.id for result in History(tmp_path / "history.sqlite3").all()}
    assert {row["id"] for row in rows} == stored


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
        (("--preset", "smoke", "--image", "/no/such.png"), "no picture file"),
        (("--preset", "smoke", "--dtype", "float8"), "float8"),
        (("--checkpoint", "shapes-vit,shapes-gemma"), "needs a prompt"),
        (("--checkpoint", "shapes-gemma", "--prompt", "The", "--image", "x.png"), "sees no picture: leave out --image"),
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
        sweep_command._kept_as_measured([Cell(SPEC, ok_result())])


def test_sigterm_ends_a_sweep_with_the_table_of_what_it_has(tmp_path: Path) -> None:
    out = tmp_path / "table.csv"
    asked = ["sweep", "--checkpoint", "shapes-vit", "--cache", "empty", "--batch-size", "1,2,3", "--out", str(out)]
    asked += ["--export-markdown", str(tmp_path / "table.md")]
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
    assert said.endswith("Stopped: 1 of 3 stored; the same command resumes.\n")
    assert len(out.read_text().splitlines()) == 1 + 1
    assert (tmp_path / "table.md").read_text().count("| not run |") == 2


def test_a_kill_at_any_moment_loses_at_most_the_cell_in_hand(tmp_path: Path) -> None:
    """Twenty kills, in turns by SIGINT and SIGKILL, then the rest: each cell has one result, and few ran twice."""
    moments = random.Random(SEED)
    log, data = tmp_path / "log", tmp_path / "data"
    log.touch()
    sizes = ",".join(str(size) for size in range(1, 41))
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
        while process.poll() is None and len(log.read_text().splitlines()) < before + 2:  # one cell has ended
            time.sleep(0.01)
        # a cell takes 0.2 s on a free core: the kill falls into the next one, or between two
        time.sleep(moments.uniform(0.0, 0.4))
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
    assert counts == Counter(range(1, 41))
    assert len(log.read_text().splitlines()) <= 40 + 20


@pytest.mark.parametrize("fresh", [False, True])
def test_a_sweep_that_ended_before_its_first_value_leaves_an_earlier_table_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fresh: bool
) -> None:
    out = tmp_path / "table.csv"
    out.write_text("an earlier table")
    spec = ok_result().spec
    with pytest.raises(KeyboardInterrupt), sweep_command._kept([Cell(spec)], out, fresh=fresh):
        raise KeyboardInterrupt
    again = "the same command without --fresh" if fresh else "the same command"
    assert capsys.readouterr().err == f"Stopped: 0 of 1 stored; {again} resumes.\n"
    assert out.read_text() == "an earlier table"
    with pytest.raises(KeyboardInterrupt), sweep_command._kept([Cell(spec, ok_result())], out):
        raise KeyboardInterrupt
    assert "2.00×" in out.read_text()


@pytest.mark.parametrize(("typed", "starts"), [("\n", True), ("Y\n", True), ("no\n", False), ("", False), ("y", False)])
def test_the_end_of_the_input_is_no_answer(typed: str, starts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = type("Terminal", (io.StringIO,), {"isatty": lambda self: True})
    monkeypatch.setattr("sys.stdin", terminal(typed))
    monkeypatch.setattr("sys.stderr", terminal())
    assert wanted() is starts
