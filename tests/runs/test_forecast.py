"""The forecast: from earlier runs of the same, else roughly by size; and what is known to be pointless here."""

import dataclasses

import pytest
from support import samples
from support.fake_runner import MACHINE
from support.samples import ENVIRONMENT, failed_result, measurement, ok_result

from demo.core import catalog
from demo.core.machine import HostInfo
from demo.core.spec import TEXT_GENERATION, RunSpec
from demo.runs.forecast import Forecast, SweepForecast, doubts, forecast, forecast_sweep, on_this_machine

VIT = catalog.find("google/vit-base-patch16-224")
CPU_SPEC = RunSpec("shapes-vit", "image-classification", device="cpu")


def test_the_median_of_the_newest_runs_of_the_same_counts() -> None:
    runs = ((10, 500), (90, 700), (12, 600), (11, 400), (13, 800), (999, 10**9))
    small = measurement(0.001, peak=9)
    took = [ok_result(elapsed_seconds=s, eager=measurement(0.002, peak=peak), compiled=small) for s, peak in runs]
    other = ok_result(spec=dataclasses.replace(CPU_SPEC, batch_size=4), elapsed_seconds=1)
    earlier = [other, *took, failed_result(spec=CPU_SPEC)]
    assert forecast(CPU_SPEC, None, earlier) == Forecast(12, 600, 400, "same", 5)
    assert forecast(dataclasses.replace(CPU_SPEC, repeats=5), None, earlier) == Forecast(5 * 12, 600, 400, "same", 5)


def test_without_a_run_of_the_same_the_estimate_is_rough() -> None:
    usual = forecast(RunSpec(VIT.id, VIT.task, device="cpu"), VIT, [ok_result(spec=CPU_SPEC)])
    assert usual is not None and (usual.basis, usual.runs) == ("parameters", 0)
    assert 4 * VIT.parameters < usual.least_bytes < usual.memory_bytes < 2e9
    for changes in ({"batch_size": 16}, {"protocol": "as published"}, {"iterations": 500}, {"repeats": 3}):
        more = forecast(RunSpec(VIT.id, VIT.task, device="cpu", **changes), VIT, [])  # type: ignore[arg-type]
        assert more is not None and more.seconds > 1.5 * usual.seconds, changes
    half = forecast(RunSpec(VIT.id, VIT.task, device="cpu", dtype="bfloat16"), VIT, [])
    assert half is not None and half.memory_bytes < usual.memory_bytes


def test_the_rough_estimate_is_of_the_order_seen_on_two_cores() -> None:
    for name, seconds in {
        "nvidia/segformer-b0-finetuned-ade-512-512": 60, "google/deeplabv3_mobilenet_v2_1.0_513": 45,
        "microsoft/conditional-detr-resnet-50": 150, "google/vit-base-patch16-224": 60,
        "shapes-vit": 15, "shapes-gemma": 44,
    }.items():  # fmt: skip
        checkpoint = catalog.find(name)
        prompt = "The picture" if checkpoint.task == TEXT_GENERATION else ""
        expected = forecast(RunSpec(name, checkpoint.task, device="cpu", prompt=prompt), checkpoint, [])
        assert expected is not None and seconds / 2.5 < expected.seconds < 2.5 * seconds


def test_failures_and_other_machines_teach_nothing() -> None:
    assert forecast(CPU_SPEC, None, [failed_result(spec=CPU_SPEC)]) is None
    here, there = ok_result(), ok_result(environment=dataclasses.replace(ENVIRONMENT, device_name="Another CPU"))
    assert on_this_machine([here, there, ok_result(environment=None)], samples.MACHINE, "cpu") == [here]
    assert on_this_machine([here], samples.MACHINE, "cuda") == []


def test_a_sweep_takes_as_long_as_its_runs() -> None:
    elsewhere = dataclasses.replace(ENVIRONMENT, device_name="Another CPU")
    specs = [dataclasses.replace(CPU_SPEC, batch_size=size) for size in (1, 2, 8)]
    earlier = [ok_result(spec=spec, elapsed_seconds=seconds) for spec, seconds in zip(specs, (20, 30), strict=False)]
    ignored = [ok_result(spec=specs[2], elapsed_seconds=900, environment=elsewhere)]
    rough = forecast(specs[2], catalog.find("shapes-vit"), [])
    found = forecast_sweep(specs, [*ignored, *earlier], samples.MACHINE)
    assert found == SweepForecast(3, pytest.approx(50 + rough.seconds), 1)
    unknown = [RunSpec("somebody/model", "image-classification", device="cpu")]
    assert forecast_sweep(unknown, [], samples.MACHINE).guessed == 1
    assert forecast_sweep([], [ok_result()], samples.MACHINE) == SweepForecast(0, 0, 0)


def gpu_machine(name: str, capability: str | None = None) -> HostInfo:
    return dataclasses.replace(MACHINE, gpu=name, compute_capability=capability)


A100 = gpu_machine("NVIDIA A100-SXM4-80GB")


@pytest.mark.parametrize(
    ("changes", "machine", "told"),
    [
        ({"mode": "reduce-overhead"}, MACHINE, ("no cuda graphs on a cpu",)),
        ({"dtype": "float16"}, MACHINE, ("float16 on a cpu",)),
        ({"dtype": "tf32"}, MACHINE, ("no tf32",)),
        ({"device": "cuda"}, MACHINE, ("no gpu",)),
        ({"device": "cuda", "dtype": "tf32"}, gpu_machine("Tesla V100-SXM2-16GB", "7.0"), ("no tf32",)),
        ({"device": "cuda", "threads": 4}, A100, ("threads on a gpu",)),
        ({"dtype": "bfloat16"}, MACHINE, ()),
        ({"device": "cuda", "dtype": "tf32", "mode": "reduce-overhead"}, gpu_machine("NVIDIA H200", "9.0"), ()),
    ],
)
def test_a_pointless_choice_gets_a_word(changes: dict, machine: HostInfo, told: tuple) -> None:
    assert doubts(dataclasses.replace(CPU_SPEC, **changes), machine, None, []) == told


def test_a_checkpoint_that_always_lost_is_said_to() -> None:
    lost = ok_result(compiled=measurement(0.004))
    assert doubts(CPU_SPEC, MACHINE, None, [lost, lost]) == ("lost before",)
    assert doubts(CPU_SPEC, MACHINE, None, [lost, ok_result()]) == ()


def test_what_cannot_fit_is_said_before_the_run() -> None:
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
