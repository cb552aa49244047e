"""The process that loads, compiles and times: `python -m demo.backend.worker EVENTS_FD`, started by `demo.runner`.

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

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, TextIO

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("DISABLE_SAFETENSORS_CONVERSION", "1")  # else transformers asks the Hub to convert .bin weights
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # lets a waiting worker look for a GPU without a context

import torch
from PIL import Image

from demo import format as fmt
from demo import images, schema
from demo.backend import compilation, machine, models, parity, predictions, timing
from demo.schema import BadInput, EndToEnd, Failure, Measurement, Progress, RunResult, RunSpec

TELL_EVERY_SECONDS = 0.25
SECONDS_A_TENSOR = 0.08
"""Rough cost of a cold compile by the number of a model's parameter tensors, for the time left only."""


class Events:
    """The pipe to the parent. Progress is thinned to 4 a second; a new phase is always told."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._start = time.monotonic()
        self._last = 0.0
        self._phase = ""

    def send(self, event: str, **content: Any) -> None:
        self._stream.write(json.dumps({"event": event, **content}, allow_nan=False) + "\n")
        self._stream.flush()

    def progress(self, phase: str, fraction: float, **more: Any) -> None:
        now = time.monotonic()
        if phase == self._phase and now - self._last < TELL_EVERY_SECONDS:
            return
        self._phase, self._last = phase, now
        looked = Progress(phase=phase, fraction=fraction, elapsed_seconds=now - self._start, **more)
        self.send("progress", progress=schema.plain(looked))


class Run:
    """One job. What is known so far is kept, so that a failure at any stage loses nothing that was measured."""

    def __init__(self, spec: RunSpec, image: Path, identity: dict[str, str], events: Events) -> None:
        self.spec = spec
        self.image = image
        self.events = events
        self.phase = "load"
        self.known: dict[str, Any] = {**identity, "spec": spec, "status": "ok"}
        self.warnings: list[str] = []

    def execute(self) -> RunResult:
        """Load, prepare, warm up, compile, time, check. Raises BadInput; everything else becomes a result."""
        try:
            with torch.no_grad():  # one context for compiling, warming and timing: another one would recompile
                self.load()
                self.prepare()
                self.warm_up_eager()
                self.compile()
                self.measure()
                self.check()
        except BadInput:
            raise
        except Exception as error:
            self.known |= self.failure(error)
        return RunResult(**self.known, warnings=tuple(self.warnings))

    def enter(self, phase: str, fraction: float, **more: Any) -> None:
        self.phase = phase
        self.events.progress(phase, fraction, **more)

    def load(self) -> None:
        self.enter("load", 0.02)
        started = time.perf_counter()
        self.picture, self.known["image"] = images.read(self.image)
        self.decode_seconds = time.perf_counter() - started
        self.device = machine.pick_device(self.spec.device)
        self.spec = self.known["spec"] = self.spec.on(self.device.type)
        if self.spec.mode not in machine.modes():
            raise BadInput(
                f"This torch ({torch.__version__}) has no mode {self.spec.mode!r}. "
                f"Allowed: {', '.join(machine.modes())}."
            )
        machine.require_compiler()
        self.loaded = models.load(self.spec, self.device)
        self.known["environment"] = machine.environment(self.device)
        self.warnings += self.loaded.warnings
        if self.spec.weights == "random":
            self.warnings.append(
                "Random weights: latency stands, but predictions would mean nothing and are not shown."
            )
        if self.spec.mode.startswith("max-autotune") and machine.too_few_multiprocessors():
            self.warnings.append(
                "This GPU has too few multiprocessors for inductor's matrix-product autotuning (Not enough SMs): "
                "max-autotune tunes less here than on a larger GPU."
            )

    def prepare(self) -> None:
        self.enter("prepare", 0.08)
        # The first pass through a processor pays for lazy imports; the second is what a request costs.
        for _ in range(2):
            started = time.perf_counter()
            self.inputs = predictions.prepare(self.loaded, self.picture, self.spec.text)
            prepare_seconds = time.perf_counter() - started
        self.preprocess_seconds = self.decode_seconds + prepare_seconds
        self.clock = timing.WallClock(self.device)
        dtype = getattr(torch, self.spec.dtype)

        def copy() -> None:
            self.batch = predictions.to_batch(self.inputs, self.spec.batch_size, self.device, dtype)

        copy()
        self.copy_seconds = self.clock.time(copy)
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
            self.known["predictions"] = {"eager": self.decoded(self.eager_outputs)}

    def decoded(self, outputs: Any) -> schema.Predictions:
        return predictions.decode(self.loaded, outputs, self.inputs, self.picture, self.spec.text)

    def compile(self) -> None:
        tensors = len(list(self.loaded.model.parameters()))
        eager_seconds = min(self.eager_warmup)
        self.enter("compile", 0.2, remaining_seconds=tensors * SECONDS_A_TENSOR, eager_seconds=eager_seconds)
        model = compilation.compiled(self.loaded.model, self.spec)
        self.compiled = lambda: model(**self.batch)
        least = timing.WARMUP_CALLS
        if self.device.type == "cuda" and self.spec.mode in compilation.CUDA_GRAPH_MODES:
            least += timing.CUDA_GRAPH_CALLS
        self.compiled_warmup, settled = timing.warm_up(self.compiled, self.clock, self.watch.events, least)
        if not settled:
            self.warnings.append(UNSETTLED.format(variant="Compiled"))
        # Once more for eager: compiling has filled the caches with other things, and warmed the machine.
        self.eager_again, _ = timing.warm_up(self.eager, self.clock, self.watch.events)

    def measure(self) -> None:
        plan = timing.Plan(iterations=self.spec.iterations)
        half = timing.half_block(self.eager_again, self.compiled_warmup, self.spec.iterations)
        self.enter("time", 0.5)
        events_before = self.watch.events()
        interleaved = True
        started = time.perf_counter()
        try:
            samples = timing.interleaved(self.eager, self.compiled, self.clock, plan, half, self.look(plan, started))
            eager, compiled, control = samples.eager, samples.compiled, samples.control
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            interleaved, control = False, []
            self.warnings.append(
                "Eager and compiled do not fit in memory together: they were timed one after the other, so drift of "
                "the machine is not cancelled."
            )
            compiled = timing.alone(self.compiled, self.clock, plan, half)
            torch.cuda.empty_cache()
            eager = timing.alone(self.eager, self.clock, plan, half)
        recompiles = self.watch.events() - events_before
        self.known["interleaved"] = interleaved
        self.known["compilation"] = self.watch.compilation(self.spec, self.device, self.compiled_warmup[0], recompiles)
        self.enter("check", 0.92)
        self.known["eager"] = self.measured(self.eager, eager, self.eager_warmup, half)
        self.known["compiled"] = self.measured(self.compiled, compiled, self.compiled_warmup, half)
        if control:
            self.known["control_times"] = Measurement(tuple(control), None, (), 2 * half)
        self.judge(recompiles)

    def look(self, plan: timing.Plan, started: float) -> Any:
        """What the page sees between two blocks."""

        def look(samples: timing.Samples) -> None:
            elapsed = time.perf_counter() - started
            if plan.iterations:
                done = len(samples.compiled) / plan.iterations
                remaining = elapsed / done - elapsed
            else:
                done, remaining = elapsed / plan.most_seconds, plan.most_seconds - elapsed
            half = samples.half
            self.events.progress(
                "time",
                0.5 + 0.42 * min(1.0, done),
                remaining_seconds=max(0.0, remaining),
                calls=len(samples.compiled),
                eager_seconds=sorted(samples.eager[-2 * half :])[half],
                compiled_seconds=sorted(samples.compiled[-2 * half :])[half],
                speedup=samples.interval(),
            )

        return look

    def measured(self, call: timing.Call, wall: list[float], warmup: list[float], half: int) -> Measurement:
        device = timing.device_times(call, min(wall)) if self.device.type == "cuda" else None
        return Measurement(tuple(wall), device, tuple(warmup), 2 * half, timing.peak_memory(call, self.device))

    def judge(self, recompiles: int) -> None:
        """Everything that a reader of the figures should know before using them."""
        done = RunResult(**self.known)
        compiled = self.known["compilation"]
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
        if done.speedup is not None and self.spec.iterations is None:
            width = max(done.speedup.high / done.speedup.ratio - 1, 1 - done.speedup.low / done.speedup.ratio)
            if width > timing.Plan.precision:
                self.warnings.append(
                    f"The speed-up is known to ±{fmt.percent(width)} only: time was up before ±1 % was reached."
                )
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
        outputs = compilation.own_copy(self.compiled())
        again = compilation.own_copy(self.eager())
        pair = None
        postprocess_seconds = 0.0
        if self.spec.weights == "pretrained":
            started = time.perf_counter()
            compiled = self.decoded(outputs)
            postprocess_seconds = time.perf_counter() - started
            pair = (self.known["predictions"]["eager"], compiled)
            self.known["predictions"] = {"eager": pair[0], "compiled": compiled}
            self.known["end_to_end"] = EndToEnd(self.preprocess_seconds, self.copy_seconds, postprocess_seconds)
        reference = parity.float64_reference(self.loaded.model, self.batch)
        self.known["parity"] = parity.compare(self.eager_outputs, again, outputs, self.spec.dtype, reference, pair)
        self.enter("done", 1.0)

    def failure(self, error: Exception) -> dict[str, Any]:
        """Status and Failure for what went wrong in the phase at hand."""
        spec = self.spec
        if is_out_of_memory(error):
            smaller = max(1, spec.batch_size // 4)
            where = f"{self.device_name()} while it was in phase '{self.phase}'"
            first = f"batch size {smaller}" if spec.batch_size > 1 else "a smaller checkpoint"
            remedy = f"Try {first}, or dtype bfloat16."
            return {
                "status": "out_of_memory",
                "failure": Failure(self.phase, f"Batch size {spec.batch_size} ran out of memory on {where}.", remedy),
            }
        text = compilation.first_line(error)
        if self.phase == "compile":
            remedy = (
                "Switch fullgraph off: it forbids the graph breaks that this model needs."
                if spec.fullgraph
                else f"Try another mode than {spec.mode}, or another torch; eager works and was timed."
            )
            return {"status": "compile_failed", "failure": Failure("compile", f"torch.compile failed: {text}", remedy)}
        return {
            "status": "failed",
            "failure": Failure(self.phase, f"The run failed in phase '{self.phase}': {text}", REMEDIES[self.phase]),
        }

    def device_name(self) -> str:
        environment = self.known.get("environment")
        return f"{environment.device_name} ({fmt.size(environment.memory_bytes)})" if environment else self.spec.device


UNSETTLED = "{variant} had not settled when its warm-up ended: its last three calls were more than 10 % apart."
WIDE_SPREAD = 0.10
REMEDIES = {
    "load": "Choose another checkpoint or dtype.",
    "prepare": "Choose another image: the checkpoint's processor could not prepare this one.",
    "warm up": "The model does not run eagerly with these settings: choose dtype float32, or another checkpoint.",
    "time": "Run it again; if it happens again, choose another mode.",
    "check": "The timing had ended; run it again for the outputs.",
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


def end_with_parent() -> None:
    """Kills the whole process group as soon as standard input closes: nobody is left to hear the result."""

    def wait() -> None:
        while sys.stdin.buffer.read(1):
            pass
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def main() -> None:
    events = Events(os.fdopen(int(sys.argv[1]), "w", encoding="utf-8"))
    warm_imports()
    events.send("ready", machine=machine.report())
    line = sys.stdin.buffer.readline()
    if not line:
        return
    end_with_parent()
    job = json.loads(line)
    Image.MAX_IMAGE_PIXELS = None  # images.read holds its own, stricter limit
    try:
        identity = {"id": job["id"], "started_at": job["started_at"]}
        result = Run(schema.load(RunSpec, job["spec"]), Path(job["image"]), identity, events).execute()
    except BadInput as refusal:
        events.send("refused", message=str(refusal))
    else:
        events.send("result", result=result.to_json())
    # Not a normal exit: inductor's pool and CUDA's teardown take seconds that nobody should wait for.
    sys.stdout.flush()
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main()
