"""Does the open page disturb the run that it shows? Makes a run from the page in Chromium and without it, in turns.

The run has the settings that the form shows first. Limits on an idle machine:

- The medians differ by at most 2 %, and the number of threads is the same.
- The page does not make more runs 'rough' (a mark of `demo.core.quality`).
- The browser uses at most 3 % of a core, at rest and while calls are timed.

`--quick`: one run with the page and one without, after a first run that compiles.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from benchmarks import report
from benchmarks.page_start import ROOT, free_port, processes_with
from demo.core.result import RunResult
from demo.present.report import Report
from demo.store.history import History

TURNS = 10
MEDIANS, SHARE = 0.02, 0.03
REST_SECONDS = 20.0
MARK = "WORTH_COMPILING_BENCHMARK_BROWSER"
"""An environment variable by which the processes of the browser are found."""
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium") or ""


@contextmanager
def app(data: str) -> Iterator[str]:
    """Yields the address of the page of `python app.py`, which runs during the `with` block.

    `data`: the folder for its results.
    """
    settings = {"GRADIO_SERVER_PORT": str(free_port()), "WORTH_COMPILING_DATA": data}
    command = [sys.executable, "app.py"]
    with subprocess.Popen(command, cwd=ROOT, env=os.environ | settings, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield next(line.split()[-1] for line in process.stdout if "Find out at" in line)
        process.terminate()


def browser_seconds() -> float:
    """Returns the seconds of processor time that the browser's processes have used so far.

    The processes that draw pages have no environment of their own: they are found as descendants of the browser.
    """
    parents, ticks = {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        parents[int(entry.name)], ticks[int(entry.name)] = int(fields[1]), int(fields[11]) + int(fields[12])
    marked = processes_with(MARK)
    used = sum(ticks[process] for process in ticks if marked & {process, *ancestors(process, parents)})
    return used / os.sysconf("SC_CLK_TCK")


def ancestors(process: int, parents: dict[int, int]) -> Iterator[int]:
    """Yields the ids of the parent of a process, of its parent, and so on. `parents`: {id: id of the parent}."""
    while process := parents.get(process, 0):
        yield process


class Meter:
    """Measures the browser's share of a core, added up over several periods."""

    def __init__(self) -> None:
        self.used = self.passed = 0.0

    def add(self, tab: Any, seconds: float) -> None:
        used, since = browser_seconds(), time.perf_counter()
        tab.wait_for_timeout(1000 * seconds)
        self.used += browser_seconds() - used
        self.passed += time.perf_counter() - since

    @property
    def share(self) -> float:
        return self.used / self.passed if self.passed else float("nan")


def on_the_page(tab: Any, timing: Meter) -> None:
    """Presses Run and waits for the answer. Adds to `timing` the periods in which calls are timed from begin to end."""
    tab.locator("#run:not([disabled])").click()
    step = tab.locator(".live .steps li.now")
    step.wait_for()
    while tab.locator("#live .live").count():
        if step.all_inner_texts() == ["Time"]:
            period = Meter()
            period.add(tab, 1.0)  # to look more often would cost the browser time, too
            if step.all_inner_texts() == ["Time"]:  # else the answer was drawn in this period
                timing.used, timing.passed = timing.used + period.used, timing.passed + period.passed
        else:
            tab.wait_for_timeout(200)
    tab.locator("#run:not([disabled])").wait_for()


def without_the_page(address: str) -> None:
    call = f"{address}gradio_api/call/v2/benchmark"
    request = urllib.request.Request(call, json.dumps({}).encode(), {"Content-Type": "application/json"})
    event = json.loads(urllib.request.urlopen(request).read())["event_id"]
    with urllib.request.urlopen(f"{address}gradio_api/call/benchmark/{event}") as answer:
        answer.read()


def row(name: str, results: list[RunResult]) -> list[str]:
    medians = [statistics.median(run.latencies[which] for run in results) for which in ("eager", "compiled")]
    rough = sum((quality := Report(run).quality) is not None and quality.mark == "rough" for run in results)
    threads = ", ".join(str(run.environment.threads) for run in results if run.environment is not None)
    return [name, str(len(results)), *(f"{1e3 * each:.3f} ms" for each in medians), threads, str(rough)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    turns = 1 if parser.parse_args().quick else TURNS
    load = os.getloadavg()[0]
    rest, timing = Meter(), Meter()
    runs: dict[str, list[RunResult]] = {"on the page": [], "without it": []}
    with tempfile.TemporaryDirectory() as data, app(data) as address, sync_playwright() as playwright:
        history = History(Path(data) / "history.sqlite3")
        without_the_page(address)  # compiles
        earlier_ids = {run.id for run in history.all()}
        for turn in range(turns):
            for name in sorted(runs, reverse=bool(turn % 2)):
                if name == "without it":
                    without_the_page(address)
                else:
                    browser = playwright.chromium.launch(
                        executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"], env={**os.environ, MARK: "1"}
                    )
                    tab = browser.new_page(viewport={"width": 1440, "height": 900})
                    tab.goto(address)
                    tab.locator("#forecast .forecast").wait_for()
                    on_the_page(tab, timing)
                    if turn == 0:
                        tab.goto(address)
                        tab.wait_for_timeout(20_000)  # the recorded race has played, and the machine was looked at
                        rest.add(tab, REST_SECONDS)
                    browser.close()
                (new,) = (run for run in history.all() if run.id not in earlier_ids)
                earlier_ids.add(new.id)
                runs[name].append(new)
    rows = [row(name, results) for name, results in runs.items()]
    text = report.table(["the run", "runs", "eager", "compiled", "threads of each run", "rough"], rows)
    text += f"\n\nThe browser used {100 * rest.share:.1f} % of a core at rest over {rest.passed:.0f} s, and "
    text += f"{100 * timing.share:.1f} % while calls were timed, over {timing.passed:.0f} s. Limit: 3 %. "
    text += f"Load average at the start: {load:.1f}."
    report.publish("page_disturbs", "What the open page costs the run", text)
    page, none = (
        [statistics.median(run.latencies[which] for run in results) for which in ("eager", "compiled")]
        for results in runs.values()
    )
    apart = max(abs(with_page / without_page - 1) for with_page, without_page in zip(page, none, strict=True))
    if apart > MEDIANS or max(rest.share, timing.share) > SHARE or rows[0][4] != rows[1][4] or rows[0][5] > rows[1][5]:
        sys.exit("over a limit")


if __name__ == "__main__":
    main()
