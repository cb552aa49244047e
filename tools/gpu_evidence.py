"""Measures on one GPU what this project claims, in steps that can be broken off and taken up again.

    python3 -m tools.gpu_evidence FOLDER             go on where FOLDER says, for 8.5 minutes
    python3 -m tools.gpu_evidence FOLDER --again     and try cells once more that took too long or crashed
    python3 -m tools.gpu_evidence FOLDER --quick     the same on this CPU with the bundled checkpoints, in a few minutes

Needs torch 2.11 and transformers 5.17 or newer, pandas, pillow and scipy, and no network. Weights are random: latency
does not depend on their values. The steps, the most valuable first:

    machine      what it is: device, driver, versions
    smoke        two checkpoints at batch 1 in mode reduce-overhead, one after the other: about 3 minutes
    table 1      the guide's 12 checkpoints at batch 1, modes default and reduce-overhead, with profiles
    text         google/gemma-2b at batch 1 in bfloat16 and float32, modes default and reduce-overhead: a token, the
                 first token and the whole answer
    fidelity     our median over that of a plain loop, in turns
    repeat       the same cell ten times: is the verdict the same?
    tests        the functions of tests/gpu, without pytest
    table 16     as table 1, at batch 16
    table 4      as table 1, without profiles
    best         mode reduce-overhead in tf32, bfloat16 and float16 (models of convolutions in float16 with the channels
                 last), at batch 1 and 16; the best of these and of the tables, against plain eager float32
    autotune     mode max-autotune at batch 1

Every cell is a run of `demo.backend` in a process of its own, forked after torch and transformers have been
imported. Compiling needs a core and timing a quiet machine, so a lot of cells is loaded and compiled side by side, up
to the moment when the compiled code would run for the first time; on the GPU they take turns. When all of the lot have
come so far, or failed, they run one after another: autotuning, warm-up, timing, profile. Meanwhile the others hold
their weights on the GPU, which a result counts as other processes there. What a compile costs is therefore measured
only of smoke and text, whose cells compile in their turn. A cell whose compile ahead failed starts over alone; one that
lacks memory while others wait is run once more, with nobody beside it.

A call ends by itself 8.5 minutes after its first line, or at SIGTERM, with its tables written. A kill at any moment
costs the cell in hand: the cells' processes end with the script, and the next call goes on.

The step 'best' is not the search of `demo.sweep.best_way`, which takes minutes a model: it is a fixed choice of few,
and plain eager and the winner are not run again in alternation, so there is no interval.

FOLDER holds `cells.jsonl.gz` (everything, raw times included; what is in it is not measured again), `machine.json`,
`noise.txt` (what the cells and tests print), `cells.csv`, `measured.csv` and `summary.md`. Nothing is written
elsewhere; of that folder `python3 -m tools.evidence_tables` makes the project's own tables, in assets/measured/ and
benchmarks/results/.
"""
# ruff: noqa: E402

import time

STARTED = time.monotonic()

import argparse
import contextlib
import ctypes
import dataclasses
import functools
import importlib.util
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import traceback
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

NVML_CHECK = "PYTORCH_NVML_BASED_CUDA_CHECK"
os.environ.setdefault(NVML_CHECK, "1")  # a look for a GPU must not start CUDA: the cells are forked

from demo.backend import compilation, compile_model  # first: it sets what the libraries read when they are imported

import torch  # isort: skip
from PIL import Image
from torch._inductor.output_code import CompiledFxGraph

from demo.backend import machine_probe, profiling, tasks, timing
from demo.backend.messages import Events, Job
from demo.backend.run_steps import Run
from demo.backend.workload import Variant
from demo.core import catalog, codec, format as fmt
from demo.core.caveat import note
from demo.core.cores import usable_cores
from demo.core.record import Failure, Status
from demo.core.result import RunResult
from demo.core.result_json import to_json
from demo.core.spec import PUBLISHED_CALLS, TEXT_GENERATION, RunSpec
from demo.present import verdict
from demo.store.published import current_commit
from tools import gpu_turns
from tools.evidence_tables import Book, result_of, write_tables

