"""How long a run, or the runs of a sweep, will take, how much memory a run will need, and why it may be of no use.

The median of earlier runs of this machine with the same settings; else one rough rule by the model's parameters; else
nothing. Not covered: how far a run may be from it, that a run after the first finds a filled compile cache, the
download of weights, and the load by other programs.
"""

import dataclasses
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from demo.core.catalog import Checkpoint, find
from demo.core.machine import HostInfo
from demo.core.refusals import refusal
from demo.core.result import RunResult
from demo.core.spec import PUBLISHED_CALLS, TEXT_GENERATION, RunSpec

REFUSED = ("no gpu", "no tf32", "no bfloat16")
"""The refusals of `demo.core.refusals` that the page tells as doubts."""

NEWEST = 5
"""How many of the latest runs with the same settings count: an older torch may have been slower."""
SECONDS_WITHOUT_CALLS, CALLS = 30.0, 30
"""Start, compile and what surrounds the model; and the calls of a slow model. Seen on two cores: 20 s to 5 min."""
OPERATIONS_A_SECOND = {"cpu": 50e9, "cuda": 3e12}
"""Rates of float32: four models of the guide reached 17 to 170 GFLOP/s on two cores."""
TEXT_SHARE = 0.1
"""Share of that rate that a text model reaches: each step reads every weight for a few operations."""
PROCESS_BYTES, BYTES_A_PIXEL = 430e6, 400.0
"""Python, torch and transformers on a CPU; activations of one picture for each pixel of the model's input."""
TYPICAL_PARAMETERS, TYPICAL_INPUT = 50_000_000, (224, 224)
"""Assumed in a sweep for a checkpoint whose parameters nobody has counted."""


@dataclass(frozen=True)
class Forecast:
    seconds: float
    """Of the whole run with all its repeats, from the click."""
    memory_bytes: float
    """Peak memory as in a result's `peak_memory_bytes`: the whole process on a CPU, what torch allocated on a GPU."""
    least_bytes: float
    """It will not need less."""
    basis: Literal["same", "parameters"]
    runs: int = 0
    """How many earlier runs it rests on."""


@dataclass(frozen=True)
class SweepForecast:
    """How long the cells that are still to be run will take, one after another."""

    cells: int
    seconds: float
    guessed: int
    """Cells whose settings were never run on this device: their share is a rough guess."""


def forecast(spec: RunSpec, checkpoint: Checkpoint | None, earlier: Sequence[RunResult]) -> Forecast | None:
    """What to expect of `spec`, whose device is 'cpu' or 'cuda'. None (no estimate) where it has not been run here and
    the parameters of the checkpoint are not known.

    `earlier` are this machine's runs on that device, newest first (see `on_this_machine`).
    """
    asked = comparable(spec)
    same = [run for run in earlier if run.status == "ok" and run.speedup and comparable(run.spec) == asked][:NEWEST]
    if same:
        peaks = [float(max(one.peak_memory_bytes or 0 for one in (run.eager, run.compiled) if one)) for run in same]
        seconds = statistics.median(run.elapsed_seconds for run in same)
        return Forecast(spec.repeats * seconds, statistics.median(peaks), min(peaks), "same", len(same))
    if checkpoint is None or not checkpoint.parameters:
        return None
    return _by_parameters(spec, checkpoint.parameters, checkpoint.input_size)


def forecast_sweep(specs: Sequence[RunSpec], earlier: Sequence[RunResult], machine: HostInfo) -> SweepForecast:
    """The seconds of `forecast`, added up. The specs' device is 'cpu' or 'cuda'; `earlier` is newest first."""
    here = {device: on_this_machine(earlier, machine, device) for device in {spec.device for spec in specs}}
    found = [
        forecast(spec, find(spec.checkpoint), here[spec.device])
        or _by_parameters(spec, TYPICAL_PARAMETERS, TYPICAL_INPUT)
        for spec in specs
    ]
    guessed = sum(one.basis == "parameters" for one in found)
    return SweepForecast(len(specs), sum(one.seconds for one in found), guessed)


def on_this_machine(earlier: Sequence[RunResult], machine: HostInfo, device: str) -> list[RunResult]:
    """The runs of `earlier` that were measured on this machine's 'cpu' or 'cuda' device."""
    name = machine.gpu if device == "cuda" else machine.cpu
    return [
        run
        for run in earlier
        if run.spec.device == device and run.environment is not None and run.environment.device_name == name
    ]


def doubts(
    spec: RunSpec, machine: HostInfo, expected: Forecast | None, earlier: Sequence[RunResult]
) -> tuple[str, ...]:
    """Why these settings are known to be of no use here, most serious first. `earlier` is as for `forecast`."""
    on_gpu, refused, asked = spec.device == "cuda", refusal(spec, machine), comparable(spec)
    memory = (machine.gpu_memory_bytes if on_gpu else machine.memory_bytes) or math.inf
    least, likely = (expected.least_bytes, expected.memory_bytes) if expected is not None else (0.0, 0.0)
    same = [run.speedup.verdict for run in earlier if comparable(run.spec) == asked and run.speedup is not None]
    found = {
        **{name: refused is not None and refused.name == name for name in REFUSED},
        "will not fit": least > memory,
        "may not fit": least <= memory and likely > 0.9 * memory,
        "no cuda graphs on a cpu": not on_gpu and spec.mode == "reduce-overhead",
        "float16 on a cpu": not on_gpu and spec.dtype == "float16",
        "threads on a gpu": on_gpu and machine.gpu is not None and spec.threads is not None,
        "lost before": bool(same) and all(verdict == "slower" for verdict in same[:NEWEST]),
    }
    return tuple(name for name, holds in found.items() if holds)


def comparable(spec: RunSpec) -> RunSpec:
    """The queries of a zero-shot detector change neither time nor memory much; repeats are processes of their own."""
    return dataclasses.replace(spec, text=(), repeats=1)


def _by_parameters(spec: RunSpec, parameters: int, input_size: tuple[int, int]) -> Forecast:
    """`input_size` is the height and width of the model's input in pixels."""
    pixels, text = math.prod(input_size), spec.task == TEXT_GENERATION
    # two operations for each weight and each patch of 16 x 16 pixels, as in a ViT; or each token
    operations = 2.0 * parameters * spec.batch_size * (1 if text else pixels / 256)
    call = operations / OPERATIONS_A_SECOND[spec.device] / (TEXT_SHARE if text else 1)
    calls = 10 * spec.tokens if text else CALLS
    if spec.protocol == "as published":
        calls += 2 * PUBLISHED_CALLS
    elif spec.iterations is not None:
        calls += 3 * spec.iterations
    seconds = spec.repeats * (SECONDS_WITHOUT_CALLS + calls * call)
    width = 2 if spec.dtype in ("float16", "bfloat16") else 4
    fixed = width * parameters + (PROCESS_BYTES if spec.device == "cpu" else 0.0)
    activations = 0.0 if text else spec.batch_size * pixels * BYTES_A_PIXEL * width / 4
    return Forecast(seconds, fixed + activations, fixed, "parameters")
