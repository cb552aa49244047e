"""What machine this is: versions, device, driver, compiler. Nothing here creates a CUDA context but `environment`."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

import torch
import transformers

from demo.schema import BadInput, Environment


def pick_device(asked: str) -> torch.device:
    """The device to use. Raises BadInput where CUDA was asked for and there is none, with the likely cause."""
    available = torch.cuda.is_available()
    if asked == "cuda" and not available:
        raise BadInput(
            f"Device cuda was asked for, but {gpu_problem() or 'this machine has no GPU that torch can use'}. "
            "Choose device cpu or auto."
        )
    return torch.device("cuda" if asked != "cpu" and available else "cpu")


def gpu_problem() -> str | None:
    """Why torch sees no GPU although the machine seems to have one; None where there is nothing to explain."""
    if torch.cuda.is_available():
        return None
    card = nvidia_smi()
    if card is None:
        return None
    if torch.version.cuda is None:
        return (
            f"torch {torch.__version__} is a CPU build although a {card['name']} is present; "
            "install a CUDA build of torch"
        )
    return (
        f"torch {torch.__version__} is built for CUDA {torch.version.cuda} and cannot use the {card['name']} with "
        f"driver {card['driver']}; update the driver, or install a torch built for an older CUDA"
    )


def nvidia_smi() -> dict[str, str] | None:
    """Name and driver of the first GPU by `nvidia-smi`, which needs no CUDA context; None where there is none."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    try:
        answer = subprocess.run(
            [tool, "--query-gpu=name,driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    name, _, driver = answer.stdout.strip().splitlines()[0].partition(", ") if answer.stdout.strip() else ("", "", "")
    return {"name": name, "driver": driver} if answer.returncode == 0 and driver else None


def environment(device: torch.device) -> Environment:
    """The machine as a result records it. With a CUDA device this asks the driver and makes a context."""
    card = nvidia_smi() if device.type == "cuda" else None
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
        cpu_count=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        threads=torch.get_num_threads(),
        memory_bytes=memory,
        driver=card["driver"] if card else None,
        cuda=torch.version.cuda if device.type == "cuda" else None,
        compute_capability=capability,
        triton=_triton_version(),
        compiler=compiler(),
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
    """Physical memory in bytes; 0 where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0


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


def require_compiler() -> None:
    """Raises BadInput, with the remedy, where torch.compile would fail for want of a C++ compiler."""
    if compiler() is None:
        raise BadInput(
            "torch.compile needs a C++ compiler and none was found. "
            "Install one (Debian and Ubuntu: apt-get install build-essential), or set the CXX variable to it."
        )


def modes() -> tuple[str, ...]:
    """The compile modes that this torch offers."""
    from torch._inductor import list_mode_options

    return tuple(list_mode_options())


def too_few_multiprocessors() -> bool:
    """True where inductor will refuse to autotune matrix products ('Not enough SMs'), as on a T4."""
    from torch._inductor.utils import is_big_gpu

    return torch.cuda.is_available() and not is_big_gpu()


def report() -> dict[str, Any]:
    """What a waiting worker can tell of the machine without a CUDA context: for the form and for the doctor."""
    card = nvidia_smi()
    found = compiler()
    return {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
        "cpu": cpu_name(),
        "memory_bytes": machine_memory(),
        "modes": list(modes()),
        "compiler": found,
        "gpu": card["name"] if card and torch.cuda.is_available() else None,
        "driver": card["driver"] if card else None,
        "gpu_problem": gpu_problem(),
        "triton": _triton_version(),
        "inductor_cache": _inductor_cache(),
    }


def _inductor_cache() -> str:
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    return cache_dir()