ROOT = Path(__file__).resolve().parent.parent
SCENE = catalog.ASSETS / "examples" / "shapes-scene-1.png"
QUERIES = ("a cat", "a remote control")
GUIDES = tuple(checkpoint.id for checkpoint in catalog.PUBLISHED)
BUNDLED = tuple(checkpoint.id for checkpoint in catalog.BUNDLED_VISION)
TEXT_MODEL, SMALL_TEXT_MODEL = "google/gemma-2b", "shapes-gemma"
FIDELITY = ("google/vit-base-patch16-224", "microsoft/resnet-50", "nvidia/segformer-b0-finetuned-ade-512-512")
CONVOLUTIONAL = ("ConvNeXT", "ResNet", "MobileNet", "DETR", "Resnet-101", "Conditional-DETR")
MINUTES = 8.5
TABLES_SECONDS = 10.0
"""Of a call: kept for ending the cells and writing the tables."""
GPU_ONLY = ("table 16", "table 4", "autotune")
"""Steps that the quick mode leaves out."""
LOT = 8
"""Cells compiled before the first of them is timed: so many contexts and weights at most lie on the GPU."""
READY_SECONDS = 330.0
TURN_SECONDS = 150.0
AUTOTUNE_SECONDS = TEXT_SECONDS = 180.0
CPU_SECONDS = 240.0
"""A cell's turn, by what it is; `READY_SECONDS` is for what comes before the turn, beside the others."""
TIMED_SECONDS = 1.5
RECIPE_SECONDS = 1.5
"""The guide's 300 calls of one variant are cut short after about so long; how many there were stands beside them."""
MIN_RECIPE_CALLS = 10
LOOP_CALLS = 200
BACK_TO_BACK_SECONDS = 0.3
"""Too short for the driver's energy counter, so no energy is told."""
DIE_WITH_PARENT = 1
"""Linux's PR_SET_PDEATHSIG."""


class TimeUp(BaseException):
    """The call's time is over, or somebody ends it. Not an Exception, so that nothing takes it for a failure."""


@dataclass(frozen=True)
class Task:
    """One cell of one step. `round` tells repetitions apart; `plain` is a hand-written loop instead of a run."""

    step: str
    spec: RunSpec
    round: int = 0
    plain: bool = False

    @property
    def key(self) -> str:
        spec = self.spec
        formats = f"{spec.dtype}{'+channels-last' if spec.channels_last else ''}"
        what = "loop" if self.plain else "run"
        return "|".join((spec.checkpoint, str(spec.batch_size), spec.mode, formats, self.step, what, str(self.round)))

    @property
    def turn_seconds(self) -> float:
        if self.spec.device == "cpu":
            return CPU_SECONDS
        if self.step == "text":
            return TEXT_SECONDS
        return AUTOTUNE_SECONDS if self.spec.mode.startswith("max-autotune") else TURN_SECONDS


# What is to be measured


def steps(quick: bool, checkpoints: Sequence[str]) -> dict[str, list[Task]]:
    """The tasks of every step but 'machine'; 'tests' has none."""
    spec = functools.partial(_spec, quick=quick)
    modes = ("default",) if quick else ("default", "reduce-overhead")
    rounds = 2 if quick else 3
    loops = [id for id in checkpoints if quick or id in FIDELITY]

    def table(batch: int, profiled: str) -> list[Task]:
        return [Task(f"table {batch}", spec(id, batch, mode, profile=profiled)) for id in checkpoints for mode in modes]

    first = spec(checkpoints[0], 1, "default", profile="off")
    smoke = checkpoints[:1] if quick else FIDELITY[:2]
    found = {
        "smoke": [Task("smoke", spec(id, 1, modes[-1], profile="on")) for id in smoke],
        "table 1": table(1, "on"),
        "text": [
            Task("text", spec(SMALL_TEXT_MODEL if quick else TEXT_MODEL, 1, mode, dtype=dtype, profile="off"))
            for dtype in (("float32",) if quick else ("bfloat16", "float32"))
            for mode in modes
        ],
        "fidelity": [
            Task("fidelity", spec(id, 1, "default", profile="off"), round, plain)
            for id in loops
            for round in range(rounds)
            for plain in (False, True)
        ],
        "repeat": [Task("repeat", first, round) for round in range(3 if quick else 10)],
        "tests": [],
        "table 16": table(16, "on"),
        "table 4": table(4, "off"),
        "best": [
            Task("best", found)
            for id in checkpoints
            for batch in ((1,) if quick else (1, 16))
            for found in candidates(id, batch, quick)
        ],
        "autotune": [Task("autotune", spec(id, 1, "max-autotune", profile="off")) for id in checkpoints],
    }
    return {name: [] if quick and name in GPU_ONLY else tasks for name, tasks in found.items()}


