"""Forecasts how long a run or a sweep will take, and whether a run will not fit in memory.

1. With earlier runs of the same settings on this machine, the forecast adds the times of their parts, such as loading.
   The time of the first call comes from those runs that found the compile cache as this run will, empty or filled.
2. With earlier runs of the same model only, it adds the times of their parts, with a first call from an empty compile
   cache.
3. Otherwise it is a guess: the calls, from the model's size, and on a CPU the start and the compile, from the speed of
   this machine's compiler. The compile also depends on the checkpoint: `COMPILE_UNITS` knows eight, all others count as
   equal. On a GPU, or if the compiler was not measured, start and compile together are taken for 30 s.

The timing has a fixed duration. All other parts take longer while other programs use the cores (`cores.crowd`): a run
on a CPU waits for cores, and may have to compile for fewer threads. If other programs disturbed all of the earlier
runs, the times of these runs already include the delay. Not covered: the download of weights, and a compile cache that
was emptied after the last run.
"""

import dataclasses
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import islice

from ..core import cores, format as fmt
from ..core.catalog import Checkpoint, find
from ..core.cores import Crowd
from ..core.machine import HostInfo
from ..core.measurement import Compilation
from ..core.options import PUBLISHED_CALLS, TEXT_GENERATION, OptionValues, RunSpec
from ..core.result import RunResult

ALONE = Crowd()
AVERAGED_RUNS = 5
"""How many of the latest runs with the same settings (or model) count: older runs may be of a slower torch."""
SECONDS_WITHOUT_CALLS, GUESSED_CALLS = 30.0, 30
"""Guessed seconds for start and compile on a GPU, or if the compiler was not measured, and guessed number of calls.

For comparison: first runs on two quiet cores took 16 to 71 s (`benchmarks/results/estimates.md`)."""
START_UNITS, TIMING_SECONDS = 6.0, 4.0
"""Guessed times in a run besides its first call.

The first is for loading, checks and the start of a second process together, as a multiple of
`HostInfo.compiler_seconds`. The second is for the timing, in seconds."""
COMPILE_UNITS = {
    "shapes-vit": 4.5,
    "shapes-segformer": 10.0,
    "shapes-rtdetr": 25.0,
    "shapes-gemma": 17.0,
    "google/vit-base-patch16-224": 6.0,
    "microsoft/beit-base-patch16-224-pt22k-ft22k": 9.0,
    "microsoft/resnet-50": 6.0,
    "facebook/detr-resnet-50": 13.0,
}
OTHER_COMPILE_UNITS = 10.0
"""The guessed time of a first call with an empty compile cache, as a multiple of `HostInfo.compiler_seconds`.

It is for checkpoints that `COMPILE_UNITS` does not name. It is chosen, not measured: the median of the eight is 9.5.
The entries of `COMPILE_UNITS` come from the column "whole model" of `benchmarks/results/ways.md`, without the time of
inductor's instruction probe. Only shapes-gemma is not in this table: 17 is the geometric mean of 11.5 and 25, which
were measured on two machines."""
OPERATIONS_A_SECOND = {"cpu": 50e9, "cuda": 3e12}
"""Guessed rates in float32, by device. On two cores, four models of the Transformers guide reached 120e9 to 200e9 in
`benchmarks/results/ways.md`, and 17e9 to 170e9 in runs whose table was not kept."""
FLOAT64_CALLS, FLOAT64_OPERATIONS_A_SECOND = 6, 0.25e12
"""How many calls in float64 the forecast assumes for a 16-bit format on a GPU, and the peak rate of a T4 in float64.

A run calls the model in float64 only if compiled's outputs are beyond the tolerance: once, and two to five times more
if that call says "differ" (`parity.PERTURBED_RUNS`). Integers that differ need three more calls. Cards for training are
faster than a T4, but until the first run nothing is known of this machine's card."""
TEXT_SHARE = 0.1
"""The share of `OPERATIONS_A_SECOND` that a text model reaches: each token reads all weights for few operations."""


