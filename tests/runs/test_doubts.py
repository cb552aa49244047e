"""What is known to be pointless here is said before the run."""

from __future__ import annotations

import dataclasses

from fake_runner import MACHINE
from samples import measurement, ok_result

from demo.core.languages import ENGLISH
from demo.core.machine import HostInfo
from demo.core.spec import RunSpec
from demo.runs.doubts import doubts
from demo.runs.forecast import Forecast
from demo.ui.html import results

CPU_SPEC = RunSpec("shapes-vit", "image-classification", device="cpu")


def gpu_machine(name: str, capability: str | None = None) -> HostInfo:
    return dataclasses.replace(MACHINE, gpu=name, compute_capability=capability)


def test_a_choice_that_is_known_to_be_pointless_gets_a_word() -> None:
    for changes, machine, doubt in [
        ({"mode": "reduce-overhead"}, MACHINE, "no cuda graphs on a cpu"),
        ({"dtype": "float16"}, MACHINE, "float16 on a cpu"),
        ({"dtype": "tf32"}, MACHINE, "no tf32"),
        ({"device": "cuda"}, MACHINE, "no gpu"),
        ({"device": "cuda", "dtype": "tf32"}, gpu_machine("Tesla V100-SXM2-16GB", "7.0"), "no tf32"),
        ({"device": "cuda", "threads": 4}, gpu_machine("NVIDIA A100-SXM4-80GB"), "threads on a gpu"),
    ]:
        assert doubts(dataclasses.replace(CPU_SPEC, **changes), machine, None, []) == (doubt,)  # type: ignore[arg-type]
        assert '<p class="doubt">' in results.forecast(None, None, [doubt], ENGLISH)


def test_a_sensible_choice_gets_none() -> None:
    for changes, machine in [
        ({"dtype": "bfloat16"}, MACHINE),
        ({"device": "cuda", "mode": "reduce-overhead"}, gpu_machine("Tesla T4")),
        ({"device": "cuda", "dtype": "tf32"}, gpu_machine("NVIDIA H200", "9.0")),
    ]:
        assert doubts(dataclasses.replace(CPU_SPEC, **changes), machine, None, []) == ()  # type: ignore[arg-type]


def test_a_checkpoint_that_lost_every_time_here_is_said_to_have_lost() -> None:
    lost = ok_result(compiled=measurement(0.004))
    assert doubts(CPU_SPEC, MACHINE, None, [lost, lost]) == ("lost before",)
    assert doubts(CPU_SPEC, MACHINE, None, [lost, ok_result()]) == ()


def test_what_cannot_fit_is_said_before_the_run_where_the_memory_is_known() -> None:
    cpu, gpu = dataclasses.replace(MACHINE, memory_bytes=40), gpu_machine("Tesla T4")
    on_gpu = RunSpec("google/vit-base-patch16-224", "image-classification", device="cuda")
    for spec, machine, least, likely, told in [
        (CPU_SPEC, cpu, 50, 60, ("will not fit",)),
        (CPU_SPEC, cpu, 20, 39, ("may not fit",)),
        (CPU_SPEC, cpu, 1, 2, ()),
        (on_gpu, gpu, 20e9, 30e9, ()),
        (on_gpu, dataclasses.replace(gpu, gpu_memory_bytes=80 * 10**9), 20e9, 30e9, ()),
        (on_gpu, dataclasses.replace(gpu, gpu_memory_bytes=16 * 10**9), 20e9, 30e9, ("will not fit",)),
    ]:
        assert doubts(spec, machine, Forecast(2, likely, least, "parameters"), []) == told