def candidates(checkpoint: str, batch: int, quick: bool) -> list[RunSpec]:
    """The settings among which the best is looked for, beside those of the tables and of mode max-autotune.

    A fixed choice of few: the search of `demo.sweep.best_way` for all of them takes longer than a borrowed GPU stays.
    """
    known = catalog.find(checkpoint)
    convolutional = known is not None and known.family in CONVOLUTIONAL
    mode = "default" if quick else "reduce-overhead"
    formats = [("bfloat16", False)]
    if not quick:
        formats = [("tf32", False), *formats, ("float16", convolutional)]
    return [
        _spec(checkpoint, batch, mode, quick=quick, dtype=dtype, channels_last=channels_last, profile="on")
        for dtype, channels_last in formats
    ]


def _spec(checkpoint: str, batch: int, mode: str, quick: bool, **more: Any) -> RunSpec:
    known = catalog.find(checkpoint)
    asked: dict[str, Any] = {
        "batch_size": batch,
        "mode": mode,
        "device": "cpu" if quick else "cuda",
        "weights": "pretrained" if known is not None and known.bundled else "random",
        "most_seconds": 0.5 if quick else TIMED_SECONDS,
        **more,
    }
    if known is not None and known.takes_text:
        asked["text"] = QUERIES
    if known is not None and known.task == TEXT_GENERATION:
        asked["prompt"] = catalog.PROMPT
    return catalog.make_spec(checkpoint, **asked)


# One cell, in a process of its own


class _NotYet(BaseException):
    """The compiled code would run now. Not an Exception, so that nothing on the way takes it for a failure."""


