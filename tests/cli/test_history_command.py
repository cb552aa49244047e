"""Tests of `history` and `script`: stored results listed, shown, exported and deleted."""

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
from support.samples import failed_result, ok_result

from demo.cli.history_command import LISTED
from demo.cli.main import main
from demo.core.result import RunResult
from demo.store.history import History, HistoryError


@pytest.fixture
def stored() -> History:
    for result in (ok_result(), failed_result()):
        History().append(result)
    return History()


def test_history_lists_the_newest_first(stored: History, capsys) -> None:
    assert main(["history"]) == 0
    head, first, second = capsys.readouterr().out.splitlines()
    assert "out_of_memory" in first and failed_result().id in first
    assert "2.00× faster" in second and "2026-11-21 09:00:00" in second
    assert first.index("out_of_memory") == head.index("status")


def test_a_long_history_is_cut_and_says_so(capsys) -> None:
    for number in range(LISTED + 2):
        History().append(failed_result(id=f"r{number}"))
    assert main(["history"]) == 0
    listed = capsys.readouterr()
    assert len(listed.out.splitlines()) == 1 + LISTED
    assert f"newest {LISTED} of {LISTED + 2}" in listed.err
    assert main(["history", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == LISTED + 2


@pytest.mark.parametrize(
    ("form", "name", "begins"),
    [("card", "card.PNG", b"\x89PNG"), ("race", "race.png", b"\x89PNG"), ("race", "race.svg", b"<svg")],
)
def test_a_result_is_drawn_as_the_file_ends(form: str, name: str, begins: bytes, stored: History, tmp_path) -> None:
    assert main(["history", form, ok_result().id, str(tmp_path / name)]) == 0
    assert (tmp_path / name).read_bytes().startswith(begins)


def test_history_export_writes_what_the_search_leaves(stored: History, tmp_path) -> None:
    file = tmp_path / "runs.CSV"
    assert main(["history", "export", str(file), "--search", "owlvit"]) == 0
    assert list(pd.read_csv(file)["id"]) == [failed_result().id]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["export"], "history --help lists"),
        (["export", "runs.xlsx"], ".csv or .json or .parquet or .md"),
        (["card", ok_result().id], "history --help lists"),
        (["card", ok_result().id, "card.jpg"], "must end in .png. Given"),
        (["race", "nothing", "race.svg"], "history lists them."),
        (["delete", "nothing", "--yes"], "history lists them."),
        (["--limit", "0"], "give a whole number above 0. Given: '0'"),
    ],
    ids=" ".join,
)
def test_a_slip_is_answered_with_a_sentence(words: list[str], sentence: str, stored: History, capsys) -> None:
    assert main(["history", *words]) == 2
    assert sentence in capsys.readouterr().err
    assert len(stored.all()) == 2


def test_history_delete_needs_the_option_yes(stored: History, capsys) -> None:
    assert main(["history", "delete", ok_result().id]) == 2
    assert "Add --yes" in capsys.readouterr().err
    assert len(stored.all()) == 2
    assert main(["history", "delete", ok_result().id, "--yes"]) == 0
    assert stored.all() == [failed_result()]


def test_a_failing_export_leaves_the_earlier_file(stored, tmp_path, monkeypatch, capsys):
    file = tmp_path / "runs.csv"
    file.write_text("earlier")

    def each(*_: Any) -> Iterator[RunResult]:
        yield ok_result()
        raise HistoryError("The disk is gone.")

    monkeypatch.setattr(History, "each", each)
    assert main(["history", "export", str(file)]) == 1
    assert "The disk is gone." in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["runs.csv"]
    assert file.read_text() == "earlier"
