"""Compiles specs side by side into inductor's cache: `demo.backend.precompile`, started by a sweep.

One JSON line on standard input is the job: {"specs": [...], "input_file": "...", "processes": 2}. Each spec is compiled
in a process of its own, forked after torch and transformers are imported, so that what it leaves in the cache is what
the run's own process will look for. A line on standard output says that one has ended, whether it failed or not. It is
run by `demo.backend.lifeline`: when standard input closes, the parent is gone, and the whole process group is killed.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

# A process that has asked CUDA cannot fork another that uses it, and importing inductor asks (torch 2.11). With this
# torch asks NVML instead, where there is one.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")

import torch
from PIL import Image
from torch._inductor.output_code import CompiledFxGraph
from torch._inductor.runtime import benchmarking
from torch._inductor.runtime.cache_dir_utils import cache_dir
from torch.utils._filelock import FileLock

from demo.backend import compile_model, machine_probe, workloads
from demo.core import codec
from demo.core.spec import RunSpec


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
def turns_taken(device: torch.device) -> Iterator[None]:
    """Within it this process takes turns on a GPU with others that compile. On a CPU it changes nothing.

    Inductor times kernels while it compiles, to choose among them: pads of matrix products (`shape_padding`) even where
    nobody asked for tuning. Its choice goes into the compile cache. Covered: what inductor times, the calls of what it
    compiled, and the work that is handed to `alone`. Not covered: processes of other programs.
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


def compile_ahead(spec: RunSpec, input_file: Path) -> None:
    """What a run does until its compiled model has been called: the same loading, picture and settings.

    One eager call comes first, as in a run: models keep some tensors from their first call on, and a trace from before
    it is another graph. Raises whatever the run would fail with.
    """
    workload = workloads.load(spec, input_file)
    model = workload.model
    with torch.no_grad(), turns_taken(workload.device):
        eager = alone(workload.eager) if workload.device.type == "cuda" else workload.eager
        eager()
        models = [model]
        if spec.graph_break:
            models.insert(0, compile_model.with_breaks(model)[0])
        for one in models:
            call = workload.call(compile_model.compiled(one, spec))
            for _ in range(2):  # what is compiled again at the second call belongs into the cache too
                call()


def _in_a_process(spec: RunSpec, input_file: Path) -> None:
    """The forked process's whole life."""
    code = 1
    try:
        # Neither setting is part of the cache's key. The processes share the cores already. And a kernel that was tuned
        # while others used the GPU must not be kept: the run tunes it again, alone.
        torch._inductor.config.compile_threads = 1
        torch._inductor.config.autotune_local_cache = False
        compile_ahead(spec, input_file)
        code = 0
    except Exception as error:
        sys.stderr.write(f"{spec.checkpoint}: {error}\n")
    finally:
        os._exit(code)


def read_job() -> tuple[dict[str, Any], int]:
    """The job, one line of JSON on standard input, and the file descriptor for the answers.

    That is a copy of standard output. What a library prints from now on goes to standard error.
    """
    answers = os.dup(1)  # not inherited: a process that it starts must not keep the parent waiting for the pipe's end
    os.dup2(2, 1)
    Image.MAX_IMAGE_PIXELS = None  # images.read holds its own, stricter limit
    return json.loads(sys.stdin.buffer.readline()), answers


def main() -> None:
    job, answers = read_job()
    machine_probe.warm_imports()
    running = 0
    for spec in job["specs"]:
        if running == job["processes"]:
            _report_one_ended(answers)
            running -= 1
        if os.fork() == 0:
            _in_a_process(codec.load(RunSpec, spec), Path(job["input_file"]))
        running += 1
    for _ in range(running):
        _report_one_ended(answers)


def _report_one_ended(answers: int) -> None:
    os.wait()
    os.write(answers, b"\n")


if __name__ == "__main__":
    main()
