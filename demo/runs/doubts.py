"""Why a choice is known to be of no use on this machine, said before the run."""

from __future__ import annotations

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
    found: list[Doubt] = []
    gpu = machine.gpu if spec.device == "cuda" else None
    refused = refusal(spec, machine)
    found += [name for name in REFUSED if refused is not None and refused.name == name]
    if found == ["no gpu"]:
        return ("no gpu",)
    memory = machine.memory_bytes if gpu is None else machine.gpu_memory_bytes
    if expected is not None and memory:
        if expected.least_bytes > memory:
            found.append("will not fit")
        elif expected.memory_bytes > 0.9 * memory:
            found.append("may not fit")
    if gpu is None:
        if spec.mode == "reduce-overhead":
            found.append("no cuda graphs on a cpu")
        if spec.dtype == "float16":
            found.append("float16 on a cpu")
    elif spec.threads is not None:
        found.append("threads on a gpu")
    asked = comparable(spec)
    same = [run.speedup.verdict for run in earlier if comparable(run.spec) == asked and run.speedup is not None]
    if same and all(verdict == "slower" for verdict in same[:NEWEST]):
        found.append("lost before")
    return tuple(found)
