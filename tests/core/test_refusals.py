"""The refusal matrix: which settings each kind of machine refuses, and that all who ask are told the same."""

import dataclasses
from typing import Any

import pytest
from support.samples import MACHINE

from demo.core import catalog, refusals
from demo.core.machine import HostInfo
from demo.core.spec import BadInput
from demo.sweep.best_table import ways


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
BELOW_AMPERE = {
    "tf32": "no tf32", "bfloat16": "no bfloat16", "gemma bfloat16": "no bfloat16",
    "layers with graphs": "layers with CUDA graphs",
}  # fmt: skip
MATRIX: dict[str, dict[str, str]] = {
    "CPU": {"cuda": "no gpu", "tf32": "no tf32"},
    "no headers": dict.fromkeys(ASKED, "cannot compile"),
    "P100, torch for CUDA 12.6": dict.fromkeys(ASKED, "no triton"),
    "V100, torch for CUDA 13": {"cuda": "no gpu", "tf32": "no tf32"},
    "V100, torch for CUDA 12.6": BELOW_AMPERE,
    "T4 small": BELOW_AMPERE | {"aot": "no CUDA toolkit"},
    "T4 in 8 GB of memory": BELOW_AMPERE | {"gemma": "weights over the memory"},
    "A100": {"layers with graphs": "layers with CUDA graphs"},
    "a tenth of an A100 (MIG)": {
        "layers with graphs": "layers with CUDA graphs",
        "gemma": "weights over the GPU's memory", "gemma bfloat16": "weights over the GPU's memory",
    },
    "RTX 5090": {"layers with graphs": "layers with CUDA graphs"},
    "a driver that says nothing": {"layers with graphs": "layers with CUDA graphs"},
    "an old torch": {"layers with graphs": "no mode", "autotune": "no mode"},
}  # fmt: skip


@pytest.mark.parametrize("name", MACHINES)
def test_each_machine_refuses_what_it_cannot_run_and_nothing_else(name: str) -> None:
    found = {}
    for what, asked in ASKED.items():
        spec = refusals.on_machine(catalog.make_spec(**{"checkpoint": "shapes-vit", **asked}), MACHINES[name])
        if refused := refusals.refusal(spec, MACHINES[name]):
            found[what] = refused.name
            assert "{" not in str(refused) and str(refused).count(". ") >= 1
            with pytest.raises(BadInput):
                refusals.checked(spec, MACHINES[name])
        else:
            assert refusals.checked(spec, MACHINES[name]) == spec
    assert found == MATRIX[name]


def test_why_the_gpu_cannot_be_used_stands_in_the_refusal() -> None:
    spec = catalog.make_spec("shapes-vit", device="cuda")
    assert NO_CODE in str(refusals.refusal(spec, MACHINES["V100, torch for CUDA 13"]))


def test_a_search_leaves_out_what_its_machine_refuses() -> None:
    found = ways(catalog.make_spec("shapes-vit"), MACHINES["T4 small"], other_formats=True)
    assert {way.spec.dtype for way in found if not way.refused} == {"float32", "float16"}


@pytest.mark.parametrize(
    ("asked", "says", "change"),
    [
        ({}, "", {}),
        ({"dtype": "tf32"}, "", {}),
        ({"dtype": "bfloat16"}, "Without dtype bfloat16 it may work.", {"dtype": "float32"}),
        (
            {"mode": "lite", "dtype": "float16", "cache": "empty"},
            "Without mode lite or dtype float16 it may work.",
            {"mode": "default", "dtype": "float32"},
        ),
    ],
    ids=["nothing", "a whole format", "a half format", "a mode"],
)
def test_a_way_out_of_a_compile_takes_back_only_what_was_asked_for(
    asked: dict[str, Any], says: str, change: dict[str, Any]
) -> None:
    assert refusals.other_way_to_compile(catalog.make_spec("shapes-vit", **asked)) == (says, change)
