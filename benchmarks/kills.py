"""Kills the app by SIGKILL at random moments of its worker's life, and measures how long any of its processes survives.

The first kills hit `python app.py` while its spare worker still imports libraries. The others hit a process that runs
the bundled classifier with the app's runner and an empty compile cache. They hit it while the worker loads, compiles,
times, or checks the outputs and has another process compile once more.

    python -m benchmarks.kills [--kills 24] [--seed 0]
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import report
from benchmarks.page_start import ROOT, free_port, processes_with
from demo.sweep.grid import PICTURE

LIMIT_SECONDS = 2.0
PATIENCE_SECONDS = 120.0
POLL_SECONDS = 0.01
LONGEST = {"import": 8.0, "load": 1.0, "compile": 10.0, "time": 4.0, "check": 12.0}
"""{phase of a worker: the app is killed within this many seconds after the phase began}"""
ONE_RUN = """
import sys
from pathlib import Path
from demo.core import catalog
from demo.runs.runner import Runner
asked = catalog.make_spec("shapes-vit", cache="empty", iterations=int(sys.argv[2]))
for event in Runner(None, spare=True).run(asked, Path(sys.argv[1])):
    print(getattr(event, "phase", "end"), flush=True)
"""


@dataclass(frozen=True)
class Kill:
    phase: str
    after_seconds: float
    """Seconds from the begin of the phase to the kill."""
    alive: int
    """How many processes ran besides the app's own when it was killed."""
    survived_seconds: float
    """Seconds from the kill until the last of these processes was gone."""


def kill(phase: str, after_seconds: float, folder: Path) -> Kill:
    """Starts an app, kills it `after_seconds` after its worker began `phase`, and waits until all its processes end."""
    marker = f"KILLED_IN={folder}"
    importing = phase == "import"
    iterations = 10 if phase == "check" else 10_000
    run = ["-c", ONE_RUN, str(PICTURE), str(iterations)]
    command = [sys.executable, *(["app.py"] if importing else run)]
    environment = os.environ | {
        "KILLED_IN": str(folder),
        "TMPDIR": str(folder),
        "WORTH_COMPILING_DATA": str(folder),
        "GRADIO_SERVER_PORT": str(free_port()),
        "PYTHONPATH": str(ROOT),
    }
    app = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    if app.stdout is None:
        raise RuntimeError("the app was started without a pipe")
    try:
        if importing:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while len(processes_with(marker)) < 2 and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
        else:
            for line in app.stdout:
                if line.strip() == phase:
                    break
        time.sleep(after_seconds)
        left = processes_with(marker) - {app.pid}
    finally:
        app.kill()
        killed = time.monotonic()
        app.wait()
        app.stdout.close()
    alive, survived = len(left), 0.0
    while left and survived < PATIENCE_SECONDS:
        time.sleep(POLL_SECONDS)
        left = processes_with(marker)
        survived = time.monotonic() - killed
    return Kill(phase, after_seconds, alive, survived)


def table(kills: Sequence[Kill]) -> str:
    """Returns a table with a row for each kill.

    If a process did not end, its row has `PATIENCE_SECONDS`: then the benchmark stopped waiting.
    """
    header = [
        "its worker had begun to",
        "killed after",
        "processes of the app then",
        "the last was gone after",
    ]
    rows = [
        [kill.phase, f"{kill.after_seconds:.2f} s", str(kill.alive), f"{kill.survived_seconds:.2f} s"] for kill in kills
    ]
    longest = max(kill.survived_seconds for kill in kills)
    summary = f"{len(kills)} kills; the longest that any process survived its app was {longest:.2f} s."
    return f"{summary}\n\n{report.table(header, rows)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    kills = []
    for number in range(options.kills):
        phase = list(LONGEST)[number * len(LONGEST) // options.kills]
        with tempfile.TemporaryDirectory() as folder:
            kills.append(kill(phase, chance.uniform(0, LONGEST[phase]), Path(folder)))
    report.publish("kills", "How long the app's processes survive a SIGKILL of the app", table(kills))
    if any(kill.survived_seconds > LIMIT_SECONDS or not kill.alive for kill in kills):
        sys.exit(f"not as wanted: a process survived for more than {LIMIT_SECONDS:.0f} s, or there was none to survive")


if __name__ == "__main__":
    main()
