"""Measures eager and compiled after the timing, because profiling would slow timed calls down.

- Measured before the compile, which would add to it: eager's peak memory on a GPU.
- Measured: seconds of GPU work in a call, throughput of calls that do not wait, peak memory, and the longest kernels.
  Also the roofline: the operations and bytes that one call needs at least, and the device's rates.
- Limits: if a model's forward waits for the GPU, that wait counts as work. On a CPU the memory is that of the whole
  process.
"""

import contextlib
import gzip
import json
import os
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import torch
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, record_function
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.benchmark import Timer
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop

from ..core import format as fmt
from ..core.codec import JsonObject
from ..core.measurement import BackToBack, Kernel, Profile, Roofline
from ..core.options import RunSpec
from .effects import Operator, has_memory, tensors
from .timing import Call, garbage_collection_off, wait_for
from .workload import Workload

DEVICE_CALLS, MIN_DEVICE_CALLS = 20, 3
DEVICE_SECONDS = 1.0
BACK_TO_BACK_SECONDS = {"cuda": 1.0, "cpu": 0.3}
"""Seconds that the calls of `back_to_back` should take. On CUDA they are enough for the driver's energy counter, which
changes some ten times a second."""
PROFILED_CALLS = 3
"""How many calls of eager, and of compiled, are profiled. One call before them is left out, because the profiler starts
during it."""
MARK = "worth compiling: "
WORK = ("kernel", "gpu_memcpy", "gpu_memset")
_COPY = re.compile(r"::Copy<|copy_kernel")
"""Matches the names of torch's kernels that copy. Before a CUDA graph is replayed, they copy inputs into its memory."""
MATRIX_SIDE = {"cuda": 8192, "cpu": 1024}
SMALL_SIDE = 256
"""Rows of the matrices that show whether a format is slow: bfloat16 took 12 to 70 ms for them under AVX2."""
COPIED_BYTES = {"cuda": 256 * 2**20, "cpu": 64 * 2**20}
"""Bytes that `copy_rate` copies: several times the device's caches, except for CPUs with very large ones."""
Peak = tuple[int | None, int | None]
"""Peak bytes of memory in use, and bytes that torch's allocator reserved; None if unknown."""


# The GPU's own clock, calls that do not wait, memory


def device_times(call: Call, wall_seconds: float) -> tuple[float, ...]:
    """Returns the seconds of GPU work in each of 3 to 20 calls, by CUDA events. `wall_seconds`: how long a call takes.

    A sleep kernel keeps the GPU busy until the call's kernels are queued, as in nvbench. Otherwise the events would
    also count gaps in which an idle GPU waits for the next kernel.
    """
    cycles = int(3.0e9 * min(0.5, 1.5 * wall_seconds))  # no current GPU runs above 3 GHz
    times = []
    for _ in range(max(MIN_DEVICE_CALLS, min(DEVICE_CALLS, int(DEVICE_SECONDS / (2.5 * wall_seconds))))):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        torch.cuda._sleep(cycles)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return tuple(times)


def back_to_back(
    call: Call, device: torch.device, wall_seconds: float, joules: Callable[[], float | None] = lambda: None
) -> BackToBack:
    """Times calls that are launched without waiting for the GPU between them.

    `wall_seconds`: the time of one call, from which the number of calls is chosen. `joules`: reads the GPU's energy
    counter.
    """
    calls, wait = max(3, round(BACK_TO_BACK_SECONDS[device.type] / wall_seconds)), wait_for(device)
    with garbage_collection_off():
        wait()
        before, start = joules(), time.perf_counter()
        for _ in range(calls):
            call()
        wait()
        seconds, after = time.perf_counter() - start, joules()
    used = 0.0 if before is None or after is None else after - before
    return BackToBack(calls, seconds, used if used > 0 else None)  # a counter may stand still, or start again at 0


