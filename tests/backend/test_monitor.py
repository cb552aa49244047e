"""Samples of the machine, with a made-up NVML."""

import os
import subprocess
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

    questions = ["ClockInfo", "MaxClockInfo", "CurrentClocksThrottleReasons", "ComputeRunningProcesses"]
    bits = ["SwThermalSlowdown", "HwThermalSlowdown", "SwPowerCap", "HwPowerBrakeSlowdown", "HwSlowdown"]
    names: dict[str, Any] = {f"nvmlDeviceGet{question}": ask(question) for question in questions}
    names |= {f"nvmlClocksThrottleReason{bit}": 1 << place for place, bit in enumerate(bits)}
    return SimpleNamespace(NVMLError=NVMLError, NVML_CLOCK_SM=1, **names)


def test_the_driver_s_answers_become_hertz_and_reasons() -> None:
    helper = subprocess.Popen(["sleep", "60"])  # as inductor's compile helper, of this process group
    mine, other, ours = (SimpleNamespace(pid=pid) for pid in (os.getpid(), 1, helper.pid))
    processes, clocks = {"ComputeRunningProcesses": [mine, other, ours]}, {"ClockInfo": 1410, "MaxClockInfo": 1980}
    answers = nvml(CurrentClocksThrottleReasons=0b101, **processes, **clocks)
    found = monitor.Nvml(answers, None).sample()
    helper.kill()
    helper.wait()
    assert found == GpuSample(1.41e9, 1.98e9, ("SwThermalSlowdown", "SwPowerCap"), 1)


@pytest.mark.parametrize(("holders", "foreign"), [(1, 0), (2, 1)])
def test_one_process_of_foreign_numbers_is_this_one(holders: int, foreign: int) -> None:
    processes = [SimpleNamespace(pid=os.getpid() + 1 + place) for place in range(holders)]
    assert monitor.Nvml(nvml(ComputeRunningProcesses=processes), None).sample().foreign_processes == foreign


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    """A simulated machine of two cores: `pass_time` lets others use some of them."""
    machine = SimpleNamespace(now=100.0, busy=0.0)
    monkeypatch.setattr(monitor.time, "perf_counter", lambda: machine.now)
    monkeypatch.setattr(monitor.cores, "usable_cores", lambda: 2)
    monkeypatch.setattr(
        monitor.cores, "read", lambda: monitor.cores.Reading(2, 2 * machine.now, machine.busy, machine.now / 3)
    )

    def pass_time(seconds: float, others: float) -> None:
        machine.now += seconds
        machine.busy += seconds * (others + 1 / 3)

    machine.pass_time = pass_time
    return machine


def test_what_others_leave_is_told_of_the_last_second(clock: SimpleNamespace) -> None:
    observer, told = monitor.Observer(CPU), []
    for others in (0.0, 0.0, 1.0, 1.0, 0.1, 0.1):
        clock.pass_time(0.6, others)
        observer.sample()
        told.append(observer.free_cores())
    assert told == [None, 2, 1, 1, 1, 2]
    assert [sample.free_cores for sample in observer.samples] == pytest.approx([2, 2, 1, 1, 1.9, 1.9])


def test_what_others_leave_is_not_told_over_a_moment(clock: SimpleNamespace, monkeypatch) -> None:
    monkeypatch.setattr(monitor.Nvml, "of", lambda device: None)
    on_cpu, on_gpu = monitor.Observer(CPU), monitor.Observer(torch.device("cuda"))
    clock.pass_time(0.1, 1.0)
    for _ in range(3):  # samples are half a second apart
        on_cpu.sample()
    assert len(on_cpu.samples) == 1 and on_cpu.samples[0].gpu is None
    assert on_cpu.samples[0].free_cores is None
    assert on_cpu.samples[0].foreign_cpu == pytest.approx(0.5)
    clock.pass_time(2.0, 1.0)
    on_gpu.sample()
    assert on_gpu.samples[0].free_cores is on_gpu.samples[0].foreign_cpu is None
