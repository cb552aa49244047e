"""The compiled model called with inputs of another size, after the timing and in the same process.

Covered: the first call, which may compile again, and the steady latencies of both variants. Not covered: a third size,
which needs no further compile where dynamo took the second as a reason to compile for any size.
"""

from __future__ import annotations

from collections.abc import Iterator

from demo.backend import timing
from demo.backend.compilation import CompileLog
from demo.backend.variants import Variants
from demo.backend.workload import Workload
from demo.core.measurement import AnotherSize

ITERATIONS = 24
"""Timed calls of each variant for each size."""


def measured(workload: Workload, variants: Variants, log: CompileLog) -> Iterator[AnotherSize]:
    """One for each other size, as it is measured."""
    for size in workload.of_other_sizes():
        other = size.workload
        compiled, eager = other.call(variants.compiled.model), other.call(workload.model)
        recompiles, fallbacks = len(log.recompiles), len(log.fallbacks)
        first = workload.clock.time(compiled)
        min_calls = timing.min_warmup_calls(workload.spec, workload.device)
        warmup, _ = timing.warm_up(compiled, workload.clock, log.events, min_calls)
        eager_warmup, _ = timing.warm_up(eager, workload.clock, log.events)
        half = timing.calls_per_half_block(eager_warmup, warmup, ITERATIONS)
        plan = timing.Plan(iterations=ITERATIONS)
        samples = timing.time_interleaved(eager, compiled, workload.clock, plan, half, lambda _: None, None)
        yield AnotherSize(
            changed=size.changed,
            batch_size=other.spec.batch_size,
            height=size.height,
            width=size.width,
            first_call_seconds=first,
            recompiles=len(log.recompiles) - recompiles,
            fallbacks=len(log.fallbacks) - fallbacks,
            eager=samples.measurement("eager", eager_warmup),
            compiled=samples.measurement("compiled", [first, *warmup]),
            prompt_tokens=size.prompt_tokens,
            cache_tokens=size.cache_tokens,
        )
