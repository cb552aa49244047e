"""Measurements of an eager or a compiled model: times of calls, kernels, memory, and the cost of compiling.

Times are in seconds, sizes in bytes. Raw times are stored; values that follow from them are properties.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

PositiveInt = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
"""Stored numbers that are divisors, or whose logarithms are taken: `codec.from_plain` refuses 0 and less."""

HOST_BOUND_SHARE = 1 / 3
"""If the GPU is idle for more than this share of a call, the call's time depends on the host, and varies with it."""


@dataclass(frozen=True)
class BackToBack:
    """The throughput of calls that are launched without waiting for results, as on a server with a full queue."""

    calls: int
    seconds: float
    """Time from the launch of the first call until the last call's result is there."""
    joules: float | None = None
    """Energy that the whole GPU used during the calls. None on a CPU, or if NVML's energy counter does not grow
    or is missing, as on GPUs older than Volta."""


@dataclass(frozen=True)
class Kernel:
    """A kernel, copy or fill of a GPU, or an operator of a CPU, with its mean launches and time in one call."""

    name: str
    launches: float
    seconds: float
    share: float
    """`seconds` as a share of the time of all kernels, copies and fills, or of all operators, 0 to 1."""


@dataclass(frozen=True)
class Profile:
    """Counts and times of torch.profiler in additional calls. No latency is from these calls: profiling slows them."""

    kernels: float
    """Launches in one call of the model: kernels on a GPU, operators that call no other operator on a CPU.

    On a CPU a whole compiled graph counts as one operator, 'Call CompiledFxGraph'."""
    busy_seconds: float | None
    """Seconds of a call during which the GPU ran a kernel, copy or fill; None on a CPU."""
    longest: tuple[Kernel, ...]
    """Up to five kernels, those with the most time in a call first."""
    outside_graphs: float | None = None
    """Number of kernels that a call launched one by one, outside of CUDA graphs. Copies do not count. None on a CPU."""


@dataclass(frozen=True)
class Roofline:
    """Figures that bound the time of a call: its least operations and bytes, and the device's highest rate of each."""

    operations: int
    """Operations of one call in matrix products, convolutions and attention, from torch.utils.flop_counter."""
    least_bytes: int
    """Bytes of one call if each input, output and weight moves once. Intermediate results are not counted."""
    matrix_rate: float
    """Operations a second in one large square matrix product with the run's number format and its setting of TF32."""
    copy_rate: float
    """Bytes a second, read and written, of one large copy on the device."""

    @property
    def least_seconds(self) -> float:
        """The least seconds that a call should need by this roofline.

        A real call may need less if its convolutions save multiplications (Winograd).
        """
        return max(self.operations / self.matrix_rate, self.least_bytes / self.copy_rate)


@dataclass(frozen=True)
class Measurement:
    """What was measured for one model, eager or compiled: times of its calls, memory, profile.

    Eager and compiled are timed in turns. A block is a few calls each of eager, compiled, compiled and eager. With the
    protocol 'as published' all eager calls are timed first, then all compiled calls. If memory cannot hold both models,
    all compiled calls are timed first.
    """

    wall_seconds: tuple[float, ...]
    """Wall time of each timed call until its result is there, in order."""
    device_seconds: tuple[float, ...] | None
    """Seconds of GPU work in each of 3 to 20 further calls, by CUDA events; None on a CPU."""
    warmup_seconds: tuple[float, ...]
    """Wall times of the calls before the timing. The first one of a compiled model includes the compile."""
    calls_per_block: PositiveInt
    """Number of timed calls of this model in one block: its two turns in the block, added."""
    peak_memory_bytes: int | None = None
    """On a GPU: most bytes allocated in a call, weights included. On a CPU: largest resident set of the process."""
    peak_reserved_bytes: int | None = None
    """On a GPU: most bytes that torch's allocator held, used or not. None on a CPU."""
    back_to_back: BackToBack | None = None
    profile: Profile | None = None
    settling_seconds: tuple[float, ...] = ()
    """Wall times of calls just after a switch between eager and compiled. They are slower, and do not count."""
    blocks_apart: PositiveInt = 1
    """In `control_times`: 1 if control calls follow each block; 3 if they follow the first, and every third after it.

    In other measurements it has no meaning."""

    @property
    def busy_share(self) -> float | None:
        """Share of a call, 0 to 1, during which the GPU works; None on a CPU, or if not profiled."""
        if self.profile is None or self.profile.busy_seconds is None:
            return None
        return min(1.0, self.profile.busy_seconds / self.median_seconds)

    @property
    def launch_seconds(self) -> float | None:
        """Seconds of a call during which the GPU idles because kernels are still being launched.

        None on a CPU, or if not measured.
        """
        # With more launches in a call than the driver queues (about a thousand), CUDA events overestimate the GPU's
        # work, and the profiler's sum of kernel times is the smaller and better number.
        busy = self.median_device_seconds
        if busy is None:
            return None
        if self.profile is not None and self.profile.busy_seconds is not None:
            busy = min(busy, self.profile.busy_seconds)
        return max(0.0, self.median_seconds - busy)

    @property
    def launch_share(self) -> float | None:
        """`launch_seconds` as a share of a call, 0 to 1; None on a CPU, or if not measured."""
        return None if self.launch_seconds is None else self.launch_seconds / self.median_seconds

    @property
    def host_bound(self) -> bool | None:
        """Whether the GPU idles for more than a third of a call, because the host is still launching kernels.

        None on a CPU, or if not measured.
        """
        return None if self.launch_share is None else self.launch_share > HOST_BOUND_SHARE

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
        return len(self.wall_seconds) // self.calls_per_block


