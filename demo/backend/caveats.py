"""Finds the caveats of a run: what a reader should know before using its numbers."""

from collections.abc import Sequence

import numpy as np
import torch

from ..core import format as fmt, stats
from ..core.caveat import Caveat
from ..core.cores import BUSY_CPU
from ..core.machine import GpuSample
from ..core.options import RunSpec
from ..core.result import RunResult
from . import causes
from .effects import Effects, compute_when_read
from .workload import Variants, Workload, tensors

WIDE_SPREAD = 0.10
CLOCK_CHANGE = 0.10
MULTIPROCESSORS = 68
"""Fewest multiprocessors of a GPU on which inductor tries kernels for matrix products: its `is_big_gpu`."""
LOW_CLOCK = 0.75
"""A mean GPU clock below this share of the card's highest clock is a caveat: nvbench discards such measurements."""


def of_calls(workload: Workload, variants: Variants, effects: Effects) -> list[Caveat]:
    """Returns caveats for models that compute nothing in a call: they return what they keep, or compute it later."""

    def identities(outputs: list[torch.Tensor]) -> list[tuple[int, int]]:
        """Returns each tensor's address and its version, a count that grows when the tensor is written to."""
        return [(one.data_ptr(), one.is_inference() or one._version) for one in outputs if one.layout == torch.strided]

    repeated, lazy = [], []
    for name, variant in variants.by_name.items():
        if kind := compute_when_read(variant.call()):
            lazy.append(Caveat("lazy", {"variant": name, "kind": kind}))
        if workload.device.type == "cuda" and name == "compiled":  # a CUDA graph has its outputs in one place
            continue
        first = tensors(variant.call())  # kept, so that the second call cannot get its memory
        before = identities(first)
        if before and before == identities(tensors(variant.call())):
            repeated.append(name)
    copied = [Caveat("copied_answer")] if effects.copies and not repeated else []
    return [*lazy, *copied, *(Caveat("same_tensor", {"variant": name}) for name in repeated)]


def of_device(spec: RunSpec, device: torch.device) -> list[Caveat]:
    """Returns a caveat if the GPU is too small for what the mode asks for: inductor then leaves it out silently."""
    if device.type != "cuda" or not spec.mode.startswith("max-autotune"):
        return []
    count = torch.cuda.get_device_properties(device).multi_processor_count
    return [Caveat("small_gpu", {"mode": spec.mode, "count": count})] if count < MULTIPROCESSORS else []


def of_timing(result: RunResult) -> list[Caveat]:
    """Returns caveats about the compile (such as graph breaks), slow compiled calls, and threads without a core."""
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
            count = len(compiled.fallbacks)
            hint = causes.trace_remedy(first.reason) or causes.hidden_errors()
            reason = f"{first.reason}. {hint}".rstrip(". ")
            found.append(Caveat("fallbacks", {"count": count, "place": first.location, "reason": reason}))
    if result.eager is not None and result.compiled is not None and result.speedup is not None:
        slow, usual = result.compiled.p95_seconds, result.eager.p95_seconds
        # As in the verdict, under 1 % is no difference.
        if result.speedup.verdict == "faster" and slow > usual * (1 + stats.SMALLEST_DIFFERENCE):
            found.append(Caveat("tail", {"slow": fmt.latency(slow), "usual": fmt.latency(usual)}))
    return found


def of_noise(result: RunResult, unsettled: Sequence[str]) -> list[Caveat]:
    """Returns caveats about noise. `unsettled`: names ("eager", "compiled") whose warm-up times did not settle."""
    found, wide = [], []
    for name, side in (("eager", result.eager), ("compiled", result.compiled)):
        if side is not None and result.timing_seconds is not None:
            # interquartile range over the median, as torch.utils.benchmark judges noise
            low, middle, high = np.quantile(side.wall_seconds, [0.25, 0.5, 0.75])
            if high - low > WIDE_SPREAD * middle:
                wide.append(f"{name} {fmt.percent(float((high - low) / middle))}")
    if wide:
        found.append(Caveat("wide", {"calls": ", ".join(wide)}))
    busy = result.others_share
    if busy is not None and busy > BUSY_CPU:
        found.append(Caveat("others", {"busy": fmt.percent(busy)}))
    if result.host_disturbed and result.eager is not None:
        shares = {"launching": result.eager.launch_share or 0.0, "taken": result.host_taken or 0.0}
        found.append(Caveat("host_taken", {name: fmt.percent(share) for name, share in shares.items()}))
    if unsettled:
        found.append(Caveat("unsettled", {"variants": ", ".join(unsettled)}))
    return found + _of_gpu([sample.gpu for sample in result.machine_states if sample.gpu is not None])


def _of_gpu(samples: Sequence[GpuSample]) -> list[Caveat]:
    found = []
    if neighbours := max((gpu.foreign_processes for gpu in samples), default=0):
        found.append(Caveat("gpu_others", {"count": neighbours}))
    if clocks := [gpu.sm_clock_hz for gpu in samples if gpu.sm_clock_hz]:
        low, high = min(clocks), max(clocks)
        most = max(gpu.largest_sm_clock_hz or high for gpu in samples)
        if high > low * (1 + CLOCK_CHANGE) or sum(clocks) / len(clocks) < LOW_CLOCK * most:
            seen = {"low": low, "high": high, "most": most}
            found.append(Caveat("gpu_clock", {name: f"{hertz / 1e6:.0f} MHz" for name, hertz in seen.items()}))
    if reasons := sorted({reason for gpu in samples for reason in gpu.throttle_reasons}):
        found.append(Caveat("gpu_slowed", {"reasons": ", ".join(reasons)}))
    return found
