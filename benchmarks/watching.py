"""Does the timing notice that somebody watches? The default run with a page in Chromium watching it, and without.

Fresh processes in turns, as the product times its variants. Limit: 1 % on an idle machine. The number of pairs may be
given: `python -m benchmarks.watching 10`.
"""

from __future__ import annotations

import sys

from benchmarks import report, served

PAIRS = 10
LIMIT = 0.01


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS
    with served.app() as app, served.chromium() as browser:
        tab = browser.new_page(viewport={"width": 1440, "height": 900})
        watched, alone = served.in_turns(lambda: app.watched_run(tab), app.run, pairs)
    rows, within = served.compared(watched, alone, LIMIT)
    text = f"{pairs} runs of `shapes-vit` each way, in turns.\n\n{report.table(served.HEADER, rows)}"
    report.publish("watching", "A run that is watched against one that is not", text)
    if not within:
        sys.exit("over the limit")


if __name__ == "__main__":
    main()
