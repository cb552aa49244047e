"""How torch computes in this process: number format, memory format and threads."""

import contextlib
import os
import time
from typing import Any

import torch
import torch._inductor.config
import torch.fx.experimental._config

from demo.backend import compilation
from demo.backend.workload import dtype_of, memory_format_in, tensors
from demo.core.spec import RunSpec


def load_gpu_libraries(spec: RunSpec, device: torch.device) -> float:
    """Seconds for loading cuBLAS, cuDNN and torch's attention, which the first call would pay for else; 0 on a CPU."""
    if device.type != "cuda":
        return 0.0
    started = time.perf_counter()
    with torch.no_grad(), contextlib.suppress(RuntimeError):  # a model that needs what fails here says so itself
        ones = torch.ones(1, 8, 64, 64, device=device, dtype=dtype_of(spec))
        torch.nn.functional.linear(ones, ones[0, 0], ones[0, 0, 0])
        torch.nn.functional.conv2d(ones, ones[:, :, :3, :3])
        torch.nn.functional.scaled_dot_product_attention(ones, ones, ones)
        torch.cuda.synchronize()
        torch._C._cuda_clearCublasWorkspaces()  # they would count in the memory of a model without matrix products
    return time.perf_counter() - started


def apply(spec: RunSpec) -> None:
    """Sets this process's threads, and the switches of freezing, equal sizes and TF32. With dtype float32 TF32 is off
    for convolutions too, where torch allows it by default."""
    torch.set_float32_matmul_precision("high" if spec.dtype == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = spec.dtype == "tf32"
    # Not among torch.compile's options: dynamo asks for it when it traces, to make the weights constants of the graph.
    torch._inductor.config.freezing = spec.freezing
    # Else dynamo takes sizes that are equal at first, as of a square picture, to be equal always.
    torch.fx.experimental._config.use_duck_shape = spec.dynamic != "on"
    if spec.threads is not None:
        torch.set_num_threads(spec.threads)
    if spec.device == "cpu":
        compilation.separate_instructions()


def in_force(model: Any, batch: dict[str, Any]) -> dict[str, str]:
    """The settings in force, by name: read back from torch, the model and the batch, not from the spec."""
    inputs, parts = tensors(batch), [one for one in model.modules() if "Attention" in type(one).__name__] or [model]
    attention = {getattr(getattr(one, "config", None), "_attn_implementation", None) for one in parts}
    settings = {
        "attention": ", ".join(sorted(filter(None, attention))) or "none",
        "memory format": memory_format_in(inputs),
        "weights": str([*model.parameters(), *inputs][0].dtype).removeprefix("torch."),
        "matrix products": f"float32 precision {torch.get_float32_matmul_precision()}",
    }
    if torch._inductor.config.freezing:
        settings["freezing"] = "on"
    if inputs[0].is_cuda:
        settings["convolutions"] = "tf32" if torch.backends.cudnn.allow_tf32 else "float32"
    else:
        settings["spinning"] = spinning()
        compiled_for = torch.compiler.config.cache_key_tag  # from the first compile on
        own = torch.backends.cpu.get_cpu_capability()
        settings["instructions"] = f"{own}, compiled for {compiled_for}" if compiled_for else own
    return settings


def spinning() -> str:
    """How long OpenMP's threads spin while they wait for one another, by this process's environment."""
    named = (f"{name}={value}" for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT") if (value := os.environ.get(name)))
    return ", ".join(named) or "OpenMP's default"
