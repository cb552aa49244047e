"""Facts about a machine: hardware, versions of software, and its state at one moment."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .cores import TAKEN


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Facts about a machine that are known before a run starts, and are stored with its result.

    In the `Environment` of a run on a CPU, `driver`, `compute_capability` and `cuda_toolkit` are None.
    """

    torch: str
    transformers: str
    python: str
    cpu: str
    memory_bytes: int
    """Memory of the machine, or what its control groups allow; in the `Environment` of a run on a GPU, the GPU's."""
    driver: str | None = None
    compute_capability: str | None = None
    """The GPU's compute capability, such as '8.0'; None without a GPU, or if its driver does not say."""
    triton: str | None = None
    compiler: str | None = None
    """The C++ compiler that inductor calls, with its version."""
    cuda_toolkit: str | None = None
    """Name of the CUDA toolkit's folder, without its path; None without the headers that AOTInductor needs."""

    def facts(self) -> dict[str, Any]:
        """Returns the fields of `Machine` by name; without the fields that a subclass adds."""
        return {name: getattr(self, name) for name in Machine.__dataclass_fields__}


@dataclass(frozen=True, kw_only=True)
class Environment(Machine):
    """The machine and the versions of software with which a run was measured."""

    platform: str
    device_name: str
    cpu_count: int
    threads: int
    """Threads that torch used for one operation during the timing."""
    cuda: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    """Settings in force, such as attention, memory format and vector instructions, and variables that change speed."""
    free_cores: int | None = None
    """Whole cores that other programs left free while the model was loaded, at least 1.

    If threads were lowered just before the timing or during it, their new number. None on a GPU, or if not known."""

    @property
    def gave_way(self) -> bool:
        """Whether torch used one thread for each free core, and other programs kept cores of the machine busy."""
        return self.free_cores is not None and self.threads == self.free_cores < self.cpu_count

    def oversubscribed(self, samples: Sequence["HostSample"]) -> bool:
        """Returns whether torch used more threads than cores were free, on average over `samples`."""
        free = [sample.free_cores for sample in samples if sample.free_cores is not None]
        return bool(free) and sum(free) / len(free) + TAKEN < min(self.threads, self.cpu_count)


@dataclass(frozen=True, kw_only=True)
class HostInfo(Machine):
    """Facts about a machine that are found before a run, without using the machine's GPU."""

    modes: tuple[str, ...]
    gpu: str | None
    """Name of the GPU; None if torch cannot use one."""
    gpu_problem: str | None
    """Why torch cannot use a GPU that the machine seems to have; else None."""
    inductor_cache: str
    torch_folder: str = ""
    """Folder from which a worker process imports torch."""
    gpu_memory_bytes: int | None = None
    compile_problem: str | None = None
    """Why torch.compile can build no code here, and what to do, in sentences; None if no problem is known."""
    threads: int | None = None
    """Threads that torch uses by default."""
    probe_seconds: float | None = None
    """Seconds of inductor's instruction probe: it compiles small programs to find the CPU's vector instructions. None
    if it has not run, or if its time is not known."""
    compiler_seconds: float | None = None
    """Processor time that the C++ compiler took for the longest program of the instruction probe. It tells how fast the
    machine compiles. None if not measured."""

    @property
    def device_name(self) -> str:
        return self.gpu or self.cpu


@dataclass(frozen=True)
class GpuSample:
    """The state of a GPU at one moment. A clock is None if the GPU's driver (NVML) does not report it."""

    sm_clock_hz: float | None
    largest_sm_clock_hz: float | None
    throttle_reasons: tuple[str, ...] = ()
    """Reasons of heat or power why the clock is below its target, in NVML's words: ('SwPowerCap',)."""
    foreign_processes: int = 0


@dataclass(frozen=True)
class HostSample:
    """The state of a machine at one moment of the timing."""

    at_seconds: float
    """Seconds since the timing began."""
    foreign_cpu: float | None
    """Share of the cores, 0 to 1, that other programs used since the last sample; None on a GPU, or if not known."""
    gpu: GpuSample | None = None
    free_cores: float | None = None
    """Cores that other programs left free since the last sample, not rounded: 1.7; None if not known."""
    host_taken: float | None = None
    """Share of the time since the last sample, 0 to 1, in which the main thread was ready to run but did not run.

    The thread waited for a core, or a hypervisor ran other machines. None in a run on a CPU, or if not known."""
