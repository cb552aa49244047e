"""Tests of the published tables: their rows, notes and filters, and reading and writing of measured ones."""

from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from support.measured_tables import write

from demo.core.options import DTYPES, MODES, TASKS, WEIGHTS, BadInput
from demo.store import published
from demo.store.published import COLUMNS, measured_rows, read_measured


def test_all_rows_of_the_guide_are_here_as_published() -> None:
    rows = published.guide_rows()
    assert Counter(row.subset for row in rows) == {"release": 102, "nightly": 18, "reduce-overhead": 16}
    last = rows[-1]
    assert (last.subset, last.gpu, last.torch, last.mode) == ("reduce-overhead", "T4", "2.1.0.dev", "reduce-overhead")
    assert (last.batch_size, last.checkpoint) == (4, "google/deeplabv3_mobilenet_v2_1.0_513")
    assert (last.eager_seconds, last.compiled_seconds) == pytest.approx((78.311e-3, 50.983e-3))
    missing = [row for row in rows if row.eager_seconds is None]
    assert {(row.checkpoint, row.batch_size) for row in missing} == {("facebook/detr-resnet-50", 16)}
    assert len(missing) == 4 and all(row.compiled_seconds is None and row.speedup is None for row in missing)
    assert all(fault["note"].endswith(".") and fault["source"] for fault in published.faults())


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ({}, 136),
        ({"subset": "release", "gpu": "A100", "batch_size": 1}, 12),
        ({"gpu": "t4", "batch_size": "16"}, 13),
        ({"task": "image-segmentation", "subset": "reduce-overhead"}, 4),
        ({"model": "OWL", "batch_size": 16}, 0),
        ({"subset": "", "gpu": "", "batch_size": "", "task": "", "model": " "}, 136),
    ],
    ids=repr,
)
def test_a_filter_keeps_what_fits_all_of_it(filters: dict[str, Any], count: int) -> None:
    assert len(published.select(published.guide_rows(), **filters)) == count


@pytest.mark.parametrize(
    ("filters", "reason"),
    [
        ({"gpu": "H100"}, "no GPU 'H100'. They have: A100, V100, T4"),
        ({"batch_size": 2}, "no batch size '2'. They have: 1, 4, 16"),
        ({"batch_size": True}, "no batch size 'True'"),
    ],
    ids=repr,
)
def test_a_value_that_no_row_has_is_refused(filters: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadInput, match=reason.replace(".", r"\.")):
        published.select(published.guide_rows(), **filters)


def test_a_measured_table_joins_as_a_further_gpu(own: Path) -> None:
    assert len(published.all_rows()) == 136
    write(own / "h200.csv", {"model": "DETR"}, {"gpu": "T4"})
    rows = published.all_rows()
    assert published.values(rows, "gpu") == ["A100", "V100", "T4", "H200"]
    assert [row.measured for row in rows] == [False] * 136 + [True] * 2
    assert [not row.measured for row in published.select(rows, "release", "T4", 1, None, "ViT")] == [True] * 2
    row = rows[136]
    assert published.notes_of(row) == ()  # the guide's notes on DETR are not for it
    assert (row.gpu, row.device, row.batch_size) == ("H200", "NVIDIA H200", 1)
    assert (row.eager_seconds, row.compiled_seconds) == (0.004, 0.0025)
    assert (row.speedup, row.speedup_low, row.speedup_high) == (1.62, 1.6, 1.64)  # the run's estimate


def test_what_the_project_ships_makes_sense() -> None:
    rows = [row for path in published.MEASURED_FOLDER.glob("*.csv") for row in read_measured(path)]
    assert rows
    for row in rows:
        assert row.measured and row.batch_size >= 1
        assert row.mode in MODES and row.task in TASKS and row.dtype in DTYPES and row.weights in WEIGHTS
        assert date.fromisoformat(row.date) and row.checkpoint and row.gpu and row.device
        timed = row.eager_seconds is not None and row.compiled_seconds is not None
        assert (row.speedup_low < row.speedup < row.speedup_high) if timed else row.speedup is None


@pytest.mark.parametrize(
    "bad",
    [
        {"eager_ms": "fast"}, {"batch_size": "1.5"},
        b"", b"\xff\xfe\x00", b"a,b\n1,2\n", (",".join(COLUMNS) + "\nmeasured,H200\n").encode(),
    ],
)  # fmt: skip
def test_a_bad_table_is_named_and_the_others_stay(tmp_path, bad: Any, monkeypatch, caplog) -> None:
    if isinstance(bad, bytes):
        (tmp_path / "bad.csv").write_bytes(bad)
    else:
        write(tmp_path / "bad.csv", {}, bad)
    write(tmp_path / "good.csv", {"gpu": "L4"})
    monkeypatch.setattr(published, "MEASURED_FOLDER", tmp_path)
    assert [row.gpu for row in measured_rows()] == ["L4"] and "bad.csv" in caplog.text
    assert isinstance(bad, bytes) or repr(next(iter(bad.values()))) in caplog.text
