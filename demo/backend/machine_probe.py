"""What machine this is: versions, device, driver, compiler. Only `environment` makes a CUDA context."""

import contextlib
import ctypes
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
import transformers
from torch._inductor import cpp_builder, exc, list_mode_options
from torch._inductor.runtime.cache_dir_utils import cache_dir
from torch._inductor.utils import is_big_gpu

from demo.backend import compilation, failures
from demo.core.cores import usable_cores
from demo.core.limits import on_space
from demo.core.machine import Environment, HostInfo

MAXWELL, TURING, BLACKWELL = (5, 0), (7, 5), (10, 0)
"""torch for CUDA 12.6 has code from Maxwell on to before Blackwell; for CUDA 13, the default, from Turing on."""
CUDA_12_DRIVER, CUDA_13_DRIVER = 525, 580
"""The oldest drivers that these run with."""
CGROUP_MEMORY = Path("/sys/fs/cgroup/memory.max")
CUDA_FOLDER = "/usr/local/cuda"
PACKAGE_HEADERS = ("cuda.h", "crt/host_defines.h", "nv/target")
"""What the code of a package for a GPU includes. The wheels of CUDA 13 that torch installs have only the first."""
WHEELS = 'Install two wheels: pip install "nvidia-cuda-crt=={0}.*" "nvidia-cuda-cccl=={0}.*".'
EXTENSION = '#include <Python.h>\n#include <sstream>\nextern "C" const char *version() { return Py_GetVersion(); }\n'
Answer = TypeVar("Answer")


def warm_imports() -> None:
    """Imports what the bundled checkpoints need, so that the first run does not wait for it."""
    models = ("ViTForImageClassification", "SegformerForSemanticSegmentation", "RTDetrForObjectDetection")
    processors = ("ViTImageProcessorPil", "SegformerImageProcessorPil", "RTDetrImageProcessorPil")
    for name in (*models, *processors):
        getattr(transformers, name, None)


def seconds_since_start() -> float | None:
    """How long this process has been running, right to 0.01 s (a clock tick); None on systems without /proc."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return None
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def usable() -> bool:
    """Whether torch can compute on a GPU here: it sees one, and was built with code for it.

    A build runs on the compute capabilities in its list, on later minor versions of these, and from PTX on all later
    ones. If the driver or the build does not say, the GPU is tried.
    """
    gpu, built = first_gpu(), re.findall(r"(sm|compute)_(\d+)", " ".join(torch.cuda.get_arch_list()))
    if gpu is None or not built:
        return torch.cuda.is_available()
    needed, code = gpu.capability, [(kind, divmod(int(number), 10)) for kind, number in built]
    runs = any(have <= needed and (kind == "compute" or have[0] == needed[0]) for kind, have in code)
    return runs and torch.cuda.is_available()


def gpu_problem() -> str | None:
    """Why torch cannot use the GPU that the machine seems to have, and what helps; None where it can, or has none."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip()
    if usable() or not visible:  # empty, it hides them on purpose
        return None
    gpu, driver, cuda = first_gpu(), driver_version(), torch.version.cuda
    if gpu is None:
        return _hidden(visible)
    number = int(driver.partition(".")[0]) if driver else CUDA_13_DRIVER
    remedy = _other_torch(gpu.capability, number)
    if cuda is None:
        problem = f"is a CPU build although a {gpu.name} is present"
    elif torch.cuda.is_available():
        capability = ".".join(map(str, gpu.capability))
        problem = f"for CUDA {cuda} has no code for the {gpu.name} (compute capability {capability})"
    else:
        problem = f"is built for CUDA {cuda} and cannot use the {gpu.name} with driver {driver or 'of unknown version'}"
        if number >= (CUDA_12_DRIVER if cuda.startswith("12.") else CUDA_13_DRIVER):
            remedy = "`python -c 'import torch; torch.cuda.init()'` says why"
    return f"torch {torch.__version__} {problem}; {remedy}"


