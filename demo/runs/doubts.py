"""Why a choice is known to be of no use on this machine, said before the run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from demo.core.machine import HostInfo
from demo.core.refusals import refusal
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.runs.forecast import NEWEST, Forecast, comparable

Doubt = Literal[
    "no gpu",
    "no cuda graphs on a cpu",
    "float16 on a cpu",
    "no tf32",
    "no bfloat16",
    "threads on a gpu",
    "lost before",
    "will not fit",
    "may not fit",
]

REFUSED: tuple[Doubt, ...] = ("no gpu", "no tf32", "no bfloat16")
"""The rules of `refusals.RULES` that the page tells in each language."""


def doubts(
    spec: RunSpec, machine: HostInfo, expected: Forecast | None, earlier: Sequence[RunResult]
) -> tuple[Doubt, ...]:
    """Why these settings are known to be of no use here, most serious first.

    `spec.device` is 'cpu' or 'cuda'; `earlier` are this machine's runs on that device, newest first.
    """
    on_gpu, refused, asked = spec.device == "cuda", refusal(spec, machine), comparable(spec)
    memory = (machine.gpu_memory_bytes if on_gpu else machine.memory_bytes) or math.inf
    least, likely = (expected.least_bytes, expected.memory_bytes) if expected is not None else (0.0, 0.0)
    same = [run.speedup.verdict for run in earlier if comparable(run.spec) == asked and run.speedup is not None]
    found: dict[Doubt, bool] = {
        **{name: refused is not None and refused.name == name for name in REFUSED},
        "will not fit": least > memory,
        "may not fit": least <= memory and likely > 0.9 * memory,
        "no cuda graphs on a cpu": not on_gpu and spec.mode == "reduce-overhead",
        "float16 on a cpu": not on_gpu and spec.dtype == "float16",
        "threads on a gpu": on_gpu and machine.gpu is not None and spec.threads is not None,
        "lost before": bool(same) and all(verdict == "slower" for verdict in same[:NEWEST]),
    }
    return tuple(name for name, holds in found.items() if holds)
