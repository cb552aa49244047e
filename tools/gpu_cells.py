"""Times one checkpoint at one batch size on a GPU, in all modes, in one process. These runs are called a group.

- The process first loads the model and compiles it for all modes, but does not call the compiled code yet. Random
  weights are made on the GPU. Mode reduce-overhead uses the kernels that mode default has just compiled.
- It then times blocks of calls: eager, each mode, each mode in reverse order, eager. The speed-ups of all modes are
  over the same eager calls.
- A run of a text model or of mode max-autotune is a group by itself (`Group.alone`), and takes the steps of any run of
  the app. No other group uses the GPU meanwhile, because max-autotune times kernels while it compiles.

`tools.gpu_wave` starts the processes.
"""

import contextlib
import copy
import dataclasses
import functools
import logging
import os
import traceback
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

from demo.backend import (  # first: it sets what the libraries read when they are imported
    compilation,
    compile_model,
)

import torch  # isort: skip
from torch._dynamo import utils as dynamo
from torch._inductor.output_code import CompiledFxGraph

from demo.backend import failures, models, profiling, timing
from demo.backend.messages import Events, WorkerJob
from demo.backend.run_steps import Run
from demo.backend.workload import Variant, Workload
from demo.core.options import TEXT_GENERATION, RunSpec
from demo.core.result import RunResult
from tools import gpu_turns

TURN_SECONDS = 60.0
ALONE_SECONDS = 180.0
CPU_SECONDS = 240.0
"""Seconds that the timing of a group may take at most: `TURN_SECONDS` on a GPU with other groups, `ALONE_SECONDS` for a
group alone on the GPU, and `CPU_SECONDS` on a CPU."""
PLAN = timing.Plan(precision=0.02, min_seconds=0.25, max_seconds=0.8, longest_seconds=1.2)
"""When the timing of one mode ends. A group with two modes has twice `max_seconds` and `longest_seconds`."""
DEVICE_SECONDS = 0.2
"""How long calls are timed by the GPU's own clock; `demo.backend.profiling` would time them for a second."""


@dataclass(frozen=True)
class Group:
    """The cells (runs) that one process measures. They differ only in their mode.

    `round`: 0, or the number of the repetition if the same cells are measured again.
    """

    step: str
    specs: tuple[RunSpec, ...]
    round: int = 0

    def key(self, spec: RunSpec) -> str:
        return "|".join((spec.checkpoint, str(spec.batch_size), spec.mode, spec.dtype, self.step, str(self.round)))

    @property
    def name(self) -> str:
        spec = self.specs[0]
        return f"{spec.checkpoint}, batch {spec.batch_size}, {spec.dtype}, {' and '.join(s.mode for s in self.specs)}"

    @property
    def alone(self) -> bool:
        """Whether the group has one run only, which compiles and is timed while no other group uses the GPU."""
        spec = self.specs[0]
        return spec.mode.startswith("max-autotune") or spec.task == TEXT_GENERATION

    @property
    def turn_seconds(self) -> float:
        if self.specs[0].device == "cpu":
            return CPU_SECONDS
        return ALONE_SECONDS if self.alone else TURN_SECONDS


class _NotYet(BaseException):
    """Raised in place of the first call of compiled code, so that only the compile is done.

    It is not an Exception, so that no handler in between takes it for a failure.
    """


def _stop(*_: Any) -> None:
    raise _NotYet


def worker_job(spec: RunSpec, image: Path) -> WorkerJob:
    started_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return WorkerJob(spec, str(image), id=uuid.uuid4().hex[:12], started_at=started_at)


class Alone(Run):
    """A run that compiles while no other group is on the GPU.

    It does not time the first call of a new process with a filled cache, which would take 20 s.
    """

    def compile_again(self) -> None:
        pass


