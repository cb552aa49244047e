"""The app as a visitor meets it: a server of its own, Chromium, and runs with or without a page that watches."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from gradio_client import Client, handle_file

from benchmarks.page_start import ROOT, free_port
from demo import catalog, stats
from demo.history import FILE_NAME, History
from demo.schema import RunResult

SCENE = catalog.ASSETS / "examples" / "shapes-scene-1.png"
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
PATIENCE_SECONDS = 300


class App:
    """`python app.py` at a free port, its results in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/"
        self._history = History(folder / FILE_NAME)
        environment = {**os.environ, "GRADIO_SERVER_PORT": str(port), "WORTH_COMPILING_DATA": str(folder)}
        self._process = subprocess.Popen(
            [sys.executable, "app.py"], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._client = self._connected()

    def _connected(self) -> Client:
        deadline = time.monotonic() + 120
        while True:
            try:
                return Client(self.url, verbose=False)
            except Exception:  # whatever httpx says of a server that is not there yet
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def run(self) -> RunResult:
        """The default run with no page that watches."""
        answer = self._client.predict(checkpoint="shapes-vit", image=handle_file(SCENE), api_name="/benchmark")
        return RunResult.from_json(answer)

    def watched_run(self, tab: Any) -> RunResult:
        """The default run as a visitor starts it, watched by `tab` until the answer stands there."""
        before = {result.id for result in self._history.all()}
        tab.goto(self.url)
        tab.locator("#run:not([disabled])").click(timeout=PATIENCE_SECONDS * 1000)
        tab.locator("#top .headline").wait_for(timeout=PATIENCE_SECONDS * 1000)
        (result,) = (result for result in self._history.all() if result.id not in before)
        return result

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(30)


@contextlib.contextmanager
def app() -> Iterator[App]:
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(App(Path(folder))) as serving:
        yield serving


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


def in_turns(
    one: Callable[[], RunResult], other: Callable[[], RunResult], pairs: int
) -> tuple[list[RunResult], list[RunResult]]:
    """`pairs` runs of each in the order A B B A, after one of each that is thrown away: it fills the caches."""
    ones: list[RunResult] = []
    others: list[RunResult] = []
    one(), other()
    for number in range(pairs):
        for run, into in ((one, ones), (other, others))[:: 1 if number % 2 == 0 else -1]:
            into.append(run())
    return ones, others


def compared(ones: Sequence[RunResult], others: Sequence[RunResult], limit: float) -> tuple[list[list[str]], bool]:
    """Rows of a table: how many times longer `ones` took, eager and compiled; and whether none is beyond `limit`.

    Beyond it is a ratio whose whole 95 % interval lies outside ±`limit`: fresh processes differ by more than that on
    a busy machine, and an interval that is wider than the limit proves nothing either way, as the row then says.
    """
    rows, within = [], True
    for variant in ("eager", "compiled"):
        medians = [[float(getattr(run, variant).median_seconds) for run in runs] for runs in (ones, others)]
        found = stats.paired_ratio(medians[0], medians[1])
        beyond = found.low > 1 + limit or found.high < 1 / (1 + limit)
        within &= not beyond
        proved = found.low >= 1 / (1 + limit) and found.high <= 1 + limit
        said = "beyond the limit" if beyond else "within the limit" if proved else "not known well enough to tell"
        rows.append(
            [variant, f"{(found.ratio - 1) * 100:+.2f} %", f"{(found.low - 1) * 100:+.2f} to "
             f"{(found.high - 1) * 100:+.2f} %", f"±{limit * 100:.0f} %", said]
        )  # fmt: skip
    return rows, within


HEADER = ["latency", "change", "95 % interval", "limit", ""]
