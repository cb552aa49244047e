"""How long a run, or the runs of a sweep, will take, and how much memory a run will need.

An estimate rests on earlier runs of this machine: on those with the same settings, else on those of the same
checkpoint, scaled. Without any it is a rough range from parameters, input and batch size; for a text model, each of
whose steps reads every weight, from parameters, tokens and batch size.

Covered: a range is meant to hold nine of ten runs. Not covered: it is no confidence interval, since the next model that
somebody names can behave unlike all that was measured; the download of weights; the load by other programs.
"""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from demo.core.catalog import Checkpoint, find
from demo.core.machine import HostInfo, usable_cores
from demo.core.result import RunResult
from demo.core.spec import PUBLISHED_CALLS, TEXT_GENERATION, RunSpec

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
"""How many of the latest runs with the same settings count: an older torch may have been slower."""
ENOUGH = 4
"""With this many runs or more, their spread already shows how much the duration of the timing varies."""
WARM_SHARE = 0.15
"""A first call from a filled cache takes about this share of a cold one: 0.6 of 5.7 s and 6.5 of 54 s on two cores."""
SMALL = 1_500_000
"""Parameters. Models below it were made to be small, such as the bundled ones."""
COMPILE_SECONDS_SMALL, COMPILE_SECONDS = (4.0, 15.0, 80.0), (10.0, 40.0, 300.0)
"""A cold compile: 5.7 s for a four-layer ViT and 54 s for a small RT-DETR; 20 to 40 s for most of the guide's models
and 260 s for Mask2Former. All on two cores."""
AUTOTUNE_TIMES = (1.0, 2.0, 6.0)
"""How many times longer a compile takes in the modes that try kernels out."""
START_SECONDS = (1.0, 3.0, 15.0)
"""Starting the process, reading the weights from the disk and the picture. Not a download."""
FLOPS_A_CORE, FLOPS_OF_A_GPU = 27e9, 3e12
"""FLOP/s of float32 inference, counted by `_operations`: four models of the guide reached 17 to 170 GFLOP/s on two
cores."""
LAUNCHES_SECONDS = 0.005
"""The shortest call on a GPU: launching the kernels takes this long even for a small model. So does a text model's step
anywhere, with few numbers in each of its operations: 3 ms for a small Gemma on two cores."""
BYTES_A_SECOND, BYTES_A_SECOND_OF_A_GPU = 10e9, 300e9
"""In which a step reads its weights: two channels of a CPU's memory; a T4's 320 GB/s."""
WIDE = 4.0
"""A rough estimate may be wrong by this factor in either direction."""
PROCESS_BYTES = 430e6
"""Python, torch and transformers, which count in the peak memory of a run on a CPU."""
BYTES_A_PIXEL = 400.0
"""Activations of one picture in float32 for each pixel of the model's input: 100 numbers."""
KEPT_A_PARAMETER = 2e-5
"""Numbers in a text model's cache for each token and parameter: 4e-6 in Gemma 2B, 4e-5 in LLaMA 7B."""
CHARACTERS_A_TOKEN = 4
TYPICAL_PARAMETERS, TYPICAL_INPUT = 50_000_000, (224, 224)
"""Assumed in a sweep for a checkpoint whose parameters nobody has counted."""

SMALL_GPUS = {"A2": 10, "P4": 20, "T4": 40, "P100": 56, "L4": 58}
"""Multiprocessors, from NVIDIA's data sheets: inductor tunes matrix products only on GPUs with 68 or more."""
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
    """Of the whole run with all its repeats, from the click."""
    memory_bytes: Range
    """Peak memory as in a result's `peak_memory_bytes`: the whole process on a CPU, what torch allocated on a GPU."""
    basis: Basis
    runs: int
    """How many earlier runs it rests on."""


@dataclass(frozen=True)
class SweepForecast:
    """How long the cells that are still to be run will take, one after another."""

    cells: int
    seconds: float
    guessed: int
    """Cells whose checkpoint was never run on this device: their share is a rough guess."""


def forecast(spec: RunSpec, checkpoint: Checkpoint | None, earlier: Sequence[RunResult], cores: int) -> Forecast | None:
    """What to expect of `spec`, whose device is 'cpu' or 'cuda'. None (no estimate) where nothing like it has been run
    here and the parameters of the checkpoint are not known.

    `earlier` are this machine's runs on that device, newest first (see `on_this_machine`); `cores` are the CPU's.
    """
    one = _of_one_process(spec, checkpoint, earlier, cores)
    return one and dataclasses.replace(one, seconds=one.seconds.times(*(spec.repeats,) * 3))


