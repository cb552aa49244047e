"""Tests of the forecast of a run's time and memory, from earlier runs or from the model's size."""

import dataclasses
from typing import Any

import pytest
from support import samples
from support.samples import ENVIRONMENT, failed_result, measurement, ok_result

from demo.core import catalog
from demo.core.cores import WAIT_SECONDS, Crowd
from demo.core.machine import HostSample
from demo.core.measurement import Compilation, CompileCost, StartUp
from demo.core.options import TEXT_GENERATION, RunSpec
from demo.core.result import RunResult
from demo.runs.forecast import Forecast, SweepForecast, forecast_run, forecast_sweep, memory_doubt, on_this_machine

VIT = catalog.find("google/vit-base-patch16-224")
CPU_SPEC = RunSpec("shapes-vit", "image-classification", device="cpu")


def test_the_median_of_the_newest_runs_of_the_same_counts() -> None:
    took = [ok_result(elapsed_seconds=seconds) for seconds in (10, 90, 12, 11, 13, 999)]
    other = ok_result(spec=dataclasses.replace(CPU_SPEC, batch_size=4), elapsed_seconds=1)
    earlier = [other, *took, failed_result(spec=CPU_SPEC)]
    once, often = (forecast_run(dataclasses.replace(CPU_SPEC, repeats=repeats), None, earlier) for repeats in (1, 5))
    assert (once.seconds, once.runs, often.seconds) == (12, 5, 5 * 12)


COLD = Compilation(20.0, "cold", 1, cold=CompileCost(20.0, {}), warm=CompileCost(2.0, {}))
"""The compile of a run that began with an empty cache, and timed the first call of a second process."""
FIRST_RUN = ok_result(compilation=COLD, elapsed_seconds=40.0, timing_seconds=4.0, start_up=StartUp(3.0, 1.0))


@pytest.mark.parametrize(
    ("changes", "crowd", "seconds", "compiles"),
    [
        # 40 s without the first call (20 s), the second process (3 + 1 + 2 s) and the timing leave 10 s around them
        ({}, Crowd(), 10 + 2 + 4, 2.0),
        ({}, Crowd(3.0), 3 * (10 + 2) + 4, 6.0),
        ({}, Crowd(1.0, 4), WAIT_SECONDS + 10 + 2 + 4, 2.0),
        ({}, Crowd(1.0, 1), WAIT_SECONDS + 40, 20.0),
        ({"threads": 2}, Crowd(1.0, 1), 10 + 2 + 4, 2.0),
        ({"cache": "empty"}, Crowd(), 40.0, 20.0),
        ({"batch_size": 8}, Crowd(), 40.0, 20.0),
    ],
    ids=[
        "the cache is filled",
        "three programs on each core",
        "cores taken, and code kept for those left",
        "cores taken, so it compiles for fewer threads",
        "threads asked for, so it waits for none",
        "an empty cache",
        "another size",
    ],
)
def test_the_next_run_has_the_first_call_of_its_cache(
    changes: dict[str, Any], crowd: Crowd, seconds: float, compiles: float
) -> None:
    options = {name: value for name, value in changes.items() if name != "batch_size"}
    before = dataclasses.replace(FIRST_RUN, spec=dataclasses.replace(CPU_SPEC, **options))
    forecast = forecast_run(dataclasses.replace(CPU_SPEC, **changes), None, [before], crowd=crowd)
    assert forecast == Forecast(seconds, 1, "batch_size" not in changes, compiles, crowd.factor)


SECOND_RUN = dataclasses.replace(
    FIRST_RUN,
    compilation=Compilation(2.0, "warm", 1, cold=CompileCost(20.0, {}, "first"), warm=CompileCost(2.0, {})),
    elapsed_seconds=16.0,
)
"""A run that found the cache filled by the first: it had no second process, and its cold first call is the first
run's."""


@pytest.mark.parametrize(
    ("cache", "earlier", "seconds", "compiles"),
    [
        ("empty", [SECOND_RUN] * 4 + [FIRST_RUN], 40.0, 20.0),
        ("empty", [SECOND_RUN], 10 + 20 + 4 + (3 + 1 + 2), 20.0),
        ("keep", [FIRST_RUN, FIRST_RUN, dataclasses.replace(SECOND_RUN, elapsed_seconds=15.0)], 15.0, 2.0),
    ],
)
def test_only_runs_that_began_with_the_same_cache_tell(
    cache: str, earlier: list[RunResult], seconds: float, compiles: float
) -> None:
    forecast = forecast_run(dataclasses.replace(CPU_SPEC, cache=cache), None, earlier)
    assert (forecast.seconds, forecast.compile_seconds) == (seconds, compiles)


