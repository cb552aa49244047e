"""What other ways to compile brought, from the runs of a history."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from samples import ENVIRONMENT, measurement, ok_result

from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.runs.outcome import with_earlier_runs
from demo.store.history import History

NUMBERS = iter(range(10_000))
VIT = RunSpec("shapes-vit", "image-classification", device="cpu")
RESNET = dataclasses.replace(VIT, checkpoint="microsoft/resnet-50", weights="random")


def run(spec: RunSpec, speedup: float, **changes: Any) -> RunResult:
    timed = {"id": f"run {next(NUMBERS)}", "spec": spec, "compiled": measurement(0.002 / speedup)}
    return ok_result(**timed | changes)


def known(
    of: RunResult, earlier: list[RunResult], folder: Path
) -> dict[tuple[str, Any], tuple[float, tuple[str, ...]]]:
    """{(option, value): (ratio, checkpoints)}"""
    history = History(folder / "history.sqlite3")
    for one in earlier:
        history.append(one)
    result = with_earlier_runs(of, (), history)
    assert RunResult.from_json(result.to_json()).gains == result.gains
    return {(gain.option, gain.value): (pytest.approx(gain.ratio), gain.checkpoints) for gain in result.gains or ()}


def way(spec: RunSpec, **changed: Any) -> RunSpec:
    return dataclasses.replace(spec, **changed)


def test_runs_of_this_model_come_before_those_of_others(tmp_path: Path) -> None:
    earlier = [
        run(way(VIT, freezing=True), 3.0),
        run(way(VIT, freezing=True), 3.0),
        run(RESNET, 1.0),
        run(way(RESNET, freezing=True), 5.0),
        run(way(RESNET, mode="lite"), 0.5),
    ]
    assert known(run(VIT, 2.0), earlier, tmp_path) == {
        ("freezing", True): (1.5, ("shapes-vit",)),
        ("mode", "lite"): (0.5, ("microsoft/resnet-50",)),
    }


def test_folders_count_for_themselves_only(tmp_path: Path) -> None:
    folder = way(VIT, checkpoint="/home/somebody/secret")
    earlier = [run(folder, 1.0), run(way(folder, freezing=True), 3.0)]
    assert known(run(VIT, 2.0), earlier, tmp_path) == {}
    assert known(run(folder, 1.0), [], tmp_path) == {("freezing", True): (3.0, ("/home/somebody/secret",))}


def test_only_what_differs_in_that_one_way_counts(tmp_path: Path) -> None:
    other_versions = dataclasses.replace(ENVIRONMENT, transformers="1.0")
    earlier = [
        run(way(VIT, freezing=True, mode="lite"), 3.0),
        run(way(VIT, freezing=True, batch_size=4), 3.0),
        run(way(VIT, freezing=True), 3.0, environment=other_versions),
        run(way(VIT, dtype="bfloat16"), 3.0),
    ]
    assert known(run(VIT, 2.0), earlier, tmp_path) == {}


def test_how_it_was_timed_does_not_matter_and_the_mean_is_geometric(tmp_path: Path) -> None:
    timed = way(VIT, precision=0.05, most_seconds=9.0)
    earlier = [run(timed, 1.0), run(way(timed, compiler="aot"), 2.0), run(way(VIT, compiler="aot"), 8.0)]
    assert known(run(VIT, 4.0), earlier, tmp_path) == {("compiler", "aot"): (2.0, ("shapes-vit",))}


def test_a_run_without_figures_learns_nothing(tmp_path: Path) -> None:
    earlier = [run(VIT, 2.0), run(way(VIT, freezing=True), 3.0)]
    assert known(run(VIT, 2.0, compiled=None), earlier, tmp_path) == {}
