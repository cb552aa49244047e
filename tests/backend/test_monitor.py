"""Looks at the machine: a made-up NVML, and what the looks make a reader wary of."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from demo.backend import monitor as state
from demo.core.result import GpuState, MachineState

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
    found = state._Nvml(
        nvml(
            ClockInfo=1410,
            MaxClockInfo=1980,
            PowerUsage=250_500,
            Temperature=61,
            CurrentClocksThrottleReasons=0b101,
            ComputeRunningProcesses=[mine, other],
        ),
        None,
    ).state()
    assert found == GpuState(1.41e9, 1.98e9, 61.0, 250.5, ("thermal", "power"), 1)


def test_a_gpu_that_answers_nothing_is_survived() -> None:
    silent = state._Nvml(nvml(), None)
    assert silent.state() == GpuState(None, None, None, None, (), 0)
    assert silent.energy_joules() is None


def test_a_driver_that_is_older_than_nvml_s_python_is_survived() -> None:
    class NVMLLibraryMismatchError(Exception):
        """As nvidia-ml-py has it: not an NVMLError."""

    def unversioned(*_: Any) -> Any:
        raise NVMLLibraryMismatchError("Unversioned function called")

    old = nvml(ClockInfo=1410)
    old.nvmlDeviceGetComputeRunningProcesses = unversioned
    assert state._Nvml(old, None).state() == GpuState(1.41e9, None, None, None, (), 0)


def test_in_a_container_one_of_the_host_s_processes_is_this_one() -> None:
    strangers = [SimpleNamespace(pid=-1), SimpleNamespace(pid=-2)]
    assert state._Nvml(nvml(ComputeRunningProcesses=strangers), None).state().foreign_processes == 1


def test_without_the_driver_s_library_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert state._Nvml.of(torch.device("cuda")) is None
    assert state._Nvml.of(CPU) is None


def test_looks_are_half_a_second_apart() -> None:
    observer = state.Observer(CPU)
    for _ in range(50):
        observer.look()
    assert len(observer.states) == 1
    assert observer.states[0].gpu is None
    assert observer.energy_joules() is None


def test_the_share_of_others_leaves_out_this_process() -> None:
    assert state._foreign((0, 0, 0), (200, 150, 50)) == 0.5
    assert state._foreign((0, 0, 0), (200, 40, 50)) == 0.0
    assert state._foreign(None, (1, 1, 1)) is None


def gpu(clock: float = 1.9e9, **more: Any) -> MachineState:
    return MachineState(0.0, 0.0, GpuState(clock, 1.98e9, 70.0, 300.0, **more))


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ([MachineState(0.0, 0.2), MachineState(0.5, 0.4)], "30 % of the processor busy"),
        ([gpu(foreign_processes=2)], "2 other processes used this GPU"),
        ([gpu(1.9e9), gpu(1.5e9)], "between 1500 and 1900 MHz"),
        ([gpu(1.2e9)], "at 1200 MHz, well below its 1980 MHz"),
        ([gpu(throttle_reasons=("thermal",))], "because it was hot (70 °C)"),
        ([gpu(throttle_reasons=("power",))], "power limit"),
        ([gpu(throttle_reasons=("hardware",))], "hardware slowed it down"),
    ],
)
def test_each_disturbance_is_told_in_one_sentence(states: list[MachineState], words: str) -> None:
    (told,) = state.warnings(states)
    assert words in told


def test_a_quiet_machine_is_not_talked_about() -> None:
    assert state.warnings([MachineState(0.0, 0.02), gpu(), gpu(1.85e9)]) == []
    assert state.warnings([]) == []
