"""The real process of compiling ahead, in which no compile ever ends: each of its forks leaves its name in FORKS."""

import os
import time
from pathlib import Path

from demo.backend import precompile


def endless(spec: object, image: Path) -> None:
    Path(os.environ["FORKS"], f"{os.getpid()}-{os.getpgrp()}").touch()
    time.sleep(600)


if __name__ == "__main__":
    precompile.compile_ahead = endless
    precompile.main()
