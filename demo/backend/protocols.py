"""A run's two protocols around the functions of `timing`: what is told and looked at between the timed calls.

`both_timed` is the interleaved protocol for what is timed after them: a text model's prompt, other input sizes.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from demo.backend import failures, timing
from demo.backend.compilation import CompileLog
from demo.backend.events import Events
from demo.backend.monitor import Observer
from demo.backend.workload import Variants, Workload
from demo.core.measurement import AnotherSize, Measurement
from demo.core.spec import PUBLISHED_CALLS, RunSpec

OTHER_SIZE_CALLS = 24
"""Timed calls of each variant with another size."""
Look = Callable[[], None]
"""Looks at the machine between two timed calls; raises `CoreTaken` to break the timing off."""


class CoreTaken(Exception):
    """While calls were timed, other programs took a core: fewer are `free` than torch uses threads."""

    def __init__(self, free: int) -> None:
        super().__init__(f"{free} free")
        self.free = free


def timed(
    variants: Variants, clock: timing.Clock, spec: RunSpec, look: Look, observer: Observer, events: Events
) -> timing.Samples | None:
    """By the spec's protocol; None where eager and compiled are to take turns and do not fit in memory together."""
    if spec.protocol == "as published":
        return as_published(variants, clock, look, events)
    if not variants.fit_together:
        return None
    try:
        return interleaved(variants, clock, spec, look, observer, events)
    except Exception as error:
        if not failures.is_out_of_memory(error):
            raise
        return None


def as_published(variants: Variants, clock: timing.Clock, look: Look, events: Events) -> timing.Samples:
    """The guide's recipe: a fixed number of calls of one variant after the other."""
    calls = {"eager": variants.eager.call, "compiled": variants.compiled.call}
    if variants.with_break is not None:
        calls["with_break"] = variants.with_break.call
    samples = timing.Samples(1)
    into = {"eager": samples.eager, "compiled": samples.compiled, "with_break": samples.with_break}
    for place, (name, call) in enumerate(calls.items()):

        def between_calls(so_far: list[float], name: str = name, place: int = place) -> None:
            look()
            events.calls_timed(name, place, len(calls), so_far)

        into[name] += timing.time_fixed_count(call, clock, PUBLISHED_CALLS, between_calls)
    return samples


def interleaved(
    variants: Variants, clock: timing.Clock, spec: RunSpec, look: Look, observer: Observer, events: Events
) -> timing.Samples:
    """Blocks of eager, compiled, compiled, eager. Raises what an allocator raises where they do not fit together."""
    plan = timing.Plan.of(spec, variants.compiled.warmup[0])

    def on_block_end(samples: timing.Samples) -> None:
        look()
        events.block_timed(samples, plan, observer.seconds)

    eager, compiled = variants.eager.call, variants.compiled.call
    with_break = variants.with_break.call if variants.with_break is not None else None
    half = calls_per_half_block(variants, spec)
    return timing.time_interleaved(eager, compiled, clock, plan, half, on_block_end, with_break)


def calls_per_half_block(variants: Variants, spec: RunSpec) -> int:
    third = variants.with_break is not None
    return timing.calls_per_half_block(
        variants.eager_warmup_again, variants.compiled.warmup, spec.iterations, third=third
    )


def both_timed(
    workload: Workload, eager: timing.Call, compiled: timing.Call, log: CompileLog, plan: timing.Plan
) -> tuple[Measurement, Measurement, Measurement | None]:
    """Warms both calls up and times them in turns, with nothing told meanwhile.

    Returns eager's times, compiled's, and those of the A/A control where there was time for one.
    """
    min_calls = timing.min_warmup_calls(workload.spec, workload.device)
    warmup, _ = timing.warm_up(compiled, workload.clock, log.events, min_calls)
    eager_warmup, _ = timing.warm_up(eager, workload.clock, log.events)
    half = timing.calls_per_half_block(eager_warmup, warmup, plan.iterations)
    samples = timing.time_interleaved(eager, compiled, workload.clock, plan, half, lambda _: None)
    control = samples.measurement("control") if samples.control else None
    return samples.measurement("eager", eager_warmup), samples.measurement("compiled", warmup), control


def other_sizes(workload: Workload, variants: Variants, log: CompileLog) -> Iterator[AnotherSize]:
    """Both variants called with inputs of other sizes, after the timing: one at a time, as it is measured.

    Covered: the first call, which may compile again, and the steady latencies. Not covered: a third size, which needs
    no further compile where dynamo took the second as a reason to compile for any size.
    """
    plan = timing.Plan(iterations=OTHER_SIZE_CALLS)
    for other, size in workload.of_other_sizes():
        compiled, eager = other.call(variants.compiled.model), other.call(workload.model)
        recompiles, fallbacks = len(log.recompiles), len(log.fallbacks)
        first = workload.clock.time(compiled)
        eager_times, compiled_times, _ = both_timed(workload, eager, compiled, log, plan)
        yield AnotherSize(
            batch_size=other.spec.batch_size,
            first_call_seconds=first,
            recompiles=len(log.recompiles) - recompiles,
            fallbacks=len(log.fallbacks) - fallbacks,
            eager=eager_times,
            compiled=replace(compiled_times, warmup_seconds=(first, *compiled_times.warmup_seconds)),
            **size,
        )
