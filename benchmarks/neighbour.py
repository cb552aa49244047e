"""A second process that keeps one core busy half of the time. It ends with the one that started it."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator

NEIGHBOUR = """
import os, time
parent = os.getppid()
while os.getppid() == parent:
    end = time.perf_counter() + 0.5
    while time.perf_counter() < end:
        pass
    time.sleep(0.5)
"""


@contextlib.contextmanager
def disturbed() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", NEIGHBOUR])
    try:
        yield
    finally:
        process.kill()
        process.wait()
