"""Does the 95 % interval cover the true speed-up? Runs the protocol on a simulated clock, whose speed-up is known.

The simulated machines (`MACHINES`) have independent noise with a long tail, noise that is correlated from call to call,
slow drift, or bursts of slow calls. Models have three speeds, because a slow model leaves time for few blocks only. The
first call after a switch between eager and compiled takes 13 % longer, and the second 4 %. If calls take 100 ms or
more, only the first takes longer, by 1 %. Timing may take as long as the first compiled call of a real model of this
speed. Aims:

- The interval covers the true speed-up in 93 to 97 % of runs.
- At most 1 % of the verdicts on a run are wrong. The same holds for the verdicts on which of two runs is faster, as on
  the tab Compare. 'unsure' is never wrong. Any other verdict is wrong unless it is the true one.
- A search compares the ways to run one model; here `WAYS` runs in a row stand for them. In at least 93 % of the
  searches all intervals cover the true speed-ups. At most 1 % of the verdicts on which of two ways is faster are wrong.
  If no way is faster than eager, eager wins at least 99 % of the searches.
- Equally fast variants are called 'same' in at least 94 % of runs with calls of 4 ms, 60 % with calls of 300 ms.
- Without noise, the latencies are 0.99 to 1.01 times those of steady calls.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from benchmarks import report
from demo.backend import timing
from demo.core import catalog, stats
from demo.core.comparison import ASSUMED, ProcessFigure, Speedup, compare_variants
from demo.core.stats import Measured
from demo.sweep import best_table
from demo.sweep.best_table import EAGER_WAY, Way, WayResult

RUNS = 4_000
"""About how many runs are simulated for each speed of the model, on all `MACHINES` together."""
FIRST_CALL_SECONDS = {0.004: 18.0, 0.03: 20.0, 0.3: 35.0}
"""Seconds of the first call on two cores with an empty cache (benchmarks/results/ways.md), by seconds of an eager
call."""
SAME = {0.004: 0.94, 0.3: 0.6}
"""{seconds of an eager call: least share of runs called 'same'}, if eager and compiled are truly equally fast."""
TRUTHS = (1.0, 1.43, 0.7, 1.05)
SPEC = catalog.make_spec("shapes-vit")
WAYS = 8
"""How many ways to run a model, besides eager, a simulated search compares."""
AFTER_A_SWITCH, AFTER_A_SLOW_SWITCH = (1.13, 1.04), (1.01,)
"""How many times longer the first calls take after a switch between eager and compiled. The second tuple is for calls
of `timing.SLOW_SECONDS` or more."""


@dataclass(frozen=True)
class Machine:
    name: str
    noise: float = 0.0
    """Standard deviation of the logarithm of a call's time."""
    correlated: float = 0.0
    """Standard deviation of a further noise, which keeps 95 % of its value from one call to the next."""
    drift: float = 0.0
    """Share by which calls get slower each second: with 0.1 they take 10 % longer after one second, 20 % after two."""
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


class SimulatedClock(timing.Clock):
    def __init__(self, machine: Machine, seed: int) -> None:
        self.machine = machine
        self.random = np.random.default_rng(seed)
        self.seconds = 0.0
        self.memory = 0.0
        self.burst_calls = 0
        self.last: timing.Call | None = None
        self.calls_since_switch = len(AFTER_A_SWITCH)

    def time(self, call: timing.Call) -> float:
        machine = self.machine
        step = machine.correlated * np.sqrt(1 - 0.95**2)
        self.memory = 0.95 * self.memory + self.random.normal(0, step)
        if self.burst_calls:
            self.burst_calls -= 1
        elif self.random.random() < machine.bursts:
            self.burst_calls = 20
        tail = self.random.exponential(machine.noise) if self.random.random() < 0.2 else 0.0
        shape = self.random.normal(0, machine.noise) + tail + self.memory
        # The first call of all comes after a warm-up of the same variant.
        self.calls_since_switch = self.calls_since_switch + 1 if self.last in (call, None) else 0
        self.last = call
        seconds = call()
        assert isinstance(seconds, float)  # the made-up calls return their duration
        factors = AFTER_A_SLOW_SWITCH if seconds >= timing.SLOW_SECONDS else AFTER_A_SWITCH
        switched = (*factors[self.calls_since_switch :], 1.0)[0]
        drifted = (1 + machine.drift * self.seconds) * (1.5 if self.burst_calls else 1.0)
        cost = float(seconds * np.exp(shape) * drifted * switched)
        self.seconds += cost
        return cost

    def now(self) -> float:
        return self.seconds


