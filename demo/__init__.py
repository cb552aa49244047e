"""Worth Compiling? A live answer to whether `torch.compile` is worth it for a model.

`measure` and `best` are the Python API; see `library.py`.
"""

import sys
from typing import TYPE_CHECKING

if sys.platform == "win32":  # before anything imports fcntl
    sys.exit("Worth Compiling? runs on Linux and macOS. On Windows use WSL: https://learn.microsoft.com/windows/wsl.")

if TYPE_CHECKING:
    from .library import Answer, BadInput, BestAnswer, PaysAfter, best, measure

__all__ = ["Answer", "BadInput", "BestAnswer", "PaysAfter", "best", "measure"]


def __getattr__(name: str) -> object:
    """Imports the Python API when it is first used, because a worker does not need it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import library

    return getattr(library, name)
