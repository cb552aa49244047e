"""Finds the caveats of a run: what a reader should know before relying on its numbers."""

import platform
from collections.abc import Iterable, Sequence
from contextlib import suppress

import numpy as np
import torch
from torch._inductor.cpu_vec_isa import pick_vec_isa
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ..core import format as fmt, stats
from ..core.caveat import Caveat
from ..core.cores import BUSY_CPU
from ..core.machine import GpuSample
from ..core.options import RunSpec
from ..core.outputs import Parity
from ..core.result import RunResult
from . import causes, failures, instruction_probe, profiling
from .effects import Effects, Operator, compute_when_read, has_memory, parts_in_eager, tensors
from .timing import MIN_CALLS
from .workload import Variants, Workload, dtype_of

WIDE_SPREAD = 0.10
CLOCK_CHANGE = 0.10
GROWTH, RANK_CORRELATION, SERIES = 0.2, 0.9, 30
"""`steady_growth` splits the calls, in order, into up to `SERIES` parts, and takes the median time of a call in each.
Two facts together count as growth:

- Spearman's rank correlation of these medians with their order is above `RANK_CORRELATION`.
- The last third of the parts is slower than the first third by the share `GROWTH` or more.
"""
SUBNORMAL_SHARE, SAMPLE = 0.001, 10_000
"""First: the least share of subnormal numbers that gives a caveat. Second: the most numbers of a tensor that are
examined."""
NEON = 128 if platform.machine() in ("aarch64", "arm64") else 0
VECTOR_BITS = {"AVX512": 512, "AVX2": 256, "NO AVX": 0, "DEFAULT": NEON}
"""{torch's name for vector instructions: bits of a vector}. Any other name, such as SVE256, counts as 1 bit: a caveat
is then given only if inductor's code has no vectors at all."""
MULTIPROCESSORS = 68
"""Fewest multiprocessors of a GPU on which inductor tries several kernels for a matrix product (its `is_big_gpu`)."""
LOW_CLOCK = 0.75
"""A mean GPU clock below this share of the card's highest clock is a caveat: nvbench discards such measurements."""


def of_calls(workload: Workload, variants: Variants, effects: Effects) -> list[Caveat]:
    """Returns caveats about calls that compute nothing, compute only when outputs are read, or ignore their inputs."""

    def identities(outputs: list[torch.Tensor]) -> list[tuple[int, int]]:
        """Returns (address, version) of each tensor. Torch raises a tensor's version with each write to it."""
        numbers = [tensor for tensor in outputs if has_memory(tensor) and tensor.numel()]  # empty ones have no address
        return [(tensor.data_ptr(), tensor.is_inference() or tensor._version) for tensor in numbers]

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
    others = {"copied_answer": effects.copies, "constant": effects.constant, "unread": effects.unread}
    kept = [] if repeated else [Caveat(key) for key, true in others.items() if true][:1]
    return [*lazy, *kept, *(Caveat("same_tensor", {"variant": name}) for name in repeated)]


def of_agreement(agreement: Parity, effects: Effects) -> list[Caveat]:
    """Returns a caveat if it is not known whether outputs agree, or if they may agree by chance."""
    if agreement.unknown:
        return [Caveat("not_compared", {"reason": agreement.reason})]
    if effects.draws:
        return [Caveat("draws")]
    return [Caveat("drew", {"seeds": effects.seeds})] if effects.seeds else []


def of_numbers(workload: Workload) -> list[Caveat]:
    """Returns caveats about numbers that slow a CPU down: subnormal ones, or a 16-bit format that is slow on it."""
    spec, number_caveats = workload.spec, list[Caveat]()
    if workload.device.type != "cpu":
        return number_caveats
    if shares := subnormal_shares(workload):
        number_caveats.append(Caveat("subnormal", {"shares": shares}))
    if spec.dtype in ("float16", "bfloat16"):
        times = profiling.float32_advantage(dtype_of(spec))
        if times >= failures.SLOW_FORMAT:
            number_caveats.append(Caveat("slow_format", {"dtype": spec.dtype, "times": fmt.two_digits(times)}))
    return number_caveats


