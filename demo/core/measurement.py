"""What is measured of one variant: its calls, its kernels, and the cost of compiling it.

Seconds and bytes. Raw times are stored; whatever can be computed from them is a property.
"""

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from demo.core import stats


@dataclass(frozen=True)
class BackToBack:
    """Calls launched without waiting for each other: the throughput of a server with a full queue."""

    calls: int
    seconds: float
    """From the first launch until the last result is there."""


@dataclass(frozen=True)
class Kernel:
    """One kernel of a GPU, or one operator of a CPU, with all its launches in a call."""

    name: str
    """The profiler's name, shortened."""
    launches: float
    seconds: float
    share: float
    """Of the time of all kernels, 0 to 1."""


@dataclass(frozen=True)
class Profile:
    """What torch.profiler saw of one variant, in a pass of its own, because profiling slows the calls down."""

    kernels: float
    """Launched in a call: on a GPU kernels, on a CPU operators that call no other one. Kernels that inductor compiled
    for a CPU are not listed one by one: together they are the self time of 'Call CompiledFxGraph'."""
    busy_seconds: float | None
    """Seconds of a call in which the GPU ran a kernel, a copy or a fill, overlaps counted once; None on a CPU."""
    longest: tuple[Kernel, ...]
    """At most five, by name, the longest first."""


@dataclass(frozen=True)
class Roofline:
    """The least work of one call, and the rates that the device reached in a matrix product and in a plain copy.

    Operations are those of matrix products, convolutions and attention (a multiply-add is two), as
    torch.utils.flop_counter counts them in eager; nothing is counted for the rest. Bytes are a lower bound: each weight
    that any operator reads once (of embedding tables the rows looked up), each input once, each output once, and no
    intermediate results.
    """

    operations: int
    least_bytes: int
    matrix_rate: float
    """Operations a second of one large square matrix product in the run's own number format, TF32 included."""
    copy_rate: float
    """Bytes a second, read and written, of one large copy on the device."""

    @property
    def least_seconds(self) -> float:
        """No call can be much faster; convolutions that save multiplications (Winograd) may be slightly."""
        return max(self.operations / self.matrix_rate, self.least_bytes / self.copy_rate)


@dataclass(frozen=True)
class Measurement:
    """Raw times of one variant (eager, compiled, or the A/A control)."""

    wall_seconds: tuple[float, ...]
    """One synchronised call each, in the order timed: what one caller waits. Without `settling_seconds`."""
    device_seconds: tuple[float, ...] | None
    """The GPU's work in further calls, by CUDA events with the launches queued ahead; None on a CPU."""
    warmup_seconds: tuple[float, ...]
    """Calls before the timing, the first call (which compiles) first."""
    calls_per_block: int
    """Calls of this variant in one A B B A block, both halves together."""
    peak_memory_bytes: int | None = None
    """CUDA: most bytes allocated during a call, weights included; CPU: the process's largest resident set."""
    peak_reserved_bytes: int | None = None
    """CUDA: most bytes that torch's allocator held of the GPU, allocated or not."""
    back_to_back: BackToBack | None = None
    profile: Profile | None = None
    settling_seconds: tuple[float, ...] = ()
    """The first calls after each switch to this variant, in the order timed: slower, and counted in no figure."""
    blocks_apart: int = 1
    """There is a block of the A/A control after every so many blocks of the timing."""

    @property
    def busy_share(self) -> float | None:
        """Share of a call in which the GPU works: its profiled work over the median wall time without a profiler."""
        if self.profile is None or self.profile.busy_seconds is None:
            return None
        return min(1.0, self.profile.busy_seconds / self.median_seconds)

    @property
    def launch_seconds(self) -> float | None:
        """Wall time of a call in which the GPU is idle: the cost of launching kernels, at least 0.

        CUDA events overestimate the GPU's work where a call has more launches than the driver queues (about a
        thousand). The profiler's sum of kernel times, where there is one, is then smaller and is used.
        """
        if not self.device_seconds:
            return None
        works = float(np.median(self.device_seconds))
        if self.profile is not None and self.profile.busy_seconds is not None:
            works = min(works, self.profile.busy_seconds)
        return max(0.0, self.median_seconds - works)

    @property
    def median_seconds(self) -> float:
        return float(np.median(self.wall_seconds))

    @property
    def mean_seconds(self) -> float:
        return float(np.mean(self.wall_seconds))

    @property
    def p95_seconds(self) -> float:
        return float(np.quantile(self.wall_seconds, 0.95))

    @property
    def median_device_seconds(self) -> float | None:
        return float(np.median(self.device_seconds)) if self.device_seconds else None

    def beside(self, other: "Measurement") -> tuple[np.ndarray, np.ndarray]:
        """Seconds of this variant and of `other`, taken beside each other: see `stats.side_by_side`."""
        return stats.side_by_side(self.wall_seconds, other.wall_seconds, self.calls_per_block)

    @property
    def blocks(self) -> np.ndarray:
        """The median call of each block, in seconds."""
        return stats.block_medians(self.wall_seconds, self.calls_per_block)


