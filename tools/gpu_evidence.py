"""Measures on one GPU what this project claims, in steps that can be broken off and taken up again.

    python3 -m tools.gpu_evidence FOLDER             go on where FOLDER says, for 8.5 minutes
    python3 -m tools.gpu_evidence FOLDER --quick     the same on this CPU with the bundled checkpoints, in a few minutes

Needs torch 2.11 and transformers 5.17 or newer, pandas, pillow and scipy, and no network. Weights are random: latency
does not depend on their values. The steps, the most valuable first:

    machine      what it is: device, driver, versions
    smoke        two checkpoints at batch 1 in mode reduce-overhead, one after the other: about 3 minutes
    table 1      the guide's 12 checkpoints at batch 1, modes default and reduce-overhead, with profiles
    text         google/gemma-2b at batch 1 in bfloat16 and float32, modes default and reduce-overhead: a token, the
                 first token and the whole answer
    repeat       the same cell ten times: is the verdict the same?
    tests        the functions of tests/gpu, without pytest
    table 16     as table 1, at batch 16
    table 4      as table 1, without profiles
    autotune     mode max-autotune at batch 1

Every cell is a process of its own, and a lot of them is compiled ahead (`tools.gpu_cells`). What a compile costs is
therefore measured only of smoke and text, whose cells compile in their turn. A cell that lacks memory while others wait
is run once more, with nobody beside it.

A call ends by itself 8.5 minutes after its first line, or at SIGTERM, with its tables written. A kill at any moment
costs the cell in hand: the cells' processes end with the script, and the next call goes on.

FOLDER holds `cells.jsonl.gz` (everything, raw times included; what is in it is not measured again), `machine.json`,
`noise.txt` (what the cells and tests print), `cells.csv`, `measured.csv` and `summary.md`. Nothing is written
elsewhere; of that folder `python3 -m tools.evidence_tables` makes the project's own tables, in assets/measured/ and
benchmarks/results/.
"""
# ruff: noqa: E402

import time

STARTED = time.monotonic()

import argparse
import functools
import importlib.util
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

NVML_CHECK = "PYTORCH_NVML_BASED_CUDA_CHECK"
os.environ.setdefault(NVML_CHECK, "1")  # a look for a GPU must not start CUDA: the cells are forked

from demo.backend import compilation, machine_probe
from demo.core import catalog, format as fmt
from demo.core.cores import usable_cores
from demo.core.options import TEXT_GENERATION, RunSpec
from demo.present import verdict
from demo.store.published import current_commit
from demo.sweep.grid import PICTURE
from tools.evidence_tables import Book, result_of, write_tables
from tools.gpu_cells import Task, end_with, run_lot

ROOT = Path(__file__).resolve().parent.parent
GUIDES = tuple(checkpoint.id for checkpoint in catalog.PUBLISHED)
BUNDLED = tuple(checkpoint.id for checkpoint in catalog.BUNDLED_VISION)
TEXT_MODEL, SMALL_TEXT_MODEL = "google/gemma-2b", "shapes-gemma"
SMOKE = ("google/vit-base-patch16-224", "microsoft/resnet-50")
MINUTES = 8.5
TABLES_SECONDS = 10.0
"""The end of a call, kept for ending the cells and writing the tables."""
GPU_ONLY = ("table 16", "table 4", "autotune")
"""Steps that the quick mode leaves out."""
LOT = 8
"""Cells compiled before the first of them is timed: the most contexts and weights that lie on the GPU at once."""
TIMED_SECONDS = 1.5


class TimeUp(BaseException):
    """The time of this call is over, or it was ended. No Exception, so that no handler takes it for a failure."""


# The tasks


