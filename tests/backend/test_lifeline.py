"""A process that ends with its parent, whatever it is doing; torch is not needed for that."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.worker_processes import needs_linux, wait_until

PACKAGE = "import os, sys\nprint(os.environ['TRANSFORMERS_VERBOSITY'], __name__, sys.argv[1:], flush=True)\n"


def started(folder: Path, module: str, source: str) -> subprocess.Popen[str]:
    """The module, a package with this source, under the lifeline."""
    (folder / module).mkdir()
    (folder / "temporary").mkdir()
    (folder / module / "__init__.py").touch()
    (folder / module / "__main__.py").write_text(source)
    return subprocess.Popen(
        [sys.executable, "-m", "demo.backend.lifeline", str(folder / "temporary"), module, "3", "more"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), os.getcwd()])},
    )


def test_a_package_runs_as_main_with_its_arguments(tmp_path) -> None:
    process = started(tmp_path, "made_up", PACKAGE)
    assert process.stdout.readline() == "error __main__ ['3', 'more']\n"
    process.communicate(timeout=30)


WAITING = "import time; print('here', flush=True); time.sleep(600)"
HOLDING_THE_LOCK = "import ctypes; print('here', flush=True); ctypes.PyDLL(None).sleep(600)"


@pytest.mark.parametrize(
    "life",
    [
        WAITING,
        HOLDING_THE_LOCK,
        "import os, subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print('here', flush=True); os._exit(1)",
    ],
    ids=["waiting", "holding the interpreter's lock", "crashed with a child left"],
)
def test_when_standard_input_closes_the_whole_group_is_killed(life: str, tmp_path) -> None:
    """And its folder is removed."""
    process = started(tmp_path, "made_up", life)
    try:
        assert process.stdout.readline() == "here\n"
        process.stdin.close()
        assert process.wait(timeout=30) in (-signal.SIGKILL, 1)
        assert process.stdout.read() == ""  # the pipe closes once nobody of the group is left to hold it
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    wait_until(lambda: not (tmp_path / "temporary").exists(), seconds=20)


@needs_linux  # no other system tells the group of its watcher's end
@pytest.mark.parametrize("life", [WAITING, HOLDING_THE_LOCK], ids=["waiting", "holding the interpreter's lock"])
def test_a_group_whose_watcher_is_killed_ends(life: str, tmp_path) -> None:
    """So it does not outlive an app that is killed after its watcher."""
    process = started(tmp_path, "made_up", life)
    try:
        assert process.stdout.readline() == "here\n"
        (watcher,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(watcher), signal.SIGKILL)
        assert process.wait(timeout=10) == -signal.SIGKILL
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize("most", [-1, 2**63 - 1], ids=["none told", "unlimited"])
def test_the_watcher_closes_its_files_whatever_their_limit(most: int, tmp_path) -> None:
    """So a reader of standard output sees the module end while the watcher lives on."""
    limit = f"import os; os.sysconf = lambda name: {most}\n"
    (tmp_path / "sitecustomize.py").write_text(limit)
    process = started(tmp_path, "made_up", "print('here', flush=True)")
    assert process.stdout.read() == "here\n" and process.wait(timeout=10) == 0
    assert (tmp_path / "temporary").exists()
    process.stdin.close()
    wait_until(lambda: not (tmp_path / "temporary").exists(), seconds=20)
