"""From a spec to what its run times."""

from collections.abc import Callable
from pathlib import Path

import torch

from demo.backend import compile_model, machine_probe, own_model, picture_workload, settings, text_workload
from demo.backend.workload import Workload
from demo.core import refusals
from demo.core.outputs import ImageInfo
from demo.core.spec import OWN_MODEL, TEXT_GENERATION, RunSpec


def load(spec: RunSpec, file: Path | None, told: Callable[[ImageInfo], None] | None = None) -> Workload:
    """Sets how torch computes in this process, and loads the model on the device that the spec asks for.

    `file` is the picture's, where the model sees one, and `told` is given what a result keeps of it, before the model
    is loaded. Raises BadInput where the model cannot be run as asked, or not on this machine.
    """
    spec = refusals.checked(spec, machine_probe.host())
    device = torch.device(spec.device)
    settings.apply(spec, device)
    workload: Workload
    if spec.task == OWN_MODEL:
        workload = own_model.load(spec, device)
    elif spec.task == TEXT_GENERATION:
        workload = text_workload.load(spec, device)
    else:
        workload = picture_workload.load(spec, device, file, told)
    if spec.scope == "layers":
        compile_model.require_layers(workload.model, spec.checkpoint)
    return workload
