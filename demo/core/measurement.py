"""Measurements of one variant (eager or compiled): times of calls, kernels, memory, and the cost of compiling.

All values are in seconds and bytes. Raw times are stored; values that follow from them are properties.
"""

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True)
class BackToBack:
    """Calls launched one after the other without waiting for results: the throughput of a server with a full queue."""

    calls: int
    seconds: float
    """Time from the first launch until the last result is there."""


@dataclass(frozen=True)
class Kernel:
    """One kernel of a GPU, or one operator of a CPU, with all its launches in one call of the model."""

    name: str
    """The profiler's name, shortened."""
    launches: float
    seconds: float
    share: float
    """`seconds` as a share of the time of all kernels, 0 to 1."""


@dataclass(frozen=True)
class Profile:
    """What torch.profiler counted in calls of one variant.

    These calls are not timed, because profiling slows them.
    """

    kernels: float
    """Launches in one call: of kernels on a GPU, of operators that call no other operator on a CPU. On a CPU all
    kernels of a compiled graph count as one operator, 'Call CompiledFxGraph'."""
    busy_seconds: float | None
    """Seconds of a call in which the GPU ran at least one kernel, copy or fill; None on a CPU."""
    longest: tuple[Kernel, ...]
    """At most five kernels, the longest first."""


@dataclass(frozen=True)
class Roofline:
    """The least work of one call, and how fast the device does a matrix product and a copy: a bound for a call."""

    operations: int
    """Operations of one call in matrix products, convolutions and attention, counted by
    torch.utils.flop_counter."""
    least_bytes: int
    """Bytes of one call if each input, each output and each weight (of an embedding table, the rows looked up)
    moves once. Intermediate results are not counted."""
    matrix_rate: float
    """Operations a second of one large square matrix product in the run's number format, TF32 included."""
    copy_rate: float
    """Bytes a second, read and written, of one large copy on the device."""

    @property
    def least_seconds(self) -> float:
        """The least time of a call.

        Only convolutions that save multiplications (Winograd) may be slightly faster.
        """
        return max(self.operations / self.matrix_rate, self.least_bytes / self.copy_rate)


@dataclass(frozen=True)
class Measurement:
    """Raw times of one variant: eager, compiled, or the A/A control (eager timed against itself).

    Calls come in A B B A blocks: eager, compiled, compiled, eager, each for several calls.
    """

    wall_seconds: tuple[float, ...]
    """Wall time of each timed call until its result is there, in order, without `settling_seconds`."""
    device_seconds: tuple[float, ...] | None
    """GPU time of further calls, by CUDA events with the launches queued ahead; None on a CPU."""
    warmup_seconds: tuple[float, ...]
    """Wall times of the calls before the timing. The first call of a compiled model compiles."""
    calls_per_block: int
    """Number of calls of this variant in one block, both halves together."""
    peak_memory_bytes: int | None = None
    """On a GPU: most bytes allocated during a call, weights included. On a CPU: the process's largest resident
    set."""
    peak_reserved_bytes: int | None = None
    """On a GPU: most bytes that torch's allocator held, used or not. None on a CPU."""
    back_to_back: BackToBack | None = None
    profile: Profile | None = None
    settling_seconds: tuple[float, ...] = ()
    """Wall times of the first calls after each switch to this variant. They are slower and counted nowhere."""
    blocks_apart: int = 1
    """Number of timed blocks for each block of the A/A control; used for the control only."""

    @property
    def busy_share(self) -> float | None:
        """Share (0 to 1) of a call in which the GPU works: `busy_seconds` over the median; None if not profiled."""
        if self.profile is None or self.profile.busy_seconds is None:
            return None
        return min(1.0, self.profile.busy_seconds / self.median_seconds)

    @property
    def launch_seconds(self) -> float | None:
        """Seconds of a call in which the GPU is idle: the cost of launching kernels; None on a CPU."""
        # With more launches in a call than the driver queues (about a thousand), CUDA events overestimate the GPU's
        # work, and the profiler's sum of kernel times is the smaller and better number.
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
        """Number of complete A B B A blocks."""
        return len(self.wall_seconds) // self.calls_per_block


