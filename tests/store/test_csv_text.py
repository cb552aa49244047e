"""Cells that a spreadsheet would take for formulas, in every CSV that the project writes."""

import csv
import dataclasses
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from measured_tables import write
from samples import failed_result, ok_result

from demo.core.result import Failure, RunResult
from demo.core.spec import RunSpec
from demo.store import csv_text, export, measured, published
from demo.sweep.cells import Cell
from demo.sweep.table import write_table

COMMAND = "=cmd|' /C calc'!A0"
HARMLESS = ("a\r=1", "-0.5", "+1", "1e-3", "-1.5E+10", "a=b", "'quoted'", "", "shapes-vit", "مرحبا", "a\n=1")


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_numbers_and_plain_texts_stay_as_they_are() -> None:
    for value in [*HARMLESS, -0.5, 3, True, None]:
        (line,) = read(csv_text.written(["a", "cell"], [{"a": 1, "cell": value}]))
        assert line == {"a": "1", "cell": "" if value is None else str(value)}


@given(st.text(alphabet=st.one_of(st.sampled_from("'=+-@ \t\r\n＝0.e"), st.characters(exclude_categories=["Cs"]))))
def test_every_text_reads_back_as_it_was_and_none_begins_as_a_formula(text: str) -> None:
    guarded = csv_text.guarded(text)
    assert csv_text.original(guarded) == text
    try:
        float(guarded)
    except ValueError:
        assert not guarded.lstrip().startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠"))


def hostile() -> RunResult:
    spec = RunSpec(COMMAND, "object-detection", text=(COMMAND, "a cat"))
    environment = dataclasses.replace(ok_result().environment, device_name="@device", driver="+1+2")
    failure = Failure("load", "-2+3", "=HYPERLINK(1)")
    return failed_result(id="-1e5x", spec=spec, environment=environment, failure=failure, warnings=("=1", "two"))


def swept(tmp_path: Path) -> str:
    write_table(tmp_path / "t.csv", [Cell(hostile().spec, hostile())])
    return (tmp_path / "t.csv").read_text()


def of_the_tables(tmp_path: Path) -> str:
    write(tmp_path / "mine.csv", {"model": COMMAND})
    return published.to_csv(measured.read(tmp_path / "mine.csv"))


def kept(tmp_path: Path) -> str:
    """A measured table that another sweep adds to."""
    write(tmp_path / "mine.csv", {"model": COMMAND, "device": "@device", "checkpoint": "-a/b"})
    for _ in range(2):
        measured.add_measured([ok_result()], tmp_path / "mine.csv", "abc")
    (row,) = [row for row in measured.read(tmp_path / "mine.csv") if row.checkpoint == "-a/b"]
    assert (row.model, row.device) == (COMMAND, "@device")
    return (tmp_path / "mine.csv").read_text()


@pytest.mark.parametrize(
    "made", [lambda _: export.encoded([hostile()], "csv").decode(), swept, of_the_tables, kept],
    ids=["an export", "a sweep's table", "the published tables", "a measured table"],
)  # fmt: skip
def test_no_cell_of_any_csv_of_this_project_is_a_formula(made: Any, tmp_path: Path) -> None:
    cells = [cell for line in read(made(tmp_path)) for cell in line.values()]
    assert any(cell == f"'{COMMAND}" for cell in cells)
    assert [cell for cell in cells if cell != csv_text.guarded(csv_text.original(cell))] == []
