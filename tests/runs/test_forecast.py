"""The forecast: honest on simulated machines, rough where it knows little, and plain about a pointless choice."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import samples
from samples import ENVIRONMENT, failed_result, full_result, measurement, ok_result

from demo.core import catalog
from demo.core.languages import ENGLISH
from demo.core.machine import HostInfo, usable_cores
from demo.core.measurement import Compilation, CompileCost
from demo.core.result import RunResult
from demo.core.spec import TEXT_GENERATION, RunSpec
from demo.runs.forecast import (
    Forecast,
    Range,
    SweepForecast,
    doubts,
    forecast,
    forecast_sweep,
    multiprocessors,
    on_this_machine,
)
from demo.store import published
from demo.ui.html import results
from demo.ui.jobs.fake_runner import MACHINE

VIT = catalog.find("google/vit-base-patch16-224")
CPU_SPEC = RunSpec("shapes-vit", "image-classification", device="cpu")


class World:
    """A machine and a model made up: what a run of some batch size takes and needs there, with noise."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.call = float(10 ** self.rng.uniform(-3, -0.5))
        self.power = float(self.rng.uniform(0.4, 1.15))  # of the batch: below 1 where one image leaves cores idle
        self.cold = float(10 ** self.rng.uniform(0.5, 2))
        self.warm = self.cold * float(self.rng.uniform(0.05, 0.3))
        self.gain = float(self.rng.uniform(0.7, 3))
        self.start = float(self.rng.uniform(0.5, 4))
        self.bytes = 430e6 + float(10 ** self.rng.uniform(6.5, 9)), float(10 ** self.rng.uniform(6, 8))
        self.filled: set[RunSpec] = set()

    def noise(self) -> float:
        return float(np.exp(self.rng.normal(0, 0.05)))

    def run(self, spec: RunSpec) -> RunResult:
        eager = self.call * spec.batch_size**self.power * self.noise()
        cache = "warm" if spec in self.filled else "cold"
        self.filled.add(spec)
        compiling = (self.warm if cache == "warm" else self.cold) * self.noise()
        timing = max(spec.most_seconds * self.rng.choice([0.3, 1.0, 2.0], p=[0.15, 0.7, 0.15]), 30 * eager)
        peak = round((self.bytes[0] + self.bytes[1] * spec.batch_size) * self.noise())
        elapsed = self.start * self.noise() + compiling + timing + 12 * eager
        return ok_result(
            spec=spec,
            eager=measurement(eager, peak=peak),
            compiled=measurement(eager / self.gain, peak=peak),
            compilation=Compilation(compiling, cache, 1),  # type: ignore[arg-type]
            elapsed_seconds=elapsed,
            timing_seconds=timing,
        )


def holds(expected: Forecast | None, run: RunResult) -> tuple[bool, bool]:
    assert expected is not None and run.eager is not None
    seconds, memory = expected.seconds, expected.memory_bytes
    return (
        seconds.low <= run.elapsed_seconds <= seconds.high,
        memory.low <= (run.eager.peak_memory_bytes or 0) <= memory.high,
    )


@pytest.mark.parametrize("known", [1, 3, 6])
def test_after_earlier_runs_of_the_same_the_range_holds_nine_in_ten(known: int) -> None:
    held = []
    for seed in range(300):
        world = World(seed)
        earlier = [world.run(CPU_SPEC) for _ in range(known)][::-1]
        expected = forecast(CPU_SPEC, None, earlier, 2)
        assert expected is not None and (expected.basis, expected.runs) == ("same", min(known, 5))
        held.append(holds(expected, world.run(CPU_SPEC)))
    assert np.min(np.mean(held, axis=0)) >= 0.9


