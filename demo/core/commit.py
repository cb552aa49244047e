"""The commit that this copy of the project is at."""

import subprocess
from pathlib import Path


def current_commit() -> str:
    """The commit that this copy of the project is at, '-dirty' behind it where files differ; '' without git."""
    root = Path(__file__).resolve().parents[2]
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
