"""What a waiting worker says of its machine, with a driver of CUDA that is made up: some functions of a C library."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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
        assert f"has no code for the {PART} (compute capability 8.6); `pip" in machine_probe.gpu_problem()
        assert machine_probe.host().gpu is None


T4, B200 = ("Tesla T4", 1, (7, 5)), ("NVIDIA B200", 1, (10, 0))
TITAN_V, K80 = ("Titan V", 1, (7, 0)), ("Tesla K80", 1, (3, 7))
PIP = "`pip install --force-reinstall torch==2.13.0 --index-url https://download.pytorch.org/whl/"
UPDATE = "; update the driver to 580 or newer"


@pytest.fixture
def unusable(monkeypatch) -> Callable[..., str | None]:
    """What is told of a GPU that torch 2.13.0 cannot use, in its `build` for a CUDA, with this `driver`."""

    def told(build: str | None, driver: str | None, gpu: tuple | None, sees: bool = False, **nvml: Any) -> str | None:
        found = gpu and machine_probe.Gpu(*gpu)
        monkeypatch.setattr(torch, "__version__", f"2.13.0+cu{build.replace('.', '')}" if build else "2.13.0+cpu")
        monkeypatch.setattr(torch.version, "cuda", build)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: sees)
        monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_50", "sm_90"])
        monkeypatch.setattr(machine_probe, "first_gpu", lambda: found)
        monkeypatch.setattr(machine_probe, "driver_version", lambda: driver)
        monkeypatch.setitem(sys.modules, "pynvml", SimpleNamespace(nvmlInit=lambda: None, **nvml))
        return machine_probe.gpu_problem()

    for name in ("CUDA_VISIBLE_DEVICES", "SPACE_ID"):
        monkeypatch.delenv(name, raising=False)
    return told


CPU_BUILD = "is a CPU build although a Tesla T4 is present; "
ANOTHER = " installs another build"
WHY = "; `python -c 'import torch; torch.cuda.init()'` says why"


@pytest.mark.parametrize(
    ("build", "driver", "gpu", "sees", "says"),
    [
        pytest.param(None, "580.95", T4, False, f"{CPU_BUILD}{PIP}cu130`{ANOTHER}", id="CPU build"),
        pytest.param(None, "580.95", TITAN_V, False, f"; {PIP}cu126`{ANOTHER}", id="CPU build, old card"),
        pytest.param("13.0", "580.95", TITAN_V, True, f"(compute capability 7.0); {PIP}cu126`{ANOTHER}", id="old card"),
        pytest.param("13.0", "550.54", T4, False, f"550.54{UPDATE}, or {PIP}cu126`{ANOTHER}", id="old driver"),
        pytest.param("12.6", "580.95", B200, True, f"(compute capability 10.0); {PIP}cu130`{ANOTHER}", id="new card"),
        # torch for CUDA 12.6 has no code for Blackwell
        pytest.param("13.0", "575.51", B200, False, UPDATE, id="new card, old driver"),
        pytest.param("12.6", "470.82", T4, False, UPDATE, id="driver too old for all"),
        pytest.param("13.0", "470.82", K80, False, "; no build of torch 2.13.0 has code for it", id="old card for all"),
        pytest.param("13.0", "580.95", T4, False, WHY, id="new driver"),
    ],
)
def test_a_gpu_that_torch_cannot_use_is_told_with_what_helps(build, driver, gpu, sees, says, unusable):
    told = unusable(build, driver, gpu, sees)
    assert says in told if says.endswith(ANOTHER) else told.endswith(says)


def test_on_a_space_what_its_owner_can_change_is_named(unusable: Callable[..., str], monkeypatch) -> None:
    monkeypatch.setenv("SPACE_ID", "someone/space")
    assert "whl/cu126` and `torch==2.13.0+cu126`" in unusable("13.0", "575.57", T4)
    assert unusable("13.0", "575.57", B200).endswith("; choose other hardware")


def cards(mig: bool) -> dict[str, Any]:
    """NVML's answers on a machine with an H100."""
    answers = {"Name": "NVIDIA H100", "MigMode": [int(mig)] * 2, "HandleByIndex": "handle"}
    return {f"nvmlDeviceGet{name}": lambda _, answer=answer: answer for name, answer in answers.items()}