@pytest.mark.parametrize(("then", "now"), [(1, 8), (8, 1), (1, 2), (16, 64)])
def test_another_batch_size_is_scaled_and_the_range_holds_nine_in_ten(then: int, now: int) -> None:
    held = []
    for seed in range(300):
        world = World(seed)
        earlier = [world.run(dataclasses.replace(CPU_SPEC, batch_size=then))]
        spec = dataclasses.replace(CPU_SPEC, batch_size=now)
        expected = forecast(spec, None, earlier, 2)
        assert expected is not None and expected.basis == "alike"
        held.append(holds(expected, world.run(spec)))
    assert np.min(np.mean(held, axis=0)) >= 0.9


@pytest.mark.parametrize("known", [1, 3])
def test_a_range_from_runs_of_the_same_is_narrower_than_a_rough_one(known: int) -> None:
    world = World(0)
    earlier = [world.run(CPU_SPEC) for _ in range(known)]
    same = forecast(CPU_SPEC, None, earlier, 2)
    rough = forecast(CPU_SPEC, catalog.find("shapes-vit"), [], 2)
    assert same is not None and rough is not None and rough.basis == "parameters" and rough.runs == 0
    assert same.seconds.high / same.seconds.low < rough.seconds.high / rough.seconds.low
    assert same.memory_bytes.high / same.memory_bytes.low < rough.memory_bytes.high / rough.memory_bytes.low


@pytest.mark.parametrize("batch", [1, 4, 16])
def test_the_rough_estimate_holds_what_the_guide_measured_of_most_models(batch: int) -> None:
    """Seconds of 300 calls of each variant on the guide's three GPUs, without the compile."""
    held = []
    for row in published.rows():
        if row.batch_size != batch or row.subset != "release" or row.eager_seconds is None or row.mode != "default":
            continue
        spec = RunSpec(row.checkpoint, row.task, batch, device="cuda", protocol="as published")
        if row.compiled_seconds is not None:
            expected = forecast(spec, catalog.find(row.checkpoint), [], 2)
            assert expected is not None
            took = 300 * (row.eager_seconds + row.compiled_seconds)
            held.append(took <= expected.seconds.high and took + 320 >= expected.seconds.low)
    assert len(held) >= 20 and np.mean(held) >= 0.9


@pytest.mark.parametrize(
    ("name", "eager", "compiled", "cold"),
    [
        ("nvidia/segformer-b0-finetuned-ade-512-512", 0.329, 0.144, 40),
        ("google/deeplabv3_mobilenet_v2_1.0_513", 0.306, 0.118, 20),
        ("microsoft/conditional-detr-resnet-50", 3.242, 1.175, 40),
        ("microsoft/resnet-50", 0.059, 0.599, 30),
        ("shapes-vit", 0.00147, 0.00106, 5.7),
        ("shapes-rtdetr", 0.007, 0.0038, 54),
    ],
)
def test_the_rough_estimate_holds_what_two_cores_were_seen_to_take(
    name: str, eager: float, compiled: float, cold: float
) -> None:
    checkpoint = catalog.find(name)
    assert checkpoint is not None
    expected = forecast(RunSpec(name, checkpoint.task, device="cpu"), checkpoint, [], 2)
    assert expected is not None
    assert (
        expected.seconds.low <= 3 + cold + max(3.5, 10 * (2 * eager + compiled)) + 15 * eager <= expected.seconds.high
    )


def of_gemma(**changes: object) -> Forecast:
    gemma = catalog.find("google/gemma-2b")
    asked = {"prompt": "The picture shows", "device": "cuda", "weights": "random", **changes}
    expected = forecast(RunSpec("google/gemma-2b", TEXT_GENERATION, **asked), gemma, [], 2)  # type: ignore[arg-type]
    assert expected is not None and expected.basis == "parameters"
    return expected


