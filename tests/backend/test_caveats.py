"""What the samples of a machine, the compile and the precision make a reader of the figures wary of."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from support.own_workload import workload_of
from support.samples import measurement, ok_result

from demo.backend import caveats
from demo.backend.workload import Variant, Variants
from demo.core.machine import GpuSample, HostSample
from demo.core.measurement import Compilation, GraphBreak
from demo.core.result import RunResult


def gpu(clock: float = 1.9e9, **more: Any) -> HostSample:
    return HostSample(0.0, 0.0, GpuSample(clock, 1.98e9, 70.0, 300.0, **more))


def test_each_disturbance_is_told_in_one_sentence() -> None:
    for samples, words in [
        ([HostSample(0.0, 0.2), HostSample(0.5, 0.4)], "30 % of the processor busy"),
        ([gpu(foreign_processes=2)], "Other processes that used this GPU as well: 2."),
        ([gpu(1.9e9), gpu(1.5e9)], "between 1500 and 1900 MHz"),
        ([gpu(1.2e9)], "at 1200 MHz, well below its 1980 MHz"),
        ([gpu(throttle_reasons=("thermal",))], "because it was hot (70 °C)"),
        ([gpu(throttle_reasons=("hardware",))], "hardware slowed it down"),
    ]:
        (caveat,) = caveats.of_machine(samples, {}, [])
        assert words in str(caveat)


def test_noise_of_one_cause_is_told_once() -> None:
    busy, both = [HostSample(0.0, 0.2), HostSample(0.5, 0.4)], ["eager", "compiled"]
    vary = "The calls vary widely (the middle half spans, as a share of the median: "
    unsettled = "Not settled when the warm-up ended ({}): the last three calls were more than 10 % apart."
    others = "other programs kept 30 % of the processor busy while it was timed."
    not_steady = f"{vary}compiled 12 %): the machine's speed was not steady."
    for samples, spreads, late, told in [
        (busy, {"eager": 0.31, "compiled": 0.12}, both, [f"{vary}eager 31 %, compiled 12 %): {others}"]),
        ([], {"compiled": 0.12}, ["eager"], [not_steady, unsettled.format("eager")]),
        ([], {}, both, [unsettled.format("eager, compiled")]),
        ([HostSample(0.0, 0.02), gpu(), gpu(1.85e9)], {}, [], []),
        ([], {}, [], []),
    ]:
        assert list(map(str, caveats.of_machine(samples, spreads, late))) == told


def test_what_the_compiled_model_really_was_is_told() -> None:
    for graphs, more, words in [
        (0, {}, "captured no graph at all"),
        (2, {"graph_breaks": (GraphBreak("print", "a.py:1"),)}, "breaks: 1. Graphs, with Python in between: 2."),
        (1, {"cudagraphs": "not used: mutated inputs"}, "were not used: mutated inputs."),
        (3, {"cudagraphs": "used in part: 2 of 3 graphs: why"}, "in part: 2 of 3 graphs: why."),
        (1, {"fallbacks": (GraphBreak("a loop", "a.py:1 in f"),)}, "1. The first: a.py:1 in f, a loop."),
    ]:
        (caveat,) = caveats.of_timing(ok_result(compilation=Compilation(1.0, "cold", graphs, **more)))
        assert words in str(caveat)
    busy = ok_result(compilation=Compilation(1.0, "cold", 1), machine_states=(HostSample(0.5, 0.5, None, 1.0),))
    (caveat,) = caveats.of_timing(busy)
    assert str(caveat).startswith("Fewer cores were free than torch used threads")


KEPT, X = torch.ones(3), torch.rand(3)


def of_calls(eager: Callable[[], Any], compiled: Callable[[], Any], device: str = "cpu", **more: Any) -> list[str]:
    model = more.get("model", torch.nn.Linear(3, 3))
    workload = dataclasses.replace(workload_of(model, x=more.get("x", X)), device=torch.device(device))
    found = caveats.of_calls(workload, Variants(Variant(eager, [], None), Variant(compiled, [], None), []))
    return list(map(str, found))


@pytest.mark.parametrize(
    ("call", "again"),
    [
        pytest.param(lambda: KEPT, True, id="a kept tensor"),
        pytest.param(lambda: {"y": KEPT.detach(), "z": [X[None]]}, True, id="views of kept tensors"),
        pytest.param(lambda: (KEPT, X + 1), False, id="one of two is new"),
        pytest.param(lambda: KEPT.add_(1), False, id="written to in place"),
        pytest.param(lambda: X.to_sparse(), False, id="sparse"),
        pytest.param(lambda: 5, False, id="no tensor"),
    ],
)
def test_a_tensor_that_comes_back_is_told(call: Callable[[], Any], again: bool) -> None:
    told = "The same tensor comes back from each call of eager: nothing may have been computed."
    with torch.inference_mode():
        assert of_calls(call, lambda: X + 1) == ([told] if again else [])


def test_on_a_gpu_compiled_outputs_may_share_one_place() -> None:
    assert of_calls(lambda: X + 1, lambda: KEPT, device="cuda") == []
    (told,) = of_calls(lambda: X + 1, lambda: KEPT)
    assert "from each call of compiled" in told


def filled(value: float, dtype: torch.dtype = torch.float32, count: int = 9) -> torch.nn.Module:
    """A module of a hundred by hundred weights, of which `count` in ten thousand have a value, or all but for 1."""
    model = torch.nn.Linear(100, 100, bias=False, dtype=dtype)
    torch.nn.init.ones_(model.weight)
    model.weight.data.flatten()[:count] = value
    return model


@pytest.mark.parametrize(
    ("model", "x", "told"),
    [
        pytest.param(filled(1e-41, count=2500), X, "25 %", id="weights"),
        pytest.param(filled(-1e-39, torch.bfloat16, 2500), X, "25 %", id="bfloat16"),
        pytest.param(filled(1.0), torch.full((10_000,), 1e-41), "50 %", id="inputs"),
        pytest.param(filled(1e-41, count=9), X, None, id="few"),
        pytest.param(filled(0.0, count=2500), X, None, id="zeros"),
        pytest.param(filled(1e-6, torch.float16, 2500), X, None, id="float16"),
        pytest.param(torch.nn.ReLU(), torch.arange(3), None, id="no floats"),
    ],
)
def test_a_share_of_subnormal_numbers_is_told(model: torch.nn.Module, x: torch.Tensor, told: str | None) -> None:
    found = of_calls(lambda: X + 1, lambda: X + 1, model=model, x=x)
    assert [one.partition(" of weights and inputs. torch.set_flush_denormal(True)")[0] for one in found] == (
        [f"Subnormal numbers, slow on many CPUs: {told}"] if told else []
    )
    assert of_calls(lambda: X + 1, lambda: X + 1, device="cuda", model=model, x=x) == []


def tailed(seconds: float) -> RunResult:
    """Twice as fast, but one compiled call in ten takes `seconds`. Eager's p95 is 2.08 ms."""
    times = tuple(seconds if call % 10 == 0 else 0.001 for call in range(48))
    compiled = dataclasses.replace(measurement(0.001), wall_seconds=times)
    fixed = dataclasses.replace(ok_result().spec, iterations=48)  # no word about the precision
    return ok_result(compiled=compiled, spec=fixed)


