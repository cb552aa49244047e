"""Rows that others shared: what is kept of good files, and what bad ones cost."""

import math
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from samples import failed_result, full_result, ok_result, text_result
from shared_tables import cells, plausible, write

from demo.store import shared_rows
from demo.store.shared_rows import SharedRow


def only_row(tmp_path: Path, **changes: Any) -> SharedRow:
    return only(write(tmp_path, [cells(**changes)]))


def only(path: Path) -> SharedRow:
    ((row,), unreadable) = shared_rows.read(path)
    assert unreadable == 0
    return row


@pytest.mark.parametrize("result", [ok_result(), full_result(), text_result()], ids=["CPU", "GPU", "text"])
def test_a_row_brings_back_spec_versions_and_interval(result: Any, tmp_path: Path) -> None:
    row = only(write(tmp_path, [cells(result)]))
    machine, speedup = result.environment, result.speedup
    assert (row.spec, row.torch, row.device_name) == (result.spec, machine.torch, machine.device_name)
    assert (row.speedup_low, row.speedup, row.speedup_high) == (speedup.low, speedup.ratio, speedup.high)
    assert (row.verdict, row.threads) == (speedup.verdict, machine.threads)


def test_an_out_of_memory_is_a_row_and_a_cancelled_run_is_none(tmp_path: Path) -> None:
    statuses = ("out_of_memory", "compile_failed", "cancelled", "crashed")
    rows = [cells(failed_result(), status=status, id=status) for status in statuses]
    read, unreadable = shared_rows.read(write(tmp_path, rows))
    assert [row.status for row in read] == ["out_of_memory", "compile_failed"] and unreadable == 0


UNREADABLE = (ValueError, TypeError, OSError, pyarrow.ArrowException)
BAD_CELLS: list[dict[str, Any]] = [
    {"eager_ms": -1.0}, {"eager_ms": math.nan}, {"compiled_ms": math.inf}, {"compiled_ms": 1e300}, {"eager_ms": None},
    {"compiled_ms": 10.0}, {"speedup_low": 5.0}, {"speedup_low": 0.9}, {"speedup_high": 1e300},
    {"verdict": "fastest"}, {"verdict": "slower"}, {"verdict": "same"}, {"status": "splendid"},
    {"threads": 0}, {"threads": 2**60}, {"batch_size": 100_000}, {"mode": "<b>turbo</b>"},
    {"checkpoint": "<script>alert(1)</script>"}, {"checkpoint": "[click](https://example.com)"},
    {"checkpoint": "/etc/passwd"}, {"checkpoint": "a" * 97}, {"task": "own-model", "checkpoint": "model"},
    {"device_name": "Tesla\N{RIGHT-TO-LEFT OVERRIDE} 4T"}, {"device_name": "Tesla\x1b[31m T4"},
    {"device_name": "<img src=x onerror=alert(1)>"}, {"device_name": ""}, {"device_name": None},
    {"torch": "new"}, {"id": "../../x"},
    {"started_at": "9999-01-01T00:00:00Z"}, {"started_at": "2026-02-31T00:00:00Z"}, {"started_at": "yesterday"},
]  # fmt: skip


def test_a_bad_row_costs_itself_only(tmp_path: Path) -> None:
    rows = [row for place, bad in enumerate(BAD_CELLS) for row in (cells(**bad), cells(id=f"good-{place}"))]
    read, unreadable = shared_rows.read(write(tmp_path, rows))
    assert [row.id for row in read] == [f"good-{place}" for place in range(len(BAD_CELLS))]
    assert unreadable == len(BAD_CELLS)


def test_a_column_of_another_type_costs_its_file_only(tmp_path: Path) -> None:
    for name, values in {
        "speedup": [["2.0"]],
        "eager_ms": [{"ratio": 2.0}],
        "compiled_ms": ["fast"],
        "batch_size": [1.5],
        "fullgraph": ["no"],
        "prompt": ["a" * 5_000_000],
        "device_name": pyarrow.array([b"\xff\xfe"]).view(pyarrow.string()),
    }.items():
        with pytest.raises(UNREADABLE):
            shared_rows.read(write(tmp_path, [cells()], **{name: pyarrow.array(values)}))


def test_a_file_that_is_no_table_of_results_costs_itself_only(tmp_path: Path) -> None:
    foreign = write(tmp_path, [{"name": "somebody", "value": 3}])
    whole = write(tmp_path, [cells()], "rows/2026-11-21-b.parquet").read_bytes()
    for content in (b"", b"PAR1", b"not at all", whole[: len(whole) // 2], whole[:-20] + b"\xff" * 20):
        path = tmp_path / "bad.parquet"
        path.write_bytes(content)
        with pytest.raises(UNREADABLE):
            shared_rows.read(path)
    with pytest.raises(ValueError, match="no "):
        shared_rows.read(foreign)


def test_a_column_of_an_older_program_is_missing_and_has_its_default(tmp_path: Path) -> None:
    old = {name: value for name, value in cells(batch_size=4).items() if name not in ("freezing", "prompt", "scope")}
    row = only(write(tmp_path, [old]))
    assert row.spec.batch_size == 4 and row.spec.freezing is False


def test_a_file_of_too_many_rows_or_bytes_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, plausible(5))
    for limit, least in (("MAX_ROWS", 5), ("MAX_DECODED", 1_000)):
        with monkeypatch.context() as small:
            small.setattr(shared_rows, limit, least - 1)
            with pytest.raises(ValueError, match="too large"):
                shared_rows.read(path)
    assert len(shared_rows.read(path)[0]) == 5


def test_only_equal_versions_and_settings_are_compared_on_any_model_and_device(tmp_path: Path) -> None:
    apart: list[dict[str, Any]] = [
        {"torch": "2.11.0"}, {"transformers": "5.0.0"}, {"mode": "lite"}, {"batch_size": 2}, {"dtype": "bfloat16"},
        {"weights": "random"}, {"protocol": "as published"}, {"freezing": True},
    ]  # fmt: skip
    together: list[dict[str, Any]] = [
        {"checkpoint": "microsoft/resnet-50"}, {"device": "cuda", "device_name": "Tesla T4"}, {"threads": 8},
        {"precision": 0.05}, {"most_seconds": 30.0}, {"repeats": 3},
    ]  # fmt: skip
    rows = [cells(id=str(number), **other) for number, other in enumerate(({}, *apart, *together))]
    first, *others = (row.setting for row in shared_rows.read(write(tmp_path, rows))[0])
    assert [setting == first for setting in others] == [False] * len(apart) + [True] * len(together)


def test_threads_tell_apart_cpus_and_not_gpus(tmp_path: Path) -> None:
    gpu = {"device": "cuda", "device_name": "Tesla T4"}
    assert only_row(tmp_path, threads=2).device != only_row(tmp_path, threads=8).device
    assert only_row(tmp_path, threads=2, **gpu).device == only_row(tmp_path, threads=8, **gpu).device
