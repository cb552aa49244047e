from datetime import date
from pathlib import Path
from typing import Any

import pytest
from measured_tables import write
from samples import failed_result, ok_result

from demo.core.measurement import Compilation
from demo.core.spec import DTYPES, MODES, TASKS, WEIGHTS, RunSpec
from demo.core.speedup import ProcessResult, Spread
from demo.core.stats import Interval
from demo.store.measured import add_measured, load, read, subset_of
from demo.store.tables import COLUMNS


def spec(device: str = "cuda", **changes: object) -> RunSpec:
    return RunSpec("google/vit-base-patch16-224", "image-classification", device=device, **changes)  # type: ignore[arg-type]


# Reading


def test_a_table_reads_as_rows_of_their_own_kind(tmp_path: Path) -> None:
    (row,) = read(write(tmp_path / "h200.csv", {}))
    assert (row.gpu, row.batch_size, row.eager_seconds, row.compiled_seconds) == ("H200", 1, 0.004, 0.0025)
    assert row.measured
    assert (row.speedup_low, row.speedup_high, row.device) == (1.6, 1.64, "NVIDIA H200")
    assert row.speedup == 1.62 != row.eager_seconds / row.compiled_seconds  # the run's estimate
    assert row.saved == pytest.approx(1 - 1 / 1.62)


def test_what_the_project_ships_makes_sense() -> None:
    rows, problems = load()
    assert rows and problems == []
    for row in rows:
        assert row.measured and row.subset.split(" ")[0] == "measured" and row.batch_size >= 1
        assert row.mode in MODES and row.task in TASKS and row.dtype in DTYPES and row.weights in WEIGHTS
        usual = (("default", row.mode), ("float32", row.dtype))
        named = [word for word in row.subset.split(" ") if word in (*MODES, *DTYPES)]
        assert named == [value for default, value in usual if value != default]
        assert date.fromisoformat(row.date) and row.checkpoint and row.gpu and row.device
        timed = row.eager_seconds is not None and row.compiled_seconds is not None
        assert (row.speedup_low < row.estimate < row.speedup_high) if timed else row.estimate is None


@pytest.mark.parametrize(
    "bad",
    [
        {"eager_ms": "fast"}, {"batch_size": "1.5"}, {"repeats": "two"},
        b"", b"\xff\xfe\x00", b"a,b\n1,2\n", (",".join(COLUMNS) + "\nmeasured,H200\n").encode(),
    ],
)  # fmt: skip
def test_a_bad_table_is_said_with_its_file_and_the_other_tables_stay(tmp_path: Path, bad: Any) -> None:
    if isinstance(bad, bytes):
        (tmp_path / "bad.csv").write_bytes(bad)
    else:
        write(tmp_path / "bad.csv", {}, bad)
    write(tmp_path / "good.csv", {"gpu": "L4"})
    rows, (problem,) = load(tmp_path)
    assert [row.gpu for row in rows] == ["L4"] and "bad.csv" in problem
    assert isinstance(bad, bytes) or repr(next(iter(bad.values()))) in problem


# Writing


@pytest.mark.parametrize("repeats", [(), (1.9, 2.1)])
def test_what_was_written_reads_again_with_the_interval_of_all_repeats(repeats: tuple, tmp_path: Path) -> None:
    before = tuple(
        ProcessResult(str(ratio), 0.001 * ratio, 0.001, Interval(ratio, ratio - 0.01, ratio + 0.01))
        for ratio in repeats
    )
    result = ok_result(spec=spec(batch_size=4, device="cpu"), earlier=before, spread=Spread("assumed", 0.5))
    assert add_measured([result], tmp_path / "a.csv", commit="abc") == []
    (row,) = read(tmp_path / "a.csv")
    assert row.measured and result.speedup is not None
    assert (row.model, row.batch_size, row.gpu, row.commit) == ("ViT", 4, "Example CPU", "abc")
    assert row.eager_seconds == pytest.approx(result.latencies["eager"], abs=1e-7)
    assert row.speedup == pytest.approx(result.speedup.ratio, abs=1e-4)
    assert (row.speedup_low, row.speedup_high) == pytest.approx((result.speedup.low, result.speedup.high), abs=1e-4)
    assert (row.torch, row.transformers, row.date) == ("2.13.0", "5.23.0", "2026-11-21")
    basis = "repeats" if repeats else "assumed"
    assert (row.speedup_basis, row.repeats, row.threads) == (basis, 1 + len(repeats), 2)


def test_runs_without_an_answer_are_given_back_and_not_written(tmp_path: Path) -> None:
    void = ok_result(compilation=Compilation(5.5, "cold", 1, recompiles_while_timing=1))
    without = [void, failed_result(status="crashed"), failed_result(environment=None)]
    assert add_measured([*without, ok_result()], tmp_path / "a.csv", commit="") == without
    assert len(read(tmp_path / "a.csv")) == 1


def test_a_failed_write_leaves_the_old_table_whole(tmp_path: Path) -> None:
    add_measured([ok_result()], tmp_path / "a.csv", commit="")
    before = (tmp_path / "a.csv").read_bytes()
    with pytest.raises(AttributeError):
        add_measured([ok_result(), None], tmp_path / "a.csv", commit="")  # type: ignore[list-item]
    assert (tmp_path / "a.csv").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_what_departs_from_the_guides_setting_stands_in_the_subsets_name() -> None:
    for changes, name in [
        ({}, "measured"),
        ({"weights": "random"}, "measured"),
        ({"mode": "max-autotune", "dtype": "float16"}, "measured max-autotune float16"),
        ({"channels_last": True, "attention": "sdpa"}, "measured channels-last attention-sdpa"),
        ({"threads": 1}, "measured threads-1"),
    ]:
        assert subset_of(spec(**changes)) == name
