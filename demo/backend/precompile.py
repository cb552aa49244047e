"""Compiles specs side by side into inductor's cache: `python -m demo.backend.precompile`, started by a sweep.

One JSON line on standard input is the job: {"specs": [...], "image": "...", "processes": 2}. Each spec has a process
of its own, forked after torch and transformers are imported, in which nothing else was ever compiled: what it leaves in
the cache is what the run's own process will look for. A line on standard output says that one of them has ended, well
or not. When standard input closes, the parent is gone and the whole process group is killed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

# What is forked from a process that has asked CUDA can never use it, and importing inductor asks (torch 2.11). So let
# torch ask NVML, where there is one.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")

from demo.backend import run as worker  # first: it sets what the libraries read when they are imported

import torch  # isort: skip
from PIL import Image

from demo.backend import compilation
from demo.core import result as schema
from demo.core.result import RunSpec


class Silent(worker.Events):
    """Nobody watches the stages of a compile ahead."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def send(self, event: str, **content: Any) -> None:
        pass


def compile_ahead(spec: RunSpec, image: Path) -> None:
    """What a run does until its compiled model has been called: the same loading, picture and settings.

    One eager call comes first, as in a run: models keep some tensors from their first call on, and a graph that is
    traced before it is another graph. Raises whatever the run would fail with.
    """
    run = worker.Run(spec, image, {"id": "", "started_at": ""}, Silent())
    with torch.no_grad():
        run.load()
        run.prepare()
        run.eager()
        model = compilation.compiled(run.loaded.model, run.spec)
        for _ in range(2):  # what is compiled again at the second call belongs into the cache too
            model(**run.batch)


def _in_a_process(spec: RunSpec, image: Path) -> None:
    """The forked process's whole life."""
    code = 1
    try:
        # Neither is part of the cache's key. The processes share the cores already; and a kernel that was tuned while
        # others used the GPU is not to be kept: the run tunes it again, alone.
        torch._inductor.config.compile_threads = 1
        torch._inductor.config.autotune_local_cache = False
        compile_ahead(spec, image)
        code = 0
    except Exception as error:
        sys.stderr.write(f"{spec.checkpoint}: {error}\n")
    finally:
        os._exit(code)


def main() -> None:
    answers = os.dup(1)  # for this process alone: what it starts must not keep the parent waiting for the end
    os.dup2(2, 1)
    job = json.loads(sys.stdin.buffer.readline())

    worker.warm_imports()
    worker.end_with_parent()
    Image.MAX_IMAGE_PIXELS = None  # images.read holds its own, stricter limit
    running = 0
    for spec in job["specs"]:
        if running == job["processes"]:
            _tell_one_ended(answers)
            running -= 1
        if os.fork() == 0:
            _in_a_process(schema.load(RunSpec, spec), Path(job["image"]))
        running += 1
    for _ in range(running):
        _tell_one_ended(answers)


def _tell_one_ended(answers: int) -> None:
    os.wait()
    os.write(answers, b"\n")


if __name__ == "__main__":
    main()