def steps(quick: bool, checkpoints: Sequence[str]) -> dict[str, list[Task]]:
    """The tasks of every step but 'machine'; 'tests' has none."""
    spec = functools.partial(_spec, quick=quick)
    modes = ("default",) if quick else ("default", "reduce-overhead")

    def table(batch: int, profiled: str) -> list[Task]:
        return [Task(f"table {batch}", spec(id, batch, mode, profile=profiled)) for id in checkpoints for mode in modes]

    first = spec(checkpoints[0], 1, "default", profile="off")
    smoke = checkpoints[:1] if quick else SMOKE
    found = {
        "smoke": [Task("smoke", spec(id, 1, modes[-1], profile="on")) for id in smoke],
        "table 1": table(1, "on"),
        "text": [
            Task("text", spec(SMALL_TEXT_MODEL if quick else TEXT_MODEL, 1, mode, dtype=dtype, profile="off"))
            for dtype in (("float32",) if quick else ("bfloat16", "float32"))
            for mode in modes
        ],
        "repeat": [Task("repeat", first, round) for round in range(3 if quick else 10)],
        "tests": [],
        "table 16": table(16, "on"),
        "table 4": table(4, "off"),
        "autotune": [Task("autotune", spec(id, 1, "max-autotune", profile="off")) for id in checkpoints],
    }
    return {name: [] if quick and name in GPU_ONLY else tasks for name, tasks in found.items()}


def _spec(checkpoint: str, batch: int, mode: str, quick: bool, **more: Any) -> RunSpec:
    known = catalog.find(checkpoint)
    asked: dict[str, Any] = {
        "batch_size": batch,
        "mode": mode,
        "device": "cpu" if quick else "cuda",
        "weights": "pretrained" if known is not None and known.bundled else "random",
        "max_seconds": 0.5 if quick else TIMED_SECONDS,
        **more,
    }
    if known is not None and known.takes_text:
        asked["text"] = catalog.QUERIES
    if known is not None and known.task == TEXT_GENERATION:
        asked["prompt"] = catalog.PROMPT
    return catalog.make_spec(checkpoint, **asked)


# The two steps without cells


def _probe(call: str) -> subprocess.CompletedProcess[str]:
    """Calls a function of `machine_probe` in a child, whose last line is the result as JSON.

    The call opens CUDA or NVML, which each forked cell must open itself. The child asks CUDA whether there is a GPU:
    NVML accepts a driver that is too old for this torch.
    """
    code = (
        "import json, torch; from demo.core import codec; from demo.backend import machine_probe; "
        f"print(json.dumps(codec.plain(machine_probe.{call})))"
    )
    variables = {name: value for name, value in os.environ.items() if name != NVML_CHECK}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=120)


def gpu_problem() -> str:
    """Why no GPU can be measured here, for the end of a sentence; '' if one can."""
    done = _probe("host()")
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["torch could not be imported"])[-1][:300]
    machine = json.loads(done.stdout.splitlines()[-1])
    return "" if machine["gpu"] else machine["gpu_problem"] or "there is no GPU that torch can use here"


def look_at_machine(device: str) -> dict[str, Any]:
    """The facts of the machine, or the problem in asking for them."""
    done = _probe(f"environment(torch.device({device!r}))")
    facts: dict[str, Any] = {"at": datetime.now(UTC).isoformat(timespec="seconds")}
    facts["environment"] = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
    if done.returncode:
        facts["problem"] = done.stderr.strip().splitlines()[-1][:300]
    return facts


def run_tests(book: Book, noise: Path) -> None:
    """Runs the functions of tests/gpu that are not in the book, one after another in a process.

    Each is a record of its own, so that the next call goes on where this one ended. None takes a fixture.
    """
    known = {record["test"] for record in book.of("tests")}
    code = f"from tools import gpu_evidence; gpu_evidence.call_tests({known!r}, {os.getpid()})"
    with noise.open("a") as log:
        tests = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        for line in tests.stdout or ():
            if line.startswith("{"):
                record = json.loads(line)
                book.add({"key": f"tests|{record['test']}", "step": "tests", **record})
                _say(f"{record['test']}: {record['said']}")
        if tests.wait() == 0 and "tests" not in book.records:
            book.add({"key": "tests", "step": "all tests"})
    finally:
        tests.kill()
        tests.wait()