def peak_memory(call: Call, device: torch.device, besides: torch.nn.Module | None = None) -> Peak:
    """Returns the peak bytes (in use, reserved) during one call of `call`. None for a value that is not known.

    - On a CPU: the peak resident set of the whole process (Linux). Reserved bytes are None.
    - On CUDA: the memory of torch's native allocator. The whole memory pool of a CUDA graph counts as in use, because a
      replay allocates nothing.
    - `besides`: a model whose weights are subtracted, on CUDA only; None for no model. For a package, which has weights
      of its own, pass the eager model.
    """
    if device.type == "cpu":
        return _peak_resident_set(call), None
    if torch.cuda.get_allocator_backend() != "native":
        return None, None
    torch.cuda.synchronize()
    torch.cuda.empty_cache()  # else the reserve would still be that of whatever ran before
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    used, reserved = int(torch.cuda.max_memory_allocated()), int(torch.cuda.max_memory_reserved())
    # Pool (0, 0) is the ordinary one, the others are those of CUDA graphs. What is allocated in these is in `used`
    # already; the rest of them is added.
    pools = [part for part in torch.cuda.memory_snapshot() if tuple(part["segment_pool_id"]) != (0, 0)]
    used += sum(part["total_size"] - part["allocated_size"] for part in pools)
    weights = (*besides.parameters(), *besides.buffers()) if besides is not None else ()
    idle = sum({weight.untyped_storage().data_ptr(): weight.untyped_storage().nbytes() for weight in weights}.values())
    return used - idle, reserved - idle


def memory_in_use(device: torch.device) -> int:
    """Returns the bytes that this process uses; on a GPU, the bytes of its tensors. 0 if the system does not tell."""
    if device.type == "cuda":
        return int(torch.cuda.memory_allocated(device))
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _peak_resident_set(call: Call) -> int | None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
        call()
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return None


# Kernels, and the roofline


def should_profile(spec: RunSpec, device: torch.device) -> bool:
    return spec.profile == "on" or (spec.profile == "auto" and device.type == "cuda")


def profiles(calls: dict[str, Call], device: torch.device, trace: Path | None = None) -> dict[str, Profile]:
    """Returns the profile of each call by its name. Writes all events to the file `trace` (.json.gz), if given."""
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.type == "cuda" else [])
    wait = wait_for(device)
    with torch.profiler.profile(activities=activities) as session:
        for name, call in calls.items():
            call()
            wait()
            with record_function(MARK + name):
                for _ in range(PROFILED_CALLS):
                    call()
                wait()
    with tempfile.TemporaryDirectory(prefix="profile-") as folder:
        file = trace or Path(folder) / "trace.json.gz"
        session.export_chrome_trace(str(file))
        if device.type == "cpu":
            marks = [event for event in session.events() if event.name.startswith(MARK)]
            return {mark.name.removeprefix(MARK): _of_operators(mark) for mark in marks}
        events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    return {name: profile_of(events, name) for name in calls}


def _of_operators(mark: FunctionEvent) -> Profile:
    """Returns the profile of eager or of compiled on a CPU. `mark`: the profiler's event around all its calls."""
    inside, times = list(mark.cpu_children), []
    for event in inside:  # grows by the operators that each one calls
        inside += event.cpu_children
        times.append((event.name, event.self_cpu_time_total))
    return Profile(sum(not event.cpu_children for event in inside) / PROFILED_CALLS, None, _longest_kernels(times))


def profile_of(events: Sequence[JsonObject], variant: str) -> Profile:
    """Returns the profile of "eager" or "compiled" from a Chrome trace. Raises RuntimeError if it shows no GPU work."""
    spans = [event for event in events if event.get("ph") == "X"]
    mark = next(span for span in spans if span["name"] == MARK + variant and span.get("cat") == "user_annotation")
    start, end = mark["ts"], mark["ts"] + mark["dur"]
    work = [event for event in spans if event.get("cat") in WORK and start <= event["ts"] < end]
    if not work:
        raise RuntimeError(
            "it saw no work of the GPU; a container may need permission for that (NVIDIA's CUPTI, profiling counters)"
        )
    busy = _union_length((event["ts"], event["ts"] + event["dur"]) for event in work)
    kernels = [event for event in work if event["cat"] == "kernel"]
    outside = sum(not _COPY.search(event["name"]) for event in _launched_one_by_one(kernels, spans))
    longest = _longest_kernels((event["name"], event["dur"]) for event in work)
    return Profile(len(kernels) / PROFILED_CALLS, busy / 1e6 / PROFILED_CALLS, longest, outside / PROFILED_CALLS)


