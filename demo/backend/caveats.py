"""What a reader of a run's figures should know before using them: a result's caveats."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from demo.backend import machine_probe
from demo.backend.workload import Variants, Workload, tensors
from demo.core import format as fmt, stats
from demo.core.caveat import Caveat
from demo.core.cores import BUSY_CPU
from demo.core.machine import GpuSample, HostSample
from demo.core.result import RunResult

WIDE_SPREAD = 0.10
CLOCK_CHANGE = 0.10
LOW_CLOCK = 0.75
"""nvbench sets aside what was measured under three quarters of the largest clock."""


def of_workload(workload: Workload) -> list[Caveat]:
    """What is known before anything was called."""
    spec, found = workload.spec, [*workload.caveats]
    if spec.weights == "random":
        found.append(Caveat("random_weights"))
    # Asking inductor starts CUDA, so only a run on a GPU asks.
    on_gpu = workload.device.type == "cuda"
    if on_gpu and spec.mode.startswith("max-autotune") and machine_probe.too_few_multiprocessors():
        found.append(Caveat("few_multiprocessors"))
    return found


def of_calls(workload: Workload, variants: Variants) -> list[Caveat]:
    """Whether the timed calls may have computed nothing, or slowly for the values of the weights and inputs. Not
    covered: copies of a kept answer; subnormal numbers within a call."""

    def identities(outputs: list[torch.Tensor]) -> list[tuple[int, int]]:
        """A tensor that was written to is a new one."""
        return [(one.data_ptr(), one.is_inference() or one._version) for one in outputs if one.layout == torch.strided]

    found, on_cpu = [], workload.device.type == "cpu"
    for name, variant in variants.by_name.items():
        if on_cpu or name == "eager":  # a CUDA graph has its outputs in one place
            first = tensors(variant.call())
            before = identities(first)
            if before and before == identities(tensors(variant.call())):
                found.append(Caveat("same_tensor", {"variant": name}))
    numbers = tensors([*workload.model.parameters(), *workload.model.buffers(), workload.batch]) if on_cpu else []
    dense = [one for one in numbers if one.is_floating_point() and one.layout == torch.strided]
    # As float32, in which CPUs compute with float16: its subnormal numbers are normal there.
    sample = torch.cat([torch.ones(1), *(one.flatten()[:: one.numel() // 50_000 + 1].float().abs() for one in dense)])
    share = ((sample > 0) & (sample < torch.finfo().tiny)).double().mean().item()
    if share >= 0.001:  # one of them can slow a vector instruction down a hundredfold
        found.append(Caveat("subnormal", {"share": fmt.percent(share)}))
    return found


def of_growth(result: RunResult) -> list[Caveat]:
    """Whether the calls of both variants became steadily slower: by a fifth and more from the first third of the blocks
    to the last, with a rank correlation above 0.9. False alarms in 1,000 timings of 30 blocks: none of noise or of one
    step in the machine's speed, some 50 of a speed that wanders by half.
    """
    rises = []
    for name, side in (("eager", result.eager), ("compiled", result.compiled)):
        blocks = side.blocks if side is not None else np.empty(0)
        if len(blocks) < 5 or np.corrcoef(np.argsort(np.argsort(blocks)), np.arange(len(blocks)))[0, 1] <= 0.9:
            return []
        first, _, last = (float(np.median(third)) for third in np.array_split(blocks, 3))
        rises += [f"{name} {fmt.percent(last / first - 1)}"] if last >= 1.2 * first else []
    return [Caveat("growth", {"rises": ", ".join(rises)})] if len(rises) == 2 else []


def of_timing(result: RunResult) -> list[Caveat]:
    """What the compiled model really was, and whether the speed-up is as precise as asked."""
    spec, compiled = result.spec, result.compilation
    found = [Caveat("often_taken")] if result.oversubscribed else []
    if compiled is not None:
        if compiled.graphs == 0:
            found.append(Caveat("no_graph"))
        if compiled.graph_breaks:
            found.append(Caveat("breaks", {"breaks": len(compiled.graph_breaks), "graphs": compiled.graphs}))
        if compiled.cudagraphs not in ("used", "not asked"):
            found.append(Caveat("cudagraphs", {"mode": spec.mode, "used": compiled.cudagraphs}))
        for first in compiled.fallbacks[:1]:
            places = {"place": first.location, "reason": first.reason}
            found.append(Caveat("fallbacks", {"count": len(compiled.fallbacks), **places}))
    if result.eager is not None and result.compiled is not None and result.speedup is not None:
        slow, usual = result.compiled.p95_seconds, result.eager.p95_seconds
        # As in the verdict, under 1 % is no difference.
        if result.speedup.verdict == "faster" and slow > usual * (1 + stats.SMALLEST_DIFFERENCE):
            found.append(Caveat("tail", {"slow": fmt.latency(slow), "usual": fmt.latency(usual)}))
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


def of_machine(samples: Sequence[HostSample], spreads: Mapping[str, float], unsettled: Sequence[str]) -> list[Caveat]:
    """What disturbed the timing. `spreads` are those of `wide_spreads`; `unsettled` names the variants whose warm-up
    calls still differed. At most one caveat is of the processor."""
    found = []
    foreign = [sample.foreign_cpu for sample in samples if sample.foreign_cpu is not None]
    busy = sum(foreign) / len(foreign) if foreign else 0.0
    calls = ", ".join(f"{name} {fmt.percent(spread)}" for name, spread in spreads.items())
    if calls and not foreign:
        found.append(Caveat("wide", {"calls": calls}))
    elif calls:
        key = "wide_by_others" if busy > BUSY_CPU else "wide_though_idle"
        found.append(Caveat(key, {"calls": calls, "busy": fmt.percent(busy)}))
    elif busy > BUSY_CPU:
        found.append(Caveat("others", {"busy": fmt.percent(busy)}))
    if late := [name for name in unsettled if name not in spreads]:
        found.append(Caveat("unsettled", {"variants": ", ".join(late)}))
    return found + _of_gpu([sample.gpu for sample in samples if sample.gpu is not None])


def _of_gpu(samples: Sequence[GpuSample]) -> list[Caveat]:
    found = []
    if neighbours := max((gpu.foreign_processes for gpu in samples), default=0):
        found.append(Caveat("gpu_others", {"count": neighbours}))
    clocks = [gpu.sm_clock_hz for gpu in samples if gpu.sm_clock_hz]
    if clocks and max(clocks) > min(clocks) * (1 + CLOCK_CHANGE):
        low, high = (f"{clock / 1e6:.0f}" for clock in (min(clocks), max(clocks)))
        found.append(Caveat("gpu_clock_moved", {"low": low, "high": f"{high} MHz"}))
    limits = [gpu.largest_sm_clock_hz for gpu in samples if gpu.largest_sm_clock_hz]
    if clocks and limits and (mean := sum(clocks) / len(clocks)) < LOW_CLOCK * max(limits):
        clock, most = (f"{hertz / 1e6:.0f} MHz" for hertz in (mean, max(limits)))
        found.append(Caveat("gpu_clock_low", {"clock": clock, "most": most}))
    reasons = {reason for gpu in samples for reason in gpu.throttle_reasons}
    if "thermal" in reasons:
        hottest = max((gpu.temperature_celsius for gpu in samples if gpu.temperature_celsius is not None), default=None)
        at = {} if hottest is None else {"temperature": f"{hottest:.0f} °C"}
        found.append(Caveat("gpu_hot_at" if at else "gpu_hot", at))
    return found + [Caveat(f"gpu_{reason}") for reason in ("power", "hardware") if reason in reasons]