class Cell(Run):
    """A run that can be brought to where its compiled code would first run, and then waits for its turn."""

    def __init__(self, spec: RunSpec, image: Path) -> None:
        started_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        job = Job(spec, str(image), id=uuid.uuid4().hex[:12], started_at=started_at)
        super().__init__(job, Events(open(os.devnull, "w")))
        self._ahead: Any = None
        """The model that `get_ready` loaded, under torch.compile."""
        self._timed = False
        """Whether the run came to its end, so that there is something to explain."""

    def get_ready(self) -> None:
        """One eager call comes first, as in a run: models keep some tensors from their first call on."""
        with torch.no_grad():
            self.load()
            workload = self.workload
            on_gpu = workload.device.type == "cuda"
            (gpu_turns.alone(workload.eager) if on_gpu else workload.eager)()
            if on_gpu:
                torch.cuda.empty_cache()  # the others need the memory
            model = compile_model.compiled(workload.model, self.spec)
            self.log = compilation.CompileLog()
            with (
                gpu_turns.taken(workload.device),
                mock.patch.object(CompiledFxGraph, "__call__", _stop),
                contextlib.suppress(_NotYet),
            ):
                model(**workload.batch)
            self._ahead = model

    def load(self) -> None:
        if self._ahead is None:
            super().load()

    def compile_in_process(self, cached: set[str]) -> Variant:
        """What was compiled ahead is not compiled again, so its log is the one that counts graphs."""
        if self._ahead is None:
            return super().compile_in_process(cached)
        log = self.log
        with (
            mock.patch.object(compile_model, "compiled", lambda *_: self._ahead),
            mock.patch.object(compilation, "CompileLog", lambda *_: log),
        ):
            return super().compile_in_process(cached)

    def compile_again(self) -> None:
        """Not of what was compiled ahead: `_sent` tells no compile costs of it, and a further process takes 20 s."""
        if self._ahead is None:
            super().compile_again()

    def explain(self) -> None:
        """Not yet: a profiler that hangs or crashes must not cost the figures, so they are sent first."""
        self._timed = True

    @property
    def explains(self) -> bool:
        """Whether `explained` has more to say."""
        return self._timed and profiling.should_profile(self.spec, self.workload.device)

    def explained(self) -> RunResult:
        """The result once more, with the profiler's figures and the roofline."""
        if self._timed:
            with torch.no_grad():
                super().explain()
        return dataclasses.replace(self.result, caveats=tuple(self.caveats))

    def recipe(self, result: RunResult) -> dict[str, Any] | None:
        """The guide's recipe, right after ours: so many calls of eager, then of compiled, and their means."""
        if result.status != "ok" or result.eager is None or result.compiled is None:
            return None
        slower = max(result.eager.median_seconds, result.compiled.median_seconds)
        calls = min(PUBLISHED_CALLS, max(MIN_RECIPE_CALLS, int(RECIPE_SECONDS / slower)))
        with torch.no_grad():
            means = [
                statistics.mean(timing.time_fixed_count(variant.call, self.workload.clock, calls))
                for variant in (self.variants.eager, self.variants.compiled)
            ]
        return {"calls": calls, "eager_seconds": means[0], "compiled_seconds": means[1]}


def _stop(*_: Any) -> None:
    raise _NotYet


def plain_loop(spec: RunSpec, image: Path) -> dict[str, Any]:
    """Medians of a loop as anybody would write it, with nothing of our timing: warm up, then calls in a row."""
    workload = tasks.load(spec, image)
    batch = workload.batch
    wait = torch.cuda.synchronize if workload.device.type == "cuda" else (lambda: None)

    def loop(model: Any) -> float:
        times = []
        for call in range(20 + LOOP_CALLS):
            wait()
            start = time.perf_counter()
            model(**batch)
            wait()
            if call >= 20:
                times.append(time.perf_counter() - start)
        return statistics.median(times)

    with torch.no_grad():
        return {"eager_seconds": loop(workload.model), "compiled_seconds": loop(torch.compile(workload.model))}


