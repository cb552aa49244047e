"""Cells of the evidence on a GPU: each is a run of `demo.backend` in a process of its own.

1. The processes are forked after torch and transformers have been imported.
2. Compiling needs a core, so the cells of a lot load and compile side by side, up to the first call of the compiled
   code. On the GPU they take turns.
3. Timing needs a quiet machine, so they then run one after another: autotuning, warm-up, timing, profile. The waiting
   cells hold their weights on the GPU, and a result counts them as other processes there.
4. A cell whose compile ahead failed starts over in its turn.
"""

import contextlib
import ctypes
import dataclasses
import json
import os
import select
import signal
import statistics
import time
import traceback
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

from demo.backend import compilation, compile_model  # first: it sets what the libraries read when they are imported

import torch  # isort: skip
from PIL import Image
from torch._inductor.output_code import CompiledFxGraph

from demo.backend import timing
from demo.backend.messages import Events, Job
from demo.backend.run_steps import Run
from demo.backend.workload import Variant
from demo.core import format as fmt
from demo.core.caveat import note
from demo.core.options import PUBLISHED_CALLS, TEXT_GENERATION, RunSpec
from demo.core.result import Failure, RunResult, Status
from demo.core.result_json import to_json
from tools import gpu_turns

READY_SECONDS = 330.0
TURN_SECONDS = 150.0
AUTOTUNE_SECONDS = TEXT_SECONDS = 180.0
CPU_SECONDS = 240.0
"""Limits of a cell's turn; `READY_SECONDS` limits the compile ahead."""
RECIPE_SECONDS = 1.5
"""Limit for the guide's 300 calls of one variant. The number of calls is kept with them."""
MIN_RECIPE_CALLS = 10
DIE_WITH_PARENT = 1
"""Linux's PR_SET_PDEATHSIG."""


@dataclass(frozen=True)
class Task:
    """One cell of one step. `round` tells repetitions apart."""

    step: str
    spec: RunSpec
    round: int = 0

    @property
    def key(self) -> str:
        spec = self.spec
        return "|".join((spec.checkpoint, str(spec.batch_size), spec.mode, spec.dtype, self.step, str(self.round)))

    @property
    def turn_seconds(self) -> float:
        if self.spec.device == "cpu":
            return CPU_SECONDS
        if self.step == "text":
            return TEXT_SECONDS
        return AUTOTUNE_SECONDS if self.spec.mode.startswith("max-autotune") else TURN_SECONDS


class _NotYet(BaseException):
    """The compiled code would run now. Not an Exception, so that nothing on the way takes it for a failure."""


class Cell(Run):
    """A run that can compile ahead, up to the first call of the compiled code, and then wait for its turn."""

    def __init__(self, spec: RunSpec, image: Path) -> None:
        started_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        job = Job(spec, str(image), id=uuid.uuid4().hex[:12], started_at=started_at)
        super().__init__(job, Events(open(os.devnull, "w")))
        self._ahead: Any = None
        """The model that `get_ready` loaded, under torch.compile."""
        self.recipe: dict[str, Any] | None = None
        """The guide's recipe: the number of calls of eager, then of compiled, and their means."""

    def get_ready(self) -> None:
        """One eager call comes first, as in a run: models keep some tensors from their first call on."""
        with torch.no_grad():
            self.load()
            workload = self.workload
            on_gpu = workload.device.type == "cuda"
            (gpu_turns.alone(workload.eager) if on_gpu else workload.eager)()
            if on_gpu:
                torch.cuda.empty_cache()  # the others need the memory
            model = compile_model.apply_compile(workload.model, self.spec)
            self.log = compilation.CompileLog()
            with (
                gpu_turns.turns(workload.device),
                mock.patch.object(CompiledFxGraph, "__call__", _stop),
                contextlib.suppress(_NotYet),
            ):
                model(**workload.batch)
            self._ahead = model

    def load(self) -> None:
        if self._ahead is None:
            super().load()

    def compile_in_process(self, cached: set[str]) -> Variant:
        """Uses the model that was compiled ahead, and the log of that compile, which counted its graphs."""
        if self._ahead is None:
            return super().compile_in_process(cached)
        log = self.log
        with (
            mock.patch.object(compile_model, "apply_compile", lambda *_: self._ahead),
            mock.patch.object(compilation, "CompileLog", lambda *_: log),
        ):
            return super().compile_in_process(cached)

    def compile_again(self) -> None:
        """Not after a compile ahead: `_sent` drops its costs anyway, and a further process takes 20 s."""
        if self._ahead is None:
            super().compile_again()

    def explain(self) -> None:
        """The guide's recipe comes before the profiler, which slows later calls down."""
        eager, compiled = self.result.eager, self.result.compiled
        with self.tolerate("The guide's recipe was not timed"):
            if self.result.status == "ok" and eager is not None and compiled is not None:
                slower = max(eager.median_seconds, compiled.median_seconds)
                calls = min(PUBLISHED_CALLS, max(MIN_RECIPE_CALLS, int(RECIPE_SECONDS / slower)))
                means = [
                    statistics.mean(timing.time_fixed_count(variant.call, self.workload.clock, calls))
                    for variant in (self.variants.eager, self.variants.compiled)
                ]
                self.recipe = {"calls": calls, "eager_seconds": means[0], "compiled_seconds": means[1]}
        super().explain()


