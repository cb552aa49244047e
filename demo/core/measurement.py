"""What is measured of one variant: its calls, its kernels, and the cost of compiling it.

Seconds and bytes. Raw times are stored; whatever can be computed from them is a property.
"""

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np


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
    """The profiler's name, shorten."""
    launches: float
    seconds: float
    share: float
    """Share of the time of all kernels, 0 to 1."""


@dataclass(frozen=True)
class Profile:
    """What torch.profiler saw of one variant, in a pass of its own: profiling slows the calls down."""

    kernels: float
    """Launches in a call: on a GPU of kernels, on a CPU of operators that call no other operator.

    Kernels that inductor compiled for a CPU are not listed one by one: together they are 'Call CompiledFxGraph'.
    """
    busy_seconds: float | None
    """Seconds of a call in which the GPU ran a kernel, a copy or a fill, overlaps counted once; None on a CPU."""
    longest: tuple[Kernel, ...]
    """At most five, the longest first."""


@dataclass(frozen=True)
class Roofline:
    """The least work of one call, and the rates that the device reached in a matrix product and in a plain copy."""

    operations: int
    """Of matrix products, convolutions and attention, as torch.utils.flop_counter counts them in eager."""
    least_bytes: int
    """Each weight that is read (the rows looked up in an embedding table), each input and each output once. A lower
    bound: intermediate results are not counted."""
    matrix_rate: float
    """Operations a second of one large square matrix product in the run's own number format, TF32 included."""
    copy_rate: float
    """Bytes a second, read and written, of one large copy on the device."""

    @property
    def least_seconds(self) -> float:
        """A bound for a call. Only convolutions that save multiplications (Winograd) may be slightly faster."""
        return max(self.operations / self.matrix_rate, self.least_bytes / self.copy_rate)


@dataclass(frozen=True)
class Measurement:
    """Raw times of one variant (eager, compiled, or the A/A control)."""

    wall_seconds: tuple[float, ...]
    """One synchronised call each, in the order timed, without `settling_seconds`: what one caller waits."""
    device_seconds: tuple[float, ...] | None
    """The GPU's work in further calls, by CUDA events with the launches queued ahead; None on a CPU."""
    warmup_seconds: tuple[float, ...]
    """Calls before the timing, from the first, which compiles."""
    calls_per_block: int
    """Of this variant in one A B B A block, both halves together."""
    peak_memory_bytes: int | None = None
    """CUDA: most bytes allocated during a call, weights included. CPU: the process's largest resident set."""
    peak_reserved_bytes: int | None = None
    """CUDA: most bytes that torch's allocator held, allocated or not."""
    back_to_back: BackToBack | None = None
    profile: Profile | None = None
    settling_seconds: tuple[float, ...] = ()
    """The first calls after each switch to this variant: slower, and counted in no figure."""
    blocks_apart: int = 1
    """Of the A/A control: blocks of the timing for each of its own."""

    @property
    def busy_share(self) -> float | None:
        """Share of a call in which the GPU works: its profiled work over the median without a profiler."""
        if self.profile is None or self.profile.busy_seconds is None:
            return None
        return min(1.0, self.profile.busy_seconds / self.median_seconds)

    @property
    def launch_seconds(self) -> float | None:
        """Wall time of a call in which the GPU is idle: the cost of launching kernels, at least 0.

        CUDA events overestimate the GPU's work if a call has more launches than the driver queues (about a thousand).
        The profiler's sum of kernel times is then smaller.
        """
        busy = self.median_device_seconds
        if busy is None:
            return None
        if self.profile is not None and self.profile.busy_seconds is not None:
            busy = min(busy, self.profile.busy_seconds)
        return max(0.0, self.median_seconds - busy)

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

    @property
    def blocks(self) -> int:
        """Complete blocks."""
        return len(self.wall_seconds) // self.calls_per_block


