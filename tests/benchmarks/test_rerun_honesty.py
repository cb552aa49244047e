"""The simulation of reruns, without its clock: the processes are drawn here."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks import rerun_honesty
from benchmarks.rerun_honesty import DOUBLE, EARLIER, FIVE, HALF, KNOWN, PROCESSES, THREE, TWO, Counted
from demo.core.stats import Interval, t_quantile
from demo.store.reruns import ASSUMED


def processes(ratios: list[float]) -> list[Interval]:
    """Each known exactly within itself."""
    return [Interval(ratio, ratio, ratio) for ratio in ratios]


def half(interval: Interval) -> float:
    return math.log(interval.high / interval.low) / 2


def test_each_case_is_given_the_processes_it_may_know() -> None:
    logs = np.array([0.0, 0.02, -0.02, 0.04, -0.04, 0.01, -0.01, 0.5])
    found = rerun_honesty.intervals(processes(list(np.exp(logs))), 0.03)
    assert PROCESSES == 7 and len(found) == 7
    assert half(found[KNOWN]) == pytest.approx(1.96 * 0.03, rel=1e-3)
    assert half(found[HALF]) * 2 == half(found[DOUBLE]) / 2 == pytest.approx(half(found[KNOWN]))
    assert half(found[TWO]) == pytest.approx(half(found[KNOWN]) / math.sqrt(2))
    with_assumed = np.sqrt((5 * logs[1:7].var(ddof=1) + 5 * ASSUMED**2) / 10)
    assert half(found[EARLIER]) == pytest.approx(t_quantile(10) * with_assumed)
    assert half(found[THREE]) == pytest.approx(t_quantile(2) * logs[:3].std(ddof=1) / math.sqrt(3))
    assert half(found[FIVE]) == pytest.approx(t_quantile(4) * logs[:5].std(ddof=1) / math.sqrt(5))


def test_covered_and_captured_are_counted_apart_and_add_up() -> None:
    one, other = Counted(), Counted()
    one.add(Interval(1.0, 0.9, 1.1), truth=1.05, rerun=1.2)
    other.add(Interval(1.0, 0.8, 1.2), truth=1.3, rerun=1.1)
    other.add(Interval(1.0, 0.7, 1.3), truth=1.0, rerun=0.8)
    total = rerun_honesty.summed([one, other])
    assert (total.trials, total.covered, total.captured) == (3, 2, 2)
    assert total.shares == ["66.7%", "66.7%", "20.0%"]


def test_the_simulated_processes_differ_by_the_spread_and_a_trial_repeats_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[float] = []

    def one_run(machine: object, seconds: float, truth: float, seed: int) -> tuple[Interval, str]:
        asked.append(truth)
        return Interval(truth, truth, truth), "unsure"

    monkeypatch.setattr(rerun_honesty, "one_run", one_run)
    machine = rerun_honesty.MACHINES[0]
    drawn = list(rerun_honesty.trials(machine, 0.03, 200))
    assert drawn == list(rerun_honesty.trials(machine, 0.03, 200))
    logs = [math.log(one.ratio / truth) for truth, group in drawn for one in group]
    assert np.std(logs) == pytest.approx(0.03, rel=0.05) and np.mean(logs) == pytest.approx(0, abs=0.003)
    assert {truth for truth, _ in drawn} == set(rerun_honesty.TRUTHS)
