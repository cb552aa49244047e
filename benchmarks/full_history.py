"""How quick a store of 10,000 runs (about 56 kB each) stays: listing, searching, JSON and exports.

Each line is one fresh process: the seconds from its start to its end, and its peak resident memory. The page's lines
time, inside such a process, what the history tab does when it opens and when somebody types: count, read, write the
table. The first search of all finds nothing of the file in memory; it has a line of its own.

    python -m benchmarks.full_history [ANOTHER_CHECKOUT]

measures the program of another checkout on the same store, too, for a comparison. The store and the exports lie in
TMPDIR and need 2 GB there.
"""

import dataclasses
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks import report
from demo.core.measurement import Measurement
from demo.core.result import STATUSES, Failure, RunResult
from demo.core.spec import DTYPES, MODES
from demo.store.history import FILE_NAME, FOLDER_VARIABLE, History

ROOT = Path(__file__).parents[1]
FIXTURES = ROOT / "tests" / "fixtures"
RUNS, VARIETIES, CALLS = 10_000, 120, 400
"""Runs that are stored, how many of them differ in more than id and time, and timed calls of each variant."""
CHECKPOINTS = ("google/vit-base-patch16-224", "facebook/detr-resnet-50", "facebook/convnext-large-224", "shapes-vit")
SEARCH = "slower bfloat16"
SEARCH_SECONDS, MEMORY_RATIO = 0.3, 1.5
"""Limits: of a search on the page, and of the memory of writing all runs over that of writing the newest 500."""

ON_THE_PAGE = """
import sys, time
sys.path.insert(0, {root!r})
from {history} import History
from {listing} import listing
from {languages} import ENGLISH
history, seconds = History(), []
for search in sys.argv[1:]:
    started = time.perf_counter()
    stored = history.count(search)
    listing(history.all(50, search), stored, search, ENGLISH)
    seconds.append(time.perf_counter() - started)
print(seconds[-1])
"""


@dataclass(frozen=True)
class Cost:
    seconds: float
    memory_bytes: int
    output: str = ""


