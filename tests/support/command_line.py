"""Helpers shared by the tests of the command line."""

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = sorted((ROOT / "assets" / "examples").glob("*.png"))[0]
RUN = ["run", "--checkpoint", "shapes-vit", "--image", str(EXAMPLE)]


class Terminal(io.StringIO):
    """A standard stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120, **options
    )
