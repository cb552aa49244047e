"""Exports, their columns, and the cells of every CSV that the project writes."""

import csv
import dataclasses
import io
import json
import re
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, strategies as st
from measured_tables import write
from samples import failed_result, full_result, ok_result, text_result

from demo.core.caveat import note
from demo.core.result import Failure, RunResult
from demo.core.result_json import from_json, to_json
from demo.core.spec import OWN_MODEL, BadInput, RunSpec
from demo.store import export, published
from demo.sweep.grid import Cell, record, write_table

RESULTS = [ok_result(), failed_result()]


def read(content: bytes, format: str) -> pd.DataFrame:
    source = io.BytesIO(content)
    return pd.read_csv(source) if format == "csv" else pd.read_parquet(source)


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_table_has_a_row_for_every_result_with_what_was_measured_and_gaps_elsewhere(format: str) -> None:
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
    for results in ([], RESULTS[1:], RESULTS):
        assert list(export.table(results).dtypes) == [column.kind for column in export.EXPORTED.values()]


def test_an_option_stands_in_the_column_of_its_name_and_what_torch_used_in_another() -> None:
    asked = {"threads": 3, "iterations": 40, "precision": 0.02, "most_seconds": 5.0, "channels_last": True}
    asked |= {"batch_size": 2, "mode": "lite", "dtype": "bfloat16", "attention": "sdpa", "profile": "on"}
    result = full_result(spec=dataclasses.replace(ok_result().spec, **asked))
    row = export.row(result)
    assert {name: row[{"threads": "threads_asked"}.get(name, name)] for name in asked} == asked
    assert row["threads"] == result.environment.threads != asked["threads"]


def test_rates_are_of_what_a_model_gives_and_options_without_a_meaning_are_empty() -> None:
    own = ok_result(spec=RunSpec("net.py:make", OWN_MODEL, device="cpu"))
    pictures, text, other = cells(export.to_bytes([ok_result(), text_result(), own], "csv").decode())
    per_second = {"eager_images_per_second", "eager_tokens_per_second"}
    assert {name for name in per_second if pictures[name]} == {"eager_images_per_second"}
    assert {name for name in per_second if text[name]} == {"eager_tokens_per_second"}
    assert not any(other[name] for name in (*per_second, "batch_size", "weights", "tokens"))
    assert pictures["tokens"] == text["channels_last"] == "" and text["tokens"] == "4"
    assert "calls_per_second" in to_json(own)["eager"]


def test_a_place_where_no_file_can_be_written_is_refused_beforehand(tmp_path, monkeypatch) -> None:
    (tmp_path / "locked").mkdir()
    monkeypatch.setattr("os.access", lambda folder, how: not folder.endswith("locked"))  # root may write anywhere
    export.check_place(tmp_path / "t.csv", "table")
    for name in ("", "none/t.csv", "locked/t.csv"):
        with pytest.raises(BadInput, match="cannot be written: it is a folder, or"):
            export.check_place(tmp_path / name, "table")


# A full store


def test_json_keeps_everything_and_in_pieces_is_the_json_of_the_whole_list() -> None:
    assert [from_json(one) for one in json.loads(export.to_bytes(RESULTS, "json"))] == RESULTS
    for results in ([], RESULTS[:1], RESULTS):
        whole = [to_json(result) for result in results]
        for indent in (1, 2):
            expected = json.dumps(whole, ensure_ascii=False, indent=indent)
            assert "".join(export.json_lines(results, indent)) == expected


@pytest.mark.parametrize("format", [*export.FORMATS])
def test_memory_does_not_grow_with_the_number_of_results(format: str) -> None:
    """Every result is written, and can be freed, before many more are made."""
    alive: weakref.WeakSet[Any] = weakref.WeakSet()
    most = 0

    class Counted:  # a dataclass with fields that compare cannot stand in a WeakSet
        pass

    def results() -> Iterator[RunResult]:
        nonlocal most
        for number in range(60):
            result = failed_result(id=str(number))
            marker = Counted()
            object.__setattr__(result, "marker", marker)
            alive.add(marker)
            most = max(most, len(alive))
            yield result
            del result, marker

    content = export.to_bytes(results(), format)
    assert most <= 3
    ids = [one["id"] for one in json.loads(content)] if format == "json" else read(content, format)["id"]
    assert list(map(str, ids)) == [str(number) for number in range(60)]


# The tables of November 2026

