"""Sets torch's global options for a run, and reads back which settings are in force."""

import contextlib
import os
import re
import time

import torch
import torch._inductor.config
import torch.fx.experimental._config

from ..core import cores, format as fmt
from ..core.options import RunSpec
from . import instruction_probe
from .effects import tensors
from .workload import Batch, dtype_of

MOVES_SPEED = re.compile(
    r"(ONEDNN|DNNL|MKL|OMP|KMP|GOMP|ATEN_CPU|TORCH|TORCHINDUCTOR|TORCHDYNAMO|PYTORCH|TRITON|CUDA|CUDNN|CUBLAS|NVIDIA)_\w+"
    r"|LD_PRELOAD|DYLD_INSERT_LIBRARIES|(MALLOC|MIMALLOC|TCMALLOC|JEMALLOC)_\w+"
)
"""Environment variables that change what torch, its libraries or the allocator do, and so how fast a model is."""
NO_SPEED = re.compile(
    r"\w*(_DIR|_HOME|_PATH|_LOGS?|_VERSION|VISIBLE_DEVICES|URL|TOKEN|KEY|SECRET|AUTH|CRED|COOKIE|LICENSE)\w*"
    r"|\w*(PASS(WORD|WD|PHRASE|CODE)\w*|_(PASS|PWD|PW|PAT))|NVIDIA_(DRIVER|REQUIRE)\w*"
)
"""Matches those names that are left out although `MOVES_SPEED` matches them: they do not change speed, or their values
are secret."""
OPAQUE = re.compile(r"(?<!\w)(?!AVX\d|roundup_power2_divisions\b)(?=\w*\d)(?=\w*[A-Za-z])\w{20,}")
"""Matches a long word of letters and digits, as secrets are. Not matched are those that oneDNN or torch's allocator
knows, such as AVX512_CORE_AMX_FP16."""


def speed_variables() -> str:
    """Returns the environment variables that are set and change speed: 'ATEN_CPU_CAPABILITY=avx2, OMP_DYNAMIC=TRUE'.

    Paths are cut to their last part, and what may be a secret is '…'. GOMP_SPINCOUNT is left out if it has the value
    that the app itself sets.
    """
    own = ("GOMP_SPINCOUNT", cores.SPIN_COUNT)
    names = (name for name in sorted(os.environ) if MOVES_SPEED.fullmatch(name) and not NO_SPEED.fullmatch(name))
    values = {name: os.environ[name] for name in names if (name, os.environ[name]) != own}
    shown = {name: OPAQUE.sub("…", fmt.redact(value)) for name, value in values.items()}
    return ", ".join(f"{name}={fmt.shorten(value, 80)}" for name, value in shown.items())


def load_gpu_libraries(spec: RunSpec, device: torch.device) -> float:
    """Loads cuBLAS, cuDNN and torch's attention before any timed call. Returns the seconds this took; 0 on a CPU."""
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
    """Sets torch's number formats, freezing, dynamic sizes and threads. Call it before the model is loaded."""
    torch.set_float32_matmul_precision("high" if spec.dtype == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = spec.dtype == "tf32"  # torch's default allows it in convolutions
    # Not an option of torch.compile: dynamo reads this switch when it traces, and makes the weights constants.
    torch._inductor.config.freezing = spec.freezing
    # By default dynamo takes sizes that are equal at first, such as a square picture's, to be equal always.
    torch.fx.experimental._config.use_duck_shape = spec.dynamic != "on"
    if spec.threads is not None:
        torch.set_num_threads(spec.threads)
    elif spec.device == "cpu":  # torch counts the processor's cores, also where a container's quota allows fewer
        torch.set_num_threads(min(torch.get_num_threads(), cores.usable_cores()))
    if spec.device == "cpu":
        instruction_probe.separate_instructions()


def in_force(model: torch.nn.Module, batch: Batch) -> dict[str, str]:
    """Returns the settings in force, such as {"attention": "sdpa"}, as torch, the model and its inputs show them."""
    inputs = tensors(batch)
    parts = [module for module in model.modules() if "Attention" in type(module).__name__] or [model]
    attention = {getattr(getattr(part, "config", None), "_attn_implementation", None) for part in parts}
    pictures = [tensor for tensor in inputs if tensor.dim() == 4 and not tensor.is_contiguous()]
    last = any(picture.is_contiguous(memory_format=torch.channels_last) for picture in pictures)
    settings = {
        "attention": ", ".join(sorted(filter(None, attention))) or "none",
        "memory format": "channels last" if last else "contiguous",
        "weights": str([*model.parameters(), *inputs][0].dtype).removeprefix("torch."),
        "matrix products": f"float32 precision {torch.get_float32_matmul_precision()}",
    }
    if torch._inductor.config.freezing:
        settings["freezing"] = "on"
    if moved := speed_variables():
        settings["variables"] = moved
    if inputs[0].is_cuda:
        settings["convolutions"] = "tf32" if torch.backends.cudnn.allow_tf32 else "float32"
    else:
        # These variables decide how long OpenMP's threads spin while they wait for one another.
        variables = [
            f"{name}={os.environ[name]}" for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT") if name in os.environ
        ]
        settings["spinning"] = ", ".join(variables) or "OpenMP's default"
        compiled_for = torch.compiler.config.cache_key_tag  # from the first compile on
        own = torch.backends.cpu.get_cpu_capability()
        settings["instructions"] = f"{own}, compiled for {compiled_for}" if compiled_for else own
    return settings
