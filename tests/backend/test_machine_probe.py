"""What a waiting worker says of its machine, with a driver of CUDA that is made up: some functions of a C library."""

import ctypes
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch._inductor import config as inductor_config

from demo.backend import machine_probe

PART = "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
DRIVER = """
#include <stdlib.h>
#include <string.h>
extern "C" {
int cuInit(unsigned flags) { return atoi(getenv("CU_INIT")); }
int cuDeviceGet(int *device, int place) { *device = 7; return place; }
int cuDeviceGetName(char *name, int length, int device) {
    if (device == 7) strncpy(name, "%s", length);
    return device != 7;
}
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = 5100273664; return device != 7; }
int cuDeviceGetAttribute(int *value, int which, int device) {
    *value = which == 75 ? 8 : which == 76 ? 6 : -1;
    return device != 7;
}
}
"""


@pytest.fixture(autouse=True)
def asked_anew(monkeypatch) -> None:
    for name in ("first_gpu", "host"):
        monkeypatch.setattr(machine_probe, name, cache(getattr(machine_probe, name).__wrapped__))


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    """Its cuInit answers what the variable CU_INIT says."""
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.cpp").write_text(DRIVER % PART)
    made = ["g++", "-shared", "-fPIC", "-o", str(folder / "libcuda.so.1"), str(folder / "driver.cpp")]
    subprocess.run(made, check=True)
    return folder


@pytest.fixture
def driver(library: Path, monkeypatch) -> None:
    """Found as libcuda.so.1."""
    load = ctypes.CDLL
    monkeypatch.setattr(ctypes, "CDLL", lambda name: load(library / name))
    monkeypatch.setenv("CU_INIT", "0")


@pytest.fixture
def no_smi(monkeypatch) -> None:
    """A container with the capability 'compute' only: torch computes, and NVML is not there."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "pynvml", None)


def test_the_gpu_is_named_by_cudas_driver_also_without_nvml(driver: None, no_smi: None, monkeypatch) -> None:
    found = machine_probe.host()
    assert (found.gpu, found.gpu_memory_bytes, found.driver) == (PART, 5_100_273_664, None)
    assert found.compute_capability == "8.6"
    machine_probe.first_gpu.cache_clear()
    monkeypatch.setenv("CU_INIT", "100")
    assert machine_probe.first_gpu() is None


@pytest.mark.parametrize(
    ("built", "works"),
    [
        (["sm_75", "sm_80", "sm_90a"], True),
        (["sm_89", "sm_90"], False),
        (["sm_50", "compute_80"], True),
        (["sm_50", "sm_75"], False),
    ],
    ids=str,
)
def test_a_gpu_that_torch_has_no_code_for_is_left_alone(built, works, driver, no_smi, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: built)
    assert machine_probe.usable() == works
    if works:
        assert machine_probe.gpu_problem() is None
    else:
        assert f"cannot use the {PART} (compute capability 8.6, driver " in machine_probe.gpu_problem()
        assert machine_probe.host().gpu is None


@pytest.mark.parametrize(("visible", "told"), [("0", True), ("", False)], ids=["seen", "hidden on purpose"])
def test_a_gpu_that_only_nvml_finds_is_told(visible: str, told: bool, monkeypatch) -> None:
    answers = {f"nvmlDeviceGet{name}": lambda _: "NVIDIA H100" for name in ("HandleByIndex", "Name")}
    monkeypatch.setitem(sys.modules, "pynvml", SimpleNamespace(nvmlInit=lambda: None, **answers))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(machine_probe, "first_gpu", lambda: None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = machine_probe.gpu_problem()
    assert found.startswith("CUDA does not start on the NVIDIA H100; check CUDA_VISIBLE") if told else found is None


def test_a_gpu_without_a_driver_that_names_it_is_tried(no_smi: None, monkeypatch) -> None:
    monkeypatch.setattr(machine_probe, "first_gpu", lambda: None)
    assert (machine_probe.host().gpu, machine_probe.host().gpu_problem) == ("NVIDIA GPU", None)


def test_a_toolkit_without_one_of_its_headers_is_none(tmp_path, monkeypatch) -> None:
    """As in the images of CUDA's runtime; the last one here is the folder of torch's own wheels."""
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "site" / "torch" / "__init__.py"))
    monkeypatch.setattr(machine_probe, "CUDA_FOLDER", str(tmp_path / "cuda"))
    monkeypatch.setattr(machine_probe.shutil, "which", lambda name: None)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "named"))
    complete = tmp_path / "site" / "nvidia" / "cu13"
    for home, headers in [(tmp_path / "cuda", ["cuda.h"]), (complete, machine_probe.PACKAGE_HEADERS)]:
        for header in headers:
            (home / "include" / header).parent.mkdir(parents=True, exist_ok=True)
            (home / "include" / header).touch()
    assert machine_probe.cuda_homes() == [complete] and machine_probe.host().cuda_toolkit == "cu13"


def test_a_small_extension_is_built_and_removed(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    assert machine_probe.compile_problem() is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("echo \"x.cpp:1:10: fatal error: 'Python.h' file not found\"; exit 1", "-dev"),
        ("echo 'x.cpp:1:1: error: internal'; exit 1", "cannot build code here: error: internal."),
        ("exit 0", "cannot open shared object file"),
    ],
    ids=["header", "unknown", "no library"],
)
def test_why_nothing_can_be_compiled_is_told(code: str, says: str, tmp_path, monkeypatch) -> None:
    """Inductor calls a compiler that has a version and runs this shell code where it should compile."""
    script = tmp_path / "c++"
    script.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo c++ 1; exit; fi\n{code}\n')
    script.chmod(0o755)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    with inductor_config.patch({"cpp.cxx": (None, str(script))}):
        found = machine_probe.compile_problem()
    assert says in found and str(tmp_path) not in found


def test_a_missing_compiler_is_told() -> None:
    with inductor_config.patch({"cpp.cxx": (None, "no-such-compiler")}):
        assert "build-essential" in machine_probe.host().compile_problem


def test_a_container_has_the_memory_that_its_group_is_given(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(machine_probe, "CGROUP_MEMORY", tmp_path / "memory.max")
    whole = machine_probe.machine_memory()
    for text, found in [("1000000\n", 1_000_000), ("max\n", whole), (f"{2**60}\n", whole)]:
        machine_probe.CGROUP_MEMORY.write_text(text)
        assert machine_probe.machine_memory() == found
