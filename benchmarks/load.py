"""Many visitors at once, on loopback: does everyone get an answer, does the page stay fast, is anything left behind?

Many visitors each ask a server with a short queue for a run, all at once. Each request must end in a result, or in the
sentence that the queue is full. Meanwhile the page itself is fetched ten times a second. Then runs follow one another,
and the server's memory, descriptors, processes and temporary files are compared early and late.

    python -m benchmarks.load [--visitors 50] [--queue 8] [--runs 200]

The worker is a stub that sends the messages of a run: a run takes 0.1 s and times nothing.
"""

import argparse
import contextlib
import inspect
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import report
from benchmarks.page_start import ROOT, processes_with, resident_bytes
from demo.store.history import History

ANSWER_SECONDS_LIMIT = 0.5
MEMORY_LIMIT = 1.10
EARLY_RUNS = 20
"""Number of runs after which memory is measured first, to be compared with memory at the end."""
QUICK = "benchmarks.quick_worker"
PROCESSES = 3
"""How many processes stay when no run goes on: the server, a worker that waits for a run, and a watcher. The watcher
ends the worker if the server dies."""
GIVE_UP_SECONDS = 600.0
PROBE_SECONDS = 0.1
FULL = "The queue is full"


@dataclass(frozen=True)
class Server:
    """A running server of the page: its address, process id, folder, and the request body that asks for a run."""

    address: str
    pid: int
    folder: Path
    body: bytes
    """Body of the HTTP request that asks for a run of the default checkpoint."""

    @property
    def history(self) -> History:
        return History(self.folder / "data" / "history.sqlite3")

    def memory(self) -> int:
        return resident_bytes(self.pid)

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def processes(self) -> int:
        """Returns the number of processes that run: the server, and all processes that it has started."""
        return len(processes_with(f"WORTH_COMPILING_DATA={self.folder}"))

    def temporary_files(self) -> int:
        """Returns how many temporary folders of workers exist. Uploads, which gradio keeps for a day, are elsewhere."""
        return len(list((self.folder / "temp").glob("worth-compiling-*")))

    def page_seconds(self) -> float:
        started = time.perf_counter()
        with urllib.request.urlopen(self.address, timeout=60) as answer:
            answer.read()
        return time.perf_counter() - started

    def run(self) -> str:
        """Makes a run for one visitor through the API. Returns 'result', 'full' (a full queue), or any other answer."""
        endpoint = f"{self.address}gradio_api/call/benchmark"
        try:
            request = urllib.request.Request(endpoint, self.body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=GIVE_UP_SECONDS) as answer:
                event = json.load(answer)["event_id"]
            with urllib.request.urlopen(f"{endpoint}/{event}", timeout=GIVE_UP_SECONDS) as events:
                stream = events.read().decode()
        except OSError as error:
            return f"no answer: {error}"
        if "event: complete" in stream:
            return "result" if '"status":"ok"' in stream.replace(" ", "") else "a result that is not ok"
        return "full" if FULL in stream else stream


