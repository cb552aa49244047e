"""The environment variables of the processes that the app starts.

On a Hugging Face Space visitors choose what a process loads, so the process gets only the variables in `NEEDED`, and no
token. Not covered: the process has the app's user, files and network. A root process that may trace others can still
read the app's environment.
"""

import codecs
import contextlib
import ctypes
import getpass
import locale
import os
import re
import sys
import tempfile
from pathlib import Path

from ..core import limits
from ..core.cores import APP_VARIABLE, SPIN_COUNT
from ..core.program import IN_CHECKOUT, ROOT

NEEDED = """
    PATH HOME USER LOGNAME LANG LC_ALL LC_CTYPE TZ TMPDIR XDG_CACHE_HOME PYTHONPATH VIRTUAL_ENV CONDA_PREFIX SPACE_ID
    CC CXX CPATH LIBRARY_PATH LD_LIBRARY_PATH LD_PRELOAD SSL_CERT_FILE SSL_CERT_DIR
    HF_HOME HF_HUB_CACHE HF_HUB_OFFLINE HF_ENDPOINT
    TORCH_LOGS TORCHINDUCTOR_CACHE_DIR TRITON_CACHE_DIR PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF
    CUDA_HOME CUDA_PATH CUDA_VISIBLE_DEVICES NVIDIA_TF32_OVERRIDE
    OMP_NUM_THREADS OMP_WAIT_POLICY GOMP_SPINCOUNT MKL_NUM_THREADS GOMP_CPU_AFFINITY KMP_AFFINITY KMP_BLOCKTIME
    ONEDNN_MAX_CPU_ISA ATEN_CPU_CAPABILITY TORCH_COMPILE_DISABLE TORCHINDUCTOR_MAX_AUTOTUNE TORCHINDUCTOR_FREEZING
    MALLOC_CONF
    WORTH_COMPILING_PIXELS WORTH_COMPILING_BATCH WORTH_COMPILING_PARAMETERS WORTH_COMPILING_HUB_IDS
""".split()
"""Variables that Python, torch, compilers, the Hub's library and this program read, and that visitors may see.

Patterns such as TORCH* would leak secrets: torch writes the values of all names with TORCH or TRITON into its compile
cache, which later visitors' runs share.
"""
PR_SET_DUMPABLE = 4


def worker_environment(folder: str) -> dict[str, str]:
    """Returns the environment variables of a process whose temporary files lie in `folder`."""
    environment = dict(os.environ)
    if limits.on_space():
        environment = {name: environment[name] for name in NEEDED if name in environment}
        environment |= {"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1", "HF_TOKEN_PATH": os.devnull}
    if limits.on_zero_gpu():  # ZeroGPU lends a GPU only inside of certain functions: nothing else may touch it
        environment["CUDA_VISIBLE_DEVICES"] = ""
    if "OMP_WAIT_POLICY" not in environment:
        environment.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
    if codecs.lookup(locale.getencoding()).name == "ascii":
        environment["PYTHONUTF8"] = "1"  # even if it is 0: torch's own files hold other letters
    folders = [str(ROOT) if IN_CHECKOUT else "", os.environ.get("PYTHONPATH", "")]
    return {
        "TORCHINDUCTOR_CACHE_DIR": str(inductor_folder()),  # else each TMPDIR would have an empty compile cache
        **environment,
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "PYTHONIOENCODING": "utf-8",  # the app reads it so, and a locale may lack letters of a message
        APP_VARIABLE: str(os.getpid()),
        "TMPDIR": folder,
        "PYTHONPATH": os.pathsep.join(filter(None, folders)),
    }


def inductor_folder() -> Path:
    """Returns torch's default folder for inductor's compile cache: '/tmp/torchinductor_alice'."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run under a user number that has no name
        user = str(os.getuid())
    name = re.sub(r'[\\/:*?"<>|]', "_", user)
    return Path(tempfile.gettempdir(), f"torchinductor_{name}")


def share_headers(folder: str) -> None:
    """Lets a process with the temporary folder `folder` use C++ headers that inductor has already precompiled.

    It puts a link to `inductor_folder()` into `folder`. Without it, each process would compile the headers again, which
    takes seconds.
    """
    shared = inductor_folder()
    with contextlib.suppress(OSError):
        shared.mkdir(exist_ok=True)
        Path(folder, shared.name).symlink_to(shared)


def block_proc_access() -> None:
    """Keeps other processes of this user from reading the app's environment and memory in /proc, on Linux."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
