"""Samples of the machine, with a made-up NVML."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from demo.backend import monitor
from demo.core.machine import GpuSample

CPU = torch.device("cpu")


class NVMLError(Exception):
    pass


def nvml(**answers: Any) -> SimpleNamespace:
    """A module with NVML's names; a question without an answer raises, as on a GPU that does not support it."""

    def ask(name: str) -> Any:
        def answer(*_: Any) -> Any:
            if name not in answers:
                raise NVMLError(name)
            return answers[name]

        return answer

    questions = (
        "ClockInfo MaxClockInfo PowerUsage Temperature CurrentClocksThrottleReasons "
        "ComputeRunningProcesses TotalEnergyConsumption"
    ).split()
    bits = "SwThermalSlowdown HwThermalSlowdown SwPowerCap HwPowerBrakeSlowdown HwSlowdown".split()
    bits += ["ApplicationsClocksSetting", "SyncBoost"]
    names: dict[str, Any] = {f"nvmlDeviceGet{question}": ask(question) for question in questions}
    names |= {f"nvmlClocksThrottleReason{bit}": 1 << place for place, bit in enumerate(bits)}
    return SimpleNamespace(NVMLError=NVMLError, NVML_CLOCK_SM=1, NVML_TEMPERATURE_GPU=0, **names)


def test_the_driver_s_answers_become_hertz_watts_and_reasons() -> None:
    mine, other = SimpleNamespace(pid=os.getpid()), SimpleNamespace(pid=1)
    found = monitor.Nvml(
        nvml(
            ClockInfo=1410,
            MaxClockInfo=1980,
            PowerUsage=250_500,
            Temperature=61,
            CurrentClocksThrottleReasons=0b101,
            ComputeRunningProcesses=[mine, other],
        ),
        None,
    ).sample()
    assert found == GpuSample(1.41e9, 1.98e9, 61.0, 250.5, ("thermal", "power"), 1)


def test_a_gpu_that_answers_nothing_is_survived() -> None:
    silent = monitor.Nvml(nvml(), None)
    assert silent.sample() == GpuSample(None, None, None, None, (), 0)
    assert silent.energy_joules() is None


def test_a_driver_that_is_older_than_nvml_s_python_is_survived() -> None:
    class NVMLLibraryMismatchError(Exception):
        """As nvidia-ml-py has it: not an NVMLError."""

    def unversioned(*_: Any) -> Any:
        raise NVMLLibraryMismatchError("Unversioned function called")

    old = nvml(ClockInfo=1410)
    old.nvmlDeviceGetComputeRunningProcesses = unversioned
    assert monitor.Nvml(old, None).sample() == GpuSample(1.41e9, None, None, None, (), 0)


def test_in_a_container_one_of_the_host_s_processes_is_this_one() -> None:
    strangers = [SimpleNamespace(pid=-1), SimpleNamespace(pid=-2)]
    assert monitor.Nvml(nvml(ComputeRunningProcesses=strangers), None).sample().foreign_processes == 1


def test_without_the_driver_s_library_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert monitor.Nvml.of(torch.device("cuda")) is None
    assert monitor.Nvml.of(CPU) is None


def test_samples_are_half_a_second_apart() -> None:
    observer = monitor.Observer(CPU)
    for _ in range(50):
        observer.sample()
    assert len(observer.samples) == 1
    assert observer.samples[0].gpu is None
    assert observer.energy_joules() is None


def test_the_share_of_others_leaves_out_this_process() -> None:
    assert monitor.foreign_share((0, 0, 0), (200, 150, 50)) == 0.5
    assert monitor.foreign_share((0, 0, 0), (200, 40, 50)) == 0.0
    assert monitor.foreign_share(None, (1, 1, 1)) is None
