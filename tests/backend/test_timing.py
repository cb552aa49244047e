"""Tests of the measurement protocol on simulated clocks: no test here waits for, or asserts, real time."""

import itertools
import math
import random
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from demo.backend import timing
from demo.core.options import RunSpec


@dataclass
class SimulatedClock:
    """A clock that advances by the seconds that each call returns, times a drift that grows with the clock's time."""

    drift_per_second: float = 0.0
    noise: float = 0.0
    seconds: float = 0.0
    chance: random.Random = field(default_factory=lambda: random.Random(7))
    order: list[Any] = field(default_factory=list)

    def time(self, call: Any) -> float:
        self.order.append(call)
        cost = call() * (1 + self.drift_per_second * self.seconds) * math.exp(self.chance.gauss(0, self.noise))
        self.seconds += cost
        return cost

    def now(self) -> float:
        return self.seconds


def eager() -> float:
    return 0.010


def compiled() -> float:
    return 0.005


def run(clock: SimulatedClock, plan: timing.Plan, half: int = 5) -> timing.Samples:
    return timing.time_interleaved(eager, compiled, clock, plan, half, lambda samples: None)


@pytest.mark.parametrize(
    ("half", "iterations", "order"),
    [
        # One call after each switch settles; between blocks lies the control.
        (2, 8, 2 * ("EE" + "C" + "CCCC" + "E" + "EE" + "EEEE")),
        # Of a slow model it comes after every third block.
        (1, 10, "ECCCEE" + "EE" + 3 * "ECCCEE" + "EE" + "ECCCEE" + "EE"),
    ],
)
def test_calls_alternate_with_a_control_between(half: int, iterations: int, order: str):
    clock = SimulatedClock()
    samples = run(clock, timing.Plan(iterations=iterations), half)
    names = {eager: "E", compiled: "C"}
    assert "".join(map(names.get, clock.order)) == order[: -2 * half]  # no control at the end
    assert samples.measurement("control").blocks_apart == (3 if half == 1 else 1)


def test_calls_around_a_stop_of_the_process_are_dropped() -> None:
    """The process is stopped for 20 s in the third block. The simulated clock adds this to the block's last call."""
    clock, ended = SimulatedClock(), []

    def on_block_end(samples: timing.Samples) -> float:
        ended.append(samples.blocks)
        if len(ended) != 3:
            return 0.0
        samples.eager[-1] += 20.0
        clock.seconds += 20.0
        return 20.0

    samples = timing.time_interleaved(eager, compiled, clock, timing.Plan(max_seconds=3.0), 5, on_block_end)
    assert ended[:4] == [1, 2, 3, 3] and max(samples.eager + samples.control) < 1
    assert len(samples.eager) == len(samples.compiled) == 10 * samples.blocks
    assert len(samples.control) == 10 * (samples.blocks - 1)  # else later ones are compared with the wrong blocks
    undisturbed = run(SimulatedClock(), timing.Plan(max_seconds=3.0))
    assert samples.seconds == pytest.approx(undisturbed.seconds, abs=0.5)


@pytest.mark.parametrize(("half", "settling"), [(2, 1), (5, 2), (6, 3), (20, 6)])
def test_the_first_calls_after_a_switch_are_not_counted(half: int, settling: int):
    class Switching(SimulatedClock):
        """A clock that adds 100 s to the first calls after a switch, so that a counted one would be noticed."""

        since = 100

        def time(self, call: Any) -> float:
            self.since = 0 if self.order and call is not self.order[-1] else self.since + 1
            return super().time(call) + (100.0 if self.since < settling else 0.0)

    samples = run(Switching(), timing.Plan(iterations=4 * half), half)  # two blocks
    assert set(samples.eager) == set(samples.control) == {0.010}
    assert set(samples.compiled) == {0.005}
    assert [len(times) for times in samples.settling.values()] == [2 * settling] * 2
    assert all(time > 100 for times in samples.settling.values() for time in times)
    measured = samples.measurement("compiled", [0.3, 0.005])
    assert (measured.warmup_seconds, measured.calls_per_block) == ((0.3, 0.005), 2 * half)
    assert len(measured.settling_seconds) == 2 * settling


def test_a_drifting_machine_does_not_move_the_speed_up():
    samples = run(SimulatedClock(drift_per_second=0.2), timing.Plan(iterations=300), 2)
    assert len(samples.compiled) == len(samples.eager)
    assert samples.eager[-1] > 1.5 * samples.eager[0]
    assert samples.estimate().speedup.ratio == pytest.approx(2.0, rel=0.005)


@pytest.mark.parametrize(("noise", "least", "most"), [(0.001, 0.5, 0.7), (0.2, 2.5, 100)], ids=["quiet", "noisy"])
def test_a_machine_goes_on_until_the_interval_is_narrow(noise: float, least: float, most: float):
    plan = timing.Plan(max_seconds=1_000, longest_seconds=1_000, max_calls=100_000)
    samples = run(SimulatedClock(noise=noise), plan)
    assert samples.estimate().speedup.half_width <= 0.01
    assert least <= sum(samples.compiled) < most