def subnormal_shares(workload: Workload) -> str:
    """Returns the shares of subnormal numbers in a call: 'weights 25 %, results of its operators 3 %'; '' if too few.

    A single subnormal number can make a CPU's vector instruction a hundred times slower. Calls the eager model once.
    """
    model = workload.model
    places = {"weights": tensors([*model.parameters(), *model.buffers()]), "inputs": tensors(workload.batch)}
    counts = {name: _count_subnormal(group) for name, group in places.items()}
    workload.restorer.restore()  # outside of the count: it copies the inputs
    with parts_in_eager(), _Subnormals() as results:
        workload.once(model)
    counts["results of its operators"] = results.count
    shares = {name: count[0] / max(1, count[1]) for name, count in counts.items()}
    return ", ".join(f"{name} {fmt.percent(share)}" for name, share in shares.items() if share >= SUBNORMAL_SHARE)


class _Subnormals(TorchDispatchMode):
    """Counts the subnormal numbers in the results of all operators that run within its `with` block."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch gives it no types
        self.count = np.zeros(2)

    def __torch_dispatch__(
        self, func: Operator, types: object, args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None
    ) -> object:
        out = func(*args, **(kwargs or {}))
        if (
            "empty" not in getattr(func, "overloadpacket", func).__name__
        ):  # memory in which nothing was written yet may hold any number
            self.count += _count_subnormal([leaf for leaf in pytree.tree_leaves(out) if isinstance(leaf, torch.Tensor)])
        return out


def _count_subnormal(group: Iterable[torch.Tensor]) -> np.ndarray:
    """Returns the array [subnormal numbers, all numbers], counted in a sample of the numbers of each tensor.

    Tensors are skipped if they are sparse, nested, empty, not of floating-point numbers, or of a class that lacks an
    operator used here.
    """
    count = np.zeros(2)
    for tensor in group:
        if not has_memory(tensor) or tensor.is_nested or not tensor.is_floating_point() or not tensor.numel():
            continue
        with suppress(Exception):  # a class of tensors, as of quantised weights, may lack some of these operators
            sample = tensor.detach().flatten()[:: tensor.numel() // SAMPLE + 1]
            # CPUs compute with float16 as float32, in which its subnormal numbers are normal.
            sample = (sample if sample.dtype == torch.float64 else sample.float()).abs()
            count += [int(((sample > 0) & (sample < torch.finfo(sample.dtype).tiny)).sum()), sample.numel()]
    return count


def of_instructions(device: torch.device) -> list[Caveat]:
    """Returns a caveat if inductor compiled for narrower vectors than torch's own kernels use. Call it after a compile.

    Inductor does so without a warning if its test of the processor's vector instructions fails.
    """
    own = torch.backends.cpu.get_cpu_capability()
    if device.type != "cpu" or not torch.compiler.config.cache_key_tag:  # inductor was not asked
        return []
    if pick_vec_isa().bit_width() >= VECTOR_BITS.get(own, 1):
        return []
    return [Caveat("narrow_vectors", {"compiled": instruction_probe.vector_instructions(), "own": own})]


def steady_growth(seconds: Sequence[float]) -> float | None:
    """Returns by which share the calls became slower during the timing, such as 0.5; None if there is no steady growth.

    `seconds`: the time of each call, in order. Calls that do not become slower were simulated, 1,000 times in each of
    four cases. This function wrongly found growth:

    - never with 300 calls and pure noise, or with 300 calls and one sudden change of the machine's speed
    - 63 times with 300 calls on a machine whose speed slowly went up and down by half
    - 2 times with 20 calls and one sudden change of the machine's speed
    """
    if len(seconds) < MIN_CALLS:
        return None
    parts = np.array([np.median(part) for part in np.array_split(seconds, min(SERIES, len(seconds)))])
    if np.corrcoef(np.argsort(np.argsort(parts)), np.arange(len(parts)))[0, 1] <= RANK_CORRELATION:
        return None
    first, _, last = (float(np.median(third)) for third in np.array_split(parts, 3))
    return last / first - 1 if last >= (1 + GROWTH) * first else None


def of_device(spec: RunSpec, device: torch.device) -> list[Caveat]:
    """Returns a caveat if the compile mode is max-autotune and the GPU is too small for it.

    With fewer than `MULTIPROCESSORS` multiprocessors inductor does not try several kernels for matrix products, and
    gives no error.
    """
    if device.type != "cuda" or not spec.mode.startswith("max-autotune"):
        return []
    count = torch.cuda.get_device_properties(device).multi_processor_count
    return [Caveat("small_gpu", {"mode": spec.mode, "count": count})] if count < MULTIPROCESSORS else []


def of_timing(result: RunResult) -> list[Caveat]:
    """Returns caveats about cores taken by others, missing graphs, graph breaks, fallbacks and slow compiled calls."""
    compiled = result.compilation
    caveats, environment = [], result.environment
    if result.oversubscribed:
        caveats.append(Caveat("thread_taken" if environment and environment.threads == 1 else "often_taken"))
    if compiled is not None:
        if compiled.graphs == 0:
            caveats.append(Caveat("no_graph"))
        if compiled.graph_breaks:
            caveats.append(Caveat("breaks", {"breaks": len(compiled.graph_breaks), "graphs": compiled.graphs}))
        for first in compiled.fallbacks[:1]:
            count = len(compiled.fallbacks)
            hint = causes.trace_remedy(first.reason) or causes.hidden_errors()
            if "recompile limit" in first.reason:
                hint = causes.counter_remedy(again.reason for again in compiled.recompiles) or hint
            reason = f"{first.reason}. {hint}".rstrip(". ")
            caveats.append(Caveat("fallbacks", {"count": count, "place": first.location, "reason": reason}))
    if result.eager is not None and result.compiled is not None and result.speedup is not None:
        slow, usual = result.compiled.p95_seconds, result.eager.p95_seconds
        # As in the verdict, under 1 % is no difference.
        if result.speedup.verdict == "faster" and slow > usual * (1 + stats.SMALLEST_DIFFERENCE):
            caveats.append(Caveat("tail", {"slow": fmt.latency(slow), "usual": fmt.latency(usual)}))
    return caveats


def of_cuda_graphs(result: RunResult) -> list[Caveat]:
    """Returns a caveat if the mode asks for CUDA graphs, and none were recorded or kernels are known to be outside."""
    graphs = result.compilation.cuda_graphs if result.compilation is not None else None
    if graphs is None or graphs.state in ("used", "not asked"):
        return []
    return [Caveat("cudagraphs", {"mode": result.spec.mode, "used": f"{graphs.state}: {graphs.reason}"})]


def of_noise(result: RunResult, unsettled: Sequence[str]) -> list[Caveat]:
    """Returns caveats about noisy times, and about what may have caused the noise, such as other programs.

    `unsettled`: "eager", "compiled" or both, if their times still changed when the warm-up ended.
    """
    caveats, grown, wide = [], [], []
    for name, side in (("eager", result.eager), ("compiled", result.compiled)):
        if side is not None and result.timing_seconds is not None:
            # interquartile range over the median, as torch.utils.benchmark judges noise
            low, middle, high = np.quantile(side.wall_seconds, [0.25, 0.5, 0.75])
            if (rise := steady_growth(side.wall_seconds)) is not None:
                grown.append(f"{name} {fmt.percent(rise)}")
            elif high - low > WIDE_SPREAD * middle:
                wide.append(f"{name} {fmt.percent(float((high - low) / middle))}")
    if grown:
        caveats.append(Caveat("growth", {"rises": ", ".join(grown)}))
    if wide:
        caveats.append(Caveat("wide", {"calls": ", ".join(wide)}))
    busy = result.others_share
    if busy is not None and busy > BUSY_CPU:
        caveats.append(Caveat("others", {"busy": fmt.percent(busy)}))
    if result.host_disturbed and result.eager is not None:
        shares = {"launching": result.eager.launch_share or 0.0, "taken": result.host_taken or 0.0}
        caveats.append(Caveat("host_taken", {name: fmt.percent(share) for name, share in shares.items()}))
    if unsettled:
        caveats.append(Caveat("unsettled", {"variants": ", ".join(unsettled)}))
    return caveats + _of_gpu([sample.gpu for sample in result.machine_states if sample.gpu is not None])


def _of_gpu(samples: Sequence[GpuSample]) -> list[Caveat]:
    caveats = []
    if neighbours := max((gpu.foreign_processes for gpu in samples), default=0):
        caveats.append(Caveat("gpu_others", {"count": neighbours}))
    if clocks := [gpu.sm_clock_hz for gpu in samples if gpu.sm_clock_hz]:
        low, high = min(clocks), max(clocks)
        most = max(gpu.largest_sm_clock_hz or high for gpu in samples)
        if high > low * (1 + CLOCK_CHANGE) or sum(clocks) / len(clocks) < LOW_CLOCK * most:
            seen = {"low": low, "high": high, "most": most}
            caveats.append(Caveat("gpu_clock", {name: f"{hertz / 1e6:.0f} MHz" for name, hertz in seen.items()}))
    if reasons := sorted({reason for gpu in samples for reason in gpu.throttle_reasons}):
        caveats.append(Caveat("gpu_slowed", {"reasons": ", ".join(reasons)}))
    return caveats
