"""Times `python app.py` until the first HTTP answer, and measures the page's memory. Limits: 4 s and 400 MB."""

import contextlib
import importlib.util
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from benchmarks import report

ROOT = Path(__file__).resolve().parent.parent
STARTS = 5
SECONDS_LIMIT, BYTES_LIMIT = 4.0, 400e6


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the system does not tell a process's resident memory")


def processes_with(mark: str) -> set[int]:
    """Returns the ids of the processes with `mark` in their environment: an app and all that it has started."""
    pids = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            dead = (entry / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
            if mark.encode() in (entry / "environ").read_bytes() and not dead:
                pids.add(int(entry.name))
    return pids


def one_start(data: str) -> tuple[float, int, int]:
    """Starts the page. Returns the seconds to its first answer, and its resident memory in bytes then and 8 s later.

    After 8 s its worker is ready.
    """
    port = free_port()
    environment = {**os.environ, "GRADIO_SERVER_PORT": str(port), "WORTH_COMPILING_DATA": data}
    started = time.perf_counter()
    app = subprocess.Popen([sys.executable, "app.py"], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    try:
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
                    answer.read()
                break
            except OSError:
                if app.poll() is not None or time.perf_counter() - started > 120:
                    raise
                time.sleep(0.02)
        seconds = time.perf_counter() - started
        at_once = resident_bytes(app.pid)
        time.sleep(8)
        return seconds, at_once, resident_bytes(app.pid)
    finally:
        app.terminate()
        app.wait(20)


def main() -> None:
    with tempfile.TemporaryDirectory() as data:
        starts = [one_start(data) for _ in range(STARTS)]
    seconds = [start[0] for start in starts]
    memory = max(max(start[1:]) for start in starts)
    rows = [
        ["first HTTP answer, median of 5", f"{statistics.median(seconds):.2f} s", "4 s"],
        ["first HTTP answer, slowest", f"{max(seconds):.2f} s", "4 s"],
        ["resident memory of the page, largest", f"{memory / 1e6:.0f} MB", "400 MB"],
    ]
    text = report.table(["what", "measured", "limit"], rows)
    there = "is" if importlib.util.find_spec("mcp") else "is not"  # gradio imports it where it finds it
    text += f"\n\nThe optional `mcp`, which each start would import, {there} installed here."
    report.publish("page_start", "Starting the page", text)
    if max(seconds) > SECONDS_LIMIT or memory > BYTES_LIMIT:
        sys.exit("over the limit")


if __name__ == "__main__":
    main()