@dataclass(frozen=True)
class Pair:
    """Eager and compiled, timed in turns."""

    eager: Measurement
    compiled: Measurement
    control_times: Measurement | None = None
    """Eager timed against eager in the same blocks: the A/A control."""


REGISTRY = "https://meta-pytorch.github.io/compile-graph-break-site/gb/"


@dataclass(frozen=True)
class GraphBreak:
    reason: str
    location: str
    """'file.py:123 in forward', or '' where dynamo did not say."""
    hints: tuple[str, ...] = ()
    """What dynamo says may help."""
    number: str = ""
    """Of torch's registry of graph breaks: 'GB0059'; '' where it has none."""

    @property
    def page(self) -> str:
        """The registry's page about this kind of graph break, by the address that torch prints; '' without a number."""
        return f"{REGISTRY}{self.number.lower()}.html" if re.fullmatch(r"GB\d{4}", self.number) else ""


@dataclass(frozen=True)
class CompileCost:
    """One first call of the compiled model, in a process of its own.

    Of a package of AOTInductor: what it takes until it has answered once, built here or only loaded.
    """

    first_call_seconds: float
    """Wall time: it traces, compiles and runs once."""
    parts: dict[str, float]
    """Seconds by part, together the first call: 'dynamo', 'aot_autograd', 'inductor', 'backend compile' (torch's own
    words) and 'first run'; of a package of AOTInductor 'export', 'build', 'load' and 'first run'. 'instruction probe'
    is there only where inductor tried which vector instructions it can compile for: in a process's first call, on a
    CPU."""
    run_id: str = ""
    """The stored run that measured it; '' for this one."""


@dataclass(frozen=True)
class StartUp:
    """What a process does before its first call of the model, where the system tells when it began."""

    import_seconds: float
    """From the start of the process until torch, transformers and this program's own modules are imported."""
    load_seconds: float
    """Until model and inputs are ready on the device: the checkpoint's files read, the picture or prompt prepared."""
    gpu_seconds: float = 0.0
    """Loading cuBLAS, cuDNN and torch's attention, before any call is timed; 0 on a CPU."""


@dataclass(frozen=True)
class Compilation:
    """What torch.compile did during the real compile, as counted by dynamo and inductor themselves."""

    first_call_seconds: float
    """Wall time of the first call of the compiled model: it traces, compiles and runs once."""
    cache: Literal["cold", "warm", "off"]
    """'warm' where inductor found at least one compiled graph on disk and had to compile none."""
    graphs: int
    graph_breaks: tuple[GraphBreak, ...] = ()
    recompiles_while_timing: int = 0
    cudagraphs: str = "not asked"
    """'used', 'not asked', or 'not used: ' or 'used in part: ' and the reason."""
    cold: CompileCost | None = None
    """With nothing of this model in the cache, or a package to be built; None where neither this run nor an earlier one
    on this machine measured it. C++ headers that were compiled before are used all the same."""
    warm: CompileCost | None = None
    """In a further process over the cache that the cold one filled, or that loads the package."""
    partly: bool = False
    """Whether this run's first call was neither: it compiled, and found kernels or programs of the instruction probe in
    the cache, such as those of another model."""
    recompiles: tuple[GraphBreak, ...] = ()
    """Why dynamo compiled a frame again, before the timing or in it."""
    fallbacks: tuple[GraphBreak, ...] = ()
    """Frames that dynamo gave up and left to eager."""
    package_bytes: int | None = None
    """Size of the package of AOTInductor; None with compiler "jit"."""

    @property
    def known_costs(self) -> dict[str, float]:
        """Seconds of a first call by the state of the cache, 'cold' before 'warm': those that were measured. 'partly'
        stands in for a 'cold' that is not known."""
        own = {"warm" if self.cache == "warm" else "cold": self.first_call_seconds}
        named = {"cold": self.cold, "warm": self.warm}
        measured = {cache: cost.first_call_seconds for cache, cost in named.items() if cost is not None}
        if self.partly:
            return measured if "cold" in measured else {"partly": self.first_call_seconds} | measured
        return {cache: (own | measured)[cache] for cache in ("cold", "warm") if cache in own | measured}
