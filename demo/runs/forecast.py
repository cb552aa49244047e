"""How long a run will take and how much memory its calls will need, said before it starts, and what it rests on.

Earlier runs of this machine count first: those of the same settings, else those of the same checkpoint, scaled. Without
any, parameters, input and batch size give a rough range. A range is meant to hold nine runs in ten; it is
no interval of confidence, because nobody can know the next model that somebody names.
"""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from demo.core.result import PUBLISHED_CALLS, Checkpoint, Machine, RunResult, RunSpec

Basis = Literal["same", "alike", "parameters"]
Doubt = Literal[
    "no gpu",
    "no cuda graphs on a cpu",
    "few multiprocessors",
    "float16 on a cpu",
    "no tf32",
    "no bfloat16",
    "threads on a gpu",
    "lost before",
    "will not fit",
    "may not fit",
]

NEWEST = 5
"""So many of the latest runs with the same settings count: an older torch may have been slower."""
ENOUGH = 4
"""From so many on, the runs themselves show how long the timing takes."""
WARM_SHARE = 0.15
"""A first call from a filled cache takes about this share of a cold one: 0.6 of 5.7 s and 6.5 of 54 s on two cores."""
SMALL = 1_500_000
"""Parameters. A model below it is one that somebody trained to be small, such as those that are bundled."""
COMPILE_SECONDS_SMALL, COMPILE_SECONDS = (4.0, 15.0, 80.0), (10.0, 40.0, 300.0)
"""A cold compile: 5.7 s for a four-layer ViT and 54 s for a small RT-DETR; 20 to 40 s for most of the guide's models
and 260 s for Mask2Former. All on two cores."""
AUTOTUNE_TIMES = (1.0, 2.0, 6.0)
"""So many times longer where kernels are tried out."""
START_SECONDS = (1.0, 3.0, 15.0)
"""Weights from the disk, the picture, the process. Not a download."""
FLOPS_A_CORE, FLOPS_OF_A_GPU = 27e9, 3e12
"""What float32 inference reaches, by `_operations`: four models of the guide gave 17 to 170 GFLOP/s on two cores."""
LAUNCHES_SECONDS = 0.005
"""A call on a GPU is hardly shorter, however small the model: it waits for launches."""
WIDE = 4.0
"""A rough estimate may be off by this factor, either way."""
PROCESS_BYTES = 430e6
"""Python, torch and transformers in memory, which a resident set on a CPU holds too."""
BYTES_A_PIXEL = 400.0
"""Activations of one picture in float32, by the area of the model's input: 100 numbers a pixel."""

SMALL_GPUS = {"A2": 10, "P4": 20, "T4": 40, "P100": 56, "L4": 58}
"""Multiprocessors, from NVIDIA's data sheets: inductor's matrix-product tuning wants 68."""
BEFORE_AMPERE = re.compile(r"\b(T4|T4G|V100|P100|P40|P4|K80|M60|GTX|RTX 20\d\d|Quadro RTX|TITAN)\b", re.IGNORECASE)
"""Below compute capability 8.0: neither TensorFloat-32 nor bfloat16 arithmetic."""


@dataclass(frozen=True)
class Range:
    low: float
    likely: float
    high: float

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.likely + other.likely, self.high + other.high)

    def times(self, low: float, likely: float, high: float) -> Range:
        return Range(self.low * low, self.likely * likely, self.high * high)


@dataclass(frozen=True)
class Forecast:
    seconds: Range
    """Of the whole run, from the press of the button."""
    memory_bytes: Range
    """As a result's `peak_memory_bytes` counts: on a CPU the whole process, on a GPU what torch gave out."""
    basis: Basis
    runs: int
    """Earlier runs that it rests on."""


def forecast(spec: RunSpec, checkpoint: Checkpoint | None, earlier: Sequence[RunResult], cores: int) -> Forecast | None:
    """What to expect of `spec`, whose device is 'cpu' or 'cuda'; None where nothing at all is known of the checkpoint.

    `earlier` are this machine's runs on that device, newest first (see `on_this_machine`); `cores` the CPU's.
    """
    done = [run for run in earlier if run.status == "ok" and run.eager and run.compiled and run.compilation]
    same = [run for run in done if _asked(run.spec) == _asked(spec)]
    if same:
        return _from_same(spec, same)
    alike = [run for run in done if run.spec.checkpoint == spec.checkpoint]
    if alike:
        return _from_alike(spec, alike)
    if checkpoint is None or not checkpoint.parameters:
        return None
    return _from_parameters(spec, checkpoint, cores)


