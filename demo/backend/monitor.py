"""Samples the state of the machine during the timing, between timed calls and never during one.

- On a CPU: the cores that other processes leave free (Linux, see `demo.core.cores`); None without /proc.
- On an NVIDIA GPU: its clock, throttle reasons and other processes, by NVML (`nvidia-ml-py`); None without NVML. On
  Linux also how long the main thread was kept from running: it launches the kernels.
- Not covered: how much memory bandwidth and cache other processes use.
"""

import contextlib
import os
import time
from collections import deque
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import torch

from ..core import cores
from ..core.machine import GpuSample, HostSample
from .machine_probe import ask_nvml

SAMPLE_SECONDS = 0.5
"""Least seconds between two samples. A sample takes about a millisecond on a GPU: five questions to NVML."""
WINDOW_SECONDS = 1.0
"""Least seconds over which `free_cores` averages, so that another program's short burst does not count as a core."""
MIN_SECONDS = 0.25
"""Two readings of /proc must be this many seconds apart to tell how many cores are free: /proc counts in steps of 0.01
s."""
PAUSE_SECONDS = 2.0
"""If this process is stopped for at least this long, as when a laptop sleeps, that is a pause. A block with its control
block takes 1.4 s at most if the model is not slow (`timing.SLOW_SECONDS`), so none is taken for a pause."""
PAUSE_BLOCKS = 5
"""A pause also lasts at least this many times as long as the longest block so far: blocks of a slow model are long."""
_THROTTLES = ("SwThermalSlowdown", "HwThermalSlowdown", "SwPowerCap", "HwPowerBrakeSlowdown", "HwSlowdown")


class HostReading(NamedTuple):
    """Counters of Linux at one moment. `waited` counts from the start of the main thread, the others from the boot."""

    at: float
    """The moment, in seconds of `time.perf_counter`."""
    waited: float
    """Seconds in which the main thread was ready to run and waited for a free core, or for a container's quota."""
    stolen: float
    """Clock ticks, summed over cores, in which a hypervisor ran other machines although this one had work (steal)."""
    busy: float
    """Clock ticks, summed over cores, in which this machine had work, the stolen ticks included."""

    def taken_share(self, later: "HostReading") -> float:
        """Returns the share of time, 0 to 1, in which the main thread was ready to run but did not run.

        It waited for a core or for a container's quota, or a hypervisor ran other machines. The time is from this
        reading to the reading `later`.
        """
        stolen = (later.stolen - self.stolen) / max(1.0, later.busy - self.busy)
        return min(1.0, max(0.0, (later.waited - self.waited) / (later.at - self.at) + stolen))


def host_reading() -> HostReading | None:
    """Returns Linux's counters of processor time and of waiting for a core; None on a machine without them."""
    try:
        waited = int((cores.PROC / "self" / "task" / str(os.getpid()) / "schedstat").read_text().split()[1])
        times = [int(ticks) for ticks in cores.PROC_STAT.read_text().split("\n", 1)[0].split()[1:9]]
        return HostReading(time.perf_counter(), waited / 1e9, times[7], sum(times) - times[3] - times[4])
    except (IndexError, OSError, ValueError):
        return None


class CoreTaken(Exception):
    """Other programs leave fewer cores free than torch has threads. The argument is the number of whole free cores."""


class Observer:
    """Watches the machine while a run is timed: how much of the cores and of the GPU other programs use.

    - Call `begin` when the timing begins. After each block of calls, call `pause`, then `sample` or `check_cores`.
    - `samples` holds the states of the machine seen so far.
    - `pause` notices if this process was stopped for a while, as when a laptop sleeps.
    """

    def __init__(self, device: torch.device) -> None:
        self._on_cpu = device.type == "cpu"
        self._gpu = Nvml.of(device)
        self.begin()

    def joules(self) -> float | None:
        """Returns the reading of the GPU's energy counter; None on a CPU, or if the GPU has no such counter."""
        return self._gpu.joules() if self._gpu else None

    def begin(self) -> None:
        self._start = time.perf_counter()
        self._sampled_at = -SAMPLE_SECONDS
        self._readings = deque([(0.0, cores.sample())])
        self._host = None if self._on_cpu else host_reading()
        self.samples: list[HostSample] = []
        self.paused_seconds = 0.0
        """Seconds for which this process was stopped, which `seconds` leaves out."""
        self._longest_block = 0.0
        self._looked_at = time.perf_counter(), time.process_time()

    def pause(self) -> float:
        """Returns the seconds for which this process was stopped, as by SIGSTOP, since the last call of `pause`.

        Call it after each block of the timing. A stop is assumed if much more time has passed than for earlier blocks,
        and this process hardly used the processor. How busy other programs are is judged only from readings after the
        stop.
        """
        (was_at, worked), now = self._looked_at, (time.perf_counter(), time.process_time())
        self._looked_at = now
        passed, longest = now[0] - was_at, self._longest_block
        if not longest or passed < max(PAUSE_SECONDS, PAUSE_BLOCKS * longest) or now[1] - worked > passed / 10:
            self._longest_block = max(longest, passed)
            return 0.0
        stopped = passed - longest
        self.paused_seconds += stopped
        self._readings = deque([(self.seconds, cores.sample())])
        return stopped

    def look_away(self) -> None:
        """Makes `pause` judge only what follows. Call it after work that is no block of the timing."""
        self._looked_at = time.perf_counter(), time.process_time()

    def sample(self) -> None:
        now = self.seconds
        if now - self._sampled_at < SAMPLE_SECONDS:
            return
        self._sampled_at = now
        (before_at, before), reading = self._readings[-1], cores.sample()
        share = free = None
        if self._on_cpu and before is not None and reading is not None:
            share = before.foreign_share(reading)
            free = before.free(reading) if now - before_at >= MIN_SECONDS else None
        gpu = self._gpu.sample() if self._gpu else None
        self.samples.append(HostSample(now, share, gpu, free, self._host_taken()))
        self._readings.append((now, reading))
        while len(self._readings) > 2 and now - self._readings[1][0] >= WINDOW_SECONDS:
            self._readings.popleft()

    def _host_taken(self) -> float | None:
        """Returns the share of time, 0 to 1, in which others kept the main thread waiting since the last reading.

        None on a CPU, or if the share is not known. Also None if the last reading is less than `MIN_SECONDS` old. That
        reading is then kept for the next call.
        """
        before, reading = self._host, host_reading()
        if before is None or reading is None or reading.at - before.at < MIN_SECONDS:
            return None
        self._host = reading
        return before.taken_share(reading)

    def check_cores(self, threads: int) -> None:
        """Takes a sample. Raises CoreTaken if other programs leave fewer than `threads` cores free.

        With `threads` 0, or if the free cores are not known, it never raises.
        """
        self.sample()
        free = self.free_cores()
        if free is not None and free < threads:
            raise CoreTaken(free)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._start - self.paused_seconds

    def free_cores(self) -> int | None:
        """Returns how many whole cores other programs left free in about the last second, at least 1.

        None if not known.
        """
        (first_at, first), (last_at, last) = self._readings[0], self._readings[-1]
        return cores.whole_cores_left(first, last) if last_at - first_at >= WINDOW_SECONDS else None


