"""What failed in a run, and what to change: an exception and its phase become a status and a Failure."""

from __future__ import annotations

import errno
import os
from typing import Any

import torch

from demo.backend import compilation, own_model
from demo.core import format as fmt
from demo.core.catalog import own_model_parts
from demo.core.errors import NO_ROOM
from demo.core.languages import ENGLISH
from demo.core.remedies import AGAIN, other_way_to_compile
from demo.core.result import PHASE_DOING, Failure, RunResult, Status
from demo.core.spec import OWN_MODEL, RunSpec

NOT_WRITTEN = (*NO_ROOM, errno.EACCES, errno.EPERM)
OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "status_alloc_failed", "unable to find an engine")
"""In lower case: what allocators say, CUDA's and C++'s, Linux's, and that of cuBLAS and cuDNN; and what cuDNN says of a
convolution whose workspace does not fit."""


def explain(error: Exception, phase: str, result: RunResult) -> tuple[Status, Failure]:
    """`result` is what is known so far: its spec, and its environment where the model was loaded."""
    spec = result.spec
    if is_out_of_memory(error):
        return "out_of_memory", _out_of_memory(phase, result)
    own = spec.task == OWN_MODEL
    text = own_model.where(error, own_model_parts(spec.checkpoint)[0]) if own else compilation.first_line(error)
    if phase == "compile":
        return "compile_failed", _compile_failed(text, spec)
    remedy, change = _remedy(phase, spec)
    return "failed", Failure(phase, f"The run failed while {PHASE_DOING[phase]}: {text}", remedy, change)


def _remedy(phase: str, spec: RunSpec) -> tuple[str, dict[str, Any]]:
    """What to do where a phase but the compile failed, and the settings that this names."""
    if phase == "time":
        other, change = other_way_to_compile(spec)
        return f"{AGAIN} {other}", change
    exact: dict[str, Any] = {} if spec.dtype in ("float32", "tf32") else {"dtype": "float32"}
    if spec.task == OWN_MODEL:
        return "The module must run eagerly with the inputs that your function returns: fix it and run again.", exact
    if phase == "warm up" and exact:
        return ENGLISH.plain("remedy_eager"), exact
    if phase == "warm up" and spec.sees_picture:
        return "Choose another checkpoint, or one whose preprocessor_config.json fits its config.json.", {}
    return AGAIN if phase == "check" else ENGLISH.plain("remedy_checkpoint"), {}


def recompiled(events: int) -> Failure:
    """The failure of a run in which so many compile events came while it was timed."""
    return Failure(
        "time",
        f"The model compiled again while it was timed ({events} compile events): the figures are void.",
        f"{AGAIN} If it happens again, look for shapes or branches that change from call to call in "
        "the model's forward: what compiles on every call cannot be timed.",
    )


def is_out_of_memory(error: BaseException) -> bool:
    text = str(error).lower()
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(words in text for words in OUT_OF_MEMORY)


def _out_of_memory(phase: str, result: RunResult) -> Failure:
    spec, environment = result.spec, result.environment
    where = f"{environment.device_name} ({fmt.size(environment.memory_bytes)})" if environment else spec.device
    own, change = spec.task == OWN_MODEL, dict[str, Any]()
    remedy = ENGLISH.plain("remedy_inputs" if own else "remedy_smaller")
    if spec.batch_size > 1:
        change["batch_size"] = max(1, spec.batch_size // 4)
        remedy = ENGLISH.plain("remedy_batch", size=change["batch_size"])
    if spec.dtype in ("float32", "tf32"):
        change["dtype"] = "bfloat16" if spec.device == "cpu" else "float16"  # which every GPU computes in
        remedy += " " + ENGLISH.plain("remedy_dtype", dtype=change["dtype"])
    asked = "The model" if own else f"Batch size {spec.batch_size}"
    what = f"{asked} ran out of memory on {where} while {PHASE_DOING[phase]}."
    return Failure(phase, what, remedy, change)


def _compile_failed(text: str, spec: RunSpec) -> Failure:
    what = "torch.export or AOTInductor" if spec.compiler == "aot" else "torch.compile"
    if any(os.strerror(number) in text for number in NOT_WRITTEN):
        remedy, change = "Make room and allow writing in the folders of TORCHINDUCTOR_CACHE_DIR and TMPDIR.", {}
    else:
        other, change = other_way_to_compile(spec)
        remedy = f"{ENGLISH.plain('remedy_eager_works')} {other}"
        remedy += " " + ENGLISH.plain("remedy_jit") if spec.compiler == "aot" else ""
        remedy += " " + ENGLISH.plain("remedy_fullgraph") if spec.fullgraph else ""
    return Failure("compile", f"{what} failed: {text}", remedy, change)