@dataclass(frozen=True)
class Forecast:
    seconds: float
    runs: int
    """How many earlier runs the forecast rests on; 0 for a rough guess."""
    same_settings: bool = True
    """True: the earlier runs had the settings of the new run. False: they had only its model."""
    compile_seconds: float | None = None
    """The part of `seconds` for one first call with its compile; None if that part is not known."""
    crowd: float = 1.0
    """How many times longer the run's parts take because of other programs, except for its timing."""


@dataclass(frozen=True)
class _Parts:
    """The seconds of one process of a run, divided into parts."""

    around: float
    """Seconds of start, loading, warm-up and checks together."""
    first_call: float
    timing: float
    again: float = 0.0
    """Seconds of a second process, which times the first call with a filled compile cache; 0 if there is none."""

    def forecast(self, spec: RunSpec, crowd: Crowd, runs: int, same: bool = True) -> Forecast:
        wait = cores.WAIT_SECONDS if _fewer_threads(spec, crowd) else 0.0
        each = self.timing + wait + crowd.factor * (self.around + self.first_call + self.again)
        return Forecast(spec.repeats * each, runs, same, crowd.factor * self.first_call, crowd.factor)


@dataclass(frozen=True)
class SweepForecast:
    cells: int
    seconds: float
    guessed: int
    """For how many of the `cells`, the runs that the sweep has yet to do, the time is only a rough guess."""


def forecast_run(
    spec: RunSpec,
    checkpoint: Checkpoint | None,
    earlier: Sequence[RunResult],
    compiler_seconds: float | None = None,
    crowd: Crowd = ALONE,
) -> Forecast | None:
    """Returns how long a run of `spec` will take; None if that is not known.

    Without an earlier run of the model, it is known only if the model's size is known and the device is not 'auto'.

    - `checkpoint`: the catalogue's entry for the spec's checkpoint; None if there is none.
    - `earlier`: this machine's runs on the spec's device, newest first; [] for device 'auto'.
    - `compiler_seconds`: processor time of this machine's C++ compiler for one program; None if not measured.
    - `crowd`: how much other programs use the cores, as `cores.crowd()` measures it.
    """
    alike = [run for run in _alike(spec, earlier) if run.speedup]
    if same := _quiet(alike):
        threads = _fewer_threads(spec, crowd)
        kept = not threads or any(threads / 2 <= (run.threads or 0) <= threads for run in alike)  # `threads_on`
        likely_spec = spec if kept else dataclasses.replace(spec, cache="empty")
        return _parts_of(likely_spec, same).forecast(spec, _not_counted(crowd, same), len(same))
    model = _quiet(run for run in earlier if run.speedup and _same_code(run.spec, spec))
    if model:
        parts, crowd = _parts_of(dataclasses.replace(spec, cache="empty"), model), _not_counted(crowd, model)
        return parts.forecast(spec, crowd, len(model), same=False)
    if checkpoint is None or not checkpoint.parameters or spec.device == "auto":  # 'auto': the machine is not known yet
        return None
    calls = _seconds_of_calls(spec, checkpoint)
    if spec.device == "cuda" or compiler_seconds is None:
        guess = _Parts(SECONDS_WITHOUT_CALLS, 0.0, calls).forecast(spec, crowd, 0)
        return dataclasses.replace(guess, compile_seconds=None)
    first_call = compiler_seconds * COMPILE_UNITS.get(checkpoint.id, OTHER_COMPILE_UNITS)
    return _Parts(compiler_seconds * START_UNITS, first_call, TIMING_SECONDS + calls).forecast(spec, crowd, 0)


def forecast_process(spec: RunSpec, machine: HostInfo, stored: Sequence[RunResult]) -> Forecast | None:
    """Returns the forecast for one process of a run that starts now. `stored`: any stored runs, newest first."""
    once, here = dataclasses.replace(spec, repeats=1), on_this_machine(stored, machine, spec.device)
    return forecast_run(once, find(spec.checkpoint), here, machine.compiler_seconds, cores.crowd())


