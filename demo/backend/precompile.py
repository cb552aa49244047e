"""Compiles specs side by side into inductor's cache: `demo.backend.precompile`, started by a sweep.

One JSON line on standard input is the job: {"specs": [...], "input_file": "...", "processes": 2}. Each spec is compiled
in a process of its own, forked after torch and transformers are imported, so that what it leaves in the cache is what
the run's own process will look for. A line on standard output says that one has ended, whether it failed or not. It is
run by `demo.backend.lifeline`: when standard input closes, the parent is gone, and the whole process group is killed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

# A process that has asked CUDA cannot fork another that uses it, and importing inductor asks (torch 2.11). With this
# torch asks NVML instead, where there is one.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")

import torch
from PIL import Image

from demo.backend import compile_model, gpu_turns, graph_breaks, machine_probe, workloads
from demo.core import codec
from demo.core.spec import RunSpec


def compile_ahead(spec: RunSpec, input_file: Path) -> None:
    """What a run does until its compiled model has been called: the same loading, picture and settings.

    One eager call comes first, as in a run: models keep some tensors from their first call on, and a trace from before
    it is another graph. Raises whatever the run would fail with.
    """
    workload = workloads.load(spec, input_file)
    model = workload.model
    with torch.no_grad(), gpu_turns.taken(workload.device):
        eager = gpu_turns.alone(workload.eager) if workload.device.type == "cuda" else workload.eager
        eager()
        models = [model]
        if spec.graph_break:
            models.insert(0, graph_breaks.with_breaks(model)[0])
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
