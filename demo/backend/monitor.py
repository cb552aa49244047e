"""What else the machine is doing while it times: looked at between blocks, never inside one.

On a GPU the driver tells through NVML (`nvidia-ml-py`); where that is missing or refuses, nothing is known of the GPU
and the run goes on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from demo.core import format as fmt
from demo.core.result import GpuState, MachineState

LOOK_EVERY_SECONDS = 0.5
"""A look costs about a millisecond on a GPU: five NVML calls."""
BUSY_CPU = 0.10
CLOCK_CHANGE = 0.10
LOW_CLOCK = 0.75
"""nvbench sets aside what was measured under three quarters of the largest clock."""

_THROTTLES = {
    "thermal": ("SwThermalSlowdown", "HwThermalSlowdown"),
    "power": ("SwPowerCap", "HwPowerBrakeSlowdown"),
    "hardware": ("HwSlowdown",),
    "software": ("ApplicationsClocksSetting", "SyncBoost"),
}
"""Our words, and NVML's, which begin with nvmlClocksThrottleReason."""


class Observer:
    """Takes looks at the machine from its creation on, and reads the GPU's energy counter."""

    def __init__(self, device: torch.device) -> None:
        self._gpu = _Nvml.of(device)
        self._start = time.perf_counter()
        self._looked_at = -LOOK_EVERY_SECONDS
        self._jiffies = _jiffies()
        self.states: list[MachineState] = []

    def look(self) -> None:
        """One more `MachineState`, unless the last one is half a second young."""
        now = time.perf_counter() - self._start
        if now - self._looked_at < LOOK_EVERY_SECONDS:
            return
        self._looked_at = now
        before, self._jiffies = self._jiffies, _jiffies()
        self.states.append(MachineState(now, _foreign(before, self._jiffies), self._gpu.state() if self._gpu else None))

    def energy_joules(self) -> float | None:
        """The GPU's counter since its driver was loaded; None where it has none (before Volta)."""
        return self._gpu.energy_joules() if self._gpu else None


def warnings(states: Sequence[MachineState]) -> list[str]:
    """What the looks say against the figures, in plain words."""
    told = []
    foreign = [state.foreign_cpu for state in states if state.foreign_cpu is not None]
    if foreign and (mean := sum(foreign) / len(foreign)) > BUSY_CPU:
        told.append(f"Other processes kept {fmt.percent(mean)} of the processor busy while it was timed.")
    gpus = [state.gpu for state in states if state.gpu is not None]
    neighbours = max((gpu.foreign_processes for gpu in gpus), default=0)
    if neighbours:
        told.append(f"{neighbours} other {'process' if neighbours == 1 else 'processes'} used this GPU as well.")
    clocks = [gpu.sm_clock_hz for gpu in gpus if gpu.sm_clock_hz]
    if clocks and max(clocks) > min(clocks) * (1 + CLOCK_CHANGE):
        told.append(
            f"The GPU's clock moved between {min(clocks) / 1e6:.0f} and {max(clocks) / 1e6:.0f} MHz while it was timed."
        )
    limits = [gpu.largest_sm_clock_hz for gpu in gpus if gpu.largest_sm_clock_hz]
    if clocks and limits and sum(clocks) / len(clocks) < LOW_CLOCK * max(limits):
        told.append(
            f"The GPU ran at {sum(clocks) / len(clocks) / 1e6:.0f} MHz, well below its {max(limits) / 1e6:.0f} MHz."
        )
    reasons = {reason for gpu in gpus for reason in gpu.throttle_reasons}
    if "thermal" in reasons:
        hottest = max((gpu.temperature_celsius for gpu in gpus if gpu.temperature_celsius is not None), default=None)
        told.append("The GPU slowed down because it was hot" + (f" ({hottest:.0f} °C)." if hottest else "."))
    if "power" in reasons:
        told.append("The GPU slowed down at its power limit.")
    if "hardware" in reasons:
        told.append("The GPU's hardware slowed it down (heat or power supply).")
    return told


def _jiffies() -> tuple[int, int, int] | None:
    """(all, busy, own) processor time so far, in clock ticks of all cores; None where /proc does not say."""
    try:
        ticks = [int(value) for value in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        after_name = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    idle = ticks[3] + ticks[4]
    return sum(ticks), sum(ticks) - idle, int(after_name[11]) + int(after_name[12])


def _foreign(before: tuple[int, int, int] | None, after: tuple[int, int, int] | None) -> float | None:
    """Share of all cores that was busy for others between two readings."""
    if before is None or after is None or after[0] <= before[0]:
        return None
    total, busy, own = (late - early for early, late in zip(before, after, strict=True))
    return min(1.0, max(0.0, (busy - own) / total))


class _Nvml:
    """The device by NVML, found by its UUID: CUDA and NVML count devices in different orders."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle

    @classmethod
    def of(cls, device: torch.device) -> _Nvml | None:
        """None on a CPU, without `nvidia-ml-py`, or where the driver refuses (some containers, MIG)."""
        if device.type != "cuda":
            return None
        try:
            import pynvml

            pynvml.nvmlInit()
            uuid = str(torch.cuda.get_device_properties(device).uuid)
            return cls(pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"))
        except Exception:
            return None

    def state(self) -> GpuState:
        nvml = self._nvml
        clock = self._ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM)
        largest = self._ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM)
        power = self._ask("nvmlDeviceGetPowerUsage")
        temperature = self._ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU)
        return GpuState(
            sm_clock_hz=clock * 1e6 if clock is not None else None,
            largest_sm_clock_hz=largest * 1e6 if largest is not None else None,
            temperature_celsius=float(temperature) if temperature is not None else None,
            power_watts=power / 1e3 if power is not None else None,
            throttle_reasons=self._throttle_reasons(),
            foreign_processes=self._foreign_processes(),
        )

    def energy_joules(self) -> float | None:
        millijoules = self._ask("nvmlDeviceGetTotalEnergyConsumption")
        return None if millijoules is None else millijoules / 1e3

    def _throttle_reasons(self) -> tuple[str, ...]:
        mask = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons") or 0
        return tuple(
            reason
            for reason, names in _THROTTLES.items()
            if any(mask & getattr(self._nvml, f"nvmlClocksThrottleReason{name}") for name in names)
        )

    def _foreign_processes(self) -> int:
        """In a container the driver names processes by the host's numbers: then one of them is taken for this one."""
        holders = [process.pid for process in self._ask("nvmlDeviceGetComputeRunningProcesses") or ()]
        return sum(pid != os.getpid() for pid in holders) if os.getpid() in holders else max(0, len(holders) - 1)

    def _ask(self, question: str, *more: Any) -> Any:
        """The driver's answer; None where this GPU or this driver does not know the question.

        Of a driver that is older than it NVML's Python says so with errors that are no NVMLError.
        """
        try:
            return getattr(self._nvml, question)(self._handle, *more)
        except Exception:
            return None
