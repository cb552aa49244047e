"""One run from inside: load, prepare, warm up, compile, time, examine, check, explain.

`Run.execute` gives the order. Each phase takes what the ones before it made and adds its figures to `Run.result`, so
that a failure in any phase loses nothing of what was measured before.
"""

import contextlib
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch._inductor.runtime.cache_dir_utils import cache_dir

from demo.backend import (
    caveats,
    compilation,
    compile_model,
    failures,
    first_call,
    machine_probe,
    packages,
    parity,
    profiling,
    protocols,
    settings,
    timing,
    workloads,
)
from demo.backend.events import Events, Job
from demo.backend.failures import CannotLoad
from demo.backend.memory_and_throughput import Peak, examined, peak_memory
from demo.backend.monitor import Observer
from demo.backend.workload import Variant, Variants, Workload
from demo.core import cores, refusals
from demo.core.languages import ENGLISH
from demo.core.measurement import Compilation, CompileCost, Measurement, StartUp
from demo.core.result import RunResult
from demo.core.spec import BadInput, RunSpec

SECONDS_A_TENSOR = 0.08
"""Rough cost of a cold compile by the number of a model's parameter tensors, only for the time left."""
MAX_RESTARTS = 2
"""Times that a timing is begun anew because other programs took a core."""


