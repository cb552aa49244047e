"""The state of a run in its worker: its job, its result so far, the model and the caveats. See `run_steps`."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch._inductor.exc import InvalidCxxCompiler

from ..core.caveat import Caveat, note
from ..core.measurement import Compilation, InstructionProbe
from ..core.options import RunSpec
from ..core.result import RunResult
from . import caveats, compilation, effects, error_text, instruction_probe, profiling, timing
from .messages import Events, WorkerJob
from .monitor import Observer
from .workload import Variants, Workload


class RunState:
    workload: Workload
    variants: Variants
    observer: Observer

    def __init__(self, job: WorkerJob, events: Events, import_seconds: float | None = None) -> None:
        """`import_seconds`: seconds from the start of this process until its imports were done; None if not known."""
        self.job, self.events, self.import_seconds = job, events, import_seconds
        self.phase = "load"
        self.result = RunResult(id=job.id, started_at=job.started_at, status="ok", spec=job.spec)
        self.caveats: list[Caveat] = []
        self.unsettled: list[str] = []
        """The models, "eager" or "compiled", whose warm-up gave up: the last three calls were still more than 10 %
        apart, or one of them compiled."""
        self.log = compilation.CompileLog()
        self.events_before_timing = 0
        self.first_compilation: Compilation | None = None
        """What is known about the first compile. Set before a second compile, before compiled is dropped, or once a
        package is loaded; until then None."""
        self.effects = effects.Effects()
        """What an eager call does besides computing its outputs."""
        self.package: Path | None = None
        """AOTInductor's file, once its build or its load begins; always None unless the compiler is "aot"."""
        self.eager_outputs: object = None
        """Outputs of one eager call before the compile, cloned, because later calls may overwrite them."""
        self.fit_together = True
        """Whether eager and compiled fit in memory together, as far as the calls so far tell."""
        self.compiled_outputs: object = None
        """Outputs of a compiled model that was dropped before eager was timed; else None."""
        self.eager_peak: profiling.Peak | None = None
        """Eager's peak memory on a GPU, measured before the compile, which would add to it; None on a CPU."""
        self.probe: InstructionProbe | None = None

    @property
    def spec(self) -> RunSpec:
        """The settings of the run."""
        return self.result.spec

    def result_so_far(self) -> RunResult:
        noise = [*caveats.of_cuda_graphs(self.result), *caveats.of_noise(self.result, self.unsettled)]
        # What was busy before the timing may contradict what was busy in it.
        known = [caveat for caveat in self.caveats if not (self.result.oversubscribed and caveat.key == "busy_cores")]
        return replace(self.result, caveats=(*known, *noise))

    def enter(self, phase: str, fraction: float, **more: object) -> None:
        self.phase = phase
        self.events.progress(phase, fraction, **more)

    def set_fields(self, **fields: Any) -> None:
        self.result = replace(self.result, **fields)

    def set_part_fields(self, part: str, **fields: Any) -> None:
        """Sets fields of the result's part `part`, such as "environment". Does nothing if that part is None."""
        if (value := getattr(self.result, part)) is not None:
            self.set_fields(**{part: replace(value, **fields)})

    def warm_up(
        self,
        name: str,
        call: timing.Call,
        first_call_ended: Callable[[], None] = lambda: None,
        min_calls: int = timing.WARMUP_CALLS,
    ) -> list[float]:
        """Repeats `call` until its times have settled, and returns the seconds of each call.

        - `name`: "eager" or "compiled". It is added to `unsettled` if the times did not settle.
        - `first_call_ended`: called once, after the first call.
        """
        clock, events = self.workload.clock, self.log.events
        times, settled = timing.warm_up(call, clock, events, min_calls, first_call_ended)
        if not settled:
            self.unsettled.append(name)
        return times

    def look_at_instructions(self) -> None:
        """Runs inductor's instruction probe on a CPU, so that the first call's time is the model's only."""
        if self.workload.device.type == "cpu":
            self.events.progress(self.phase, 0.09, code="instruction probe")
            with contextlib.suppress(OSError, InvalidCxxCompiler):  # the first compile says it, in its own words
                self.probe = instruction_probe.look()

    @contextlib.contextmanager
    def errors_as_caveats(self, lost: str = "Not all could be examined after the timing") -> Iterator[None]:
        """Turns an exception in the `with` block into a caveat, so that the run goes on.

        `lost`: the first clause of the caveat, which says what the run lacks because of the exception.
        """
        try:
            yield
        except Exception as error:
            self.caveats.append(note(f"{lost}: {error_text.first_line(error)}."))