def _fewer_threads(spec: RunSpec, crowd: Crowd) -> int | None:
    """Returns the most threads that torch can use: the number of cores that other programs leave free.

    Torch may use fewer: a number for which the compile cache has code is preferred (`WorkerJob.threads_on`). None if
    all cores are free or their number is not known, if the spec sets the number of threads, or if the run is not on the
    CPU.
    """
    return crowd.free if spec.device == "cpu" and spec.threads is None else None


def _quiet(runs: Iterable[RunResult]) -> list[RunResult]:
    """Returns those of the newest runs that other programs did not disturb, or all of the newest if none is left.

    The newest runs are the first `AVERAGED_RUNS`.
    """
    newest = list(islice(runs, AVERAGED_RUNS))
    return [run for run in newest if not _is_disturbed(run)] or newest


def _is_disturbed(run: RunResult) -> bool:
    return (run.others_share or 0.0) >= cores.BUSY_CPU


def _not_counted(crowd: Crowd, runs: list[RunResult]) -> Crowd:
    """Returns `crowd` without its factor if `runs` were disturbed: their times already include other programs.

    `runs`: as `_quiet` returned them.
    """
    return dataclasses.replace(crowd, factor=1.0) if any(map(_is_disturbed, runs)) else crowd


def _same_code(one: RunSpec, other: RunSpec) -> bool:
    """Returns whether both specs compile the same model in the same way, and time it by the same protocol.

    Number format, sizes, attention, memory format, `fullgraph` and `dynamic` may differ.
    """
    names = ("checkpoint", "task", "mode", "scope", "compiler", "freezing", "graph_break", "protocol")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _parts_of(spec: RunSpec, runs: Sequence[RunResult]) -> _Parts:
    """Returns the median seconds of each part of a process, such as the first call, over earlier `runs`.

    - Only those runs count that found the compile cache (empty or filled) as a run of `spec` will find it.
    - If there are none, all runs count. Their first calls with this state of the cache are taken, even if a second
      process of the run made them.
    - In this case, if the cache will be empty, the time of a second process is added. It makes a first call with a
      filled cache.
    """
    costs = [run.compilation for run in runs if run.compilation is not None]
    kept = spec.cached and spec.cache == "keep" and any(cost.warm is not None for cost in costs)  # they filled it
    alike = [run for run in runs if (cost := run.compilation) is not None and _began_with(cost, filled=kept)]
    parts = list(map(_measured_parts, alike or runs))
    median = _Parts(*(statistics.median(getattr(part, field.name) for part in parts) for field in fields(_Parts)))
    if alike:
        return median
    known = [cost.warm if kept else cost.cold for cost in costs]
    seconds = [cost.model_seconds for cost in known if cost is not None]
    first_call = statistics.median(seconds) if seconds else median.first_call
    again = 0.0 if kept else statistics.median(map(_second_process, runs))
    return dataclasses.replace(median, first_call=first_call, again=again)


def _began_with(cost: Compilation, filled: bool) -> bool:
    return not cost.partly and (cost.cache == "warm") == filled


def _second_process(run: RunResult) -> float:
    """Returns the seconds of a process that times a first call with a filled compile cache; 0 if they are not known."""
    if run.compilation is None or run.compilation.warm is None:
        return 0.0
    start = run.start_up.import_seconds + run.start_up.load_seconds if run.start_up is not None else 0.0
    return start + run.compilation.warm.first_call_seconds


def _measured_parts(run: RunResult) -> _Parts:
    cost = run.compilation
    own = min(cost.first_call_seconds, run.elapsed_seconds) if cost is not None else 0.0
    had_second = cost is not None and cost.warm is not None and not cost.warm.run_id and cost.cache != "warm"
    again = _second_process(run) if had_second else 0.0
    timing = run.timing_seconds or 0.0
    return _Parts(max(0.0, run.elapsed_seconds - own - again - timing), own, timing, again)


