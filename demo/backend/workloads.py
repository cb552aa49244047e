"""From a spec to what its run times."""

from __future__ import annotations

from pathlib import Path

import torch
from PIL import Image

from demo.backend import compile_model, machine_probe, models, own_model, settings, text_workload
from demo.backend.picture_workload import PictureWorkload
from demo.backend.workload import Workload
from demo.core import images
from demo.core.errors import BadInput
from demo.core.spec import OWN_MODEL, TEXT_GENERATION, RunSpec


def load(spec: RunSpec, device: torch.device, picture: Image.Image | None, file: Path | None) -> Workload:
    """Sets how torch computes in this process, and loads the model. `device` is the one that the spec names.

    `picture` and its `file` are None for a model that sees none. Raises BadInput where the model cannot be run as
    asked.
    """
    if spec.mode not in machine_probe.modes():
        raise BadInput(
            f"This torch ({torch.__version__}) has no mode {spec.mode!r}. Allowed: {', '.join(machine_probe.modes())}."
        )
    machine_probe.require_compiler()
    settings.apply(spec, device)
    workload: Workload
    if spec.task == OWN_MODEL:
        workload = own_model.load(spec, device)
    elif spec.task == TEXT_GENERATION:
        workload = text_workload.load(spec, device)
    elif picture is not None and file is not None:
        loaded = models.load(spec, device)
        workload = PictureWorkload(spec, device, loaded.model, loaded, picture, file)
    else:
        raise BadInput(f"{spec.checkpoint} sees a picture, and none was given. Name one.")
    if spec.scope == "layers":
        compile_model.require_layers(workload.model, spec.checkpoint)
    return workload


def read(spec: RunSpec, file: Path | None) -> Workload:
    """Loads the workload on the device that the spec asks for. `file` is read where the model sees a picture."""
    picture = images.read(file)[0] if file is not None and spec.sees_picture else None
    device = machine_probe.pick_device(spec.device)
    return load(spec.on(device.type), device, picture, file)
