"""Tests of the samples of the machine during the timing, with a made-up NVML."""

import os
import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from demo.backend import monitor
from demo.core.machine import GpuSample

CPU = torch.device("cpu")


def nvml(**answers: Any) -> SimpleNamespace:
    """Returns a stand-in for NVML's module with these `answers`.

    Any other question raises an error, as on an older GPU.
    """
    questions = ["ClockInfo", "MaxClockInfo", "CurrentClocksThrottleReasons", "ComputeRunningProcesses"]
    questions += ["MPSComputeRunningProcesses", "TotalEnergyConsumption"]
    bits = ["SwThermalSlowdown", "HwThermalSlowdown", "SwPowerCap", "HwPowerBrakeSlowdown", "HwSlowdown"]
    names: dict[str, Any] = {f"nvmlDeviceGet{name}": Mock(side_effect=RuntimeError) for name in questions}
    names |= {f"nvmlDeviceGet{name}": Mock(return_value=answer) for name, answer in answers.items()}
    names |= {f"nvmlClocksThrottleReason{bit}": 1 << place for place, bit in enumerate(bits)}
    return SimpleNamespace(NVML_CLOCK_SM=1, **names)


def test_the_drivers_answers_become_a_sample() -> None:
    answers = nvml(CurrentClocksThrottleReasons=0b101, ClockInfo=1410, MaxClockInfo=1980)
    sample = monitor.Nvml(answers, None).sample()
    assert sample == GpuSample(1.41e9, 1.98e9, ("SwThermalSlowdown", "SwPowerCap"), 0)


def test_a_driver_without_answers_is_no_failure() -> None:
    assert monitor.Nvml(nvml(), None).sample() == GpuSample(None, None)
    assert monitor.Nvml(nvml(), None).joules() is None


def test_the_energy_counter_is_read_in_joules() -> None:
    assert monitor.Nvml(nvml(TotalEnergyConsumption=1_500), None).joules() == 1.5


OWN, OTHER, SERVER, HIDDEN = os.getpid(), 1, 2, 10**8
"""Process ids: this one, one of another group, that of MPS, and one of a container's host."""


@pytest.mark.parametrize(
    ("pids", "clients", "foreign"),
    [
        pytest.param([OWN], [], 0, id="own"),
        pytest.param([OWN, OWN, OTHER], [], 1, id="of another group"),
        pytest.param([HIDDEN], [], 0, id="one of a container's host"),
        pytest.param([HIDDEN, HIDDEN + 1], [], 1, id="two of a container's host"),
        pytest.param([SERVER], [OWN], 0, id="alone under MPS"),
        pytest.param([SERVER, OWN], [OWN], 0, id="alone under MPS, which lists it twice"),
        pytest.param([SERVER], [OWN, OTHER], 1, id="of another group under MPS"),
        pytest.param([SERVER, OTHER], [OWN], 1, id="of another group beside MPS"),
        pytest.param([HIDDEN], [HIDDEN + 1], 0, id="MPS on a container's host"),
        pytest.param([HIDDEN], [HIDDEN + 1, HIDDEN + 2], 1, id="two under MPS on a container's host"),
        pytest.param([], [OWN], 0, id="MPS whose server is hidden"),
    ],
)
def test_processes_of_other_groups_are_foreign(pids: list[int], clients: list[int], foreign: int) -> None:
    computing, under_mps = ([SimpleNamespace(pid=pid) for pid in group] for group in (pids, clients))
    answers = nvml(ComputeRunningProcesses=computing, MPSComputeRunningProcesses=under_mps)
    assert monitor.Nvml(answers, None).sample().foreign_processes == foreign


@pytest.mark.parametrize("kind", ["GPU", "MIG", "none"])
def test_a_gpu_or_its_instance_is_found_by_its_uuid(kind: str, monkeypatch) -> None:
    """An instance of a GPU in MIG mode has a UUID of its own, which begins with MIG."""
    uuid = "4c1b5ef2-2a3e-4f0f-9d1e-0123456789ab"

    def find(asked: str) -> str:
        if asked != f"{kind}-{uuid}":
            raise LookupError(asked)
        return "handle"

    monkeypatch.setitem(sys.modules, "pynvml", SimpleNamespace(nvmlInit=lambda: None, nvmlDeviceGetHandleByUUID=find))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(uuid=uuid))
    found = monitor.Nvml.of(torch.device("cuda"))
    assert (found and found._handle) == (None if kind == "none" else "handle")


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    """Simulates a machine with two cores. Its `pass_time` advances the clock while other programs use some of them."""
    machine = SimpleNamespace(now=100.0, busy=0.0)
    monkeypatch.setattr(monitor.time, "perf_counter", lambda: machine.now)
    monkeypatch.setattr(monitor.cores, "usable_cores", lambda: 2)
    monkeypatch.setattr(
        monitor.cores, "sample", lambda: monitor.cores.Reading(2, 2 * machine.now, machine.busy, machine.now / 3)
    )

    def pass_time(seconds: float, others: float) -> None:
        machine.now += seconds
        machine.busy += seconds * (others + 1 / 3)

    machine.pass_time = pass_time
    return machine


