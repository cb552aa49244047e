"""Tests of exports: their columns, and the cells of all CSV files that the project writes."""

import csv
import dataclasses
import io
import json
import weakref
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, strategies as st
from pyarrow import parquet
from support.measured_tables import write
from support.samples import failed_result, full_result, ok_result, text_result

from demo.core.caveat import note
from demo.core.options import OWN_MODEL, BadInput, RunSpec
from demo.core.result import Failure, RunResult
from demo.core.result_json import from_json
from demo.store import export, published
from demo.sweep.grid import GridRun, write_table
from tools.measured_table import add_measured

RESULTS = [ok_result(), failed_result()]


def read(content: bytes, format: str) -> pd.DataFrame:
    source = io.BytesIO(content)
    return pd.read_csv(source) if format == "csv" else pd.read_parquet(source)


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_table_has_a_row_for_every_result(format: str) -> None:
    message = 'a "quoted", comma\nand caf'  # commas, quotes, lines and broken names survive
    broken = failed_result(failure=Failure("compile", message + "\udce9", ""))
    table = read(export.to_bytes([ok_result(), broken], format), format)
    assert list(table.columns) == list(export.EXPORTED)
    ok, failed = table.iloc[0], table.iloc[1]
    assert (ok["id"], ok["status"], ok["batch_size"]) == (ok_result().id, "ok", 1)
    assert ok["eager_median_ms"] == pytest.approx(2.04)
    assert (failed["status"], failed["failure_stage"]) == ("out_of_memory", "compile")
    assert failed["failure_message"] == message + "\\udce9"
    assert pd.isna(failed["speedup"]) and pd.isna(failed["eager_median_ms"]) and pd.isna(failed["graphs"])


def test_columns_have_the_same_types_whatever_was_measured() -> None:
    tables = [parquet.read_table(io.BytesIO(export.to_bytes(results, "parquet"))) for results in ([], RESULTS)]
    assert tables[0].schema.types == tables[1].schema.types


def test_every_unit_of_a_column_is_that_of_its_name() -> None:
    row = export.row(full_result())
    expected = {"eager_median_ms": 12.24, "compiled_p95_ms": 6.24, "first_call_seconds": 31.2}
    expected |= {"eager_images_per_second": 326.835, "eager_peak_memory_bytes": 620e6}
    assert {name: row[name] for name in expected} == pytest.approx(expected)


def test_rates_and_options_without_a_meaning_are_empty() -> None:
    own = ok_result(spec=RunSpec("net.py:make", OWN_MODEL, device="cpu"))
    pictures, text, other = cells(export.to_bytes([ok_result(), text_result(), own], "csv").decode())
    per_second = {"eager_images_per_second", "eager_tokens_per_second"}
    assert {name for name in per_second if pictures[name]} == {"eager_images_per_second"}
    assert {name for name in per_second if text[name]} == {"eager_tokens_per_second"}
    assert not any(other[name] for name in (*per_second, "batch_size", "weights", "tokens"))
    assert pictures["tokens"] == text["channels_last"] == "" and text["tokens"] == "4"


def test_a_place_that_cannot_be_written_is_refused(tmp_path, monkeypatch) -> None:
    (tmp_path / "locked").mkdir()
    monkeypatch.setattr("os.access", lambda folder, how: not folder.endswith("locked"))  # root may write anywhere
    export.check_place(tmp_path / "t.csv", "table")
    for name in ("", "none/t.csv", "locked/t.csv"):
        with pytest.raises(BadInput, match="cannot be written: it is a folder, or"):
            export.check_place(tmp_path / name, "table")


@pytest.mark.parametrize("results", [[], RESULTS], ids=["none", "two"])
def test_json_is_the_list_of_the_whole_results(results: list[RunResult]) -> None:
    assert [from_json(entry) for entry in json.loads(export.to_bytes(results, "json"))] == results


@pytest.mark.parametrize("format", [*export.FORMATS])
def test_a_result_is_freed_once_it_is_written(format: str) -> None:
    references: list[weakref.ref[RunResult]] = []

    def results() -> Iterator[RunResult]:
        for number in range(20):
            result = failed_result(id=str(number))
            references.append(weakref.ref(result))
            assert sum(reference() is not None for reference in references) <= 3
            yield result
            del result

    export.to_bytes(results(), format)
    assert len(references) == 20


# Cells that a spreadsheet would take for formulas

COMMAND = "=cmd|' /C calc'!A0"


def cells(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("value", ["a=b", "'quoted'", "مرحبا", "a\n=1", -0.5, 3, True])
def test_numbers_and_plain_texts_stay_as_they_are(value: Any) -> None:
    assert cells(export.csv_text(["cell"], [{"cell": value}])) == [{"cell": str(value)}]


@given(st.text(alphabet=st.one_of(st.sampled_from("'=+-@ \t\n\r\0\ufeff\u200b＝﹢0.e"), st.characters())))
def test_no_text_begins_as_a_formula(text: str) -> None:
    guarded = export.escape_formula(text)
    assert export.unescape_formula(guarded) == text.replace("\r", " ") and "\r" not in guarded
    visible = "".join(letter for letter in guarded if letter.isprintable()).lstrip()  # a program may drop the others
    assert not visible.startswith((*"=+-@＝＋－＠﹦﹢﹣﹫",))


def test_no_cell_of_any_csv_of_this_project_is_a_formula(tmp_path) -> None:
    hostile = failed_result(
        id="-1e5x",
        spec=RunSpec(COMMAND, "object-detection", text=(COMMAND, "a cat")),
        environment=dataclasses.replace(ok_result().environment, device_name="@device", driver="+1+2"),
        failure=Failure("load", "-2+3", "=HYPERLINK(1)"),
        caveats=(note("=1"), note("two")),
    )
    write_table(tmp_path / "sweep.csv", [GridRun(hostile.spec, hostile)])
    write(tmp_path / "mine.csv", {"model": COMMAND, "device": "@device", "checkpoint": "-a/b"})
    for _ in range(2):  # a measured table that other runs are added to
        add_measured([ok_result()], tmp_path / "mine.csv", "abc")
    (row,) = [row for row in published.read_measured(tmp_path / "mine.csv") if row.checkpoint == "-a/b"]
    assert (row.model, row.device) == (COMMAND, "@device")
    written = [export.to_bytes([hostile], "csv").decode(), published.to_csv([row])]
    for text in (*written, *(file.read_text() for file in tmp_path.glob("*.csv"))):
        values = [cell for line in cells(text) for cell in line.values()]
        assert f"'{COMMAND}" in values
        assert [cell for cell in values if cell != export.escape_formula(export.unescape_formula(cell))] == []
