"""What the samples of a machine, the compile and the precision make a reader of the figures wary of."""

import dataclasses
from collections.abc import Callable
from typing import Any

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
    return HostSample(0.0, 0.0, GpuSample(clock, 1.98e9, **more))


BUSY = (HostSample(0.0, 0.2), HostSample(0.5, 0.4))
WIDE = dataclasses.replace(measurement(0.001), wall_seconds=(0.001, 0.0012) * 20)


@pytest.mark.parametrize(
    ("known", "unsettled", "words"),
    [
        ({"machine_states": BUSY}, [], "30 % of the processor busy"),
        ({"compiled": WIDE}, [], "compiled 18 %): the speed of the machine or of the model"),
        ({}, ["eager", "compiled"], "Not settled when the warm-up ended (eager, compiled)"),
        ({"machine_states": (gpu(foreign_processes=2),)}, [], "Other processes that used this GPU as well: 2."),
        ({"machine_states": (gpu(1.9e9), gpu(1.5e9))}, [], "between 1500 MHz and 1900 MHz while it was timed"),
        ({"machine_states": (gpu(1.2e9),)}, [], "and can be 1980 MHz"),
        ({"machine_states": (gpu(throttle_reasons=("thermal", "power")),)}, [], "(power, thermal)"),
    ],
    ids=["others", "wide", "unsettled", "GPU shared", "GPU's clock moved", "GPU's clock low", "GPU slowed"],
)
def test_each_disturbance_is_told_in_one_sentence(known, unsettled, words):
    (caveat,) = caveats.of_noise(ok_result(timing_seconds=1.0, **known), unsettled)
    assert words in str(caveat)


def test_a_quiet_machine_is_not_told_of() -> None:
    quiet = (HostSample(0.0, 0.02), gpu(), gpu(1.85e9))
    assert caveats.of_noise(ok_result(timing_seconds=1.0, machine_states=quiet), []) == []


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


def of_calls(eager: Callable[[], Any], compiled: Callable[[], Any], device: str = "cpu") -> list[str]:
    workload = dataclasses.replace(workload_of(torch.nn.Linear(3, 3), x=X), device=torch.device(device))
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