def _life(task: Task, image: Path, noise: Path, up: int, down: int) -> None:
    """The forked process's whole life: get ready, wait for the turn, answer."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()
    log = os.open(noise, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)

    def tell(message: dict[str, Any]) -> None:
        data = memoryview((json.dumps(message, allow_nan=False) + "\n").encode())
        while data:
            data = data[os.write(up, data) :]

    try:
        Image.MAX_IMAGE_PIXELS = None  # images.read holds its own, stricter limit
        profiling.BACK_TO_BACK_SECONDS = {"cpu": BACK_TO_BACK_SECONDS, "cuda": BACK_TO_BACK_SECONDS}
        threads = torch._inductor.config.compile_threads
        torch._inductor.config.compile_threads = 1  # the cells share the cores already
        cell: Cell | None = None
        # max-autotune times kernels to choose among them; a text model has two graphs, of which the second waits for
        # what the first one gives; and the smoke test is the control that compiles with nobody beside it.
        alone = task.plain or task.step == "smoke" or task.spec.mode.startswith("max-autotune")
        ahead = not alone and task.spec.task != TEXT_GENERATION
        if ahead:
            try:
                cell = Cell(task.spec, image)
                cell.get_ready()
            except Exception:
                traceback.print_exc()
                cell = None
        tell({"ready": cell is not None})
        turn = os.read(down, 1)
        if not turn:
            return
        waiting = turn[0]
        if cell is None:  # it compiles in its turn, while the others wait
            torch._inductor.config.compile_threads = threads
        if task.plain:
            tell({"loop": plain_loop(task.spec, image)})
        else:
            if cell is None:
                compilation.reset_compiler()
                cell = Cell(task.spec, image)
            started = time.monotonic()
            result = cell.execute()
            recipe = cell.recipe(result)
            explains = result.status == "ok" and cell.explains
            tell({"result": _sent(result, started, ahead, waiting), "recipe": recipe, "more": explains})
            if explains:
                tell({"result": _sent(cell.explained(), started, ahead, waiting), "recipe": recipe})
    except BaseException as error:
        traceback.print_exc()
        with contextlib.suppress(OSError):
            tell({"error": compilation.first_line(error)})
    finally:
        os._exit(0)


def _sent(result: RunResult, started: float, ahead: bool, waiting: int) -> dict[str, Any]:
    """The result as JSON, without compile costs where the first call had nothing left to compile.

    The cells that wait for their turn hold the GPU's memory and compute nothing: a warning of neighbours says so.
    """
    if waiting:
        cells = f"Up to {waiting} of them were cells of this script that waited for their turn and computed nothing."
        told = (note(f"{one} {cells}") if one.key == "gpu_others" else one for one in result.caveats)
        result = dataclasses.replace(result, caveats=tuple(told))
    if ahead and result.compilation is not None:
        result = dataclasses.replace(result, compilation=dataclasses.replace(result.compilation, cold=None, warm=None))
    return to_json(dataclasses.replace(result, elapsed_seconds=round(time.monotonic() - started, 3)))


def _ends_with(parent: int) -> None:
    """Asks Linux to kill this process when its parent ends, however that ends."""
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


class Child:
    """A forked cell, seen from the script."""

    open: list["Child"] = []  # noqa: RUF012

    def __init__(self, task: Task, image: Path, noise: Path) -> None:
        self.task = task
        self.started = time.monotonic()
        self.ready = self.ended = self._closed = False
        self.reading, up = os.pipe()
        down, self._writing = os.pipe()
        parent = os.getpid()
        self.open.append(self)
        self.pid = os.fork()
        if self.pid == 0:
            _ends_with(parent)
            for other in self.open:  # a pipe ends when its last writer is gone: no cell may hold another's ends
                os.close(other.reading)
                os.close(other._writing)
            _life(task, image, noise, up, down)
        os.close(up)
        os.close(down)
        self._said = b""
        self.answer: dict[str, Any] | None = None

    def listen(self) -> None:
        """Takes in what is there to read: call it when `reading` has something."""
        said = os.read(self.reading, 1 << 20)
        if not said:
            self.ended = True
            return
        *lines, self._said = (self._said + said).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "ready" in message:
                self.ready = True
            elif "error" in message and self.answer is not None:
                self.ended = True  # the figures came before: `more` stays, and says that the profile did not
            else:
                self.answer, self.ended = message, not message.get("more")

    def go(self, waiting: int) -> None:
        """Its turn has come; so many others wait beside it."""
        with contextlib.suppress(OSError):
            os.write(self._writing, bytes([min(waiting, 255)]))

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for group in (os.killpg, os.kill):  # a child that had no time to call setsid is no group yet
            with contextlib.suppress(ProcessLookupError, PermissionError):
                group(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.reading)
        os.close(self._writing)
        self.open.remove(self)


def run_lot(
    tasks: Sequence[Task],
    image: Path,
    noise: Path,
    processes: int,
    ready_seconds: float = READY_SECONDS,
) -> Iterator[dict[str, Any]]:
    """Yields a record for each task that came to an end, in the order of their turns."""
    waiting: list[Task] = list(tasks)
    children: list[Child] = []
    try:
        while True:
            busy = [child for child in children if not child.ready and not child.ended]
            if not waiting and not busy:
                break
            if waiting and len(busy) < processes:
                children.append(Child(waiting.pop(0), image, noise))
                continue
            _listen(busy, 0.2)
            for child in busy:
                if not child.ready and time.monotonic() - child.started > ready_seconds:
                    child.ended = True
                    child.answer = {"timed_out": ready_seconds}
        for place, child in enumerate(children, start=1):
            if not child.ended:
                child.go(sum(not other.ended for other in children[place:]))
                limit = time.monotonic() + child.task.turn_seconds
                while not child.ended:
                    if time.monotonic() > limit:
                        child.answer = child.answer or {"timed_out": child.task.turn_seconds}
                        child.ended = True
                    else:
                        _listen([child], 0.2)
            child.close()
            yield record(child.task, child.answer)
    finally:
        for child in children:
            child.close()


def _listen(children: Sequence[Child], seconds: float) -> None:
    by_pipe = {child.reading: child for child in children}
    for pipe in select.select(list(by_pipe), [], [], seconds)[0]:
        by_pipe[pipe].listen()


def record(task: Task, answer: dict[str, Any] | None) -> dict[str, Any]:
    """What the book keeps of a cell; one that gave no answer becomes a result that says so."""
    common = {"key": task.key, "step": task.step}
    if answer is not None and ("result" in answer or "loop" in answer):
        if answer.pop("more", False):
            lost = note("Its profile did not come to an end: the process hung or crashed.")
            answer["result"]["caveats"].append(codec.plain(lost))
        return common | answer
    status: Status = "crashed"
    message, remedy = "The process of this cell ended without an answer.", "See noise.txt."
    if answer is not None and "timed_out" in answer:
        status, message = (
            "timed_out",
            f"It was stopped after {fmt.duration(answer['timed_out'])}, a cell's limit here.",
        )
    elif answer is not None:
        status, message = "failed", f"The cell failed: {answer['error']}"
    if task.plain:
        return common | {"loop": None, "message": message}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    result = RunResult(uuid.uuid4().hex[:12], now, status, task.spec, failure=Failure("start", message, remedy))
    return common | {"result": to_json(result), "recipe": None}


# The two steps without cells


def _asked(question: str) -> subprocess.CompletedProcess[str]:
    """What `machine_probe` answers in a child, as JSON in its last line.

    Asking opens CUDA or NVML, which each forked cell must open itself. The child asks CUDA whether there is a GPU: by
    NVML a driver that is too old for this torch would do.
    """
    ask = (
        "import json, torch; from demo.core import codec; from demo.backend import machine_probe; "
        f"print(json.dumps(codec.plain(machine_probe.{question})))"
    )
    variables = {name: value for name, value in os.environ.items() if name != NVML_CHECK}
    command = [sys.executable, "-c", ask]
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=120)


def gpu_problem() -> str:
    """Why nothing can be measured on a GPU here, for the end of a sentence; '' where it can."""
    done = _asked("host()")
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["torch could not be imported"])[-1][:300]
    machine = json.loads(done.stdout.splitlines()[-1])
    return "" if machine["gpu"] else machine["gpu_problem"] or "there is no GPU that torch can use here"


def look_at_machine(device: str) -> dict[str, Any]:
    """What a child tells of the machine."""
    done = _asked(f"environment(torch.device({device!r}))")
    facts: dict[str, Any] = {"at": datetime.now(UTC).isoformat(timespec="seconds")}
    facts["environment"] = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
    if done.returncode:
        facts["problem"] = done.stderr.strip().splitlines()[-1][:300]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        smi = subprocess.run(["nvidia-smi"], capture_output=True, text=True, timeout=30)
        facts["nvidia_smi"] = smi.stdout.splitlines()
    return facts


def run_tests(book: Book, noise: Path) -> None:
    """The functions of tests/gpu that are not in the book, one after another in a process; none takes a fixture.

    Each is a record of its own, so that the next call goes on behind the last one that ended.
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
    """A line of JSON for each test that is not known yet.

    By the file and not by its name, since some installed package may be called `tests` as well.
    """
    _ends_with(parent)
    spec = importlib.util.spec_from_file_location("test_on_a_gpu", ROOT / "tests" / "gpu" / "test_on_a_gpu.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError("tests/gpu/test_on_a_gpu.py")
    tests: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tests)
    names = [name for name in dir(tests) if name.startswith("test_") and name not in known]
    for name in names if torch.cuda.is_available() else ():
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
    again = {key for key, one in book.records.items() if not _is_final(one)} if options.again else set()

    def missing() -> list[str]:
        tasks = [task.key for name in names for task in order.get(name, ())]
        return [key for key in (*tasks, *{"machine", "tests"}.intersection(names)) if key not in book.records]

    try:
        _end_after(60 * options.minutes - TABLES_SECONDS - (time.monotonic() - STARTED))
        if problem := "" if quick else gpu_problem():
            print(f"Nothing can be measured: {problem}. --quick tries the script on the CPU.", file=sys.stderr)
            return 2
        machine_probe.warm_imports()
        for name in names if missing() or again else ():
            if name == "machine" and name not in book.records:
                facts = look_at_machine("cpu" if quick else "cuda") | {"commit": commit}
                book.add({"key": name, "step": name, "facts": facts})
            elif name == "tests" and name not in book.records:
                run_tests(book, folder / "noise.txt")
            for _ in _measured(order.get(name, ()), book, folder, again):
                write_tables(folder, book, commit)
    except TimeUp:
        _say("the time of this call is up")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        write_tables(folder, book, commit)
    _say(f"{len(missing())} cells and steps are missing" if missing() else "complete")
    return 0


