"""Tests of `python -m demo published`, called in this process."""

import json
from pathlib import Path

from support.measured_tables import write

from demo.cli.common import OK
from demo.cli.main import main
from demo.store import published


def test_published_filters_rows_as_the_page_does(capsys) -> None:
    options = ["--gpu", "T4", "--subset", "nightly", "--batch-size", "16", "--task", "image-classification"]
    assert main(["published", *options, "--model", "beit", "--json"]) == OK
    (row,) = json.loads(capsys.readouterr().out)
    (same,) = published.select(published.guide_rows(), "nightly", "T4", 16, "image-classification", "beit")
    assert row == published.record(same)
    assert main(["published", "--model", "owlvit", "--batch-size", "16"]) == OK
    assert "No row has all of this" in capsys.readouterr().out


def test_the_table_shows_figures_oom_and_notes(capsys) -> None:
    assert main(["published", "--gpu", "T4", "--subset", "nightly"]) == OK
    shown = capsys.readouterr().out
    assert "42.179" in shown and "OOM" in shown and "[1] Repeats the A100's row" in shown
    assert published.SOURCE in shown


def test_a_measured_table_is_listed(own: Path, capsys) -> None:
    write(own / "h200.csv", {"speedup_basis": "repeats", "repeats": "3", "threads": "2"})
    assert main(["published", "--gpu", "h200"]) == OK
    shown = capsys.readouterr().out
    assert "measured by this project: 1.60 to 1.64×, float32, 2 threads, 3 repeats, 2026-11-21" in shown
    assert "1.62×" in shown and published.SOURCE not in shown
