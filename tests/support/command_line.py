"""Helpers shared by the tests of the command line."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from demo.store.history import FOLDER_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = sorted((ROOT / "assets" / "examples").glob("*.png"))[0]
SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
"""The signals that stop a command, each with its exit code."""
RUN = ["run", "--checkpoint", "shapes-vit", "--image", str(EXAMPLE)]


class Terminal(io.StringIO):
    """A standard stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def quick(data: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Starts the command line with workers that import no torch (`quick_worker`), and with this data folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.quick_sweep", *arguments],
        env={**os.environ, FOLDER_VARIABLE: str(data), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def stop(process: subprocess.Popen[str], number: signal.Signals, after: str) -> tuple[str, str]:
    """Sends a signal once standard error has a line with the text `after`; returns both streams from then on."""
    assert process.stderr is not None
    while after not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(number)
    return process.communicate(timeout=60)


def python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120, **options
    )
