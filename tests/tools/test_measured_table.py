"""Tests of writing this project's own tables: the rows of stored runs, and which row a new one replaces."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from support.samples import ENVIRONMENT, failed_result, measurement, ok_result

from demo.core.comparison import ProcessFigure, ProcessResult, Spread
from demo.core.machine import HostSample
from demo.core.measurement import Compilation, CompileCost
from demo.core.options import RunSpec
from demo.core.outputs import Parity
from demo.core.result import RunResult
from demo.core.stats import Interval
from demo.store import export
from demo.store.published import read_measured
from tools.measured_table import add_measured, main, subset_of

SPEC = ok_result().spec


def spec(device: str = "cuda", **changes: object) -> RunSpec:
    return RunSpec("google/vit-base-patch16-224", "image-classification", device=device, **changes)  # type: ignore[arg-type]


TAKEN = (HostSample(0.1, 0.5, free_cores=1.0),)


@pytest.mark.parametrize(
    ("repeats", "states", "processes"),
    [((), (), 1), ((1.9, 2.1), (), 3), ((1.9, 2.1), TAKEN, 2)],
    ids=["one", "three", "own process set aside"],
)
def test_a_measured_row_reads_back_as_written(repeats: tuple, states: tuple, processes: int, tmp_path) -> None:
    figures = [ProcessFigure(0.001 * ratio, 0.001, Interval(ratio, ratio - 0.01, ratio + 0.01)) for ratio in repeats]
    before = tuple(ProcessResult(str(figure.within.ratio), {"call": figure}) for figure in figures)
    spread, on_cpu = Spread("assumed", 0.5), spec(batch_size=4, device="cpu")
    result = ok_result(spec=on_cpu, earlier=before, spread=spread, machine_states=states)
    assert add_measured([result], tmp_path / "a.csv", commit="abc") == []
    (row,) = read_measured(tmp_path / "a.csv")
    assert row.measured and result.speedup is not None
    assert (row.model, row.batch_size, row.gpu, row.commit) == ("ViT", 4, "Example CPU", "abc")
    assert row.eager_seconds == pytest.approx(result.latencies["eager"], abs=1e-7)
    assert row.speedup == pytest.approx(result.speedup.ratio, abs=1e-4)
    assert (row.speedup_low, row.speedup_high) == pytest.approx((result.speedup.low, result.speedup.high), abs=1e-4)
    assert (row.torch, row.transformers, row.date) == ("2.13.0", "5.23.0", "2026-11-21")
    basis = "repeats" if repeats else "assumed"
    assert (row.speedup_basis, row.repeats, row.threads) == (basis, processes, 2)


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        (
            {"compilation": Compilation(9.0, "cold", 1, cold=CompileCost(9.0, {}), warm=CompileCost(3.0, {}))},
            (9.0, 3.0),
        ),
        ({"compilation": Compilation(3.0, "warm", 1)}, (None, 3.0)),
        ({"compilation": None}, (None, None)),
        ({"parity": Parity("differ", 1.0, "")}, (None, None)),
    ],
    ids=["both", "kept", "unknown", "other outputs"],
)
def test_a_row_keeps_the_first_calls(changes: dict[str, Any], kept: tuple[float | None, ...], tmp_path) -> None:
    add_measured([ok_result(**changes)], tmp_path / "a.csv", commit="")
    (row,) = read_measured(tmp_path / "a.csv")
    assert (row.first_call_seconds, row.kept_first_call_seconds) == pytest.approx(kept)


def test_runs_without_an_answer_are_not_written(tmp_path) -> None:
    void = ok_result(compilation=Compilation(5.5, "cold", 1, recompiles_while_timing=1))
    without = [void, failed_result(status="crashed"), failed_result(environment=None)]
    assert add_measured([*without, ok_result()], tmp_path / "a.csv", commit="") == without
    assert len(read_measured(tmp_path / "a.csv")) == 1


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"weights": "random"}, "measured"),
        ({"mode": "max-autotune", "dtype": "float16"}, "measured max-autotune float16"),
        ({"channels_last": True, "attention": "sdpa", "threads": 1}, "measured channels-last attention-sdpa threads-1"),
    ],
)
def test_what_departs_from_the_guides_setting_names_the_subset(changes: dict[str, Any], name: str) -> None:
    assert subset_of(spec(**changes)) == name


def exported(folder: Path, *results: RunResult) -> str:
    file = folder / "runs.json"
    file.write_bytes(export.to_bytes(results, "json"))
    return str(file)


def test_exported_runs_join_the_table_of_their_device(own: Path) -> None:
    large, other = (dataclasses.replace(SPEC, **changes) for changes in ({"batch_size": 4}, {"mode": "lite"}))
    full = ok_result(spec=other, status="out_of_memory", compiled=None)
    assert main(exported(own, ok_result(), ok_result(spec=large), full)) == 0
    newer = ok_result(compiled=measurement(0.0005))
    assert main(exported(own, newer, ok_result())) == 0  # an export has the newest first
    rows = {(row.batch_size, row.mode): row.compiled_seconds for row in read_measured(own / "example-cpu.csv")}
    assert rows.pop((1, "lite")) is None
    expected = {(4, "default"): ok_result().latencies["compiled"], (1, "default"): newer.latencies["compiled"]}
    assert rows == pytest.approx(expected, abs=1e-7)


ELSEWHERE = ok_result(environment=dataclasses.replace(ENVIRONMENT, device_name="Another"))


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ([], "belongs to one device. The runs are of: none"),
        ([ok_result(), ELSEWHERE], "The runs are of: Another, Example CPU"),
        ([ok_result()], "example-cpu.csv is left out"),
    ],
    ids=["none", "two devices", "a table that cannot be read"],
)
def test_runs_without_a_table_change_nothing(results: list[RunResult], words: str, own: Path, capsys) -> None:
    (own / "example-cpu.csv").write_text("my,own,notes\n1,2,3\n")
    assert main(exported(own, *results)) == 1
    assert words in capsys.readouterr().err
    assert (own / "example-cpu.csv").read_text() == "my,own,notes\n1,2,3\n"
