"""AOTInductor: the model as a package, built here, and loaded here or in any process of the same kind.

What torch.export captures becomes a library, and with the weights beside it a file `.pt2`. Covered: one batch size and
picture size, or with dynamic "on" any that the model can be exported for. Not covered: other versions of torch and
transformers, other processors and GPUs; a package notes what it was built for, see `built_for`.
"""

import contextlib
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch._inductor
import transformers
from torch._inductor import cpp_builder
from torch.export.pt2_archive._package import AOTICompiledModel
from torch.utils import _pytree as pytree

from demo.backend.workload import Workload


def build(workload: Workload, path: Path) -> dict[str, float]:
    """Exports the model for this batch and builds a package of it at `path`. Raises what torch.export raises.

    With dynamic "on" every dimension of the inputs may change where the model allows it. Returns the seconds of torch's
    two steps: 'export', the model to a graph, and 'build', that to a library with the weights beside it.
    """
    spec, batch, shapes = workload.spec, workload.batch, None
    if spec.dynamic == "on":
        shapes = pytree.tree_map(_any_size, batch)
    started = time.perf_counter()
    program = torch.export.export(workload.model, (), kwargs=batch, dynamic_shapes=shapes)
    exported = time.perf_counter()
    kind = program.call_spec.out_spec.type if program.call_spec.out_spec is not None else None
    noted = {**built_for(workload.device), "outputs": getattr(kind, "__module__", None) or "torch"}
    # The check of inputs, which the lines that load a package switch on, is not to refuse a batch of 1.
    checks = {"aot_inductor.check_lowerbound": False}
    configs = {**torch._inductor.list_mode_options(spec.mode), "aot_inductor.metadata": noted, **checks}
    with _no_executable_stack():
        torch._inductor.aoti_compile_and_package(program, package_path=str(path), inductor_configs=configs)
    return {"export": exported - started, "build": time.perf_counter() - exported}


@contextlib.contextmanager
def _no_executable_stack() -> Iterator[None]:
    """Links so that the library asks for no executable stack, which glibc refuses from 2.41 on (Debian 13).

    Inductor's assembler files lack the note that they need none, and linkers as that of Debian 12 then ask for one.
    """
    plain = cpp_builder._get_shared_cflags

    def flags(*given: Any) -> list[str]:  # whether to link comes last; torch 2.15 gives the compiler before it
        return [*plain(*given), *["Wl,-z,noexecstack"] * given[-1]]

    with mock.patch.object(cpp_builder, "_get_shared_cflags", flags):
        yield


def _any_size(value: Any) -> dict[int, Any] | None:
    return dict.fromkeys(range(value.dim()), torch.export.Dim.AUTO) if isinstance(value, torch.Tensor) else None


def built_for(device: torch.device) -> dict[str, str]:
    """What a package notes of where it was built, for a loader to compare."""
    gpu = {"gpu": torch.cuda.get_device_name(device)} if device.type == "cuda" else {}
    instructions = torch.backends.cpu.get_cpu_capability()
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    glibc = {"glibc": platform.libc_ver()[1]} if platform.libc_ver()[0] == "glibc" else {}
    return {**versions, "processor": f"{platform.machine()} {instructions}", **glibc, **gpu}


def load(path: Path) -> Any:
    """The package's model, to be called with the batch by keywords.

    The module that defines the class of its outputs must be imported before the first call, as it is where the model
    was loaded. Not `torch._inductor.aoti_load_package`: that asks the C++ compiler for its version and compiles a
    header, seconds that a server would wait for (pytorch issue 191715).
    """
    loader = torch._C._aoti.AOTIModelPackageLoader(str(path), "model", False, 1, -1)  # type: ignore[attr-defined]
    return AOTICompiledModel(loader)
