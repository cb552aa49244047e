"""Tests of a worker's environment variables, of the app's protection in /proc, and of workers that do not start."""

import ctypes
import locale
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from support.worker_processes import needs_linux

from demo.runs import process
from demo.runs.environment import worker_environment
from demo.runs.process import WorkerDied
from demo.runs.runner import Runner
from demo.store.history import History


def test_a_worker_that_is_never_ready_is_given_up(history: History, monkeypatch) -> None:
    monkeypatch.setattr(process, "READY_SECONDS", 1.0)
    monkeypatch.setattr(process, "EXIT_SECONDS", 0.1)
    with closing(Runner(history, worker_module="tests.support.endless_import")) as runner:
        with pytest.raises(WorkerDied, match="it was not ready after 1 s"):
            runner.inspect()


def test_a_worker_that_dies_before_it_is_ready_is_told_by_its_last_line() -> None:
    with closing(Runner(None, worker_module="tests.support.nothing")) as runner:
        with pytest.raises(WorkerDied, match=r"No module named .?tests\.support\.nothing"):
            runner.inspect()


def test_an_error_of_several_lines_is_told_by_its_first_ones() -> None:
    words = 'Traceback (most recent call last):\n  File "x.py"\nValueError: \nInvalid log settings: +x\nValid: a\nb\nc'
    assert process._last_error(words) == "ValueError: Invalid log settings: +x Valid: a"
    assert process._last_error("some words\nthe last.") == "the last"


SECRETS = """
    HF_TOKEN OAUTH_CLIENT_SECRET AWS_ACCESS_KEY_ID DATABASE_URL HTTPS_PROXY WORTH_COMPILING_DATASET
    TORCH_BUCKET_URL TORCHINDUCTOR_REDIS_URL PYTHON_TOKEN CUDA_MIRROR
""".split()


def test_on_a_space_a_worker_gets_what_is_listed_and_no_secret(monkeypatch) -> None:
    for name in ("SPACE_ID", "HF_HUB_OFFLINE", "OMP_NUM_THREADS", "WORTH_COMPILING_PARAMETERS"):
        monkeypatch.setenv(name, "1")
    for name in SECRETS:
        monkeypatch.setenv(name, "hf_secret")
    variables = worker_environment("/tmp")
    for name in ("OMP_NUM_THREADS", "HF_HUB_OFFLINE", "WORTH_COMPILING_PARAMETERS"):
        assert variables[name] == "1"
    assert (variables["HF_TOKEN_PATH"], variables["HF_HUB_DISABLE_TELEMETRY"]) == (os.devnull, "1")
    assert "hf_secret" not in variables.values()
    monkeypatch.delenv("SPACE_ID")
    assert set(SECRETS) <= worker_environment("/tmp").keys()


def test_on_zero_gpu_a_worker_sees_no_gpu(monkeypatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-of-the-fork")
    monkeypatch.setenv("SPACE_ID", "somebody/space")
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    variables = worker_environment("/tmp")
    assert variables["CUDA_VISIBLE_DEVICES"] == "" and not [name for name in variables if name.startswith("SPACES_")]


@pytest.mark.parametrize(
    ("name", "value", "spins"),
    [("NOTHING", "", "3000"), ("GOMP_SPINCOUNT", "7", "7"), ("OMP_WAIT_POLICY", "ACTIVE", None)],
)
def test_waiting_threads_spin_for_a_bounded_time(name: str, value: str, spins: str | None, monkeypatch) -> None:
    for unset in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(unset, raising=False)
    monkeypatch.setenv(name, value)
    assert worker_environment("/tmp").get("GOMP_SPINCOUNT") == spins


@pytest.mark.parametrize(("encoding", "mode"), [("ANSI_X3.4-1968", "1"), ("UTF-8", "0"), ("ISO-8859-1", "0")])
def test_a_worker_in_a_locale_without_letters_reads_utf8(encoding: str, mode: str, monkeypatch) -> None:
    """Without it torch's inductor cannot be imported: it reads its own files in the locale's encoding."""
    monkeypatch.setenv("PYTHONUTF8", "0")
    monkeypatch.setattr(locale, "getencoding", lambda: encoding)
    assert worker_environment("/tmp")["PYTHONUTF8"] == mode


APP = """
import os, subprocess, sys
from demo.runs.environment import block_proc_access
look = f"print(b'hf_secret' in open('/proc/{os.getpid()}/environ', 'rb').read(), flush=True)"
subprocess.run([sys.executable, "-I", "-S", "-c", look])
block_proc_access()
subprocess.run([sys.executable, "-I", "-S", "-c", look])
"""


def as_in_a_container() -> None:
    """Drops root's capabilities to look into other processes (SYS_ADMIN, SYS_PTRACE, PERFMON), as in a container."""
    for capability in (21, 19, 38):
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)


@needs_linux
def test_a_worker_cannot_read_the_apps_environment() -> None:
    environment = os.environ | {"SECRET": "hf_secret", "PYTHONPATH": str(Path(__file__).parents[2])}
    command, pipes = [sys.executable, "-c", APP], {"capture_output": True, "text": True}
    process = subprocess.run(command, env=environment, preexec_fn=as_in_a_container, **pipes)
    assert process.stdout == "True\n" and "PermissionError" in process.stderr