def _of_one_process(
    spec: RunSpec, checkpoint: Checkpoint | None, earlier: Sequence[RunResult], cores: int
) -> Forecast | None:
    alike = [run for run in earlier if run.spec.checkpoint == spec.checkpoint and _is_measured(run)]
    asked = _comparable(spec)
    same = [run for run in alike if _comparable(run.spec) == asked]
    if same:
        return _from_same(spec, same)
    if alike:
        return _from_alike(spec, alike)
    if checkpoint is None or not checkpoint.parameters:
        return None
    return _from_parameters(spec, checkpoint.parameters, checkpoint.input_size, cores)


def forecast_sweep(specs: Sequence[RunSpec], earlier: Sequence[RunResult], machine: HostInfo) -> SweepForecast:
    """The likely seconds of `forecast`, added up. The specs' device is 'cpu' or 'cuda'; `earlier` is newest first.

    Compiling ahead, which saves time, is not taken into account.
    """
    cores = usable_cores()
    by_checkpoint: dict[tuple[str, str], list[RunResult]] = defaultdict(list)
    for device in {spec.device for spec in specs}:
        for run in on_this_machine(earlier, machine, device):
            by_checkpoint[device, run.spec.checkpoint].append(run)
    seconds, guessed = 0.0, 0
    for spec in specs:
        checkpoint = find(spec.checkpoint)
        expected = forecast(spec, checkpoint, by_checkpoint[spec.device, spec.checkpoint], cores)
        if expected is None:
            seconds += _from_parameters(spec, TYPICAL_PARAMETERS, TYPICAL_INPUT, cores).seconds.likely * spec.repeats
        else:
            seconds += expected.seconds.likely
        guessed += expected is None or expected.basis == "parameters"
    return SweepForecast(len(specs), seconds, guessed)


def on_this_machine(earlier: Sequence[RunResult], machine: HostInfo, device: str) -> list[RunResult]:
    """The runs of `earlier` that were measured on this machine's 'cpu' or 'cuda' device."""
    name = machine.gpu if device == "cuda" else machine.cpu
    return [
        run
        for run in earlier
        if run.spec.device == device and run.environment is not None and run.environment.device_name == name
    ]


def _is_measured(run: RunResult) -> bool:
    return run.status == "ok" and all((run.eager, run.compiled, run.compilation))


def _comparable(spec: RunSpec) -> RunSpec:
    """The queries of a zero-shot detector change neither time nor memory much; repeats are processes of their own."""
    return dataclasses.replace(spec, text=(), repeats=1)


def _from_same(spec: RunSpec, same: Sequence[RunResult]) -> Forecast:
    newest = same[:NEWEST]
    memory = _around([_peak(run) for run in newest], 1.15)
    warm = [run for run in newest if run.compilation and run.compilation.cache == "warm"]
    always_cold = spec.cache == "empty" or not spec.cached
    comparable = newest if always_cold or not warm else warm
    if always_cold or warm:
        seconds = _around([run.elapsed_seconds for run in comparable], 1.2)
    else:  # all earlier runs were cold, but they have filled the cache
        latest = newest[0]
        cold = latest.compilation.first_call_seconds if latest.compilation else 0.0
        elapsed = latest.elapsed_seconds
        seconds = Range(0.8 * (elapsed - cold), elapsed - (1 - WARM_SHARE) * cold, 1.2 * elapsed)
    if len(comparable) < ENOUGH and spec.iterations is None and spec.protocol == "interleaved":
        # Timing ends early when the interval is narrow, and takes twice as long while the verdict is unsure.
        timed = [run.timing_seconds or spec.most_seconds for run in comparable]
        sooner = max(0.0, min(timed) - 0.3 * spec.most_seconds)
        later = max(0.0, 2 * spec.most_seconds - max(timed))
        seconds = Range(max(0.5, seconds.low - sooner), seconds.likely, seconds.high + later)
    return Forecast(seconds, memory, "same", len(newest))


def _around(values: Sequence[float], factor: float) -> Range:
    return Range(min(values) / factor, statistics.median(values), max(values) * factor)


def _peak(run: RunResult) -> float:
    """The larger of the two peaks, in bytes; 0 where the system gave none."""
    return float(max(side.peak_memory_bytes or 0 for side in (run.eager, run.compiled) if side is not None))


def _from_alike(spec: RunSpec, alike: Sequence[RunResult]) -> Forecast:
    """From the run of the same checkpoint with the nearest settings: its calls scaled by the batch size, and a cold
    compile."""
    nearest = min(alike, key=lambda run: _distance(spec, run.spec))
    eager, compiled, compilation = nearest.eager, nearest.compiled, nearest.compilation
    if eager is None or compiled is None or compilation is None:  # excluded by `_is_measured`
        raise ValueError("the nearest run was not measured")
    ratio = spec.batch_size / nearest.spec.batch_size
    # A GPU with idle multiprocessors takes no longer for a larger batch. A busy one, or a CPU, takes longer in
    # proportion, and even more where the batch no longer fits into a cache.
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