def _other_torch(capability: tuple[int, int], driver: int) -> str:
    """What to install for a GPU of this capability. 2.14 is the last torch for CUDA 12 (pytorch issue 190385)."""
    version, build = torch.__version__.partition("+")[0], "cu126"
    if capability < MAXWELL:
        return f"no build of torch {version} has code for it"
    if driver >= CUDA_13_DRIVER and capability >= TURING:
        build = "cu130"
    elif driver < CUDA_12_DRIVER or capability >= BLACKWELL:
        return "choose other hardware" if on_space() else f"update the driver to {CUDA_13_DRIVER} or newer"
    index = f"https://download.pytorch.org/whl/{build}"
    if on_space():
        lines = f"`--extra-index-url {index}` and `torch=={version}+{build}`"
        return f"put two lines into the Space's requirements.txt in place of torch's: {lines}"
    pip = f"`pip install --force-reinstall torch=={version} --index-url {index}` installs another build"
    too_old = driver < CUDA_13_DRIVER and capability >= TURING and (torch.version.cuda or "").startswith("13.")
    return f"update the driver to {CUDA_13_DRIVER} or newer, or {pip}" if too_old else pip


def _hidden(visible: str) -> str | None:
    """Why CUDA finds no GPU with this CUDA_VISIBLE_DEVICES; None where NVML finds none either."""
    if (card := first_card()) is None:
        return None
    if visible.split(",")[0].strip() != "0":  # which is always there
        return f"CUDA_VISIBLE_DEVICES={visible[:80]!r} hides the {card}; unset it, or name a GPU of `nvidia-smi -L`"
    if ask_nvml(lambda nvml: nvml.nvmlDeviceGetMigMode(nvml.nvmlDeviceGetHandleByIndex(0))[0]):
        return f"the {card} is in MIG mode without an instance for this process; create one with `nvidia-smi mig`"
    return f"CUDA does not start on the {card}; restart the machine, or the container with `--gpus all`"


def ask_nvml(question: Callable[[Any], Answer]) -> Answer | None:
    """What `question` finds in NVML; None where that is not there, as in some containers, or refuses."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return question(pynvml)
    except Exception:  # not installed, no driver, or it refuses: NVML raises classes of its own
        return None


def driver_version() -> str | None:
    """NVIDIA's, of which CUDA knows no name."""
    return ask_nvml(lambda nvml: str(nvml.nvmlSystemGetDriverVersion()))


class Gpu(NamedTuple):
    name: str
    memory_bytes: int
    capability: tuple[int, int]


def first_card() -> str | None:
    """The name of NVML's first card, which answers also where CUDA does not start; None where NVML does not answer."""
    return ask_nvml(lambda nvml: str(nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(0))))


@cache
def first_gpu() -> Gpu | None:
    """The GPU that torch calls cuda:0; None where the driver does not say.

    Asks CUDA's driver, as torch does. Unlike NVML it is present wherever torch can compute, respects
    CUDA_VISIBLE_DEVICES and the order of the cards, and names a part of a card (MIG) as a run's result will. The
    questions make no context, but start CUDA, after which a process cannot fork another that uses it: so a child asks
    them. The child does not import torch, which would add seconds to the start of every worker.
    """
    command = [sys.executable, "-I", "-S", str(Path(__file__).with_name("first_gpu.py"))]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired, ValueError):
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30)
        if answer.returncode == 0:
            name, size, major, minor = json.loads(answer.stdout)
            return Gpu(name, size, (major, minor))
    return None


