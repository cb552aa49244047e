"""A user's own model: a function of a Python file that returns `(module, inputs)`.

Covered: any `torch.nn.Module` whose inputs are tensors, or tuples, lists and dicts that hold some. It is moved to the
run's device and number format, and put in eval mode. Not covered: what the user's function does besides.
"""

import importlib.util
import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch._dynamo import OptimizedModule
from torch.utils import _pytree as pytree

from demo.backend.failures import where
from demo.backend.workload import Batch, Workload, dtype_of, on_device, tensors
from demo.core.catalog import own_model_parts
from demo.core.caveat import Caveat
from demo.core.spec import BadInput, RunSpec

EXPECTED = "It must return (module, inputs): a torch.nn.Module, and a tensor, a tuple of arguments or a dict by name"


@dataclass(frozen=True)
class OwnModel(Workload):
    inputs: Batch

    def make_batch(self) -> Batch:
        return self.inputs


def load(spec: RunSpec, device: torch.device) -> OwnModel:
    """Calls the user's function. Raises BadInput for a file, a function or an answer that cannot be used."""
    file, name = own_model_parts(spec.checkpoint)
    called = f"{name}() of {file.name}"
    torch.manual_seed(0)  # weights drawn at random are the same in every process of a run
    function = getattr(_import_file(file), name, None)
    if not callable(function):
        raise BadInput(f"{file.name} has no function {name}. Give the name of one that it has after the colon.")
    torch.manual_seed(0)
    try:
        with torch.enable_grad():  # as in the user's own process: a run holds no_grad
            answer = function()
    except (Exception, SystemExit) as error:
        raise BadInput(f"{called} failed: {where(error, file)}. Fix it, and run it again.") from error
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise BadInput(f"{called} returned {_kind(answer)}. {EXPECTED}.")
    returned, given = answer
    model = _original(returned)
    if not isinstance(model, torch.nn.Module):
        raise BadInput(f"{called} returned {_kind(model)} as its module. {EXPECTED}.")
    parts = _undo_compile(model) + (model is not returned)
    caveats = [Caveat("came_compiled", {"parts": parts})] if parts else []
    batch = _by_name(model, given, called)
    inputs = pytree.tree_map_only(torch.Tensor, lambda tensor: on_device(tensor, spec, device), batch)
    return OwnModel(spec, device, _place(model, spec, device, called), inputs, caveats=caveats)


def _undo_compile(model: torch.nn.Module) -> int:
    """Takes torch.compile off the modules of a model, their methods and attributes. Returns how many had it. The first
    eager calls tell of others, such as compiled functions in a closure."""
    parts = 0
    for holder in (holder for module in model.modules() for holder in (module, *type(module).__mro__)):
        for name, value in [*vars(holder).items(), *getattr(holder, "_modules", {}).items()]:
            if (original := _original(value)) is not value:
                setattr(holder, name, None if name == "_compiled_call_impl" else original)
                parts += 1
    return parts


def _original(value: Any) -> Any:
    """What was given to torch.compile, if this is its answer; else, as after `torch.compiler.disable`, the value."""
    known = vars(value) if isinstance(value, FunctionType | OptimizedModule) else {}
    # `functools.wraps` copies these marks to wrappers that do more.
    if "get_compiler_config" not in known or known.get("_torchdynamo_wrapper_id") != id(value):
        return value
    return _original(getattr(value, "_orig_mod", known["_torchdynamo_orig_callable"]))


def _place(model: Any, spec: RunSpec, device: torch.device, called: str) -> Any:
    """On the device, in eval mode, in the asked format. Raises BadInput where complex weights would become real."""
    asked, weights = dtype_of(spec), [*model.parameters(), *model.buffers()]
    model.eval()
    model = model.to(device)
    if any(tensor.is_floating_point() and tensor.dtype != asked for tensor in model.parameters()):
        if any(tensor.is_complex() for tensor in weights):
            raise BadInput(f"The module of {called} holds complex numbers: choose the dtype of its other weights.")
        model = model.to(asked)
    return model.to(memory_format=torch.channels_last) if spec.channels_last else model


def _import_file(file: Path) -> ModuleType:
    """The file as a module that finds its neighbours."""
    sys.path.insert(0, str(file.parent))
    # torch.export looks up classes by their module, so it is registered; never in place of another one.
    name = file.stem if file.stem not in sys.modules else f"own_{file.stem}"
    spec: Any = importlib.util.spec_from_file_location(name, file)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise BadInput(f"{file.name} cannot be imported: {where(error, file)}. Fix it, and run it again.") from error
    return module


def _kind(value: object) -> str:
    return "nothing" if value is None else f"an object of class {type(value).__name__}"


def _by_name(model: torch.nn.Module, given: Any, called: str) -> Batch:
    """The inputs as arguments by name. Raises BadInput where they do not fit the module's `forward`."""
    by_name = dict(given) if isinstance(given, Mapping) else {}  # a tokenizer's BatchEncoding is a Mapping, no dict
    by_position = () if isinstance(given, Mapping) else given if isinstance(given, list | tuple) else (given,)
    if not tensors((by_position, by_name)):
        raise BadInput(f"The inputs of {called} hold no tensor: {_kind(given)}. {EXPECTED}.")
    try:
        signature = inspect.signature(model.forward)
        bound = signature.bind(*by_position, **by_name)
    except (TypeError, ValueError) as error:
        raise BadInput(f"The inputs of {called} do not fit its module's forward: {error}.") from error
    batch: Batch = {}
    for argument, value in bound.arguments.items():
        kind = signature.parameters[argument].kind
        if kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY):
            raise BadInput(
                f"The module's forward takes {argument!r} by position only, and inputs are given by name here. "
                "Give forward parameters with names."
            )
        batch |= value if kind is inspect.Parameter.VAR_KEYWORD else {argument: value}
    return batch
