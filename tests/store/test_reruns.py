"""The spread between processes, from the runs of a history."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import ENVIRONMENT, measurement, ok_result

from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.core.speedup import Spread
from demo.store.history import History
from demo.store.reruns import ASSUMED, ENOUGH, deviation, spread

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


def test_without_a_history_the_spread_is_assumed(tmp_path: Path) -> None:
    assert spread_after([], tmp_path) == Spread("assumed", ASSUMED)
    assert spread(run(), []) == Spread("assumed", ASSUMED)


def test_runs_of_the_same_spec_come_first(tmp_path: Path) -> None:
    others = reruns(0.08, 9, spec=vit(4))
    found = spread_after([*others, *reruns(0.02, 10)], tmp_path)
    assert (found.basis, found.freedom) == ("same runs", 9 + ENOUGH)
    assert found.deviation == pytest.approx(math.sqrt((9 * 0.02**2 + 5 * 0.03**2) / 14), rel=0.02)


def test_how_it_was_timed_makes_no_other_spec_but_the_protocol_does(tmp_path: Path) -> None:
    timed = dataclasses.replace(vit(1), precision=0.05, most_seconds=9.0, repeats=3)
    assert spread_after(reruns(0.02, 6, spec=timed), tmp_path).basis == "same runs"
    published = dataclasses.replace(vit(1), protocol="as published")
    assert spread_after([], tmp_path, spec=published).basis == "this machine"


def test_specs_that_were_repeated_here_are_pooled(tmp_path: Path) -> None:
    batches = [one for batch in (2, 3, 4, 5) for one in reruns(0.05, 3, spec=vit(batch))]
    found = spread_after([*batches, run(spec=vit(6))], tmp_path)
    assert (found.basis, found.freedom) == ("this machine", 8 + ENOUGH)
    assert found.deviation == pytest.approx(math.sqrt((8 * 0.05**2 + 5 * 0.03**2) / 13), rel=0.02)


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
    assert spread_after(reruns(0.02, 20, **changes), tmp_path).basis == "assumed"


def test_what_the_runs_own_intervals_explain_is_no_spread_between_them() -> None:
    times = np.random.default_rng(2).normal(0, 0.05, (30, 12))  # of each run's blocks: means that differ by chance
    noisy = [
        run(compiled=dataclasses.replace(measurement(0.001), wall_seconds=tuple(np.repeat(0.001 * np.exp(row), 4))))
        for row in times
    ]
    between = float(np.std([math.log(one.speedup.ratio) for one in noisy if one.speedup], ddof=1))
    assert between > 0.01
    assert deviation([[one.speedup.within for one in noisy if one.speedup]]) < 0.5 * between


def test_a_row_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    impossible = run()
    object.__setattr__(impossible.spec, "batch_size", -1)
    assert spread_after([impossible, *reruns(0.02, 6)], tmp_path).basis == "same runs"
