import math
from collections import Counter
from pathlib import Path

import pytest
from measured_tables import write

from demo.core import catalog
from demo.core.errors import BadInput
from demo.store import measured, published


def test_all_rows_of_the_guide_are_here() -> None:
    rows = published.rows()
    assert len(rows) == 136
    assert Counter(row.subset for row in rows) == {"release": 102, "nightly": 18, "reduce-overhead": 16}


def test_the_last_row_is_the_guides() -> None:
    """The first two are in `tests/fixtures/columns_v1.json`."""
    last = published.rows()[-1]
    assert (last.subset, last.gpu, last.torch, last.mode) == ("reduce-overhead", "T4", "2.1.0.dev", "reduce-overhead")
    assert (last.batch_size, last.task, last.model) == (4, "image-segmentation", "MobileNet")
    assert last.checkpoint == "google/deeplabv3_mobilenet_v2_1.0_513"
    assert (last.eager_seconds, last.compiled_seconds) == pytest.approx((78.311e-3, 50.983e-3))


def test_out_of_memory_is_a_value() -> None:
    missing = [row for row in published.rows() if row.eager_seconds is None]
    assert {(row.subset, row.gpu, row.checkpoint, row.batch_size) for row in missing} == {
        ("release", "V100", "facebook/detr-resnet-50", 16),
        ("release", "T4", "facebook/detr-resnet-50", 16),
        ("nightly", "V100", "facebook/detr-resnet-50", 16),
        ("nightly", "T4", "facebook/detr-resnet-50", 16),
    }
    assert all(row.compiled_seconds is None and row.speedup is None for row in missing)


def test_every_row_names_a_checkpoint_of_the_catalogue_with_its_task_and_family() -> None:
    for row in published.rows():
        known = catalog.find(row.checkpoint)
        assert known is not None
        assert (known.task, known.family) == (row.task, row.model)


def test_the_guides_repeated_row_is_shown_as_published() -> None:
    rows = published.select(published.rows(), "nightly", batch_size=16, model="beit")
    times = {row.gpu: (row.eager_seconds, row.compiled_seconds) for row in rows}
    assert times["T4"] == times["A100"]


def test_a_mean_is_of_the_models_that_ran() -> None:
    for batch_size, counts in [(1, {"A100": 12, "V100": 12, "T4": 12}), (16, {"A100": 11, "V100": 10, "T4": 10})]:
        for gpu, count in counts.items():
            rows = published.select(published.rows(), "release", gpu, batch_size)
            assert sum(row.speedup is not None for row in rows) == count
            product = math.prod(row.speedup for row in rows if row.speedup is not None)
            assert published.mean_speedup(rows) == pytest.approx(product ** (1 / count))


# What is wrong with the guide


def test_every_fault_has_a_note_and_a_place_in_the_guide() -> None:
    assert all(fault.note.endswith(".") and fault.source for fault in published.faults())
    assert len({fault.id for fault in published.faults()}) == len(published.faults())


def test_the_figures_in_the_notes_follow_from_the_tables() -> None:
    rows = published.rows()
    release = {(row.gpu, row.batch_size, row.model): row for row in rows if row.subset == "release"}
    timed = [row for row in release.values() if row.saved is not None]
    note = {fault.id: fault.note for fault in published.faults()}
    over = sum(row.saved > 0.3 for row in timed)
    assert f"{over} of the {len(timed)} rows" in note["up-to-30"]
    assert f"saves {release['A100', 1, 'MobileNet'].saved * 100:.0f} %" in note["up-to-30"]
    assert f"{188.978 / 42.179:.1f} times faster" in note["repeated-row"]
    pairs = [
        (row, release[row.gpu, row.batch_size, row.model])
        for row in rows
        if row.subset == "nightly" and row.speedup is not None
    ]
    eager = sum(new.eager_seconds > old.eager_seconds for new, old in pairs)
    compiled = sum(new.compiled_seconds > old.compiled_seconds for new, old in pairs)
    assert f"Of its {len(pairs)} rows" in note["nightly-not-always-faster"]
    assert f"eager is slower in {eager} and compiled in {compiled}" in note["nightly-not-always-faster"]


# The filter


def test_a_filter_keeps_what_fits_all_of_it() -> None:
    for asked, count in [
        ({}, 136),
        ({"subset": "release", "gpu": "A100", "batch_size": 1}, 12),
        ({"gpu": "t4", "batch_size": "16"}, 13),
        ({"task": "image-segmentation", "subset": "reduce-overhead"}, 4),
        ({"model": "resnet-50"}, 44),
        ({"model": "OWL", "batch_size": 16}, 0),
        ({"subset": "", "gpu": "", "batch_size": "", "task": "", "model": " "}, 136),
    ]:
        assert len(published.select(published.rows(), **asked)) == count


def test_a_value_that_no_row_has_is_refused_with_those_there_are() -> None:
    for asked, said in [
        ({"subset": "stable"}, "no subset 'stable'. They have: release, nightly, reduce-overhead"),
        ({"gpu": "H100"}, "no GPU 'H100'. They have: A100, V100, T4"),
        ({"batch_size": 2}, "no batch size '2'. They have: 1, 4, 16"),
        ({"batch_size": "four"}, "no batch size 'four'"),
        ({"batch_size": True}, "no batch size 'True'"),
        ({"task": "poetry"}, "no task 'poetry'"),
        ({"model": "gpt"}, "No model of the tables is called 'gpt'"),
    ]:
        with pytest.raises(BadInput, match=said.replace(".", r"\.")):
            published.select(published.rows(), **asked)


# This project's own rows


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(measured, "FOLDER", tmp_path)
    return tmp_path


def test_a_measured_table_joins_as_a_further_gpu_kept_apart(own: Path) -> None:
    write(own / "h200.csv", {}, {"gpu": "T4"})
    rows = published.tables().rows
    assert published.values(rows, "gpu") == ["A100", "V100", "T4", "H200"]
    assert Counter(map(published.origin, rows)) == {"published": 136, "measured by this project": 2}
    assert len(published.rows()) == 136
    assert [not row.measured for row in published.select(rows, "release", "T4", 1, None, "ViT")] == [True] * 2


def test_a_new_table_shows_without_a_restart_and_a_bad_one_is_said(own: Path) -> None:
    assert len(published.tables().rows) == 136
    write(own / "a.csv", {})
    (own / "b.csv").write_text("what?")
    tables = published.tables()
    assert len(tables.rows) == 137 and len(tables.problems) == 1


def test_notes_of_the_guide_do_not_fall_on_measured_rows(own: Path) -> None:
    write(own / "a.csv", {"model": "DETR"}, {"weights": "random"})
    trained, random = published.tables().rows[136:]
    assert published.notes(trained) == () and "Random weights" in published.notes(random)[0]


def test_of_two_measurements_of_one_setting_the_later_is_drawn(own: Path) -> None:
    write(own / "a.csv", {"eager_ms": "5"}, {"eager_ms": "4", "date": "2026-11-20"}, {"batch_size": "4"})
    rows = published.newest(published.tables().rows[136:])
    assert [(row.batch_size, row.eager_seconds) for row in rows] == [(1, 0.005), (4, 0.004)]
    assert published.newest(published.tables().rows[:135:-1])[-1].eager_seconds == 0.005  # in whatever order they lie