class ModeRun(Run):
    """The run of one compile mode. A `Group` has several, in one process. If one fails, the others go on."""

    def __init__(self, spec: RunSpec, image: Path) -> None:
        super().__init__(worker_job(spec, image), Events(open(os.devnull, "w")))
        self.ahead: Any = None
        """The model under torch.compile, compiled, but not called yet."""
        self.samples: timing.Samples | None = None
        """The times that the group has measured for this mode."""

    def attempt(self, *steps: Callable[[], Any]) -> None:
        """Calls each of `steps`, unless the run has failed. An exception of a step becomes the failure of the run."""
        try:
            for step in steps if self.result.status == "ok" else ():
                step()
        except (Exception, SystemExit) as error:
            traceback.print_exc()
            status, failure = failures.explain(error, self.phase, self.result)
            self.set_fields(status=status, failure=failure)

    def load(self) -> None:
        """Loads the model. Random weights are made on the GPU: copying a large model to it would take longer."""
        make = models._model

        def on_device(spec: RunSpec, *rest: Any) -> Any:
            with torch.device(spec.device) if spec.weights == "random" else contextlib.nullcontext():
                return make(spec, *rest)

        with mock.patch.object(models, "_model", on_device):
            super().load()

    def compile_ahead(self) -> None:
        """Compiles the model, stops before the compiled code runs, and keeps what torch reported about the compile."""
        self.phase, self.log = "compile", compilation.CompileLog()
        self.ahead = compile_model.apply_compile(self.workload.model, self.spec)
        stopped = mock.patch.object(CompiledFxGraph, "__call__", _stop)
        with gpu_turns.turns(self.workload.device), stopped, contextlib.suppress(_NotYet):
            self.ahead(**self.workload.batch)
        self._counted = copy.deepcopy(dict(dynamo.counters)), dynamo.get_compilation_metrics()

    def recall_counts(self) -> None:
        """Sets torch's counters to their values after this run's compile. The next mode's compile has cleared them."""
        counters, metrics = self._counted
        dynamo.counters.clear()
        dynamo.counters.update(counters)
        dynamo.clear_compilation_metrics()
        dynamo._compilation_metrics.extend(metrics)
        for name in [name for name in logging.root.manager.loggerDict if name.endswith("__graph_breaks")]:
            logging.getLogger(name).handlers = [self.log._breaks]

    def compile_in_process(self, cached: set[str]) -> Variant:
        """Warms up the code that was compiled before.

        The time of its compile is not reported, because other groups compiled at the same time.
        """
        self.recall_counts()
        call = self.workload.call(self.ahead)
        min_calls = timing.min_warmup_calls(self.spec, self.workload.device)
        warmup = self.warm_up("compiled", call, min_calls=min_calls, first_call_ended=self.log.first_call_ended)
        found = self.log.compilation(self.spec, self.workload.device, warmup[0])
        self.first_compilation = dataclasses.replace(found, cold=None, warm=None, partly=True, recompiles=())
        return Variant(call, warmup, self.ahead)

    def time_until_undisturbed(self) -> timing.Samples:
        assert self.samples is not None  # the group times a cell before it asks for its times
        return self.samples

    def examine(self, name: str) -> None:
        """Measures memory and the seconds of GPU work, but not the throughput of calls back to back."""
        less = mock.patch.multiple(profiling, DEVICE_SECONDS=DEVICE_SECONDS, back_to_back=lambda *_: None)
        with less:
            super().examine(name)

    def check(self) -> None:
        """Compares the outputs, but does not time the parts of a request."""
        with mock.patch.object(type(self.workload), "end_to_end", lambda *_: None):
            super().check()

    def explain(self) -> None:
        """Profiles eager and compiled, but does not measure the machine's rates for the roofline.

        The step 'machine' measures these once for all runs.
        """
        with mock.patch.object(profiling, "roofline", lambda *_: None):
            super().explain()


