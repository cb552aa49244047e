"""The compiled model called with inputs of another size, after the timing and in the same process.

Covered: the first call, which may compile again, and the steady latencies of both variants. Not covered: a third size,
which needs no further compile where dynamo took the second as a reason to compile for any size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from demo.backend import protocols, timing
from demo.backend.compilation import CompileLog
from demo.backend.workload import Variants, Workload
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
        plan = timing.Plan(iterations=ITERATIONS)
        eager_times, compiled_times, _ = protocols.both_timed(workload, eager, compiled, log, plan)
        yield AnotherSize(
            changed=size.changed,
            batch_size=other.spec.batch_size,
            height=size.height,
            width=size.width,
            first_call_seconds=first,
            recompiles=len(log.recompiles) - recompiles,
            fallbacks=len(log.fallbacks) - fallbacks,
            eager=eager_times,
            compiled=replace(compiled_times, warmup_seconds=(first, *compiled_times.warmup_seconds)),
            prompt_tokens=size.prompt_tokens,
            cache_tokens=size.cache_tokens,
        )