def _distance(spec: RunSpec, other: RunSpec) -> tuple[bool, bool, bool, float]:
    ratio = spec.batch_size / other.batch_size
    return spec.compiler != other.compiler, spec.mode != other.mode, spec.dtype != other.dtype, max(ratio, 1 / ratio)


def _from_parameters(spec: RunSpec, parameters: int, input_size: tuple[int, int], cores: int) -> Forecast:
    """`input_size` is the height and width of the model's input in pixels."""
    height, width = input_size
    text = spec.task == TEXT_GENERATION
    work = spec.batch_size * (2.0 * parameters if text else _operations(parameters, input_size))
    if spec.device == "cuda":
        call = work / FLOPS_OF_A_GPU * (1.0 if spec.dtype == "float32" else 0.4)
    else:
        call = work / FLOPS_A_CORE / min(spec.threads or cores, cores)
    if text:
        rate = BYTES_A_SECOND_OF_A_GPU if spec.device == "cuda" else BYTES_A_SECOND
        call = max(call, parameters * _width(spec) / rate)
    if text or spec.device == "cuda":
        call += LAUNCHES_SECONDS
    start = Range(*START_SECONDS)
    compiling = _autotuned(spec, Range(*(COMPILE_SECONDS_SMALL if parameters < SMALL else COMPILE_SECONDS)))
    fixed = _fixed_bytes(spec, parameters)
    activations = spec.batch_size * height * width * BYTES_A_PIXEL * _width(spec) / 4
    if text:
        places = len(spec.prompt) / CHARACTERS_A_TOKEN + spec.tokens
        activations = spec.batch_size * places * parameters * KEPT_A_PARAMETER * _width(spec)
    memory = Range(0.9 * fixed + activations / WIDE, 1.1 * fixed + activations, 1.6 * fixed + activations * WIDE)
    return Forecast(start + compiling + _timing(spec, Range(call / WIDE, call, call * WIDE)), memory, "parameters", 0)


def _operations(parameters: int, input_size: tuple[int, int]) -> float:
    """Floating-point operations for one picture: two for each weight and each patch of 16 x 16 pixels, as in a ViT."""
    height, width = input_size
    return 2.0 * parameters * height * width / 256


def _autotuned(spec: RunSpec, compiling: Range) -> Range:
    return compiling.times(*AUTOTUNE_TIMES) if spec.mode.startswith("max-autotune") else compiling


def _timing(spec: RunSpec, call: Range) -> Range:
    """Seconds of warm-up, timing and check, from those of one call. Timed are three variants: eager, its control and
    compiled; a seventh of the calls settle after a switch."""
    if spec.protocol == "as published":
        timed = call.times(*(2.0 * PUBLISHED_CALLS,) * 3)
    elif spec.iterations is not None:
        timed = call.times(*(3.5 * spec.iterations,) * 3)
    else:
        least = call.times(38, 38, 38)  # three blocks of 4 calls each, the shortest, with two controls
        most = spec.most_seconds
        timed = Range(max(min(1.0, most), least.low), max(most, least.likely), max(2 * most, least.high))
    around = call.times(6, 15, 30)  # three warm-ups, memory, outputs, a float64 reference
    if spec.task == TEXT_GENERATION:  # the answers that are compared, generate(), and the prompt in turns
        around += call.times(3 * spec.tokens, 7 * spec.tokens, 12 * spec.tokens)
        around += Range(0.0, spec.most_seconds / 2, spec.most_seconds)
    return timed + around + Range(0.5, 3.0, 8.0)


def _fixed_bytes(spec: RunSpec, parameters: int) -> float:
    """Bytes that do not depend on the batch size: the weights, and on a CPU the process."""
    return parameters * _width(spec) + (0.0 if spec.device == "cuda" else PROCESS_BYTES)


def _width(spec: RunSpec) -> int:
    """Bytes of one number of the dtype."""
    return 2 if spec.dtype in ("float16", "bfloat16") else 4


def doubts(
    spec: RunSpec, machine: HostInfo, expected: Forecast | None, earlier: Sequence[RunResult]
) -> tuple[Doubt, ...]:
    """Why these settings are known to be of no use here, most serious first.

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
    asked = _comparable(spec)
    same = [run.speedup.verdict for run in earlier if _comparable(run.spec) == asked and run.speedup is not None]
    if same and all(verdict == "slower" for verdict in same[:NEWEST]):
        found.append("lost before")
    return tuple(found)


def _gpu_bytes(earlier: Sequence[RunResult]) -> int | None:
    """The GPU's memory according to an earlier run on it, for a driver that does not report it."""
    return next((run.environment.memory_bytes for run in earlier if run.environment is not None), None)


def multiprocessors(gpu: str) -> int | None:
    """The number of multiprocessors of a GPU that has too few for tuning; None for any other."""
    return next((count for name, count in SMALL_GPUS.items() if name in gpu.split()), None)
