"""Measures on one GPU what this project says about GPUs, in steps that can be interrupted and continued.

    python3 -m tools.gpu_evidence FOLDER             continue where FOLDER ends, for 8.5 minutes
    python3 -m tools.gpu_evidence FOLDER --quick     the same on this CPU with the bundled checkpoints, in a few minutes

Needs torch 2.11 and transformers 5.17 (with torchvision) or newer, pandas, pillow, pydantic and scipy, and no network.
Weights are random: latency mostly does not depend on their values. The steps, the most valuable first:

    machine      facts of the machine: device, driver, versions, and the rates of a roofline
    table        the 12 checkpoints of the Transformers guide on torch.compile, at batch 1 (with profiles), 16 and 4,
                 modes default and reduce-overhead
    processes    ViT and ResNet at batch 1 in two more processes each
    formats      the step `table` at batch 1, in tf32 and bfloat16
    tests        the functions of tests/gpu, without pytest
    text         google/gemma-2b at batch 1 in bfloat16 and float32, modes default and reduce-overhead: times of a
                 token, of the first token and of the whole text
    autotune     mode max-autotune at batch 1

One run is called a cell. A group is the cells of one checkpoint at one batch size, in all modes: one process measures
them with the same eager calls (`tools.gpu_cells`). The groups run in waves. A wave has as many groups as there are
cores; of text and autotuning, one group, which is one cell. The groups first compile in parallel, the longest compiles
first, and are then timed one after another. So the cost of compiling is not measured. If a group runs out of memory
while others wait, it is run once more, alone.

The script ends by itself 8.5 minutes after its first line, or at SIGTERM, after writing its tables. A kill loses only
the groups of the wave that are not timed yet: the processes end with the script, and the next start continues.

FOLDER holds:

- `cells.jsonl.gz`: everything, including raw times. Cells in this file are not measured again.
- `machine.json`, `cells.csv`, `measured.csv` and `summary.md`. `noise.txt`: what the cells and tests print.
- `cache.tar.gz`: the compile cache. The next start unpacks it, also on another machine. While the script runs, the
  cache is in memory (/dev/shm), if there is room.

Nothing else is written. From FOLDER, `python3 -m tools.evidence_tables` makes this project's own tables in
assets/measured/ and benchmarks/results/.
"""
# ruff: noqa: E402

import time

STARTED = time.monotonic()

import argparse
import contextlib
import functools
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

NVML_CHECK = "PYTORCH_NVML_BASED_CUDA_CHECK"
os.environ.setdefault(NVML_CHECK, "1")  # a look for a GPU must not start CUDA: the groups are forked
CACHE_BYTES = 4_000_000_000
"""Room that the compile cache needs at most, by a guess. Containers often have 64 MB of /dev/shm."""


def cache_folder() -> Path:
    """Returns the folder of the compile cache while the program runs: in memory if there is room, else in /tmp."""
    memory = Path("/dev/shm")
    folder = memory / "worth-compiling-evidence"
    with contextlib.suppress(OSError):
        if os.access(folder if folder.exists() else memory, os.W_OK) and shutil.disk_usage(memory).free >= CACHE_BYTES:
            return folder
    return Path(tempfile.gettempdir()) / folder.name


CACHE = cache_folder()
if __name__ == "__main__":
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(CACHE))
    os.environ.setdefault("TRITON_STORE_BINARY_ONLY", "1")  # the rest of a kernel's files is for its debugging

from demo.backend import error_text, machine_probe
from demo.core import catalog, format as fmt
from demo.core.cores import usable_cores
from demo.core.files import replacing
from demo.core.options import TEXT_GENERATION, RunSpec
from demo.present.report import Report
from demo.store.published import current_commit
from demo.sweep.grid import PICTURE
from tools.evidence_tables import Book, result_of, write_tables
from tools.gpu_cells import Group
from tools.gpu_wave import TURN_GUESS, end_with, run_wave

ROOT = Path(__file__).resolve().parent.parent
GUIDES = tuple(checkpoint.id for checkpoint in catalog.PUBLISHED)
BUNDLED = tuple(checkpoint.id for checkpoint in catalog.BUNDLED_VISION)
MODES, FORMATS = ("default", "reduce-overhead"), ("tf32", "bfloat16")
TEXT_MODEL, SMALL_TEXT_MODEL = "google/gemma-2b", "shapes-gemma"
REPEATED = ("google/vit-base-patch16-224", "microsoft/resnet-50")
LONGEST = ("facebook/mask2former", "facebook/maskformer", "facebook/detr-resnet-101", "google/owlvit")
"""Beginnings of the checkpoints that compile longest, the longest first."""
MINUTES = 8.5
TABLES_SECONDS = 20.0
"""Seconds at the end of `MINUTES` for ending the processes, writing the tables and packing the compile cache."""
FIRST_TESTS = ("test_out_of_memory", "test_a_text_model", "test_a_compile")
"""Beginnings of the names of those functions of tests/gpu that no GPU has run yet. They are called first."""
GPU_ONLY = ("formats", "autotune")
"""Steps that the quick mode leaves out."""
MIN_WAVE_SECONDS = 30.0
"""If fewer seconds are left to compile, no further groups of runs are started: none would be ready to be timed."""


