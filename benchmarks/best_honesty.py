"""Does the search for the best way name the right one? Whole searches over simulated machines.

Each simulated run is a process of its own: its eager drifts from process to process, its speed-up differs from the
true one by a known spread, and its calls are noisy. The search, its table and its statistics are the program's own;
only the times are made up.

Aims, of 100 searches of each case: the winner is right in 95; two equal ways are called equal in 95; where nothing is
faster than eager, eager wins in 95; a way that does not agree never wins.
"""

import hashlib
import sys
import threading
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from demo.core import catalog
from demo.core.machine import Environment, HostInfo
from demo.core.measurement import Compilation, Measurement, StartUp
from demo.core.outputs import ImageInfo, Parity
from demo.core.result import Progress, RunResult
from demo.core.spec import MODES, RunSpec
from demo.core.stats import ProcessResult
from demo.runs.outcome import NO_FILES, Files, with_earlier_runs
from demo.store.reruns import compiled_spec
from demo.sweep.best_table import BestTable
from demo.sweep.best_way import QUICK_SECONDS, Search
from demo.sweep.grid import PICTURE

TRIALS, AIM = 100, 0.95
SPEC = catalog.make_spec("microsoft/resnet-50", device="cpu")
MACHINE = HostInfo(
    torch="2.13.0",
    transformers="5.23.0",
    python="3.11",
    cpu="A simulated CPU",
    memory_bytes=10**11,
    modes=MODES,
    compiler="g++",
    gpu=None,
    driver=None,
    gpu_problem=None,
    triton=None,
    inductor_cache="",
)
ENVIRONMENT = Environment(
    torch=MACHINE.torch,
    transformers=MACHINE.transformers,
    python=MACHINE.python,
    platform="",
    device_name=MACHINE.cpu,
    cpu=MACHINE.cpu,
    cpu_count=2,
    threads=2,
    memory_bytes=10**11,
)
SEEN = ImageInfo("", 1, 1, hashlib.sha256(PICTURE.read_bytes()).hexdigest(), "")
EAGER_SECONDS = 0.010
CALLS = 4
"""Of each variant in a block."""
QUICK_BLOCKS, FULL_BLOCKS = 6, 40


@dataclass(frozen=True)
class Noise:
    drift: float
    """Standard deviation of eager from process to process."""
    spread: float
    """Standard deviation of a speed-up from process to process."""
    call: float
    """Standard deviation of a call."""


MACHINES = {"quiet": Noise(0.02, 0.01, 0.02), "usual": Noise(0.05, 0.025, 0.05), "restless": Noise(0.15, 0.04, 0.15)}


@dataclass(frozen=True)
class Case:
    speedups: dict[str, float]
    """True ones by way, over plain eager; 1 for a way that is not named."""
    right: frozenset[str]
    """The ways of which one has to win."""
    equal: bool = False
    """Both have to be named, one as the winner."""
    wrong: str = ""
    """A way whose outputs differ."""


CASES = {
    "one best way": Case({"default": 1.2, "lite": 1.1, "layers": 1.2, "freezing": 1.6}, frozenset(["freezing"])),
    "the best by 15 %": Case({"default": 1.30, "package": 1.30, "freezing": 1.495}, frozenset(["freezing"])),
    "two equal ways": Case({"freezing": 1.5, "package": 1.5, "default": 1.2}, frozenset(["freezing", "package"]), True),
    "nothing is faster": Case({"default": 1.0, "lite": 0.9, "layers": 0.95}, frozenset(["eager"])),
    "the fastest is wrong": Case({"default": 1.3, "freezing": 2.0}, frozenset(["default"]), wrong="freezing"),
    "another number format": Case({"default": 1.3, "bfloat16": 2.6}, frozenset(["bfloat16"])),
}


