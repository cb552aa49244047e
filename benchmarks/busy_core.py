"""What one busy process does to a run: latencies, verdict and wall time, beside the same run on an idle machine.

Each run is a fresh process, started as `python -m demo run` starts it; idle and busy alternate, each round begun by the
other one. The busy process is an endless loop, which on two cores takes half of them. The bundled checkpoints, and
ViT-base with random weights. Every checkpoint runs once beforehand with each number of threads, so that no timed run
compiles from nothing. Aims, for the medians of the rounds: with the busy process a latency, eager and compiled, of at
most 3 times the idle one's, the same verdict in every round, and at most twice the wall time.
"""

import argparse
import contextlib
import dataclasses
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks import report
from demo.core import catalog
from demo.core.cores import usable_cores
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.runs.runner import Runner

FULL_SIZE = ("google/vit-base-patch16-224",)
ROUNDS = 5
MAX_LATENCY, MAX_WALL = 3.0, 2.0
SCENE = catalog.ASSETS / "examples" / "shapes-scene-1.png"


@dataclasses.dataclass(frozen=True)
class Timed:
    result: RunResult
    wall_seconds: float

    @property
    def verdict(self) -> str:
        return self.result.speedup.verdict if self.result.speedup is not None else self.result.status

    def latency(self, variant: str) -> float:
        return self.result.latencies[variant]


@contextlib.contextmanager
def busy_process() -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-c", "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"]
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def one_run(spec: RunSpec) -> Timed:
    """In a process of its own; raises RuntimeError where it fails."""
    runner = Runner(None)
    start = time.perf_counter()
    try:
        *_, result = runner.run(spec, SCENE)
    finally:
        runner.close()
    seconds = time.perf_counter() - start
    if not isinstance(result, RunResult) or result.status != "ok":
        raise RuntimeError(f"the run of {spec.checkpoint} failed: {getattr(result, 'failure', None)}")
    return Timed(result, seconds)


def rounds(spec: RunSpec, count: int) -> dict[str, list[Timed]]:
    for threads in range(1, usable_cores() + 1):
        one_run(dataclasses.replace(spec, threads=threads, iterations=10))
    timed: dict[str, list[Timed]] = {"idle": [], "busy": []}
    for number in range(count):
        for kind in ("idle", "busy") if number % 2 == 0 else ("busy", "idle"):
            with busy_process() if kind == "busy" else contextlib.nullcontext():
                timed[kind].append(one_run(spec))
    return timed


def row(spec: RunSpec, kind: str, timed: list[Timed]) -> list[str]:
    def milliseconds(variant: str) -> str:
        return f"{statistics.median(one.latency(variant) for one in timed) * 1e3:.2f} ms"

    ratios = [one.result.speedup.ratio for one in timed if one.result.speedup is not None]
    threads = sorted({one.result.environment.threads for one in timed if one.result.environment is not None})
    return [
        spec.checkpoint,
        kind,
        " or ".join(map(str, threads)),
        milliseconds("eager"),
        milliseconds("compiled"),
        f"{statistics.median(ratios):.2f}×" if ratios else "none",
        ", ".join(f"{verdict} {count}" for verdict, count in _counted(timed).items()),
        f"{statistics.median(one.wall_seconds for one in timed):.1f} s",
    ]


def _counted(timed: list[Timed]) -> dict[str, int]:
    verdicts = [one.verdict for one in timed]
    return {verdict: verdicts.count(verdict) for verdict in dict.fromkeys(verdicts)}


def outside(spec: RunSpec, timed: dict[str, list[Timed]]) -> list[str]:
    """The aims that were missed, in words."""
    idle, busy = timed["idle"], timed["busy"]
    missed = []
    for variant in ("eager", "compiled"):
        times = statistics.median(one.latency(variant) for one in busy) / statistics.median(
            one.latency(variant) for one in idle
        )
        if times > MAX_LATENCY:
            missed.append(f"{spec.checkpoint} {variant}: {times:.1f} times the latency")
    if len({one.verdict for one in [*idle, *busy]}) > 1:
        missed.append(f"{spec.checkpoint}: not one verdict")
    times = statistics.median(one.wall_seconds for one in busy) / statistics.median(one.wall_seconds for one in idle)
    if times > MAX_WALL:
        missed.append(f"{spec.checkpoint}: {times:.1f} times the wall time")
    return missed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    count = parser.parse_args().rounds
    rows, missed = [], []
    for checkpoint in (*catalog.BUNDLED_VISION, *filter(None, map(catalog.find, FULL_SIZE))):
        weights = "pretrained" if checkpoint.bundled else "random"
        spec = catalog.make_spec(checkpoint.id, weights=weights, device="cpu")
        timed = rounds(spec, count)
        rows += [row(spec, kind, timed[kind]) for kind in timed]
        missed += outside(spec, timed)
    header = ["checkpoint", "machine", "threads", "eager", "compiled", "speed-up", "verdicts", "wall time"]
    text = f"Medians of {count} runs each, in fresh processes.\n\n{report.table(header, rows)}"
    report.publish("busy_core", "A run beside a process that never rests", text)
    if missed:
        sys.exit(f"outside the aims: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
