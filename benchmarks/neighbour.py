"""Processes that each keep a core busy, by default half of the time, and end with the process that started them."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator

NEIGHBOUR = """
import os, sys, time
parent = os.getppid()
while os.getppid() == parent:
    end = time.perf_counter() + 0.5
    while time.perf_counter() < end:
        pass
    time.sleep(float(sys.argv[1]))
"""


@contextlib.contextmanager
def busy_neighbours(count: int = 1, rest_seconds: float = 0.5) -> Iterator[None]:
    """Keeps `count` processes running during a `with` block. Each computes for 0.5 s, sleeps, and repeats this.

    `rest_seconds`: how long a process sleeps each time.
    """
    command = [sys.executable, "-c", NEIGHBOUR, str(rest_seconds)]
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