class Simulated:
    """A runner whose times are drawn."""

    machine: HostInfo | None = MACHINE
    modes = MODES

    def __init__(self, case: Case, noise: Noise, names: dict[RunSpec, str], seed: int) -> None:
        self.case, self.noise, self.names = case, noise, names
        self.random = np.random.default_rng(seed)
        self.count = 0

    def run(
        self,
        spec: RunSpec,
        input_file: Path | None,
        cancel: threading.Event | None = None,
        files: Files = NO_FILES,
        earlier: tuple[ProcessResult, ...] = (),
        to_come: int = 0,
    ) -> Generator[Progress | RunResult, None, None]:
        self.count += 1
        name, noise = self.names[compiled_spec(spec)], self.noise
        # A way in another format, or with the channels last, has an eager of its own.
        own = 0.8 if name in ("bfloat16", "float16", "channels_last") else 1.0
        eager = EAGER_SECONDS * own * float(np.exp(self.random.normal(0, noise.drift)))
        true = self.case.speedups.get(name, 1.0) * own
        compiled = eager / true * float(np.exp(self.random.normal(0, noise.spread)))
        blocks = QUICK_BLOCKS if spec.most_seconds == QUICK_SECONDS else FULL_BLOCKS
        parity = Parity("differ", 1.0, "They differ.", {}) if name == self.case.wrong else Parity("match", 0.0, "", {})
        result = RunResult(
            id=f"run-{self.count}",
            started_at="2026-01-01T00:00:00Z",
            status="ok",
            spec=spec,
            environment=ENVIRONMENT,
            eager=self._timed(eager, blocks),
            compiled=self._timed(compiled, blocks),
            control_times=self._timed(eager, blocks),
            compilation=Compilation(5.0, "cold", 1),
            start_up=StartUp(4.5, 0.1),
            parity=parity,
            image=SEEN,
        )
        yield with_earlier_runs(result, earlier, None)

    def _timed(self, seconds: float, blocks: int) -> Measurement:
        times = seconds * np.exp(self.random.normal(0, self.noise.call, blocks * CALLS))
        return Measurement(tuple(map(float, times)), None, (seconds,), CALLS, 10**6)


def searched(case: Case, noise: Noise, seed: int) -> BestTable:
    search = Search(SPEC, MACHINE, [], PICTURE, other_formats=True, minutes=60)
    names = {way.spec: way.name for way in reversed(search.ways) if not way.refused and way.name != "eager"}
    runner: Any = Simulated(case, noise, names, seed)
    for _ in search.run(runner, threading.Event()):
        pass
    return search.table()


def is_right(table: BestTable, case: Case) -> bool:
    if table.winner is None or table.winner.way.name not in case.right:
        return False
    return not case.equal or case.right <= {table.winner.way.name, *(row.way.name for row in table.equals)}


def main() -> None:
    rows: list[list[str]] = []
    missed: list[str] = []
    for name, case in CASES.items():
        for machine, noise in MACHINES.items():
            tables = [searched(case, noise, 1000 * place + len(rows)) for place in range(TRIALS)]
            right = sum(is_right(table, case) for table in tables) / TRIALS
            winners = [table.winner.way.name for table in tables if table.winner is not None]
            undecided = sum(winner == "eager" for winner in winners) / TRIALS
            false = sum(winner not in (*case.right, "eager") for winner in winners) / TRIALS
            rows.append([name, machine, f"{right:.1%}", f"{undecided:.1%}", f"{false:.1%}"])
            if right < AIM and machine != "restless":
                missed.append(f"{name}, {machine}")
            if case.wrong and case.wrong in winners:
                missed.append(f"{name}, {machine}: a way that does not agree won")
    noises = "; ".join(
        f"{name}: eager drifts by {noise.drift:.0%} from process to process, speed-ups spread by {noise.spread:.1%}, "
        f"calls by {noise.call:.0%}"
        for name, noise in MACHINES.items()
    )
    text = report.table(
        ["case", "machine", "right", "eager wins (nothing is known to be better)", "a wrong way wins"], rows
    )
    ways = ", ".join(way.name for way in Search(SPEC, MACHINE, [], PICTURE, True).ways)
    told = f"{TRIALS} searches for each row, among {ways}. {noises}. The restless machine has no aim.\n\n"
    aims = f"Missed: {'; '.join(missed)}." if missed else "The aims are met."
    report.publish("best_honesty", "Is the best way the best one?", f"{told}{text}\n\n{aims}")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