def test_a_text_model_is_estimated_by_its_weights_tokens_and_batch() -> None:
    usual = of_gemma()
    weights = 4 * 2_506_172_416
    assert usual.memory_bytes.low <= weights <= usual.memory_bytes.likely <= 1.2 * weights
    read = weights / 300e9  # seconds of a step that waits for memory
    assert usual.seconds.low < 10 + 600 * read < usual.seconds.high
    longer, half, many = of_gemma(tokens=256), of_gemma(dtype="bfloat16"), of_gemma(batch_size=256)
    assert usual.seconds.likely + 5 * 192 * read < longer.seconds.likely < usual.seconds.likely + 20 * 192 * read
    assert half.memory_bytes.likely == pytest.approx(usual.memory_bytes.likely / 2)
    assert half.seconds.likely < usual.seconds.likely < many.seconds.likely
    assert many.memory_bytes.likely > usual.memory_bytes.likely
    assert of_gemma(device="cpu").seconds.likely > 2 * usual.seconds.likely


def test_a_small_text_model_is_estimated_as_it_was_seen_on_two_cores() -> None:
    """A Gemma of 1.2 M parameters: 3.1 ms a step, 31 s of a cold compile, 44 s in all, 543 MB."""
    small = dataclasses.replace(catalog.find("shapes-gemma"), parameters=1_200_000)  # type: ignore[type-var]
    spec = RunSpec("shapes-gemma", TEXT_GENERATION, prompt="The picture shows", device="cpu")
    expected = forecast(spec, small, [], 2)
    assert expected is not None
    assert expected.seconds.low < 44 < expected.seconds.high < 200
    assert expected.memory_bytes.low < 543e6 < expected.memory_bytes.high < 2e9


def test_memory_grows_with_parameters_and_batch_and_shrinks_with_half_numbers() -> None:
    def bytes_of(**changes: object) -> Range:
        spec = dataclasses.replace(RunSpec(VIT.id, VIT.task, device="cuda"), **changes)  # type: ignore[union-attr, arg-type]
        expected = forecast(spec, VIT, [], 2)
        assert expected is not None
        return expected.memory_bytes

    assert bytes_of(batch_size=64).likely > 4 * bytes_of().likely
    assert bytes_of(dtype="bfloat16").likely == pytest.approx(bytes_of().likely / 2)
    assert VIT is not None and bytes_of().low <= 4 * VIT.parameters <= bytes_of().high


def test_first_runs_that_filled_the_cache_promise_a_shorter_next_one() -> None:
    cold = ok_result(elapsed_seconds=30.0, compilation=Compilation(20.0, "cold", 1))
    expected = forecast(CPU_SPEC, None, [cold], 2)
    assert expected is not None and expected.seconds.likely == pytest.approx(13.0)
    older = ok_result(elapsed_seconds=90.0, compilation=Compilation(70.0, "cold", 1))
    assert forecast(CPU_SPEC, None, [cold, older], 2).seconds == expected.seconds  # the newest counts
    asked_cold = dataclasses.replace(CPU_SPEC, cache="empty")
    again = forecast(asked_cold, None, [dataclasses.replace(cold, spec=asked_cold)], 2)
    assert again is not None and again.seconds.likely == pytest.approx(30.0)


def test_a_known_cold_compile_counts_for_other_settings_and_autotuning_costs_more() -> None:
    known = ok_result(compilation=Compilation(0.5, "warm", 1, cold=CompileCost(50.0, {})), elapsed_seconds=5.0)
    bigger = forecast(dataclasses.replace(CPU_SPEC, batch_size=2), None, [known], 2)
    tuned = forecast(dataclasses.replace(CPU_SPEC, mode="max-autotune"), None, [known], 2)
    assert bigger is not None and tuned is not None
    assert bigger.seconds.likely > 40 and tuned.seconds.likely > 1.5 * bigger.seconds.likely


def test_failures_and_other_machines_teach_nothing() -> None:
    assert forecast(CPU_SPEC, None, [failed_result(spec=CPU_SPEC)], 2) is None
    here, there = ok_result(), ok_result(environment=dataclasses.replace(ENVIRONMENT, device_name="Another CPU"))
    assert on_this_machine([here, there, ok_result(environment=None)], samples.MACHINE, "cpu") == [here]
    assert on_this_machine([here], samples.MACHINE, "cuda") == []