class TimeUp(BaseException):
    """Raised when the time of this start of the program (--minutes) is over, or when it gets SIGTERM.

    It is not an Exception, so that no handler takes it for a failure.
    """


# The groups


def steps(quick: bool, checkpoints: Sequence[str]) -> dict[str, list[Group]]:
    """Returns, for each step except 'machine', the groups of runs that it measures; [] for a step without groups.

    `quick`: whether to measure on the CPU, with fewer runs.
    """
    spec = functools.partial(_spec, quick=quick)

    def group(step: str, id: str, batch: int = 1, round: int = 0, **more: Any) -> Group:
        profile = "on" if batch == 1 and not round else "off"
        return Group(step, tuple(spec(id, batch, mode, profile=profile, **more) for mode in MODES), round)

    batches = (1,) if quick else (1, 16, 4)
    repeated = checkpoints[:1] if quick else [id for id in REPEATED if id in checkpoints]
    formats = ("float32",) if quick else ("bfloat16", "float32")
    groups_by_step = {
        "table": longest_first([group(f"table {batch}", id, batch) for batch in batches for id in checkpoints]),
        "processes": [group("processes", id, round=round) for round in (1, 2) for id in repeated],
        "formats": longest_first(
            [group("formats", id, dtype=dtype) for dtype in ("tf32", "bfloat16") for id in checkpoints]
        ),
        "tests": [],
        "text": [
            Group("text", (spec(SMALL_TEXT_MODEL if quick else TEXT_MODEL, 1, mode, dtype=dtype, profile="off"),))
            for dtype in formats
            for mode in (MODES[:1] if quick else MODES)
        ],
        "autotune": [Group("autotune", (spec(id, 1, "max-autotune", profile="off"),)) for id in checkpoints],
    }
    return {name: [] if quick and name in GPU_ONLY else groups for name, groups in groups_by_step.items()}


def longest_first(groups: Sequence[Group]) -> list[Group]:
    """Returns the groups in the order of `LONGEST`, which names those that compile longest. The other groups come last.

    The reason: groups that compile in parallel are all ready only when the longest compile has ended.
    """

    def place(group: Group) -> int:
        checkpoint = group.specs[0].checkpoint
        return next((place for place, name in enumerate(LONGEST) if checkpoint.startswith(name)), len(LONGEST))

    return sorted(groups, key=place)


def _spec(checkpoint: str, batch: int, mode: str, quick: bool, **more: Any) -> RunSpec:
    entry = catalog.find(checkpoint)
    options: dict[str, Any] = {
        "batch_size": batch,
        "mode": mode,
        "device": "cpu" if quick else "cuda",
        "weights": "pretrained" if entry is not None and entry.bundled else "random",
        **more,
    }
    if entry is not None and entry.takes_text:
        options["text"] = catalog.QUERIES
    if entry is not None and entry.task == TEXT_GENERATION:
        options["prompt"] = catalog.PROMPT
    return catalog.make_spec(checkpoint, **options)


# The two steps without cells


def _probe(answer: str) -> subprocess.CompletedProcess[str]:
    """Evaluates the Python expression `answer` in a child process, which prints the value as JSON in its last line.

    A child process does it because the expression opens CUDA or NVML, which a process cannot use if its parent opened
    it before the fork. The child also asks CUDA whether there is a GPU: NVML accepts a driver that is too old for this
    torch.
    """
    code = (
        "import json, torch; from demo.core import codec; from demo.backend import machine_probe, profiling; "
        f"print(json.dumps(codec.plain({answer})))"
    )
    variables = {name: value for name, value in os.environ.items() if name != NVML_CHECK}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=120)


def gpu_problem() -> str:
    """Returns why no GPU can be measured here, as the end of a sentence; '' if a GPU can."""
    process = _probe("machine_probe.host()")
    if process.returncode:
        return (process.stderr.strip().splitlines() or ["torch could not be imported"])[-1][:300]
    machine = json.loads(process.stdout.splitlines()[-1])
    return "" if machine["gpu"] else machine["gpu_problem"] or "there is no GPU that torch can use here"


def look_at_machine(device: str) -> dict[str, Any]:
    """Returns the machine's facts, with the rates of a roofline in float32: operations and copied bytes per second.

    If the child process that finds them fails, returns only the present date and time and, as 'problem', the reason.
    """
    place = f"torch.device({device!r})"
    rates = f"profiling.matrix_rate({place}, torch.float32), profiling.copy_rate({place})"
    process = _probe(f"[machine_probe.environment({place}), {rates}]")
    facts: dict[str, Any] = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "environment": None}
    if process.returncode:
        return facts | {"problem": process.stderr.strip().splitlines()[-1][:300]}
    figures = json.loads(process.stdout.splitlines()[-1])
    return facts | dict(zip(("environment", "operations_a_second", "copied_bytes_a_second"), figures, strict=True))


