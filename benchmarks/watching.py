"""Does the timing notice that somebody watches? One run, with a page in Chromium that watches it and without, in turns.

Limit: 1 % on an idle machine. The browser runs on the same machine, which a visitor's does not.
"""

import sys

from benchmarks import report, served

CALLS = 6_000
LIMIT = 0.01


def main() -> None:
    with served.app() as app, served.chromium() as browser:
        tab = browser.new_page(viewport={"width": 1440, "height": 900})
        tab.set_default_timeout(served.PATIENCE_SECONDS * 1000)
        tab.goto(app.link(CALLS))
        tab.locator("#forecast .forecast").wait_for()
        tab.wait_for_timeout(3_000)  # until the form holds what the link says
        tab.locator("#run:not([disabled])").click()
        tab.locator(".live").wait_for()

        def watch() -> None:
            tab.goto(app.url)
            tab.locator(".live .narrowing:not(.empty), #top .headline").first.wait_for()

        periods = served.come_and_go(app, watch, lambda: tab.goto("about:blank"))
        text, within = served.compared(app, periods, LIMIT)
    report.publish("watching", "A run that is watched against one that is not", text)
    if not within:
        sys.exit("over the limit")


if __name__ == "__main__":
    main()
