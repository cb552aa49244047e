"""What a process of the app gets from it, and a worker that the app cannot use."""

import ctypes
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from support.worker_processes import needs_linux

from demo.core import catalog
from demo.core.spec import BadInput
from demo.runs import process
from demo.runs.environment import worker_environment
from demo.runs.process import WorkerDied
from demo.runs.runner import Runner
from demo.store.history import History

SCENE = catalog.ASSETS / "examples" / "shapes-scene-1.png"
TINY = catalog.make_spec(checkpoint="shapes-vit", task="image-classification", iterations=20, device="cpu")


def test_a_worker_that_is_never_ready_is_given_up(history: History, monkeypatch) -> None:
    monkeypatch.setattr(process, "READY_SECONDS", 1.0)
    monkeypatch.setattr(process, "EXIT_SECONDS", 0.1)
    with closing(Runner(history, worker_module="tests.support.endless_import")) as runner:
        with pytest.raises(WorkerDied, match="it was not ready after 1 s"):
            runner.inspect()


def test_a_worker_of_another_version_is_refused(history: History, monkeypatch) -> None:
    """As after the checkout was updated while its page ran."""
    monkeypatch.setenv("FAULT", "messages of another version")
    with closing(Runner(history, worker_module="tests.support.quick_worker")) as runner:
        with pytest.raises(BadInput, match=r"messages of version 2.*Start the program again\."):
            list(runner.run(TINY, SCENE))
    assert history.all() == []


NEEDED = """
    PATH HOME LANG LC_ALL TZ TMPDIR HF_HOME HF_HUB_OFFLINE HF_ENDPOINT TORCH_LOGS TORCHINDUCTOR_CACHE_DIR
    TRITON_CACHE_DIR PYTORCH_CUDA_ALLOC_CONF CUDA_VISIBLE_DEVICES NVIDIA_TF32_OVERRIDE LD_LIBRARY_PATH LD_PRELOAD
    OMP_NUM_THREADS MKL_NUM_THREADS CXX CC PYTHONPATH VIRTUAL_ENV XDG_CACHE_HOME WORTH_COMPILING_PARAMETERS SPACE_ID
""".split()
SECRETS = """
    HF_TOKEN HUGGING_FACE_HUB_TOKEN HF_HUB_TOKEN OAUTH_CLIENT_SECRET MY_PASSWORD AWS_ACCESS_KEY_ID x_api_key
    DATABASE_URL MONGO_URI PRIVATE_KEY GH_PAT WANDB_KEY SLACK_WEBHOOK NVIDIA_API_KEY HTTPS_PROXY WORTH_COMPILING_DATASET
""".split()
UNLISTED = """
    TORCH_BUCKET_URL PYTORCH_MIRROR TRITON_SERVER_ADDRESS TORCHINDUCTOR_REDIS_URL CUDA_TORCH_MIRROR MY_DYNAMO_TABLE
""".split()
"""torch writes the values of all of these that it gets into the compile cache (`_dynamo.debug_utils`)."""


@pytest.fixture
def on_a_space(monkeypatch) -> dict[str, str]:
    """What a worker there gets where the app has all these variables."""
    for name in (*NEEDED, *SECRETS, *UNLISTED):
        monkeypatch.setenv(name, os.environ.get(name, "hf_secret" if name in SECRETS else "1"))
    return worker_environment("/tmp")


@pytest.mark.parametrize("name", NEEDED)
def test_on_a_space_a_worker_gets_what_it_needs(name: str, on_a_space: dict[str, str]) -> None:
    assert name in on_a_space


@pytest.mark.parametrize("name", [*SECRETS, *UNLISTED])
def test_on_a_space_a_worker_gets_no_secret(name: str, on_a_space, monkeypatch) -> None:
    assert name not in on_a_space and "hf_secret" not in on_a_space.values()
    monkeypatch.delenv("SPACE_ID")
    assert name in worker_environment("/tmp")


def test_on_a_space_a_token_file_of_the_machine_is_not_read(on_a_space: dict[str, str]) -> None:
    assert (on_a_space["HF_TOKEN_PATH"], on_a_space["HF_HUB_DISABLE_TELEMETRY"]) == (os.devnull, "1")


def test_on_zero_gpu_a_worker_sees_no_gpu(monkeypatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-of-the-fork")
    monkeypatch.setenv("SPACE_ID", "somebody/space")
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    seen = worker_environment("/tmp")
    assert seen["CUDA_VISIBLE_DEVICES"] == "" and not [name for name in seen if name.startswith("SPACES_")]


@pytest.mark.parametrize(
    ("given", "spins"),
    [({}, "3000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, None)],
    ids=["nothing", "a count", "a policy"],
)
def test_waiting_threads_spin_for_a_bounded_time(given: dict[str, str], spins: str | None, monkeypatch) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert worker_environment("/tmp").get("GOMP_SPINCOUNT") == spins


APP = """
import os, subprocess, sys
from demo.runs.environment import block_proc_access
look = f"print(b'hf_secret' in open('/proc/{os.getpid()}/environ', 'rb').read(), flush=True)"
subprocess.run([sys.executable, "-I", "-S", "-c", look])
block_proc_access()
subprocess.run([sys.executable, "-I", "-S", "-c", look])
"""


def as_in_a_container() -> None:
    """Without what lets root look into any process: to administer, to trace and to measure others."""
    for capability in (21, 19, 38):
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)


@needs_linux
def test_a_worker_cannot_read_the_apps_environment() -> None:
    environment = os.environ | {"SECRET": "hf_secret", "PYTHONPATH": str(Path(__file__).parents[2])}
    command, pipes = [sys.executable, "-c", APP], {"capture_output": True, "text": True}
    done = subprocess.run(command, env=environment, preexec_fn=as_in_a_container, **pipes)
    assert done.stdout == "True\n" and "PermissionError" in done.stderr
