"""Samples what else the machine does during the timing.

Covered: what other processes leave of the usable cores, if the run is on the CPU (Linux, see `demo.core.cores`); on an
NVIDIA GPU its clock, throttle reasons and other processes, through NVML (`nvidia-ml-py`). Not
covered: what happens within a block, since samples are taken between blocks; memory bandwidth and caches that others
use. If /proc or NVML does not answer, that part is unknown and the run goes on.
"""

import contextlib
import os
import time
from collections import deque
from typing import Any

import torch

from demo.backend.machine_probe import ask_nvml
from demo.core import cores
from demo.core.machine import GpuSample, HostSample

SAMPLE_SECONDS = 0.5
"""Between two samples. One costs about a millisecond on a GPU: five NVML calls."""
LATELY_SECONDS = 1.0
"""A core counts as taken after this long: a shorter burst of another program is no reason."""
MIN_SECONDS = 0.25
"""/proc counts in hundredths of a second: over a shorter time they would not tell a quarter of a core."""
_THROTTLES = ("SwThermalSlowdown", "HwThermalSlowdown", "SwPowerCap", "HwPowerBrakeSlowdown", "HwSlowdown")
"""NVML's names, after the prefix nvmlClocksThrottleReason."""


class CoreTaken(Exception):
    """While calls were timed, other programs took a core: so many are free, fewer than torch uses threads."""


class Observer:
    """Samples the machine."""

    def __init__(self, device: torch.device) -> None:
        self._on_cpu = device.type == "cpu"
        self._gpu = Nvml.of(device)
        self.begin()

    def begin(self) -> None:
        """Forgets all samples: a timing begins."""
        self._start = time.perf_counter()
        self._sampled_at = -SAMPLE_SECONDS
        self._readings = deque([(0.0, cores.read())])
        self.samples: list[HostSample] = []

    def sample(self) -> None:
        """Takes a sample, unless the last one is less than half a second old."""
        now = self.seconds
        if now - self._sampled_at < SAMPLE_SECONDS:
            return
        self._sampled_at = now
        (before_at, before), reading = self._readings[-1], cores.read()
        share = free = None
        if self._on_cpu and before is not None and reading is not None:
            share = before.foreign_share(reading)
            free = before.free(reading) if now - before_at >= MIN_SECONDS else None
        gpu = self._gpu.sample() if self._gpu else None
        self.samples.append(HostSample(now, share, gpu, free))
        self._readings.append((now, reading))
        while len(self._readings) > 2 and now - self._readings[1][0] >= LATELY_SECONDS:
            self._readings.popleft()

    def look(self, threads: int) -> None:
        """Takes a sample. Raises CoreTaken where others have lately left fewer cores free than `threads`."""
        self.sample()
        free = self.free_lately()
        if free is not None and free < threads:
            raise CoreTaken(free)

    @property
    def seconds(self) -> float:
        """Since the timing began."""
        return time.perf_counter() - self._start

    def free_lately(self) -> int | None:
        """The cores that others left free over about the last second before the last sample; None if not known yet."""
        (first_at, first), (last_at, last) = self._readings[0], self._readings[-1]
        return cores.left(first, last) if last_at - first_at >= LATELY_SECONDS else None


class Nvml:
    """A GPU in NVML, found by its UUID: CUDA and NVML count devices in different orders."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle

    @classmethod
    def of(cls, device: torch.device) -> "Nvml | None":
        """None on a CPU, without `nvidia-ml-py`, or where the driver refuses (some containers, MIG)."""

        def found(nvml: Any) -> "Nvml":
            uuid = str(torch.cuda.get_device_properties(device).uuid)
            return cls(nvml, nvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"))

        return ask_nvml(found) if device.type == "cuda" else None

    def sample(self) -> GpuSample:
        return GpuSample(
            sm_clock_hz=self._hertz("nvmlDeviceGetClockInfo"),
            largest_sm_clock_hz=self._hertz("nvmlDeviceGetMaxClockInfo"),
            throttle_reasons=self._throttle_reasons(),
            foreign_processes=self._foreign_processes(),
        )

    def _hertz(self, question: str) -> float | None:
        megahertz = self._ask(question, self._nvml.NVML_CLOCK_SM)
        return None if megahertz is None else megahertz * 1e6

    def _throttle_reasons(self) -> tuple[str, ...]:
        mask = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons") or 0
        return tuple(name for name in _THROTTLES if mask & getattr(self._nvml, f"nvmlClocksThrottleReason{name}"))

    def _foreign_processes(self) -> int:
        """Those outside of this worker's group. In a container the driver gives the host's process numbers: one of them
        is then taken to be this process."""
        holders = [process.pid for process in self._ask("nvmlDeviceGetComputeRunningProcesses") or ()]
        if os.getpid() not in holders:
            return max(0, len(holders) - 1)
        ours = 0
        for pid in holders:
            with contextlib.suppress(ProcessLookupError):
                ours += os.getpgid(pid) == os.getpgrp()
        return len(holders) - ours

    def _ask(self, question: str, *more: Any) -> Any:
        """The driver's answer; None where this GPU or this driver does not support the question."""
        try:
            return getattr(self._nvml, question)(self._handle, *more)
        except Exception:  # with a driver older than itself nvidia-ml-py raises errors that are no NVMLError
            return None
