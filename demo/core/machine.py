"""The machine: its hardware and versions, and its state at a moment."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from demo.core.cores import TAKEN


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a waiting worker knows of the machine and the versions, and a result keeps."""

    torch: str
    transformers: str
    python: str
    cpu: str
    memory_bytes: int
    """The machine's; in the `Environment` of a run on a GPU, the GPU's."""
    driver: str | None = None
    compute_capability: str | None = None
    """'8.0'; None without a GPU, or if its driver does not say."""
    triton: str | None = None
    compiler: str | None = None
    """The C++ compiler that inductor calls."""
    cuda_toolkit: str | None = None
    """On a GPU: the name of the CUDA toolkit's folder, if it has the headers that packages are built with."""

    def facts(self) -> dict[str, Any]:
        """The fields of `Machine` alone."""
        return {name: getattr(self, name) for name in Machine.__dataclass_fields__}


@dataclass(frozen=True, kw_only=True)
class Environment(Machine):
    """The machine and the versions with which a run was measured."""

    platform: str
    device_name: str
    """The GPU's name, or the CPU's."""
    cpu_count: int
    threads: int
    """Intra-op threads of torch, in the timing."""
    cuda: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    """How torch computed, read back from it: attention, memory format, dtype of weights, matrix products, spinning."""
    free_cores: int | None = None
    """Cores that others left free when the timing began, at least 1; None on a GPU and without /proc."""

    @property
    def gave_way(self) -> bool:
        """Whether torch got fewer threads because other processes kept cores busy."""
        return self.free_cores is not None and self.threads == self.free_cores < self.cpu_count

    def oversubscribed(self, samples: Sequence["HostSample"]) -> bool:
        """Whether fewer cores were free than torch used threads, on average over these samples; False if not known.

        Threads then wait for a core. How much that lengthens a variant depends on how often its threads meet.
        """
        free = [sample.free_cores for sample in samples if sample.free_cores is not None]
        return bool(free) and sum(free) / len(free) + TAKEN < min(self.threads, self.cpu_count)


@dataclass(frozen=True, kw_only=True)
class HostInfo(Machine):
    """The machine as a waiting worker sees it before a run, without using the GPU."""

    modes: tuple[str, ...]
    """The compile modes that this torch offers."""
    gpu: str | None
    """None if torch cannot use one."""
    gpu_problem: str | None
    """Why torch cannot use a GPU that the machine seems to have."""
    inductor_cache: str
    gpu_memory_bytes: int | None = None
    """None without a GPU, or if its driver does not say."""
    compile_problem: str | None = None
    """Why a small C++ extension cannot be built and loaded here, with what to do; None if nothing hints at that."""
    threads: int | None = None
    """What torch uses by itself."""

    @property
    def device_name(self) -> str:
        return self.gpu or self.cpu


@dataclass(frozen=True)
class GpuSample:
    """The GPU at one moment, as its driver reports it (NVML). None: a value that it does not report."""

    sm_clock_hz: float | None
    largest_sm_clock_hz: float | None
    throttle_reasons: tuple[str, ...] = ()
    """NVML's names of what keeps the clock below its target, such as 'SwPowerCap'."""
    foreign_processes: int = 0
    """Other processes that hold a context on this GPU."""


@dataclass(frozen=True)
class HostSample:
    """The machine between two blocks of the timing, never inside one."""

    at_seconds: float
    """Since the timing began."""
    foreign_cpu: float | None
    """Share of the usable cores that others used since the last sample, 0 to 1; None without /proc and on a GPU."""
    gpu: GpuSample | None = None
    free_cores: float | None = None
    """Cores that other processes left since the last sample, with fraction; None also just after it."""
