"""Processes that compile side by side take turns on the GPU, so that none measures another's work.

Inductor times kernels while it compiles, to choose among them: pads of matrix products (`shape_padding`) even where
nobody asked for tuning. Its choice goes into the compile cache. Covered: what inductor times, the calls of what it
compiled, and the work that is handed to `alone`. Not covered: processes of other programs.
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
    """`work`, called while no other process that takes turns uses the GPU; its kernels have ended when it returns."""
    lock = _lock(cache_dir())

    def called(*given: Any, **named: Any) -> Any:
        lock.acquire()
        try:
            made = work(*given, **named)
            torch.cuda.synchronize()
            return made
        finally:
            lock.release()

    return called


@functools.cache
def _lock(folder: str) -> FileLock:
    """One object for a process: what is compiled may time kernels when it is first called, within its own turn."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    return FileLock(Path(folder) / "gpu_turns.lock")


@contextlib.contextmanager
def taken(device: torch.device) -> Iterator[None]:
    """Within it this process takes turns on a GPU. On a CPU it changes nothing."""
    if device.type != "cuda":
        yield
        return
    benchmarker = type(benchmarking.benchmarker)
    with (
        mock.patch.object(benchmarker, "benchmark_gpu", alone(benchmarker.benchmark_gpu)),
        mock.patch.object(CompiledFxGraph, "__call__", alone(CompiledFxGraph.__call__)),
    ):
        yield