@pytest.mark.parametrize(
    ("visible", "mig", "says"),
    [
        ("-1", False, "CUDA_VISIBLE_DEVICES='-1' hides the NVIDIA H100; unset it"),
        ("7,0", False, "CUDA_VISIBLE_DEVICES='7,0' hides the NVIDIA H100"),
        ("0", True, "the NVIDIA H100 is in MIG mode without an instance"),
        ("0", False, "CUDA does not start on the NVIDIA H100; restart the machine"),
    ],
    ids=["none", "one too many first", "MIG with its index", "not started"],
)
def test_a_gpu_that_only_nvml_finds_is_no_drivers_fault(visible, mig, says, unusable, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    told = unusable("13.0", "580.95", None, **cards(mig))
    assert told.startswith(says) and "driver" not in told


def test_a_gpu_without_a_driver_that_names_it_is_tried(no_smi: None, monkeypatch) -> None:
    monkeypatch.setattr(machine_probe, "first_gpu", lambda: None)
    assert (machine_probe.host().gpu, machine_probe.host().gpu_problem) == ("NVIDIA GPU", None)


def test_a_gpu_that_is_hidden_on_purpose_is_no_problem(unusable: Callable[..., str | None], monkeypatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert unusable("13.0", "580.95", None, **cards(mig=False)) is None


def with_headers(home: Path, *headers: str) -> Path:
    for header in headers:
        (home / "include" / header).parent.mkdir(parents=True, exist_ok=True)
        (home / "include" / header).touch()
    return home


@pytest.fixture
def no_toolkit(tmp_path: Path, monkeypatch) -> Path:
    """Torch in a folder of its own, whose place for wheels this is; no nvcc, and no folder is named."""
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "site" / "torch" / "__init__.py"))
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(machine_probe, "CUDA_FOLDER", str(tmp_path / "cuda"))
    monkeypatch.setattr(machine_probe.shutil, "which", lambda name: None)
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "site" / "nvidia" / "cu13"


def test_a_toolkit_without_one_of_its_headers_is_none(no_toolkit: Path) -> None:
    """As in the images of CUDA's runtime. Of torch's own wheels those that are missing are named."""
    assert "CUDA_HOME" in machine_probe.host().toolkit_remedy
    with_headers(no_toolkit, "cuda.h")
    machine_probe.host.cache_clear()
    wheels = '"nvidia-cuda-crt==13.0.*" "nvidia-cuda-cccl==13.0.*"'
    assert wheels in machine_probe.host().toolkit_remedy and machine_probe.host().cuda_toolkit is None
    with_headers(no_toolkit, "crt/host_defines.h", "nv/target")
    machine_probe.host.cache_clear()
    assert machine_probe.host().cuda_toolkit == "cu13"


@pytest.fixture
def compiler_that(tmp_path: Path, monkeypatch) -> Iterator[Callable[[str], None]]:
    """Lets inductor call a compiler that has a version and runs this shell code where it should compile."""

    def does(code: str) -> None:
        script = tmp_path / "c++"
        script.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo c++ 1; exit; fi\n{code}\n')
        script.chmod(0o755)

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    with inductor_config.patch({"cpp.cxx": (None, str(tmp_path / "c++"))}):
        yield does


def test_a_small_extension_is_built_and_removed(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    assert machine_probe.compile_problem() is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("echo \"x.cpp:1:10: fatal error: 'Python.h' file not found\"; exit 1", ("Python.h", "-dev; Fedora")),
        ("echo 'x.cpp: error: no room: No space left on device'; exit 1", ("no room", "Make room")),
        ("echo 'x.cpp:1:1: error: internal'; exit 1", ("here: error: internal.",)),
        ("exit 0", ("cannot open shared object file",)),
    ],
    ids=["header", "disk", "unknown", "no library"],
)
def test_why_nothing_can_be_compiled_is_told(code, says, compiler_that, tmp_path):
    compiler_that(code)
    found = machine_probe.compile_problem()
    assert all(one in found for one in says) and str(tmp_path) not in found
    assert says[1:] or found.endswith("internal.") or found.endswith("directory.")


@pytest.mark.parametrize("compiler", ["no-such-compiler", "/"], ids=["missing", "a folder"])
def test_a_missing_compiler_is_told(compiler: str) -> None:
    with inductor_config.patch({"cpp.cxx": (None, compiler)}):
        assert "build-essential" in machine_probe.host().compile_problem


@pytest.mark.parametrize("missing", ["nothing", "Python.h", "noexec", "writing"])
def test_a_waiting_worker_rarely_compiles(missing: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(machine_probe, "compile_problem", lambda: "no")
    with_headers(tmp_path, "Python.h")
    folder = tmp_path if missing == "Python.h" else tmp_path / "include"
    monkeypatch.setattr(machine_probe.sysconfig, "get_path", lambda name: str(folder))
    flags = os.ST_NOEXEC if missing == "noexec" else 0
    monkeypatch.setattr(os, "statvfs", lambda folder: SimpleNamespace(f_flag=flags))
    monkeypatch.setattr(os, "access", lambda *_: missing != "writing")
    assert machine_probe.host().compile_problem == (None if missing == "nothing" else "no")


def test_a_container_has_the_memory_that_its_group_is_given(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(machine_probe, "CGROUP_MEMORY", tmp_path / "memory.max")
    whole = machine_probe.machine_memory()
    for text, found in [("1000000\n", 1_000_000), ("max\n", whole), (f"{2**60}\n", whole)]:
        machine_probe.CGROUP_MEMORY.write_text(text)
        assert machine_probe.machine_memory() == found
