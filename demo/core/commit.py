"""The commit that this copy of the project is at."""

from __future__ import annotations

import subprocess
from pathlib import Path


def current_commit() -> str:
    """The commit that this copy of the project is at, '-dirty' behind it where files differ; '' without git."""
    root = Path(__file__).resolve().parents[2]
    try:
        asked = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""
