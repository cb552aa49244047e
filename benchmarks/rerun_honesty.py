"""Does the interval for a rerun cover the true speed-up? Simulates processes that differ by a known spread.

Each simulated process has a speed-up of its own, drawn around the true speed-up. The spread is the standard deviation
of the logarithm of these speed-ups. The protocol times each process on the machines of `benchmarks.honesty`, with calls
of 30 ms. Reported for 1 to 9 processes:

- How often the interval covers the true speed-up, and its median half-width.
- How often the interval contains the estimate of one more process. For one process and an honest 95 % interval this is
  83 %. The interval of more processes is narrower, so the share is lower.
- Compare (the page's tab): how often the quotient of two intervals covers the quotient of the two true speed-ups.
- The search for the best way to compile: how often the intervals of `WAYS` ways all cover their true speed-ups.

Aims, over all machines and spreads, if the interval uses the true spread:

- The interval covers the true speed-up in 93 to 97 % of the trials, for each number of processes. The same for Compare.
- In the search at least 93 %.

With the assumed spread, coverage has no aim. With either, a further process must not widen the median interval.
"""

import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks import report
from benchmarks.honesty import MACHINES, Machine, one_run
from demo.core import stats
from demo.core.comparison import ASSUMED

TRIALS = 150
"""Simulated trials for each pair of a machine of `MACHINES` and a spread of `SPREADS`. See `trials`."""
SPREADS = (0.01, 0.03, 0.06)
EAGER_SECONDS = 0.03
TRUTHS = (1.0, 1.43, 0.7, 1.05)
AIM = (0.93, 0.97)
KNOWN, UNKNOWN = "known", "assumed"
WAYS = 8
PROCESSES = 9
"""Simulated processes in each trial. One more process, the rerun, is in no interval."""


@dataclass
class Counted:
    """Counts over simulated trials: intervals that cover the true speed-up, and those that cover a rerun's estimate.

    It also keeps the half-widths of all intervals.
    """

    trials: int = 0
    covered: int = 0
    captured: int = 0
    half_widths: list[float] = field(default_factory=list)
    known: list[tuple[float, stats.Interval]] = field(default_factory=list)
    """The true speed-up and the interval of each trial."""

    def add(self, interval: stats.Interval, truth: float, rerun: float) -> None:
        self.trials += 1
        self.covered += interval.low <= truth <= interval.high
        self.captured += interval.low <= rerun <= interval.high
        self.half_widths.append(interval.half_width)
        self.known.append((truth, interval))

    @property
    def compared(self) -> float:
        """The share of pairs of trials in which the interval for the quotient of two speed-ups covers its true value.

        The tab Compare shows such an interval.
        """
        pairs = zip(self.known[::2], self.known[1::2], strict=False)
        measured = [
            (first_truth / second_truth, stats.quotient(first, second))
            for (first_truth, first), (second_truth, second) in pairs
        ]
        return statistics.fmean(both.low <= truth <= both.high for truth, both in measured)

    @property
    def searched(self) -> float:
        """The share of searches in which all intervals cover their true speed-ups. A search has `WAYS` trials."""
        judged = [
            (truth, stats.compare(interval, questions=WAYS))
            for truth, interval in self.known[: len(self.known) // WAYS * WAYS]
        ]
        holds = [difference.low <= truth <= difference.high for truth, difference in judged]
        return statistics.fmean(all(holds[at : at + WAYS]) for at in range(0, len(holds), WAYS))

    @property
    def coverage(self) -> float:
        return self.covered / self.trials

    @property
    def half_width(self) -> float:
        return statistics.median(self.half_widths)


def intervals(processes: Sequence[stats.Interval], spread: float) -> Iterator[tuple[tuple[str, int], stats.Interval]]:
    """Yields the interval for a rerun after 1, 2, ... of `processes`.

    Yields ((kind of spread, number of processes), interval). The kinds: 'known' for an interval from `spread`, the true
    spread between processes; 'assumed' for one from the spread that a run assumes.
    """
    for count in range(1, PROCESSES + 1):
        pool = processes[:count]
        yield (KNOWN, count), stats.rerun_ratio(pool, spread, math.inf)
        yield (UNKNOWN, count), stats.rerun_ratio(pool, ASSUMED.deviation, ASSUMED.freedom or math.inf)


def trials(machine: Machine, spread: float, count: int) -> Iterator[tuple[float, list[stats.Interval]]]:
    """Yields for each trial the true speed-up, and the interval of each simulated process from its own calls alone.

    The last process is the rerun. `spread`: the standard deviation of the logarithm of the processes' speed-ups.
    `count`: the number of trials.
    """
    for trial in range(count):
        truth = TRUTHS[trial % len(TRUTHS)]
        random = np.random.default_rng([trial, int(spread * 1000), MACHINES.index(machine)])
        ratios = truth * np.exp(random.normal(0, spread, PROCESSES + 1))
        seeds = random.integers(2**32, size=PROCESSES + 1)
        timed = (
            one_run(machine, EAGER_SECONDS, float(ratio), int(seed)) for ratio, seed in zip(ratios, seeds, strict=True)
        )
        yield truth, [process.within for process in timed]


def count_outcomes(count: int) -> Mapping[tuple[float, tuple[str, int]], Counted]:
    """Returns the counts over all machines, by spread and by (kind of spread, number of processes).

    `count`: the number of trials for each machine and spread.
    """
    counted: dict[tuple[float, tuple[str, int]], Counted] = defaultdict(Counted)
    for spread in SPREADS:
        for machine in MACHINES:
            for truth, processes in trials(machine, spread, count):
                for case, interval in intervals(processes, spread):
                    counted[spread, case].add(interval, truth, processes[-1].ratio)
    return counted


def total_of(parts: Sequence[Counted]) -> Counted:
    total = Counted()
    for part in parts:
        for name, value in vars(part).items():
            setattr(total, name, getattr(total, name) + value)
    return total


def main() -> None:
    counted = count_outcomes(TRIALS)
    rows, outside = [], []
    for spread in KNOWN, UNKNOWN:
        widths: dict[str, float] = {}
        for count in range(1, PROCESSES + 1):
            parts = {f"{true:.0%}": counted[true, (spread, count)] for true in SPREADS}
            total = total_of(list(parts.values()))
            cells = [f"{part.coverage:.1%}, ±{part.half_width:.1%}" for part in parts.values()]
            shares = total.coverage, total.captured / total.trials, total.compared, total.searched
            rows.append([spread, str(count), *cells, *(f"{share:.1%}" for share in shares)])
            if spread == KNOWN:
                if not all(AIM[0] <= share <= AIM[1] for share in (total.coverage, total.compared)):
                    outside.append(f"coverage of {count}")
                if total.searched < AIM[0]:
                    outside.append(f"coverage of a search, {count}")
            for true, part in parts.items():
                if part.half_width > widths.get(true, math.inf):
                    outside.append(f"{count} processes, spread {spread}, truly {true}: wider than with one less")
                widths[true] = part.half_width
    trials = len(MACHINES) * TRIALS
    truly = [f"true spread {true:.0%}" for true in SPREADS]
    header = ["spread", "processes", *truly, "all: covers the truth", "holds a rerun", "Compare", f"search of {WAYS}"]
    title, legend = "Does the interval for a rerun keep its word?", "Covers the truth, and median half-width"
    report.publish("rerun_honesty", title, f"{legend}; {trials} trials each.\n\n{report.table(header, rows)}")
    if outside:
        sys.exit(f"outside the aims: {'; '.join(outside)}")


if __name__ == "__main__":
    main()
