"""Tests of what is found out about a machine, with made-up drivers, compilers and folders."""

import ctypes
import math
import os
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch._inductor import config as inductor_config

from demo.backend import machine_probe
from demo.core import cgroup

NAME = "NVIDIA A100-SXM4-40GB MIG 1g.5gb"


@pytest.fixture(autouse=True)
def empty_caches(monkeypatch) -> None:
    for name in ("first_gpu", "host"):
        monkeypatch.setattr(machine_probe, name, cache(getattr(machine_probe, name).__wrapped__))


@pytest.fixture
def driver(monkeypatch) -> SimpleNamespace:
    """Simulates CUDA's driver (libcuda.so.1) with one GPU: its device number is 7, and no call fails."""
    driver = SimpleNamespace(
        cuInit=lambda flags: 0,
        cuDeviceGet=lambda device, place: setattr(device._obj, "value", 7) or place,
        cuDeviceGetName=lambda name, length, device: setattr(name, "value", NAME.encode()) or device.value - 7,
        cuDeviceTotalMem_v2=lambda size, device: setattr(size._obj, "value", 5_100_273_664),
        cuDeviceGetAttribute=lambda value, attribute, device: setattr(value._obj, "value", {75: 8, 76: 6}[attribute]),
    )
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver)
    return driver


@pytest.fixture
def no_nvml(monkeypatch) -> None:
    """Simulates a container in which torch can use the GPU, but NVML is missing."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "pynvml", None)


def test_the_gpu_is_named_by_cudas_driver(driver: SimpleNamespace, no_nvml: None) -> None:
    host = machine_probe.host()
    assert (host.gpu, host.gpu_memory_bytes, host.driver) == (NAME, 5_100_273_664, None)
    assert host.compute_capability == "8.6"


def test_a_driver_that_does_not_start_names_none(driver: SimpleNamespace) -> None:
    driver.cuInit = lambda flags: 100
    assert machine_probe.first_gpu() is None


@pytest.mark.parametrize(
    ("built", "works"),
    [
        ("sm_86", True),
        ("sm_75 sm_80 sm_90a", True),
        ("sm_89 sm_90", False),
        ("sm_50 compute_80", True),
        ("sm_50 sm_75", False),
    ],
)
def test_a_gpu_that_torch_has_no_code_for_is_left_alone(built, works, driver, no_nvml, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_arch_list", built.split)
    assert machine_probe.usable() == works
    if works:
        assert machine_probe.gpu_problem() is None
    else:
        assert f"cannot use the {NAME} (compute capability 8.6, driver " in machine_probe.gpu_problem()
        assert machine_probe.host().gpu is None


@pytest.mark.parametrize(
    ("space", "major", "cuda", "lines"),
    [
        ("me/page", 7, "13.0", True),
        ("", 7, "13.0", False),
        ("me/page", 12, "13.0", False),
        ("me/page", 7, "12.6", False),
    ],
    ids=["a Space", "elsewhere", "a newer GPU on a Space", "has that build"],
)
def test_a_space_with_the_usual_torch_is_told_its_lines(space, major, cuda, lines, driver, no_nvml, monkeypatch):
    """The Space's driver is too old for CUDA 13, so torch sees no GPU. It is told which lines install a torch for CUDA
    12."""
    driver.cuDeviceGetAttribute = lambda value, name, device: setattr(value._obj, "value", {75: major, 76: 0}[name])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch, "__version__", "2.13.0+cu130")
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setenv("SPACE_ID", space)
    problem = machine_probe.gpu_problem()
    assert ("--extra-index-url https://download.pytorch.org/whl/cu126 and torch==2.13.0+cu126" in problem) == lines
    assert ("newer driver" in problem) != lines


@pytest.mark.parametrize(
    ("visible", "named"),
    [("0", True), ("GPU-4c1b5ef2", True), ("", False), ("-1", False), ("-1,0", False)],
    ids=["seen", "by a wrong UUID", "hidden on purpose", "hidden by -1", "nothing after -1 counts"],
)
def test_a_gpu_that_only_nvml_finds_is_a_problem(visible: str, named: bool, monkeypatch) -> None:
    answers = {f"nvmlDeviceGet{name}": lambda _: "NVIDIA H100" for name in ("HandleByIndex", "Name")}
    monkeypatch.setitem(sys.modules, "pynvml", SimpleNamespace(nvmlInit=lambda: None, **answers))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(machine_probe, "first_gpu", lambda: None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    problem = machine_probe.gpu_problem()
    assert (
        problem.startswith("CUDA does not start on the NVIDIA H100; check CUDA_VISIBLE") if named else problem is None
    )


@pytest.mark.parametrize(("hip", "name"), [(None, "NVIDIA GPU"), ("7.0", "AMD GPU")], ids=["CUDA", "ROCm"])
def test_a_gpu_without_a_driver_that_names_it_is_tried(hip: str | None, name: str, no_nvml: None, monkeypatch) -> None:
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(machine_probe, "first_gpu", lambda: None)
    assert (machine_probe.host().gpu, machine_probe.host().gpu_problem) == (name, None)


@pytest.mark.parametrize(
    ("wheels", "toolkits"),
    [
        ({"cu13": machine_probe.PACKAGE_HEADERS}, ["cu13"]),
        ({"cu13": ("cuda.h", "nv/target")}, []),
        (
            {
                wheel: [header]
                for wheel, header in zip(machine_probe.CUDA_12_WHEELS, machine_probe.PACKAGE_HEADERS, strict=True)
            },
            list(machine_probe.CUDA_12_WHEELS),
        ),
        ({"cuda_runtime": ["cuda.h"], "cuda_nvcc": ["crt/host_defines.h"]}, []),
    ],
    ids=["CUDA 13", "CUDA 13 in part", "CUDA 12", "CUDA 12 in part"],
)
def test_wheels_with_all_headers_are_a_toolkit(wheels, toolkits, tmp_path, monkeypatch) -> None:
    """A toolkit without one of the headers is none."""
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "site" / "torch" / "__init__.py"))
    monkeypatch.setattr(machine_probe, "CUDA_FOLDER", str(tmp_path / "cuda"))
    monkeypatch.setattr(machine_probe.shutil, "which", lambda name: None)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "named"))
    folders = {tmp_path / "site" / "nvidia" / name: headers for name, headers in wheels.items()}
    for folder, headers in (folders | {tmp_path / "cuda": ["cuda.h"]}).items():
        for header in headers:
            (folder / "include" / header).parent.mkdir(parents=True, exist_ok=True)
            (folder / "include" / header).touch()
    assert [folder.name for folder in machine_probe.cuda_toolkit()] == toolkits
    assert machine_probe.host().cuda_toolkit == next(iter(toolkits), None)


def test_a_process_is_as_old_as_linux_says(monkeypatch) -> None:
    """The 22nd field of /proc/self/stat is the start in clock ticks. The second one, a name, may hold brackets."""
    fields = ["1", "(a) name)", *map(str, range(3, 53))]
    monkeypatch.setattr(Path, "read_text", lambda file: " ".join(fields))
    monkeypatch.setattr(machine_probe.time, "clock_gettime", lambda clock: 100.0)
    assert machine_probe.seconds_since_start() == 100.0 - 22 / os.sysconf("SC_CLK_TCK")


def test_a_small_extension_is_built_and_removed(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    assert machine_probe.compile_problem() is None
    assert list(tmp_path.iterdir()) == []


WITHOUT_OPENMP = """
for file; do
  case $file in *.cpp) grep -q omp.h "$file" && echo 'x.cpp:3:10: fatal error: omp.h: No such file or directory';; esac