def test_a_forecast_ignores_disturbed_runs_beside_a_quiet_run() -> None:
    busy = tuple(HostSample(at_seconds=at, foreign_cpu=0.9) for at in (0.0, 1.0))
    disturbed = dataclasses.replace(FIRST_RUN, elapsed_seconds=400.0, machine_states=busy)
    quiet, both = (forecast_run(CPU_SPEC, None, runs) for runs in ([FIRST_RUN], [disturbed, FIRST_RUN, disturbed]))
    assert quiet == both
    alone, beside = (forecast_run(CPU_SPEC, None, [disturbed], crowd=crowd) for crowd in (Crowd(), Crowd(3.0)))
    assert alone == beside and alone.seconds > quiet.seconds, "the other programs are counted once"


def test_a_slow_compiler_makes_a_guess_longer() -> None:
    vit = catalog.find("shapes-vit")
    slow, quick = (forecast_run(CPU_SPEC, vit, [], compiler) for compiler in (9.0, 3.0))
    assert slow.compile_seconds == 3 * quick.compile_seconds and slow.seconds > 2 * quick.seconds
    larger = forecast_run(
        dataclasses.replace(CPU_SPEC, checkpoint="shapes-rtdetr"), catalog.find("shapes-rtdetr"), [], 3.0
    )
    assert larger.compile_seconds > 3 * quick.compile_seconds


@pytest.mark.parametrize(("compiler", "starts"), [(3.0, 3 * 6.0 + 3 * 4.5), (None, 30.0)], ids=["", "no compiler"])
def test_other_programs_make_a_guess_longer(compiler: float | None, starts: float) -> None:
    """Twice as long takes all but the timing."""
    alone, crowded = (
        forecast_run(CPU_SPEC, catalog.find("shapes-vit"), [], compiler, crowd)
        for crowd in (Crowd(), Crowd(factor=2.0))
    )
    assert crowded.seconds - alone.seconds == pytest.approx(starts)


GB = 10**9


def run_of(peak: float, **changes: Any) -> RunResult:
    """Returns a run on a CPU whose compiled model needed `peak` bytes."""
    sides = {"eager": measurement(0.002, peak=1), "compiled": measurement(0.001, peak=int(peak))}
    return ok_result(**{"spec": CPU_SPEC, **sides, **changes})


FULL = failed_result(spec=CPU_SPEC, status="out_of_memory", environment=ENVIRONMENT)
OTHER_CPU = dataclasses.replace(ENVIRONMENT, device_name="Another CPU")


@pytest.mark.parametrize(
    ("stored", "doubt"),
    [
        ([run_of(9 * GB), run_of(10 * GB), run_of(1 * GB)], "runs with these settings needed 9.00 GB, and the machine"),
        ([run_of(9 * GB, environment=OTHER_CPU)], "runs with these settings needed 9.00 GB"),
        ([run_of(9 * GB, spec=dataclasses.replace(CPU_SPEC, text=("a cat",)))], "runs with these settings needed"),
        ([run_of(7 * GB), run_of(20 * GB), run_of(1 * GB)], ""),
        ([run_of(9 * GB, spec=dataclasses.replace(CPU_SPEC, batch_size=64))], ""),
        ([FULL, run_of(1 * GB)], "the last run with these settings ran out of memory here"),
        ([failed_result(spec=CPU_SPEC), FULL], "the last run with these settings ran out of memory here"),
        ([run_of(1 * GB), FULL], ""),
        ([dataclasses.replace(FULL, environment=OTHER_CPU)], ""),
        ([], ""),
    ],
    ids=[
        "the median", "elsewhere", "another text", "fits", "another batch", "out of memory", "before a failure",
        "fitted since", "out of memory elsewhere", "nothing stored",
    ],
)  # fmt: skip
def test_what_will_not_fit_in_8_gb(stored: list[RunResult], doubt: str) -> None:
    machine = dataclasses.replace(samples.MACHINE, memory_bytes=8 * GB)
    sentence = memory_doubt(CPU_SPEC, catalog.find("shapes-vit"), stored, machine)
    assert (doubt in sentence and sentence.startswith("It will not fit: ")) if doubt else sentence == ""


