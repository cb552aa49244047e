"""Describes this machine's hardware and compiler. If torch cannot use the GPU or the compiler, says why.

Only `environment` and `compile_problem(on_gpu=True)` make a CUDA context.
"""

import contextlib
import ctypes
import dataclasses
import os
import platform
import re
import shutil
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, TypeVar

import torch
import transformers
from torch._inductor import cpp_builder, exc, list_mode_options
from torch._inductor.runtime.cache_dir_utils import cache_dir

from ..core import cgroup, hub, limits
from ..core.cores import usable_cores
from ..core.machine import Environment, HostInfo
from . import causes, compile_cache, error_text, instruction_probe

T = TypeVar("T")

CUDA_FOLDER = "/usr/local/cuda"
MAPS = Path("/proc/self/maps")
"""Linux's list of the files that this process has mapped into its memory."""
PACKAGE_HEADERS = ("cuda.h", "crt/host_defines.h", "nv/target")
"""CUDA headers that building an AOTInductor package for a GPU needs. Torch's own wheels contain only the first."""
BLACKWELL = (10, 0)
"""Least compute capability of the GPUs for which torch's build for CUDA 12.6 has no code."""
CUDA_12_WHEELS = ("cuda_runtime", "cuda_nvcc", "cuda_cccl")
"""Folders in site-packages/nvidia into which the wheels of CUDA 12 install headers. Those of CUDA 13 share one,
`cu13`."""
EXTENSION = """
#include <Python.h>
#include <omp.h>
#include <sstream>
extern "C" const char *version() { return omp_get_max_threads() ? Py_GetVersion() : ""; }
"""

BUILT_FILE = "extension-built"
"""A file in the compile cache: with which compiler, torch and Python headers `EXTENSION` was built."""


def warm_imports() -> None:
    """Imports the transformers classes of the bundled vision checkpoints, so that the first run need not."""
    models = ("ViTForImageClassification", "SegformerForSemanticSegmentation", "RTDetrForObjectDetection")
    processors = ("ViTImageProcessorPil", "SegformerImageProcessorPil", "RTDetrImageProcessorPil")
    for name in (*models, *processors):
        getattr(transformers, name, None)


def seconds_since_start() -> float | None:
    """Returns the age of this process in seconds, exact to a clock tick (0.01 s); None without /proc."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return None
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def usable() -> bool:
    """Returns whether torch sees a GPU and was built with code that this GPU can run.

    - Code for compute capability 8.0 also runs on 8.6, but not on 9.0. PTX (portable code) for 8.0 runs on all later
      GPUs.
    - If the capability of the GPU or of the build is unknown, only `torch.cuda.is_available` decides.
    """
    gpu, built = first_gpu(), re.findall(r"(sm|compute)_(\d+)", " ".join(torch.cuda.get_arch_list()))
    if gpu is None or not built:
        return torch.cuda.is_available()
    needed, code = gpu.capability, [(kind, divmod(int(number), 10)) for kind, number in built]
    runs = any(have <= needed and (kind == "compute" or have[0] == needed[0]) for kind, have in code)
    return runs and torch.cuda.is_available()


def gpu_problem() -> str | None:
    """Returns why torch cannot use this machine's GPU, and what to do.

    None if torch can use it, if there is no GPU, or if CUDA_VISIBLE_DEVICES hides the GPUs.
    """
    first_visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0].strip()
    if usable() or first_visible in ("", "-1"):  # these hide the GPUs on purpose
        return None
    if (gpu := first_gpu()) is None:
        card = ask_nvml(lambda nvml: str(nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(0))))
        check = "CUDA_VISIBLE_DEVICES, the instances of a card in MIG mode, and a container's `--gpus all`"
        return f"CUDA does not start on the {card}; check {check}" if card else None
    capability, driver = ".".join(map(str, gpu.capability)), driver_version() or "of unknown version"
    card = f"{gpu.name} (compute capability {capability}, driver {driver})"
    remedy = "install the build of torch for this GPU and driver (https://pytorch.org/get-started), or a newer driver"
    if limits.on_space() and gpu.capability < BLACKWELL and not (torch.version.cuda or "").startswith("12"):
        line = f"torch=={torch.__version__.partition('+')[0]}+cu126"
        remedy = f"in the Space's requirements.txt replace torch's line by two: {hub.CUDA_12_INDEX} and {line}"
    return f"torch {torch.__version__} cannot use the {card}; {remedy}"


def ask_nvml(question: Callable[[ModuleType], T]) -> T | None:
    """Returns what `question` returns for the module pynvml; None if NVML is missing, or if it raises an error."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return question(pynvml)
    except Exception:  # not installed, no driver, or it refuses: NVML raises classes of its own
        return None