def timed(machine: Machine, seconds: float, truth: float, seed: int) -> timing.Samples:
    eager, compiled = (lambda: seconds), (lambda: seconds / truth)
    half = timing.calls_per_half_block([seconds] * 3, [seconds / truth] * 3, None)
    plan = timing.Plan.of(SPEC, FIRST_CALL_SECONDS[seconds])
    return timing.time_interleaved(eager, compiled, SimulatedClock(machine, seed), plan, half, lambda samples: None)


def over_steady(seconds: float) -> tuple[float, float]:
    """Returns the latencies (eager, compiled) of a simulated run without noise, each divided by its true value.

    In the simulation a call is slower only right after a switch between eager and compiled. `seconds`: the true latency
    of eager.
    """
    truth = 1.43
    estimate = timed(Machine("without noise"), seconds, truth, 0).estimate()
    assert estimate.eager_seconds is not None and estimate.compiled_seconds is not None
    return estimate.eager_seconds / seconds, estimate.compiled_seconds * truth / seconds


def one_run(machine: Machine, seconds: float, truth: float, seed: int) -> ProcessFigure:
    """Simulates one process with the true speed-up `truth`. Returns the times and the speed-up that it measures.

    `seconds`: the true latency of eager.
    """
    samples = timed(machine, seconds, truth, seed)
    size = 2 * samples.calls_per_half_block
    sides = stats.side_by_side(samples.eager, samples.compiled, size)
    control = stats.control_ratio(samples.eager, samples.control, size, samples.blocks_apart)
    return ProcessFigure(*stats.paired_seconds(*sides), stats.paired_ratio(*sides), control)


def wrong(verdict: stats.Verdict, truth: float) -> bool:
    """Returns whether a verdict is wrong for the true speed-up `truth`. The verdict 'unsure' is never wrong."""
    right = "same" if truth == 1 else "faster" if truth > 1 else "slower"
    return verdict not in (right, "unsure")


def search(ways: Sequence[tuple[float, Speedup]]) -> tuple[bool, float, bool]:
    """Ranks runs as a search does. `ways`: (true speed-up, measured speed-up) of each way to run the model.

    Returns whether all intervals cover the true speed-ups, the share of pairs whose measured order is wrong, and
    whether another way than eager won.
    """
    names = [name for name in best_table.WAYS if name != EAGER_WAY][: len(ways)]
    truths = {EAGER_WAY: 1.0} | dict(zip(names, (truth for truth, _ in ways), strict=True))
    measured = {EAGER_WAY: Measured(1.0, 1.0, 1.0)} | dict(
        zip(names, (speedup.pooled for _, speedup in ways), strict=True)
    )
    table = best_table.rank_rows([WayResult(Way(name, SPEC), measured=estimate) for name, estimate in measured.items()])
    assert table.winner is not None
    ends = {row.way.name: row.speedup for row in table.rows if row.speedup is not None and row.way.name != EAGER_WAY}
    covered = all(interval.low <= truths[name] <= interval.high for name, interval in ends.items())
    orders = [
        wrong(measured[first].over(measured[second]).judge(len(ways)).verdict, truths[first] / truths[second])
        for first, second in combinations(truths, 2)
    ]
    return covered, sum(orders) / len(orders), table.winner.way.name != EAGER_WAY


