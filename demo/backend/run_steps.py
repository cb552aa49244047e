"""Runs one job in the worker process: loads, warms up, compiles, times, checks and profiles.

Each step adds its numbers to `Run.result`, so a step that fails loses no numbers of the steps before it.
"""

import contextlib
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from torch._inductor.runtime.cache_dir_utils import cache_dir

from ..core import cores, format as fmt
from ..core.caveat import NOTHING_DONE, Caveat
from ..core.measurement import Compilation, CompileCost, Measurement, StartUp
from ..core.options import PUBLISHED_CALLS, BadInput
from ..core.result import RunResult
from ..tasks.registry import BY_NAME
from . import (
    caveats,
    compilation,
    compile_cache,
    compile_model,
    effects,
    error_text,
    failures,
    first_call,
    machine_probe,
    parity,
    profiling,
    tasks,
    timing,
    torch_settings,
)
from .monitor import CoreTaken, Observer
from .run_state import RunState
from .workload import Variant, Variants, refuse_call

MUCH_MEMORY = 16_000_000
"""If memory grows by more bytes than this during the timing, the run looks for tensors that each call keeps."""


class Run(RunState):
    """Does one job: a run, from loading the model to the first call of a new process. Call `execute` once."""

    def execute(self) -> RunResult:
        """Runs all steps and returns the result, also of a failed run. Raises BadInput for a job that cannot be run."""
        try:
            with torch.no_grad():  # one context for all phases: a switch of grad mode would recompile
                self.load()
                self.look_at_instructions()
                self.compile(self.warm_up_eager())
                self.time()
                if self.fit_together:
                    with self.errors_as_caveats():
                        self.set_fields(**self.workload.time_more(self.variants, self.log, self.events))
                self.enter("check", 0.9)
                self.examine("eager")
                if self.fit_together:
                    self.examine("compiled")
                with self.errors_as_caveats():
                    self.check()
                if self.result.predictions is not None and "compiled" not in self.result.predictions:
                    self.set_fields(predictions=None)  # eager's alone would look like a failure
                if self.fit_together:
                    self.explain()
                self.compile_again()
                self.enter("done", 1.0)
        except failures.CannotLoad as refusal:
            self.set_fields(status="failed", failure=refusal.failure)
        except BadInput:
            raise
        except BaseException as error:  # a model of one's own may call sys.exit, or raise KeyboardInterrupt
            status, failure = failures.explain(error, self.phase, self.result_so_far())
            self.set_fields(status=status, failure=failure)
        return self.result_so_far()

    # Load and prepare

    def load(self) -> None:
        since, started = cores.sample(), time.perf_counter()
        self.enter("load", 0.02)
        if self.spec.device == "cpu" and self.spec.threads is None and self.job.threads is not None:
            torch.set_num_threads(self.job.threads)
        self.workload = tasks.load(self.spec, self.job.seen_file, lambda image: self.set_fields(image=image))
        device, self.observer = self.workload.device, Observer(self.workload.device)
        self.set_fields(environment=machine_probe.environment(device))
        self.caveats += [*self.workload.caveats, *caveats.of_device(self.spec, device)]
        if self.spec.weights == "random" and not any(caveat.key == "quantized" for caveat in self.caveats):
            self.caveats.append(Caveat("random_weights"))
        self.enter("prepare", 0.08)
        # The first use of `batch` makes the batch: here, so that its time counts as loading.
        self.set_part_fields("environment", settings=torch_settings.in_force(self.workload.model, self.workload.batch))
        took = time.perf_counter() - started, torch_settings.load_gpu_libraries(self.spec, device)
        if self.import_seconds is not None:
            self.set_fields(start_up=StartUp(self.import_seconds, *took))
        if device.type == "cpu":
            free_cores = self.look_at_cores(since, 0.08)
            self.set_part_fields("environment", free_cores=free_cores)
            if self.spec.threads is None and free_cores is not None:
                self.give_way(free_cores)

    def look_at_cores(self, since: cores.Reading | None, fraction: float) -> int | None:
        """Returns how many whole cores other programs left free since `since`, at least 1; None if not known.

        Waits up to five seconds for a free core for each thread, unless the spec sets the threads. `fraction`: the
        share of the run that is over, for the progress sent meanwhile.
        """
        looks = cores.PATIENT_LOOKS if self.spec.threads is None else 0
        say_so = partial(self.events.progress, self.phase, fraction, code="wait_for_core")
        return cores.free_cores(since, torch.get_num_threads(), looks, say_so)

    def give_way(self, free_cores: int) -> None:
        """Lowers torch's threads to `free_cores` or fewer, because a thread without a core would hold up all others.

        Raises BadInput instead if the job must keep its threads, as a later process of a run must.
        """
        if self.job.refuse_fewer_threads and self.job.threads is not None and free_cores < self.job.threads:
            raise BadInput(
                f"This answer was timed with {self.job.threads} threads; free cores now: {free_cores}. A repeat would "
                "time another setting. Stop other programs and repeat it, or start a run of its own."
            )
        threads = self.job.threads_on(free_cores, most := torch.get_num_threads())
        torch.set_num_threads(threads)
        self.set_part_fields("environment", threads=threads)
        machine = self.result.environment
        if machine is not None and (machine.gave_way or threads < most):
            counts = {"busy": machine.cpu_count - free_cores, "cores": machine.cpu_count, "threads": threads}
            self.caveats.append(Caveat("busy_cores", {**counts}))

    # Warm up and compile

    def warm_up_eager(self) -> Variant:
        self.enter("warm up", 0.1)
        workload, model, events = self.workload, self.workload.model, self.log.events()
        workload.restorer  # noqa: B018 -- copies the inputs before the first call
        warmup = self.warm_up("eager", workload.eager, first_call_ended=self.observe_eager)
        if self.log.events() > events:
            self.caveats.append(Caveat("compiles_itself"))
        self.eager_outputs = workload.outputs(model)
        # Kept before the compile, so that a failed compile still shows eager's times.
        self.set_fields(eager=Measurement(tuple(warmup[1:]), None, tuple(warmup), 1))
        with self.errors_as_caveats("The outputs could not be turned into predictions"):
            predictions = workload.predictions(self.eager_outputs)
            self.set_fields(predictions={"eager": predictions} if predictions else None)
        if workload.device.type == "cuda":
            self.eager_peak = profiling.peak_memory(workload.eager, workload.device)
        return Variant(workload.eager, warmup, model)

    def observe_eager(self) -> None:
        workload, restorer = self.workload, self.workload.restorer
        try:
            self.effects = effects.observe(workload.model, restorer, lambda: workload.once(workload.model))
        except Exception as error:  # a model may refuse to be watched in any way
            restorer.restore()
            reason = error_text.first_line(error).rstrip(".")
            self.caveats.append(Caveat("not_watched", {"reason": reason}))
        if restorer.needed:
            self.caveats.append(Caveat("given_back", {"changed": self.effects.changes}))

    def compile(self, eager: Variant) -> None:
        """Compiles the model, or builds or loads its package. Warms up compiled, then eager again. Sets `variants`."""
        workload = self.workload
        workload.restorer.restore()
        torch.cuda.empty_cache()  # a CUDA graph's pool cannot use memory that eager left reserved
        self.enter("compile", 0.2, eager_seconds=min(eager.warmup))
        if self.job.cache_folder is not None:
            compile_cache.use_empty_cache(Path(self.job.cache_folder))
        compiled = compile_cache.heal_and_retry(self.compile_in_process, Path(cache_dir()), self.caveats.append)
        self.caveats += caveats.of_instructions(workload.device)
        # Read again: only now the settings name inductor's vector instructions, and a model may set torch's threads.
        settings = torch_settings.in_force(workload.model, workload.batch)
        self.set_part_fields("environment", settings=settings, threads=torch.get_num_threads())
        eager_again = eager.warmup
        with self.out_of_memory_means_separate():
            eager_again, _ = timing.warm_up(eager.call, workload.clock, self.log.events)
        self.variants = Variants(eager, compiled, eager_again)
        self.set_fields(compilation=replace(self.compilation(), probe=self.probe))

    def build(self) -> Variant:
        """Loads AOTInductor's package and warms it up. Builds the package first, unless an earlier run left it."""
        folder = Path(self.job.cache_folder or tempfile.mkdtemp(prefix="package-"))
        # Code compiled for a CPU is for one number of threads and one set of vector instructions.
        name = f"for-{torch.get_num_threads()}-threads-{torch.backends.cpu.get_cpu_capability()}.pt2"
        kept = Path(self.job.kept_packages or folder, name)
        self.package = Path(self.job.package or kept)
        cache: Literal["cold", "warm"] = "warm" if self.job.kept_packages and kept.exists() else "cold"
        parts = compile_model.build_package(self.workload, self.package, folder) if cache == "cold" else {}
        started = time.perf_counter()
        model = compile_model.load_package(self.package)
        parts["load"] = time.perf_counter() - started
        call = self.workload.call(model)
        parts["first run"], *times = self.warm_up("compiled", call, first_call_ended=self.log.first_call_ended)
        first, size = sum(parts.values()), self.package.stat().st_size
        cost = CompileCost(first, parts)
        self.first_compilation = self.first_compilation or Compilation(
            first,
            cache,
            graphs=1,
            cold=cost if cache == "cold" else None,
            warm=cost if cache == "warm" else None,
            package_bytes=size,
        )
        return Variant(call, [first, *times], model)

    def compile_in_process(self, cached: set[str]) -> Variant:
        """Returns the compiled model or package, warmed up. `cached`: names of files and folders in the cache."""
        if self.spec.compiler == "aot":
            return self.build()
        workload, self.log = self.workload, compilation.CompileLog(cached)
        log, model = self.log, compile_model.apply_compile(workload.model, self.spec)
        call, min_calls = workload.call(model), timing.min_warmup_calls(self.spec, workload.device)

        def report(step: str) -> None:
            self.events.progress("compile", 0.3, code=step, graphs=log.graphs, breaks=len(log.graph_breaks))

        with compilation.report_steps(report), log.record_gpu_kernels():
            warmup = self.warm_up("compiled", call, min_calls=min_calls, first_call_ended=log.first_call_ended)
        return Variant(call, warmup, model)

    def compilation(self) -> Compilation:
        first_call = self.variants.compiled.warmup[0]
        return self.first_compilation or self.log.compilation(self.spec, self.workload.device, first_call)

    # Time

    def time(self) -> None:
        """Times eager and compiled. The run fails if a call compiles, or if nothing was compiled or computed."""
        self.enter("time", 0.5)
        memory_before = profiling.memory_in_use(self.workload.device)
        if self.spec.protocol == "as published":
            self.caveats.append(Caveat("published"))
        samples = timing.Samples(1)
        with self.out_of_memory_means_separate():
            samples = self.time_until_undisturbed() if self.fit_together else samples
        if not self.fit_together:
            samples = self.time_separately()
        seconds = self.observer.seconds
        self.observer.sample()
        self.set_fields(timing_seconds=seconds, machine_states=tuple(self.observer.samples))
        if stopped := self.observer.paused_seconds:
            self.caveats.append(Caveat("paused", {"seconds": fmt.duration(stopped)}))
        variants, workload = self.variants, self.workload
        self.set_fields(eager=samples.measurement("eager", variants.eager.warmup))
        if samples.control:
            self.set_fields(control_times=samples.measurement("control"))
        recompiles = self.log.events() - self.events_before_timing
        self.set_fields(compilation=replace(self.compilation(), recompiles_while_timing=recompiles, probe=self.probe))
        if self.fit_together:
            self.set_fields(compiled=samples.measurement("compiled", variants.compiled.warmup))
        self.caveats += caveats.of_timing(self.result)
        with self.errors_as_caveats():
            self.caveats += caveats.of_calls(workload, variants, self.effects)
            grown = profiling.memory_in_use(workload.device) - memory_before
            if grown > MUCH_MEMORY and (each := effects.growth_per_call(variants.eager.call)):
                self.caveats.append(Caveat("grows", {"size": fmt.size(each)}))
        if nothing := [caveat for caveat in self.caveats if caveat.key in NOTHING_DONE]:
            self.set_fields(status="failed", failure=failures.nothing_done(nothing, self.compilation(), workload.model))
        elif recompiles:
            self.set_fields(status="failed", failure=failures.recompile_failure(recompiles))

    def time_until_undisturbed(self) -> timing.Samples:
        """Times both models. If other programs take a core, waits up to 5 s for it and begins again, at most twice.

        If it stays taken, compiles for fewer threads, once. On a GPU, or if the spec sets threads, ignores taken cores.
        """
        watched = self.workload.device.type == "cpu" and self.spec.threads is None
        lowered, restarts = watched and self.lower_threads(), 2
        while True:
            threads = torch.get_num_threads() if watched and restarts and not lowered else 0
            self.events_before_timing = self.log.events()
            self.observer.begin()
            try:
                if self.spec.protocol == "as published":
                    return self.time_as_published(threads)
                return self.time_interleaved(threads)
            except CoreTaken:
                restarts -= 1
                lowered = self.lower_threads()

    def lower_threads(self) -> bool:
        """Waits up to 5 s for a core for each thread. If one lacks, compiles with fewer threads and returns True."""
        before = cores.sample()
        time.sleep(cores.LOOK_SECONDS)
        free = self.look_at_cores(before, 0.5)
        if lower := free is not None and free < torch.get_num_threads():
            self.with_fewer_threads(self.job.threads_on(free, torch.get_num_threads()))
        return lower

    @contextlib.contextmanager
    def out_of_memory_means_separate(self) -> Iterator[None]:
        """Catches an out-of-memory error and sets `fit_together` to False. With protocol 'as published', raises it."""
        try:
            yield
        except Exception as error:
            if self.spec.protocol == "as published" or not failures.is_out_of_memory(error):
                raise
            self.fit_together = False

    def time_separately(self) -> timing.Samples:
        """Times and examines compiled, drops it, and times eager, because memory cannot hold both at once."""
        self.caveats.append(Caveat("separate"))
        self.set_fields(interleaved=False)
        self.events_before_timing = self.log.events()
        self.observer.begin()
        torch.cuda.empty_cache()
        variants, samples, pause = self.variants, timing.Samples(1), self.observer.pause
        samples.compiled = timing.time_alone(variants.compiled.call, self.workload.clock, self.spec, pause)
        self.set_fields(compiled=samples.measurement("compiled", variants.compiled.warmup))
        self.examine("compiled")
        self.compiled_outputs = self.workload.outputs(variants.compiled.model)
        self.first_compilation = self.compilation()
        # Nothing may hold the compiled model: with its last reference go its weights, code and CUDA graphs.
        gone = replace(variants.compiled, call=variants.eager.call, model=refuse_call)
        self.variants = variants = replace(variants, compiled=gone)
        compilation.reset_compiler()
        self.observer.look_away()
        samples.eager = timing.time_alone(variants.eager.call, self.workload.clock, self.spec, pause)
        return samples

    def time_as_published(self, threads: int) -> timing.Samples:
        """Times eager, then compiled, as the Transformers guide does. `threads`: as in `time_interleaved`."""
        samples = timing.Samples(1)

        def look(times: list[float]) -> float:
            stopped = self.observer.pause()
            self.observer.check_cores(threads)
            self.events.report_timing((len(samples.eager) + len(times)) / PUBLISHED_CALLS / 2)
            return stopped

        for name, variant in self.variants.by_name.items():
            setattr(samples, name, timing.time_fixed_count(variant.call, self.workload.clock, PUBLISHED_CALLS, look))
        return samples

    def time_interleaved(self, threads: int) -> timing.Samples:
        """Times in blocks of calls: eager, compiled, compiled, eager.

        Raises CoreTaken if other programs leave fewer than `threads` cores free. With `threads` 0 it never raises.
        """
        plan = timing.Plan.of(self.spec, self.variants.compiled.warmup[0])

        def on_block_end(samples: timing.Samples) -> float:
            if stopped := self.observer.pause():
                return stopped
            self.observer.check_cores(threads)
            self.events.block_timed(samples, plan, self.observer.seconds)
            return 0.0

        variants = self.variants
        half = timing.calls_per_half_block(variants.eager_warmup_again, variants.compiled.warmup, plan.iterations)
        calls = variants.eager.call, variants.compiled.call
        return timing.time_interleaved(*calls, self.workload.clock, plan, half, on_block_end)

    def with_fewer_threads(self, threads: int) -> None:
        """Sets torch's threads and warms up again. This compiles again: inductor's code is for one number of threads.

        The result keeps the cost of the first compile.
        """
        self.first_compilation = self.compilation()
        torch.set_num_threads(threads)
        self.set_part_fields("environment", threads=threads, free_cores=threads)
        self.caveats.append(Caveat("timed_again", {"threads": threads}))
        seconds = self.variants.compiled.warmup[0] + self.spec.max_seconds  # the compile takes as long as the first
        self.events.progress("time", 0.5, code="fewer_threads", remaining_seconds=seconds)
        self.unsettled.clear()
        eager, compiled = self.variants.eager, self.variants.compiled
        if self.spec.compiler == "aot":
            compiled = self.build()
        else:
            compiled = replace(compiled, warmup=[*compiled.warmup, *self.warm_up("compiled", compiled.call)])
        self.variants = Variants(eager, compiled, self.warm_up("eager", eager.call))

    # Examine and check

    def examine(self, name: str) -> None:
        """Measures peak memory, throughput of calls without waits, and GPU work. `name`: "eager" or "compiled"."""
        timed, call, device = getattr(self.result, name), self.variants.by_name[name].call, self.workload.device
        known = self.eager_peak if name == "eager" else None
        besides = self.workload.model if name == "compiled" and self.package else None
        with self.errors_as_caveats():
            in_use, reserved = known or profiling.peak_memory(call, device, besides)
            work = profiling.device_times(call, min(timed.wall_seconds)) if device.type == "cuda" else None
            queue = profiling.back_to_back(call, device, timed.median_seconds, self.observer.joules)
            self.set_part_fields(name, peak_memory_bytes=in_use, peak_reserved_bytes=reserved)
            self.set_part_fields(name, device_seconds=work, back_to_back=queue)

    def check(self) -> None:
        """Compares outputs and predictions of eager and compiled. Times the parts of a request around the call."""
        workload, model = self.workload, self.variants.compiled.model
        outputs = workload.outputs(model) if self.compiled_outputs is None else self.compiled_outputs
        again = workload.outputs(workload.model)
        shares, fault, tie = {}, "", ""
        if self.result.predictions is not None and (compiled := workload.predictions(outputs)) is not None:
            eager, task = self.result.predictions["eager"], BY_NAME[self.spec.task]
            self.set_fields(predictions={"eager": eager, "compiled": compiled})
            shares, fault = task.agreement(eager, compiled), task.fault(eager, compiled)
            tie = task.tie(eager, compiled) if fault else ""
        peak_memory = self.result.eager.peak_memory_bytes if self.result.eager is not None else None
        say_so = partial(self.events.progress, "check", 0.91, code="float64")
        reference = parity.float64_reference(workload, peak_memory, say_so)
        against = (outputs, self.spec.dtype, reference, shares, "" if tie else fault, self.effects)
        agreement = parity.compare_outputs(self.eager_outputs, again, *against)
        if agreement.verdict != "match":
            self.events.progress("check", 0.93, code="eager_again")
            with self.errors_as_caveats():
                agreement = parity.with_known_cause(agreement, workload, model, self.eager_outputs, against)
        self.set_fields(parity=replace(agreement, reason=f"{agreement.reason} {tie}".rstrip()))
        self.caveats += caveats.of_agreement(agreement, self.effects)
        self.set_fields(end_to_end=workload.end_to_end(outputs))
        self.caveats += caveats.of_numbers(workload)

    # Explain

    def explain(self) -> None:
        if not profiling.should_profile(self.spec, self.workload.device):
            return
        self.events.progress("check", 0.94, code="explain")
        calls = {name: variant.call for name, variant in self.variants.by_name.items()}
        with self.errors_as_caveats("The profiler gave nothing"):
            trace = Path(self.job.trace) if self.job.trace else None
            profiles = profiling.profiles(calls, self.workload.device, trace)
            for name, profile in profiles.items():
                self.set_part_fields(name, profile=profile)
            if (compiled := self.result.compilation) is not None:
                self.set_part_fields("compilation", cuda_graphs=compiled.cuda_graphs.with_counts(profiles["compiled"]))
        with self.errors_as_caveats("The roofline could not be measured"):
            self.set_fields(roofline=profiling.roofline(self.workload))

    def compile_again(self) -> None:
        """Times the first compiled call of a new process, which finds the compile cache filled or loads the package.

        Before that, sends the provisional result. Does nothing if this run failed, compiled nothing or found the cache
        filled, or if the job keeps packages.
        """
        compiled, machine = self.result.compilation, self.result.environment
        if compiled is None or machine is None or self.result.status != "ok" or compiled.graphs == 0:
            return
        if self.job.kept_packages or not (compiled.cold or compiled.partly or self.job.cache_folder):
            return
        self.events.provisional(self.result_so_far(), "check", 0.95, code="compile_again")
        spec = replace(self.spec, threads=machine.threads) if self.workload.device.type == "cpu" else self.spec
        source = "the package" if self.package is not None else "the filled cache"
        with self.errors_as_caveats(f"The first call from {source} could not be measured"):
            warm = first_call.measure_elsewhere(spec, self.job.seen_file, self.package)
            self.set_part_fields("compilation", warm=warm)