def driver_version() -> str | None:
    return ask_nvml(lambda nvml: str(nvml.nvmlSystemGetDriverVersion()))


def loaded_driver() -> Path | None:
    """Returns the file of CUDA's driver library that this process has loaded; None if it has none, or without /proc."""
    try:
        found = re.search(r"/\S*/libcuda\.so\S*$", MAPS.read_text(errors="replace"), re.MULTILINE)
    except OSError:
        return None
    return Path(found[0]) if found else None


class Gpu(NamedTuple):
    name: str
    memory_bytes: int
    capability: tuple[int, int]


@cache
def first_gpu() -> Gpu | None:
    """Returns what CUDA's driver says about torch's GPU cuda:0; None without driver or GPU, or if the driver fails.

    Unlike NVML, the driver respects CUDA_VISIBLE_DEVICES, and names a part of a card (MIG) as torch does. The call
    makes no CUDA context, but processes that are forked afterwards cannot use CUDA.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, name, size = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_size_t()
    major, minor = ctypes.c_int(), ctypes.c_int()
    errors = (
        driver.cuInit(0),
        driver.cuDeviceGet(ctypes.byref(device), 0),
        driver.cuDeviceGetName(name, len(name), device),
        driver.cuDeviceTotalMem_v2(ctypes.byref(size), device),
        driver.cuDeviceGetAttribute(ctypes.byref(major), 75, device),  # COMPUTE_CAPABILITY_MAJOR, then _MINOR
        driver.cuDeviceGetAttribute(ctypes.byref(minor), 76, device),
    )
    return None if any(errors) else Gpu(name.value.decode(), size.value, (major.value, minor.value))


def environment(device: torch.device) -> Environment:
    """Returns the description of the machine that a result stores. Makes a CUDA context if `device` is a GPU."""
    facts = host().facts() | {"device_name": host().cpu, "platform": platform.platform(terse=True)}
    if device.type == "cuda":
        gpu = torch.cuda.get_device_properties(device)
        facts |= {"device_name": gpu.name, "memory_bytes": gpu.total_memory, "cuda": torch.version.cuda}
        facts["compute_capability"] = f"{gpu.major}.{gpu.minor}"
    else:
        facts |= dict.fromkeys(("driver", "compute_capability", "cuda_toolkit"))
    return Environment(**facts, cpu_count=usable_cores(), threads=torch.get_num_threads())


def cpu_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def machine_memory() -> int:
    """Returns the machine's bytes of memory, or the limit of its control groups if that is lower."""
    return int(min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), cgroup.memory_limit()))


