"""What a waiting worker says of its machine, with a driver of CUDA that is made up: some functions of a C library."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

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
def asked_anew() -> Iterator[None]:
    for asked in (machine_probe.first_gpu, machine_probe.host):
        asked.cache_clear()
    yield
    for asked in (machine_probe.first_gpu, machine_probe.host):
        asked.cache_clear()


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
    """Found by the loader as libcuda.so.1."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setenv("CU_INIT", "0")


@pytest.fixture
def no_smi(monkeypatch) -> None:
    """A container with the capability 'compute' only: torch computes, and NVML is not there."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "pynvml", None)


def test_the_gpu_is_named_by_cudas_driver_where_it_finds_one_also_without_nvml(
    driver: None, no_smi: None, monkeypatch
) -> None:
    found = machine_probe.host()
    assert (found.gpu, found.gpu_memory_bytes, found.driver) == (PART, 5_100_273_664, None)
    assert found.compute_capability == "8.6"
    machine_probe.first_gpu.cache_clear()
    monkeypatch.setenv("CU_INIT", "100")
    assert machine_probe.first_gpu() is None


def test_nvmls_first_card_is_not_taken_for_the_one_that_torch_uses(driver: None, no_smi: None, monkeypatch) -> None:
    """NVML counts by the bus, CUDA begins with the fastest: here the older card is NVML's first."""
    nvml = SimpleNamespace(
        nvmlInit=lambda: None,
        NVMLError_DriverNotLoaded=RuntimeError,
        nvmlDeviceGetHandleByIndex=lambda place: place,
        nvmlDeviceGetName=lambda handle: "NVIDIA GeForce GTX 1050",
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=2_000_000_000),
        nvmlDeviceGetCudaComputeCapability=lambda handle: (6, 1),
        nvmlSystemGetDriverVersion=lambda: "580.95",
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setattr(torch.cuda, "pynvml", nvml, raising=False)
    monkeypatch.setattr(torch.cuda, "_HAS_PYNVML", True)
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_75", "sm_80"])
    found = machine_probe.host()
    assert (found.gpu, found.driver, found.gpu_problem) == (PART, "580.95", None)


def test_a_gpu_of_which_no_driver_says_anything_is_tried_and_one_that_is_not_usable_has_no_name(
    no_smi: None, monkeypatch
) -> None:
    for usable, gpu, name in ((True, None, "NVIDIA GPU"), (False, machine_probe.Gpu(PART, 1, (8, 6)), None)):
        monkeypatch.setattr(torch.cuda, "is_available", lambda usable=usable: usable)
        monkeypatch.setattr(machine_probe, "first_gpu", lambda gpu=gpu: gpu)
        machine_probe.host.cache_clear()
        found = machine_probe.host()
        assert (found.gpu, found.gpu_memory_bytes, found.driver) == (name, None, None)
        assert (found.gpu_problem is None) == usable


@pytest.mark.parametrize(
    ("built", "works"),
    [
        (["sm_75", "sm_80", "sm_90a"], True),
        (["sm_89", "sm_90"], False),
        (["sm_50", "compute_80"], True),
        (["sm_50", "sm_75"], False),
        (["sm_100", "compute_120"], False),
        ([], True),
    ],
    ids=str,
)
def test_a_gpu_that_torch_has_no_code_for_is_explained_and_left_alone(
    built: list[str], works: bool, driver: None, no_smi: None, monkeypatch
) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: built)
    assert machine_probe.usable() == works
    if works:
        assert machine_probe.gpu_problem() is None
    else:
        assert f"has no code for the {PART} (compute capability 8.6); `pip" in machine_probe.gpu_problem()
        assert machine_probe.host().gpu is None


T4, H100, B200 = ("Tesla T4", 1, (7, 5)), ("NVIDIA H100", 1, (9, 0)), ("NVIDIA B200", 1, (10, 0))
CPU_BUILD = "is a CPU build although a Tesla T4 is present; `pip install --force-reinstall torch"


@pytest.mark.parametrize(
    ("build", "gpu", "card", "driver", "says"),
    [
        (None, T4, None, "580.95", (CPU_BUILD, "whl/cu130`")),
        (None, T4, None, None, ("whl/cu130`",)),
        (None, ("Titan V", 1, (7, 0)), None, "580.95", ("whl/cu126`",)),
        (None, T4, None, "550.54", ("whl/cu126`",)),
        ("13.0", T4, None, "550.54", ("cannot use the Tesla T4 with driver 550.54; update the driver, or `pip",)),
        # NVML names a card whose CUDA does not start.
        ("13.0", None, H100, "580.95", ("cannot use the NVIDIA H100 with driver 580.95; update the driver",)),
        # Newer than build and driver: torch sees it, and has no code for it.
        ("12.6", B200, None, "570.86", ("no code for the NVIDIA B200 (compute capability 10.0); update the driver",)),
    ],
)
def test_a_gpu_that_torch_cannot_use_is_told_with_what_mends_it_unless_it_is_hidden(
    build: str | None,
    gpu: tuple | None,
    card: tuple | None,
    driver: str | None,
    says: tuple[str, ...],
    monkeypatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu is B200)
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_50", "sm_90"])
    monkeypatch.setattr(torch.version, "cuda", build)
    monkeypatch.setattr(machine_probe, "first_gpu", lambda: gpu and machine_probe.Gpu(*gpu))
    monkeypatch.setattr(machine_probe, "first_card", lambda: card and machine_probe.Gpu(*card))
    monkeypatch.setattr(machine_probe, "driver_version", lambda: driver)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    told = machine_probe.gpu_problem()
    assert all(one in told for one in says)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert machine_probe.gpu_problem() is None


def test_a_toolkit_without_headers_is_none(tmp_path, monkeypatch) -> None:
    """As in the images of CUDA's runtime."""
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert machine_probe.cuda_toolkit() is None
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "cuda.h").touch()
    assert machine_probe.cuda_toolkit() == str(tmp_path)


def test_a_container_has_the_memory_that_its_group_is_given(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(machine_probe, "CGROUP_MEMORY", tmp_path / "memory.max")
    whole = machine_probe.machine_memory()
    for text, found in [("1000000\n", 1_000_000), ("max\n", whole), (f"{2**60}\n", whole)]:
        machine_probe.CGROUP_MEMORY.write_text(text)
        assert machine_probe.machine_memory() == found
