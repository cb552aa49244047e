"""A user's own model: a function of a Python file that returns `(module, inputs)`.

Covered: any `torch.nn.Module` whose inputs are tensors, or tuples, lists and dicts that hold some. It is moved to the
run's device and number format, and put in eval mode. Not covered: what the function does besides, since it is the
user's own code and runs as such.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils import _pytree as pytree

from demo.backend import settings
from demo.backend.subject import Batch, Subject, tensors
from demo.core.catalog import own_model_parts
from demo.core.errors import BadInput
from demo.core.spec import RunSpec

SEED = 0
"""Weights that `build` draws are the same in every process of a run."""
SHAPE = "It must return (module, inputs): a torch.nn.Module, and a tensor, a tuple of arguments or a dict by name"


@dataclass(frozen=True)
class OwnModel(Subject):
    inputs: Batch
    """On the device, in the run's number and memory format."""

    def copy(self) -> Batch:
        return self.inputs


def load(spec: RunSpec, device: torch.device) -> OwnModel:
    """Calls the user's function. Raises BadInput for a file, a function or an answer that cannot be used."""
    file, name = own_model_parts(spec.checkpoint)
    function = getattr(_imported(file), name, None)
    if not callable(function):
        raise BadInput(
            f"{file.name} has no function {name}. Give the name of one after the colon: --model {file}:NAME."
        )
    torch.manual_seed(SEED)
    try:
        with torch.enable_grad():  # as in the user's own process: a run holds no_grad
            answer = function()
    except (Exception, SystemExit) as error:
        raise BadInput(f"{name}() of {file.name} failed: {_where(error, file)}. Mend it, and run it again.") from error
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise BadInput(f"{name}() of {file.name} returned {_kind(answer)}. {SHAPE}.")
    model, given = answer
    if not isinstance(model, torch.nn.Module):
        raise BadInput(f"{name}() of {file.name} returned {_kind(model)} as its module. {SHAPE}.")
    batch = _by_name(model, given, file, name)
    _check_devices(model, batch, file, name)
    dtype = _dtype(spec, model, file, name)

    def placed(tensor: torch.Tensor) -> torch.Tensor:
        moved = tensor.detach().to(device, dtype if tensor.is_floating_point() else None)
        return moved.contiguous(memory_format=settings.memory_format_of(spec)) if moved.dim() == 4 else moved

    ready: Any = model.eval()
    ready = ready.to(device, dtype, memory_format=settings.memory_format_of(spec))
    return OwnModel(spec, device, ready, pytree.tree_map_only(torch.Tensor, placed, batch))


def _imported(file: Path) -> ModuleType:
    """The file as a module, imported as `python file.py` would see its neighbours."""
    sys.path.insert(0, str(file.parent))
    found = importlib.util.spec_from_file_location(file.stem, file)
    if found is None or found.loader is None:
        raise BadInput(f"{file.name} is no Python file. Name one that ends in .py.")
    module = importlib.util.module_from_spec(found)
    sys.modules[file.stem] = module  # torch.export looks up classes by their module
    try:
        found.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise BadInput(f"{file.name} cannot be imported: {_where(error, file)}. Mend it, and run it again.") from error
    return module


def _where(error: BaseException, file: Path) -> str:
    """'ValueError: no such size (line 7)': the last line of the user's file that took part."""
    first = next(iter(str(error).splitlines()), "")
    lines = [at.lineno for at in traceback.extract_tb(error.__traceback__) if at.filename == str(file)]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    return f"{type(error).__name__}{f': {first[:200]}' if first else ''}{f' (line {line})' if line else ''}"


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _by_name(model: torch.nn.Module, given: Any, file: Path, name: str) -> Batch:
    """The inputs as arguments by name. Raises BadInput where they do not fit the module's `forward`."""
    by_position = () if isinstance(given, dict) else tuple(given) if isinstance(given, tuple | list) else (given,)
    by_name = given if isinstance(given, dict) else {}
    if not tensors((by_position, by_name)):
        raise BadInput(f"The inputs of {name}() of {file.name} hold no tensor, but {_kind(given)}. {SHAPE}.")
    try:
        bound = inspect.signature(model.forward).bind(*by_position, **by_name)
    except TypeError as error:
        raise BadInput(f"The inputs of {name}() of {file.name} do not fit its module's forward: {error}.") from error
    kinds = inspect.signature(model.forward).parameters
    batch: Batch = {}
    for argument, value in bound.arguments.items():
        match kinds[argument].kind:
            case inspect.Parameter.VAR_KEYWORD:
                batch |= value
            case inspect.Parameter.VAR_POSITIONAL | inspect.Parameter.POSITIONAL_ONLY:
                raise BadInput(
                    f"The module's forward takes {argument!r} by position only, and inputs are given by name here. "
                    "Give forward parameters with names."
                )
            case _:
                batch[argument] = value
    return batch


def _check_devices(model: torch.nn.Module, batch: Batch, file: Path, name: str) -> None:
    """Raises BadInput where module and inputs lie on different devices, or hold no data."""
    places = {tensor.device for tensor in (*model.parameters(), *model.buffers(), *tensors(batch))}
    if len(places) > 1 or "meta" in {place.type for place in places}:
        raise BadInput(
            f"The module and the inputs of {name}() of {file.name} lie on {', '.join(sorted(map(str, places)))}. Make "
            "both on one device, such as the CPU: the run moves them to its own."
        )


def _dtype(spec: RunSpec, model: torch.nn.Module, file: Path, name: str) -> torch.dtype:
    """The asked number format. Raises BadInput where the module already has another one than float32."""
    asked = settings.dtype_of(spec)
    found = {tensor.dtype for tensor in model.parameters() if tensor.is_floating_point()}
    if found <= {torch.float32, asked}:
        return asked
    names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in found))
    raise BadInput(
        f"The module of {name}() of {file.name} holds weights in {names}, and this run is in {spec.dtype}. Build it in "
        "float32 and choose with --dtype."
    )
