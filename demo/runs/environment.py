"""The environment variables that a process started here gets.

On a Space, where visitors choose what is loaded, that are only those known to be needed (`NEEDED`), and no token file
of the Hub's library. `block_proc_access` keeps a process from reading the app's own environment under /proc.

Not covered: anywhere else a process gets the whole environment. It runs as the same user, with the same files and
network. Root with the capability to trace processes can still read the app's environment.
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
"""What Python, torch, the compilers, the Hub's library and the limits read. torch writes the values of all names with
TORCH or TRITON into its compile cache, which the runs of later visitors share: so no pattern lets others in."""
SPIN_COUNT = "3000"
"""Turns that an OpenMP thread spins before it sleeps. Unbounded, a thread whose core another program takes makes all
others spin: on two cores with one of them taken a call of 10 ms took 1.5 s, and a thirtieth of that with this bound. On
an idle machine the bound costs nothing."""
PR_SET_DUMPABLE = 4


def worker_environment(folder: str) -> dict[str, str]:
    """The variables of a process whose temporary files lie in `folder`. Inductor's cache stays where torch would have
    put it without `folder`, so that all processes share it."""
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
    """Links the C++ headers that inductor compiled before into a process's `folder` of temporary files, where inductor
    looks for them wherever its cache lies. Without the link each process would compile them again, for seconds."""
    shared = inductor_folder()
    with contextlib.suppress(OSError):
        shared.mkdir(exist_ok=True)
        Path(folder, shared.name).symlink_to(shared)


def block_proc_access() -> None:
    """On Linux: stops other processes of this user from reading this one's environment or memory under /proc."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