def test_a_longer_tail_of_a_faster_model_is_told() -> None:
    """But not where it is hardly longer, or the model is not faster."""
    (caveat,) = caveats.of_timing(tailed(0.005))
    assert str(caveat).endswith("of 20 calls one takes longer than 5.00 ms, with eager longer than 2.08 ms.")
    slower = dataclasses.replace(tailed(0.005), compiled=measurement(0.003))
    for result in (tailed(0.002), tailed(0.00208 * 1.005), slower):
        assert caveats.of_timing(result) == []


BLOCKS, CALLS = 30, 8
RNG = np.random.default_rng(0)


def noise() -> np.ndarray:
    return np.exp(RNG.normal(0, 0.03, BLOCKS * CALLS))


def timed(eager: np.ndarray, compiled: np.ndarray) -> RunResult:
    """Of both variants with these seconds, in blocks of `CALLS` calls."""
    sides = [
        dataclasses.replace(measurement(1.0), wall_seconds=tuple(one), calls_per_block=CALLS)
        for one in (eager, compiled)
    ]
    return ok_result(eager=sides[0], compiled=sides[1])


GROWING = np.linspace(1, 3, BLOCKS * CALLS)


def test_calls_that_become_slower_are_the_model_s() -> None:
    grown = np.linspace(1, 1.5, BLOCKS * CALLS)
    (told,) = map(str, caveats.of_growth(timed(grown * noise(), 0.3 * grown * noise())))
    assert told.startswith("Each call takes longer than the one before (eager ")
    assert told.endswith(" from the first third to the last): the model keeps something from call to call.")


@pytest.mark.parametrize(
    ("eager", "compiled"),
    [
        pytest.param(GROWING, np.ones(BLOCKS * CALLS), id="eager only"),
        pytest.param(GROWING[::-1], GROWING[::-1], id="faster"),
        pytest.param(GROWING**0.1, GROWING**0.1, id="by a tenth, as a machine that gets warm"),
    ],
)
def test_other_trends_are_not_the_model_s(eager: np.ndarray, compiled: np.ndarray) -> None:
    assert caveats.of_growth(timed(eager, compiled)) == []
