"""Loads the model and the inputs of a run. Each task has a file here, with a function `load`."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import torch

from ...core.options import RunSpec
from ...core.outputs import ImageInfo
from ...tasks.registry import BY_NAME
from .. import compile_model, torch_settings
from ..workload import Workload

LOADERS = {name: import_module(f"{__name__}.{name.replace('-', '_')}").load for name in BY_NAME}


def load(spec: RunSpec, file: Path | None, on_image: Callable[[ImageInfo], None] | None = None) -> Workload:
    """Sets torch's global options for the run and loads its model.

    - Raises BadInput if the model cannot be loaded, or lacks the layers that the spec's scope compiles. Torch's
      errors for lack of memory are raised, too.
    - `file`: the picture; None for a model that needs none.
    - `on_image`: called with the picture's facts before the model is loaded; None for no call.
    """
    torch_settings.apply(spec)
    seen = (file, on_image) if spec.sees_picture else ()
    workload: Workload = LOADERS[spec.task](spec, torch.device(spec.device), *seen)
    if spec.scope == "layers":
        compile_model.require_layers(workload.model, spec.checkpoint)
    return workload
