"""Does the 95 % interval cover the truth? The protocol on a simulated clock whose true speed-up is known.

Each simulated run draws a machine: independent noise with a long tail, noise that is correlated from call to call,
slow drift, and bursts in which everything is slower. Reported for each kind and for all: how often the interval covers
the truth (aim 93 to 97 %), how often the verdict is plainly wrong (aim under 2 %), and how often two equal variants are
called 'same' (aim at least 97 %).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from benchmarks import report
from demo import stats
from demo.backend import timing

RUNS = 1_000
EAGER_SECONDS = 0.004
PLAN = timing.Plan()


@dataclass(frozen=True)
class Machine:
    name: str
    noise: float = 0.0
    """Standard deviation of the logarithm of a call's time."""
    correlated: float = 0.0
    """The same, of a part that keeps 95 % of itself from call to call."""
    drift: float = 0.0
    """Share by which everything is slower after one second."""
    bursts: float = 0.0
    """Share of calls that begin a burst of 20 calls at 1.5 times the time."""


MACHINES = (
    Machine("quiet", noise=0.01),
    Machine("noisy", noise=0.10),
    Machine("drifting", noise=0.03, drift=0.10),
    Machine("autocorrelated", noise=0.03, correlated=0.05),
    Machine("bursts", noise=0.03, bursts=0.003),
    Machine("all at once", noise=0.05, correlated=0.03, drift=0.05, bursts=0.002),
)


class SimulatedClock:
    def __init__(self, machine: Machine, seed: int) -> None:
        self.machine = machine
        self.random = np.random.default_rng(seed)
        self.seconds = 0.0
        self.memory = 0.0
        self.burst_calls = 0

    def time(self, call: timing.Call) -> float:
        machine = self.machine
        step = machine.correlated * np.sqrt(1 - 0.95**2)
        self.memory = 0.95 * self.memory + self.random.normal(0, step)
        if self.burst_calls:
            self.burst_calls -= 1
        elif self.random.random() < machine.bursts:
            self.burst_calls = 20
        tail = self.random.exponential(machine.noise) if self.random.random() < 0.2 else 0.0
        shape = self.random.normal(0, machine.noise) + tail + self.memory + machine.drift * self.seconds
        cost = float(call() * np.exp(shape) * (1.5 if self.burst_calls else 1.0))
        self.seconds += cost
        return cost

    def now(self) -> float:
        return self.seconds


def one_run(machine: Machine, truth: float, seed: int) -> tuple[stats.Interval, stats.Verdict]:
    clock = SimulatedClock(machine, seed)
    eager, compiled = (lambda: EAGER_SECONDS), (lambda: EAGER_SECONDS / truth)
    half = timing.half_block([EAGER_SECONDS] * 3, [EAGER_SECONDS / truth] * 3, None)
    samples = timing.interleaved(eager, compiled, clock, PLAN, half, lambda samples: None)
    size = 2 * half
    interval = stats.paired_ratio(stats.block_medians(samples.eager, size), stats.block_medians(samples.compiled, size))
    return interval, stats.verdict(interval, stats.control_ratio(samples.eager, samples.control, size))


def wrong(verdict: stats.Verdict, truth: float) -> bool:
    """The opposite of the truth, a difference where there is none, or 'same' where there is one of over 3 %."""
    right = "same" if truth == 1 else "faster" if truth > 1 else "slower"
    return verdict not in (right, "unsure")


def main() -> None:
    rows = []
    totals = {"covered": 0, "wrong": 0, "same": 0, "equal": 0, "runs": 0}
    each = RUNS // len(MACHINES) + 1
    for machine in MACHINES:
        covered = mistaken = same = equal = 0
        for seed in range(each):
            truth = (1.0, 1.43, 0.7, 1.05)[seed % 4]
            interval, verdict = one_run(machine, truth, seed)
            covered += interval.low <= truth <= interval.high
            mistaken += wrong(verdict, truth)
            if truth == 1.0:
                equal += 1
                same += verdict == "same"
        rows.append(
            [machine.name, str(each), *(f"{part:.1%}" for part in (covered / each, mistaken / each, same / equal))]
        )
        for name, count in zip(totals, (covered, mistaken, same, equal, each), strict=True):
            totals[name] += count
    coverage, mistakes = totals["covered"] / totals["runs"], totals["wrong"] / totals["runs"]
    equals = totals["same"] / totals["equal"]
    rows.append(["all", str(totals["runs"]), *(f"{part:.1%}" for part in (coverage, mistakes, equals))])
    header = ["simulated machine", "runs", "interval covers the truth", "verdict wrong", "equal variants called same"]
    report.publish("honesty", "Does the interval keep its word?", report.table(header, rows))
    if not (0.93 <= coverage <= 0.97 and mistakes < 0.02 and equals >= 0.97):
        sys.exit("outside the aims")


if __name__ == "__main__":
    main()
