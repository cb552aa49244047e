"""A process that ends with its parent, whatever it is doing; torch is not needed for that."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

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


def test_a_package_runs_as_main_with_its_arguments_and_the_rooms_environment(tmp_path) -> None:
    process = started(tmp_path, "made_up", PACKAGE)
    assert process.stdout.readline() == "error __main__ ['3', 'more']\n"
    process.communicate(timeout=30)


@pytest.mark.parametrize(
    "life",
    [
        "import time; print('here', flush=True); time.sleep(600)",
        "import ctypes; print('here', flush=True); ctypes.PyDLL(None).sleep(600)",
        "import os, subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print('here', flush=True); os._exit(1)",
    ],
    ids=["waiting", "holding the interpreter's lock", "crashed with a child left"],
)
def test_when_standard_input_closes_the_whole_group_is_killed_and_its_folder_removed(life: str, tmp_path) -> None:
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
    deadline = time.monotonic() + 20
    while (tmp_path / "temporary").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
