"""Compares this project's median latency with that of a plain hand-written loop, in turns in one process.

- The loop is that of the Transformers guide on torch.compile: some calls to warm up, then calls in a row with a clock
  around each, first of eager, then of compiled.
- This project's protocol times eager and compiled in turns, times eager a second time (control blocks), and takes
  samples of the machine in between.
- A round times the same model and batch by a loop, the protocol, and a second loop. The protocol's median is compared
  with the geometric mean of the medians of the two loops, so that a drift of the machine affects both.
- All is done in one process, because the times of two processes differ by more. On the machine of the results, a median
  changed by up to a fifth with the place of the weights in memory.

Models: the bundled vision checkpoints, and three larger ones with random weights. Aim: a ratio of 0.98 to 1.02, as
the median of 9 rounds.
"""

import io
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks import report
from demo.backend.messages import Events, WorkerJob
from demo.backend.run_steps import Run
from demo.core import catalog
from demo.core.catalog import Checkpoint
from demo.sweep.grid import PICTURE

FULL_SIZE = ("google/vit-base-patch16-224", "microsoft/resnet-50", "nvidia/segformer-b0-finetuned-ade-512-512")
ROUNDS = 9
WARMUP_CALLS, MIN_CALLS, LOOP_SECONDS = 10, 20, 1.5
Medians = tuple[float, float]


def by_hand(eager: Callable[[], Any], compiled: Callable[[], Any]) -> Medians:
    """Returns the median seconds of an eager and of a compiled call, as a plain loop measures them."""
    medians = []
    for call in (eager, compiled):
        for _ in range(WARMUP_CALLS):
            call()
        times: list[float] = []
        while len(times) < MIN_CALLS or sum(times) < LOOP_SECONDS:
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        medians.append(statistics.median(times))
    return medians[0], medians[1]


def by_us(run: Run) -> Medians:
    run.time()
    eager, compiled = run.result.eager, run.result.compiled
    if eager is None or compiled is None:
        raise RuntimeError("the run did not time both variants")
    return eager.median_seconds, compiled.median_seconds


def rounds(checkpoint: Checkpoint) -> list[tuple[Medians, Medians]]:
    """Returns, for each round, the medians that a run reports and those of a hand-written loop, each (eager, compiled).

    All are in seconds. The loop runs just before and just after this project's timing, and its medians are the
    geometric means of both.
    """
    spec = catalog.make_spec(checkpoint.id, weights="pretrained" if checkpoint.bundled else "random", device="cpu")
    run = Run(WorkerJob(spec, str(PICTURE)), Events(io.StringIO()))
    run.load()
    run.compile(run.warm_up_eager())
    calls = run.variants.eager.call, run.variants.compiled.call
    pairs = []
    for _ in range(ROUNDS):
        before, ours, after = by_hand(*calls), by_us(run), by_hand(*calls)
        eager, compiled = map(statistics.geometric_mean, zip(before, after, strict=True))
        pairs.append((ours, (eager, compiled)))
    return pairs


def main() -> None:
    rows, outside = [], []
    for checkpoint in (*catalog.BUNDLED_VISION, *filter(None, map(catalog.find, FULL_SIZE))):
        with torch.no_grad():
            pairs = rounds(checkpoint)
        torch._dynamo.reset()
        for index, variant in enumerate(("eager", "compiled")):
            ratios = [ours[index] / theirs[index] for ours, theirs in pairs]
            middle = statistics.median(ratios)
            ours, theirs = (statistics.median(pair[side][index] for pair in pairs) for side in (0, 1))
            rows.append(
                [
                    checkpoint.id,
                    variant,
                    f"{ours * 1e3:.3f} ms",
                    f"{theirs * 1e3:.3f} ms",
                    f"{middle:.3f}",
                    f"{min(ratios):.3f} to {max(ratios):.3f}",
                ]
            )
            if not 0.98 <= middle <= 1.02:
                outside.append(f"{checkpoint.id} {variant}")
    header = ["checkpoint", "variant", "ours", "plain loop", f"ratio, median of {ROUNDS}", "range"]
    report.publish("fidelity", "Our median over a plain loop's", report.table(header, rows))
    if outside:
        sys.exit(f"outside 0.98 to 1.02: {', '.join(outside)}")


if __name__ == "__main__":
    main()