FIXTURE = Path(__file__).parents[1] / "fixtures" / "columns_v1.json"
STORED = {
    "ok": ok_result(),
    "full": full_result(),
    "failed": failed_result(),
    "interrupted": ok_result(status="interrupted", environment=None, eager=None, compiled=None, control_times=None),
}


def device_table(result: RunResult, folder: Path) -> str:
    write(folder / "table.csv")
    published.add_measured([result], folder / "table.csv", commit="0123456789ab")
    return (folder / "table.csv").read_text(encoding="utf-8")


def assert_same(found: Any, known: Any) -> None:
    """Dicts in the same order, with further names between; texts (CSV cell by cell) and numbers equal, to 4 digits."""
    if isinstance(known, dict):
        assert [name for name in found if name in known] == list(known)
        for name, value in known.items():
            assert_same(found[name], value)
    elif isinstance(known, list):
        for one, other in zip(found, known, strict=True):
            assert_same(one, other)
    elif isinstance(known, str) and "\n" in known:
        assert_same(list(csv.reader(found.splitlines())), list(csv.reader(known.splitlines())))
    elif isinstance(known, str) and re.fullmatch(r"\d+\.\d+", known):
        assert float(found) == pytest.approx(float(known), rel=1e-4)
    else:
        assert type(found) is type(known)
        assert found == (pytest.approx(known, rel=1e-4) if isinstance(known, float) else known)


def test_every_table_has_the_columns_and_values_that_it_had(tmp_path) -> None:
    device_table(dataclasses.replace(full_result(), status="out_of_memory"), tmp_path)
    rows = [*published.rows()[:2], *published.read_measured(tmp_path / "table.csv")]
    tables = {
        "export": {name: export.row(result) for name, result in STORED.items()},
        "sweep": {name: record(Cell(result.spec, result)) for name, result in STORED.items()},
        "sweep of a refused cell": record(Cell(ok_result().spec, refused="No.")),
        "measured": {name: device_table(result, tmp_path) for name, result in STORED.items()},
        "published": [published.record(row) for row in rows],
        "published as CSV": published.to_csv(rows),
    }
    assert_same(tables, json.loads(FIXTURE.read_text(encoding="utf-8")))


# Cells that a spreadsheet would take for formulas

COMMAND = "=cmd|' /C calc'!A0"
HARMLESS = ("a\r=1", "-0.5", "+1", "1e-3", "-1.5E+10", "a=b", "'quoted'", "", "shapes-vit", "مرحبا", "a\n=1")


def cells(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_numbers_and_plain_texts_stay_as_they_are() -> None:
    for value in [*HARMLESS, -0.5, 3, True, None]:
        (line,) = cells(export.csv_text(["a", "cell"], [{"a": 1, "cell": value}]))
        assert line == {"a": "1", "cell": "" if value is None else str(value)}


@given(st.text(alphabet=st.one_of(st.sampled_from("'=+-@ \t\r\n＝0.e"), st.characters(exclude_categories=["Cs"]))))
def test_every_text_reads_back_as_it_was_and_none_begins_as_a_formula(text: str) -> None:
    guarded = export.escape_formula(text)
    assert export.unescape_formula(guarded) == text
    try:
        float(guarded)
    except ValueError:
        assert not guarded.lstrip().startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠"))


def test_no_cell_of_any_csv_of_this_project_is_a_formula(tmp_path) -> None:
    spec = RunSpec(COMMAND, "object-detection", text=(COMMAND, "a cat"))
    environment = dataclasses.replace(ok_result().environment, device_name="@device", driver="+1+2")
    failure = Failure("load", "-2+3", "=HYPERLINK(1)")
    hostile = failed_result(
        id="-1e5x", spec=spec, environment=environment, failure=failure, caveats=(note("=1"), note("two"))
    )
    write_table(tmp_path / "sweep.csv", [Cell(spec, hostile)])
    write(tmp_path / "mine.csv", {"model": COMMAND, "device": "@device", "checkpoint": "-a/b"})
    for _ in range(2):  # a measured table that another sweep adds to
        published.add_measured([ok_result()], tmp_path / "mine.csv", "abc")
    (row,) = [row for row in published.read_measured(tmp_path / "mine.csv") if row.checkpoint == "-a/b"]
    assert (row.model, row.device) == (COMMAND, "@device")
    written = [export.to_bytes([hostile], "csv").decode(), published.to_csv([row])]
    for text in (*written, *(file.read_text() for file in tmp_path.glob("*.csv"))):
        found = [cell for line in cells(text) for cell in line.values()]
        assert f"'{COMMAND}" in found
        assert [cell for cell in found if cell != export.escape_formula(export.unescape_formula(cell))] == []
