from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import pytest
from measured_tables import LINE, write
from samples import ENVIRONMENT, failed_result, measurement, ok_result

from demo.core.errors import BadInput
from demo.core.measurement import Compilation
from demo.core.spec import RunSpec
from demo.core.speedup import Repeat, Spread
from demo.core.stats import Interval
from demo.store import measured
from demo.store.measured import COLUMNS, device_label, load, read, subset_of, write_measured


def spec(**changes: object) -> RunSpec:
    return RunSpec("google/vit-base-patch16-224", "image-classification", device="cuda", **changes)  # type: ignore[arg-type]


# Reading


def test_a_table_reads_as_rows_of_their_own_kind(tmp_path: Path) -> None:
    (row,) = read(write(tmp_path / "h200.csv", {}))
    assert (row.gpu, row.batch_size, row.eager_seconds, row.compiled_seconds) == ("H200", 1, 0.004, 0.0025)
    assert row.measured is not None
    assert (row.measured.low, row.measured.high, row.measured.device) == (1.6, 1.64, "NVIDIA H200")


def test_the_speed_up_of_a_measured_row_is_the_run_s_estimate(tmp_path: Path) -> None:
    (row,) = read(write(tmp_path / "h200.csv", {}))
    assert row.speedup == 1.62 != row.eager_seconds / row.compiled_seconds
    assert row.saved == pytest.approx(1 - 1 / 1.62)


def test_out_of_memory_is_a_value_there_too(tmp_path: Path) -> None:
    nothing = {"speedup": "", "speedup_low": "", "speedup_high": ""}
    both, one = read(
        write(
            tmp_path / "a.csv",
            {"eager_ms": "OOM", "compiled_ms": "OOM", **nothing},
            {"compiled_ms": "OOM", "batch_size": "16", **nothing},
        )
    )
    assert both.eager_seconds is None and both.speedup is None and both.saved is None
    assert one.eager_seconds == 0.004 and one.compiled_seconds is None and one.speedup is None


def test_every_table_of_the_folder_is_loaded_in_the_order_of_the_names(tmp_path: Path) -> None:
    write(tmp_path / "b.csv", {"gpu": "L4"})
    write(tmp_path / "a.csv", {}, {"batch_size": "4"})
    assert [row.gpu for row in load(tmp_path).rows] == ["H200", "H200", "L4"]
    assert load(tmp_path).problems == ()


def test_a_folder_that_is_not_there_holds_no_tables(tmp_path: Path) -> None:
    assert load(tmp_path / "nowhere") == measured.Tables((), ())


def test_what_the_project_ships_can_be_read() -> None:
    assert load().problems == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"eager_ms": "fast"}, "eager_ms is 'fast'"),
        ({"eager_ms": "-1"}, "eager_ms is '-1'"),
        ({"compiled_ms": "nan"}, "compiled_ms is 'nan'"),
        ({"compiled_ms": "inf"}, "compiled_ms is 'inf'"),
        ({"batch_size": "0"}, "batch_size is '0'"),
        ({"batch_size": "1.5"}, "batch_size is '1.5'"),
        ({"batch_size": "²"}, "batch_size is '²'"),
        ({"mode": "turbo"}, "mode is 'turbo'"),
        ({"task": "poetry"}, "task is 'poetry'"),
        ({"dtype": "float8"}, "dtype is 'float8'"),
        ({"weights": "heavy"}, "weights is 'heavy'"),
        ({"subset": "release"}, "subset is 'release'"),
        ({"dtype": "bfloat16"}, "subset is 'measured', but mode is default and dtype bfloat16"),
        ({"mode": "max-autotune"}, "subset is 'measured', but mode is max-autotune"),
        ({"subset": "measured float16"}, "but mode is default and dtype float32"),
        ({"gpu": " "}, "gpu is empty"),
        ({"date": "yesterday"}, "date is 'yesterday'"),
        ({"repeats": "0"}, "repeats is '0'"),
        ({"threads": "two"}, "threads is 'two'"),
        ({"speedup": "1.7"}, "outside its interval"),
        ({"speedup_low": ""}, "not the speed-up with both ends"),
        ({"compiled_ms": "OOM"}, "a speed-up although a variant ran out of memory"),
        ({"model": "x" * 500}, "longer than 200 characters"),
        ({"model": "a\x07b"}, "unprintable"),
    ],
)
def test_a_bad_cell_is_said_with_its_file_and_line(tmp_path: Path, change: dict[str, str], said: str) -> None:
    write(tmp_path / "bad.csv", {}, change)
    write(tmp_path / "good.csv", {"gpu": "L4"})
    tables = load(tmp_path)
    assert [row.gpu for row in tables.rows] == ["L4"]
    (problem,) = tables.problems
    assert "bad.csv" in problem and "line 3" in problem and said in problem