def free_memory() -> int | None:
    """Returns the bytes of memory that this process can still allocate; None without /proc."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
    return int(min(free, cgroup.memory_left()))


def compiler() -> str | None:
    """Returns the first line that inductor's C++ compiler prints for `--version`; None if there is none that runs."""
    try:
        command = cpp_builder.get_cpp_compiler()
        answer = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=10)
    except (exc.InvalidCxxCompiler, OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.splitlines()[0] if answer.returncode == 0 and answer.stdout else None


def compile_problem(on_gpu: bool = False) -> str | None:
    """Returns why torch.compile cannot build code here, and what to do; None if it can. Takes about a second.

    Builds and loads a small C++ extension, as inductor does, unless torch.compile is switched off. With `on_gpu` a
    Triton kernel is compiled as well, which makes a CUDA context.
    """
    if problem := causes.switched_off():
        return problem
    try:
        with tempfile.TemporaryDirectory(dir=cache_dir(), ignore_cleanup_errors=True) as folder:
            (source := Path(folder, "extension.cpp")).write_text(EXTENSION)
            options = cpp_builder.CppTorchOptions()
            builder = cpp_builder.CppBuilder("extension", str(source), options, folder)
            builder.build()
            ctypes.PyDLL(builder.get_target_file_path())
            if on_gpu:
                compile_cache.use_empty_cache(Path(folder))
                torch.compile(torch.sin)(torch.ones(8, device="cuda"))
    except Exception as error:  # of a compiler, a linker, a loader or a file system
        reason = error_text.first_line(error if compiler() else exc.InvalidCxxCompiler()).rstrip(".")
        return f"torch.compile cannot build code here: {reason}. {causes.build_remedy(reason)}".strip()
    return None


def compile_problem_at_start(cpp_compiler: str | None) -> str | None:
    """Returns `compile_problem()`, but builds no extension if this compile cache already has the record of a success.

    Each worker asks before it reports the machine, and a compiler at work would disturb a run. What breaks after the
    record was written is found by `doctor`, or by the next run.

    `cpp_compiler`: what `compiler` returned.
    """
    record = Path(cache_dir(), BUILT_FILE)
    builds = f"{cpp_compiler} {torch.__version__} {sysconfig.get_path('include')}"
    with contextlib.suppress(OSError, ValueError):
        if record.read_text(encoding="utf-8") == builds:
            return causes.switched_off() or None
    problem = compile_problem()
    if problem is None:
        with contextlib.suppress(OSError):
            record.write_text(builds, encoding="utf-8")
    return problem


def cuda_toolkit() -> list[Path]:
    """Returns the folders that together have all `PACKAGE_HEADERS`; [] if no such folders are found.

    Tried in this order: a CUDA toolkit (one folder), the wheels of CUDA 13 (one folder), the wheels of CUDA 12 (three
    folders).
    """
    nvcc, wheels = shutil.which("nvcc"), Path(torch.__file__).parents[1] / "nvidia"
    named = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    homes = [Path(home) for home in (named, nvcc and Path(nvcc).parents[1], CUDA_FOLDER) if home]
    candidates = [[home] for home in (*homes, *sorted(wheels.glob("cu[0-9]*")))]
    candidates.append([wheels / name for name in CUDA_12_WHEELS])

    def complete(folders: list[Path]) -> bool:
        return all(any((folder / "include" / name).is_file() for folder in folders) for name in PACKAGE_HEADERS)

    return next(filter(complete, candidates), [])


@cache
def host() -> HostInfo:
    """Returns all facts about the machine that can be found out without a CUDA context."""
    can_use, toolkit, cpp_compiler = usable(), cuda_toolkit(), compiler()
    gpu = first_gpu() if can_use else None
    unnamed = "AMD GPU" if torch.version.hip else "NVIDIA GPU"
    return HostInfo(
        torch=torch.__version__,
        torch_folder=str(Path(torch.__file__).parent),
        transformers=transformers.__version__,
        python=platform.python_version(),
        cpu=cpu_name(),
        memory_bytes=machine_memory(),
        modes=tuple(list_mode_options()),
        compiler=cpp_compiler,
        gpu=gpu.name if gpu else unnamed if can_use else None,
        driver=driver_version(),
        gpu_problem=gpu_problem(),
        triton=next((package.version for package in metadata.distributions(name="triton")), None),
        inductor_cache=cache_dir(),
        gpu_memory_bytes=gpu.memory_bytes if gpu else None,
        compute_capability=".".join(map(str, gpu.capability)) if gpu else None,
        cuda_toolkit=toolkit[0].name if toolkit else None,
        threads=torch.get_num_threads(),
        compile_problem=compile_problem_at_start(cpp_compiler),
    )


def host_after_probe() -> HostInfo:
    """Returns `host()`, with the times of inductor's instruction probe added.

    The probe is run first, unless this compile cache has its times. If compiles are for a GPU, or cannot work, the
    probe is not run. Then no times are added, and also if the cache cannot be written.
    """
    machine = host()
    if machine.gpu or machine.compile_problem:
        return machine
    try:
        probe = instruction_probe.build()
    except OSError:  # the cache cannot be written: a run says it
        return machine
    return dataclasses.replace(machine, probe_seconds=probe.seconds, compiler_seconds=probe.compiler_seconds)


if __name__ == "__main__":  # for `doctor`, in a worker's environment
    print(compile_problem(on_gpu=usable()) or "nothing")
