import math
from collections import Counter
from pathlib import Path

import pytest
from measured_tables import write

from demo.core import catalog
from demo.core.spec import BadInput
from demo.store import measured, published


def test_all_rows_of_the_guide_are_here_with_the_task_and_family_of_the_catalogue() -> None:
    """The first two are in `tests/fixtures/columns_v1.json`, this is the last one."""
    rows = published.rows()
    assert Counter(row.subset for row in rows) == {"release": 102, "nightly": 18, "reduce-overhead": 16}
    for row in rows:
        known = catalog.find(row.checkpoint)
        assert known is not None and (known.task, known.family) == (row.task, row.model)
    last = rows[-1]
    assert (last.subset, last.gpu, last.torch, last.mode) == ("reduce-overhead", "T4", "2.1.0.dev", "reduce-overhead")
    assert (last.batch_size, last.checkpoint) == (4, "google/deeplabv3_mobilenet_v2_1.0_513")
    assert (last.eager_seconds, last.compiled_seconds) == pytest.approx((78.311e-3, 50.983e-3))


def test_out_of_memory_is_a_value() -> None:
    missing = [row for row in published.rows() if row.eager_seconds is None]
    places = {(row.subset, row.gpu, row.checkpoint, row.batch_size) for row in missing}
    assert places == {(s, gpu, "facebook/detr-resnet-50", 16) for s in ("release", "nightly") for gpu in ("V100", "T4")}
    assert all(row.compiled_seconds is None and row.speedup is None for row in missing)


def test_the_guides_repeated_row_is_shown_as_published() -> None:
    rows = published.select(published.rows(), "nightly", batch_size=16, model="beit")
    times = {row.gpu: (row.eager_seconds, row.compiled_seconds) for row in rows}
    assert times["T4"] == times["A100"]


def test_a_mean_is_of_the_models_that_ran() -> None:
    for batch_size, gpu, count in [(1, "V100", 12), (16, "A100", 11), (16, "T4", 10)]:
        rows = published.select(published.rows(), "release", gpu, batch_size)
        ratios = [row.speedup for row in rows if row.speedup is not None]
        assert len(ratios) == count
        assert published.mean_speedup(rows) == pytest.approx(math.prod(ratios) ** (1 / count))


# What is wrong with the guide


def test_every_fault_has_a_note_and_a_place_in_the_guide() -> None:
    assert all(fault["note"].endswith(".") and fault["source"] for fault in published.faults())
    assert len({fault["id"] for fault in published.faults()}) == len(published.faults())


def test_the_figures_in_the_notes_follow_from_the_tables() -> None:
    rows = published.rows()
    release = {(row.gpu, row.batch_size, row.model): row for row in rows if row.subset == "release"}
    timed = [row for row in release.values() if row.saved is not None]
    note = {fault["id"]: fault["note"] for fault in published.faults()}
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


def test_a_measured_table_joins_as_a_further_gpu_without_a_restart_and_a_bad_one_is_left_out(own: Path) -> None:
    assert len(published.all_rows()) == 136
    write(own / "h200.csv", {}, {"gpu": "T4"})
    (own / "b.csv").write_text("what?")
    rows = published.all_rows()
    assert published.values(rows, "gpu") == ["A100", "V100", "T4", "H200"]
    assert Counter(map(published.origin, rows)) == {"published": 136, "measured by this project": 2}
    assert [not row.measured for row in published.select(rows, "release", "T4", 1, None, "ViT")] == [True] * 2


def test_notes_of_the_guide_do_not_fall_on_measured_rows(own: Path) -> None:
    write(own / "a.csv", {"model": "DETR"}, {"weights": "random"})
    trained, random = published.all_rows()[136:]
    assert published.notes(trained) == () and "Random weights" in published.notes(random)[0]


def test_of_two_measurements_of_one_setting_the_later_is_drawn(own: Path) -> None:
    write(own / "a.csv", {"eager_ms": "5"}, {"eager_ms": "4", "date": "2026-11-20"}, {"batch_size": "4"})
    rows = published.newest(published.all_rows()[136:])
    assert [(row.batch_size, row.eager_seconds) for row in rows] == [(1, 0.005), (4, 0.004)]
    assert published.newest(published.all_rows()[:135:-1])[-1].eager_seconds == 0.005  # in whatever order they lie
