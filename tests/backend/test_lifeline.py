"""Tests that a process under `demo.backend.lifeline` ends with its parent, whatever it does. No torch is needed."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.worker_processes import needs_linux, wait_until

MAIN = "import os, sys\nprint(os.environ['TRANSFORMERS_VERBOSITY'], __name__, sys.argv[1:], flush=True)\n"
WAITING = "import time; print('here', flush=True); time.sleep(600)"
HOLDING_THE_LOCK = "import ctypes; print('here', flush=True); ctypes.PyDLL(None).sleep(600)"
CRASHING = """
import os, subprocess, sys
subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])
print('here', flush=True); os._exit(1)
"""


@pytest.fixture
def start(tmp_path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Yields a function that runs Python source under the lifeline, which is to remove `tmp_path / "temporary"`."""
    processes: list[subprocess.Popen[str]] = []

    def started(source: str) -> subprocess.Popen[str]:
        for folder in ("made_up", "temporary"):
            (tmp_path / folder).mkdir()
        (tmp_path / "made_up" / "__init__.py").touch()
        (tmp_path / "made_up" / "__main__.py").write_text(source)
        command = [sys.executable, "-m", "demo.backend.lifeline", str(tmp_path / "temporary"), "made_up", "3", "more"]
        path = {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.getcwd()])}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        processes.append(subprocess.Popen(command, **pipes, start_new_session=True, env=os.environ | path))
        return processes[-1]

    yield started
    for process in processes:
        with process:  # closes its pipes
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def test_a_package_runs_as_main_with_its_arguments(start) -> None:
    assert start(MAIN).stdout.readline() == "error __main__ ['3', 'more']\n"


@pytest.mark.parametrize("source", [WAITING, HOLDING_THE_LOCK, CRASHING], ids=["waiting", "holding the lock", "crash"])
def test_when_standard_input_closes_the_whole_group_is_killed(source: str, start, tmp_path) -> None:
    """The group's temporary folder is removed, too."""
    process = start(source)
    assert process.stdout.readline() == "here\n"
    process.stdin.close()
    assert process.wait(timeout=30) in (-signal.SIGKILL, 1)
    assert process.stdout.read() == ""  # the pipe closes once nobody of the group is left to hold it
    wait_until(lambda: not (tmp_path / "temporary").exists(), seconds=20)


@needs_linux  # no other system tells the group of its watcher's end
@pytest.mark.parametrize("source", [WAITING, HOLDING_THE_LOCK], ids=["waiting", "holding the lock"])
def test_a_group_whose_watcher_is_killed_ends(source: str, start) -> None:
    """If somebody kills the watcher and then the app, the group still ends."""
    process = start(source)
    assert process.stdout.readline() == "here\n"
    (watcher,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(watcher), signal.SIGKILL)
    assert process.wait(timeout=10) == -signal.SIGKILL


def test_the_end_of_the_module_is_seen_while_its_watcher_lives(start, tmp_path) -> None:
    process = start("print('here', flush=True)")
    assert process.stdout.read() == "here\n" and process.wait(timeout=10) == 0
    assert (tmp_path / "temporary").exists()
    process.stdin.close()
    wait_until(lambda: not (tmp_path / "temporary").exists(), seconds=20)
