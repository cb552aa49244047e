"""What a reader of a run's figures should know before using them: a result's warnings and caveats."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from demo.backend import machine_probe
from demo.backend.workload import Variants, Workload, tensors
from demo.core import format as fmt, stats
from demo.core.cores import BUSY_CPU
from demo.core.languages import ENGLISH
from demo.core.machine import GpuSample, HostSample
from demo.core.result import RunResult

WIDE_SPREAD = 0.10
CLOCK_CHANGE = 0.10
LOW_CLOCK = 0.75
"""nvbench sets aside what was measured under three quarters of the largest clock."""


def of_workload(workload: Workload) -> list[str]:
    """What is known before anything was called."""
    spec, found = workload.spec, [*workload.warnings]
    if spec.weights == "random":
        found.append(ENGLISH.plain("caveat_random_weights"))
    # Asking inductor starts CUDA, so only a run on a GPU asks.
    on_gpu = workload.device.type == "cuda"
    if on_gpu and spec.mode.startswith("max-autotune") and machine_probe.too_few_multiprocessors():
        found.append(ENGLISH.plain("caveat_few_multiprocessors"))
    return found


def of_calls(workload: Workload, variants: Variants) -> list[str]:
    """Whether the timed calls may have computed nothing, or slowly for the values of the weights and inputs.

    A tensor that was written to is a new one. Not covered: copies of a kept answer; subnormal numbers within a call.
    """

    def returned(outputs: list[torch.Tensor]) -> list[tuple[int, int]]:
        return [(one.data_ptr(), one.is_inference() or one._version) for one in outputs if one.layout == torch.strided]

    found, on_cpu = [], workload.device.type == "cpu"
    for name, variant in variants.by_name.items():
        if on_cpu or name == "eager":  # a CUDA graph has its outputs in one place
            first = tensors(variant.call())
            before = returned(first)
            if before and before == returned(tensors(variant.call())):
                found.append(f"The same tensor comes back from each call of {name}: nothing may have been computed.")
    numbers = tensors([*workload.model.parameters(), *workload.model.buffers(), workload.batch]) if on_cpu else []
    dense = [one for one in numbers if one.is_floating_point() and one.layout == torch.strided]
    # As float32, in which CPUs compute with float16: its subnormal numbers are normal there.
    sample = torch.cat([torch.ones(1), *(one.flatten()[:: one.numel() // 50_000 + 1].float().abs() for one in dense)])
    share = ((sample > 0) & (sample < torch.finfo().tiny)).double().mean().item()
    if share >= 0.001:  # one of them can slow a vector instruction down a hundredfold
        remedy = "torch.set_flush_denormal(True), before anything is computed, takes them for zero"
        found.append(f"Subnormal numbers, slow on many CPUs: {fmt.percent(share)} of weights and inputs. {remedy}.")
    return found


def of_growth(result: RunResult) -> list[str]:
    """Whether the calls of both variants became steadily slower: by a fifth and more from the first third of the blocks
    to the last, with a rank correlation above 0.9.

    False alarms in 1,000 timings of 30 blocks: none of noise or of one step in the machine's speed, some 50 of a speed
    that wanders by half within the timing.
    """
    rises = []
    for name, side in (("eager", result.eager), ("compiled", result.compiled)):
        blocks = side.blocks if side is not None else np.empty(0)
        if len(blocks) < 5 or np.corrcoef(np.argsort(np.argsort(blocks)), np.arange(len(blocks)))[0, 1] <= 0.9:
            return []
        first, _, last = (float(np.median(third)) for third in np.array_split(blocks, 3))
        rises += [f"{name} {fmt.percent(last / first - 1)}"] if last >= 1.2 * first else []
    longer = f"Each call takes longer than the one before ({', '.join(rises)} from the first third to the last)"
    return [f"{longer}: the model keeps something from call to call."] if len(rises) == 2 else []


def of_timing(result: RunResult) -> list[str]:
    """What the compiled model really was, and whether the speed-up is as precise as asked."""
    spec, compiled = result.spec, result.compilation
    found = [ENGLISH.plain("caveat_often_taken")] if result.oversubscribed else []
    if compiled is not None:
        if compiled.graphs == 0:
            found.append(ENGLISH.plain("caveat_no_graph"))
        if compiled.graph_breaks:
            found.append(ENGLISH.plain("caveat_breaks", breaks=len(compiled.graph_breaks), graphs=compiled.graphs))
        if reason := compiled.cudagraphs_skipped or compiled.cudagraphs_partly:
            key = "caveat_no_cudagraphs" if compiled.cudagraphs_skipped else "caveat_some_cudagraphs"
            found.append(ENGLISH.plain(key, mode=spec.mode, reason=reason))
        for first in compiled.fallbacks[:1]:
            places = {"place": first.location, "reason": first.reason}
            found.append(ENGLISH.plain("caveat_fallbacks", count=len(compiled.fallbacks), **places))
    if result.speedup is not None and spec.iterations is None and spec.protocol == "interleaved":
        width, target = result.speedup.within.half_width, f"±{fmt.percent(spec.precision)}"
        if width >= 0.5:
            found.append(ENGLISH.plain("caveat_imprecise_by_far", target=target))
        elif width > spec.precision:
            found.append(ENGLISH.plain("caveat_imprecise", reached=f"±{fmt.percent(width)}", target=target))
    if result.eager is not None and result.compiled is not None and result.speedup is not None:
        slow, usual = result.compiled.p95_seconds, result.eager.p95_seconds
        # As in the verdict, under 1 % is no difference.
        if result.speedup.verdict == "faster" and slow > usual * (1 + stats.SMALLEST_DIFFERENCE):
            found.append(ENGLISH.plain("caveat_tail", slow=fmt.latency(slow), usual=fmt.latency(usual)))
    return found


def wide_spreads(result: RunResult) -> dict[str, float]:
    """The quartile spread of each variant whose timed calls vary widely, as a share of their median."""
    if result.timing_seconds is None:
        return {}
    spreads = {}
    for name, side in (("eager", result.eager), ("compiled", result.compiled)):
        if side is not None:  # interquartile range over the median, as torch.utils.benchmark judges noise
            low, middle, high = np.quantile(side.wall_seconds, [0.25, 0.5, 0.75])
            spreads[name] = float((high - low) / middle)
    return {name: spread for name, spread in spreads.items() if spread > WIDE_SPREAD}


def of_machine(samples: Sequence[HostSample], spreads: Mapping[str, float], unsettled: Sequence[str]) -> list[str]:
    """What disturbed the timing.

    `spreads` are those of `wide_spreads`; `unsettled` names the variants whose last warm-up calls still differed. Of
    the processor at most one is told: calls that vary widely, with the share that others took, or that share alone.
    """
    found = []
    foreign = [sample.foreign_cpu for sample in samples if sample.foreign_cpu is not None]
    busy = sum(foreign) / len(foreign) if foreign else 0.0
    calls = ", ".join(f"{name} {fmt.percent(spread)}" for name, spread in spreads.items())
    if calls and not foreign:
        found.append(ENGLISH.plain("caveat_wide", calls=calls))
    elif calls:
        key = "caveat_wide_by_others" if busy > BUSY_CPU else "caveat_wide_though_idle"
        found.append(ENGLISH.plain(key, calls=calls, busy=fmt.percent(busy)))
    elif busy > BUSY_CPU:
        found.append(ENGLISH.plain("caveat_others", busy=fmt.percent(busy)))
    if late := [name for name in unsettled if name not in spreads]:
        found.append(ENGLISH.plain("caveat_unsettled", variants=", ".join(late)))
    return found + _of_gpu([sample.gpu for sample in samples if sample.gpu is not None])


def _of_gpu(samples: Sequence[GpuSample]) -> list[str]:
    found = []
    if neighbours := max((gpu.foreign_processes for gpu in samples), default=0):
        found.append(ENGLISH.plain("caveat_gpu_others", count=neighbours))
    clocks = [gpu.sm_clock_hz for gpu in samples if gpu.sm_clock_hz]
    if clocks and max(clocks) > min(clocks) * (1 + CLOCK_CHANGE):
        low, high = (f"{clock / 1e6:.0f}" for clock in (min(clocks), max(clocks)))
        found.append(ENGLISH.plain("caveat_gpu_clock_moved", low=low, high=f"{high} MHz"))
    limits = [gpu.largest_sm_clock_hz for gpu in samples if gpu.largest_sm_clock_hz]
    if clocks and limits and (mean := sum(clocks) / len(clocks)) < LOW_CLOCK * max(limits):
        clock, most = (f"{hertz / 1e6:.0f} MHz" for hertz in (mean, max(limits)))
        found.append(ENGLISH.plain("caveat_gpu_clock_low", clock=clock, most=most))
    reasons = {reason for gpu in samples for reason in gpu.throttle_reasons}
    if "thermal" in reasons:
        hottest = max((gpu.temperature_celsius for gpu in samples if gpu.temperature_celsius is not None), default=None)
        at = {} if hottest is None else {"temperature": f"{hottest:.0f} °C"}
        found.append(ENGLISH.plain("caveat_gpu_hot_at" if at else "caveat_gpu_hot", **at))
    return found + [ENGLISH.plain(f"caveat_gpu_{reason}") for reason in ("power", "hardware") if reason in reasons]
