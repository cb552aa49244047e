"""What machine this is: versions, device, driver, compiler. Only `environment` makes a CUDA context."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
import transformers

from demo.core.machine import Environment, HostInfo, usable_cores

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
    """Whether torch can compute on a GPU here: it sees one, and was built with code for it."""
    return torch.cuda.is_available() and not _without_code()


def _without_code() -> bool:
    """True for a GPU that torch sees and has no code for, such as a Volta card under a build for CUDA 13.

    A build runs on the compute capabilities in its list, on later minor versions of these, and from PTX on all later
    ones. False where the driver or the build does not say: the GPU is then tried.
    """
    gpu = first_gpu()
    names = [name.rstrip("af").partition("_")[::2] for name in torch.cuda.get_arch_list()]
    if gpu is None or not names:
        return False
    own = gpu.capability
    built = [(kind, divmod(int(number), 10)) for kind, number in names if number.isdigit()]
    return not any(
        (kind == "sm" and have[0] == own[0] and have[1] <= own[1]) or (kind == "compute" and have <= own)
        for kind, have in built
    )


def gpu_problem() -> str | None:
    """Why torch cannot use the GPU that the machine seems to have; None where it can, or has none to use."""
    if usable() or os.environ.get("CUDA_VISIBLE_DEVICES") == "":  # it is hidden on purpose
        return None
    if torch.cuda.is_available() and (gpu := first_gpu()) is not None:
        major, minor = gpu.capability
        return (
            f"torch {torch.__version__} for CUDA {torch.version.cuda} has no code for the {gpu.name} (compute "
            f"capability {major}.{minor}); `{_other_torch(driver_version(), gpu.capability)}` installs one that has"
        )
    card = first_card()
    if card is None:
        return None
    if torch.version.cuda is None:
        return (
            f"torch {torch.__version__} is a CPU build although a {card['name']} is present; "
            f"`{_other_torch(card['driver'])}` installs a build for CUDA"
        )
    return (
        f"torch {torch.__version__} is built for CUDA {torch.version.cuda} and cannot use the {card['name']} with "
        f"driver {card['driver']}; update the driver, or `{_other_torch(card['driver'])}` installs another torch"
    )


def _other_torch(driver: str | None, capability: tuple[int, int] = TURING) -> str:
    """The command that installs a torch for this driver and GPU. A build for CUDA 13 has no code from before Turing.

    Torch 2.14 is the last of the index cu126 (pytorch issue 190385).
    """
    new = driver is None or int(driver.partition(".")[0]) >= CUDA_13_DRIVER
    build = "cu130" if new and capability >= TURING else "cu126"
    return f"pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/{build}"


def first_card() -> dict[str, str] | None:
    """Name and driver of NVML's first GPU, which needs no CUDA context; None where NVIDIA's driver does not answer."""
    try:
        import pynvml

        pynvml.nvmlInit()
        name = pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0))
        return {"name": str(name), "driver": str(pynvml.nvmlSystemGetDriverVersion())}
    except Exception:  # not installed, no driver, or it refuses: NVML raises classes of its own
        return None


@dataclass(frozen=True)
class Gpu:
    name: str
    memory_bytes: int
    capability: tuple[int, int]


@cache
def first_gpu() -> Gpu | None:
    """The GPU that torch calls cuda:0; None where the driver does not say.

    Asks CUDA's driver, as torch does. Unlike NVML it is present wherever torch can compute, respects
    CUDA_VISIBLE_DEVICES and the order of the cards, and names a part of a card (MIG) as a run's result will. The
    questions make no context, but start CUDA, after which a process cannot fork another that uses it: so a child asks
    them. The child does not import torch, which would add seconds to the start of every worker.
    """
    with contextlib.suppress(OSError, subprocess.TimeoutExpired, ValueError):
        command = [sys.executable, "-I", "-S", str(Path(__file__).with_name("first_gpu.py"))]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30)
        if answer.returncode == 0:
            name, size, major, minor = json.loads(answer.stdout)
            return Gpu(str(name), int(size), (int(major), int(minor)))
    return None


def driver_version() -> str | None:
    """NVIDIA's; None where NVML is not there, as in some containers."""
    card = first_card()
    return card["driver"] if card else None


def environment(device: torch.device) -> Environment:
    """The machine as a result records it. With a CUDA device this asks the driver and makes a context."""
    cpu = cpu_name()
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        name, memory = properties.name, properties.total_memory
        capability = f"{properties.major}.{properties.minor}"
    else:
        name, memory, capability = cpu, machine_memory(), None
    return Environment(
        torch=torch.__version__,
        transformers=transformers.__version__,
        python=platform.python_version(),
        platform=platform.platform(terse=True),
        device_name=name,
        cpu=cpu,
        cpu_count=usable_cores(),
        threads=torch.get_num_threads(),
        memory_bytes=memory,
        driver=driver_version() if device.type == "cuda" else None,
        cuda=torch.version.cuda if device.type == "cuda" else None,
        compute_capability=capability,
        triton=_triton_version(),
        compiler=compiler(),
        cuda_toolkit=cuda_toolkit() if device.type == "cuda" else None,
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


def modes() -> tuple[str, ...]:
    """The compile modes that this torch offers."""
    from torch._inductor import list_mode_options

    return tuple(list_mode_options())


def too_few_multiprocessors() -> bool:
    """True where inductor will refuse to autotune matrix products ('Not enough SMs'), as on a T4."""
    from torch._inductor.utils import is_big_gpu

    return torch.cuda.is_available() and not is_big_gpu()


@cache
def host() -> HostInfo:
    """What a waiting worker can tell of the machine without a CUDA context; found out once in a process."""
    can_use = usable()
    gpu = first_gpu() if can_use else None
    card = first_card() if can_use and gpu is None else None  # a name that may be another card's is better than none
    return HostInfo(
        torch=torch.__version__,
        transformers=transformers.__version__,
        python=platform.python_version(),
        cpu=cpu_name(),
        memory_bytes=machine_memory(),
        modes=modes(),
        compiler=compiler(),
        gpu=gpu.name if gpu else card["name"] if card else "NVIDIA GPU" if can_use else None,
        driver=driver_version(),
        gpu_problem=gpu_problem(),
        triton=_triton_version(),
        inductor_cache=_inductor_cache(),
        gpu_memory_bytes=gpu.memory_bytes if gpu else None,
        compute_capability=".".join(map(str, gpu.capability)) if gpu else None,
        cuda_toolkit=cuda_toolkit(),
    )


def _inductor_cache() -> str:
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    return cache_dir()