def on_this_machine(earlier: Sequence[RunResult], device_name: str, device: str) -> list[RunResult]:
    """The runs of `earlier` that were measured on this device."""
    return [
        run
        for run in earlier
        if run.spec.device == device and run.environment is not None and run.environment.device_name == device_name
    ]


def _asked(spec: RunSpec) -> RunSpec:
    """What decides time and memory: the words looked for do not."""
    return dataclasses.replace(spec, text=())


def _from_same(spec: RunSpec, same: Sequence[RunResult]) -> Forecast:
    newest = same[:NEWEST]
    memory = _around([_peak(run) for run in newest], 1.15)
    warm = [run for run in newest if run.compilation and run.compilation.cache == "warm"]
    known = newest if spec.cache == "empty" or not warm else warm
    if spec.cache == "empty" or warm:
        seconds = _around([run.elapsed_seconds for run in known], 1.2)
    else:  # only cold runs so far: they have filled the cache
        latest = newest[0]
        cold = latest.compilation.first_call_seconds if latest.compilation else 0.0
        elapsed = latest.elapsed_seconds
        seconds = Range(0.8 * (elapsed - cold), elapsed - (1 - WARM_SHARE) * cold, 1.2 * elapsed)
    if len(known) < ENOUGH and spec.iterations is None and spec.protocol == "interleaved":
        # The timing may end sooner when the answer is sure, or take twice as long while it is not.
        timed = [run.timing_seconds or spec.most_seconds for run in known]
        sooner = max(0.0, min(timed) - 0.3 * spec.most_seconds)
        later = max(0.0, 2 * spec.most_seconds - max(timed))
        seconds = Range(max(0.5, seconds.low - sooner), seconds.likely, seconds.high + later)
    return Forecast(seconds, memory, "same", len(newest))


def _around(values: Sequence[float], factor: float) -> Range:
    return Range(min(values) / factor, statistics.median(values), max(values) * factor)


def _peak(run: RunResult) -> float:
    """The larger of the two peaks, in bytes; 0 where the system did not tell."""
    return float(max(side.peak_memory_bytes or 0 for side in (run.eager, run.compiled) if side is not None))


def _from_alike(spec: RunSpec, alike: Sequence[RunResult]) -> Forecast:
    """From the run of the same checkpoint whose settings are nearest: its calls scaled by the batch, compiled anew."""
    nearest = min(alike, key=lambda run: _distance(spec, run.spec))
    eager, compiled, compilation = nearest.eager, nearest.compiled, nearest.compilation
    if eager is None or compiled is None or compilation is None:  # `forecast` has seen to it
        raise ValueError("the nearest run was not measured")
    ratio = spec.batch_size / nearest.spec.batch_size
    # A GPU with room left takes as long for a larger batch; a full one, or a CPU, longer in proportion, and more so
    # where the batch outgrows a cache.
    grown = (min(1.0, ratio) / 1.5, ratio, max(1.0, ratio) * 1.5)
    doubt = 1.0 if spec.dtype == nearest.spec.dtype else WIDE
    both = Range(*(eager.median_seconds,) * 3).times(grown[0] / doubt, grown[1], grown[2] * doubt)
    cold = compilation.known_costs.get("cold", compilation.first_call_seconds / WARM_SHARE)
    compiling = Range(0.1 * cold, 0.8 * cold, 1.6 * cold)
    if spec.mode != nearest.spec.mode:
        compiling = _autotuned(spec, compiling.times(0.5, 1.0, 1.5))
    surplus = nearest.elapsed_seconds - compilation.first_call_seconds - (nearest.timing_seconds or 0.0)
    start = Range(0.5, min(max(surplus / 2, 0.5), START_SECONDS[1]), max(surplus, START_SECONDS[1]))
    fixed = _fixed_bytes(spec, 0)
    activations = max(_peak(nearest) - fixed, 0.02 * _peak(nearest))
    bytes_ = spec.batch_size / nearest.spec.batch_size * _width(spec) / _width(nearest.spec)
    memory = Range(
        0.8 * (fixed + activations * min(1.0, bytes_)),
        fixed + activations * bytes_,
        1.25 * (fixed + activations * max(1.0, bytes_)),
    )
    return Forecast(start + compiling + _timing(spec, both), memory, "alike", len(alike))


def _distance(spec: RunSpec, other: RunSpec) -> tuple[bool, bool, float]:
    ratio = spec.batch_size / other.batch_size
    return spec.mode != other.mode, spec.dtype != other.dtype, max(ratio, 1 / ratio)


