"""The simulation of reruns, without its clock: the processes are drawn here."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks import rerun_honesty
from benchmarks.rerun_honesty import KNOWN, PROCESSES, UNKNOWN, Counted
from demo.core.speedup import ASSUMED
from demo.core.stats import Interval, t_quantile


def processes(ratios: list[float]) -> list[Interval]:
    """Each known exactly within itself."""
    return [Interval(ratio, ratio, ratio) for ratio in ratios]


def half(interval: Interval) -> float:
    return math.log(interval.high / interval.low) / 2


def test_each_case_is_given_the_processes_and_the_spread_it_may_know() -> None:
    logs = np.array([0.0, 0.02, -0.02, 0.04, -0.04, 0.01, -0.01, 0.03, -0.03, 0.5])
    found = dict(rerun_honesty.intervals(processes(list(np.exp(logs))), 0.03))
    assert set(found) == {(spread, count) for spread in (KNOWN, UNKNOWN) for count in range(1, PROCESSES + 1)}
    assert half(found[KNOWN, 1]) == pytest.approx(1.96 * 0.03, rel=1e-3)
    assert half(found[KNOWN, 4]) == pytest.approx(1.96 * 0.03 / 2, rel=1e-3)
    assert ASSUMED.freedom is not None
    assert half(found[UNKNOWN, 1]) == pytest.approx(t_quantile(ASSUMED.freedom) * ASSUMED.deviation)
    variance = (ASSUMED.freedom * ASSUMED.deviation**2 + 2 * logs[:3].var(ddof=1)) / (ASSUMED.freedom + 2)
    assert half(found[UNKNOWN, 3]) == pytest.approx(t_quantile(ASSUMED.freedom + 2) * np.sqrt(variance / 3), rel=1e-3)


def test_covered_and_captured_are_counted_apart_and_add_up() -> None:
    one, other = Counted(), Counted()
    one.add(Interval(1.0, 0.9, 1.1), truth=1.05, rerun=1.2)
    other.add(Interval(1.0, 0.8, 1.2), truth=1.3, rerun=1.1)
    other.add(Interval(1.0, 0.7, 1.3), truth=1.0, rerun=0.8)
    total = rerun_honesty.summed([one, other])
    assert (total.trials, total.covered, total.captured) == (3, 2, 2)
    assert total.half_width == pytest.approx(0.2)


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