def test_time_is_up_after_the_cap_where_the_verdict_is_sure():
    clock = SimulatedClock(noise=0.1)
    samples = run(clock, timing.Plan(precision=1e-9, max_seconds=2.0))
    assert not samples.unsure()
    assert 2.0 <= clock.seconds < 2.5


def test_an_unsure_verdict_gets_the_longest_time(monkeypatch):
    question_times: list[float] = []
    monkeypatch.setattr(timing.Samples, "unsure", lambda samples: question_times.append(samples.seconds) or True)
    clock = SimulatedClock(noise=0.3)
    plan = timing.Plan(precision=1e-9, max_seconds=2.0, longest_seconds=4.0)
    samples = timing.time_interleaved(eager, lambda: 0.010, clock, plan, 5, lambda samples: None)
    assert 4.0 <= clock.seconds < 5.0
    assert samples.seconds == clock.seconds
    assert samples.blocks >= 2
    (seconds,) = question_times  # a verdict that is asked for again and again would be wrong more often
    assert 2.0 <= seconds < 2.5


def test_a_slow_model_gets_twenty_calls_if_time_allows():
    for longest, calls in [(1.0, 4), (100.0, 14), (1_000.0, 20)]:
        plan = timing.Plan(max_seconds=1.0, longest_seconds=longest)
        samples = timing.time_interleaved(lambda: 4.0, lambda: 2.0, SimulatedClock(), plan, 1, lambda samples: None)
        assert len(samples.eager) == len(samples.compiled) == calls


def test_timing_may_take_as_long_as_the_first_compiled_call():
    for most, first_call, longest in [(3.5, 1.0, 7.0), (3.5, 30.0, 30.0), (3.5, 300.0, 60.0), (1.0, 30.0, 2.0)]:
        spec = RunSpec("shapes-vit", "image-classification", max_seconds=most)
        assert timing.Plan.of(spec, first_call).longest_seconds == longest


FALLING, STEADY = [9.0, 0.5, 0.4, 0.3, 0.2, 0.101, 0.1, 0.1, 0.1], [0.1] * 9
RECORDED = timing.WARMUP_CALLS + timing.CUDA_GRAPH_CALLS


@pytest.mark.parametrize(
    ("costs", "compiling", "least", "calls"), [(FALLING, 0, 3, 8), (STEADY, 6, 3, 6 + 3), (STEADY, 0, RECORDED, 6)]
)
def test_warm_up_goes_on_until_calls_agree(costs, compiling, least, calls):
    left, clock, ended = iter(costs), SimulatedClock(), []

    def events() -> int:
        return min(len(clock.order), compiling)

    times, settled = timing.warm_up(lambda: next(left), clock, events, least, lambda: ended.append(len(clock.order)))
    assert settled and times == costs[:calls]
    assert ended == [1]  # the first call, which compiles


@pytest.mark.parametrize(
    ("device", "mode", "calls"), [("cuda", "max-autotune", 6), ("cuda", "default", 3), ("cpu", "max-autotune", 3)]
)
def test_the_warm_up_records_cuda_graphs(device: str, mode: str, calls: int):
    spec = RunSpec("shapes-vit", "image-classification", mode=mode)
    assert timing.min_warmup_calls(spec, torch.device(device)) == calls


def test_warm_up_that_never_settles_says_so():
    costs = itertools.cycle([0.01, 0.1])
    times, settled = timing.warm_up(lambda: next(costs), SimulatedClock(), lambda: 0)
    assert not settled and len(times) <= timing.MAX_WARMUP_CALLS


def test_blocks_hold_more_calls_of_a_fast_model():
    for seconds, expected in [(3.0, 1), (0.1, 1), (0.09, 2), (0.03, 2), (0.01, 6), (0.000_01, 14)]:
        assert timing.calls_per_half_block([seconds] * 3, [seconds / 2] * 3, None) == expected


def test_the_guides_recipe_reports_a_few_times_a_second() -> None:
    clock, reported_calls = SimulatedClock(), []
    times = timing.time_fixed_count(lambda: 0.0095, clock, 100, lambda times: reported_calls.append(len(times)))
    assert len(times) == 100
    assert reported_calls == [32, 64, 96, 100]  # 0.304 s have passed, or all calls are timed


@pytest.mark.parametrize(("look", "looks"), [(2, [32, 64, 64, 96, 100]), (4, [32, 64, 96, 100, 100])])
def test_the_guides_recipe_times_the_calls_around_a_stop_again(look: int, looks: list[int]) -> None:
    """The process is stopped for 20 s, which the simulated clock adds to the last call before a look."""
    clock, ended = SimulatedClock(), []

    def between_calls(times: list[float]) -> float:
        ended.append(len(times))
        if len(ended) != look:
            return 0.0
        times[-1] += 20.0
        clock.seconds += 20.0
        return 20.0

    times = timing.time_fixed_count(lambda: 0.0095, clock, 100, between_calls)
    assert ended == looks and times == [0.0095] * 100
