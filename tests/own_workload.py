"""A workload of a module and its inputs, for tests of what takes one."""

import torch

from demo.backend.own_model import OwnModel
from demo.backend.workload import Batch
from demo.core.spec import OWN_MODEL, RunSpec


def workload_of(model: torch.nn.Module, **inputs: torch.Tensor) -> OwnModel:
    batch: Batch = dict(inputs)
    return OwnModel(RunSpec("mine.py:build", OWN_MODEL), torch.device("cpu"), model, batch)
