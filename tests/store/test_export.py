"""Exports read back by the libraries that people will read them with."""

import dataclasses
import io
import json
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from samples import failed_result, full_result, ok_result

from demo.core.result import Failure, RunResult
from demo.core.spec import BadInput
from demo.store import columns, export

RESULTS = [ok_result(), failed_result()]


def read(content: bytes, format: str) -> pd.DataFrame:
    source = io.BytesIO(content)
    return pd.read_csv(source) if format == "csv" else pd.read_parquet(source)


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_table_has_a_row_for_every_result_with_what_was_measured_and_gaps_elsewhere(format: str) -> None:
    message = 'a "quoted", comma\nand caf'  # commas, quotes, lines and broken names survive
    broken = failed_result(failure=Failure("compile", message + "\udce9", ""))
    table = read(export.encoded([ok_result(), broken], format), format)
    assert list(table.columns) == list(columns.EXPORTED)
    ok, failed = table.iloc[0], table.iloc[1]
    assert (ok["id"], ok["status"], ok["batch_size"]) == (ok_result().id, "ok", 1)
    assert ok["eager_median_ms"] == pytest.approx(2.04)
    assert (failed["status"], failed["failure_stage"]) == ("out_of_memory", "compile")
    assert failed["failure_message"] == message + "\\udce9"
    assert pd.isna(failed["speedup"]) and pd.isna(failed["eager_median_ms"]) and pd.isna(failed["graphs"])


def test_columns_have_the_same_types_whatever_was_measured() -> None:
    for results in ([], RESULTS[1:], RESULTS):
        assert list(export.table(results).dtypes) == [column.kind for column in columns.EXPORTED.values()]
        assert len(export.table(results)) == len(results)


def test_an_option_stands_in_the_column_of_its_name_and_what_torch_used_in_another() -> None:
    """The figures are held in test_columns.py."""
    asked = {"threads": 3, "iterations": 40, "precision": 0.02, "most_seconds": 5.0, "channels_last": True}
    asked |= {"batch_size": 2, "mode": "lite", "dtype": "bfloat16", "attention": "sdpa", "profile": "on"}
    result = full_result(spec=dataclasses.replace(ok_result().spec, **asked))
    row = export.row(result)
    assert {name: row[{"threads": "threads_asked"}.get(name, name)] for name in asked} == asked
    assert row["threads"] == result.environment.threads != asked["threads"]


def test_a_place_where_no_file_can_be_written_is_refused_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "locked").mkdir()
    monkeypatch.setattr("os.access", lambda folder, how: not folder.endswith("locked"))  # root may write anywhere
    export.check_place(tmp_path / "t.csv", "table")
    for name in ("", "none/t.csv", "locked/t.csv"):
        with pytest.raises(BadInput, match="cannot be written: it is a folder, or"):
            export.check_place(tmp_path / name, "table")


# ---- a full store


def test_json_keeps_everything_and_in_pieces_is_the_json_of_the_whole_list() -> None:
    assert [RunResult.from_json(one) for one in json.loads(export.encoded(RESULTS, "json"))] == RESULTS
    for results in ([], RESULTS[:1], RESULTS):
        whole = [result.to_json() for result in results]
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

    content = export.encoded(results(), format)
    assert most <= 3
    ids = (
        [one["id"] for one in json.loads(content)] if format == "json" else list(map(str, read(content, format)["id"]))
    )
    assert ids == [str(number) for number in range(60)]
