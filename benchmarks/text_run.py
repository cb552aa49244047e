"""The default run of the bundled text model, cold and warm; and its steps timed in turns against answers in a row.

First as `benchmarks.default_run`: with a spare worker ready, over an empty inductor cache and then over the same one.
Limits on two CPU cores: 25 s cold, 10 s warm.

Then in one process, over one cache: the protocol's blocks, in which eager and compiled take turns after some 14 steps,
between two plain loops of whole answers, first of eager and then of compiled, as a server that runs one variant. Both
give the time of a step. What differs shows what taking turns costs a step of one or two milliseconds.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks import report
from benchmarks.default_run import one_run
from demo.backend import compile_model, timing, workloads
from demo.core import catalog, format as fmt
from demo.core.languages import ENGLISH
from demo.present import sentences
from demo.runs.runner import Runner

SPEC = catalog.make_spec("shapes-gemma", prompt=catalog.PROMPT, device="cpu")
WARM_RUNS = 5
LIMITS = {"cold": 25.0, "warm": 10.0}
ROUNDS, ANSWERS = 9, 4


def in_a_row(call: Callable[[], Any]) -> float:
    """Seconds of a step, the mean over some whole answers."""
    steps = ANSWERS * (SPEC.tokens - 1)
    started = time.perf_counter()
    for _ in range(steps):
        call()
    return (time.perf_counter() - started) / steps


def main() -> None:
    rows, late = [], []
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        runner = Runner(None, spare=True)
        for number in range(1 + WARM_RUNS):
            _, whole, result = one_run(runner, SPEC)
            state = "warm" if number else "cold"
            answer = f"{sentences.speedup(result, ENGLISH)}, {sentences.times(result)} a token"
            first, all_of_it = result.prefill_latencies or (0.0, 0.0), result.answer_seconds or (0.0, 0.0)
            parts = (" → ".join(map(fmt.latency, pair)) for pair in (first, all_of_it))
            rows.append([str(number + 1), state, f"{whole:.1f} s", answer, *parts])
            if whole > LIMITS[state]:
                late.append(f"run {number + 1} took {whole:.1f} s, limit {LIMITS[state]:.0f} s")
        runner.close()
    header = ["run", "compile cache", "whole run", "answer", "first token", "whole answer"]
    turns = report.table(["", "eager", "compiled", "speed-up"], steps_in_turns())
    report.publish("text_run", "A default run of the bundled text model", f"{report.table(header, rows)}\n\n{turns}")
    if late:
        sys.exit("; ".join(late))


def steps_in_turns() -> list[list[str]]:
    with torch.no_grad():
        workload = workloads.load(SPEC, None)
        compiled, eager = workload.call(compile_model.compiled(workload.model, SPEC)), workload.eager
        warmup, eager_warmup = ([workload.clock.time(call) for _ in range(20)] for call in (compiled, eager))
        half = timing.calls_per_half_block(eager_warmup, warmup, None)
        rounds = []
        for _ in range(ROUNDS):
            before = [in_a_row(eager), in_a_row(compiled)]
            samples = timing.time_interleaved(eager, compiled, workload.clock, timing.Plan(), half, lambda _: None)
            after = [in_a_row(eager), in_a_row(compiled)]
            loops = list(map(statistics.geometric_mean, zip(before, after, strict=True)))
            rounds.append((samples.estimate().seconds, loops))
    rows = []
    for name, side in (("in turns", 0), ("in a row", 1)):
        both = [statistics.median(one[side][variant] for one in rounds) for variant in (0, 1)]
        ratios = [one[side][0] / one[side][1] for one in rounds]
        middle = f"{statistics.median(ratios):.2f}× ({min(ratios):.2f} to {max(ratios):.2f}×)"
        rows.append([name, *map(fmt.latency, both), middle])
    return rows


if __name__ == "__main__":
    main()