def test_free_cores_are_those_of_the_last_second(clock: SimpleNamespace) -> None:
    observer, free = monitor.Observer(CPU), []
    for others in (0.0, 0.0, 1.0, 1.0, 0.1, 0.1):
        clock.pass_time(0.6, others)
        observer.sample()
        free.append(observer.free_cores())
    assert free == [None, 2, 1, 1, 1, 2]
    assert [sample.free_cores for sample in observer.samples] == pytest.approx([2, 2, 1, 1, 1.9, 1.9])


def test_free_cores_are_unknown_over_a_moment(clock: SimpleNamespace) -> None:
    observer = monitor.Observer(CPU)
    clock.pass_time(0.1, 1.0)
    for _ in range(3):  # samples are half a second apart
        observer.sample()
    (sample,) = observer.samples
    assert (sample.gpu, sample.free_cores, sample.foreign_cpu) == (None, None, pytest.approx(0.5))


@pytest.mark.parametrize(
    ("waited", "stolen", "taken"),
    [(0.0, 0, 0.0), (0.5, 0, 0.25), (0.0, 10, 0.1), (0.5, 10, 0.35), (9.0, 0, 1.0), (None, 0, None)],
    ids=["its own", "waited for a core", "stolen by a hypervisor", "both", "never above all", "no statistics"],
)
def test_on_a_gpu_the_host_is_watched(waited, stolen, taken, clock, monkeypatch, tmp_path) -> None:
    """In the two seconds between the samples, the machine's cores have work for 100 clock ticks."""
    monkeypatch.setattr(monitor.cores, "PROC", tmp_path)
    monkeypatch.setattr(monitor.cores, "PROC_STAT", tmp_path / "stat")
    monkeypatch.setattr(monitor.Nvml, "of", lambda device: None)
    folder = tmp_path / "self" / "task" / str(os.getpid())
    folder.mkdir(parents=True)

    def counts(waited: float | None, ticks: str) -> None:
        if waited is not None:
            (folder / "schedstat").write_text(f"7 {3_000_000_000 + waited * 1e9:.0f} 1\n")
        (tmp_path / "stat").write_text(f"cpu {ticks} 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")

    counts(None if waited is None else 0.0, "1000 0 500 9000 70 0 0 300")
    observer = monitor.Observer(torch.device("cuda"))
    clock.pass_time(0.1, 1.0)
    observer.sample()  # too soon after the first reading
    counts(waited, f"{1100 - stolen} 0 500 9100 90 0 0 {300 + stolen}")
    clock.pass_time(1.9, 1.0)
    observer.sample()
    clock.pass_time(1.0, 1.0)
    observer.sample()  # nothing has happened since the reading before
    now = None if taken is None else 0.0
    assert [sample.host_taken for sample in observer.samples] == [None, taken and pytest.approx(taken), now]


@pytest.mark.parametrize(
    ("usual", "block", "worked", "stopped"),
    [
        pytest.param(0.1, 20.1, 0.1, 20.0, id="stopped"),
        pytest.param(0.1, 20.1, 19.0, 0.0, id="worked all the time"),
        pytest.param(0.1, 1.0, 0.1, 0.0, id="a short wait"),
        pytest.param(6.0, 20.0, 0.1, 0.0, id="a slow model"),
    ],
)
def test_a_stop_of_the_process_is_told_from_work(
    usual: float, block: float, worked: float, stopped: float, clock: SimpleNamespace, monkeypatch
) -> None:
    used = [0.0]
    monkeypatch.setattr(monitor.time, "process_time", lambda: used[0])
    observer = monitor.Observer(CPU)
    for seconds, work in ((usual, usual), (block, worked), (usual, usual)):
        clock.pass_time(seconds, 2.0 if seconds == block else 0.0)  # what others did in a stop is nobody's fault
        used[0] += work
        paused = observer.pause()
        if seconds == block:
            assert paused == pytest.approx(stopped)
        else:
            assert paused == 0.0
    assert observer.seconds == pytest.approx(2 * usual + block - stopped)
    observer.sample()
    assert stopped == 0 or observer.samples[-1].foreign_cpu == pytest.approx(0.0)
    clock.pass_time(1000.0, 0.0)  # not a block of the timing
    observer.look_away()
    assert observer.pause() == 0.0


def test_on_a_gpu_cores_do_not_matter(clock: SimpleNamespace, monkeypatch) -> None:
    monkeypatch.setattr(monitor.Nvml, "of", lambda device: None)
    observer = monitor.Observer(torch.device("cuda"))
    clock.pass_time(2.0, 1.0)
    observer.sample()
    assert observer.samples[0].free_cores is observer.samples[0].foreign_cpu is None
