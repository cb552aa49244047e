"""The commands of `python -m demo`, one module each; `run` and the shortest ones stand in `demo.__main__`."""

from __future__ import annotations

from pathlib import Path

from demo.schema import BadInput

OK, FAILED, BAD_INPUT = 0, 1, 2
"""Exit codes."""


def picture(given: str | Path) -> Path:
    """The picture's path. Whether it is a picture is for the worker to find out. Raises BadInput for no file."""
    path = Path(given)
    if not path.is_file():
        what = "is not a file" if path.exists() else "does not exist"
        raise BadInput(f"The image {str(given)!r} {what}. Check the path.")
    return path
