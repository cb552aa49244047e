"""Lets processes that compile in parallel use the GPU in turns, so that none is slowed while it times kernels.

Inductor times kernels while it compiles, to choose among them. It does so even without tuning, to decide whether to pad
matrix products (`shape_padding`). Its choice goes into the compile cache. Inductor's timing, calls of compiled code and
functions made by `alone` run in turns. Other programs are not kept off the GPU.
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
    """During the `with` block, GPU work of a compile waits while another process that takes turns uses the GPU.

    On a CPU the block changes nothing.
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
