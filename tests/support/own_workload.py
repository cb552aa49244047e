"""Makes a workload (a model with its inputs) from any module, and runs a spec in this process instead of a worker."""

import io
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from demo.backend.compile_model import DYNAMIC
from demo.backend.messages import Events, WorkerJob
from demo.backend.run_steps import Run
from demo.backend.tasks.own_model import OwnModel
from demo.backend.workload import Batch
from demo.core import catalog, cores
from demo.core.options import OWN_MODEL, RunSpec
from demo.core.result import RunResult

SCENE = catalog.ASSETS / "examples" / "shapes-scene-1.png"


def workload_of(model: torch.nn.Module, **inputs: torch.Tensor) -> OwnModel:
    batch: Batch = dict(inputs)
    return OwnModel(RunSpec("mine.py:build", OWN_MODEL), torch.device("cpu"), model, batch)


def without_inductor(model: torch.nn.Module, spec: RunSpec) -> Any:
    """Replaces `apply_compile`: dynamo traces as usual, and runs the traced graph in eager, without inductor."""
    return torch.compile(model, backend="eager", dynamic=DYNAMIC[spec.dynamic])


def result_of(spec: RunSpec, picture: Path = SCENE, stream: io.StringIO | None = None, **job: Any) -> RunResult:
    """Runs `spec` in this process; neither other programs nor what dynamo compiled before changes the result."""
    torch._dynamo.reset()
    with mock.patch.object(cores, "sample", lambda: None):
        spec = spec.on("cpu") if spec.device == "auto" else spec
        return Run(WorkerJob(spec, str(picture), **job), Events(stream or io.StringIO())).execute()
