"""Tests of which settings each kind of machine refuses."""

import dataclasses
import re
from typing import Any

import pytest
from support.samples import MACHINE

from demo.core import catalog, refusals
from demo.core.machine import HostInfo
from demo.core.options import BadInput


def machine(gpu: str | None, capability: str | None = None, **more: Any) -> HostInfo:
    facts = {"gpu_memory_bytes": 24 * 2**30 if gpu else None, "cuda_toolkit": "/usr/local/cuda", **more}
    return dataclasses.replace(MACHINE, gpu=gpu, compute_capability=capability, **facts)


NO_CODE = "torch 2.13.0 for CUDA 13.0 has no code for the Tesla V100 (compute capability 7.0)"
MACHINES = {
    "CPU": machine(None),
    "no headers": machine(None, compile_problem="torch.compile cannot build code here: no Python.h. Install it."),
    "P100, torch for CUDA 12.6": machine("Tesla P100", "6.0"),
    "V100, torch for CUDA 13": machine(None, gpu_problem=NO_CODE),
    "V100, torch for CUDA 12.6": machine("Tesla V100", "7.0"),
    "T4 small": machine("Tesla T4", "7.5", cuda_toolkit=None, memory_bytes=15 * 10**9, gpu_memory_bytes=15 * 10**9),
    "T4 in 8 GB of memory": machine("Tesla T4", "7.5", memory_bytes=8 * 10**9),
    "A100": machine("NVIDIA A100", "8.0"),
    "a tenth of an A100 (MIG)": machine("NVIDIA A100 MIG 1g.5gb", "8.0", gpu_memory_bytes=5 * 10**9),
    "RTX 5090": machine("NVIDIA GeForce RTX 5090", "12.0"),
    "a driver that says nothing": machine("NVIDIA GPU", None, gpu_memory_bytes=None),
    "an old torch": machine("NVIDIA A100", "8.0", modes=("default",)),
}
GEMMA = {"checkpoint": "google/gemma-2b", "prompt": "A"}
ASKED: dict[str, dict[str, Any]] = {
    "plain": {},
    "cuda": {"device": "cuda"},
    "tf32": {"dtype": "tf32"},
    "bfloat16": {"dtype": "bfloat16"},
    "float16": {"dtype": "float16"},
    "layers": {"scope": "layers"},
    "layers with graphs": {"scope": "layers", "mode": "reduce-overhead"},
    "aot": {"compiler": "aot"},
    "autotune": {"mode": "max-autotune"},
    "gemma": GEMMA,
    "gemma bfloat16": {**GEMMA, "dtype": "bfloat16"},
}
NO_GPU, NO_TF32, NO_TRITON = "Device cuda was asked for", "dtype tf32 is a format", "needs a GPU of compute capability"
GRAPHS, TOOLKIT = "each layer would overwrite the CUDA graph's output", "NVIDIA's CUDA toolkit"
NO_MODE, SMALL, SMALL_GPU = "has no mode", "more than this machine's memory", "more than the NVIDIA A100 MIG"
LAYERS = {"layers with graphs": GRAPHS}
BELOW_AMPERE = {"tf32": NO_TF32, **dict.fromkeys(("bfloat16", "gemma bfloat16"), "leaves bfloat16 to eager"), **LAYERS}
MATRIX: dict[str, dict[str, str]] = {
    "CPU": {"cuda": NO_GPU, "tf32": NO_TF32},
    "no headers": dict.fromkeys(ASKED, "no Python.h"),
    "P100, torch for CUDA 12.6": dict.fromkeys(ASKED, NO_TRITON),
    "V100, torch for CUDA 13": {"cuda": NO_CODE, "tf32": NO_TF32},
    "V100, torch for CUDA 12.6": BELOW_AMPERE,
    "T4 small": BELOW_AMPERE | {"aot": TOOLKIT},
    "T4 in 8 GB of memory": BELOW_AMPERE | {"gemma": SMALL},
    "A100": LAYERS,
    "a tenth of an A100 (MIG)": LAYERS | dict.fromkeys(("gemma", "gemma bfloat16"), SMALL_GPU),
    "RTX 5090": LAYERS,
    "a driver that says nothing": LAYERS,
    "an old torch": dict.fromkeys(("layers with graphs", "autotune"), NO_MODE),
}


@pytest.mark.parametrize("setting", ASKED)
@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_refuses_what_it_cannot_run(name: str, setting: str) -> None:
    spec = refusals.on_machine(catalog.make_spec(**{"checkpoint": "shapes-vit", **ASKED[setting]}), MACHINES[name])
    if reason := MATRIX[name].get(setting):
        with pytest.raises(BadInput, match=re.escape(reason)):
            refusals.resolve(spec, MACHINES[name])
    else:
        assert refusals.resolve(spec, MACHINES[name]) == spec


@pytest.mark.parametrize(
    ("options", "causes"),
    [
        ({}, ""),
        ({"dtype": "tf32"}, ""),
        ({"dtype": "bfloat16"}, "dtype bfloat16"),
        ({"mode": "lite", "dtype": "float16", "cache": "empty"}, "mode lite or dtype float16"),
    ],
    ids=["nothing", "a whole format", "a half format", "a mode"],
)
def test_a_way_out_of_a_compile_takes_back_only_what_was_asked_for(options: dict[str, Any], causes: str) -> None:
    says = f"Without {causes} it may work." if causes else ""
    change = {name: value for name, value in (("mode", "default"), ("dtype", "float32")) if name in causes}
    assert refusals.other_way_to_compile(catalog.make_spec("shapes-vit", **options)) == (says, change)
