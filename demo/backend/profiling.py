"""Why a variant is as fast as it is: its kernels by torch.profiler, and the least work and traffic of one call.

Both are passes of their own after the timing, since a profiler slows down what it watches.
"""

import gzip
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, record_function
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.benchmark import Timer
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop

from demo.backend.timing import Call
from demo.backend.workload import Workload, tensors
from demo.core.measurement import Kernel, Profile, Roofline
from demo.core.spec import RunSpec

CALLS = 3
"""Profiled calls of each variant, after one that takes the profiler's own start."""
MAX_KERNELS = 5
MAX_NAME = 120
MARK = "worth compiling: "
WORK = ("kernel", "gpu_memcpy", "gpu_memset")
"""The categories of a GPU's own activities in a trace of torch.profiler."""
OPERATORS = ("cpu_op", "user_annotation")
SIDE = {"cuda": 8192, "cpu": 1024}
COPIED_BYTES = {"cuda": 256 * 2**20, "cpu": 64 * 2**20}
"""Several times the size of the device's caches, except on CPUs with very large ones."""


def wanted(spec: RunSpec, device: torch.device) -> bool:
    return spec.profile == "on" or (spec.profile == "auto" and device.type == "cuda")


def profiles(calls: dict[str, Call], device: torch.device, trace: Path | None = None) -> dict[str, Profile]:
    """A profile of each variant. `trace` is a file for the whole trace, which ends in .json.gz.

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
        written = trace or Path(folder) / "trace.json.gz"
        session.export_chrome_trace(str(written))
        events = json.loads(gzip.decompress(written.read_bytes()))["traceEvents"]
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
    given_and_taken = sum(tensor.nbytes for tensor in tensors((workload.batch, outputs)))
    return int(counter.get_total_flops()), sum(reads.bytes.values()) + given_and_taken


class _Reads(TorchDispatchMode):
    """Bytes that the operators read of the model's weights and buffers, by storage address."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self._stored = {
            tensor.untyped_storage().data_ptr(): tensor.nbytes for tensor in (*model.parameters(), *model.buffers())
        }
        self.bytes: dict[int, int] = defaultdict(int)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tensors((args, kwargs or {})):
            place = tensor.untyped_storage().data_ptr()
            if place not in self._stored:
                continue
            if func is torch.ops.aten.embedding.default and tensor is args[0]:
                self.bytes[place] = min(self._stored[place], self.bytes[place] + out.nbytes)
            else:
                self.bytes[place] = self._stored[place]
        return out


def matrix_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Operations a second of a square matrix product under the TF32 switches in force."""
    side = SIDE[device.type]
    left, right = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    return 2 * side**3 / _seconds(lambda: left @ right, device)


def copy_rate(device: torch.device) -> float:
    """Bytes a second, each counted when read and when written."""
    source = torch.ones(COPIED_BYTES[device.type] // 4, device=device)
    target = torch.empty_like(source)
    return 2 * COPIED_BYTES[device.type] / _seconds(lambda: target.copy_(source), device)


def _seconds(call: Call, device: torch.device) -> float:
    """A call's among so many that launches and the wait for the GPU, some 10 us, do not count; of the best block."""
    wait = torch.cuda.synchronize if device.type == "cuda" else (lambda: None)

    def now() -> float:
        wait()
        return time.perf_counter()

    timer = Timer("call()", globals={"call": call}, timer=now, num_threads=torch.get_num_threads())
    return float(min(timer.blocked_autorange().times))