def run_tests(book: Book, noise: Path) -> None:
    """Calls, in one child process, the functions of tests/gpu that have no record in `book`, the file of all records.

    Adds a record for each function, so that a later start continues after the last record. `noise`: the file for the
    child's standard error.
    """
    recorded = {record["test"] for record in book.of("tests")}
    code = f"from tools import gpu_evidence; gpu_evidence.call_tests({recorded!r}, {os.getpid()})"
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


def call_tests(recorded: set[str], parent: int) -> None:
    """Calls each function of tests/gpu that is not in `recorded`, if there is a GPU, and prints a line of JSON for it.

    The functions are loaded by the path of their file, because an installed package may also have the name `tests`.
    `parent`: the id of the process with which this one ends.
    """
    end_with(parent)
    spec = importlib.util.spec_from_file_location("test_on_a_gpu", ROOT / "tests" / "gpu" / "test_on_a_gpu.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError("tests/gpu/test_on_a_gpu.py")
    tests: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tests)
    names = [name for name in dir(tests) if name.startswith("test_") and name not in recorded]
    names.sort(key=lambda name: not name.startswith(FIRST_TESTS))
    for name in names if tests.torch.cuda.is_available() else ():
        started, outcome = time.monotonic(), "passed"
        try:
            getattr(tests, name)()
        except Exception as error:
            traceback.print_exc()
            outcome = f"FAILED: {error_text.first_line(error)}"
        print(json.dumps({"test": name, "said": outcome, "seconds": time.monotonic() - started}), flush=True)


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
        cells = [group.key(spec) for name in names for group in order.get(name, ()) for spec in group.specs]
        return [key for key in (*cells, *{"machine", "tests"}.intersection(names)) if key not in book.records]

    def left() -> float:
        return 60 * options.minutes - TABLES_SECONDS - (time.monotonic() - STARTED)

    unpack_cache(folder / "cache.tar.gz")
    try:
        _end_after(left())
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
            for _ in _measure(order.get(name, ()), book, folder, left):
                write_tables(folder, book, commit)
    except TimeUp:
        _say("the time of this call is up")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        write_tables(folder, book, commit)
        pack_cache(folder / "cache.tar.gz")
    _say(f"{len(missing())} cells and steps are missing" if missing() else "complete")
    return 0


def _end_after(seconds: float) -> None:
    """Makes this thread raise TimeUp once: after `seconds`, or at SIGTERM."""

    def end(*_: Any) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise TimeUp

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, max(0.1, seconds))


def _measure(groups: Sequence[Group], book: Book, folder: Path, left: Callable[[], float]) -> Iterator[dict[str, Any]]:
    """Measures the groups that have a run without a record in `book`. Yields each new record after it was stored there.

    `left`: returns how many seconds the program has left. Raises TimeUp if they are too few for the next groups.
    """
    pending = [group for group in groups if not all(group.key(spec) in book.records for spec in group.specs)]
    size = 1 if any(group.alone for group in pending) else max(1, usable_cores())
    waves = [pending[first : first + size] for first in range(0, len(pending), size)]
    while waves:
        wave = waves.pop(0)
        if left() < MIN_WAVE_SECONDS + TURN_GUESS * len(wave):
            raise TimeUp
        _say(f"{wave[0].step}: {len(wave)} groups")
        for record in run_wave(wave, PICTURE, folder / "noise.txt", left):
            group = next(group for group in wave if record["key"] in map(group.key, group.specs))
            if record["result"]["status"] == "out_of_memory" and len(wave) > 1:
                if [group] not in waves:
                    waves.insert(0, [group])
                    _say(f"{group.name}: not enough memory beside the groups that wait; it is run once more, alone")
                continue
            book.add(record)
            result = result_of(record)
            _say(f"{record['key']}: {Report(result).headline} ({fmt.duration(result.elapsed_seconds)})")
            yield record


# The compile cache, from call to call


def unpack_cache(archive: Path) -> None:
    """Fills the compile cache from the archive that an earlier start wrote, unless this machine still has the cache."""
    if archive.exists() and not CACHE.exists() and os.environ.get("TORCHINDUCTOR_CACHE_DIR") == str(CACHE):
        with contextlib.suppress(tarfile.TarError, OSError), tarfile.open(archive) as packed:  # a torn one is no loss
            packed.extractall(CACHE, filter="data")


def pack_cache(archive: Path) -> None:
    """Packs the compile cache into an archive for the next start, compressed fast, because time is short."""
    if CACHE.exists() and os.environ.get("TORCHINDUCTOR_CACHE_DIR") == str(CACHE):
        with replacing(archive) as draft, tarfile.open(fileobj=draft, mode="w:gz", compresslevel=1) as packed:
            packed.add(CACHE, arcname=".", filter=lambda file: None if file.name.endswith(".lock") else file)


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
