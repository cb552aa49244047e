"""The commands of `python -m demo`, one module each; `run` and the shortest ones stand in `demo.cli.run`."""

from __future__ import annotations

import stat
from pathlib import Path

from demo.core.result import BadInput

OK, FAILED, BAD_INPUT = 0, 1, 2
"""Exit codes."""


def picture(given: str | Path) -> Path:
    """The picture's path. Whether it is a picture is for the worker to find out. Raises BadInput for no file."""
    path = Path(given)
    try:
        what = None if stat.S_ISREG(path.stat().st_mode) else "is not a file"
    except FileNotFoundError:
        what = "does not exist"
    except OSError as error:
        what = f"cannot be opened ({error.strerror})"
    if what:
        raise BadInput(f"The image {str(given)!r} {what}. Check the path.")
    return path
