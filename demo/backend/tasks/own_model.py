"""A user's own model: a function in a Python file returns `(module, inputs)`.

Covered: any `torch.nn.Module` whose inputs are tensors, or tuples, lists and dicts of tensors. Not covered: a `forward`
whose inputs can only be passed by position.
"""

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import pickle
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from safetensors import SafetensorError
from torch._dynamo import OptimizedModule
from torch.utils import _pytree as pytree

from ...core.catalog import IN_MEMORY, own_model_module, own_model_parts
from ...core.caveat import Caveat
from ...core.files import LFS_REMEDY
from ...core.options import BadInput, RunSpec
from .. import causes, compilation
from ..effects import tensors
from ..failures import with_line
from ..workload import Batch, Model, Workload, dtype_of, is_cast, on_device

FIX = "Fix it, and run it again."
RETURN_BY_NAME = "Return them as a dict by name, which its ** passes on."
LOAD_THEM = "Load the weights (load_state_dict with assign=True), and make inputs and weights on a CPU."
ADD_NAMES = "Give forward a named parameter for each input: forward(self, x)."
UNREADABLE = (pickle.UnpicklingError, SafetensorError, ValueError, EOFError, RuntimeError)
"""Errors that loaders of weights or JSON raise if the file is only a Git LFS pointer."""
FROM_MEMORY = "the measured model"
"""Name, in error messages, of a module that a program passed to `measure`. If a file's function returned the module, it
is named 'build() of model.py'."""
EXPECTED = "It must return (module, inputs): a torch.nn.Module, and a tensor, a tuple of arguments or a dict by name"


@dataclass(frozen=True)
class OwnModel(Workload):
    inputs: Batch

    def make_batch(self) -> Batch:
        return self.inputs

    def outputs(self, model: Model) -> list[torch.Tensor]:
        return compilation.clone_outputs(tensors(self.call(model)()))  # cloning would not look into a dataclass


def load(spec: RunSpec, device: torch.device) -> OwnModel:
    """Calls the user's function. Raises BadInput if the file, the function or its result cannot be used."""
    file, name = own_model_parts(spec.checkpoint)
    called = FROM_MEMORY if name == IN_MEMORY else f"{name}() of {file.name}"
    torch.manual_seed(0)  # random weights are the same in every process of a run
    function = getattr(_import_file(spec.checkpoint, file), name, None)
    if not callable(function):
        raise BadInput(f"{file.name} has no function {name}. Give the name of one that it has after the colon.")
    torch.manual_seed(0)  # the import may have drawn random numbers
    try:
        with torch.enable_grad():  # as in the user's own process: runs have grad off
            answer = function()
    except BaseException as error:
        others = causes.pointers(file.parent) if isinstance(error, UNREADABLE) else ""
        remedy = f"Git LFS pointers are beside it: {others}. {LFS_REMEDY}" if others else FIX
        raise BadInput(f"{called} failed: {with_line(error, file)}. {remedy}") from error
    match answer:
        case (torch.nn.Module() as model, raw_inputs):
            pass
        case _:
            parts = ", ".join(type(part).__name__ for part in answer) if isinstance(answer, tuple) else ""
            what = f"({parts[:80]})" if parts else f"an object of class {type(answer).__name__}"
            raise BadInput(f"{called} returned {what}. {EXPECTED}.")
    if isinstance(model, torch.jit.ScriptModule):
        raise BadInput(f"{called} returned TorchScript, which torch.compile refuses. Return the module it was made of.")
    if off := causes.switched_off():
        raise BadInput(f"{file.name}: {off}")
    # Eager would be compiled, too. `Run.warm_up_eager` notes compiled functions that forward calls.
    if any(map(_is_compiled, model.modules())):
        raise BadInput(f"The module of {called} is compiled already, or a part of it. Return it before torch.compile.")
    batch = _by_name(model, raw_inputs, called)
    if any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers(), *tensors(batch))):
        raise BadInput(f"{called} returned weights or inputs on the meta device, which hold no numbers. {LOAD_THEM}")
    inputs = pytree.tree_map_only(torch.Tensor, lambda tensor: on_device(tensor, spec, device), batch)
    caveats = _of_format(model, batch, spec)  # before the weights get another
    return OwnModel(spec, device, _place(model, spec, device), inputs, caveats=caveats)


def _is_compiled(module: torch.nn.Module) -> bool:
    """Returns whether the module, or its `forward`, is already compiled with torch.compile."""
    forward = getattr(module, "forward", None)  # TorchScript may have none
    compiled = module._compiled_call_impl is not None or hasattr(forward, "_torchdynamo_inline")
    return isinstance(module, OptimizedModule) or compiled