def test_a_checkpoint_that_was_never_run_here_and_has_no_known_size_gets_no_estimate() -> None:
    assert forecast(RunSpec("someone/model", "image-classification", device="cpu"), None, [], 2) is None
    assert "No estimate yet" in results.forecast(None, None, [], ENGLISH)


# Sweeps


def test_a_sweep_takes_as_long_as_its_runs_are_likely_to_take() -> None:
    elsewhere = dataclasses.replace(ENVIRONMENT, device_name="Another CPU")
    specs = [dataclasses.replace(CPU_SPEC, batch_size=size) for size in (1, 2, 8)]
    earlier = [ok_result(spec=specs[0]), ok_result(spec=specs[1], elapsed_seconds=30.0)]
    ignored = [ok_result(spec=specs[2], elapsed_seconds=900.0, environment=elsewhere)]
    cores = usable_cores()
    each = [forecast(spec, catalog.find(spec.checkpoint), earlier, cores) for spec in specs]
    expected = sum(one.seconds.likely for one in each if one is not None)
    assert [one.basis for one in each if one is not None] == ["same", "same", "alike"]
    found = forecast_sweep(specs, [*ignored, *earlier], samples.MACHINE)
    assert found == SweepForecast(3, pytest.approx(expected), 0)


def test_repeats_take_as_long_as_so_many_runs() -> None:
    thrice = dataclasses.replace(CPU_SPEC, repeats=3)
    for earlier in ([], [ok_result(spec=CPU_SPEC)], [ok_result(spec=thrice)]):
        checkpoint = catalog.find(CPU_SPEC.checkpoint)
        once, all_ = (forecast(spec, checkpoint, earlier, 2) for spec in (CPU_SPEC, thrice))
        assert once is not None and all_ is not None
        assert all_.seconds == once.seconds.times(3, 3, 3)
        assert (all_.memory_bytes, all_.basis) == (once.memory_bytes, once.basis)
        sweeps = [forecast_sweep([spec], earlier, samples.MACHINE).seconds for spec in (CPU_SPEC, thrice)]
        assert sweeps[1] == pytest.approx(3 * sweeps[0])


def test_a_sweep_of_what_was_never_run_here_is_a_guess_by_size() -> None:
    named = ("shapes-vit", "somebody/model", "facebook/convnext-large-224")
    found = [
        forecast_sweep([RunSpec(name, "image-classification", device="cpu")], [], samples.MACHINE) for name in named
    ]
    assert [one.guessed for one in found] == [1, 1, 1]
    small, unknown, large = (one.seconds for one in found)
    assert 0 < small < unknown < large
    assert forecast_sweep([], [ok_result()], samples.MACHINE) == SweepForecast(0, 0, 0)


# What is known to be pointless


def gpu_machine(name: str) -> HostInfo:
    return dataclasses.replace(MACHINE, gpu=name)


@pytest.mark.parametrize(
    ("changes", "machine", "doubt"),
    [
        ({"mode": "reduce-overhead"}, MACHINE, "no cuda graphs on a cpu"),
        ({"dtype": "float16"}, MACHINE, "float16 on a cpu"),
        ({"dtype": "tf32"}, MACHINE, "no tf32"),
        ({"device": "cuda"}, MACHINE, "no gpu"),
        ({"device": "cuda", "mode": "max-autotune"}, gpu_machine("Tesla T4"), "few multiprocessors"),
        ({"device": "cuda", "dtype": "tf32"}, gpu_machine("Tesla V100-SXM2-16GB"), "no tf32"),
        ({"device": "cuda", "dtype": "bfloat16"}, gpu_machine("NVIDIA GeForce RTX 2080 Ti"), "no bfloat16"),
        ({"device": "cuda", "threads": 4}, gpu_machine("NVIDIA A100-SXM4-80GB"), "threads on a gpu"),
    ],
)
def test_a_choice_that_is_known_to_be_pointless_gets_a_word(
    changes: dict[str, object], machine: HostInfo, doubt: str
) -> None:
    assert doubts(dataclasses.replace(CPU_SPEC, **changes), machine, None, []) == (doubt,)  # type: ignore[arg-type]
    assert '<p class="doubt">' in results.forecast(None, None, [doubt], ENGLISH)


