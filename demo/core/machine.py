"""Facts about the machine: hardware, versions of software, and the state at one moment."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from demo.core.cores import TAKEN


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Facts that a worker reports before a run and that a result keeps as well."""

    torch: str
    transformers: str
    python: str
    cpu: str
    memory_bytes: int
    """Size of the machine's memory. In the `Environment` of a run on a GPU: size of the GPU's memory."""
    driver: str | None = None
    compute_capability: str | None = None
    """The GPU's compute capability: '8.0'. None without a GPU, or if its driver does not say."""
    triton: str | None = None
    compiler: str | None = None
    """The C++ compiler that inductor calls."""
    cuda_toolkit: str | None = None
    """Name of the CUDA toolkit's folder; None on a CPU, or without the headers to build a package of
    AOTInductor."""

    def facts(self) -> dict[str, Any]:
        """Returns the fields of `Machine` by name, without those of a subclass."""
        return {name: getattr(self, name) for name in Machine.__dataclass_fields__}


@dataclass(frozen=True, kw_only=True)
class Environment(Machine):
    """The machine and the versions with which a run was measured."""

    platform: str
    device_name: str
    """The GPU's name, or the CPU's."""
    cpu_count: int
    threads: int
    """Intra-op threads that torch used during the timing."""
    cuda: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    """How torch computed, as torch itself reports it: attention, memory format, dtype of weights, matrix
    products."""
    free_cores: int | None = None
    """Cores that other programs left free when the timing began, at least 1; None on a GPU and without /proc."""

    @property
    def gave_way(self) -> bool:
        """Whether torch used fewer threads than the machine has cores, because other programs kept cores busy."""
        return self.free_cores is not None and self.threads == self.free_cores < self.cpu_count

    def oversubscribed(self, samples: Sequence["HostSample"]) -> bool:
        """Returns whether, on average over `samples`, fewer cores were free than torch used threads.

        Threads then wait for a core, and calls take longer. False if the number of free cores is not known.
        """
        free = [sample.free_cores for sample in samples if sample.free_cores is not None]
        return bool(free) and sum(free) / len(free) + TAKEN < min(self.threads, self.cpu_count)


@dataclass(frozen=True, kw_only=True)
class HostInfo(Machine):
    """The machine as a worker reports it before a run, found out without using the GPU."""

    modes: tuple[str, ...]
    """The modes of torch.compile that this version of torch has."""
    gpu: str | None
    """The GPU's name; None if torch cannot use a GPU."""
    gpu_problem: str | None
    """Why torch cannot use a GPU that the machine seems to have; None without such a problem."""
    inductor_cache: str
    gpu_memory_bytes: int | None = None
    """Size of the GPU's memory; None without a GPU, or if its driver does not say."""
    compile_problem: str | None = None
    """Why C++ code cannot be compiled here, and what to do, as sentences; None if no problem is known."""
    threads: int | None = None
    """Number of threads that torch uses by default."""

    @property
    def device_name(self) -> str:
        return self.gpu or self.cpu


@dataclass(frozen=True)
class GpuSample:
    """The state of the GPU at one moment, as its driver reports it (NVML).

    None: the driver does not report this.
    """

    sm_clock_hz: float | None
    largest_sm_clock_hz: float | None
    throttle_reasons: tuple[str, ...] = ()
    """NVML's names of the reasons that keep the clock below its target: ('SwPowerCap',)."""
    foreign_processes: int = 0
    """Number of other processes that use this GPU."""


@dataclass(frozen=True)
class HostSample:
    """The state of the machine between two A B B A blocks (eager, compiled, compiled, eager) of the timing."""

    at_seconds: float
    """Seconds since the timing began."""
    foreign_cpu: float | None
    """Share (0 to 1) of the usable cores that other programs used since the last sample; None on a GPU or
    unknown."""
    gpu: GpuSample | None = None
    free_cores: float | None = None
    """Cores that other programs left free since the last sample: 1.7; None if unknown, or too soon after it."""