def _from_parameters(spec: RunSpec, checkpoint: Checkpoint, cores: int) -> Forecast:
    height, width = checkpoint.input_size
    work = spec.batch_size * _operations(checkpoint)
    if spec.device == "cuda":
        call = LAUNCHES_SECONDS + work / FLOPS_OF_A_GPU * (1.0 if spec.dtype == "float32" else 0.4)
    else:
        call = work / FLOPS_A_CORE / min(spec.threads or cores, cores)
    start = Range(*START_SECONDS)
    compiling = _autotuned(spec, Range(*(COMPILE_SECONDS_SMALL if checkpoint.parameters < SMALL else COMPILE_SECONDS)))
    fixed = _fixed_bytes(spec, checkpoint.parameters)
    activations = spec.batch_size * height * width * BYTES_A_PIXEL * _width(spec) / 4
    memory = Range(0.9 * fixed + activations / WIDE, 1.1 * fixed + activations, 1.6 * fixed + activations * WIDE)
    return Forecast(start + compiling + _timing(spec, Range(call / WIDE, call, call * WIDE)), memory, "parameters", 0)


def _operations(checkpoint: Checkpoint) -> float:
    """Floating-point operations of one picture, as if each weight met each patch of 16 x 16 pixels: right for a ViT."""
    height, width = checkpoint.input_size
    return 2.0 * checkpoint.parameters * height * width / 256


def _autotuned(spec: RunSpec, compiling: Range) -> Range:
    return compiling.times(*AUTOTUNE_TIMES) if spec.mode.startswith("max-autotune") else compiling


def _timing(spec: RunSpec, call: Range) -> Range:
    """Warm-up, timing and check, from the seconds of one call; eager, its control and compiled together are three."""
    if spec.protocol == "as published":
        timed = call.times(*(2.0 * PUBLISHED_CALLS,) * 3)
    elif spec.iterations is not None:
        timed = call.times(*(3.0 * spec.iterations,) * 3)
    else:
        least = call.times(30, 30, 30)
        most = spec.most_seconds
        timed = Range(max(min(1.0, most), least.low), max(most, least.likely), max(2 * most, least.high))
    around = call.times(6, 15, 30)  # three warm-ups, memory, outputs, a float64 reference
    return timed + around + Range(0.5, 3.0, 8.0)


def _fixed_bytes(spec: RunSpec, parameters: int) -> float:
    """What does not grow with the batch."""
    return parameters * _width(spec) + (0.0 if spec.device == "cuda" else PROCESS_BYTES)


def _width(spec: RunSpec) -> int:
    """Bytes of one number."""
    return 2 if spec.dtype in ("float16", "bfloat16") else 4


def doubts(
    spec: RunSpec, machine: Machine, expected: Forecast | None, earlier: Sequence[RunResult]
) -> tuple[Doubt, ...]:
    """Why this choice is known to be pointless here, most serious first.

    `spec.device` is 'cpu' or 'cuda'; `earlier` are this machine's runs on that device, newest first.
    """
    found: list[Doubt] = []
    gpu = machine.gpu if spec.device == "cuda" else None
    if spec.device == "cuda" and gpu is None:
        return ("no gpu",)
    memory = machine.memory_bytes if gpu is None else machine.gpu_memory_bytes or _gpu_bytes(earlier)
    if expected is not None and memory:
        if expected.memory_bytes.low > memory:
            found.append("will not fit")
        elif expected.memory_bytes.likely > 0.9 * memory:
            found.append("may not fit")
    if gpu is None:
        if spec.mode == "reduce-overhead":
            found.append("no cuda graphs on a cpu")
        if spec.dtype == "float16":
            found.append("float16 on a cpu")
    elif spec.mode.startswith("max-autotune") and multiprocessors(gpu) is not None:
        found.append("few multiprocessors")
    if spec.dtype == "tf32" and (gpu is None or BEFORE_AMPERE.search(gpu)):
        found.append("no tf32")
    if spec.dtype == "bfloat16" and gpu is not None and BEFORE_AMPERE.search(gpu):
        found.append("no bfloat16")
    if spec.threads is not None and gpu is not None:
        found.append("threads on a gpu")
    same = [run.speedup.verdict for run in earlier if _asked(run.spec) == _asked(spec) and run.speedup is not None]
    if same and all(verdict == "slower" for verdict in same[:NEWEST]):
        found.append("lost before")
    return tuple(found)


def _gpu_bytes(earlier: Sequence[RunResult]) -> int | None:
    """The GPU's memory, as an earlier run on it saw it: for a machine that could not say."""
    return next((run.environment.memory_bytes for run in earlier if run.environment is not None), None)


def multiprocessors(gpu: str) -> int | None:
    """Of a GPU that is known to have too few for tuning; None for any other."""
    return next((count for name, count in SMALL_GPUS.items() if name in gpu.split()), None)