def varieties() -> Iterator[RunResult]:
    """Results that differ in checkpoint, mode, dtype, outcome and times."""
    chance = random.Random(0)
    samples = [json.loads((FIXTURES / f"{name}.json").read_text()) for name in ("result_v1", "detection")]
    for number in range(VARIETIES):
        sample = RunResult.from_json(samples[number % len(samples)])
        spec = dataclasses.replace(
            sample.spec,
            checkpoint=CHECKPOINTS[number % len(CHECKPOINTS)],
            mode=chance.choice(MODES),
            dtype=chance.choice(DTYPES),
            batch_size=chance.choice((1, 4, 16)),
        )
        result = dataclasses.replace(sample, id=f"sample-{number}", spec=spec)
        if number % 6 == 5:
            status: Any = STATUSES[1 + number // 6 % (len(STATUSES) - 1)]
            failure = Failure("compile", "A failure of the benchmark.", "Nothing.")
            yield dataclasses.replace(result, status=status, failure=failure, eager=None, compiled=None)
            continue
        ratio = chance.choice((0.6, 0.97, 1.0, 1.4))

        eager, compiled, control = (times(sample.eager, seconds, chance) for seconds in (0.002 * ratio, 0.002, 0.002))
        yield dataclasses.replace(result, eager=eager, compiled=compiled, control_times=control)


def times(like: Measurement | None, seconds: float, chance: random.Random) -> Measurement:
    assert like is not None  # the fixtures are of runs that were timed
    calls = tuple(seconds * chance.uniform(0.98, 1.02) for _ in range(CALLS))
    return dataclasses.replace(like, wall_seconds=calls, calls_per_block=4)


def fill(path: Path) -> int:
    """Makes the store; its size in bytes. The varieties are stored as ever, and then copied under new ids."""
    history = History(path)
    for result in varieties():
        history.append(result)
    database = sqlite3.connect(path)
    stored = database.execute("SELECT * FROM results")
    names = [column[0] for column in stored.description]
    rows = [dict(zip(names, row, strict=True)) for row in stored]
    started = datetime(2026, 1, 1, tzinfo=UTC)

    def copies() -> Iterator[list[Any]]:
        parsed = [json.loads(row["result"]) for row in rows]
        for number in range(RUNS - len(rows)):
            at = started + timedelta(minutes=number)
            new = {"id": f"{at:%Y%m%dT%H%M%S}-{number:06x}", "started_at": f"{at:%Y-%m-%dT%H:%M:%SZ}"}
            text = json.dumps(parsed[number % len(rows)] | new, ensure_ascii=False)
            yield list((rows[number % len(rows)] | new | {"result": text}).values())

    with database:
        database.executemany(f"INSERT INTO results VALUES ({', '.join('?' * len(names))})", copies())
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    return path.stat().st_size


def measure(command: list[str], root: Path, data: Path) -> Cost:
    """Runs the command in the checkout `root` on the store in the folder `data`."""
    environment = os.environ | {FOLDER_VARIABLE: str(data), "PYTHONPATH": ""}
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        child = subprocess.Popen([sys.executable, *command], cwd=root, env=environment, stdout=output)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {child.returncode}")
        size = output.tell()
        output.seek(0)
        return Cost(seconds, usage.ru_maxrss * 1024, output.read().decode() if size < 100_000 else "")


def on_the_page(root: Path, data: Path, *searches: str) -> Cost:
    """Of the last of the searches, in a process that has made the others before."""
    modules = ("demo.store.history", "demo.ui.html.comparison", "demo.core.languages")
    if not (root / "demo" / "store").is_dir():  # of before November 22, 2026
        modules = ("demo.history", "demo.ui.compare", "demo.languages")
    code = ON_THE_PAGE.format(root=str(root), history=modules[0], listing=modules[1], languages=modules[2])
    cost = measure(["-c", code, *searches], root, data)
    return dataclasses.replace(cost, seconds=float(cost.output))


def costs(root: Path, data: Path) -> dict[str, Cost]:
    def history(*arguments: str) -> Cost:
        return measure(["-m", "demo", "history", *arguments], root, data)

    found = {
        "`history --help`: what starting Python costs": history("--help"),
        f"`history --search '{SEARCH}'`, the first search of the store": history("--search", SEARCH),
        f"`history --search '{SEARCH}'`": min(
            (history("--search", SEARCH) for _ in range(5)), key=lambda cost: cost.seconds
        ),
        "`history`": min((history() for _ in range(5)), key=lambda cost: cost.seconds),
        "page: the list, in a new process": on_the_page(root, data, ""),
        "page: the list, again": on_the_page(root, data, "", ""),
        "page: a search": on_the_page(root, data, "", SEARCH),
        "page: a search that finds nothing": on_the_page(root, data, "", "nothing-like-it"),
        "`history --json --limit 500`": history("--json", "--limit", "500"),
        "`history --json`": history("--json"),
    }
    for kind in ("csv", "json", "parquet"):
        file = data / f"export.{kind}"
        for limit in (["--limit", "500"], []):
            found[f"`history export FILE.{' '.join([kind, *limit])}`"] = history("export", str(file), *limit)
            file.unlink()
    return found


def over_the_limits(found: dict[str, Cost]) -> list[str]:
    slow = [
        f"{name}: {cost.seconds:.2f} s"
        for name, cost in found.items()
        if name.startswith("page: ") and cost.seconds > SEARCH_SECONDS
    ]
    large = [
        name
        for name, cost in found.items()
        if (few := found.get(f"{name[:-1]} --limit 500`")) and cost.memory_bytes > MEMORY_RATIO * few.memory_bytes
    ]
    return slow + large


def main() -> None:
    another = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        size = fill(data / FILE_NAME)
        before = costs(another, data) if another else {}
        found = costs(ROOT, data)
    report_costs(size, before, found)
    if wrong := over_the_limits(found):
        sys.exit(f"over the limit: {'; '.join(wrong)}")


def report_costs(size: int, before: dict[str, Cost], found: dict[str, Cost]) -> None:
    rows = [
        [name, *([_seconds(before[name]), _memory(before[name])] if before else []), _seconds(cost), _memory(cost)]
        for name, cost in found.items()
    ]
    header = ["", *(["before, s", "MB"] if before else []), "now, s" if before else "s", "MB"]
    limits = f"Limits: {SEARCH_SECONDS} s for the page's lines, and {MEMORY_RATIO} times the memory of the newest 500."
    text = f"{RUNS:,} runs, {size / 1e6:.0f} MB.\n\n{report.table(header, rows)}\n\n{limits}"
    report.publish("full_history", "A full store", text)


def _seconds(cost: Cost) -> str:
    return f"{cost.seconds:.2f}"


def _memory(cost: Cost) -> str:
    return f"{cost.memory_bytes / 1e6:.0f}"


if __name__ == "__main__":
    main()
