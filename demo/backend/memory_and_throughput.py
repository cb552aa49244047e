"""The passes over a variant after its timing: the GPU's own clock, calls that do not wait, memory.

Covered: the GPU's work in a call without the gaps between launches, throughput with a full queue and its energy, and
the peak of memory of one call. Not covered: each pass makes calls of its own, so its figures are not of the timed
calls; a model that waits for the GPU within its forward is still timed with its gaps; the memory of a CPU run is that
of the whole process.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from demo.backend.monitor import Observer
from demo.backend.timing import Call, garbage_collection_off
from demo.core.measurement import BackToBack, Measurement

DEVICE_CALLS, MIN_DEVICE_CALLS = 20, 3
DEVICE_SECONDS = 1.0
BACK_TO_BACK_SECONDS = {"cpu": 0.2, "cuda": 1.0}
"""On CUDA long enough for the driver's energy counter, which moves some ten times a second."""


Peak = tuple[int | None, int | None]
"""Bytes in use, and reserved."""


def examined(
    timed: Measurement | None, call: Call, device: torch.device, observer: Observer, known: Peak | None = None
) -> Measurement | None:
    """The measurement with the figures of the passes of their own; None where there is none.

    `known` is the peak of memory where it was measured before.
    """
    if timed is None:
        return None
    on_device = device_times(call, min(timed.wall_seconds)) if device.type == "cuda" else None
    throughput = back_to_back(call, device, timed.median_seconds, observer.energy_joules)
    peak, reserved = known or peak_memory(call, device)
    return replace(
        timed,
        device_seconds=on_device,
        back_to_back=throughput,
        peak_memory_bytes=peak,
        peak_reserved_bytes=reserved,
    )


def device_times(call: Call, wall_seconds: float, max_calls: int = DEVICE_CALLS) -> tuple[float, ...]:
    """Seconds of GPU work in further calls, by CUDA events with the launches queued ahead.

    The calls take about `DEVICE_SECONDS` in all, each behind a sleep of 1.5 times its `wall_seconds`; of a slow model
    they are `MIN_DEVICE_CALLS`.

    Events around a call on an idle GPU would count the gaps in which the GPU waits for the next launch. A sleep kernel
    therefore keeps the stream busy for longer than the launches take, as nvbench blocks its stream: what is left
    between the events is the work alone.
    """
    cycles = int(3.0e9 * min(0.5, 1.5 * wall_seconds))  # no current GPU runs above 3 GHz
    times = []
    for _ in range(max(MIN_DEVICE_CALLS, min(max_calls, int(DEVICE_SECONDS / (2.5 * wall_seconds))))):
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
    call: Call, device: torch.device, wall_seconds: float, energy: Callable[[], float | None]
) -> BackToBack:
    """Calls that do not wait for one another, for 0.2 s on a CPU and 1 s on a GPU, three at least.

    `wall_seconds` is the time of one call. `energy` reads the device's counter, in joules, before and after.
    """
    calls = max(3, round(BACK_TO_BACK_SECONDS[device.type] / wall_seconds))
    wait = torch.cuda.synchronize if device.type == "cuda" else (lambda: None)
    with garbage_collection_off():
        wait()
        before, start = energy(), time.perf_counter()
        for _ in range(calls):
            call()
        wait()
        seconds, after = time.perf_counter() - start, energy()
    drawn = after - before if before is not None and after is not None else None
    return BackToBack(calls, seconds, drawn)


def peak_memory(call: Call, device: torch.device) -> Peak:
    """Peak bytes (in use, reserved) during one more call; None where the system does not tell.

    On CUDA those of torch's allocator: weights, and all else that the process holds then. So eager is measured before
    the compile, which leaves frozen copies of the weights and the pools of CUDA graphs. On a CPU the peak resident set
    of the whole process (Linux); nothing is reserved there.

    A CUDA graph holds the memory of all that it computes in a pool of its own for as long as it lives, and asks the
    allocator for none when it is replayed. So a whole pool counts as in use.
    """
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()  # else the reserve would still be that of whatever ran before
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        held, given_out = _graph_pools()
        used, reserved = int(torch.cuda.max_memory_allocated()), int(torch.cuda.max_memory_reserved())
        return used - given_out + held, reserved
    try:
        Path("/proc/self/clear_refs").write_text("5")
        call()
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024, None
    except OSError:
        pass
    return None, None


def _graph_pools() -> tuple[int, int]:
    """Bytes that the pools of CUDA graphs hold of the GPU, and how many of them are given out."""
    pools = [part for part in torch.cuda.memory_snapshot() if tuple(part["segment_pool_id"]) != (0, 0)]
    return sum(part["total_size"] for part in pools), sum(part["allocated_size"] for part in pools)