@dataclass(frozen=True)
class Pair:
    """The measurements of eager and compiled, timed in turns."""

    eager: Measurement
    compiled: Measurement
    control_times: Measurement | None = None
    """The A/A control: further eager calls, timed between the blocks, to compare eager with itself."""


@dataclass(frozen=True)
class GraphBreak:
    """A place in the code where dynamo stopped to capture, recompiled or fell back to eager, and why."""

    reason: str
    location: str
    """'file.py:123 in forward'; '' if dynamo did not say."""
    hints: tuple[str, ...] = ()
    """Dynamo's advice, a sentence each."""
    number: str = ""
    """The number in torch's registry of graph breaks: 'GB0059'; '' without a number."""

    @property
    def page(self) -> str:
        """The address of the registry's page for `number`, as torch prints it; '' without a number."""
        site = "https://meta-pytorch.github.io/compile-graph-break-site/gb/"
        return f"{site}{self.number.lower()}.html" if re.fullmatch(r"GB\d{4}", self.number) else ""


@dataclass(frozen=True)
class CompileCost:
    """The time of the compiled model's first call in a process, with its parts."""

    first_call_seconds: float
    """Wall time to trace, compile and run once; for a package of AOTInductor to build or load it and run once."""
    parts: dict[str, float]
    """Seconds by part of the first call; their sum is `first_call_seconds`.

    - torch.compile: 'dynamo', 'aot_autograd', 'inductor', 'backend compile' (torch's own words) and 'first run'. On a
      CPU also 'instruction probe', in which inductor tries the vector instructions, once in a process.
    - A package of AOTInductor: 'export', 'build', 'load' and 'first run'.
    """
    run_id: str = ""
    """Id of the earlier, stored run that measured this cost; '' if this run measured it."""


@dataclass(frozen=True)
class StartUp:
    """The time of a process before its first call of the model. Unknown where the system hides when it began."""

    import_seconds: float
    """Time from the start of the process until torch, transformers and this program's modules are imported."""
    load_seconds: float
    """Time to read the checkpoint's files and prepare the inputs, until both are on the device."""
    gpu_seconds: float = 0.0
    """Time to load cuBLAS, cuDNN and torch's attention before any call is timed; 0 on a CPU."""


@dataclass(frozen=True)
class Compilation:
    """What torch.compile did in this run, as dynamo and inductor count it."""

    first_call_seconds: float
    cache: Literal["cold", "warm", "off"]
    """'warm': inductor found every graph in its cache. 'cold': it compiled at least one. 'off': no cache was
    used."""
    graphs: int
    graph_breaks: tuple[GraphBreak, ...] = ()
    recompiles_while_timing: int = 0
    cudagraphs: str = "not asked"
    """Use of CUDA graphs: 'used', 'not asked', or 'not used: ' or 'used in part: ' with the reason."""
    cold: CompileCost | None = None
    """The first call with nothing of this model in the cache, or with a package to build. C++ headers may be
    compiled already. None if neither this run nor an earlier one on this machine measured it."""
    warm: CompileCost | None = None
    """The first call in a further process that finds all in the cache, or only loads the package; None: unknown."""
    partly: bool = False
    """Whether this run's first call was neither cold nor warm: some kernels, perhaps another model's, were
    cached."""
    recompiles: tuple[GraphBreak, ...] = ()
    """The functions that dynamo compiled again, before or during the timing, and why."""
    fallbacks: tuple[GraphBreak, ...] = ()
    """The functions that dynamo gave up and left to eager, and why."""
    package_bytes: int | None = None
    """Size of the package of AOTInductor; None with compiler "jit"."""

    @property
    def known_costs(self) -> dict[str, float]:
        """Seconds of a first call by the state of the cache: 'cold' or else 'partly', and 'warm', if measured."""
        known = {"partly" if self.partly else "warm" if self.cache == "warm" else "cold": self.first_call_seconds}
        known |= {"cold": self.cold.first_call_seconds} if self.cold is not None else {}
        known |= {"warm": self.warm.first_call_seconds} if self.warm is not None else {}
        if "cold" in known:
            known.pop("partly", None)
        return {cache: known[cache] for cache in ("cold", "partly", "warm") if cache in known}
