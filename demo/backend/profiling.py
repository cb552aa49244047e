"""Why a variant is as fast as it is: its kernels by torch.profiler, and the least work and traffic of one call.

Both are passes of their own after the timing, since a profiler slows down what it watches.
"""

from __future__ import annotations

import functools
import gzip
import json
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, record_function
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop

from demo.backend import timing
from demo.backend.workload import Workload, tensors
from demo.core.measurement import Kernel, Profile, Roofline
from demo.core.spec import RunSpec

Call = Callable[[], Any]

CALLS = 3
"""Profiled calls of each variant, after one that takes the profiler's own start."""
MAX_KERNELS = 5
MAX_NAME = 120
MARK = "worth compiling: "
WORK = ("kernel", "gpu_memcpy", "gpu_memset")
"""The categories of a GPU's own activities in a trace of torch.profiler."""
OPERATORS = ("cpu_op", "user_annotation")
SIDE = {"cuda": 4096, "cpu": 1024}
MAX_SIDE = 16_384
COPIED_BYTES = {"cuda": 256 * 2**20, "cpu": 64 * 2**20}
"""Several times the size of the device's caches, except on CPUs with very large ones."""
RATE_CALLS = 5
MIN_SECONDS = 0.005
"""On a GPU a matrix product that takes less is repeated with sides twice as long, and copies that take less with twice
as many: launch and wait take some 10 us."""


def wanted(spec: RunSpec, device: torch.device) -> bool:
    return spec.profile == "on" or (spec.profile == "auto" and device.type == "cuda")


def profiles(calls: dict[str, Call], device: torch.device, trace: Path | None = None) -> dict[str, Profile]:
    """A profile of each variant. `trace` is a file for the whole trace, as JSON packed with gzip.

    Raises RuntimeError where the profiler saw no work of the GPU, as in a container that may not use CUPTI.
    """
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.type == "cuda" else [])
    wait = torch.cuda.synchronize if device.type == "cuda" else (lambda: None)
    with torch.profiler.profile(activities=activities) as session:
        for name, call in calls.items():
            call()
            wait()
            with record_function(MARK + name):
                for _ in range(CALLS):
                    call()
                wait()
    with tempfile.TemporaryDirectory(prefix="profile-") as folder:
        written = Path(folder) / "trace.json"
        session.export_chrome_trace(str(written))
        if trace is not None:
            with written.open("rb") as plain, gzip.open(trace, "wb") as packed:
                shutil.copyfileobj(plain, packed)
        events = json.loads(written.read_text(encoding="utf-8"))["traceEvents"]
    return {name: summary(events, name, device.type) for name in calls}


def summary(events: Sequence[dict[str, Any]], variant: str, device: str) -> Profile:
    """The profile of one variant from a trace in Chrome's format (times in microseconds), within the variant's mark.

    Raises RuntimeError where the trace has no work of the GPU within it.
    """
    spans = [event for event in events if event.get("ph") == "X"]
    mark = next(one for one in spans if one["name"] == MARK + variant and one.get("cat") == "user_annotation")
    start, end = mark["ts"], mark["ts"] + mark["dur"]
    inside = [event for event in spans if start <= event["ts"] < end and event is not mark]
    if device == "cpu":
        timed = _own_times(one for one in inside if one.get("cat") in OPERATORS and one["tid"] == mark["tid"])
        kernels = sum(leaf for _, _, leaf in timed)
        return Profile(kernels / CALLS, None, _longest((name, own) for name, own, _ in timed))
    work = [event for event in inside if event.get("cat") in WORK]
    if not work:
        raise RuntimeError(
            "it saw no work of the GPU; a container may need permission for that (NVIDIA's CUPTI, profiling counters)"
        )
    busy = _covered((event["ts"], event["ts"] + event["dur"]) for event in work)
    launched = sum(1 for event in work if event["cat"] == "kernel")
    longest = _longest((event["name"], event["dur"]) for event in work)
    return Profile(launched / CALLS, busy / 1e6 / CALLS, longest)


