"""The types that travel: what is asked (`RunSpec`), what was measured (`Measurement`), what came of it (`RunResult`).

All are frozen dataclasses of plain values. Seconds and bytes inside; milliseconds only in the derived part of the
JSON. Raw times are stored, everything that can be computed from them is a property, so that a better statistic
needs no new run.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from demo.core import stats
from demo.core.format import milliseconds

SCHEMA_VERSION = 1

TASKS = ("image-classification", "object-detection", "image-segmentation")
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "lite")
"""The names of `torch._inductor.list_mode_options()`; the worker refuses one that its torch does not know."""
DTYPES = ("float32", "tf32", "float16", "bfloat16")
"""'tf32' is float32 whose matrix products and convolutions may use TensorFloat-32: compute capability 8.0 and up."""
ATTENTIONS = ("auto", "eager", "sdpa")
"""transformers' `attn_implementation`; 'auto' leaves the choice to the checkpoint's class."""
PROTOCOLS = ("interleaved", "as published")
"""'as published' is the guide's recipe: warm up, then 300 calls of eager, then 300 of compiled."""
CACHES = ("keep", "empty")
"""Inductor's compile cache: kept from run to run, or an empty one of this run's own."""
PROFILES = ("auto", "on", "off")
"""Whether a run looks for the reason of its figures, with torch.profiler; 'auto' does on a GPU only."""
DEVICES = ("auto", "cpu", "cuda")
WEIGHTS = ("pretrained", "random")
STATUSES = ("ok", "out_of_memory", "compile_failed", "timed_out", "crashed", "cancelled", "interrupted", "failed")
PHASES = ("start", "load", "prepare", "warm up", "compile", "time", "check", "done")
"""Of a run, in this order."""

MAX_BATCH_SIZE = 256
MIN_ITERATIONS, MAX_ITERATIONS = 10, 10_000
MIN_PRECISION, MAX_PRECISION = 0.001, 0.2
MIN_SECONDS, MAX_SECONDS = 0.5, 300.0
MAX_THREADS = 1024
MAX_QUERIES, MAX_QUERY_LENGTH = 32, 200
PUBLISHED_CALLS = 300

Status = Literal["ok", "out_of_memory", "compile_failed", "timed_out", "crashed", "cancelled", "interrupted", "failed"]
"""'interrupted': the program ended before the run did, so nobody was left to say more."""


class Lost(RuntimeError):
    """A process that was to run torch ended without an answer: its last words, of which the last line says why."""

    @property
    def reason(self) -> str:
        return (str(self).strip().splitlines() or ["it said nothing"])[-1].rstrip(".")


class BadInput(ValueError):
    """What was given cannot be run. The message is the whole sentence for the person who gave it."""


@dataclass(frozen=True)
class Checkpoint:
    """One entry of the catalogue, or a hub id or folder that somebody named."""

    id: str
    task: str
    family: str
    """The guide's name for the model: 'ViT', 'Mask2former', ..."""
    title: str
    revision: str | None
    input_size: tuple[int, int]
    """Height and width that the processor feeds the model for a 4:3 photograph."""
    parameters: int
    """Counted, not rounded; 0 where nobody has counted."""
    licence: str
    auto_class: str
    """The transformers class that loads it, such as 'AutoModelForObjectDetection'."""
    segmentation: str | None = None
    """'semantic' or 'panoptic': how a segmentation model's output is decoded."""
    takes_text: bool = False
    bundled: bool = False


