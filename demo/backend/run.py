"""The process that loads, compiles and times: `python -m demo.backend.run EVENTS_FD`, started by `demo.runs.runner`.

It imports torch and transformers, says what machine this is, and waits. One JSON line on standard input is a job;
events go out as JSON lines on a pipe of their own, so that nothing a library prints can corrupt them:

    {"event": "ready", "machine": {...}}        once, before the job
    {"event": "progress", "progress": {...}}    a schema.Progress
    {"event": "refused", "message": "..."}      a BadInput: the job cannot be run as given
    {"event": "result", "result": {...}}        a schema.RunResult, failures too

After refused or result the process ends. When standard input closes, the parent is gone: the worker then kills its
whole process group, inductor's compile processes included.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

import torch
from PIL import Image

from demo.backend import (
    compilation,
    first_call,
    machine,
    models,
    parity,
    predictions,
    settings,
    timing,
)
from demo.backend import monitor as state
from demo.backend import profiling as profile
from demo.core import format as fmt
from demo.core import images
from demo.core import result as schema
from demo.core.result import BadInput, EndToEnd, Failure, Measurement, Progress, RunResult, RunSpec

TELL_EVERY_SECONDS = 0.25
COUNTERS = ("calls", "eager_seconds", "compiled_seconds", "speedup", "timing_done")
"""What a later phase still says: the lanes stay as they were when the timing ended."""
SECONDS_A_TENSOR = 0.08
"""Rough cost of a cold compile by the number of a model's parameter tensors, for the time left only."""


BFLOAT16_CAPABILITY = (8, 0)
PROCESSOR_CLOCK = timing.WallClock(torch.device("cpu"))
PUBLISHED_NOTE = (
    "Timed by the guide's recipe, eager first and then compiled: a machine that drifts meanwhile moves the speed-up, "
    "its interval does not show that, and there is no noise floor."
)