def call_tests(known: set[str], parent: int) -> None:
    """Prints a line of JSON for each test that is not in `known`.

    The tests are loaded by their path, since an installed package may be called `tests`, too.
    """
    end_with(parent)
    spec = importlib.util.spec_from_file_location("test_on_a_gpu", ROOT / "tests" / "gpu" / "test_on_a_gpu.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError("tests/gpu/test_on_a_gpu.py")
    tests: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tests)
    names = [name for name in dir(tests) if name.startswith("test_") and name not in known]
    for name in names if tests.torch.cuda.is_available() else ():
        started, said = time.monotonic(), "passed"
        try:
            getattr(tests, name)()
        except Exception as error:
            traceback.print_exc()
            said = f"FAILED: {compilation.first_line(error)}"
        print(json.dumps({"test": name, "said": said, "seconds": time.monotonic() - started}), flush=True)


# The script


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    commit = options.commit or current_commit()
    if not commit:
        print(
            "There is no git history here: name the commit with --commit, or no figure can be traced.", file=sys.stderr
        )
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    book = Book(folder / "cells.jsonl.gz")
    quick = options.quick
    order = steps(quick, options.checkpoints or (BUNDLED if quick else GUIDES))
    names = options.steps or ("machine", *order)
    if unknown := [name for name in names if name not in ("machine", *order)]:
        print(f"There is no step {unknown[0]!r}. There are: machine, {', '.join(order)}.", file=sys.stderr)
        return 2

    def missing() -> list[str]:
        tasks = [task.key for name in names for task in order.get(name, ())]
        return [key for key in (*tasks, *{"machine", "tests"}.intersection(names)) if key not in book.records]

    try:
        _end_after(60 * options.minutes - TABLES_SECONDS - (time.monotonic() - STARTED))
        if problem := "" if quick else gpu_problem():
            print(f"Nothing can be measured: {problem}. --quick tries the script on the CPU.", file=sys.stderr)
            return 2
        machine_probe.warm_imports()
        for name in names if missing() else ():
            if name == "machine" and name not in book.records:
                facts = look_at_machine("cpu" if quick else "cuda") | {"commit": commit}
                book.add({"key": name, "step": name, "facts": facts})
            elif name == "tests" and name not in book.records:
                run_tests(book, folder / "noise.txt")
            for _ in _measure(order.get(name, ()), book, folder):
                write_tables(folder, book, commit)
    except TimeUp:
        _say("the time of this call is up")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        write_tables(folder, book, commit)
    _say(f"{len(missing())} cells and steps are missing" if missing() else "complete")
    return 0


def _end_after(seconds: float) -> None:
    """Raises TimeUp in this thread once, after `seconds` or at SIGTERM."""

    def end(*_: Any) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise TimeUp

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, max(0.1, seconds))


def _measure(tasks: Sequence[Task], book: Book, folder: Path) -> Iterator[dict[str, Any]]:
    """Measures the tasks that are not in the book. Yields each record that it has added."""
    pending = [task for task in tasks if task.key not in book.records]
    size = 1 if tasks and tasks[0].step == "smoke" else LOT
    lots = [pending[first : first + size] for first in range(0, len(pending), size)]
    while lots:
        lot = lots.pop(0)
        _say(f"{lot[0].step}: {len(lot)} cells")
        for one in run_lot(lot, PICTURE, folder / "noise.txt", usable_cores()):
            lacked_memory = one["result"]["status"] == "out_of_memory"
            if lacked_memory and one["key"] != lot[-1].key:
                lots.insert(0, [task for task in lot if task.key == one["key"]])
                _say(f"{one['key']}: not enough memory beside the cells that wait; it is run once more, alone")
                continue
            book.add(one)
            result = result_of(one)
            _say(f"{one['key']}: {verdict.headline(result)} ({fmt.duration(result.elapsed_seconds)})")
            yield one


def _say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures on one GPU what this project claims.")
    parser.add_argument("folder", type=Path, help="where the results lie, and those of an earlier call")
    parser.add_argument("--quick", action="store_true", help="on this CPU, with the bundled checkpoints")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"stop after so many (default: {MINUTES:g})")
    parser.add_argument("--steps", type=_listed, help="only these, separated by commas, in this order")
    parser.add_argument("--checkpoints", type=_listed, help="only these, separated by commas")
    parser.add_argument("--commit", help="of this project, where the copy has no git history")
    return parser.parse_args(arguments)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


if __name__ == "__main__":
    sys.exit(main())