def serve() -> None:
    """Runs as the server's process until it is ended.

    First it prints a line of JSON: its address, and the body of a POST request that asks for a run.
    """
    from demo.runs.runner import Runner
    from demo.ui import api
    from demo.ui.page import Page, launch
    from demo.ui.run_queue import RunQueue

    runner = Runner(History(), spare=True, worker_module=QUICK)
    fields = dict(inspect.signature(api.make_benchmark(runner, RunQueue())).parameters)
    del fields["request"]
    values = {name: field.default for name, field in fields.items()} | {"iterations": 100, "max_seconds": 0.5}
    _, address, _ = launch(Page(runner), server_name="127.0.0.1", server_port=None, prevent_thread_lock=True)
    print(json.dumps({"address": address, "body": {"data": list(values.values())}}), flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with contextlib.closing(runner):
        signal.pause()


@contextlib.contextmanager
def served(queue: int) -> Iterator[Server]:
    """Yields a server that runs during the `with` block. `queue`: the most runs in its queue."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "temp").mkdir()
        environment = os.environ | {
            "WORTH_COMPILING_DATA": str(folder / "data"),
            "WORTH_COMPILING_QUEUE": str(queue),
            "TMPDIR": str(folder / "temp"),
            "GRADIO_ANALYTICS_ENABLED": "False",
        }
        command = [sys.executable, "-m", "benchmarks.load", "--serve"]
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            ready = json.loads(process.stdout.readline())
            yield Server(ready["address"], process.pid, folder, json.dumps(ready["body"]).encode())
        finally:
            process.terminate()
            process.wait(30)
            process.stdout.close()


def crowd(server: Server, visitors: int) -> tuple[list[str], int, list[float]]:
    """Makes all visitors ask for a run at once. Visitors who find the queue full ask again each second.

    Returns the first answer to each visitor, how many visitors got a result in the end, and how many seconds each fetch
    of the page took meanwhile.
    """
    answers: list[str] = []
    last_answers: list[str] = []
    pages: list[float] = []
    over = threading.Event()

    def probe() -> None:
        while not over.wait(PROBE_SECONDS):
            pages.append(server.page_seconds())

    def visit() -> None:
        answers.append(answer := server.run())
        deadline = time.monotonic() + GIVE_UP_SECONDS
        while answer == "full" and time.monotonic() < deadline:
            time.sleep(1.0)
            answer = server.run()
        last_answers.append(answer)

    prober = threading.Thread(target=probe)
    threads = [threading.Thread(target=visit) for _ in range(visitors)]
    prober.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    prober.join()
    return answers, last_answers.count("result"), pages


def final_count(count: Callable[[], int], most: int) -> int:
    """Returns the value of `count()` as soon as it is at most `most`, or its value after 15 seconds."""
    deadline = time.monotonic() + 15.0
    while (number := count()) > most and time.monotonic() < deadline:
        time.sleep(0.1)
    return number


def measure(visitors: int, queue: int, runs: int) -> tuple[list[list[str]], list[str]]:
    """Makes the whole benchmark. Returns the rows of its table, and sentences about what was not as wanted.

    `visitors`: how many ask at once. `queue`: the most runs in the server's queue. `runs`: how many runs then follow
    one after another.
    """
    with served(queue) as server:
        server.run()
        answers, served_at_last, pages = crowd(server, visitors)
        results, full = answers.count("result"), answers.count("full")
        others = [answer for answer in answers if answer not in ("result", "full")]
        early = min(EARLY_RUNS, runs // 2)
        again = [server.run() for _ in range(early)]
        memory_early, descriptors_early = server.memory(), server.descriptors()
        again += [server.run() for _ in range(runs - early)]
        memory_late = server.memory()
        descriptors_late = final_count(server.descriptors, descriptors_early)
        processes = final_count(server.processes, PROCESSES)
        files = final_count(server.temporary_files, 1)
        stored, expected = server.history.count(), 1 + served_at_last + len(again)
        journal = len(list(server.history.path.parent.glob("*.running/*")))
    p95 = statistics.quantiles(pages, n=20)[-1] if len(pages) > 1 else float("nan")
    growth = memory_late / memory_early
    more_descriptors = descriptors_late - descriptors_early
    least = min(visitors, queue)
    good = again.count("result")
    checks: list[tuple[str, object, str, bool]] = [
        ("visitors at once", visitors, "", True),
        ("answered with a result", results, f"at least {least}", results >= least),
        (f"answered '{FULL}'", full, "the rest", results + full == visitors),
        ("answered otherwise, or never", len(others), "0", not others),
        (
            f"95th percentile of {len(pages)} page answers meanwhile",
            f"{p95:.3f} s",
            "0.5 s",
            p95 < ANSWER_SECONDS_LIMIT,
        ),
        ("runs one after another, answered with a result", good, str(runs), good == runs),
        (f"memory after {runs} runs over that after {early}", f"{growth:.3f}", "1.10", growth <= MEMORY_LIMIT),
        ("file descriptors more than then", more_descriptors, "0", more_descriptors <= 0),
        ("processes left", processes, str(PROCESSES), processes <= PROCESSES),
        ("folders of temporary files left", files, "1, the spare's", files <= 1),
        ("rows stored", stored, str(expected), stored == expected),
        ("notes of runs under way left", journal, "0", journal == 0),
    ]
    rows = [[str(name), str(value), str(limit), "ok" if good else "**over**"] for name, value, limit, good in checks]
    return rows, [str(what) for what, _, _, good in checks if not good] + others[:3]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--visitors", type=int, default=50)
    parser.add_argument("--queue", type=int, default=8)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    rows, wrong = measure(options.visitors, options.queue, options.runs)
    table = report.table(["what", "found", "wanted", ""], rows)
    text = f"A queue of {options.queue}; runs of 0.1 s that time nothing.\n\n{table}"
    report.publish("load", "Many visitors at once", text)
    if wrong:
        sys.exit(f"not as wanted: {'; '.join(wrong)}")


if __name__ == "__main__":
    main()
