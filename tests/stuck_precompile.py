"""Compiles nothing ahead, without torch: a fork that sleeps, and no word for longer than any test waits.

The fork writes its oom_score_adj into the file STUCK_FORK. Started by the tests' precompiler.
"""

import os
import sys
import time
from pathlib import Path

SECONDS = 30.0


def main() -> None:
    sys.stdin.buffer.readline()
    if os.fork() == 0:
        written = Path(os.environ["STUCK_FORK"])
        aside = written.with_suffix(".new")
        aside.write_text(Path("/proc/self/oom_score_adj").read_text())
        aside.rename(written)
        time.sleep(SECONDS * 10)
        os._exit(0)
    time.sleep(SECONDS)
    print(flush=True)  # "one is done": only somebody who has waited for it hears this


if __name__ == "__main__":
    main()