@dataclass(frozen=True)
class Pair:
    """The measurements of an eager model and of its compiled version."""

    eager: Measurement
    compiled: Measurement
    control_times: Measurement | None = None
    """A second series of eager calls, timed between the blocks, to see how far equal calls differ."""


@dataclass(frozen=True)
class GraphBreak:
    """One graph break, recompile or fallback to eager: where in the code it happened, and dynamo's reason for it."""

    reason: str
    location: str
    """'file.py:123' for a graph break; '' if dynamo did not say.

    For a recompile or a fallback: the function's first line, 'file.py:99 in f'."""
    hints: tuple[str, ...] = ()
    number: str = ""
    """Number in torch's registry of graph breaks: 'GB0059'; '' if it has none."""

    @property
    def page(self) -> str:
        site = "https://meta-pytorch.github.io/compile-graph-break-site/gb/"
        return f"{site}{self.number.lower()}.html" if re.fullmatch(r"GB\d{4}", self.number) else ""


@dataclass(frozen=True)
class CompileCost:
    """The time of a compiled model's first call in a process, with its parts."""

    first_call_seconds: PositiveFloat
    """Wall time to trace, compile and run once. For AOTInductor: to build or load its package and run once."""
    parts: dict[str, float]
    """Seconds of each part; their sum is `first_call_seconds`.

    - torch.compile: 'dynamo', 'aot_autograd', 'inductor', 'backend compile' (torch's own words) and 'first run'. Older
      results of a CPU also have 'instruction probe', which is no part of `model_seconds`.
    - AOTInductor: 'export', 'build', 'load' and 'first run'.
    """
    run_id: str = ""
    """Id of the stored run that measured this cost; '' if this run did."""

    @property
    def model_seconds(self) -> float:
        """`first_call_seconds` without inductor's instruction probe, whose time does not depend on the model."""
        return self.first_call_seconds - self.parts.get("instruction probe", 0.0)


@dataclass(frozen=True)
class InstructionProbe:
    """The times of inductor's instruction probe, which finds a CPU's vector instructions before the first compile.

    None in a field: the time is not known.
    """

    built_seconds: float | None = None
    """Seconds to build and load the programs of the instruction probe, once for each machine and compile cache."""
    loaded_seconds: float | None = None
    """Seconds in which a process loads programs that an earlier process built."""


@dataclass(frozen=True)
class StartUp:
    """The time that a process takes before it first calls the model."""

    import_seconds: float
    """Time from the start of the process until torch, transformers and this program are imported."""
    load_seconds: float
    gpu_seconds: float = 0.0
    """Time to load cuBLAS, cuDNN and torch's attention; 0 on a CPU."""