@dataclass(frozen=True)
class RunSpec:
    """What is asked of one run. Checks itself; raises `BadInput` with what was given and what is allowed.

    Whether the checkpoint exists, and fits the task and the text, is the catalogue's knowledge: see
    `demo.core.catalog.make_spec`, the one door through which form, command line, API and grid come.
    """

    checkpoint: str
    task: str
    batch_size: int = 1
    mode: str = "default"
    fullgraph: bool = False
    dtype: str = "float32"
    device: str = "auto"
    """'auto' takes the GPU where there is one. A result carries the device that was used."""
    weights: str = "pretrained"
    text: tuple[str, ...] = ()
    """Queries for a zero-shot detector, one thing to look for each."""
    iterations: int | None = None
    """Timed calls of each variant, rounded up to whole A B B A blocks; None: until the interval is narrow enough."""
    protocol: str = "interleaved"
    precision: float = 0.01
    """Timing stops when the speed-up's 95 % interval is within this share of the estimate on both sides ..."""
    most_seconds: float = 3.5
    """... or after so many seconds of timing, doubled where the verdict would still be 'unsure'."""
    channels_last: bool = False
    """Weights and pictures in memory with the channels last, as convolutions on tensor cores like them."""
    attention: str = "auto"
    threads: int | None = None
    """Intra-op threads of torch on a CPU; None: torch's own choice."""
    cache: str = "keep"
    graph_break: bool = False
    """Put one graph break between the model's layers: for showing what a graph break costs."""
    profile: str = "auto"
    """'auto' leaves it out on a CPU, where there are no launches to explain and it would lengthen a short run."""

    def __post_init__(self) -> None:
        if not isinstance(self.checkpoint, str) or not self.checkpoint.strip():
            raise BadInput("No checkpoint was given. Pick one from the list, or type a Hugging Face model id.")
        _one_of("task", self.task, TASKS)
        _whole("Batch size", self.batch_size, 1, MAX_BATCH_SIZE)
        _one_of("compile mode", self.mode, MODES)
        _one_of("dtype", self.dtype, DTYPES)
        _one_of("device", self.device, DEVICES)
        _one_of("weights", self.weights, WEIGHTS)
        _one_of("attention implementation", self.attention, ATTENTIONS)
        _one_of("protocol", self.protocol, PROTOCOLS)
        _one_of("compile cache", self.cache, CACHES)
        _one_of("profile", self.profile, PROFILES)
        for name in ("fullgraph", "channels_last", "graph_break"):
            switch = getattr(self, name)
            if not isinstance(switch, bool):
                raise BadInput(f"{name} is a switch, true or false. Given: {_shown(switch)}.")
        _number("precision", self.precision, MIN_PRECISION, MAX_PRECISION)
        _number("most_seconds", self.most_seconds, MIN_SECONDS, MAX_SECONDS)
        if self.threads is not None:
            _whole("The number of threads", self.threads, 1, MAX_THREADS)
        if self.protocol == "as published" and self.iterations is not None:
            raise BadInput(
                f"The protocol 'as published' times {PUBLISHED_CALLS} calls of each: leave the number of calls empty, "
                "or choose the protocol 'interleaved'."
            )
        if self.iterations is not None:
            _whole("The number of timed calls", self.iterations, MIN_ITERATIONS, MAX_ITERATIONS)
        if not isinstance(self.text, tuple) or not all(isinstance(query, str) and query.strip() for query in self.text):
            raise BadInput(
                "The text queries are a list of short texts, none of them empty, such as: a cat, a remote control."
            )
        if len(self.text) > MAX_QUERIES or any(len(query) > MAX_QUERY_LENGTH for query in self.text):
            raise BadInput(
                f"At most {MAX_QUERIES} text queries of at most {MAX_QUERY_LENGTH} characters each. "
                f"Given: {len(self.text)} queries, the longest of {max(map(len, self.text))} characters."
            )

    def on(self, device: str) -> RunSpec:
        """The same spec with the device that 'auto' came to mean."""
        return dataclasses.replace(self, device=device)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _one_of(what: str, value: Any, allowed: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise BadInput(f"Unknown {what} {_shown(value)}. Allowed: {', '.join(allowed)}.")


def _whole(what: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise BadInput(f"{what} must be a whole number from {low} to {high}. Given: {_shown(value)}.")


def _number(what: str, value: Any, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise BadInput(f"{what} must be a number from {low:g} to {high:g}. Given: {_shown(value)}.")


@dataclass(frozen=True)
class BackToBack:
    """Calls one after another without waiting for each: what a server with a full queue gets."""

    calls: int
    seconds: float
    """From the first launch until the last result is there."""
    energy_joules: float | None = None
    """What the GPU drew meanwhile, by the driver's counter; None where it has none."""


@dataclass(frozen=True)
class Kernel:
    """One kernel of a GPU, or one operator of a CPU, with all its launches in a call."""

    name: str
    """As the profiler spells it, shortened."""
    launches: float
    """A call."""
    seconds: float
    """Of a call, all launches together."""
    share: float
    """Of the time of all kernels, 0 to 1."""


@dataclass(frozen=True)
class Profile:
    """What torch.profiler saw of one variant, in a pass of its own: it slows down what it watches."""

    kernels: float
    """Launched in a call: on a GPU its kernels, on a CPU the operators that call no other one. Kernels that inductor
    compiled for a CPU are not seen one by one: they are the own time of 'Call CompiledFxGraph'."""
    busy_seconds: float | None
    """Of a call, in which the GPU ran a kernel, a copy or a fill, overlaps counted once; None on a CPU."""
    longest: tuple[Kernel, ...]
    """At most five, by name, the longest first."""


@dataclass(frozen=True)
class Roofline:
    """The least that one call asks of the device, and what the device gave to a matrix product and to a plain copy.

    Operations are those of matrix products, convolutions and attention (a multiply-add is two), as
    torch.utils.flop_counter counts them in eager; nothing is counted for the rest. Bytes are a lower bound: each weight
    that any operator reads once (of embedding tables the rows looked up), each input once, each output once, and none
    of what lies between two kernels.
    """

    operations: int
    least_bytes: int
    matrix_rate: float
    """Operations a second of one large square matrix product in the run's own number format, TF32 included."""
    copy_rate: float
    """Bytes a second, read and written, of one large copy on the device."""

    @property
    def compute_seconds(self) -> float:
        return self.operations / self.matrix_rate

    @property
    def memory_seconds(self) -> float:
        return self.least_bytes / self.copy_rate

    @property
    def least_seconds(self) -> float:
        """No call can be much faster: convolutions that save multiplications (Winograd) may be a little."""
        return max(self.compute_seconds, self.memory_seconds)


@dataclass(frozen=True)
class Measurement:
    """Raw times of one variant (eager, compiled, or the A/A control)."""

    wall_seconds: tuple[float, ...]
    """One synchronised call each, in the order timed: what one caller waits."""
    device_seconds: tuple[float, ...] | None
    """The GPU's work in further calls, by CUDA events with the launches queued ahead; None on a CPU."""
    warmup_seconds: tuple[float, ...]
    """Calls before the timing, the first call (which compiles) first."""
    calls_per_block: int
    """Calls of this variant in one A B B A block, both halves together."""
    peak_memory_bytes: int | None = None
    """CUDA: most bytes allocated during a call, weights included; CPU: the process's largest resident set."""
    peak_reserved_bytes: int | None = None
    """CUDA: most bytes that torch's allocator held of the GPU, allocated or not."""
    back_to_back: BackToBack | None = None
    profile: Profile | None = None

    @property
    def busy_share(self) -> float | None:
        """Share of a call in which the GPU works: its profiled work over the median wall time without a profiler."""
        if self.profile is None or self.profile.busy_seconds is None:
            return None
        return min(1.0, self.profile.busy_seconds / self.median_seconds)

    @property
    def launch_seconds(self) -> float | None:
        """Wall time of a call in which the GPU has nothing to do: the cost of launching kernels, 0 at least.

        The two clocks take too much for work where a call has more launches than the driver queues (about a thousand):
        the profiler's sum of kernel times, where there is one, is then the smaller.
        """
        if not self.device_seconds:
            return None
        works = float(np.median(self.device_seconds))
        if self.profile is not None and self.profile.busy_seconds is not None:
            works = min(works, self.profile.busy_seconds)
        return max(0.0, self.median_seconds - works)

    @property
    def median_seconds(self) -> float:
        return float(np.median(self.wall_seconds))

    @property
    def mean_seconds(self) -> float:
        return float(np.mean(self.wall_seconds))

    @property
    def p95_seconds(self) -> float:
        return float(np.quantile(self.wall_seconds, 0.95))

    @property
    def median_device_seconds(self) -> float | None:
        return float(np.median(self.device_seconds)) if self.device_seconds else None

    @property
    def blocks(self) -> np.ndarray:
        """The median call of each block, in seconds."""
        return stats.block_medians(self.wall_seconds, self.calls_per_block)


@dataclass(frozen=True)
class GraphBreak:
    reason: str
    location: str
    """'file.py:123 in forward', or '' where dynamo did not say."""


@dataclass(frozen=True)
class CompileCost:
    """One first call of the compiled model, in a process of its own."""

    first_call_seconds: float
    """Wall time: it traces, compiles and runs once."""
    parts: dict[str, float]
    """Seconds by stage, in torch's own words: 'dynamo', 'aot_autograd', 'inductor', 'backend compile'."""
    run_id: str = ""
    """The stored run that measured it; '' for this one."""


@dataclass(frozen=True)
class Compilation:
    """What torch.compile did during the real compile, as counted by dynamo and inductor themselves."""

    first_call_seconds: float
    """Wall time of the first call of the compiled model: it traces, compiles and runs once."""
    cache: Literal["cold", "warm", "off"]
    """'warm' where inductor found at least one compiled graph on disk and had to compile none."""
    graphs: int
    graph_breaks: tuple[GraphBreak, ...] = ()
    recompiles_while_timing: int = 0
    cudagraphs: str = "not asked"
    """'used', 'not asked', or 'skipped: ' and the reason."""
    cold: CompileCost | None = None
    """With this model missing from the cache; None where neither this run nor an earlier one on this machine measured
    it. Only a run with `cache="empty"` is sure to find nothing: kernels of other models may be of use."""
    warm: CompileCost | None = None
    """In a further process over the cache that the cold one filled."""
    recompiles: tuple[GraphBreak, ...] = ()
    """Why dynamo compiled a frame again, before the timing or in it."""
    fallbacks: tuple[GraphBreak, ...] = ()
    """Frames that dynamo gave up and left to eager."""
    kernels: int | None = None
    """Kernels that inductor generated (C++ on a CPU, Triton on a GPU)."""
    extern_kernels: int | None = None
    """Calls that inductor left to a library, such as a matrix product or a convolution."""
    cache_hits: int = 0
    cache_misses: int = 0
    """Graphs found in, and missing from, inductor's cache."""

    @property
    def known_costs(self) -> dict[str, float]:
        """Seconds of a first call by the state of the cache, 'cold' before 'warm': those that were measured."""
        own = {"warm" if self.cache == "warm" else "cold": self.first_call_seconds}
        named = {"cold": self.cold, "warm": self.warm}
        measured = own | {cache: cost.first_call_seconds for cache, cost in named.items() if cost is not None}
        return {cache: measured[cache] for cache in ("cold", "warm") if cache in measured}


@dataclass(frozen=True)
class Parity:
    """Do eager and compiled agree? As PyTorch's dynamo benchmarks judge raw outputs, and as a user does."""

    verdict: Literal["match", "differ", "not comparable"]
    max_abs_error: float | None
    """Largest absolute difference of any output element; None where it is not finite or not comparable."""
    reason: str
    """One sentence: which test decided."""
    task: dict[str, float] = field(default_factory=dict)
    """Shares from 0 to 1 by name: 'top5_agreement', 'matched_boxes', 'box_iou' (worst pair), 'score_difference'
    (largest of a pair), 'mask_iou', 'changed_pixels'."""


@dataclass(frozen=True)
class Label:
    label: str
    score: float


@dataclass(frozen=True)
class Box:
    label: str
    score: float
    box: tuple[float, float, float, float]
    """x0, y0, x1, y1 in pixels of the upright input image."""


@dataclass(frozen=True)
class Segment:
    label: str
    score: float | None
    """None for a semantic model, which gives none."""
    area: float
    """Share of the image, 0 to 1."""
    mask_png: str
    """Base64 of a 1-bit PNG; the image's aspect ratio, its long side at most `MASK_SIDE` pixels."""


MASK_SIDE = 640


@dataclass(frozen=True)
class Predictions:
    """What one variant saw. The task decides which of the three is filled."""

    labels: tuple[Label, ...] | None = None
    boxes: tuple[Box, ...] | None = None
    segments: tuple[Segment, ...] | None = None


@dataclass(frozen=True)
class ImageInfo:
    """The picture that was used, upright and in RGB."""

    name: str
    width: int
    height: int
    sha256: str
    """Of the file's bytes."""
    preview_jpeg: str
    """Base64 of a JPEG, long side at most `MASK_SIDE` pixels: lets a stored result be drawn again."""


@dataclass(frozen=True)
class Environment:
    """The machine and the versions that a figure belongs to."""

    torch: str
    transformers: str
    python: str
    platform: str
    device_name: str
    """The GPU's name, or the CPU's."""
    cpu: str
    cpu_count: int
    threads: int
    """Intra-op threads of torch."""
    memory_bytes: int
    """The GPU's memory, or the machine's."""
    driver: str | None = None
    cuda: str | None = None
    compute_capability: str | None = None
    triton: str | None = None
    compiler: str | None = None
    """The C++ compiler that inductor calls."""
    settings: dict[str, str] = field(default_factory=dict)
    """How torch computed, read back from it: attention, memory format, dtype of the weights, matrix products."""


@dataclass(frozen=True)
class Machine:
    """What a waiting worker can tell of the machine before a run, without touching the GPU."""

    torch: str
    transformers: str
    python: str
    cpu: str
    memory_bytes: int
    modes: tuple[str, ...]
    """The compile modes that this torch offers."""
    compiler: str | None
    gpu: str | None
    """None where torch cannot use one; `gpu_problem` then says why, if the machine seems to have one."""
    driver: str | None
    gpu_problem: str | None
    triton: str | None
    inductor_cache: str
    gpu_memory_bytes: int | None = None
    """None without a GPU, and where its driver does not say."""

    @property
    def device_name(self) -> str:
        return self.gpu or self.cpu


@dataclass(frozen=True)
class EndToEnd:
    """Median seconds of what surrounds the forward pass of a whole request."""

    preprocess_seconds: float
    """One picture, decoded, through the checkpoint's processor."""
    copy_seconds: float
    """The whole batch to the device."""
    postprocess_seconds: float
    """Outputs to labels, boxes or segments, for one picture."""


@dataclass(frozen=True)
class GpuState:
    """What the driver says of the GPU at one moment (NVML). None where it does not say."""

    sm_clock_hz: float | None
    largest_sm_clock_hz: float | None
    temperature_celsius: float | None
    power_watts: float | None
    throttle_reasons: tuple[str, ...] = ()
    """'thermal', 'power', 'hardware', 'software': why the clock is lower than asked; idling is none."""
    foreign_processes: int = 0
    """Other processes that hold a context on this GPU."""


@dataclass(frozen=True)
class MachineState:
    """One look at the machine between two blocks of the timing, never inside one."""

    at_seconds: float
    """Since the timing began."""
    foreign_cpu: float | None
    """Share of all cores that other processes kept busy since the last look, 0 to 1; None where /proc does not say."""
    gpu: GpuState | None = None


@dataclass(frozen=True)
class Failure:
    stage: str
    """One of `PHASES`."""
    message: str
    remedy: str


@dataclass(frozen=True)
class Progress:
    """One look at a running run. `eager_seconds` and `compiled_seconds` are medians of the latest block."""

    phase: str
    """One of `PHASES`."""
    fraction: float
    """Of the whole run, 0 to 1; an estimate."""
    elapsed_seconds: float
    remaining_seconds: float | None = None
    message: str = ""
    calls: int = 0
    """Timed calls of each variant so far."""
    eager_seconds: float | None = None
    compiled_seconds: float | None = None
    speedup: stats.Interval | None = None
    timing_done: float | None = None
    """Share of the timing that is over, 0 to 1; an estimate. None before it."""


@dataclass(frozen=True)
class Speedup(stats.Interval):
    verdict: stats.Verdict


@dataclass(frozen=True)
class BreakEven:
    """Calls after which compiling has paid for itself. None: never."""

    calls: int | None
    low: int | None
    high: int | None
    """From the speed-up's 95 % interval; `high` is None where the interval holds no gain at all."""
    images: int | None


@dataclass(frozen=True)
class RunResult:
    """A finished run, also one that failed: then `failure` says at which stage and what to do."""

    id: str
    started_at: str
    """UTC, ISO 8601: '2026-11-21T09:00:00Z'."""
    status: Status
    spec: RunSpec
    failure: Failure | None = None
    environment: Environment | None = None
    eager: Measurement | None = None
    compiled: Measurement | None = None
    control_times: Measurement | None = None
    """Eager timed against eager in the same blocks: the A/A control."""
    interleaved: bool = True
    """False where the two did not fit in memory together and were timed one after the other."""
    compilation: Compilation | None = None
    parity: Parity | None = None
    predictions: dict[str, Predictions] | None = None
    """'eager' and 'compiled'. None with random weights on a hub checkpoint: they would mean nothing."""
    image: ImageInfo | None = None
    end_to_end: EndToEnd | None = None
    roofline: Roofline | None = None
    machine_states: tuple[MachineState, ...] = ()
    timing_seconds: float | None = None
    """Wall clock of the timing, calls and what lies between them."""
    warnings: tuple[str, ...] = ()
    elapsed_seconds: float = 0.0
    """Wall clock of the whole run, loading and compiling included."""
    schema_version: int = SCHEMA_VERSION

    @cached_property
    def _interval(self) -> stats.Interval | None:
        if self.eager is None or self.compiled is None:
            return None
        eager, compiled = self.eager.blocks, self.compiled.blocks
        pairs = min(len(eager), len(compiled))
        if pairs < 2:
            return None
        if self.spec.protocol == "as published":
            return stats.mean_ratio(self.eager.wall_seconds, self.compiled.wall_seconds)
        if self.interleaved:
            return stats.paired_ratio(eager[:pairs], compiled[:pairs])
        return stats.unpaired_ratio(eager, compiled)

    @property
    def void(self) -> bool:
        """The model compiled again while it was timed: the figures say nothing."""
        return self.compilation is not None and self.compilation.recompiles_while_timing > 0

    @cached_property
    def control(self) -> stats.Interval | None:
        """Eager over eager by the same protocol: what this machine answers when the truth is 1."""
        if self.eager is None or self.control_times is None:
            return None
        return stats.control_ratio(self.eager.wall_seconds, self.control_times.wall_seconds, self.eager.calls_per_block)

    @cached_property
    def speedup(self) -> Speedup | None:
        interval = self._interval
        if interval is None:
            return None
        verdict = "unsure" if self.void else stats.verdict(interval, self.control)
        return Speedup(interval.ratio, interval.low, interval.high, verdict)

    def break_even(self, compile_seconds: float) -> BreakEven | None:
        """When a first call of so many seconds has paid for itself; None where there is no speed-up to tell from."""
        interval = self._interval
        if interval is None or self.eager is None:
            return None
        eager = self.eager.median_seconds

        def calls(ratio: float) -> int | None:
            return stats.break_even_calls(compile_seconds, eager, eager / ratio)

        needed = calls(interval.ratio)
        return BreakEven(
            needed, calls(interval.high), calls(interval.low), None if needed is None else needed * self.spec.batch_size
        )

    @property
    def break_even_calls(self) -> int | None:
        """After this run's own first compiled call."""
        if self.compilation is None or (found := self.break_even(self.compilation.first_call_seconds)) is None:
            return None
        return found.calls

    def roofline_share(self, measured: Measurement) -> float | None:
        """The least time that a call could take here over the one it takes, by the wall clock."""
        return None if self.roofline is None else self.roofline.least_seconds / measured.median_seconds

    @property
    def request_seconds(self) -> tuple[float, float] | None:
        """A whole request, eager and compiled: every picture prepared, copied, through the model and decoded."""
        parts, batch = self.end_to_end, self.spec.batch_size
        if parts is None or self.eager is None or self.compiled is None:
            return None
        around = parts.copy_seconds + batch * (parts.preprocess_seconds + parts.postprocess_seconds)
        return around + self.eager.median_seconds, around + self.compiled.median_seconds

    def to_json(self) -> dict[str, Any]:
        """The documented JSON: every stored field, and the figures derived from them."""
        data = plain(self)
        for variant in ("eager", "compiled"):
            measured: Measurement | None = getattr(self, variant)
            if measured is not None:
                data[variant] |= {
                    "median_ms": milliseconds(measured.median_seconds),
                    "mean_ms": milliseconds(measured.mean_seconds),
                    "p95_ms": milliseconds(measured.p95_seconds),
                    "images_per_second": self.spec.batch_size / measured.median_seconds,
                    "launch_ms": None if measured.launch_seconds is None else milliseconds(measured.launch_seconds),
                }
                if measured.profile is not None:
                    data[variant] |= {
                        "busy_share": measured.busy_share,
                        "roofline_share": self.roofline_share(measured),
                    }
                if run := measured.back_to_back:
                    data[variant] |= {"images_per_second_back_to_back": run.calls * self.spec.batch_size / run.seconds}
        data["speedup"] = plain(self.speedup)
        data["control"] = plain(self.control)
        data["break_even_calls"] = self.break_even_calls
        data["break_even"] = {
            cache: plain(self.break_even(cost.first_call_seconds))
            for cache in ("cold", "warm")
            if self.compilation is not None and (cost := getattr(self.compilation, cache)) is not None
        }
        requests = self.request_seconds
        data["end_to_end_speedup"] = requests[0] / requests[1] if requests else None
        return data

    def dumps(self) -> str:
        """One line of strict JSON: NaN and infinity are a programming mistake and raise ValueError."""
        return json.dumps(self.to_json(), allow_nan=False, ensure_ascii=False)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RunResult:
        """Reads what `to_json` wrote. Derived and unknown keys are passed over, so newer rows load too.

        Raises ValueError where a needed key is missing or of the wrong kind.
        """
        return load(cls, data)


@dataclass(frozen=True)
class Measured:
    """What a row measured by this project says beyond the guide's columns: the interval, and what it belongs to."""

    speedup: float | None
    low: float | None
    high: float | None
    """The estimate and its 95 % interval, as the run gave them; None where either variant ran out of memory."""
    dtype: str
    weights: str
    transformers: str
    triton: str
    device: str
    """The device's name in full."""
    driver: str
    commit: str
    """Of this project; '' where it was not under version control."""
    date: str
    """UTC: '2026-11-21'."""


@dataclass(frozen=True)
class PublishedRow:
    """One row of the guide's tables, or of a table that this project measured in the same form.

    None stands for 'OOM'. Times are the guide's means of 300 calls, or the medians of a run of this project.
    """

    subset: str
    """'release', 'nightly', 'reduce-overhead'; one that this project measured begins with 'measured'."""
    gpu: str
    torch: str
    mode: str
    batch_size: int
    task: str
    model: str
    checkpoint: str
    eager_seconds: float | None
    compiled_seconds: float | None
    measured: Measured | None = None
    """None for a row of the guide."""

    @property
    def speedup(self) -> float | None:
        if self.eager_seconds is None or self.compiled_seconds is None:
            return None
        if self.measured is not None and self.measured.speedup is not None:
            return self.measured.speedup
        return self.eager_seconds / self.compiled_seconds

    @property
    def saved(self) -> float | None:
        """Share of the eager time that compiling saves: 0.23 is 23 %; below 0 where compiled is slower."""
        return None if self.speedup is None else 1 - 1 / self.speedup


def plain(value: Any) -> Any:
    """Dataclasses and tuples as JSON's own kinds."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def load(kind: Any, data: Any) -> Any:
    """The opposite of `plain`, led by the annotations of `kind`. Raises ValueError for what does not fit."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if data is None and type(None) in arguments:
            return None
        return load(next(option for option in arguments if option is not type(None)), data)
    if origin is Literal:
        if data not in arguments:
            raise ValueError(f"{data!r} is none of {arguments}")
        return data
    if origin is tuple:
        if not isinstance(data, (list, tuple)):
            raise ValueError(f"a list is needed, given {_shown(data)}")
        inner = arguments if Ellipsis not in arguments else (arguments[0],) * len(data)
        if len(inner) != len(data):
            raise ValueError(f"{len(inner)} items are needed, given {len(data)}")
        return tuple(load(item_kind, item) for item_kind, item in zip(inner, data, strict=True))
    if origin is dict:
        if not isinstance(data, dict):
            raise ValueError(f"an object is needed, given {_shown(data)}")
        return {key: load(arguments[1], item) for key, item in data.items()}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        if not isinstance(data, dict):
            raise ValueError(f"{kind.__name__} is an object, given {_shown(data)}")
        hints = typing.get_type_hints(kind)
        try:
            return kind(
                **{f.name: load(hints[f.name], data[f.name]) for f in dataclasses.fields(kind) if f.name in data}
            )
        except TypeError as error:
            raise ValueError(f"{kind.__name__} cannot be read: {error}") from error
    if kind is Any:
        return data
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if not isinstance(data, kind) or (isinstance(data, bool) and kind is not bool):
        raise ValueError(f"{kind.__name__} is needed, given {_shown(data)}")
    if kind is float and not math.isfinite(data):
        raise ValueError("a finite number is needed")
    return data