class Run:
    """One job: make it, and call `execute` once."""

    def __init__(self, job: Job, events: Events, import_seconds: float | None = None) -> None:
        """`import_seconds` is how long this process took for its imports; None where it is not known."""
        self.job, self.import_seconds = job, import_seconds
        self.events = events
        self.phase = "load"
        self.result = RunResult(id=job.id, started_at=job.started_at, status="ok", spec=job.spec)
        """What is known so far."""
        self.warnings: list[str] = []
        self.unsettled: list[str] = []
        """Variants whose warm-up ended before their calls agreed."""
        self.disturbed = False
        """Whether other programs took cores, before the timing or in it."""
        self.log = compilation.CompileLog()
        self.events_before_timing = 0
        self.package: Path | None = None
        """With compiler "aot", once it is built."""
        self.untouched: Any = None
        """A twin of the model from before its first call, where that call changed it; else None."""
        self.eager_outputs: Any = None
        """Of one call before the compile, cloned."""
        self.eager_peak: Peak | None = None
        """Of memory on a GPU, before the compile; None on a CPU, where it is measured after the timing."""

    @property
    def spec(self) -> RunSpec:
        """The one asked for; its device is the one in use as soon as that is known."""
        return self.result.spec

    def execute(self) -> RunResult:
        """Raises BadInput where the job cannot be run as given. Every other failure becomes a result."""
        try:
            with torch.no_grad():  # one context for compiling, warming and timing: another one would recompile
                workload = self.workload()
                eager = self.warm_up_eager(workload)
                variants = self.compile(workload, eager)
                observer = Observer(workload.device)
                lost_outputs = self.time(workload, variants, observer)
                together = lost_outputs is None
                if together:
                    with self.figures_kept():
                        self.keep(**workload.time_more(variants, self.log, self.events))
                self.enter("check", 0.9)
                for name in ("eager", "compiled") if together else ("eager",):
                    with self.figures_kept():
                        self.examine(name, workload, variants, observer)
                with self.figures_kept():
                    self.check(workload, variants, lost_outputs)
                if self.result.predictions is not None and "compiled" not in self.result.predictions:
                    self.keep(predictions=None)  # eager's alone would look like a failure
                if together:
                    self.explain(workload, variants)
                    with self.figures_kept():
                        self.try_another_size(workload, variants)
                with self.figures_kept():
                    self.keep(**workload.time_last(self.result, self.events))
                with self.figures_kept():
                    self.capture_before_eager(workload)
                self.compile_again(workload)
                self.enter("done", 1.0)
        except CannotLoad as refusal:
            self.keep(status="failed", failure=refusal.failure)
        except BadInput:
            raise
        except Exception as error:
            status, failure = failures.explain(error, self.phase, self.result)
            self.keep(status=status, failure=failure)
        noise = caveats.of_machine(self.result.machine_states, caveats.wide_spreads(self.result), self.unsettled)
        rough = bool(noise) or self.disturbed or self.result.oversubscribed
        return replace(self.result, rough=rough, warnings=(*self.warnings, *noise))

    def enter(self, phase: str, fraction: float, **more: Any) -> None:
        self.phase = phase
        self.events.progress(phase, fraction, **more)

    def keep(self, **known: Any) -> None:
        """Adds what is known now to the result."""
        self.result = replace(self.result, **known)

    def add_to(self, part: str, **known: Any) -> None:
        """Adds what is known now to a part of the result, such as its environment, where there is one."""
        if (found := getattr(self.result, part)) is not None:
            self.keep(**{part: replace(found, **known)})

    @contextlib.contextmanager
    def figures_kept(self, lost: str = "Not all could be examined after the timing") -> Iterator[None]:
        """An exception costs the figures of its own block only, and becomes a warning that begins with `lost`."""
        try:
            yield
        except Exception as error:
            self.warnings.append(f"{lost}: {compilation.first_line(error)}.")

    # Load and prepare

    def workload(self) -> Workload:
        since, started = cores.read(), time.perf_counter()
        self.enter("load", 0.02)
        self.keep(spec=refusals.checked(self.spec, machine_probe.host()))
        workload = workloads.load(self.spec, self.job.seen_file, lambda image: self.keep(image=image))
        self.keep(environment=machine_probe.environment(workload.device))
        self.warnings += caveats.of_workload(workload)
        self.enter("prepare", 0.08)
        # Makes the batch, and reads the settings in force back from it and the model.
        self.add_to("environment", settings=settings.in_force(workload.model, workload.batch))
        if self.import_seconds is not None:
            self.keep(start_up=StartUp(self.import_seconds, time.perf_counter() - started))
        if workload.device.type == "cpu":
            free_cores = cores.free_cores(since)
            gave_way = settings.give_way(self.spec, workload.device, free_cores)
            self.add_to("environment", threads=torch.get_num_threads(), free_cores=free_cores)
            known = self.result.environment
            if gave_way and free_cores is not None and known is not None and known.gave_way:
                self.disturbed = True
                busy = {"busy": known.cpu_count - free_cores, "cores": known.cpu_count, "threads": known.threads}
                self.warnings.append(ENGLISH.plain("caveat_busy_cores", **busy))
        return workload

    # Warm up and compile

    def warm_up_eager(self, workload: Workload) -> Variant:
        self.enter("warm up", 0.1)
        model, events = workload.model, self.log.events()
        with self.figures_kept("Compiling before the first eager call was not tried: the model cannot be copied"):
            self.untouched = compile_model.twin(model)
        warmup = self.warm_up("eager", workload.eager, workload)
        if self.log.events() > events:
            self.warnings.append(ENGLISH.plain("caveat_compiles_itself"))
        if self.untouched is not None and not compile_model.changed(self.untouched, model):
            self.untouched = None
        self.eager_outputs = workload.outputs(model)
        # Already kept here, so that a failed compile still shows what eager does.
        self.keep(eager=Measurement(tuple(warmup[1:]), None, tuple(warmup), 1))
        with self.figures_kept("The outputs could not be turned into predictions"):
            if (predictions := workload.predictions(self.eager_outputs)) is not None:
                self.keep(predictions={"eager": predictions})
        if workload.device.type == "cuda":
            self.eager_peak = peak_memory(workload.eager, workload.device)
        return Variant(workload.eager, warmup, model)

    def warm_up(self, name: str, call: timing.Call, workload: Workload, **options: Any) -> list[float]:
        """The seconds of the warm-up's calls; notes where they did not settle."""
        times, settled = timing.warm_up(call, workload.clock, self.log.events, **options)
        if not settled:
            self.unsettled.append(name)
        return times

    def compile(self, workload: Workload, eager: Variant) -> Variants:
        """Compiles by warming up, or builds a package."""
        if workload.device.type == "cuda":
            torch.cuda.empty_cache()  # a CUDA graph's pool cannot use what eager left, nor have it given up
        seconds = len(list(workload.model.parameters())) * SECONDS_A_TENSOR
        self.enter("compile", 0.2, remaining_seconds=seconds, eager_seconds=min(eager.warmup))
        if self.job.cache_folder is not None:
            compilation.use_empty_cache(Path(self.job.cache_folder))
        compilation.remove_unfinished(Path(cache_dir()))
        told = with_break = None
        if self.spec.compiler == "aot":
            compiled, told = self.build(workload)
        else:
            compiled, with_break = self.compile_in_process(workload)
        again, fit_together = eager.warmup, True
        try:
            again, _ = timing.warm_up(eager.call, workload.clock, self.log.events)
        except Exception as error:
            if not failures.is_out_of_memory(error):
                raise
            fit_together = False
        return Variants(eager, compiled, again, fit_together, told, with_break)

    def build(self, workload: Workload) -> tuple[Variant, Compilation]:
        """Builds a package, loads it and warms it up; and what that cost.

        The seconds are those of a machine that has built nothing like it before: its folder becomes the compile cache,
        in which AOTInductor looks for nothing and leaves the weights.
        """
        folder = Path(self.job.cache_folder or tempfile.mkdtemp(prefix="package-"))
        self.package = Path(self.job.package or folder / "model.pt2")
        compilation.use_empty_cache(folder)
        parts = packages.build(workload, self.package)
        started = time.perf_counter()
        model = packages.load(self.package)
        parts["load"] = time.perf_counter() - started
        call = workload.call(model)
        times = self.warm_up("compiled", call, workload, first_call_ended=self.log.first_call_ended)
        parts["first run"] = times[0]
        cost = CompileCost(sum(parts.values()), parts)
        size = self.package.stat().st_size
        told = Compilation(cost.first_call_seconds, "cold", graphs=1, cold=cost, package_bytes=size)
        return Variant(call, [cost.first_call_seconds, *times[1:]], model), told

    def compile_in_process(self, workload: Workload) -> tuple[Variant, Variant | None]:
        """With added graph breaks first the model with them, then the one without.

        The other way round dynamo would compile the model without them again in the timing. So its first call comes
        second, and lacks what only the first compile of a process pays, such as the instruction probe.
        """
        with_break = None
        min_calls = timing.min_warmup_calls(self.spec, workload.device)

        def warmed_up(name: str, model: Any, **more: Any) -> Variant:
            compiled = compile_model.compiled(model, self.spec)
            call = workload.call(compiled)
            return Variant(call, self.warm_up(name, call, workload, min_calls=min_calls, **more), compiled)

        if self.spec.graph_break:
            broken, places = compile_model.with_breaks(workload.model)
            with_break = warmed_up("compiled with the added graph break", broken)
            self.log.first_call_ended()
            self.warnings.append(compile_model.break_warning(places, self.log.captured()[1]))
            self.log = compilation.CompileLog()
        compiled = warmed_up("compiled", workload.model, first_call_ended=self.log.first_call_ended)
        return compiled, with_break

    def compilation(self, workload: Workload, variants: Variants) -> Compilation:
        first_call = variants.compiled.warmup[0]
        return variants.compilation or self.log.compilation(self.spec, workload.device, first_call)

    # Time

    def time(self, workload: Workload, variants: Variants, observer: Observer) -> Any:
        """Times the variants by the spec's protocol.

        Returns None; or, where eager and compiled do not fit in memory together, outputs of the compiled model, of
        which nothing else is left then.
        """
        self.enter("time", 0.5)
        if self.spec.protocol == "as published":
            self.warnings.append(ENGLISH.plain("caveat_published"))
            self.keep(interleaved=False)
        samples, variants = self.time_together(workload, variants, observer)
        lost_outputs = None
        if samples is None:
            observer.begin()
            samples, lost_outputs = self.time_separately(workload, variants, observer)
        seconds = observer.seconds
        observer.sample()
        self.keep(timing_seconds=seconds, machine_states=tuple(observer.samples))
        self.keep_times(variants, samples)
        if lost_outputs is None:
            self.keep_compiled(workload, variants, samples)
        self.warnings += caveats.of_timing(self.result)
        compiled = self.result.compilation
        if compiled is not None and compiled.recompiles_while_timing:
            self.keep(status="failed", failure=failures.recompiled(compiled.recompiles_while_timing))
        return lost_outputs

    def time_together(
        self, workload: Workload, variants: Variants, observer: Observer
    ) -> tuple[timing.Samples | None, Variants]:
        """Begins anew with fewer threads where other programs take a core meanwhile, unless the number was asked for.

        Returns the times and what was timed; None for the times where the variants do not fit in memory together.
        """
        restarts = MAX_RESTARTS if workload.device.type == "cpu" and self.spec.threads is None else 0

        def look() -> None:
            observer.sample()
            free = observer.free_lately()
            if restarts and free is not None and free < torch.get_num_threads():
                raise protocols.CoreTaken(free)

        while True:
            self.events_before_timing = self.log.events()
            observer.begin()
            try:
                samples = protocols.timed(variants, workload.clock, self.spec, look, observer, self.events)
                return samples, variants
            except protocols.CoreTaken as taken:
                restarts -= 1
                variants = self.with_fewer_threads(workload, variants, taken.free)

    def with_fewer_threads(self, workload: Workload, variants: Variants, threads: int) -> Variants:
        """The variants warmed up again. Inductor's code is for a number of threads, so compiled is compiled again, and
        a package is built again.

        What is told of the compile, its cost included, stays that of the first one.
        """
        first = self.compilation(workload, variants)
        settings.give_way(self.spec, workload.device, threads)
        self.add_to("environment", threads=threads, free_cores=threads)
        self.disturbed = True
        self.warnings.append(ENGLISH.plain("caveat_timed_again", threads=threads))
        self.events.doing("fewer_threads", 0.5, phase="time")
        self.unsettled.clear()

        def again(name: str, variant: Variant) -> Variant:
            return replace(variant, warmup=[*variant.warmup, *self.warm_up(name, variant.call, workload)])

        aot, with_break = self.spec.compiler == "aot", variants.with_break
        with_break = with_break and again("compiled with the added graph break", with_break)  # first, as above
        compiled = self.build(workload)[0] if aot else again("compiled", variants.compiled)
        eager = self.warm_up("eager", variants.eager.call, workload)
        return replace(variants, compilation=first, compiled=compiled, with_break=with_break, eager_warmup_again=eager)

    def time_separately(self, workload: Workload, variants: Variants, observer: Observer) -> tuple[timing.Samples, Any]:
        """Compiled first, with all its passes; then eager, once nothing of compiled is left on the GPU.

        Returns the times, and outputs of the compiled model.
        """
        self.keep(interleaved=False)
        self.warnings.append(ENGLISH.plain("caveat_separate_with_break" if variants.with_break else "caveat_separate"))
        torch.cuda.empty_cache()
        plan, compiled = timing.Plan.of(self.spec, 0.0), variants.compiled.call
        half = protocols.calls_per_half_block(variants, self.spec)
        samples = timing.Samples(half, compiled=timing.time_one(compiled, workload.clock, plan, half))
        self.keep_compiled(workload, variants, samples)
        self.examine("compiled", workload, variants, observer)
        outputs = workload.outputs(variants.compiled.model)
        compilation.reset_compiler()
        observer.sample()
        samples.eager = timing.time_one(variants.eager.call, workload.clock, plan, half)
        return samples, outputs

    def keep_times(self, variants: Variants, samples: timing.Samples) -> None:
        """Keeps all times but the compiled model's."""
        self.keep(eager=samples.measurement("eager", variants.eager.warmup))
        if samples.control:
            self.keep(control_times=samples.measurement("control"))
        if samples.with_break and variants.with_break is not None:
            self.keep(with_break=samples.measurement("with_break", variants.with_break.warmup))

    def keep_compiled(self, workload: Workload, variants: Variants, samples: timing.Samples) -> None:
        self.keep(
            compilation=self.compilation(workload, variants),
            compiled=samples.measurement("compiled", variants.compiled.warmup),
        )
        self.add_to("compilation", recompiles_while_timing=self.log.events() - self.events_before_timing)

    # Examine and check

    def examine(self, name: str, workload: Workload, variants: Variants, observer: Observer) -> None:
        """The passes of their own over a variant: work on the GPU, back-to-back calls with their energy, memory."""
        known, compiled = self.eager_peak if name == "eager" else None, self.result.compilation
        if name == "compiled" and variants.with_break is not None and compiled is not None and compiled.cudagraphs_used:
            known = (None, None)  # the pools hold the CUDA graphs of the model with added breaks, too
        timed, call = getattr(self.result, name), getattr(variants, name).call
        self.keep(**{name: examined(timed, call, workload.device, observer, known)})

    def check(self, workload: Workload, variants: Variants, lost_outputs: Any) -> None:
        """Compares the outputs of both, and times what a request needs beside the model."""
        outputs = lost_outputs if lost_outputs is not None else workload.outputs(variants.compiled.model)
        again = workload.outputs(variants.eager.model)
        pair = None
        if self.result.predictions is not None and (theirs := workload.predictions(outputs)) is not None:
            pair = (self.result.predictions["eager"], theirs)
            self.keep(predictions={"eager": pair[0], "compiled": pair[1]})
        peak_memory = self.result.eager.peak_memory_bytes if self.result.eager is not None else None
        reference = parity.float64_reference(workload, peak_memory)
        self.keep(parity=parity.compare(self.eager_outputs, again, outputs, self.spec.dtype, reference, pair))
        self.keep(end_to_end=workload.end_to_end(outputs))

    # Explain

    def explain(self, workload: Workload, variants: Variants) -> None:
        """Kernels and the roofline: why each variant is as fast as it is. What fails here costs no other figure."""
        if not profiling.wanted(self.spec, workload.device):
            return
        self.events.doing("explain", 0.94)
        calls = {"eager": variants.eager.call, "compiled": variants.compiled.call}
        with self.figures_kept("The profiler gave nothing"):
            trace = Path(self.job.trace) if self.job.trace else None
            for name, profile in profiling.profiles(calls, workload.device, trace).items():
                self.add_to(name, profile=profile)
        with self.figures_kept("The roofline could not be measured"):
            self.keep(roofline=profiling.roofline(workload))

    def try_another_size(self, workload: Workload, variants: Variants) -> None:
        if not self.spec.another_size:
            return
        self.events.doing("another_size", 0.945)
        for one in protocols.other_sizes(workload, variants, self.log):
            self.keep(another_sizes=(*self.result.another_sizes, one))

    def capture_before_eager(self, workload: Workload) -> None:
        """It comes late because it resets dynamo. Skipped where the first eager call changed nothing on the model."""
        compiled = self.result.compilation
        whole = self.spec.compiler == "jit" and self.spec.scope == "model"
        if compiled is None or not whole or self.untouched is None:
            return
        self.events.doing("capture", 0.95)
        first = compile_model.compiled_first(self.untouched, workload, self.log.first_capture)
        self.add_to("compilation", compiled_first=first)

    def compile_again(self, workload: Workload) -> None:
        """The first call once more in a further process: from the cache of this run's own, or from its package."""
        compiled, known = self.result.compilation, self.result.environment
        if compiled is None or known is None or (self.job.cache_folder is None and self.package is None):
            return
        self.events.doing("compile_again", 0.95)
        # On a CPU the compiled code is for a number of threads.
        spec = replace(self.spec, threads=known.threads) if workload.device.type == "cpu" else self.spec
        source = "the package" if self.package is not None else "the filled cache"
        with self.figures_kept(f"The first call from {source} could not be measured"):
            warm = first_call.measure_elsewhere(spec, self.job.seen_file, bool(compiled.compiled_first), self.package)
            self.add_to("compilation", warm=warm)
