"""Does "should I upgrade?" say what is so? Pairs of environments on simulated machines.

Each simulated process has a level of its own (memory, cores, pages), which eager and compiled share in part, and noisy
calls; the processes of the two environments run in turns, A B B A. The results, the pooling and the verdict are the
program's own; only the times are made up, so the table is the same on every machine.

Aims, of 400 pairs of each case: equal environments are "same" or "unsure" in 19 of 20; with the default number of
processes a delay of 10 % is found in 19 of 20 on the quiet and the usual machine; a model that fails in one
environment, and outputs that differ, are always told. The restless machine has no aim of finding.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks import report
from demo.core import catalog
from demo.core.machine import Environment
from demo.core.measurement import Compilation, Measurement
from demo.core.outputs import Label, Parity, Predictions
from demo.core.result import RunResult
from demo.core.stats import ASSUMED
from demo.present import upgrade
from demo.sweep.run_grid import PROCESSES, order

PAIRS, AIM = 400, 0.95
SPEC = catalog.make_spec(catalog.DEFAULT, device="cpu")
EAGER_SECONDS, SPEEDUP = 0.010, 1.5
BLOCKS, CALLS = 40, 4
SEEN = Predictions(labels=(Label("circle", 0.98),))
OTHER = Predictions(labels=(Label("star", 0.98),))


@dataclass(frozen=True)
class Noise:
    """Standard deviations of the logarithm of a call's time."""

    process: float
    """From process to process, of eager and compiled together."""
    variant: float
    """From process to process, of each of the two by itself."""
    drift: float
    """Change of the whole machine from one process to the next."""
    call: float


MACHINES = {
    "quiet": Noise(0.01, 0.005, 0.002, 0.02),
    "usual": Noise(0.02, 0.015, 0.005, 0.05),
    "restless": Noise(0.10, 0.04, 0.03, 0.15),
}


@dataclass(frozen=True)
class Case:
    eager: float = 1.0
    """The second environment's seconds over the first's."""
    compiled: float = 1.0
    right: tuple[str, ...] = ("same", "unsure")
    outputs: Predictions = SEEN
    fails: bool = False


CASES = {
    "equal versions": Case(),
    "both 10 % slower": Case(1.1, 1.1, ("slower",)),
    "both 10 % faster": Case(1 / 1.1, 1 / 1.1, ("faster",)),
    "compiled alone 10 % slower": Case(1.0, 1.1, ("slower",)),
    "outputs differ": Case(outputs=OTHER, right=("differs",)),
    "fails in the second": Case(fails=True, right=("fails",)),
}


def environment(name: str) -> Environment:
    return Environment(
        torch="2.13.0",
        transformers="5.23.0",
        python="3.11",
        platform="",
        device_name="A simulated CPU",
        cpu="A simulated CPU",
        cpu_count=2,
        threads=2,
        memory_bytes=10**11,
        interpreter=name,
    )


def pair(case: Case, noise: Noise, processes: int, rng: np.random.Generator) -> tuple[RunResult, RunResult]:
    """The last result of each environment, resting on all its processes."""
    last: list[RunResult | None] = [None, None]
    drift = 0.0
    for minute, (side, _) in enumerate(order(processes)):
        drift += rng.normal(0, noise.drift)
        level = drift + rng.normal(0, noise.process)
        ratios = {"eager": 1.0, "compiled": 1 / SPEEDUP}
        if side:
            ratios = {"eager": case.eager, "compiled": case.compiled / SPEEDUP}

        def times(name: str, level: float = level, ratios: dict[str, float] = ratios) -> Measurement:
            own = level + rng.normal(0, noise.variant) + np.log(EAGER_SECONDS * ratios[name])
            calls = np.exp(own + rng.normal(0, noise.call, BLOCKS * CALLS))
            return Measurement(tuple(map(float, calls)), None, (), CALLS, 10**9)

        before = last[side]
        last[side] = RunResult(
            id=f"{side}-{minute}",
            started_at=f"2026-11-25T08:{minute:02}:00Z",
            status="failed" if side and case.fails else "ok",
            spec=SPEC,
            environment=environment(f"environment {side}"),
            eager=times("eager"),
            compiled=times("compiled"),
            compilation=Compilation(20.0, "cold", 1),
            parity=Parity("match", 0.0, ""),
            predictions=dict.fromkeys(("eager", "compiled"), case.outputs if side else SEEN),
            spread=ASSUMED,
            earlier=before.as_processes() if before is not None else (),
        )
    first, second = last
    if first is None or second is None:
        raise ValueError("a process of each environment is needed")
    return first, second


def share(case: Case, noise: Noise, processes: int, pairs: int = PAIRS) -> Counter[str]:
    """How often each verdict was given."""
    rng = np.random.default_rng(7)
    given = (upgrade.compare(*pair(case, noise, processes, rng)) for _ in range(pairs))
    return Counter(one.verdict if one is not None else "none" for one in given)


def rows(pairs: int = PAIRS) -> Iterator[tuple[list[str], bool]]:
    """A line of the table, and whether its aim is met."""
    for name, case in CASES.items():
        for machine, noise in MACHINES.items():
            always = case.fails or case.outputs != SEEN
            for processes in (PROCESSES,) if always else (upgrade.FEWEST_PROCESSES, PROCESSES, 8):
                verdicts = share(case, noise, processes, pairs)
                right = sum(verdicts[one] for one in case.right) / pairs
                aimed = always or name == "equal versions" or (processes >= PROCESSES and machine != "restless")
                given = ", ".join(f"{verdict} {count / pairs:.1%}" for verdict, count in verdicts.most_common())
                yield [name, machine, str(processes), f"{right:.1%}", given], right >= AIM or not aimed


def main() -> None:
    made = list(rows())
    header = ("case", "machine", "processes of each", "right", "verdicts")
    machines = "; ".join(
        f"{name}: {one.process:.1%} from process to process, {one.variant:.1%} more of each variant, drift "
        f"{one.drift:.1%} a process, calls {one.call:.0%}"
        for name, one in MACHINES.items()
    )
    met = all(aimed for _, aimed in made)
    text = (
        f"{PAIRS} simulated pairs for each row; nothing was timed. {machines}. Equal versions must come out same or "
        f"unsure in 95 %; with {PROCESSES} processes or more of each a delay of 10 % must be found in 95 % on the "
        "quiet and the usual machine.\n\n"
        + report.table(header, [line for line, _ in made])
        + f"\n\nThe aims are {'met' if met else 'NOT met'}."
    )
    report.publish("upgrade", "Should I upgrade? The verdict on simulated environments", text)
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
