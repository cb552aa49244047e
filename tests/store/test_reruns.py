"""The spread between processes and what other ways to compile brought, from the runs of a history."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import ENVIRONMENT, measurement, ok_result

from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.core.speedup import ASSUMED, Spread
from demo.runs.outcome import with_earlier_runs
from demo.store.history import History
from demo.store.reruns import MOST_PROCESSES, comparable, deviation, spread

NUMBERS = iter(range(10_000))


def run(log: float = 0.0, **changes: Any) -> RunResult:
    """A run whose speed-up has this much more in its logarithm than 2."""
    return ok_result(**{"id": f"run {next(NUMBERS)}", "compiled": measurement(0.001 / math.exp(log))} | changes)


def spread_after(earlier: list[RunResult], tmp_path: Path, **changes: Any) -> Spread:
    """Of a further run, where these are stored."""
    history = History(tmp_path / "history.sqlite3")
    for one in earlier:
        history.append(one)
    result = run(**changes)
    history.append(result)
    return spread(result, history.reruns(result))


def reruns(deviation: float, count: int, **changes: Any) -> list[RunResult]:
    logs = np.linspace(-1, 1, count)
    return [run(log, **changes) for log in logs * deviation / logs.std(ddof=1)]


def vit(batch_size: int) -> RunSpec:
    return RunSpec("shapes-vit", "image-classification", batch_size, device="cpu")


def pool_after(earlier: list[RunResult], tmp_path: Path, **changes: Any) -> list[str]:
    """The ids of the processes before the answer of a further run, where these and itself are stored."""
    history = History(tmp_path / "history.sqlite3")
    result = run(**changes)
    for one in [*earlier, result]:
        history.append(one)
    return [one.id for one in comparable(result, history.same_settings(result))]


def test_without_a_history_or_from_runs_of_the_same_settings_alone_the_spread_is_assumed(tmp_path: Path) -> None:
    """Those are the processes of the answer itself."""
    assert spread(run(), []) == ASSUMED
    assert spread_after(reruns(0.02, 10), tmp_path) == ASSUMED


def test_all_runs_of_the_same_settings_are_the_pool_however_they_were_timed(tmp_path: Path) -> None:
    timed = dataclasses.replace(vit(1), precision=0.05, most_seconds=9.0, repeats=3)
    others = [run(spec=vit(4)), run(spec=dataclasses.replace(vit(1), protocol="as published"))]
    same = [run(), run(spec=timed)]
    assert pool_after([*others, *same], tmp_path) == [one.id for one in same]


@pytest.mark.parametrize("field", ["transformers", "threads", "torch", "device_name", "driver", "triton"])
def test_other_versions_threads_and_machines_are_in_no_pool(field: str, tmp_path: Path) -> None:
    other = run(environment=dataclasses.replace(ENVIRONMENT, **{field: 7 if field == "threads" else "another"}))
    assert pool_after([other], tmp_path) == []


def test_a_run_without_an_answer_is_in_no_pool(tmp_path: Path) -> None:
    void = run(compilation=dataclasses.replace(ok_result().compilation, recompiles_while_timing=1))
    assert pool_after([void, run(status="failed")], tmp_path) == []


def test_a_row_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    impossible = run()
    object.__setattr__(impossible.spec, "batch_size", -1)
    assert spread_after([impossible, *reruns(0.02, 7, spec=vit(2))], tmp_path).basis == "this machine"


def test_the_newest_runs_are_the_pool(tmp_path: Path) -> None:
    earlier = [run(started_at=f"2026-11-{1 + number // 20:02}T{number % 20:02}:00:00Z") for number in range(40)]
    assert pool_after(earlier, tmp_path) == [one.id for one in earlier[-(MOST_PROCESSES - 1) :]]


def test_a_process_that_an_answer_rested_on_counts_also_where_its_run_was_deleted() -> None:
    first = run()
    assert [one.id for one in comparable(run(), [], first.as_processes())] == [first.id]


def test_specs_that_were_repeated_here_are_pooled(tmp_path: Path) -> None:
    batches = [one for batch in (2, 3, 4, 5) for one in reruns(0.05, 3, spec=vit(batch))]
    found = spread_after([*batches, run(spec=vit(6))], tmp_path)
    assert ASSUMED.freedom is not None
    assert (found.basis, found.freedom) == ("this machine", 8 + ASSUMED.freedom)
    variance = (8 * 0.05**2 + ASSUMED.freedom * ASSUMED.deviation**2) / (8 + ASSUMED.freedom)
    assert found.deviation == pytest.approx(math.sqrt(variance), rel=0.02)


@pytest.mark.parametrize(
    "changes",
    [
        {"environment": dataclasses.replace(ENVIRONMENT, device_name="Another CPU")},
        {"environment": dataclasses.replace(ENVIRONMENT, torch="2.11.0")},
        {"status": "failed"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_other_machines_versions_and_failures_do_not_count(changes: dict[str, Any], tmp_path: Path) -> None:
    batches = [one for batch in (2, 3) for one in reruns(0.05, 10, **{"spec": vit(batch)} | changes)]
    assert spread_after(batches, tmp_path).basis == "assumed"


def test_what_the_runs_own_intervals_explain_is_no_spread_between_them() -> None:
    times = np.random.default_rng(2).normal(0, 0.05, (30, 12))  # of each run's blocks: means that differ by chance
    noisy = [
        run(compiled=dataclasses.replace(measurement(0.001), wall_seconds=tuple(np.repeat(0.001 * np.exp(row), 4))))
        for row in times
    ]
    between = float(np.std([math.log(one.speedup.ratio) for one in noisy if one.speedup], ddof=1))
    assert between > 0.01
    assert deviation([[one.speedup.within for one in noisy if one.speedup]]) < 0.5 * between


# ---- other ways to compile

VIT = RunSpec("shapes-vit", "image-classification", device="cpu")
RESNET = dataclasses.replace(VIT, checkpoint="microsoft/resnet-50", weights="random")


def of(spec: RunSpec, speedup: float, **changes: Any) -> RunResult:
    return run(spec=spec, **{"compiled": measurement(0.002 / speedup)} | changes)


def known(
    result: RunResult, earlier: list[RunResult], folder: Path
) -> dict[tuple[str, Any], tuple[float, tuple[str, ...]]]:
    """{(option, value): (ratio, checkpoints)}"""
    history = History(folder / "history.sqlite3")
    for one in earlier:
        history.append(one)
    result = with_earlier_runs(result, (), history)
    assert RunResult.from_json(result.to_json()).gains == result.gains
    return {(gain.option, gain.value): (pytest.approx(gain.ratio), gain.checkpoints) for gain in result.gains or ()}


def way(spec: RunSpec, **changed: Any) -> RunSpec:
    return dataclasses.replace(spec, **changed)


def test_runs_of_this_model_come_before_those_of_others(tmp_path: Path) -> None:
    earlier = [
        of(way(VIT, freezing=True), 3.0),
        of(way(VIT, freezing=True), 3.0),
        of(RESNET, 1.0),
        of(way(RESNET, freezing=True), 5.0),
        of(way(RESNET, mode="lite"), 0.5),
    ]
    assert known(of(VIT, 2.0), earlier, tmp_path) == {
        ("freezing", True): (1.5, ("shapes-vit",)),
        ("mode", "lite"): (0.5, ("microsoft/resnet-50",)),
    }


def test_folders_count_for_themselves_only(tmp_path: Path) -> None:
    folder = way(VIT, checkpoint="/home/somebody/secret")
    earlier = [of(folder, 1.0), of(way(folder, freezing=True), 3.0)]
    assert known(of(VIT, 2.0), earlier, tmp_path) == {}
    assert known(of(folder, 1.0), [], tmp_path) == {("freezing", True): (3.0, ("/home/somebody/secret",))}


def test_only_what_differs_in_that_one_way_counts(tmp_path: Path) -> None:
    other_versions = dataclasses.replace(ENVIRONMENT, transformers="1.0")
    earlier = [
        of(way(VIT, freezing=True, mode="lite"), 3.0),
        of(way(VIT, freezing=True, batch_size=4), 3.0),
        of(way(VIT, freezing=True), 3.0, environment=other_versions),
        of(way(VIT, dtype="bfloat16"), 3.0),
    ]
    assert known(of(VIT, 2.0), earlier, tmp_path) == {}


def test_how_it_was_timed_does_not_matter_and_the_mean_is_geometric(tmp_path: Path) -> None:
    timed = way(VIT, precision=0.05, most_seconds=9.0)
    earlier = [of(timed, 1.0), of(way(timed, compiler="aot"), 2.0), of(way(VIT, compiler="aot"), 8.0)]
    assert known(of(VIT, 4.0), earlier, tmp_path) == {("compiler", "aot"): (2.0, ("shapes-vit",))}


def test_a_run_without_figures_learns_nothing(tmp_path: Path) -> None:
    earlier = [of(VIT, 2.0), of(way(VIT, freezing=True), 3.0)]
    assert known(of(VIT, 2.0, compiled=None), earlier, tmp_path) == {}