@pytest.mark.parametrize(
    ("dtype", "memory", "doubt"),
    [
        ("float32", 8 * GB, "It will not fit: its weights alone take 10.0 GB, and the GPU has 8.00 GB."),
        ("bfloat16", 8 * GB, ""),
        ("float32", 16 * GB, ""),
        ("float32", None, ""),
    ],
)
def test_without_a_run_only_the_weights_must_fit(dtype: str, memory: int | None, doubt: str) -> None:
    gemma = catalog.find("google/gemma-2b")
    spec = RunSpec(gemma.id, gemma.task, device="cuda", prompt="a cat", dtype=dtype)
    machine = dataclasses.replace(samples.MACHINE, gpu="Tesla T4", gpu_memory_bytes=memory)
    assert memory_doubt(spec, gemma, [], machine) == doubt


@pytest.mark.parametrize(
    "more", [{"batch_size": 16}, {"protocol": "as published"}, {"iterations": 500}, {"repeats": 3}], ids=repr
)
def test_a_rough_estimate_grows_with_what_is_asked(more: dict) -> None:
    specs = (RunSpec(VIT.id, VIT.task, device="cpu", **options) for options in ({}, more))
    usual, larger = (forecast_run(spec, VIT, []) for spec in specs)
    assert usual is not None and larger is not None and usual.runs == 0
    assert larger.seconds > 1.5 * usual.seconds


def test_an_estimate_assumes_float64_calls_for_half_formats() -> None:
    """Whether a run makes them is known only when its outputs are compared.

    A T4 computes float64 at 1/32 of float32's rate: half a minute for a large model at batch 16.
    """
    large = catalog.find("facebook/convnext-large-224")
    single, half = (
        forecast_run(RunSpec(large.id, large.task, 16, device="cuda", dtype=dtype), large, [])
        for dtype in ("float32", "float16")
    )
    assert single is not None and half is not None and 15 < half.seconds - single.seconds < 60


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("microsoft/conditional-detr-resnet-50", 150),
        ("google/vit-base-patch16-224", 60),
        ("shapes-vit", 15),
        ("shapes-gemma", 44),
    ],
)
def test_the_rough_estimate_is_of_the_order_seen_on_two_cores(name: str, seconds: float) -> None:
    checkpoint = catalog.find(name)
    prompt = "The picture" if checkpoint.task == TEXT_GENERATION else ""
    expected = forecast_run(RunSpec(name, checkpoint.task, device="cpu", prompt=prompt), checkpoint, [])
    assert expected is not None and seconds / 2.5 < expected.seconds < 2.5 * seconds


def test_a_forecast_ignores_failures_and_other_machines() -> None:
    assert forecast_run(CPU_SPEC, None, [failed_result(spec=CPU_SPEC)]) is None
    here, there = ok_result(), ok_result(environment=dataclasses.replace(ENVIRONMENT, device_name="Another CPU"))
    assert on_this_machine([here, there, ok_result(environment=None)], samples.MACHINE, "cpu") == [here]
    assert on_this_machine([here], samples.MACHINE, "cuda") == []


def test_a_sweep_takes_as_long_as_its_runs() -> None:
    specs = [dataclasses.replace(CPU_SPEC, batch_size=size) for size in (1, 2, 8)]
    earlier = [ok_result(spec=spec, elapsed_seconds=seconds) for spec, seconds in zip(specs, (20, 30), strict=False)]
    of_model = forecast_run(specs[2], None, earlier)
    assert forecast_sweep(specs, earlier, samples.MACHINE) == SweepForecast(3, 50 + of_model.seconds, 0)
    rough = forecast_run(specs[2], catalog.find("shapes-vit"), [])
    assert forecast_sweep(specs[2:], [], samples.MACHINE) == SweepForecast(1, rough.seconds, 1)
    unknown = [RunSpec("somebody/model", "image-classification", device="cpu")]
    assert forecast_sweep(unknown, [], samples.MACHINE).guessed == 1


def test_no_forecast_before_the_machine_is_known():
    assert forecast_run(RunSpec(VIT.id, VIT.task), VIT, []) is None
