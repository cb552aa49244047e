"""The first view of the page in Chromium from a local server, and what ten idle visitors do to a run.

First view: from the request until question and Run button stand there, nothing cached. Limits: 1.5 s, and 2 % of a
run's latency. The number of pairs of runs may be given: `python -m benchmarks.first_view 10`.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any

from benchmarks import report, served
from demo.schema import RunResult

VIEWS, VISITORS, PAIRS = 7, 10, 6
SECONDS_LIMIT, LATENCY_LIMIT = 1.5, 0.02


def one_view(browser: Any, url: str) -> float:
    """Seconds; in a context of its own, so with an empty cache."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    tab = context.new_page()
    started = time.perf_counter()
    tab.goto(url, wait_until="commit")
    tab.locator("#top h2").wait_for()
    tab.locator("#run:not([disabled])").wait_for()
    seconds = time.perf_counter() - started
    context.close()
    return seconds


@contextlib.contextmanager
def visitors(browser: Any, url: str) -> Iterator[None]:
    """Ten pages that are open, and nobody at them."""
    contexts = [browser.new_context() for _ in range(VISITORS)]
    for context in contexts:
        tab = context.new_page()
        tab.goto(url)
        tab.locator("#forecast .forecast").wait_for()
    time.sleep(2)
    yield
    for context in contexts:
        context.close()


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS
    with served.app() as app, served.chromium() as browser:
        app.run()  # the worker is ready, and nothing compiles meanwhile
        time.sleep(8)
        one_view(browser, app.url)
        views = [one_view(browser, app.url) for _ in range(VIEWS)]

        def visited() -> RunResult:
            with visitors(browser, app.url):
                return app.run()

        crowded, alone = served.in_turns(visited, app.run, pairs)
    rows, within = served.compared(crowded, alone, LATENCY_LIMIT)
    median = statistics.median(views)
    text = (
        f"First view, median of {VIEWS}: {median:.2f} s, slowest {max(views):.2f} s; limit {SECONDS_LIMIT} s.\n\n"
        f"With {VISITORS} idle visitors against none, {pairs} runs of `shapes-vit` each way, in turns:\n\n"
        f"{report.table(served.HEADER, rows)}"
    )
    report.publish("first_view", "The first view, and idle visitors", text)
    if median > SECONDS_LIMIT or not within:
        sys.exit("over the limit")


if __name__ == "__main__":
    main()
