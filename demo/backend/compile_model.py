"""Compiles a model: whole, layer by layer, with added graph breaks, or ahead of time as a package.

- Layer by layer: repeated layers with the same code share one compiled graph (PyTorch's recipe of regional
  compilation).
- A package is a `.pt2` file of AOTInductor, with a compiled library and the weights. It accepts inputs of one size.
  With the option `dynamic` "on" it accepts every size that torch.export allows.
"""

import contextlib
import copy
import os
import platform
import time
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch._inductor
import transformers
from torch._inductor import cpp_builder
from torch.export.pt2_archive._package import AOTICompiledModel
from torch.utils import _pytree as pytree
from transformers.modeling_layers import GradientCheckpointingLayer

from ..core.options import BadInput, RunSpec
from . import compile_cache, machine_probe
from .workload import Model, Workload

DYNAMIC = {"auto": None, "on": True, "off": False}


def apply_compile(model: torch.nn.Module, spec: RunSpec) -> Model:
    """Returns a compiled version of the model, which compiles at its first call. `model` itself stays eager."""
    options: dict[str, Any] = {"mode": spec.mode, "fullgraph": spec.fullgraph, "dynamic": DYNAMIC[spec.dynamic]}
    if spec.scope == "model":
        return torch.compile(add_breaks(model) if spec.graph_break else model, **options)
    by_layers = twin(model)  # a copy, because `layer.compile` changes the layer
    for layer in repeated_layers(by_layers):
        layer.compile(**options)
    return by_layers


def twin(model: torch.nn.Module) -> torch.nn.Module:
    """Returns a copy of the model that shares the original's parameters and buffers."""
    return copy.deepcopy(model, {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())})


def repeated_layers(model: torch.nn.Module) -> list[torch.nn.Module]:
    """Returns the layers that transformers marks as repeated. Of nested ones only the innermost are returned."""
    marked = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    return [layer for layer in marked if not any(other in marked for other in layer.modules() if other is not layer)]


def require_layers(model: torch.nn.Module, checkpoint: str) -> None:
    """Raises BadInput if the model has fewer than two repeated layers. The message names `checkpoint`."""
    if len(repeated_layers(model)) < 2:
        raise BadInput(
            f"{checkpoint} has no repeated layers that could be compiled one by one: transformers marks fewer than 2 "
            "in it. Choose scope model."
        )


# Added graph breaks


def add_breaks(model: torch.nn.Module) -> torch.nn.Module:
    """Returns a copy of the model with a graph break after each submodule (norm, attention, ...) of a repeated layer.

    A model without repeated layers gets a graph break after each of its own submodules. A model without submodules gets
    one graph break, at its end.
    """
    broken = twin(model)
    # Breaks only between layers would slow a small model down too little to be seen in the noise.
    parts = [part for layer in repeated_layers(broken) for part in layer.children()]
    for part in parts or _parts(broken):
        part.register_forward_hook(lambda *_: torch._dynamo.graph_break("asked for by the run's own switch"))
    return broken


def _parts(module: torch.nn.Module) -> list[torch.nn.Module]:
    """Returns the submodules of `module`. If there is only one, returns the submodules of that one instead, and so on.

    The list is never empty: without submodules it is [module].
    """
    lists = torch.nn.ModuleList | torch.nn.ModuleDict  # which are never called themselves
    parts = [
        part for child in module.children() for part in (child.children() if isinstance(child, lists) else [child])
    ]
    return _parts(parts[0]) if len(parts) == 1 else parts or [module]


# Packages


def build_package(workload: Workload, path: Path, folder: Path) -> dict[str, float]:
    """Builds an AOTInductor package of the workload's model in the file `path`. Returns the seconds of its two steps.

    - "export": torch.export captures the model as a graph. "build": inductor compiles the graph. Errors of both are
      raised.
    - `folder` becomes the compile cache. Pass an empty folder, so that this build does not reuse an earlier one.
    """
    compile_cache.use_empty_cache(folder)
    if workload.device.type == "cuda" and (toolkit := machine_probe.cuda_toolkit()):
        from torch.utils import cpp_extension  # if imported before, it has read CUDA_HOME: set both

        os.environ["CUDA_HOME"] = cpp_extension.CUDA_HOME = str(toolkit[0])  # CUDA's headers
        further = [str(folder / "include") for folder in toolkit[1:]]  # CUDA 12's wheels are several folders
        os.environ["CPATH"] = os.pathsep.join(filter(None, [*further, os.environ.get("CPATH")]))
        link_driver(folder)
    spec, batch = workload.spec, workload.batch
    shapes = pytree.tree_map(_any_size, batch) if spec.dynamic == "on" else None
    started = time.perf_counter()
    program = torch.export.export(workload.model, (), kwargs=batch, dynamic_shapes=shapes)
    exported = time.perf_counter()
    outputs = program.call_spec.out_spec.type if program.call_spec.out_spec is not None else None
    metadata = {  # a loader compares the first three, and imports the module that defines the class of the outputs
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "processor": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
        "outputs": getattr(outputs, "__module__", None) or "torch",
    }
    configs = {
        **torch._inductor.list_mode_options(spec.mode),
        "aot_inductor.metadata": metadata,
        # The script that users get switches on AOTInductor's check of inputs, which would refuse a batch of 1.
        "aot_inductor.check_lowerbound": False,
        "aot_inductor.weight_use_caching_allocator": workload.device.type == "cuda",  # its counts include the weights
    }
    # Inductor's assembler files lack the note that they need no executable stack. Linkers then ask for one (Debian 12),
    # and glibc refuses such libraries from 2.41 on (Debian 13).
    shared_flags = cpp_builder._get_shared_cflags

    def flags(*arguments: Any) -> list[str]:  # `do_link` is the last; from torch 2.14 the compiler comes before it
        note = ["Wl,-z,noexecstack"] if arguments[-1] and platform.system() == "Linux" else []
        return [*shared_flags(*arguments), *note]

    with mock.patch.object(cpp_builder, "_get_shared_cflags", flags):
        torch._inductor.aoti_compile_and_package(program, package_path=str(path), inductor_configs=configs)
    return {"export": exported - started, "build": time.perf_counter() - exported}


def link_driver(folder: Path) -> None:
    """Makes linkers find CUDA's driver as `-lcuda`. Puts a link in `folder` to the driver that this process has loaded.

    CUDA's wheels contain no stub of the driver. In a container or on WSL the driver may only be named libcuda.so.1, or
    be in a folder that linkers do not search.
    """
    if driver := machine_probe.loaded_driver():
        with contextlib.suppress(FileExistsError):  # a build that is repeated after its cache was healed
            (folder / "libcuda.so").symlink_to(driver)
        os.environ["LIBRARY_PATH"] = os.pathsep.join(filter(None, [os.environ.get("LIBRARY_PATH"), str(folder)]))


def _any_size(value: object) -> dict[int, object] | None:
    return dict.fromkeys(range(value.dim()), torch.export.Dim.AUTO) if isinstance(value, torch.Tensor) else None


def load_package(path: Path) -> Model:
    """Loads an AOTInductor package and returns its model.

    Before you call the model, import the class of its outputs: transformers registers the class with torch at the
    import.
    """
    # `torch._inductor.aoti_load_package` would also run the C++ compiler for seconds (pytorch issue 191715).
    # Arguments: path, name of the model, not single-threaded, one runner, the current device (-1).
    loader = torch._C._aoti.AOTIModelPackageLoader(str(path), "model", False, 1, -1)
    return AOTICompiledModel(loader)
