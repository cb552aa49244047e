"""Lets processes that compile in parallel use the GPU in turns, so that none measures the GPU work of another.

Inductor times kernels while it compiles, to choose among them; even without tuning, to pad matrix products
(`shape_padding`). Its choice goes into the compile cache. A turn covers the timing by inductor, the calls of compiled
code, and the functions made by `alone`. It does not keep other programs away.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch._inductor.output_code import CompiledFxGraph
from torch._inductor.runtime import benchmarking
from torch._inductor.runtime.cache_dir_utils import cache_dir
from torch.utils._filelock import FileLock


def alone(work: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that calls `work` while no other of the processes that compile in parallel uses the GPU.

    It returns only when the GPU kernels of `work` have ended.
    """
    lock = _lock(cache_dir())

    def in_turn(*values: Any, **named: Any) -> Any:
        lock.acquire()
        try:
            result = work(*values, **named)
            torch.cuda.synchronize()
            return result
        finally:
            lock.release()

    return in_turn


@functools.cache
def _lock(folder: str) -> FileLock:
    """Returns the lock by which processes take turns on the GPU: one object for the whole process.

    So code that already holds the lock, such as a compiled call that times kernels, can take it once more.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    return FileLock(Path(folder) / "gpu_turns.lock")


@contextlib.contextmanager
def turns(device: torch.device) -> Iterator[None]:
    """During the `with` block, GPU work of a compile waits while another of these processes uses the GPU.

    On a CPU it does nothing.
    """
    if device.type != "cuda":
        yield
        return
    benchmarker = type(benchmarking.benchmarker)
    with (
        mock.patch.object(benchmarker, "benchmark_gpu", alone(benchmarker.benchmark_gpu)),
        mock.patch.object(CompiledFxGraph, "__call__", alone(CompiledFxGraph.__call__)),
    ):
        yield