class Events:
    """The pipe to the parent. Progress is thinned to 4 a second; a new phase is always told."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._start = time.monotonic()
        self._last = 0.0
        self._phase = ""
        self._seen: dict[str, Any] = {}

    def send(self, event: str, **content: Any) -> None:
        self._stream.write(json.dumps({"event": event, **content}, allow_nan=False) + "\n")
        self._stream.flush()

    def progress(self, phase: str, fraction: float, **more: Any) -> None:
        now = time.monotonic()
        if phase == self._phase and now - self._last < TELL_EVERY_SECONDS:
            return
        self._phase, self._last = phase, now
        self._seen |= {name: value for name, value in more.items() if name in COUNTERS}
        looked = Progress(phase=phase, fraction=fraction, elapsed_seconds=now - self._start, **(self._seen | more))
        self.send("progress", progress=schema.plain(looked))


class Run:
    """One job. What is known so far is kept, so that a failure at any stage loses nothing that was measured."""

    def __init__(
        self,
        spec: RunSpec,
        image: Path,
        identity: dict[str, str],
        events: Events,
        cache_folder: Path | None = None,
        trace: Path | None = None,
    ) -> None:
        """`cache_folder` is an empty one for this run's compiling, where the spec asks for that.

        `trace` is a file to write what the profiler saw to, for Perfetto.
        """
        self.spec = spec
        self.image = image
        self.cache_folder = cache_folder
        self.trace = trace
        self.events = events
        self.phase = "load"
        self.known: dict[str, Any] = {**identity, "spec": spec, "status": "ok"}
        self.warnings: list[str] = []
        self.compiled_outputs: Any = None
        """Only where eager and compiled do not fit in memory together: nothing else is left of compiled then."""

    def execute(self) -> RunResult:
        """Load, prepare, warm up, compile, time, examine, check. Raises BadInput; all else becomes a result."""
        try:
            with torch.no_grad():  # one context for compiling, warming and timing: another one would recompile
                self.load()
                self.prepare()
                self.warm_up_eager()
                self.compile()
                self.measure()
                for further in (self.examine, self.check):
                    self.without_loss(further)
                if len(self.known.get("predictions") or {}) == 1:  # eager's alone would look like a failed compile
                    self.known["predictions"] = None
                self.explain()
                self.compile_again()
        except models.CannotLoad as fault:
            self.known |= {"status": "failed", "failure": Failure("load", fault.what, fault.remedy)}
        except BadInput:
            raise
        except Exception as error:
            self.known |= self.failure(error)
        return RunResult(**self.known, warnings=tuple(self.warnings))

    def without_loss(self, further: Callable[[], None]) -> None:
        """The timing has ended: whatever fails from here on costs its own figures only."""
        try:
            further()
        except Exception as error:
            self.warnings.append(f"Not all could be examined after the timing: {compilation.first_line(error)}.")

    def enter(self, phase: str, fraction: float, **more: Any) -> None:
        self.phase = phase
        self.events.progress(phase, fraction, **more)

    def load(self) -> None:
        self.enter("load", 0.02)
        self.picture, self.known["image"] = images.read(self.image)
        self.device = machine.pick_device(self.spec.device)
        self.spec = self.known["spec"] = self.spec.on(self.device.type)
        if self.spec.mode not in machine.modes():
            raise BadInput(
                f"This torch ({torch.__version__}) has no mode {self.spec.mode!r}. "
                f"Allowed: {', '.join(machine.modes())}."
            )
        machine.require_compiler()
        settings.apply(self.spec, self.device)
        self.loaded = models.load(self.spec, self.device)
        self.known["environment"] = machine.environment(self.device)
        self.warnings += self.loaded.warnings
        if self.spec.graph_break:
            self.warnings.append(compilation.GRAPH_BREAK_WARNING)
        if self.spec.weights == "random":
            self.warnings.append(
                "Random weights: latency stands, but predictions would mean nothing and are not shown."
            )
        on_gpu = self.device.type == "cuda"
        if on_gpu and self.spec.mode.startswith("max-autotune") and machine.too_few_multiprocessors():
            self.warnings.append(
                "This GPU has too few multiprocessors for inductor's matrix-product autotuning (Not enough SMs): "
                "max-autotune tunes less here than on a larger GPU."
            )

    def prepare(self) -> None:
        self.enter("prepare", 0.08)

        def prepare() -> None:
            self.inputs = predictions.prepare(self.loaded, self.picture, self.spec.text)

        def copy() -> None:
            self.batch = predictions.to_batch(self.inputs, self.spec, self.device)

        prepare()  # pays for lazy imports
        self.preprocess_seconds = timing.median_of_few(lambda: images.decode(self.image), PROCESSOR_CLOCK)
        self.preprocess_seconds += timing.median_of_few(prepare, PROCESSOR_CLOCK)
        self.clock = timing.WallClock(self.device)
        copy()
        self.copy_seconds = timing.median_of_few(copy, self.clock)
        environment = self.known["environment"]
        self.known["environment"] = dataclasses.replace(
            environment, settings=settings.found(self.loaded.model, self.batch)
        )
        self.eager = lambda: self.loaded.model(**self.batch)

    def warm_up_eager(self) -> None:
        self.enter("warm up", 0.1)
        self.watch = compilation.Watch()
        self.eager_warmup, settled = timing.warm_up(self.eager, self.clock, self.watch.events)
        if not settled:
            self.warnings.append(UNSETTLED.format(variant="Eager"))
        # Kept now, so that a failed compile still shows what eager does.
        self.eager_outputs = compilation.own_copy(self.eager())
        self.known["eager"] = Measurement(tuple(self.eager_warmup[1:]), None, tuple(self.eager_warmup), 1)
        if self.spec.weights == "pretrained":
            try:
                self.known["predictions"] = {"eager": self.decoded(self.eager_outputs)}
            except Exception as error:  # a processor of somebody's model: the timing needs no answer in words
                self.warnings.append(
                    f"The outputs could not be turned into predictions: {compilation.first_line(error)}."
                )

    def decoded(self, outputs: Any) -> schema.Predictions:
        return predictions.decode(self.loaded, outputs, self.inputs, self.picture, self.spec.text)

    def compile(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.empty_cache()  # a CUDA graph's pool cannot use what eager left, nor have it given up
        tensors = len(list(self.loaded.model.parameters()))
        eager_seconds = min(self.eager_warmup)
        self.enter("compile", 0.2, remaining_seconds=tensors * SECONDS_A_TENSOR, eager_seconds=eager_seconds)
        if self.cache_folder is not None:
            compilation.use_empty_cache(self.cache_folder)
        model = compilation.compiled(self.loaded.model, self.spec)
        self.compiled = lambda: model(**self.batch)
        least = timing.WARMUP_CALLS
        if self.device.type == "cuda" and self.spec.mode in compilation.CUDA_GRAPH_MODES:
            least += timing.CUDA_GRAPH_CALLS
        self.compiled_warmup, settled = timing.warm_up(
            self.compiled, self.clock, self.watch.events, least, self.watch.first_call_ended
        )
        if not settled:
            self.warnings.append(UNSETTLED.format(variant="Compiled"))
        # Once more for eager: compiling has filled the caches with other things, and warmed the machine.
        self.eager_again = self.eager_warmup
        self.fit_together = True
        try:
            self.eager_again, _ = timing.warm_up(self.eager, self.clock, self.watch.events)
        except torch.OutOfMemoryError:
            self.fit_together = False

    def measure(self) -> None:
        spec, plan = self.spec, timing.Plan.of(self.spec)
        half = timing.half_block(self.eager_again, self.compiled_warmup, spec.iterations)
        self.enter("time", 0.5)
        self.observer = state.Observer(self.device)
        events_before = self.watch.events()
        started = time.perf_counter()
        control: list[float] = []
        if spec.protocol == "as published":
            self.warnings.append(PUBLISHED_NOTE)
            self.known["interleaved"], half = False, 1
            eager = timing.in_a_row(self.eager, self.clock, schema.PUBLISHED_CALLS, self.look_at_one("eager"))
            compiled = timing.in_a_row(self.compiled, self.clock, schema.PUBLISHED_CALLS, self.look_at_one("compiled"))
        else:
            samples = self.in_turns(plan, half, started) if self.fit_together else None
            if samples is not None:
                eager, compiled, control = samples.eager, samples.compiled, samples.control
            else:
                eager, compiled = self.apart(plan, half, events_before)
        self.known["timing_seconds"] = time.perf_counter() - started
        self.observer.look()
        self.known["machine_states"] = tuple(self.observer.states)
        self.known["eager"] = Measurement(tuple(eager), None, tuple(self.eager_warmup), 2 * half)
        if self.compiled_outputs is None:
            self.note_compiled(compiled, half, events_before)
        if control:
            self.known["control_times"] = Measurement(tuple(control), None, (), 2 * half)
        self.judge()

    def note_compiled(self, times: list[float], half: int, events_before: int) -> None:
        recompiles = self.watch.events() - events_before
        self.known["compilation"] = self.watch.compilation(self.spec, self.device, self.compiled_warmup[0], recompiles)
        self.known["compiled"] = Measurement(tuple(times), None, tuple(self.compiled_warmup), 2 * half)

    def in_turns(self, plan: timing.Plan, half: int, started: float) -> timing.Samples | None:
        """None where the two do not fit in memory together."""
        look = self.look(plan, started)
        try:
            return timing.interleaved(self.eager, self.compiled, self.clock, plan, half, look)
        except torch.OutOfMemoryError:
            return None

    def apart(self, plan: timing.Plan, half: int, events_before: int) -> tuple[list[float], list[float]]:
        """Compiled first, with all its passes; then eager, once nothing of compiled is left on the GPU."""
        self.known["interleaved"] = False
        self.warnings.append(
            "Eager and compiled do not fit in memory together: they were timed one after the other, so drift "
            "of the machine is not cancelled."
        )
        torch.cuda.empty_cache()
        compiled = timing.alone(self.compiled, self.clock, plan, half)
        self.note_compiled(compiled, half, events_before)
        self.examine_one("compiled", self.compiled)
        self.compiled_outputs = compilation.own_copy(self.compiled())
        compilation.forget()
        self.observer.look()
        return timing.alone(self.eager, self.clock, plan, half), compiled

    def examine(self) -> None:
        """The passes of their own: work on the GPU, back-to-back calls with their energy, memory."""
        self.enter("check", 0.9)
        self.examine_one("eager", self.eager)
        if self.compiled_outputs is None:
            self.examine_one("compiled", self.compiled)

    def examine_one(self, name: str, call: timing.Call) -> None:
        timed: Measurement = self.known[name]
        device = self.device
        replays = name == "compiled" and self.known["compilation"].cudagraphs == "used"
        on_device = timing.device_times(call, min(timed.wall_seconds)) if device.type == "cuda" else None
        throughput = timing.back_to_back(call, device, timed.median_seconds, self.observer.energy_joules)
        peak, reserved = timing.peak_memory(call, device, replays)
        self.known[name] = dataclasses.replace(
            timed,
            device_seconds=on_device,
            back_to_back=throughput,
            peak_memory_bytes=peak,
            peak_reserved_bytes=reserved,
        )

    def look_at_one(self, variant: str) -> Any:
        """What happens between two calls of the guide's recipe, which times one variant after the other."""

        def look(times: list[float]) -> None:
            self.observer.look()
            done = (len(times) / schema.PUBLISHED_CALLS + (variant == "compiled")) / 2
            seconds = statistics.median(times[-20:])
            self.events.progress(
                "time",
                0.5 + 0.42 * done,
                remaining_seconds=seconds * schema.PUBLISHED_CALLS * 2 * (1 - done),
                calls=len(times),
                timing_done=done,
                **{f"{variant}_seconds": seconds},
            )

        return look

    def look(self, plan: timing.Plan, started: float) -> Any:
        """What happens between two blocks: a look at the machine, and news for the page."""

        def look(samples: timing.Samples) -> None:
            self.observer.look()
            elapsed = time.perf_counter() - started
            if plan.iterations:
                done = len(samples.compiled) / plan.iterations
                remaining = elapsed / done - elapsed
            else:
                most = plan.most_seconds * (1 if elapsed < plan.most_seconds else 2)
                remaining = most - elapsed
                # Few runs need the second stretch; a bar that goes back would be worse than one that slows down.
                done = 0.9 * min(1.0, elapsed / plan.most_seconds) + 0.1 * max(0.0, elapsed / plan.most_seconds - 1)
            half = samples.half
            self.events.progress(
                "time",
                0.5 + 0.42 * min(1.0, done),
                remaining_seconds=max(0.0, remaining),
                calls=len(samples.compiled),
                eager_seconds=sorted(samples.eager[-2 * half :])[half],
                compiled_seconds=sorted(samples.compiled[-2 * half :])[half],
                speedup=samples.interval(),
                timing_done=min(1.0, done),
            )

        return look

    def judge(self) -> None:
        """Everything that a reader of the figures should know before using them."""
        done = RunResult(**self.known)
        compiled = self.known["compilation"]
        recompiles = compiled.recompiles_while_timing
        if compiled.graphs == 0:
            self.warnings.append("torch.compile captured no graph at all: 'compiled' ran as eager.")
        if compiled.graph_breaks:
            self.warnings.append(
                f"{len(compiled.graph_breaks)} graph breaks: the model runs as {compiled.graphs} graphs "
                "with Python in between."
            )
        if compiled.cudagraphs.startswith("skipped"):
            reason = compiled.cudagraphs.removeprefix("skipped: ")
            self.warnings.append(f"CUDA graphs, which mode {self.spec.mode} asks for, were not used: {reason}.")
        if compiled.fallbacks:
            first, number = compiled.fallbacks[0], len(compiled.fallbacks)
            functions = "a function" if number == 1 else f"{number} functions"
            self.warnings.append(f"dynamo left {functions} to eager: {first.location}, {first.reason}.")
        if done.speedup is not None and self.spec.iterations is None and self.spec.protocol == "interleaved":
            width = done.speedup.half_width
            if width > self.spec.precision:
                known = f"known to ±{fmt.percent(width)} only" if width < 0.5 else "hardly known"
                self.warnings.append(
                    f"The speed-up is {known}: time was up before ±{fmt.percent(self.spec.precision)} was reached."
                )
        self.warnings += state.warnings(done.machine_states)
        for name in ("eager", "compiled"):
            spread = quartile_spread(self.known[name].wall_seconds)
            if spread > WIDE_SPREAD:
                self.warnings.append(
                    f"The {name} calls vary widely (the middle half spans {fmt.percent(spread)} of the median): "
                    "something else keeps the machine busy."
                )
        if recompiles:
            self.known |= {
                "status": "failed",
                "failure": Failure(
                    "time",
                    f"The model compiled again while it was timed ({recompiles} compile events): the figures are void.",
                    "Run it again. If it happens again, look for shapes or branches that change from call to call in "
                    "the model's forward: what compiles on every call cannot be timed.",
                ),
            }

    def check(self) -> None:
        outputs = self.compiled_outputs
        if outputs is None:
            outputs = compilation.own_copy(self.compiled())
        again = compilation.own_copy(self.eager())
        pair = None
        if "predictions" in self.known:
            pair = (self.known["predictions"]["eager"], self.decoded(outputs))
            self.known["predictions"] = {"eager": pair[0], "compiled": pair[1]}
        reference = parity.float64_reference(self.loaded.model, self.batch, self.known["eager"].peak_memory_bytes)
        self.known["parity"] = parity.compare(self.eager_outputs, again, outputs, self.spec.dtype, reference, pair)
        # With random weights the answers mean nothing and are not kept; what finding them costs is known all the same.
        found = (self.loaded, outputs, self.inputs, self.picture, self.spec.text)
        decode_seconds = timing.median_of_few(lambda: predictions.find(*found), PROCESSOR_CLOCK)
        self.known["end_to_end"] = EndToEnd(self.preprocess_seconds, self.copy_seconds, decode_seconds)

    def explain(self) -> None:
        """Kernels and the roofline: why it is as fast as it is. Whatever fails here costs no figure of the run."""
        if self.compiled_outputs is not None or not profile.wanted(self.spec, self.device):
            return  # the compiled model is gone where the two did not fit in memory together
        self.events.progress("check", 0.94, message="Looking for the reason: kernels, operations, bytes")
        try:
            found = profile.profiles({"eager": self.eager, "compiled": self.compiled}, self.device, self.trace)
            for name, seen in found.items():
                self.known[name] = dataclasses.replace(self.known[name], profile=seen)
        except Exception as error:
            self.warnings.append(f"The profiler gave nothing: {compilation.first_line(error)}.")
        try:
            self.known["roofline"] = profile.roofline(self.loaded.model, self.batch, self.device)
        except Exception as error:
            self.warnings.append(f"The roofline could not be measured: {compilation.first_line(error)}.")

    def compile_again(self) -> None:
        """With a cache of this run's own: the first call once more, from the filled cache, in a further process."""
        if self.cache_folder is not None:
            self.events.progress("check", 0.95, message="Compiling once more, in a further process, from the cache")
            if self.device.type == "cuda":
                torch.cuda.empty_cache()  # the further process needs room for a model of its own
            try:
                warm = first_call.measure_elsewhere(self.spec, self.image)
                self.known["compilation"] = dataclasses.replace(self.known["compilation"], warm=warm)
            except (RuntimeError, OSError, ValueError) as error:
                self.warnings.append(f"The first call from the filled cache could not be measured: {error}.")
        self.enter("done", 1.0)

    def failure(self, error: Exception) -> dict[str, Any]:
        """Status and Failure for what went wrong in the phase at hand."""
        spec = self.spec
        if is_out_of_memory(error):
            smaller = max(1, spec.batch_size // 4)
            where = f"{self.device_name()} while it was in phase '{self.phase}'"
            first = f"batch size {smaller}" if spec.batch_size > 1 else "a smaller checkpoint"
            remedy = f"Try {first}{self.narrower()}."
            return {
                "status": "out_of_memory",
                "failure": Failure(self.phase, f"Batch size {spec.batch_size} ran out of memory on {where}.", remedy),
            }
        text = compilation.first_line(error)
        if self.phase == "compile":
            remedy = (
                "Make room and allow writing in the compile cache and the folder for temporary files, or set "
                "TORCHINDUCTOR_CACHE_DIR and TMPDIR to other ones."
                if any(os.strerror(number) in text for number in models.NO_ROOM)
                else "Switch fullgraph off: it forbids the graph breaks that this model needs."
                if spec.fullgraph
                else f"Try another mode than {spec.mode}, or another torch; eager works and was timed."
            )
            return {"status": "compile_failed", "failure": Failure("compile", f"torch.compile failed: {text}", remedy)}
        remedy = REMEDIES[self.phase]
        if self.phase == "warm up" and spec.dtype in ("float32", "tf32"):
            remedy = "Choose another checkpoint, or one whose preprocessor_config.json fits its config.json."
        return {
            "status": "failed",
            "failure": Failure(self.phase, f"The run failed in phase '{self.phase}': {text}", remedy),
        }

    def narrower(self) -> str:
        """', or dtype bfloat16': what takes half the memory here, '' where the run has it already."""
        if self.spec.dtype in ("float16", "bfloat16"):
            return ""
        old = self.spec.device == "cuda" and torch.cuda.get_device_capability() < BFLOAT16_CAPABILITY
        return f", or dtype {'float16' if old else 'bfloat16'}"

    def device_name(self) -> str:
        environment = self.known.get("environment")
        return f"{environment.device_name} ({fmt.size(environment.memory_bytes)})" if environment else self.spec.device


UNSETTLED = "{variant} had not settled when its warm-up ended: its last three calls were more than 10 % apart."
WIDE_SPREAD = 0.10
REMEDIES = {
    "load": "Choose another checkpoint or dtype.",
    "prepare": "Choose another image or checkpoint: the processor of this one could not prepare the picture.",
    "warm up": "The model does not run eagerly with these settings: choose dtype float32, or another checkpoint.",
    "time": "Run it again; if it happens again, choose another mode.",
    "check": "The timing had ended; run it again for the rest.",
}


def quartile_spread(times: tuple[float, ...]) -> float:
    """Interquartile range over the median, as torch.utils.benchmark judges noise."""
    low, middle, high = torch.tensor(times).quantile(torch.tensor([0.25, 0.5, 0.75])).tolist()
    return float((high - low) / middle)


def is_out_of_memory(error: BaseException) -> bool:
    text = str(error).lower()
    return (
        isinstance(error, torch.OutOfMemoryError | MemoryError)
        or "can't allocate memory" in text
        or "out of memory" in text
        or "status_alloc_failed" in text  # of cuBLAS and cuDNN
    )


def warm_imports() -> None:
    """Imports what the bundled checkpoints and inductor need, so that a click does not wait for them."""
    import transformers

    for name in (
        "ViTForImageClassification",
        "SegformerForSemanticSegmentation",
        "RTDetrForObjectDetection",
        "ViTImageProcessorPil",
        "SegformerImageProcessorPil",
        "RTDetrImageProcessorPil",
    ):
        getattr(transformers, name, None)


WATCHER = """
import os, select, signal
line = select.poll()
line.register(0, 0)
while not any(event & (select.POLLHUP | select.POLLERR) for _, event in line.poll()):
    pass
os.killpg(0, signal.SIGKILL)
"""


def end_with_parent() -> None:
    """Kills the whole process group as soon as standard input closes: nobody is left to hear the result.

    A process of its own does it, because a thread would wait for ever for the interpreter's lock where a library
    hangs with it, and would be gone where the worker crashed and its children did not. It only looks at the pipe and
    never reads from it.
    """
    subprocess.Popen([sys.executable, "-I", "-S", "-c", WATCHER])


def main() -> None:
    end_with_parent()
    os.set_inheritable(int(sys.argv[1]), False)
    events = Events(os.fdopen(int(sys.argv[1]), "w", encoding="utf-8"))
    warm_imports()
    events.send("ready", machine=machine.report())
    line = sys.stdin.buffer.readline()
    if not line:
        return
    job = json.loads(line)
    Image.MAX_IMAGE_PIXELS = None  # images.read holds its own, stricter limit
    try:
        identity = {"id": job["id"], "started_at": job["started_at"]}
        cache_folder = Path(job["cache_folder"]) if job.get("cache_folder") else None
        trace = Path(job["trace"]) if job.get("trace") else None
        spec: RunSpec = schema.load(RunSpec, job["spec"])
        result = Run(spec, Path(job["image"]), identity, events, cache_folder, trace).execute()
    except BadInput as refusal:
        events.send("refused", message=str(refusal))
    else:
        events.send("result", result=result.to_json())
    # Not a normal exit: inductor's pool and CUDA's teardown take seconds that nobody should wait for.
    sys.stdout.flush()
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main()