@dataclass(frozen=True)
class Pair:
    """Eager and compiled, timed in turns."""

    eager: Measurement
    compiled: Measurement
    control_times: Measurement | None = None
    """Eager timed against eager in the same blocks: the A/A control."""


@dataclass(frozen=True)
class GraphBreak:
    reason: str
    location: str
    """'file.py:123 in forward'; '' if dynamo did not say."""
    hints: tuple[str, ...] = ()
    """What dynamo says may help."""
    number: str = ""
    """In torch's registry of graph breaks: 'GB0059'; '' if it has none."""

    @property
    def page(self) -> str:
        """The registry's page, by the address that torch prints; '' without a number."""
        site = "https://meta-pytorch.github.io/compile-graph-break-site/gb/"
        return f"{site}{self.number.lower()}.html" if re.fullmatch(r"GB\d{4}", self.number) else ""


@dataclass(frozen=True)
class CompileCost:
    """One first call of the compiled model, in a process of its own.

    For a package of AOTInductor: until it has answered once, built here or only loaded.
    """

    first_call_seconds: float
    """Wall time: it traces, compiles and runs once."""
    parts: dict[str, float]
    """Seconds by part, together the first call.

    - torch.compile: 'dynamo', 'aot_autograd', 'inductor', 'backend compile' (torch's own words) and 'first run'. In a
      process's first call on a CPU also 'instruction probe': inductor tries which vector instructions it can compile.
    - A package of AOTInductor: 'export', 'build', 'load' and 'first run'.
    """
    run_id: str = ""
    """The stored run that measured it; '' for this one."""


@dataclass(frozen=True)
class StartUp:
    """What a process does before its first call of the model. Needs a system that tells when a process began."""

    import_seconds: float
    """From the start of the process until torch, transformers and this program's own modules are imported."""
    load_seconds: float
    """Reading the checkpoint's files and preparing the inputs, until both are on the device."""
    gpu_seconds: float = 0.0
    """Loading cuBLAS, cuDNN and torch's attention, before any call is timed; 0 on a CPU."""


@dataclass(frozen=True)
class Compilation:
    """What torch.compile did, as counted by dynamo and inductor themselves."""

    first_call_seconds: float
    cache: Literal["cold", "warm", "off"]
    """'warm': inductor found at least one compiled graph on disk and had to compile none."""
    graphs: int
    graph_breaks: tuple[GraphBreak, ...] = ()
    recompiles_while_timing: int = 0
    cudagraphs: str = "not asked"
    """'used', 'not asked', or 'not used: ' or 'used in part: ' and the reason."""
    cold: CompileCost | None = None
    """With nothing of this model in the cache, or a package to be built. None if neither this run nor an earlier one on
    this machine measured it. C++ headers that were compiled before are used all the same."""
    warm: CompileCost | None = None
    """In a further process over the cache that the cold one filled, or that loads the package."""
    partly: bool = False
    """This run's first call was neither: it compiled, but found a part in the cache, such as another model's."""
    recompiles: tuple[GraphBreak, ...] = ()
    """Why dynamo compiled a frame again, before the timing or in it."""
    fallbacks: tuple[GraphBreak, ...] = ()
    """Frames that dynamo gave up and left to eager."""
    package_bytes: int | None = None
    """Size of the package of AOTInductor; None with compiler "jit"."""

    @property
    def known_costs(self) -> dict[str, float]:
        """Seconds of a first call by the state of the cache, as far as measured: 'cold', else 'partly'; then 'warm'."""
        known = {"partly" if self.partly else "warm" if self.cache == "warm" else "cold": self.first_call_seconds}
        known |= {"cold": self.cold.first_call_seconds} if self.cold is not None else {}
        known |= {"warm": self.warm.first_call_seconds} if self.warm is not None else {}
        if "cold" in known:
            known.pop("partly", None)
        return {cache: known[cache] for cache in ("cold", "partly", "warm") if cache in known}