def _place(model: torch.nn.Module, spec: RunSpec, device: torch.device) -> torch.nn.Module:
    """Returns the module on the device, in eval mode if it has modes.

    If a weight has another dtype than the spec's, all weights and buffers get the spec's. Tensors for which `is_cast`
    is False neither count nor change.
    """
    dtype = dtype_of(spec)
    with contextlib.suppress(NotImplementedError):  # an exported module refuses: it has one mode
        model.eval()  # not chained: a user's `train` may return nothing
    model = model.to(device)
    if any(is_cast(weight) and weight.dtype != dtype for weight in model.parameters()):
        # `to` would make complex weights real, and 8-bit floats wide.
        model = model._apply(lambda tensor: tensor.to(dtype) if is_cast(tensor) else tensor)
    if spec.channels_last:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub asks for more
    return model


def _of_format(model: torch.nn.Module, batch: Batch, spec: RunSpec) -> list[Caveat]:
    """Returns a caveat if the run computes in float32, and weights or inputs were given in another number format."""
    if dtype_of(spec) != torch.float32:  # asked for
        return []
    formats = {
        str(tensor.dtype).removeprefix("torch.") for tensor in (*model.parameters(), *tensors(batch)) if is_cast(tensor)
    }
    others = " and ".join(sorted(formats - {"float32"}))
    return [Caveat("given_dtype", {"given": others, "dtype": spec.dtype})] if others else []


def _import_file(checkpoint: str, file: Path) -> ModuleType:
    """Imports the user's file, which may import files from its folder. Raises BadInput if the import fails."""
    folder, name = own_model_module(checkpoint)
    package = name.partition(".")[0]
    if package != name and package in sys.modules:
        raise BadInput(
            f"{name} is in a package {package}, and the process that measures has another module of this name. "
            "Rename the package, or give a file outside of it."
        )
    _find_neighbours(folder)
    try:
        if package != name:
            return importlib.import_module(name)
        name = f"own_{name}"  # torch.export looks up classes by their module, so it is registered
        spec: Any = importlib.util.spec_from_file_location(name, file)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except BaseException as error:
        what, remedy = causes.of_file(file) or causes.of_encoding(file) or ("", FIX)
        what = f"it {what}" if what else with_line(error, file)
        raise BadInput(f"{file.name} cannot be imported: {what}. {remedy}") from error
    return module


def _find_neighbours(folder: Path) -> None:
    """Makes imports find the files of the user's folder before those of this project and of installed packages.

    Not found this way are files named like a package that is imported already, such as torch, or like a module of
    Python's own: torch imports some of these late, and would get the user's file instead.
    """
    package = __name__.partition(".")[0]
    own = importlib.machinery.PathFinder.find_spec(package, [str(folder)])
    if own is not None and own.origin != getattr(sys.modules.get(package), "__file__", None):
        # The program's own imports are relative, so that they do not need this name.
        sys.modules.pop(package, None)

    class Neighbours(importlib.abc.MetaPathFinder):
        def find_spec(
            self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
        ) -> importlib.machinery.ModuleSpec | None:
            if path is not None or name in sys.stdlib_module_names:
                return None
            return importlib.machinery.PathFinder.find_spec(name, [str(folder)])

    sys.meta_path.insert(0, Neighbours())


def _by_name(model: torch.nn.Module, inputs: object, called: str) -> Batch:
    """Returns the user's `inputs` as keyword arguments of `forward`.

    `called`: how errors name what the inputs belong to, 'build() of model.py' or `FROM_MEMORY`. Raises BadInput if the
    inputs hold no tensor, or if `forward` does not accept them by name.
    """
    by_name = dict(inputs) if isinstance(inputs, Mapping) else {}  # a tokenizer's BatchEncoding is a Mapping, no dict
    by_position = () if isinstance(inputs, Mapping) else inputs if isinstance(inputs, list | tuple) else (inputs,)
    if not tensors((by_position, by_name)):
        remedy = "Give a tensor, a tuple of arguments or a dict by name" if called == FROM_MEMORY else EXPECTED
        raise BadInput(f"The inputs of {called} hold no tensor. {remedy}.")
    spec = getattr(model, "_in_spec", None)
    if isinstance(spec, pytree.TreeSpec) and spec.children()[0].num_children:
        raise BadInput(
            f"The module of {called} is an exported one that takes its inputs by position, and inputs are given by "
            'name. Export it by name, torch.export.export(module, (), {"x": x}), or return the module it was made of.'
        )
    try:
        signature = inspect.signature(model.forward)
        bound = signature.bind(*by_position, **by_name)
    except (TypeError, ValueError) as error:
        raise BadInput(f"The inputs of {called} do not fit its module's forward: {error}.") from error
    batch: Batch = {}
    for argument, value in bound.arguments.items():
        kind = signature.parameters[argument].kind
        if kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY):
            star = "*" if kind is inspect.Parameter.VAR_POSITIONAL else ""
            named = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in signature.parameters.values())
            raise BadInput(
                f"The forward of {type(model).__name__} takes {star}{argument} by position only, and inputs are given "
                f"by name. {RETURN_BY_NAME if named else ADD_NAMES}"
            )
        batch |= value if kind is inspect.Parameter.VAR_KEYWORD else {argument: value}
    return batch