def test_a_table_without_a_column_is_said(tmp_path: Path) -> None:
    write(tmp_path / "bad.csv", {}, columns=tuple(name for name in COLUMNS if name != "driver"))
    assert "the columns lack driver" in load(tmp_path).problems[0]


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe\x00", b"a,b\n1,2\n", (",".join(COLUMNS) + "\nmeasured,H200\n").encode()]
)
def test_a_file_that_is_no_table_is_said_and_left_out(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.csv").write_bytes(content)
    tables = load(tmp_path)
    assert tables.rows == () and len(tables.problems) == 1 and "bad.csv" in tables.problems[0]


def test_a_line_of_too_many_cells_is_said(tmp_path: Path) -> None:
    path = write(tmp_path / "bad.csv", {})
    path.write_text(path.read_text().rstrip("\n") + ",more\n")
    with pytest.raises(BadInput, match="more or fewer cells"):
        read(path)


def test_a_folder_named_like_a_table_is_said(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    assert len(load(tmp_path).problems) == 1


# Writing


def test_what_was_written_reads_again(tmp_path: Path) -> None:
    result = ok_result(spec=spec(batch_size=4))
    assert write_measured([result], tmp_path / "a.csv", commit="abc") == []
    (row,) = read(tmp_path / "a.csv")
    assert row.measured is not None and result.speedup is not None
    assert (row.model, row.batch_size, row.gpu, row.measured.commit) == ("ViT", 4, "Example CPU", "abc")
    assert row.eager_seconds == pytest.approx(result.latencies["eager"], abs=1e-7)
    assert row.speedup == pytest.approx(result.speedup.ratio, abs=1e-4)
    assert (row.measured.low, row.measured.high) == pytest.approx((result.speedup.low, result.speedup.high), abs=1e-4)
    assert (row.torch, row.measured.transformers, row.measured.date) == ("2.13.0", "5.23.0", "2026-11-21")


def test_the_row_of_a_repeated_run_has_the_interval_of_its_repeats(tmp_path: Path) -> None:
    before = tuple(
        Repeat(str(ratio), 0.001 * ratio, 0.001, Interval(ratio, ratio - 0.01, ratio + 0.01)) for ratio in (1.9, 2.1)
    )
    result = ok_result(earlier=before, spread=Spread("assumed", 0.5))
    write_measured([result], tmp_path / "a.csv", commit="abc")
    (row,) = read(tmp_path / "a.csv")
    assert row.measured is not None and result.speedup is not None
    assert (row.measured.low, row.measured.high) == pytest.approx((result.speedup.low, result.speedup.high), abs=1e-4)
    assert (row.measured.basis, row.measured.repeats, row.measured.threads) == ("repeats", 3, 2)
    assert row.eager_seconds == pytest.approx((0.0019 * 0.0021 * 0.00204) ** (1 / 3), rel=0.01)


def test_a_table_of_before_repeats_is_read_and_added_to(tmp_path: Path) -> None:
    old = [name for name in COLUMNS if name not in ("speedup_basis", "repeats", "threads")]
    path = write(tmp_path / "a.csv", {}, columns=tuple(old))
    (row,) = read(path)
    assert row.measured is not None
    assert (row.measured.basis, row.measured.repeats, row.measured.threads) == ("", None, None)
    measured.add_measured([ok_result()], path, commit="abc")
    assert [one.measured and one.measured.repeats for one in read(path)] == [None, 1]


def test_the_columns_are_the_guides_first(tmp_path: Path) -> None:
    write_measured([ok_result()], tmp_path / "a.csv", commit="")
    with (tmp_path / "a.csv").open(newline="") as file:
        names = next(csv.reader(file))
    with (measured.catalog.ASSETS / "published" / "published.csv").open(newline="") as file:
        assert names[:10] == next(csv.reader(file))


def test_running_out_of_memory_is_written_as_a_value(tmp_path: Path) -> None:
    before = failed_result()
    while_compiling = failed_result(eager=measurement(0.5))
    assert write_measured([before, while_compiling], tmp_path / "a.csv", commit="") == []
    first, second = read(tmp_path / "a.csv")
    assert first.eager_seconds is None and first.compiled_seconds is None
    assert second.eager_seconds == pytest.approx(0.51) and second.compiled_seconds is None


def test_runs_without_an_answer_are_given_back_and_not_written(tmp_path: Path) -> None:
    void = ok_result(compilation=Compilation(5.5, "cold", 1, recompiles_while_timing=1))
    crashed = failed_result(status="crashed")
    nowhere = failed_result(environment=None)
    assert write_measured([void, ok_result(), crashed, nowhere], tmp_path / "a.csv", commit="") == [
        void,
        crashed,
        nowhere,
    ]
    assert len(read(tmp_path / "a.csv")) == 1


def test_a_failed_write_leaves_the_old_table_whole(tmp_path: Path) -> None:
    write_measured([ok_result()], tmp_path / "a.csv", commit="")
    before = (tmp_path / "a.csv").read_bytes()
    with pytest.raises(AttributeError):
        write_measured([ok_result(), None], tmp_path / "a.csv", commit="")  # type: ignore[list-item]
    assert (tmp_path / "a.csv").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_a_checkpoint_outside_the_catalogue_is_called_by_its_last_name(tmp_path: Path) -> None:
    write_measured([ok_result(spec=RunSpec("somebody/model", "image-classification"))], tmp_path / "a.csv", commit="")
    assert read(tmp_path / "a.csv")[0].model == "model"


def test_what_departs_from_the_guides_setting_stands_in_the_subsets_name() -> None:
    for changes, name in [
        ({}, "measured"),
        ({"weights": "random"}, "measured"),
        ({"mode": "reduce-overhead"}, "measured reduce-overhead"),
        ({"mode": "max-autotune", "dtype": "float16"}, "measured max-autotune float16"),
        ({"channels_last": True, "attention": "sdpa"}, "measured channels-last attention-sdpa"),
        ({"threads": 1}, "measured threads-1"),
    ]:
        assert subset_of(spec(**changes)) == name


def test_a_device_has_a_short_name() -> None:
    for name, label in [
        ("Tesla T4", "T4"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"),
        ("AMD EPYC", "AMD EPYC"),
    ]:
        assert device_label(name) == label


def test_the_device_stands_in_full_beside_its_short_name(tmp_path: Path) -> None:
    machine = dataclasses.replace(ENVIRONMENT, device_name="NVIDIA H200", driver="580.1", triton="3.7.0")
    write_measured([ok_result(environment=machine)], tmp_path / "a.csv", commit="")
    (row,) = read(tmp_path / "a.csv")
    assert row.measured is not None
    assert (row.gpu, row.measured.device, row.measured.driver, row.measured.triton) == (
        "H200",
        "NVIDIA H200",
        "580.1",
        "3.7.0",
    )


def test_the_sample_line_has_every_column() -> None:
    assert tuple(LINE) == COLUMNS
