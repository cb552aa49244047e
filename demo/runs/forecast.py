"""Forecasts how long a run or a sweep will take, and whether a run will not fit in memory.

The time is the median of earlier runs with the same settings on this machine, else a guess by the parameter count.
Not covered: a filled compile cache, the download of weights, and other programs' load.
"""

import dataclasses
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ..core import format as fmt
from ..core.catalog import Checkpoint, find
from ..core.machine import HostInfo
from ..core.options import PUBLISHED_CALLS, TEXT_GENERATION, OptionValues, RunSpec
from ..core.result import RunResult

AVERAGED_RUNS = 5
"""How many of the latest runs with the same settings count: older runs may be of a slower torch."""
SECONDS_WITHOUT_CALLS, GUESSED_CALLS = 30.0, 30
"""Guessed seconds for start and compile, and guessed number of calls. Runs on two cores took 20 s to 5 min."""
OPERATIONS_A_SECOND = {"cpu": 50e9, "cuda": 3e12}
"""Guessed rates in float32, by device. Four models of the Transformers guide reached 17e9 to 170e9 on two cores."""
FLOAT64_CALLS, FLOAT64_OPERATIONS_A_SECOND = 6, 0.25e12
"""Calls of the float64 model that judges outputs in half formats on a GPU, and the peak rate of a T4 in float64. Cards
for training are faster, but until the first run nothing is known of this card."""
TEXT_SHARE = 0.1
"""The share of `OPERATIONS_A_SECOND` that a text model reaches: each token reads all weights for few operations."""


@dataclass(frozen=True)
class Forecast:
    seconds: float
    runs: int
    """How many earlier runs the forecast rests on; 0 for a rough guess."""


@dataclass(frozen=True)
class SweepForecast:
    cells: int
    seconds: float
    guessed: int
    """How many of the `cells`, the sweep's runs, have only a rough guess."""


def forecast_run(spec: RunSpec, checkpoint: Checkpoint | None, earlier: Sequence[RunResult]) -> Forecast | None:
    """Returns how long a run of `spec` will take: the median of the newest runs in `earlier` with these settings.

    Without such a run it is a guess from the number of parameters. None if that is not known, or for device 'auto'.

    - `checkpoint`: the catalogue's entry for the spec's checkpoint; None without an entry.
    - `earlier`: this machine's runs on the spec's device, newest first; [] for device 'auto'.
    """
    same = [run for run in _alike(spec, earlier) if run.speedup][:AVERAGED_RUNS]
    if same:
        return Forecast(spec.repeats * statistics.median(run.elapsed_seconds for run in same), len(same))
    if checkpoint is None or not checkpoint.parameters or spec.device == "auto":  # 'auto': the machine is not known yet
        return None
    return Forecast(_seconds_by_parameters(spec, checkpoint), 0)


def memory_doubt(spec: RunSpec, checkpoint: Checkpoint | None, stored: Sequence[RunResult], machine: HostInfo) -> str:
    """Returns a sentence if a run of `spec`, whose device is not 'auto', will not fit in memory; '' if not known.

    - The newest stored run of this machine with these settings ran out of memory; or
    - runs of them, on any machine, needed more at their peak than the device has (the median); or
    - the weights alone do. Activations are not counted: how large they are is known only after a run.
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
    """Returns the runs with the settings of `spec`, but for those that change neither time nor memory much."""
    alike: OptionValues = {"text": (), "repeats": 1}
    asked = dataclasses.replace(spec, **alike)
    return [run for run in stored if dataclasses.replace(run.spec, **alike) == asked]


def forecast_sweep(specs: Sequence[RunSpec], earlier: Sequence[RunResult], machine: HostInfo) -> SweepForecast:
    """Returns the sum of the forecasts for specs with device 'cpu' or 'cuda'. `earlier`: any runs, newest first."""
    here = {device: on_this_machine(earlier, machine, device) for device in {spec.device for spec in specs}}
    unknown = Forecast(2 * SECONDS_WITHOUT_CALLS, 0)  # a checkpoint whose parameters nobody has counted
    forecasts = [forecast_run(spec, find(spec.checkpoint), here[spec.device]) or unknown for spec in specs]
    return SweepForecast(
        len(specs), sum(forecast.seconds for forecast in forecasts), sum(not forecast.runs for forecast in forecasts)
    )


def on_this_machine(earlier: Sequence[RunResult], machine: HostInfo, device: str) -> list[RunResult]:
    """Returns the runs of `earlier` that were measured on this machine's `device`, 'cpu' or 'cuda'."""
    name = machine.gpu if device == "cuda" else machine.cpu
    return [
        run
        for run in earlier
        if run.spec.device == device and run.environment is not None and run.environment.device_name == name
    ]


def _seconds_by_parameters(spec: RunSpec, checkpoint: Checkpoint) -> float:
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
    return spec.repeats * (SECONDS_WITHOUT_CALLS + calls * call + exact)