def _stop(*_: Any) -> None:
    raise _NotYet


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
        threads = torch._inductor.config.compile_threads
        torch._inductor.config.compile_threads = 1  # the cells share the cores already
        cell: Cell | None = None
        # max-autotune times kernels to choose among them; the second graph of a text model needs the output of the
        # first; and the smoke test is the control that compiles with no other cell beside it.
        alone = task.step == "smoke" or task.spec.mode.startswith("max-autotune")
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
        if cell is None:  # it compiles in its turn, while the others wait
            torch._inductor.config.compile_threads = threads
            compilation.reset_compiler()
            cell = Cell(task.spec, image)
        started = time.monotonic()
        result = cell.execute()
        tell({"result": _sent(result, started, ahead, turn[0]), "recipe": cell.recipe})
    except BaseException as error:
        traceback.print_exc()
        with contextlib.suppress(OSError):
            tell({"error": compilation.first_line(error)})
    finally:
        os._exit(0)


def _sent(result: RunResult, started: float, ahead: bool, waiting: int) -> dict[str, Any]:
    """The result as JSON, without compile costs if the code was compiled ahead.

    The cells that wait for their turn hold the GPU's memory and compute nothing: a warning of neighbours says so.
    """
    if waiting:
        cells = f"Up to {waiting} of them were cells of this script that waited for their turn and computed nothing."
        told = (note(f"{one} {cells}") if one.key == "gpu_others" else one for one in result.caveats)
        result = dataclasses.replace(result, caveats=tuple(told))
    if ahead and result.compilation is not None:
        result = dataclasses.replace(result, compilation=dataclasses.replace(result.compilation, cold=None, warm=None))
    return to_json(dataclasses.replace(result, elapsed_seconds=round(time.monotonic() - started, 3)))


def end_with(parent: int) -> None:
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
            end_with(parent)
            for other in self.open:  # a pipe ends when its last writer is gone: no cell may hold another's ends
                os.close(other.reading)
                os.close(other._writing)
            _life(task, image, noise, up, down)
        os.close(up)
        os.close(down)
        self._said = b""
        self.answer: dict[str, Any] | None = None

    def listen(self) -> None:
        """Reads what the cell has sent. Call it when `reading` has something."""
        said = os.read(self.reading, 1 << 20)
        if not said:
            self.ended = True
            return
        *lines, self._said = (self._said + said).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "ready" in message:
                self.ready = True
            else:
                self.answer, self.ended = message, True

    def go(self, waiting: int) -> None:
        """Begins its turn; `waiting` cells wait meanwhile."""
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
    """The record of a cell. A cell without an answer becomes a result that says so."""
    common = {"key": task.key, "step": task.step}
    if answer is not None and "result" in answer:
        return common | answer
    status: Status = "crashed"
    message = "The process of this cell ended without an answer."
    if answer is not None and "timed_out" in answer:
        status, message = "timed_out", f"It was stopped after {fmt.duration(answer['timed_out'])}, a cell's limit here."
    elif answer is not None:
        status, message = "failed", f"The cell failed: {answer['error']}"
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    failure = Failure("start", message, "See noise.txt.")
    result = RunResult(uuid.uuid4().hex[:12], now, status, task.spec, failure=failure)
    return common | {"result": to_json(result), "recipe": None}
