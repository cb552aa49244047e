"""The page as visitors meet it, in Chromium, and what they do to a run that goes on meanwhile.

Two processes that time the same model differ by more than a visitor does. So one long run is timed while the visitors
come and go, and its calls with them are compared with its calls without them.
"""

import contextlib
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.page_start import free_port
from demo.core import stats
from demo.core.measurement import Measurement
from demo.core.result import Progress, RunResult
from demo.runs.runner import Runner
from demo.store.history import FILE_NAME, History
from demo.ui.page import Page, launch

CHECKPOINT = "shapes-segformer"
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
PATIENCE_SECONDS = 300
SETTLE_SECONDS, PERIOD_SECONDS, GUARD_SECONDS = 6.0, 4.0, 1.0
"""Before a period, until the page has drawn itself and tidied up; of the period; and after it, since when the timing
began is known to a quarter of a second only."""


class NotingRunner(Runner):
    """Notes when the timing of the latest run began."""

    timed_from: float | None = None
    result: RunResult | None = None

    def run(self, *asked: Any, **named: Any) -> Generator[Progress | RunResult, None, None]:
        self.timed_from = self.result = None
        for event in super().run(*asked, **named):
            if isinstance(event, RunResult):
                self.result = event
            elif event.phase == "time" and self.timed_from is None:
                self.timed_from = time.monotonic()
            yield event


@dataclass
class App:
    url: str
    runner: NotingRunner

    def link(self, iterations: int) -> str:
        """To the form, filled for a run of so many calls."""
        return f"{self.url}?checkpoint={CHECKPOINT}&iterations={iterations}"


@contextlib.contextmanager
def app() -> Iterator[App]:
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder) / FILE_NAME)
        with contextlib.closing(NotingRunner(history, spare=True)) as runner:
            page = Page(runner, history=history)
            _, url, _ = launch(page, server_port=free_port(), prevent_thread_lock=True)
            yield App(url, runner)
            page.close(verbose=False)


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@dataclass
class Periods:
    """Begin and end of each period in `time.monotonic`'s seconds: with visitors, and the one without them after it."""

    pairs: list[tuple[tuple[float, float], tuple[float, float]]] = field(default_factory=list)
    busy: list[tuple[float, float]] = field(default_factory=list)
    """Share of one core that server and browser took in each."""


def page_cpu_seconds() -> float:
    """CPU time so far of this process, which serves the page, and of all that it has started but the workers."""
    children: dict[int, list[int]] = {}
    seconds: dict[int, float] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if b"demo.backend" in (entry / "cmdline").read_bytes():
                continue
        except OSError:  # it has just ended
            continue
        children.setdefault(int(fields[1]), []).append(int(entry.name))
        seconds[int(entry.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    waiting, found = [os.getpid()], 0.0
    while waiting:
        pid = waiting.pop()
        found += seconds[pid]
        waiting += children.get(pid, [])
    return found


def come_and_go(app: App, come: Callable[[], None], go: Callable[[], None]) -> Periods:
    """From the begin of the timing until the run is over. Coming and going themselves are in no period."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while app.runner.timed_from is None:
        if time.monotonic() > deadline or app.runner.result is not None:
            raise RuntimeError(f"the run was not timed: {app.runner.result}")
        time.sleep(0.05)
    periods = Periods()
    while app.runner.result is None:
        pair, busy = [], []
        for change in (come, go):
            change()
            time.sleep(SETTLE_SECONDS)
            begin, used = time.monotonic(), page_cpu_seconds()
            time.sleep(PERIOD_SECONDS)
            end, used = time.monotonic(), page_cpu_seconds() - used
            time.sleep(GUARD_SECONDS)
            pair.append((begin, end))
            busy.append(used / (end - begin))
        if app.runner.result is None:
            periods.pairs.append((pair[0], pair[1]))
            periods.busy.append((busy[0], busy[1]))
    return periods


def calls(result: RunResult, timed_from: float) -> dict[str, list[tuple[float, float]]]:
    """(when, seconds) of each call of a run with a control, by the order in which the protocol makes them."""
    sides: dict[str, Measurement | None] = {
        "eager": result.eager, "compiled": result.compiled, "control": result.control_times
    }  # fmt: skip
    left = {name: list(side.wall_seconds) if side else [] for name, side in sides.items()}
    between = (result.timing_seconds or 0.0) / sum(map(sum, left.values()))
    half = (result.eager.calls_per_block if result.eager else 2) // 2
    found: dict[str, list[tuple[float, float]]] = {"eager": [], "compiled": []}
    now = timed_from
    while left["compiled"]:
        for name, count in (("eager", half), ("compiled", 2 * half), ("eager", half), ("control", 2 * half)):
            for seconds in left[name][:count]:
                found["eager" if name == "control" else name].append((now, seconds))
                now += seconds * between
            del left[name][:count]
    return found


HEADER = ["latency", "change", "95 % interval", "limit", ""]


def compared(app: App, periods: Periods, limit: float) -> tuple[str, bool]:
    """A table of how much longer calls took with the visitors, and whether that lies within ±`limit`."""
    result, timed_from = app.runner.result, app.runner.timed_from
    if result is None or timed_from is None or result.status != "ok":
        raise RuntimeError(f"the run gave no figures: {result}")
    rows, within = [], True
    for variant, timed in calls(result, timed_from).items():

        def median(begin: float, end: float, timed: list[tuple[float, float]] = timed) -> float:
            return statistics.median(seconds for at, seconds in timed if begin <= at <= end)

        pairs = [(median(*there), median(*away)) for there, away in periods.pairs]
        found = stats.paired_ratio([there for there, _ in pairs], [away for _, away in pairs])
        low, high = found.low - 1, found.high - 1
        proved, beyond = -limit <= low and high <= limit, low > limit or high < -limit
        said = "within the limit" if proved else "beyond the limit" if beyond else "not known well enough to tell"
        within &= abs(found.ratio - 1) <= limit
        change = f"{(found.ratio - 1) * 100:+.2f} %"
        rows.append([variant, change, f"{low * 100:+.2f} to {high * 100:+.2f} %", f"±{limit * 100:.0f} %", said])
    there, away = (f"{statistics.median(shares) * 100:.1f} %" for shares in zip(*periods.busy, strict=True))
    told = (
        f"One run of `{CHECKPOINT}`, {len(periods.pairs)} times {PERIOD_SECONDS:.0f} s with and as long without, in "
        f"turns; coming and going are not counted.\n\n{report.table(HEADER, rows)}\n\n"
        f"Server and browser take {there} of one core with, {away} without (medians)."
    )
    return told, within