def _launched_one_by_one(kernels: Iterable[JsonObject], spans: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """Yields those of `kernels` that were launched outside of CUDA graphs.

    `spans`: all events of the trace that have a duration. Among them are the launches of CUDA graphs.
    """

    def fact(event: JsonObject, name: str) -> object:
        return event.get("args", {}).get(name)

    replays = {fact(event, "correlation") for event in spans if "GraphLaunch" in event["name"]} - {None}
    for kernel in kernels:
        if not fact(kernel, "graph node id") and fact(kernel, "correlation") not in replays:
            yield kernel


def _union_length(spans: Iterable[tuple[float, float]]) -> float:
    """Returns the length of the union of spans (start, end), so that time in which two GPU streams work counts once."""
    covered, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        covered += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return covered


def _longest_kernels(timed: Iterable[tuple[str, float]]) -> tuple[Kernel, ...]:
    """Returns the five kernels with the most total time. `timed`: (name, microseconds) of each launch in all calls."""
    times: dict[str, list[float]] = defaultdict(list)
    for name, microseconds in timed:
        times[name].append(microseconds)
    total = sum(map(sum, times.values())) or 1.0
    longest = sorted(times.items(), key=lambda item: -sum(item[1]))[:5]
    return tuple(
        Kernel(fmt.shorten(name, 120), len(each) / PROFILED_CALLS, sum(each) / 1e6 / PROFILED_CALLS, sum(each) / total)
        for name, each in longest
    )


def roofline(workload: Workload) -> Roofline:
    """Measures the operations and bytes that one call needs at least, and the device's rates. Runs the model once."""
    operations, least_bytes = demand(workload)
    model, device = workload.model, workload.device
    torch.cuda.empty_cache()  # does nothing if CUDA was not used
    dtype = next(
        tensor.dtype for tensor in (*model.parameters(), *tensors(workload.batch)) if tensor.is_floating_point()
    )
    return Roofline(operations, least_bytes, matrix_rate(device, dtype), copy_rate(device))


def demand(workload: Workload) -> tuple[int, int]:
    """Returns (operations, bytes) that one call needs at least, as `Roofline` defines them."""
    on_cpu = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # unknown to torch's counter
    counter = FlopCounterMode(
        display=False, custom_mapping={on_cpu: lambda query, key, value, *_, **__: sdpa_flop(query, key, value)}
    )
    reads = _Reads(workload.model)
    with reads, counter:
        outputs = workload.once(workload.model)
    inputs_and_outputs = sum(tensor.nbytes for tensor in tensors((workload.batch, outputs)))
    return int(counter.get_total_flops()), sum(reads.bytes.values()) + inputs_and_outputs


class _Reads(TorchDispatchMode):
    """Counts the bytes of the weights and buffers that a call of the model reads, by the address of their storage."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch gives it no types
        self._sizes = {
            tensor.untyped_storage().data_ptr(): tensor.nbytes for tensor in (*model.parameters(), *model.buffers())
        }
        self.bytes: dict[int, int] = defaultdict(int)

    def __torch_dispatch__(
        self, func: Operator, types: object, args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None
    ) -> object:
        out = func(*args, **(kwargs or {}))
        for tensor in filter(has_memory, tensors((args, kwargs or {}))):
            place = tensor.untyped_storage().data_ptr()
            if place not in self._sizes:
                continue
            if func is torch.ops.aten.embedding.default and tensor is args[0]:  # reads only the rows looked up
                self.bytes[place] = min(self._sizes[place], self.bytes[place] + tensors(out)[0].nbytes)
            else:
                self.bytes[place] = self._sizes[place]
        return out


def float32_advantage(dtype: torch.dtype) -> float:
    """Returns how many times faster this processor multiplies small matrices in float32 than in `dtype`."""
    cpu = torch.device("cpu")
    return matrix_rate(cpu, torch.float32, SMALL_SIDE) / matrix_rate(cpu, dtype, SMALL_SIDE)


def matrix_rate(device: torch.device, dtype: torch.dtype, side: int | None = None) -> float:
    """Returns operations per second in a product of square matrices, with torch's present TF32 setting.

    `side`: rows of a matrix; None: enough to keep the device busy.
    """
    side = side or MATRIX_SIDE[device.type]
    left, right = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    return 2 * side**3 / _seconds(lambda: left @ right, device)


def copy_rate(device: torch.device) -> float:
    """Returns the bytes per second, read plus written, of a large copy on the device."""
    source = torch.ones(COPIED_BYTES[device.type] // 4, device=device)
    target = torch.empty_like(source)
    return 2 * COPIED_BYTES[device.type] / _seconds(lambda: target.copy_(source), device)


def _seconds(call: Call, device: torch.device) -> float:
    """Returns the mean seconds of a call. Calls are timed in several series, and the fastest series counts.

    A call must take much longer than a launch (10 us).
    """
    wait = wait_for(device)

    def now() -> float:
        wait()
        return time.perf_counter()

    timer = Timer("call()", globals={"call": call}, timer=now, num_threads=torch.get_num_threads())
    return float(min(timer.blocked_autorange().times))