def count_outcomes(machine: Machine, seconds: float, runs: int) -> np.ndarray:
    """Simulates runs and searches, and returns ten counts in this order:

    - All runs: intervals that cover the true speed-up, wrong verdicts, and wrong verdicts on which of two runs is
      faster.
    - Runs whose eager and compiled are equally fast: all of them, and those called 'same'.
    - Searches: all of them, and those whose intervals all cover the true speed-ups. Third: the sum of their shares of
      wrong orders.
    - Searches in which no way to run the model is faster than eager: all of them, and those that eager did not win.
    """
    counts, before = np.zeros(10), list[tuple[float, Speedup]]()
    for seed in range(runs):
        truth = TRUTHS[seed % len(TRUTHS)]
        own = truth * math.exp(np.random.default_rng(seed).normal(0, ASSUMED.deviation))
        figure = one_run(machine, seconds, own, seed)
        within, rerun = compare_variants(figure), compare_variants(figure, spread=ASSUMED)
        before.append((truth, rerun))
        other_truth, other = before[len(before) // 2]
        apart = rerun.pooled.over(other.pooled).judge().verdict
        equal = truth == 1.0
        same = equal and compare_variants(one_run(machine, seconds, truth, seed)).verdict == "same"
        covered = within.low <= own <= within.high
        searched = [1, *search(before[-WAYS:])[:2]] if len(before) % WAYS == 0 else [0, 0, 0]
        no_gain = [run for run in before if run[0] <= 1]
        hopeless = truth <= 1 and len(no_gain) % WAYS == 0
        searched += [1, search(no_gain[-WAYS:])[2]] if hopeless else [0, 0]
        counts += [covered, wrong(rerun.verdict, truth), wrong(apart, truth / other_truth), equal, same, *searched]
    return counts


def main() -> None:
    rows, searches, latencies, kept = [], [], [], True
    each = RUNS // len(MACHINES) + 1
    for seconds in FIRST_CALL_SECONDS:
        total = np.zeros(10)
        for machine in (*MACHINES, None):
            runs = each if machine else each * len(MACHINES)
            counts = count_outcomes(machine, seconds, runs) if machine else total.copy()
            covered, mistaken, apart, same = *counts[:3] / runs, counts[4] / counts[3]
            all_covered, order, lost = counts[6] / counts[5], counts[7] / counts[5], counts[9] / counts[8]
            total += counts
            place = [f"{seconds * 1e3:.0f} ms", machine.name if machine else "**all**"]
            rows.append([*place, str(runs), *(f"{part:.1%}" for part in (covered, mistaken, apart, same))])
            searches.append([*place, f"{counts[5]:.0f}", *(f"{part:.1%}" for part in (all_covered, order, lost))])
        steady = over_steady(seconds)
        kept &= all(0.99 <= latency <= 1.01 for latency in steady)
        latencies.append([f"{seconds * 1e3:.0f} ms", *(f"{latency:.3f}" for latency in steady)])
        kept &= 0.93 <= covered <= 0.97 and max(mistaken, apart) <= 0.01 and same >= SAME.get(seconds, 0.0)
        kept &= all_covered >= 0.93 and max(order, lost) <= 0.01
    header = [
        "eager call",
        "simulated machine",
        "runs",
        "interval covers the truth",
        "verdict wrong",
        "two runs: verdict wrong",
        "equal called same",
    ]
    search_header = [*header[:2], "searches", "all intervals cover", "order of two ways wrong", "no gain: eager lost"]
    tables = [
        report.table(header, rows),
        f"The search, {WAYS} ways each. Its intervals are widened so that all of them hold together:",
        report.table(search_header, searches),
        "Latency over a steady call's, without noise:",
        report.table(["eager call", "eager", "compiled"], latencies),
    ]
    report.publish("honesty", "Does the interval keep its word?", "\n\n".join(tables))
    if not kept:
        sys.exit("outside the aims")


if __name__ == "__main__":
    main()
