"""Compiles the model as a spec asks: whole, by layers, with added graph breaks, or ahead of time as a package.

- Scope "layers" is PyTorch's recipe of regional compilation: equal repeated layers share one graph.
- Layers and breaks are made in a copy (`twin`), so the model itself never changes.
- A package is AOTInductor's file `.pt2`: a library of what torch.export captures, and the weights. It takes one batch
  size and picture size, or with dynamic "on" any that the model can be exported for. It notes what it was built for,
  because it does not run with other versions of torch and transformers, nor on other processors and GPUs.
"""

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

from demo.backend import compilation, machine_probe
from demo.backend.workload import Workload
from demo.core.spec import BadInput, RunSpec

DYNAMIC = {"auto": None, "on": True, "off": False}
"""torch.compile's argument, by the option's value."""


def apply_compile(model: Any, spec: RunSpec) -> Any:
    """The model under torch.compile. Nothing is compiled before its first call."""
    options: dict[str, Any] = {"mode": spec.mode, "fullgraph": spec.fullgraph, "dynamic": DYNAMIC[spec.dynamic]}
    if spec.scope == "model":
        return torch.compile(add_breaks(model) if spec.graph_break else model, **options)
    by_layers = twin(model)  # a layer is compiled in place
    for layer in repeated_layers(by_layers):
        layer.compile(**options)
    return by_layers


def twin(model: Any) -> Any:
    """A copy of the modules that shares the parameters and buffers."""
    return copy.deepcopy(model, {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())})


def repeated_layers(model: torch.nn.Module) -> list[torch.nn.Module]:
    """The layers that transformers marks as repeated, the innermost where they are nested."""
    marked = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    return [layer for layer in marked if not any(other in marked for other in layer.modules() if other is not layer)]


def require_layers(model: torch.nn.Module, checkpoint: str) -> None:
    """Raises BadInput for a model without repeated layers."""
    if len(repeated_layers(model)) < 2:
        raise BadInput(
            f"{checkpoint} has no repeated layers that could be compiled one by one: transformers marks fewer than 2 "
            "in it. Choose scope model."
        )


# Added graph breaks


def add_breaks(model: Any) -> Any:
    """A twin with a graph break, as of a `print`, after each part (norm, attention, ...) of each repeated layer.

    Without repeated layers it breaks after each part of the model; without parts, at its end. Breaks between layers
    alone would cost the small checkpoints less than reruns differ.
    """
    broken = twin(model)
    parts = [part for layer in repeated_layers(broken) for part in layer.children()]
    parts = parts or list(broken.children()) or [broken]
    for part in parts:
        part.register_forward_hook(_break)
    return broken


def _break(module: torch.nn.Module, inputs: Any, outputs: Any) -> None:
    torch._dynamo.graph_break("asked for by the run's own switch")


# Packages


def build_package(workload: Workload, path: Path, folder: Path) -> dict[str, float]:
    """Builds a package of the model for this batch at `path`. Raises what torch.export raises.

    Returns the seconds of two steps: 'export' the model to a graph, and 'build' a library of it. `folder` becomes the
    compile cache; it is empty, as on a machine that has built nothing before.
    """
    compilation.use_empty_cache(folder)
    if workload.device.type == "cuda" and (homes := machine_probe.cuda_homes()):
        from torch.utils import cpp_extension  # it may have read the variable already

        os.environ["CUDA_HOME"] = cpp_extension.CUDA_HOME = str(homes[0])  # for headers, and the driver's stub
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
        # Lines that load a package switch on a check of inputs, which would refuse a batch of 1.
        "aot_inductor.check_lowerbound": False,
        "aot_inductor.weight_use_caching_allocator": workload.device.type == "cuda",  # which counts the weights
    }
    # Inductor's assembler files lack the note that they need no executable stack. Linkers then ask for one (Debian 12),
    # and glibc refuses such libraries from 2.41 on (Debian 13).
    shared_flags = cpp_builder._get_shared_cflags

    def flags(do_link: bool) -> list[str]:
        return [*shared_flags(do_link), *["Wl,-z,noexecstack"] * (do_link and platform.system() == "Linux")]

    with mock.patch.object(cpp_builder, "_get_shared_cflags", flags):
        torch._inductor.aoti_compile_and_package(program, package_path=str(path), inductor_configs=configs)
    return {"export": exported - started, "build": time.perf_counter() - exported}


def _any_size(value: Any) -> dict[int, Any] | None:
    return dict.fromkeys(range(value.dim()), torch.export.Dim.AUTO) if isinstance(value, torch.Tensor) else None


def load_package(path: Path) -> Any:
    """The package's model. Import the class of its outputs before you call it.

    `torch._inductor.aoti_load_package` would also run the C++ compiler: seconds of waiting (pytorch issue 191715).
    """
    loader = torch._C._aoti.AOTIModelPackageLoader(str(path), "model", False, 1, -1)  # type: ignore[attr-defined]
    return AOTICompiledModel(loader)
