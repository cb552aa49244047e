"""How torch computes: number format, memory format and threads, set from the spec and read back from the process."""

import os
from typing import Any

import torch
import torch._inductor.config
import torch.fx.experimental._config

from demo.backend.workload import tensors
from demo.core.spec import RunSpec


def apply(spec: RunSpec, device: torch.device) -> None:
    """Sets this process's threads, and the switches of freezing, equal sizes and TF32.

    With dtype float32 TF32 is off for convolutions too, where torch allows it by default.
    """
    torch.set_float32_matmul_precision("high" if spec.dtype == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = spec.dtype == "tf32"
    # For the whole process, and not among torch.compile's options: dynamo asks for it when it traces, and only then are
    # the weights constants of the graph.
    torch._inductor.config.freezing = spec.freezing
    # Else dynamo takes sizes that are equal at first, such as those of a square picture, to be equal always.
    torch.fx.experimental._config.use_duck_shape = spec.dynamic != "on"
    if spec.threads is not None:
        torch.set_num_threads(spec.threads)


def give_way(spec: RunSpec, device: torch.device, free_cores: int | None) -> bool:
    """With threads 'auto' on a CPU: sets no more threads than cores are free. Returns whether that made them fewer.

    Threads meet at a barrier after every operation, so all of them wait for the one whose core is taken. torch's own
    number stays where it is not known what is free.
    """
    if device.type != "cpu" or spec.threads is not None or free_cores is None:
        return False
    if free_cores >= torch.get_num_threads():
        return False
    torch.set_num_threads(free_cores)
    return True


def dtype_of(spec: RunSpec) -> torch.dtype:
    """The type that weights and inputs are stored in."""
    return {"float16": torch.float16, "bfloat16": torch.bfloat16}.get(spec.dtype, torch.float32)


def memory_format_of(spec: RunSpec) -> torch.memory_format:
    return torch.channels_last if spec.channels_last else torch.contiguous_format


def in_force(model: Any, batch: dict[str, Any]) -> dict[str, str]:
    """The settings in force, by name: read back from torch, the model and the batch, not from the spec."""
    inputs = tensors(batch)
    pictures = [one for one in inputs if one.dim() == 4]
    last = any(one.is_contiguous(memory_format=torch.channels_last) and not one.is_contiguous() for one in pictures)
    config, weights = getattr(model, "config", None), [*model.parameters(), *inputs]
    settings = {
        "attention": str(getattr(config, "_attn_implementation", None) or "none"),
        "memory format": "channels last" if last else "contiguous",
        "weights": str(weights[0].dtype).removeprefix("torch."),
        "matrix products": f"float32 precision {torch.get_float32_matmul_precision()}",
    }
    if torch._inductor.config.freezing:
        settings["freezing"] = "on"
    if inputs[0].is_cuda:
        settings["convolutions"] = "tf32" if torch.backends.cudnn.allow_tf32 else "float32"
    else:
        settings["spinning"] = spinning()
    return settings


def spinning() -> str:
    """How long OpenMP's threads spin while they wait for one another, by this process's environment."""
    named = (f"{name}={value}" for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT") if (value := os.environ.get(name)))
    return ", ".join(named) or "OpenMP's default"