done
exit 1"""


def test_compiling_that_is_switched_off_is_a_problem(monkeypatch) -> None:
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    assert machine_probe.host().compile_problem == machine_probe.compile_problem()
    assert machine_probe.compile_problem().startswith("TORCH_COMPILE_DISABLE=1 switches torch.compile off.")


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("echo \"x.cpp:1:10: fatal error: 'Python.h' file not found\"; exit 1", "-dev"),
        ("echo 'x.cpp:1:1: error: internal'; exit 1", "cannot build code here: error: internal."),
        ("exit 0", "cannot open shared object file"),
        (WITHOUT_OPENMP, "lacks OpenMP"),
    ],
    ids=["header", "unknown", "no library", "OpenMP"],
)
def test_the_reason_why_nothing_can_be_compiled(code: str, says: str, tmp_path, monkeypatch) -> None:
    """The compiler is a script: it prints a version, but runs `code` instead of compiling."""
    script = tmp_path / "c++"
    script.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo c++ 1; exit; fi\n{code}\n')
    script.chmod(0o755)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    with inductor_config.patch({"cpp.cxx": (None, str(script))}):
        problem = machine_probe.compile_problem()
        assert machine_probe.host().compile_problem == problem  # said when the page starts
    assert says in problem and str(tmp_path) not in problem


def test_a_cache_in_which_code_was_built_is_not_tried_again(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    problems = ["no headers", None, "asked again"]
    monkeypatch.setattr(machine_probe, "compile_problem", lambda: problems.pop(0))
    found = [machine_probe.compile_problem_at_start(compiler) for compiler in ("g++ 1", "g++ 1", "g++ 1", "g++ 2")]
    assert found == ["no headers", None, None, "asked again"]


def test_without_a_compiler_there_is_a_remedy() -> None:
    with inductor_config.patch({"cpp.cxx": (None, "no-such-compiler")}):
        assert "build-essential" in machine_probe.host().compile_problem


@pytest.mark.parametrize("limited", [True, False])
def test_a_container_has_its_groups_memory(limited: bool, monkeypatch) -> None:
    monkeypatch.setattr(cgroup, "memory_limit", lambda: 5e6 if limited else math.inf)
    monkeypatch.setattr(cgroup, "memory_left", lambda: 2.5e6 if limited else math.inf)
    memory, free = machine_probe.machine_memory(), machine_probe.free_memory()
    assert (memory, free) == (5_000_000, 2_500_000) if limited else min(memory, free) > 10_000_000