@pytest.mark.parametrize(
    ("changes", "machine"),
    [
        ({}, MACHINE),
        ({"dtype": "bfloat16"}, MACHINE),
        ({"device": "cuda", "mode": "reduce-overhead"}, gpu_machine("Tesla T4")),
        ({"device": "cuda", "mode": "max-autotune"}, gpu_machine("NVIDIA A100-SXM4-80GB")),
        ({"device": "cuda", "dtype": "tf32"}, gpu_machine("NVIDIA H200")),
        ({"device": "cuda", "dtype": "bfloat16"}, gpu_machine("NVIDIA L4")),
    ],
)
def test_a_sensible_choice_gets_none(changes: dict[str, object], machine: HostInfo) -> None:
    assert doubts(dataclasses.replace(CPU_SPEC, **changes), machine, None, []) == ()  # type: ignore[arg-type]


def test_a_checkpoint_that_lost_every_time_here_is_said_to_have_lost() -> None:
    lost = ok_result(compiled=measurement(0.004))
    assert doubts(CPU_SPEC, MACHINE, None, [lost, lost]) == ("lost before",)
    assert doubts(CPU_SPEC, MACHINE, None, [lost, ok_result()]) == ()


def test_what_cannot_fit_is_said_before_the_run() -> None:
    def expecting(low: float, likely: float) -> tuple[str, ...]:
        expected = Forecast(Range(1, 2, 3), Range(low, likely, 2 * likely), "parameters", 0)
        return doubts(CPU_SPEC, dataclasses.replace(MACHINE, memory_bytes=40), expected, [])

    assert expecting(50, 60) == ("will not fit",) and expecting(20, 39) == ("may not fit",) and expecting(1, 2) == ()


def test_a_gpu_s_memory_is_known_from_the_machine_or_else_from_earlier_runs() -> None:
    spec = RunSpec("google/vit-base-patch16-224", "image-classification", device="cuda")
    expected = Forecast(Range(1, 2, 3), Range(20e9, 30e9, 60e9), "parameters", 0)
    assert doubts(spec, gpu_machine("Tesla T4"), expected, []) == ()
    assert doubts(spec, gpu_machine("Tesla T4"), expected, [full_result()]) == ("will not fit",)
    large, small = (
        dataclasses.replace(gpu_machine("Tesla T4"), gpu_memory_bytes=size) for size in (80 * 10**9, 16 * 10**9)
    )
    assert doubts(spec, large, expected, [full_result()]) == ()
    assert doubts(spec, small, expected, []) == ("will not fit",)


def test_multiprocessors_are_known_of_whole_names_only() -> None:
    assert (multiprocessors("Tesla T4"), multiprocessors("NVIDIA L4"), multiprocessors("NVIDIA L40S")) == (40, 58, None)


# In words


@pytest.mark.parametrize(
    ("low", "likely", "high", "said"),
    [(10, 12, 15, "About 10 s"), (4, 40, 290, "4 s to 5 min"), (100, 110, 120, "About 2 min")],
)
def test_near_ends_are_one_figure_and_far_ones_are_two(low: float, likely: float, high: float, said: str) -> None:
    expected = Forecast(Range(low, likely, high), Range(5e8, 5.12e8, 5.2e8), "same", 3)
    told = results.forecast(expected, None, [], ENGLISH)
    assert f"<b>{said}, about 512 MB of memory</b>" in told and "based on 3 earlier runs with these settings" in told


def test_a_rough_estimate_says_what_it_rests_on() -> None:
    expected = Forecast(Range(10, 60, 300), Range(5e8, 1e9, 2e9), "parameters", 0)
    told = results.forecast(expected, VIT, [], ENGLISH)
    assert "rough estimate from model size (86.6 M parameters), download not counted" in told
