"""What machine this is: versions, device, driver, compiler. Only `environment` makes a CUDA context."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
import transformers

from demo.core.machine import Environment, HostInfo

TURING = (7, 5)
CGROUP_MEMORY = Path("/sys/fs/cgroup/memory.max")
CUDA_13_DRIVER = 580
"""The oldest driver that CUDA 13 runs with; torch's default build is for CUDA 13."""


def warm_imports() -> None:
    """Imports what the bundled checkpoints need, so that the first run does not wait for it."""
    for name in (
        "ViTForImageClassification",
        "SegformerForSemanticSegmentation",
        "RTDetrForObjectDetection",
        "ViTImageProcessorPil",
        "SegformerImageProcessorPil",
        "RTDetrImageProcessorPil",
    ):
        getattr(transformers, name, None)


def seconds_since_start() -> float | None:
    """How long this process has been running; None on systems without /proc.

    The kernel keeps the start in clock ticks since the machine was switched on, so it is right to 0.01 s.
    """
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return None
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def usable() -> bool:
    """Whether torch can compute on a GPU here: it sees one, and was built with code for it.

    A build for CUDA 13 has none for cards from before Turing. Where the driver or the build does not say, the GPU is
    tried.
    """
    gpu = first_gpu()
    built = [int(number) for number in re.findall(r"sm_(\d+)", " ".join(torch.cuda.get_arch_list()))]
    too_old = gpu is not None and built and gpu.capability < divmod(min(built), 10)
    return torch.cuda.is_available() and not too_old


def gpu_problem() -> str | None:
    """Why torch cannot use the GPU that the machine seems to have; None where it can, or has none to use."""
    gpu = first_gpu()
    if gpu is None or usable():
        return None
    build = "a CPU build" if torch.version.cuda is None else f"built for CUDA {torch.version.cuda}"
    new = int(gpu.driver.partition(".")[0]) >= CUDA_13_DRIVER and gpu.capability >= TURING
    index = f"https://download.pytorch.org/whl/{'cu130' if new else 'cu126'}"
    return (
        f"torch {torch.__version__} is {build} and cannot use the {gpu.name} (compute capability "
        f"{'.'.join(map(str, gpu.capability))}, driver {gpu.driver}); "
        f"`pip install --force-reinstall torch --index-url {index}` installs one that can"
    )


class Gpu(NamedTuple):
    name: str
    memory_bytes: int
    capability: tuple[int, int]
    driver: str


@cache
def first_gpu() -> Gpu | None:
    """The GPU that torch calls cuda:0, as NVML tells without a CUDA context; None where it does not answer.

    So it is in some containers, and without a GPU. Of a part of a card (MIG) it tells the whole card's name and memory;
    a run's result has those of the part.
    """
    try:
        import pynvml

        handle = torch.cuda._get_pynvml_handler(0)  # heeds CUDA_VISIBLE_DEVICES
        name, driver = pynvml.nvmlDeviceGetName(handle), pynvml.nvmlSystemGetDriverVersion()
        major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
        return Gpu(str(name), int(pynvml.nvmlDeviceGetMemoryInfo(handle).total), (major, minor), str(driver))
    except Exception:  # not installed, no driver, or it refuses: NVML raises classes of its own
        return None


def environment(device: torch.device) -> Environment:
    """The machine as a result records it. With a CUDA device this makes a context."""
    known = replace(
        Environment.of_host(host(), device.type),
        platform=platform.platform(terse=True),
        threads=torch.get_num_threads(),
    )
    if device.type != "cuda":
        return known
    properties = torch.cuda.get_device_properties(device)
    return replace(
        known,
        device_name=properties.name,
        memory_bytes=properties.total_memory,
        cuda=torch.version.cuda,
        compute_capability=f"{properties.major}.{properties.minor}",
    )


def cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def machine_memory() -> int:
    """Bytes of memory, those of the control group where it has fewer (v2); 0 where the system does not say."""
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0
    try:
        return min(physical, int(CGROUP_MEMORY.read_text()))
    except (OSError, ValueError):  # not there, or 'max'
        return physical


def _triton_version() -> str | None:
    if importlib.util.find_spec("triton") is None:
        return None
    import triton

    return triton.__version__


def compiler() -> str | None:
    """First line of `--version` of the C++ compiler that inductor would call; None where it finds none.

    Inductor compiles its CPU kernels with it, and Triton its launchers on a GPU.
    """
    from torch._inductor import cpp_builder, exc

    try:
        command = cpp_builder.get_cpp_compiler()
        answer = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=10)
    except (exc.InvalidCxxCompiler, OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.splitlines()[0] if answer.returncode == 0 and answer.stdout else None


def cuda_toolkit() -> str | None:
    """The folder of NVIDIA's CUDA toolkit, where `torch.utils.cpp_extension` would look; None without its headers."""
    nvcc = shutil.which("nvcc")
    named = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    home = Path(named or (Path(nvcc).parents[1] if nvcc else "/usr/local/cuda"))
    return str(home) if (home / "include" / "cuda.h").is_file() else None


def too_few_multiprocessors() -> bool:
    """True where inductor will refuse to autotune matrix products ('Not enough SMs'), as on a T4."""
    from torch._inductor.utils import is_big_gpu

    return torch.cuda.is_available() and not is_big_gpu()


@cache
def host() -> HostInfo:
    """What a waiting worker can tell of the machine without a CUDA context; found out once in a process."""
    from torch._inductor import list_mode_options
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    gpu, can_use = first_gpu(), usable()
    used = gpu if can_use else None
    return HostInfo(
        torch=torch.__version__,
        transformers=transformers.__version__,
        python=platform.python_version(),
        cpu=cpu_name(),
        memory_bytes=machine_memory(),
        modes=tuple(list_mode_options()),
        compiler=compiler(),
        gpu=used.name if used else "NVIDIA GPU" if can_use else None,
        driver=gpu.driver if gpu else None,
        gpu_problem=gpu_problem(),
        triton=_triton_version(),
        inductor_cache=cache_dir(),
        gpu_memory_bytes=used.memory_bytes if used else None,
        compute_capability=".".join(map(str, used.capability)) if used else None,
        cuda_toolkit=cuda_toolkit(),
    )