@dataclass(frozen=True)
class CudaGraphs:
    """Whether the kernels of the compiled model were launched as CUDA graphs."""

    state: Literal["used", "used in part", "skipped", "not asked"] = "not asked"
    """How many kernels were launched by CUDA graphs.

    - 'used': no kernel is known to be launched outside of a graph. 'used in part': some were.
    - 'skipped': no graph was recorded. 'not asked': the mode records none."""
    reason: str = ""
    """Why not all kernels were in CUDA graphs, or why this is not known. '' if all were, or for 'not asked'."""

    def with_counts(self, profile: Profile) -> "CudaGraphs":
        """Returns 'used in part' instead of 'used' if `profile` counted kernels outside of CUDA graphs.

        Returns this object unchanged if its state is not 'used', or if `profile` did not count these kernels.
        """
        if self.state != "used" or profile.outside_graphs is None:
            return self
        if not profile.outside_graphs:
            return CudaGraphs("used")
        outside, kernels = round(profile.outside_graphs, 1), round(profile.kernels, 1)
        return CudaGraphs("used in part", f"of {kernels:g} kernels a call {outside:g} are launched outside of them")


@dataclass(frozen=True)
class Compilation:
    """What torch.compile did in this run, as counted by dynamo and inductor."""

    first_call_seconds: float
    cache: Literal["cold", "warm", "off"]
    """'warm': inductor found every graph in its cache. 'cold': it compiled at least one. 'off': no cache was used."""
    graphs: int
    graph_breaks: tuple[GraphBreak, ...] = ()
    recompiles_while_timing: int = 0
    cuda_graphs: CudaGraphs = CudaGraphs()
    cold: CompileCost | None = None
    """Cost of a first call that finds no code of the model in the compile cache. For AOTInductor: of a first
    call that builds the package. None if not known."""
    warm: CompileCost | None = None
    """Cost of a first call that finds all code in the compile cache. For AOTInductor: of a first call that
    loads the package. None if not known."""
    partly: bool = False
    """Whether this run's first call found some kernels in the cache, but not all. The call is neither cold nor warm."""
    recompiles: tuple[GraphBreak, ...] = ()
    fallbacks: tuple[GraphBreak, ...] = ()
    """Functions that dynamo left to eager, and why."""
    package_bytes: int | None = None
    """Size of AOTInductor's package; None for torch.compile."""
    probe: InstructionProbe | None = None
    """Times of inductor's instruction probe, which ran before the first call; None on a GPU and in older results."""

    @property
    def own_start(self) -> str:
        """The key of `known_costs` for this run's own first call: 'cold', 'partly' or 'warm'.

        If the call found some of its code, the key is 'partly'. But if `known_costs` has no 'partly', the key is 'warm'
        for a call that took no longer than the 'warm' time, and else 'cold'.
        """
        known = self.known_costs
        if self._own_state in known:
            return self._own_state
        return "warm" if self.first_call_seconds <= known.get("warm", 0.0) else "cold"

    @property
    def _own_state(self) -> str:
        return "partly" if self.partly else "warm" if self.cache == "warm" else "cold"

    @property
    def instruction_probe(self) -> InstructionProbe:
        """The times of inductor's instruction probe: `probe`, or in older results a part of `cold` and of `warm`."""
        if self.probe is not None:
            return self.probe
        parts = [cost.parts if cost is not None else {} for cost in (self.cold, self.warm)]
        return InstructionProbe(*(seconds.get("instruction probe") for seconds in parts))

    @property
    def known_costs(self) -> dict[str, float]:
        """Seconds of a process's first compiled call, by the state of the compile cache when the process starts.

        - 'cold': the cache has no code of this model. 'partly': it has some of the code. 'warm': it has all of it.
        - States whose time is not known are missing. 'partly' is also missing if 'cold' is known, or if the call with
          the partly filled cache took no longer than the 'warm' one.
        - The times leave out inductor's instruction probe, except the 'partly' time of an older result.
        """
        known = {self._own_state: self.first_call_seconds}
        known |= {"cold": self.cold.model_seconds} if self.cold is not None else {}
        known |= {"warm": self.warm.model_seconds} if self.warm is not None else {}
        # A first call that took no longer than from a filled cache found nearly all in it.
        if "cold" in known or known.get("partly", 0.0) <= known.get("warm", 0.0):
            known.pop("partly", None)
        return {cache: known[cache] for cache in ("cold", "partly", "warm") if cache in known}
