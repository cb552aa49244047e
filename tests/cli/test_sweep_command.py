"""Tests of the command `sweep`: what it prints and what it writes."""

import signal
from pathlib import Path
from unittest.mock import Mock

import pytest
from support.command_line import SIGNALS, quick, stop
from support.samples import ok_result

from demo.cli.main import main, parser
from demo.cli.sweep_command import grid_specs
from demo.store.history import History, HistoryError

VIT = ("sweep", "--checkpoint", "shapes-vit")


def sweep(data: Path, *arguments: str) -> tuple[str, str]:
    """Runs a sweep, which must succeed. Returns its standard output and standard error."""
    process = quick(data, *VIT, *arguments)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out, err


def test_the_command_says_how_many_cells_and_how_long(tmp_path) -> None:
    grid = ("--batch-size", "1,101", "--batch-size", "2", "--cache", "empty")
    table, err = sweep(tmp_path, *grid)
    assert err.startswith("3 cells, 0 of them stored already: 3 to run, about ")
    assert "a rough guess for 3 of them" in err
    assert [line.split()[-2] for line in table.splitlines()[1:]] == ["2.0×", "OOM", "2.0×"]
    assert sweep(tmp_path, *grid) == (table, "3 cells, 3 of them stored already: 0 to run.\n")
    assert sweep(tmp_path, *grid, "--fresh")[1].startswith("3 cells, 0 of them stored already")
    assert len(History(tmp_path / "history.sqlite3").all()) == 6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "No grid was given"),
        (("nowhere.yaml",), "cannot be read"),
        (("{grid}/open.yaml",), "open.yaml"),
        (("{grid}/unknown.yaml",), "unknown.yaml"),
        (("--preset", "smoke", "--out", "table.txt"), ".parquet"),
        (("--preset", "smoke", "--image", "/no/such.png"), "cannot be opened: No such file"),
        (("--checkpoint", "shapes-gemma", "--prompt", "The", "--image", "x.png"), "sees no picture: leave out --image"),
    ],
)
def test_bad_input_is_a_sentence_before_anything_is_run(arguments, words, tmp_path, data_folder, capsys):
    for name, content in (("open", "checkpoints: ["), ("unknown", "batchsizes: [1]")):
        (tmp_path / f"{name}.yaml").write_text(content)
    assert main(["sweep", *(argument.format(grid=tmp_path) for argument in arguments)]) == 2
    assert words in capsys.readouterr().err
    assert not data_folder.exists()


def test_options_go_before_the_grid_of_a_file(tmp_path) -> None:
    file = tmp_path / "grid.yaml"
    file.write_text("checkpoints: [shapes-vit, shapes-gemma]\nbatch_sizes: [1, 2]\niterations: 20\ntokens: 9\n")
    options = parser().parse_args(["sweep", str(file), "--batch-size", "3", "--prompt", "The", "--iterations", "30"])
    specs = grid_specs(options)
    cells = [(spec.checkpoint, spec.batch_size, spec.iterations, spec.prompt) for spec in specs]
    assert cells == [("shapes-vit", 3, 30, ""), ("shapes-gemma", 3, 30, "The")]
    assert specs[1].tokens == 9  # of the file alone


@pytest.mark.parametrize(("word", "dynamic"), [("on", "on"), ("off", "off"), ("yes", "on"), ("'auto'", "auto")])
def test_the_booleans_of_yaml_are_on_and_off(word: str, dynamic: str, tmp_path) -> None:
    file = tmp_path / "grid.yaml"
    file.write_text(f"checkpoints: [shapes-vit]\ndynamic: {word}\n")
    (spec,) = grid_specs(parser().parse_args(["sweep", str(file)]))
    assert spec.dynamic == dynamic


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_no_part_of_a_grid(encoding: str, tmp_path) -> None:
    file = tmp_path / "grid.yaml"
    file.write_text("checkpoints: [shapes-vit]\nmodes: [lite]\n", encoding=encoding)
    sizes, names = "\ufeff1,2", "\ufeffshapes-vit"
    options = parser().parse_args(["sweep", str(file), "--batch-size", sizes, "--checkpoint", names])
    assert [(spec.checkpoint, spec.batch_size, spec.mode) for spec in grid_specs(options)] == [
        ("shapes-vit", 1, "lite"),
        ("shapes-vit", 2, "lite"),
    ]


@pytest.mark.parametrize(("number", "code"), SIGNALS, ids=["Ctrl-C", "SIGTERM"])
def test_a_stopped_sweep_writes_the_table_of_what_is_done(number: signal.Signals, code: int, tmp_path) -> None:
    out, text = tmp_path / "table.csv", tmp_path / "table.md"
    files = ("--out", str(out), "--export-markdown", str(text))
    (tmp_path / "hold").touch()  # cells above batch size 3 wait for its end
    process = quick(tmp_path, *VIT, "--batch-size", "1,4,5", *files, QUICK_HOLD=str(tmp_path / "hold"))
    table, err = stop(process, number, after="[1/3]")
    assert process.returncode == code and "Traceback" not in err
    assert err.endswith("Stopped. What is done is stored, and another start goes on from there.\n")
    assert [line.split()[-2] for line in table.splitlines()[1:2]] == ["2.0×"] and table.count("not run") == 2
    assert len(out.read_text().splitlines()) == 1 + 1 and "2.0×" in text.read_text()
    statuses = {run.status for run in History(tmp_path / "history.sqlite3").all()}
    assert "ok" in statuses <= {"ok", "cancelled"}  # the second may not have begun


def test_a_sweep_that_breaks_writes_its_table(tmp_path, monkeypatch, fake, capsys) -> None:
    fake(ok_result())
    monkeypatch.setattr("demo.cli.terminal.follow", Mock(side_effect=HistoryError("The disk is gone.")))
    out = tmp_path / "table.csv"
    assert main([*VIT, "--out", str(out)]) == 1
    assert out.exists() and capsys.readouterr().err.endswith("The disk is gone.\n")


def test_a_sweep_writes_its_tables(tmp_path) -> None:
    out, text = tmp_path / "table.csv", tmp_path / "table.md"
    sweep(tmp_path, "--batch-size", "1,101", "--out", str(out), "--export-markdown", str(text))
    assert len(out.read_text().splitlines()) == 1 + 2
    assert text.read_text().count("| OOM |") == 1
