"""Prints a benchmark's table, and writes it to `benchmarks/results/` with the names of the machine and the versions."""

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def machine() -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers"))
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    return f"{cpu()}, {os.cpu_count()} cores; Python {platform.python_version()}, {versions}; {today}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def publish(name: str, title: str, text: str, room: str = "benchmarks") -> None:
    """Prints the text, and writes it to `benchmarks/results/NAME.md`, with the machine and the versions of libraries.

    `room`: the folder of the script NAME.py that calls this function, 'benchmarks' or 'tools'.
    """
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    whole = f"# {title}\n\n`python -m {room}.{name}` on {machine()}; load average at the end {load:.1f}.\n\n{text}\n"
    print(whole)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(whole, encoding="utf-8")
