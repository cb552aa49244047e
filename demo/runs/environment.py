"""The environment variables of a process that is started here.

- On a Space visitors choose what is loaded. A process there gets only the variables in `NEEDED`, and no token file of
  the Hub's library; `block_proc_access` keeps it from reading the app's own environment under /proc.
- Anywhere else a process gets the whole environment.

Not covered: a process has the user, files and network of the app. Root with the capability to trace processes can still
read the app's environment.
"""

import contextlib
import ctypes
import getpass
import os
import re
import sys
import tempfile
from pathlib import Path

from demo.core import limits
from demo.core.cores import APP_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
NEEDED = """
    PATH HOME USER LOGNAME LANG LC_ALL LC_CTYPE TZ TMPDIR XDG_CACHE_HOME PYTHONPATH VIRTUAL_ENV CONDA_PREFIX SPACE_ID
    CC CXX CPATH LIBRARY_PATH LD_LIBRARY_PATH LD_PRELOAD SSL_CERT_FILE SSL_CERT_DIR
    HF_HOME HF_HUB_CACHE HF_HUB_OFFLINE HF_ENDPOINT
    TORCH_LOGS TORCHINDUCTOR_CACHE_DIR TRITON_CACHE_DIR PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF
    CUDA_HOME CUDA_PATH CUDA_VISIBLE_DEVICES NVIDIA_TF32_OVERRIDE
    OMP_NUM_THREADS OMP_WAIT_POLICY GOMP_SPINCOUNT MKL_NUM_THREADS
    WORTH_COMPILING_PIXELS WORTH_COMPILING_BATCH WORTH_COMPILING_PARAMETERS WORTH_COMPILING_HUB_IDS
""".split()
"""What Python, torch, the compilers, the Hub's library and the limits read. It has no patterns: torch writes the values
of all names with TORCH or TRITON into its compile cache, which the runs of later visitors share."""
SPIN_COUNT = "3000"
"""Turns that an OpenMP thread spins before it sleeps. Without a bound all threads spin while they wait for one whose
core another program has taken. Measured with one of two cores taken: a call of 10 ms took 1.5 s, and a thirtieth of
that with this bound. On an idle machine the bound costs nothing."""
PR_SET_DUMPABLE = 4


def worker_environment(folder: str) -> dict[str, str]:
    """The variables of a process with its temporary files in `folder`. Inductor's cache stays where torch puts it by
    default, so that all processes share it."""
    environment = dict(os.environ)
    if limits.on_space():
        environment = {name: environment[name] for name in NEEDED if name in environment}
        environment |= {"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1", "HF_TOKEN_PATH": os.devnull}
    if limits.on_zero_gpu():  # no GPU may be asked for there outside of a function that holds one
        environment["CUDA_VISIBLE_DEVICES"] = ""
    if "OMP_WAIT_POLICY" not in environment:
        environment.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
    cache = environment.get("TORCHINDUCTOR_CACHE_DIR", str(inductor_folder()))
    return {
        **environment,
        "TORCHINDUCTOR_CACHE_DIR": cache,
        "HF_HUB_DISABLE_TELEMETRY": "1",
        APP_VARIABLE: str(os.getpid()),
        "TMPDIR": folder,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }


def inductor_folder() -> Path:
    """Where inductor keeps its cache by default: among the temporary files, under the user's name."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run under a user number that has no name
        user = str(os.getuid())
    name = re.sub(r'[\\/:*?"<>|]', "_", user)
    return Path(tempfile.gettempdir(), f"torchinductor_{name}")


def share_headers(folder: str) -> None:
    """Links the C++ headers that inductor has compiled into a process's `folder` of temporary files: inductor looks for
    them there, wherever its cache lies. Without the link each process would compile them again, for seconds."""
    shared = inductor_folder()
    with contextlib.suppress(OSError):
        shared.mkdir(exist_ok=True)
        Path(folder, shared.name).symlink_to(shared)


def block_proc_access() -> None:
    """On Linux: stops other processes of this user from reading this one's environment or memory under /proc."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
