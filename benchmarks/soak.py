"""Hundreds of short runs, at random left alone, cancelled, closed, killed, or killed with their whole app.

Afterwards the history must hold exactly one row a run, each with the status that fits, and nothing may be left over.

    python -m benchmarks.soak [--runs 500] [--seed 0] [--real]
"""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from benchmarks import report
from benchmarks.load import QUICK, REAL
from benchmarks.page_start import ROOT
from demo.core import catalog
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.runs.runner import Runner
from demo.store.history import History

SCENE = catalog.ASSETS / "examples" / "shapes-scene-1.png"
FATES = ("left alone", "cancelled", "closed", "worker killed", "app killed")
SHARES = (10, 4, 2, 4, 1)
MAY_BECOME = {
    "left alone": {"ok"},
    "cancelled": {"cancelled", "ok"},
    "closed": {"cancelled", "ok"},
    "worker killed": {"crashed", "ok"},
    "app killed": {"interrupted", "ok"},
}
"""'ok' wherever the run may have ended before its fate came."""
ONE_RUN = """
import sys
from pathlib import Path
from benchmarks import soak
from demo.store.history import History
from demo.runs.runner import Runner
runner = Runner(History(Path(sys.argv[1])), worker_module=sys.argv[2])
print("started", flush=True)
for event in runner.run(soak.spec(int(sys.argv[3])), soak.SCENE):
    pass
"""


def spec(iterations: int) -> RunSpec:
    return catalog.make_spec("shapes-vit", iterations=iterations, most_seconds=0.5)


def one_run(runner: Runner, asked: RunSpec, fate: str, after: float) -> None:
    """A run whose fate comes so many seconds after its start."""
    cancel = threading.Event()
    events = runner.run(asked, SCENE, cancel)
    started = time.monotonic()
    for event in events:
        if isinstance(event, RunResult):
            return
        if time.monotonic() - started < after:
            continue
        if fate == "cancelled":
            cancel.set()
        elif fate == "closed":
            events.close()  # type: ignore[attr-defined]
            return
        elif fate == "worker killed":
            for pid in children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, random.choice((signal.SIGKILL, signal.SIGSEGV)))


def children() -> list[int]:
    """This process's own, of which only the worker of the run under way is there: there is no spare."""
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()] + [
        int(pid)
        for task in Path("/proc/self/task").iterdir()
        if task.name != str(os.getpid())
        for pid in (task / "children").read_text().split()
    ]


def one_app(path: Path, module: str, iterations: int, after: float) -> None:
    """A run in an app of its own, which is killed so many seconds after it began."""
    command = [sys.executable, "-c", ONE_RUN, str(path), module, str(iterations)]
    environment = os.environ | {"TMPDIR": str(path.parent)}
    app = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    assert app.stdout is not None
    app.stdout.readline()
    # A run exists once it has been written down.
    deadline = time.monotonic() + 30
    while not list(History(path).running.glob("*.json")) and app.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(after)
    app.kill()
    app.wait()
    app.stdout.close()


def soak(runs: int, seed: int, module: str, folder: Path) -> tuple[list[list[str]], list[str]]:
    """The rows of the table, and what went wrong."""
    chance = random.Random(seed)
    random.seed(seed)
    path = folder / "history.sqlite3"
    history = History(path)
    tempfile.tempdir = str(folder)
    longest = 0.4 if module == QUICK else 8.0
    fates: Counter[str] = Counter()
    became: Counter[str] = Counter()
    wrong: list[str] = []
    known: set[str] = set()
    descriptors = 0
    for number in range(runs):
        (fate,) = chance.choices(FATES, SHARES)
        after, iterations = chance.uniform(0, longest), chance.randint(10, 300) if module == QUICK else 20
        if fate == "app killed":
            one_app(path, module, iterations, after)
            # The next start stores what was lost; one that comes at once may meet a worker that was just being started
            # and still holds its app's lock, and leave it to the start after.
            deadline = time.monotonic() + 10
            while True:
                Runner(history, worker_module=module).close()
                if not list(history.running.glob("*.json")) or time.monotonic() > deadline:
                    break
                time.sleep(0.05)
        else:
            runner = Runner(history, worker_module=module)
            one_run(runner, spec(iterations), fate, after)
            runner.close()
        new = [result for result in history.all(3) if result.id not in known]
        if len(new) != 1:
            wrong.append(f"run {number} ({fate}) left {len(new)} rows")
        for result in new:
            known.add(result.id)
            became[result.status] += 1
            if result.status not in MAY_BECOME[fate]:
                wrong.append(f"run {number} ({fate}) became {result.status}")
        fates[fate] += 1
        if number == min(20, runs // 2):
            descriptors = len(os.listdir("/proc/self/fd"))
    deadline = time.monotonic() + 10
    while len(os.listdir("/proc/self/fd")) > descriptors and time.monotonic() < deadline:
        time.sleep(0.05)
    Runner(history, worker_module=module).close()  # the next start clears away what a killed app could not
    left = {
        "processes": len(children()),
        "folders of temporary files": len(list(folder.glob("worth-compiling-*"))),
        "notes of runs under way": len(list(history.running.glob("*"))),
        "file descriptors more than early on": max(0, len(os.listdir("/proc/self/fd")) - descriptors),
    }
    rows = [["runs", str(runs), ""], ["rows in the history", str(history.count()), str(runs)]]
    rows += [[f"fate: {fate}", str(fates[fate]), ""] for fate in FATES]
    rows += [[f"stored as {status}", str(count), ""] for status, count in sorted(became.items())]
    rows += [[f"{what} left", str(count), "0"] for what, count in left.items()]
    if history.count() != runs:
        wrong.append(f"{history.count()} rows for {runs} runs")
    wrong += [f"{count} {what} left" for what, count in left.items() if count]
    return rows, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--real", action="store_true", help="load, compile and time the bundled classifier")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows, wrong = soak(options.runs, options.seed, REAL if options.real else QUICK, Path(folder))
        tempfile.tempdir = None
    text = report.table(["what", "found", "wanted"], rows)
    report.publish("soak_real" if options.real else "soak", "Short runs with random ends", text)
    if wrong:
        sys.exit(f"not as wanted: {'; '.join(wrong[:10])}")


if __name__ == "__main__":
    main()
