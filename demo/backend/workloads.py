"""From a spec to what its run times."""

from __future__ import annotations

from pathlib import Path

import torch
from PIL import Image

from demo.backend import compile_model, machine_probe, own_model, picture_workload, settings, text_workload
from demo.backend.workload import Workload
from demo.core import images, refusals
from demo.core.spec import OWN_MODEL, TEXT_GENERATION, RunSpec


def load(spec: RunSpec, device: torch.device, picture: Image.Image | None, file: Path | None) -> Workload:
    """Sets how torch computes in this process, and loads the model. `device` is the one that the spec names.

    `picture` and its `file` are None for a model that sees none. Raises BadInput where the model cannot be run as
    asked.
    """
    settings.apply(spec, device)
    workload: Workload
    if spec.task == OWN_MODEL:
        workload = own_model.load(spec, device)
    elif spec.task == TEXT_GENERATION:
        workload = text_workload.load(spec, device)
    else:
        workload = picture_workload.load(spec, device, picture, file)
    if spec.scope == "layers":
        compile_model.require_layers(workload.model, spec.checkpoint)
    return workload


def read(spec: RunSpec, file: Path | None) -> Workload:
    """Loads the workload on the device that the spec asks for. `file` is read where the model sees a picture.

    Raises BadInput where this machine cannot run the spec."""
    picture = images.read(file)[0] if file is not None and spec.sees_picture else None
    placed = refusals.checked(spec, machine_probe.host())
    return load(placed, torch.device(placed.device), picture, file)
