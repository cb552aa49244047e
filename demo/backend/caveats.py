"""What a reader of a run's figures should know before using them, as sentences: a result's warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from demo.backend import graph_breaks, machine
from demo.backend.subject import Subject
from demo.core import format as fmt
from demo.core import stats
from demo.core.cores import BUSY_CPU
from demo.core.machine import Environment, GpuSample, HostSample
from demo.core.result import RunResult

PUBLISHED_NOTE = (
    "Timed by the guide's recipe, eager first and then compiled: a machine that drifts meanwhile moves the speed-up, "
    "its interval does not show that, and there is no noise floor."
)
SEPARATE_NOTE = (
    "Eager and compiled do not fit in memory together: they were timed one after the other, so drift of the machine is "
    "not cancelled."
)
COMPILES_ITSELF = (
    "The model calls torch.compile for a part of itself: it is compiled in eager, too, and the speed-up leaves it out."
)
OFTEN_TAKEN = (
    "Fewer cores were free than torch used threads while it was timed, so threads waited for a core and no verdict can "
    "be trusted. Stop other programs; with several threads, leave their number to the run or choose fewer."
)
WIDE_SPREAD = 0.10
CLOCK_CHANGE = 0.10
LOW_CLOCK = 0.75
"""nvbench sets aside what was measured under three quarters of the largest clock."""


def of_subject(subject: Subject) -> list[str]:
    """What is known before anything was called."""
    spec, warnings = subject.spec, [*subject.warnings]
    if spec.weights == "random":
        warnings.append("Random weights: latency stands, but predictions would mean nothing and are not shown.")
    # Asking inductor starts CUDA, so only a run on a GPU asks.
    on_gpu = subject.device.type == "cuda"
    if on_gpu and spec.mode.startswith("max-autotune") and machine.too_few_multiprocessors():
        warnings.append(
            "This GPU has too few multiprocessors for inductor's matrix-product autotuning (Not enough SMs): "
            "max-autotune tunes less here than on a larger GPU."
        )
    return warnings


def of_cores(environment: Environment) -> str:
    """Why torch got fewer threads than usual, told before the timing. `environment` is what was found."""
    cores, free = environment.cpu_count, environment.free_cores or 1
    taken = f"One of {cores} cores is" if cores - free == 1 else f"{cores - free} of {cores} cores are"
    return f"{taken} busy: timed with {graph_breaks.counted(environment.threads, 'thread')}."


def timed_again(threads: int) -> str:
    """Why a timing was broken off and begun anew."""
    again = graph_breaks.counted(threads, "thread")
    return f"Another program took a core while it was timed: timed again with {again}."


def of_timing(result: RunResult) -> list[str]:
    """What the compiled model really was, and whether the speed-up is as precise as asked."""
    spec, compiled = result.spec, result.compilation
    warnings = [OFTEN_TAKEN] if result.crowded else []
    if compiled is not None:
        if compiled.graphs == 0:
            warnings.append("torch.compile captured no graph at all: 'compiled' ran as eager.")
        if compiled.graph_breaks and not spec.graph_break:
            breaks = graph_breaks.counted(len(compiled.graph_breaks), "graph break")
            graphs = graph_breaks.counted(compiled.graphs, "graph")
            warnings.append(f"{breaks}: the model runs as {graphs} with Python in between.")
        if compiled.cudagraphs_skipped:
            reason = compiled.cudagraphs_skipped
            warnings.append(f"CUDA graphs, which mode {spec.mode} asks for, were not used: {reason}.")
        if compiled.fallbacks:
            first, number = compiled.fallbacks[0], len(compiled.fallbacks)
            functions = "a function" if number == 1 else f"{number} functions"
            warnings.append(f"dynamo left {functions} to eager: {first.location}, {first.reason}.")
    if result.speedup is not None and spec.iterations is None and spec.protocol == "interleaved":
        width = result.speedup.within.half_width
        if width > spec.precision:
            reached = f"±{fmt.percent(width)}" if width < 0.5 else "no useful value"
            target = f"±{fmt.percent(spec.precision)}"
            warnings.append(f"Precision reached {reached} in this process (target {target}) before time ran out.")
    return warnings + _of_tail(result)


def _of_tail(result: RunResult) -> list[str]:
    """That a faster model has slower slowest calls. Nothing under 1 % is called a difference, as in the verdict."""
    eager, compiled = result.eager, result.compiled
    if eager is None or compiled is None or result.speedup is None or result.speedup.verdict != "faster":
        return []
    if compiled.p95_seconds <= eager.p95_seconds * (1 + stats.SMALLEST_DIFFERENCE):
        return []
    slow, usual = fmt.latency(compiled.p95_seconds), fmt.latency(eager.p95_seconds)
    return [
        f"The slowest compiled calls are slower than eager's: 1 in 20 takes longer than {slow}, with eager longer than "
        f"{usual}."
    ]


def wide_spreads(result: RunResult) -> dict[str, float]:
    """The quartile spread of each variant whose timed calls vary widely, as a share of their median."""
    if result.timing_seconds is None:
        return {}
    sides = {"eager": result.eager, "compiled": result.compiled}
    spreads = {name: quartile_spread(side.wall_seconds) for name, side in sides.items() if side is not None}
    return {name: spread for name, spread in spreads.items() if spread > WIDE_SPREAD}


def quartile_spread(times: Sequence[float]) -> float:
    """Interquartile range over the median, as torch.utils.benchmark judges noise."""
    low, middle, high = np.quantile(times, [0.25, 0.5, 0.75])
    return float((high - low) / middle)


def of_machine(
    samples: Sequence[HostSample], spreads: Mapping[str, float] = MappingProxyType({}), unsettled: Sequence[str] = ()
) -> list[str]:
    """What disturbed the timing, one sentence for each cause.

    `spreads` are those of `wide_spreads`; `unsettled` names the variants whose last warm-up calls still differed.
    """
    warnings = _of_other_processes(samples, spreads, unsettled)
    if late := [name for name in unsettled if name not in spreads]:
        warnings.append(
            f"{' and '.join(late).capitalize()} had not settled when the warm-up ended: the last three calls were more "
            "than 10 % apart."
        )
    return warnings + _of_gpu([sample.gpu for sample in samples if sample.gpu is not None])


def _of_other_processes(
    samples: Sequence[HostSample], spreads: Mapping[str, float], unsettled: Sequence[str]
) -> list[str]:
    """One sentence at most: calls that vary widely, with the cause if it is known, or other processes alone."""
    foreign = [sample.foreign_cpu for sample in samples if sample.foreign_cpu is not None]
    busy = sum(foreign) / len(foreign) if foreign else 0.0
    others = f"ther processes kept {fmt.percent(busy)} of the processor busy while it was timed."
    if spreads:
        since = ", from their warm-up on" if set(unsettled) & set(spreads) else ""
        spans = " and ".join(fmt.percent(spread) for spread in spreads.values())
        though = f", though other processes kept only {fmt.percent(busy)} of the processor busy" if foreign else ""
        cause = f"o{others}" if busy > BUSY_CPU else f"the machine's speed was not steady{though}."
        calls = f"The {' and '.join(spreads)} calls vary widely{since}"
        return [f"{calls} (the middle half spans {spans} of the median): {cause}"]
    return [f"O{others}"] if busy > BUSY_CPU else []


def _of_gpu(samples: Sequence[GpuSample]) -> list[str]:
    warnings = []
    neighbours = max((gpu.foreign_processes for gpu in samples), default=0)
    if neighbours:
        warnings.append(f"{neighbours} other {'process' if neighbours == 1 else 'processes'} used this GPU as well.")
    clocks = [gpu.sm_clock_hz for gpu in samples if gpu.sm_clock_hz]
    if clocks and max(clocks) > min(clocks) * (1 + CLOCK_CHANGE):
        warnings.append(
            f"The GPU's clock moved between {min(clocks) / 1e6:.0f} and {max(clocks) / 1e6:.0f} MHz while it was timed."
        )
    limits = [gpu.largest_sm_clock_hz for gpu in samples if gpu.largest_sm_clock_hz]
    if clocks and limits and sum(clocks) / len(clocks) < LOW_CLOCK * max(limits):
        warnings.append(
            f"The GPU ran at {sum(clocks) / len(clocks) / 1e6:.0f} MHz, well below its {max(limits) / 1e6:.0f} MHz."
        )
    reasons = {reason for gpu in samples for reason in gpu.throttle_reasons}
    if "thermal" in reasons:
        hottest = max((gpu.temperature_celsius for gpu in samples if gpu.temperature_celsius is not None), default=None)
        warnings.append("The GPU slowed down because it was hot" + (f" ({hottest:.0f} °C)." if hottest else "."))
    if "power" in reasons:
        warnings.append("The GPU slowed down at its power limit.")
    if "hardware" in reasons:
        warnings.append("The GPU's hardware slowed it down (heat or power supply).")
    return warnings