def environment(device: torch.device) -> Environment:
    """The machine as a result records it. With a CUDA device this makes a context."""
    facts = host().facts() | {"device_name": host().cpu, "platform": platform.platform(terse=True)}
    if device.type == "cuda":
        card = torch.cuda.get_device_properties(device)
        facts |= {"device_name": card.name, "memory_bytes": card.total_memory, "cuda": torch.version.cuda}
        facts["compute_capability"] = f"{card.major}.{card.minor}"
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
    """First line of the C++ compiler's `--version`, which inductor calls, and Triton on a GPU; None without one."""
    try:
        command = cpp_builder.get_cpp_compiler()
        answer = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=10)
    except (exc.InvalidCxxCompiler, OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.splitlines()[0] if answer.returncode == 0 and answer.stdout else None


def compile_problem(on_gpu: bool = False) -> str | None:
    """Why a small extension cannot be built and loaded as inductor's are, with the remedy; None if it can. It takes a
    second. `on_gpu`: also a kernel of Triton's, which makes a CUDA context."""
    try:
        with tempfile.TemporaryDirectory(dir=cache_dir(), ignore_cleanup_errors=True) as folder:
            (source := Path(folder, "extension.cpp")).write_text(EXTENSION)
            options = cpp_builder.CppTorchOptions(include_pytorch=False)
            builder = cpp_builder.CppBuilder("extension", str(source), options, folder)
            builder.build()
            ctypes.PyDLL(builder.get_target_file_path())
            if on_gpu:
                compilation.use_empty_cache(Path(folder))
                torch.compile(torch.sin)(torch.ones(8, device="cuda"))
    except Exception as error:  # of a compiler, a linker, a loader or a file system
        said = compilation.first_line(error if compiler() else exc.InvalidCxxCompiler()).rstrip(".")
        return f"torch.compile cannot build code here: {said}. {failures.build_remedy(said)}".strip()
    return None


def may_not_compile(folder: str) -> bool:
    """Whether the compiler, Python.h, or the right to write or run files in `folder` seems to be missing."""
    header = Path(sysconfig.get_path("include"), "Python.h")
    noexec = os.statvfs(folder).f_flag & getattr(os, "ST_NOEXEC", 0)
    return bool(noexec) or not (compiler() and header.is_file() and os.access(folder, os.W_OK))


def cuda_homes(*headers: str) -> list[Path]:
    """The folders that have these headers: where torch looks for CUDA's toolkit, then those of its own wheels."""
    nvcc, wheels = shutil.which("nvcc"), Path(torch.__file__).parents[1].glob("nvidia/cu[0-9]*")
    named = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    homes = [Path(home) for home in (named, nvcc and Path(nvcc).parents[1], CUDA_FOLDER, *sorted(wheels)) if home]
    return [home for home in homes if all((home / "include" / header).is_file() for header in headers)]


def too_few_multiprocessors() -> bool:
    """True where inductor will refuse to autotune matrix products ('Not enough SMs'), as on a T4."""
    return torch.cuda.is_available() and not is_big_gpu()


@cache
def host() -> HostInfo:
    """What a waiting worker can tell of the machine without a CUDA context; found out once in a process."""
    can_use, toolkits = usable(), cuda_homes(*PACKAGE_HEADERS)
    gpu = first_gpu() if can_use else None
    wheels = [home for home in cuda_homes("cuda.h") if home.parent.name == "nvidia"]
    return HostInfo(
        torch=torch.__version__,
        transformers=transformers.__version__,
        python=platform.python_version(),
        cpu=cpu_name(),
        memory_bytes=machine_memory(),
        modes=tuple(list_mode_options()),
        compiler=compiler(),
        gpu=gpu.name if gpu else "NVIDIA GPU" if can_use else None,
        driver=driver_version(),
        gpu_problem=gpu_problem(),
        triton=_triton_version(),
        inductor_cache=cache_dir(),
        gpu_memory_bytes=gpu.memory_bytes if gpu else None,
        compute_capability=".".join(map(str, gpu.capability)) if gpu else None,
        cuda_toolkit=toolkits[0].name if toolkits else None,
        toolkit_remedy=WHEELS.format(torch.version.cuda) if wheels else HostInfo.toolkit_remedy,
        threads=torch.get_num_threads(),
        compile_problem=compile_problem() if may_not_compile(cache_dir()) else None,
    )


if __name__ == "__main__":  # for `doctor`, in a worker's environment
    print(compile_problem(on_gpu=usable()) or "nothing")