class Nvml:
    """Asks NVML about a GPU, or about an instance of a GPU in MIG mode.

    The GPU is found by its UUID, because CUDA and NVML number GPUs in different orders. For an instance NVML knows the
    processes, but neither clock nor energy, which only the whole GPU has.
    """

    def __init__(self, nvml: ModuleType, handle: object) -> None:
        self._nvml = nvml
        self._handle = handle

    @classmethod
    def of(cls, device: torch.device) -> "Nvml | None":
        """Returns the GPU of `device`; None on a CPU, without `nvidia-ml-py`, or if the driver refuses.

        Some drivers refuse in a container.
        """

        def find(kind: str, nvml: ModuleType) -> Nvml:
            uuid = str(torch.cuda.get_device_properties(device).uuid).removeprefix("GPU-")
            return cls(nvml, nvml.nvmlDeviceGetHandleByUUID(f"{kind}-{uuid}"))

        if device.type != "cuda":
            return None
        return ask_nvml(partial(find, "GPU")) or ask_nvml(partial(find, "MIG"))  # CUDA gives an instance's own UUID

    def sample(self) -> GpuSample:
        clock, largest = (
            self._ask(f"nvmlDeviceGet{name}", self._nvml.NVML_CLOCK_SM) for name in ("ClockInfo", "MaxClockInfo")
        )
        mask = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons") or 0
        reasons = (name for name in _THROTTLES if mask & getattr(self._nvml, f"nvmlClocksThrottleReason{name}"))
        return GpuSample(
            sm_clock_hz=clock and clock * 1e6,
            largest_sm_clock_hz=largest and largest * 1e6,
            throttle_reasons=tuple(reasons),
            foreign_processes=self._foreign_processes(),
        )

    def joules(self) -> float | None:
        """Returns the energy that the GPU has used since its driver was loaded; None without a counter."""
        millijoules = self._ask("nvmlDeviceGetTotalEnergyConsumption")
        return None if millijoules is None else millijoules / 1e3

    def _foreign_processes(self) -> int:
        """Returns how many processes on the GPU do not belong to this worker; 0 if the driver does not tell.

        - A worker's processes are its process group.
        - In a container the driver may list process ids of the host, which do not include this process's id. Then one
          listed process is assumed to be this one, and all others count.
        - MPS is NVIDIA's service that lets processes share a GPU. If the driver lists MPS clients, one further process
          is the MPS server. The server does not count, because it only passes on the clients' work.
        """
        computing, clients = (
            {process.pid for process in self._ask(f"nvmlDeviceGet{kind}RunningProcesses") or ()}
            for kind in ("Compute", "MPSCompute")
        )
        holders, servers = computing | clients, min(1, len(computing - clients)) if clients else 0
        if os.getpid() not in holders:
            return max(0, len(holders) - servers - 1)
        ours = 0
        for pid in holders:
            with contextlib.suppress(ProcessLookupError):
                ours += os.getpgid(pid) == os.getpgrp()
        return len(holders) - servers - ours

    def _ask(self, question: str, *more: object) -> Any:
        """Calls NVML's function `question` with this GPU and `more`. None if GPU or driver do not support it."""
        try:
            return getattr(self._nvml, question)(self._handle, *more)
        except Exception:  # with an older driver nvidia-ml-py raises errors that are no NVMLError
            return None