def _own_times(events: Iterable[dict[str, Any]]) -> list[tuple[str, float, bool]]:
    """Each event of one thread: its name, its time without the events nested in it, and whether none is nested."""
    ordered = sorted(events, key=lambda event: (event["ts"], -event["dur"]))
    nested: dict[int, float] = {}
    around: list[int] = []
    for index, event in enumerate(ordered):
        while around and ordered[around[-1]]["ts"] + ordered[around[-1]]["dur"] <= event["ts"]:
            around.pop()
        if around:
            nested[around[-1]] = nested.get(around[-1], 0.0) + event["dur"]
        around.append(index)
    return [
        (event["name"], max(0.0, event["dur"] - nested.get(index, 0.0)), index not in nested)
        for index, event in enumerate(ordered)
    ]


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """The length of the union of spans: two streams that work at the same time count once."""
    covered, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        covered += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return covered


def _longest(timed: Iterable[tuple[str, float]]) -> tuple[Kernel, ...]:
    """The names with the most microseconds in all profiled calls."""
    times: dict[str, list[float]] = defaultdict(list)
    for name, microseconds in timed:
        times[name].append(microseconds)
    everything = sum(map(sum, times.values())) or 1.0
    names = sorted(times, key=lambda name: -sum(times[name]))[:MAX_KERNELS]
    return tuple(
        Kernel(
            name if len(name) <= MAX_NAME else name[: MAX_NAME - 1] + "…",
            len(times[name]) / CALLS,
            sum(times[name]) / 1e6 / CALLS,
            sum(times[name]) / everything,
        )
        for name in names
    )


def roofline(workload: Workload) -> Roofline:
    """The least operations and bytes of one call, and the device's rates. Runs the model eagerly once more."""
    operations, least_bytes = demand(workload)
    model, device = workload.model, workload.device
    if device.type == "cuda":
        torch.cuda.empty_cache()
    dtype = next(one.dtype for one in (*model.parameters(), *tensors(workload.batch)) if one.is_floating_point())
    return Roofline(operations, least_bytes, matrix_rate(device, dtype), copy_rate(device))


def demand(workload: Workload) -> tuple[int, int]:
    """(operations, least bytes) of one call, as `Roofline` defines them."""
    on_cpu = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # which torch's counter does not know
    counter = FlopCounterMode(
        display=False, custom_mapping={on_cpu: lambda query, key, value, *_, **__: sdpa_flop(query, key, value)}
    )
    reads = _Reads(workload.model)
    with reads, counter:
        outputs = workload.once(workload.model)
    given_and_taken = sum(_bytes(tensor) for tensor in tensors((workload.batch, outputs)))
    return int(counter.get_total_flops()), sum(reads.bytes.values()) + given_and_taken


class _Reads(TorchDispatchMode):
    """Bytes that the operators read of the model's weights and buffers, by storage address."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self._stored = {
            tensor.untyped_storage().data_ptr(): _bytes(tensor) for tensor in (*model.parameters(), *model.buffers())
        }
        self.bytes: dict[int, int] = defaultdict(int)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tensors((args, kwargs or {})):
            place = tensor.untyped_storage().data_ptr()
            if place not in self._stored:
                continue
            if func is torch.ops.aten.embedding.default and tensor is args[0]:
                self.bytes[place] = min(self._stored[place], self.bytes[place] + _bytes(out))
            else:
                self.bytes[place] = self._stored[place]
        return out


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def matrix_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Operations a second of a square matrix product under the TF32 switches in force; the best of five."""
    side = SIDE[device.type]
    while True:
        left, right = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
        seconds = _best(functools.partial(torch.matmul, left, right), device)
        if device.type == "cpu" or seconds >= MIN_SECONDS or side >= MAX_SIDE:
            return 2 * side**3 / seconds
        side *= 2


def copy_rate(device: torch.device) -> float:
    """Bytes a second, each counted when read and when written; the best of five."""
    source = torch.ones(COPIED_BYTES[device.type] // 4, device=device)
    target, copies = torch.empty_like(source), 1
    while True:
        seconds = _best(functools.partial(_copy, source, target, copies), device)
        if device.type == "cpu" or seconds >= MIN_SECONDS:
            return 2 * _bytes(source) * copies / seconds
        copies *= 2


def _copy(source: torch.Tensor, target: torch.Tensor, times: int) -> None:
    for _ in range(times):
        target.copy_(source)


def _best(call: Call, device: torch.device) -> float:
    clock = timing.WallClock(device)
    clock.time(call)
    return min(clock.time(call) for _ in range(RATE_CALLS))