def _end_after(seconds: float) -> None:
    """Raises TimeUp in this thread after so many seconds, or at SIGTERM, and only once."""

    def end(*_: Any) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise TimeUp

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, max(0.1, seconds))


def _is_final(record: dict[str, Any]) -> bool:
    """Whether the cell would come to the same end again; not so where it took too long, or its process was lost."""
    if "result" in record:
        return record["result"]["status"] not in ("timed_out", "crashed")
    return "loop" not in record or record["loop"] is not None


def _measured(tasks: Sequence[Task], book: Book, folder: Path, again: set[str]) -> Iterator[dict[str, Any]]:
    """Measures the tasks that are not in the book, and those whose key is in `again`, which are taken out of it once
    tried. Yields each record that it has added."""
    pending = [task for task in tasks if task.key not in book.records or task.key in again]
    size = 1 if tasks and tasks[0].step == "smoke" else LOT
    lots = [pending[first : first + size] for first in range(0, len(pending), size)]
    while lots:
        lot = lots.pop(0)
        again.difference_update(task.key for task in lot)
        _say(f"{lot[0].step}: {len(lot)} cells")
        for one in run_lot(lot, SCENE, folder / "noise.txt", usable_cores()):
            if one["key"] != lot[-1].key and _lacked_memory(one):
                lots.insert(0, [task for task in lot if task.key == one["key"]])
                _say(f"{one['key']}: not enough memory beside the cells that wait; it is run once more, alone")
                continue
            book.add(one)
            _say(_told(one))
            yield one


def _lacked_memory(record: dict[str, Any]) -> bool:
    if "result" in record:
        return record["result"]["status"] == "out_of_memory"
    return record["loop"] is None and "out of memory" in record["message"]


def _told(record: dict[str, Any]) -> str:
    if "result" not in record:
        return f"{record['key']}: {record['loop'] or record['message']}"
    result = result_of(record)
    return f"{record['key']}: {verdict.headline(result)} ({fmt.duration(result.elapsed_seconds)})"


def _say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures on one GPU what this project claims.")
    parser.add_argument("folder", type=Path, help="where the results lie, and those of an earlier call")
    parser.add_argument("--quick", action="store_true", help="on this CPU, with the bundled checkpoints")
    parser.add_argument("--again", action="store_true", help="try once more what took too long or crashed")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"stop after so many (default: {MINUTES:g})")
    parser.add_argument("--steps", type=_listed, help="only these, separated by commas, in this order")
    parser.add_argument("--checkpoints", type=_listed, help="only these, separated by commas")
    parser.add_argument("--commit", help="of this project, where the copy has no git history")
    return parser.parse_args(arguments)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


if __name__ == "__main__":
    sys.exit(main())