def memory_doubt(spec: RunSpec, checkpoint: Checkpoint | None, stored: Sequence[RunResult], machine: HostInfo) -> str:
    """Returns why a run of `spec`, whose device is not 'auto', will not fit in memory, as a sentence; '' if it may fit.

    One of these reasons is enough:
    - The newest stored run of this machine with these settings ran out of memory.
    - The median peak of stored runs with these settings, on any machine, is more than the device's memory.
    - No peak is known, and the weights alone need more than the device's memory.
    """
    here = on_this_machine(_alike(spec, stored), machine, spec.device)
    ended = (run.status for run in here if run.status in ("ok", "out_of_memory"))
    if next(ended, "") == "out_of_memory":
        return "It will not fit: the last run with these settings ran out of memory here."
    name, memory = ("GPU", machine.gpu_memory_bytes) if spec.device == "cuda" else ("machine", machine.memory_bytes)
    sides = [[run.eager, run.compiled] for run in _alike(spec, stored) if run.status == "ok"]
    peaks = [max((side.peak_memory_bytes or 0) for side in both if side is not None) for both in sides if any(both)]
    needed, what = statistics.median(filter(None, peaks)) if any(peaks) else 0.0, "runs with these settings needed"
    if not needed and checkpoint is not None:
        needed = checkpoint.parameters * (2 if spec.dtype in ("float16", "bfloat16") else 4)
        what = "its weights alone take"
    if memory is None or needed <= memory:
        return ""
    return f"It will not fit: {what} {fmt.size(needed)}, and the {name} has {fmt.size(memory)}."


def _alike(spec: RunSpec, stored: Sequence[RunResult]) -> list[RunResult]:
    """Returns the runs with the settings of `spec`. Text queries and repeats may differ: they change little."""
    alike: OptionValues = {"text": (), "repeats": 1}
    settings = dataclasses.replace(spec, **alike)
    return [run for run in stored if dataclasses.replace(run.spec, **alike) == settings]


def forecast_sweep(
    specs: Sequence[RunSpec], earlier: Sequence[RunResult], machine: HostInfo, crowd: Crowd = ALONE
) -> SweepForecast:
    """Returns the sum of the forecasts for `specs`. Their device must be 'cpu' or 'cuda', not 'auto'.

    `earlier`: any runs, newest first. `crowd`: how much other programs use the cores, as `cores.crowd()` measures it.
    """
    here = {device: on_this_machine(earlier, machine, device) for device in {spec.device for spec in specs}}
    unknown = Forecast(2 * SECONDS_WITHOUT_CALLS, 0)  # a checkpoint whose parameters nobody has counted
    forecasts = [
        forecast_run(spec, find(spec.checkpoint), here[spec.device], machine.compiler_seconds, crowd) or unknown
        for spec in specs
    ]
    return SweepForecast(len(specs), sum(each.seconds for each in forecasts), sum(not each.runs for each in forecasts))


def on_this_machine(earlier: Sequence[RunResult], machine: HostInfo, device: str) -> list[RunResult]:
    """Returns the runs of `earlier` that were measured on this machine's `device`, 'cpu' or 'cuda'."""
    name = machine.gpu if device == "cuda" else machine.cpu
    return [
        run
        for run in earlier
        if run.spec.device == device and run.environment is not None and run.environment.device_name == name
    ]


def _seconds_of_calls(spec: RunSpec, checkpoint: Checkpoint) -> float:
    """Returns a guess of the seconds of all calls in a run together, from the operations that one call needs."""
    text = spec.task == TEXT_GENERATION
    # As in a ViT: two operations (multiply, add) for each weight and each patch of 16 x 16 pixels, or each token.
    patches = 1 if text else math.prod(checkpoint.input_size) / 256
    operations = 2.0 * checkpoint.parameters * spec.batch_size * patches
    call = operations / OPERATIONS_A_SECOND[spec.device] / (TEXT_SHARE if text else 1)
    calls = 10 * spec.tokens if text else GUESSED_CALLS
    if spec.protocol == "as published":
        calls += 2 * PUBLISHED_CALLS
    elif spec.iterations is not None:
        calls += 3 * spec.iterations
    exact = 0.0
    if spec.device == "cuda" and spec.dtype in ("float16", "bfloat16"):
        exact = FLOAT64_CALLS * operations / FLOAT64_OPERATIONS_A_SECOND
    return calls * call + exact