class Modes:
    """A group in its own process: one model whose eager calls are timed once for all modes, and a run for each mode."""

    def __init__(self, group: Group, image: Path) -> None:
        self.cells = [ModeRun(spec, image) for spec in group.specs]

    @property
    def good(self) -> list[ModeRun]:
        return [cell for cell in self.cells if cell.result.status == "ok"]

    def for_all(self, step: Callable[[], Any]) -> ModeRun:
        """Does a step that is the same for all modes, in the first run that has not failed. Returns this run.

        If the step fails, the runs of all modes fail.
        """
        leader = self.good[0]
        leader.attempt(step)
        for cell in self.good if leader.result.status != "ok" else ():
            cell.set_fields(status=leader.result.status, failure=leader.result.failure)
        return leader

    def get_ready(self) -> None:
        """Loads the model, calls eager once, and compiles every mode. No compiled code runs yet.

        It calls eager first, as a run does, because models keep some tensors from their first call.
        """
        first, *others = self.cells

        def load() -> None:
            first.load()
            eager = first.workload.eager
            (gpu_turns.alone(eager) if first.workload.device.type == "cuda" else eager)()

        with torch.no_grad():
            self.for_all(load)
            if not self.good:
                return
            workload = first.workload
            for cell in others:
                cell.workload, cell.observer = self._of_mode(workload, cell.spec), first.observer
                cell.set_fields(spec=cell.workload.spec, **{name: getattr(first.result, name) for name in LOADED})
                cell.caveats = list(first.caveats)
            for cell in self.cells:
                torch.cuda.empty_cache()  # the other groups need the memory; without CUDA it does nothing
                cell.attempt(cell.compile_ahead)

    @staticmethod
    def _of_mode(workload: Workload, spec: RunSpec) -> Workload:
        other = dataclasses.replace(workload, spec=dataclasses.replace(workload.spec, mode=spec.mode))
        other.__dict__["batch"] = workload.batch  # the same tensors: eager's calls are those of all modes
        other.__dict__["eager"] = workload.eager
        return other

    def measure(self) -> list[RunResult]:
        """Warms up, times and examines all modes. Returns a result for each mode, also for those that failed."""
        warmed: list[Variant] = []
        with torch.no_grad():
            if self.good:
                leader = self.for_all(lambda: warmed.append(self.good[0].warm_up_eager()))
            for cell in self.good:
                cell.eager_outputs, cell.eager_peak = leader.eager_outputs, leader.eager_peak
                cell.effects = leader.effects
                cell.set_fields(eager=leader.result.eager)
                cell.attempt(functools.partial(cell.compile, warmed[0]))
            if self.good:
                self.for_all(lambda: self._time(self.good))
            for cell in self.good:
                cell.attempt(cell.time)
            for cell in self.good:
                examine = (functools.partial(cell.examine, name) for name in ("eager", "compiled"))
                cell.attempt(*examine, cell.check, cell.explain)
        return [cell.result_so_far() for cell in self.cells]

    def _time(self, cells: Sequence[ModeRun]) -> None:
        first = cells[0]
        compiled = [cell.variants.compiled for cell in cells]
        slowest = max((variant.warmup for variant in compiled), key=lambda warmup: sorted(warmup[-3:])[1])
        half = timing.calls_per_half_block(first.variants.eager_warmup_again, slowest, None)
        for cell in cells:
            cell.events_before_timing = cell.log.events()
            cell.observer.begin()
        sampled = time_modes(
            first.variants.eager.call,
            [variant.call for variant in compiled],
            first.workload.clock,
            half,
            first.observer.sample,
        )
        for cell, samples in zip(cells, sampled, strict=True):
            cell.samples = samples


LOADED = ("environment", "image", "start_up")
"""Fields of a result that the first run of a group finds out for all runs of the group."""


def time_modes(
    eager: timing.Call,
    compiled: Sequence[timing.Call],
    clock: timing.Clock,
    half: int,
    on_block_end: Callable[[], None] = lambda: None,
) -> list[timing.Samples]:
    """Times one eager and several compiled models in blocks. Returns the samples of each compiled model.

    - A block is `half` calls of eager, then of each compiled model, then of each compiled model in reverse order, then
      of eager again. For the modes default (D) and reduce-overhead (R) this is E D R R D E.
    - So each compiled model has a block as in `demo.backend.timing`: E D D E or E R R E. All compiled models share the
      calls of eager and the control blocks, in which eager is timed against itself.
    - The first calls after a switch of model do not count, but with `half` = 1 all calls do, as slow calls need no
      settling.
    - The timing ends for all models at once: as `PLAN` says, but its `max_seconds` and `longest_seconds` are multiplied
      by the number of compiled models.
    """
    shared = timing.Samples(half)
    samples = [timing.Samples(half, shared.eager, control=shared.control) for _ in compiled]
    settling = max(1, min(timing.MAX_SETTLING_CALLS, half // 2))
    slow = half == 1
    many = len(compiled)
    plan = dataclasses.replace(PLAN, max_seconds=PLAN.max_seconds * many, longest_seconds=PLAN.longest_seconds * many)

    def run(call: timing.Call, into: list[float], settled: list[float], count: int) -> None:
        for _ in range(0 if slow else settling):
            settled.append(clock.time(call))
        for _ in range(count):
            into.append(clock.time(call))

    with timing.garbage_collection_off():
        start = clock.now()
        while True:
            run(eager, shared.eager, shared.settling["eager"], half)
            for call, sample in zip(compiled, samples, strict=True):
                run(call, sample.compiled, sample.settling["compiled"], half)
            for call, sample in reversed(list(zip(compiled, samples, strict=True))):
                run(call, sample.compiled, sample.settling["compiled"], half)
            run(eager, shared.eager, shared.settling["eager"], half)
            for sample in samples:
                sample.settling["eager"], sample.seconds = shared.settling["eager"], clock.now() - start
            on_block_end()
            if all(timing._done(sample, plan, plan.max_seconds) for sample in samples):
                return samples
            if (samples[0].blocks - 1) % samples[0].blocks_apart == 0:
                run(eager, shared.control, shared.settling["eager"], 2 * half)
