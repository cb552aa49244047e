"""The machine: its hardware and versions, and its state at a moment."""

from __future__ import annotations

import os
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Environment:
    """The machine and the versions with which a run was measured."""

    torch: str
    transformers: str
    python: str
    platform: str
    device_name: str
    """The GPU's name, or the CPU's."""
    cpu: str
    cpu_count: int
    threads: int
    """Intra-op threads of torch."""
    memory_bytes: int
    """The GPU's memory, or the machine's."""
    driver: str | None = None
    cuda: str | None = None
    compute_capability: str | None = None
    triton: str | None = None
    compiler: str | None = None
    """The C++ compiler that inductor calls."""
    settings: dict[str, str] = field(default_factory=dict)
    """How torch computed, read back from it: attention, memory format, dtype of the weights, matrix products."""


@dataclass(frozen=True)
class HostInfo:
    """The machine as a waiting worker sees it before a run, without using the GPU."""

    torch: str
    transformers: str
    python: str
    cpu: str
    memory_bytes: int
    modes: tuple[str, ...]
    """The compile modes that this torch offers."""
    compiler: str | None
    gpu: str | None
    """None where torch cannot use one; `gpu_problem` then says why, if the machine seems to have one."""
    driver: str | None
    gpu_problem: str | None
    triton: str | None
    inductor_cache: str
    gpu_memory_bytes: int | None = None
    """None without a GPU, and where its driver does not say."""

    @property
    def device_name(self) -> str:
        return self.gpu or self.cpu


@dataclass(frozen=True)
class GpuSample:
    """The GPU at one moment, as its driver reports it (NVML). None where it does not report a value."""

    sm_clock_hz: float | None
    largest_sm_clock_hz: float | None
    temperature_celsius: float | None
    power_watts: float | None
    throttle_reasons: tuple[str, ...] = ()
    """'thermal', 'power', 'hardware', 'software': why the clock is below its target. Idling is not listed."""
    foreign_processes: int = 0
    """Other processes that hold a context on this GPU."""


@dataclass(frozen=True)
class HostSample:
    """The machine between two blocks of the timing, never inside one."""

    at_seconds: float
    """Since the timing began."""
    foreign_cpu: float | None
    """Share of all cores that other processes used since the last sample, 0 to 1; None without /proc."""
    gpu: GpuSample | None = None


def usable_cores() -> int:
    """The CPU cores that this process may use, which in a container can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
