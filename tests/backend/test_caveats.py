"""Tests of a run's caveats: from samples of the machine, from the compile, and from the precision of the timing."""

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from support.own_workload import workload_of
from support.samples import ENVIRONMENT, measurement, ok_result
from torch._inductor import cpu_vec_isa

from demo.backend import caveats
from demo.backend.effects import Effects
from demo.backend.workload import Variant, Variants
from demo.core.machine import GpuSample, HostSample
from demo.core.measurement import Compilation, CudaGraphs, GraphBreak
from demo.core.options import RunSpec


def gpu(clock: float = 1.9e9, **more: Any) -> HostSample:
    return HostSample(0.0, 0.0, GpuSample(clock, 1.98e9, **more))


def waiting(launching: float, taken: float | None) -> dict[str, Any]:
    """Returns fields of a GPU run.

    Launching kernels takes the share `launching` of an eager call, others the share `taken` of the host.
    """
    calls = measurement(0.002)
    eager = dataclasses.replace(calls, device_seconds=(calls.median_seconds * (1 - launching),))
    return {"eager": eager, "machine_states": (HostSample(0.5, None, None, None, taken),) * 2}


BUSY = (HostSample(0.0, 0.2), HostSample(0.5, 0.4))
WIDE = dataclasses.replace(measurement(0.001), wall_seconds=(0.001, 0.0012) * 20)


@pytest.mark.parametrize(
    ("fields", "unsettled", "words"),
    [
        ({"machine_states": BUSY}, [], "30 % of the processor busy"),
        ({"compiled": WIDE}, [], "compiled 18 %): the speed of the machine or of the model"),
        (
            {},
            ["eager", "compiled"],
            "(eager, compiled): the last three calls were more than 10 % apart, or one of them",
        ),
        ({"machine_states": (gpu(foreign_processes=2),)}, [], "Other processes that used this GPU as well: 2."),
        ({"machine_states": (gpu(1.9e9), gpu(1.5e9))}, [], "between 1500 MHz and 1900 MHz while it was timed"),
        ({"machine_states": (gpu(1.2e9),)}, [], "and can be 1980 MHz"),
        ({"machine_states": (gpu(throttle_reasons=("thermal", "power")),)}, [], "(power, thermal)"),
        (
            waiting(0.5, 0.12),
            [],
            "for 50 % of a call, and for 12 % of the time other programs or machines",
        ),
        (waiting(0.2, 0.12), [], ""),
        (waiting(0.5, 0.03), [], ""),
        (waiting(0.5, None), [], ""),
        ({"machine_states": (HostSample(0.0, 0.02), gpu(), gpu(1.85e9))}, [], ""),
    ],
    ids=[
        *("others", "wide", "unsettled", "GPU shared", "GPU's clock moved", "GPU's clock low", "GPU slowed"),
        *("host taken", "host taken that nobody waits for", "host hardly taken", "host not known", "quiet"),
    ],
)
def test_each_disturbance_has_a_sentence(fields, unsettled, words):
    noise_caveats = caveats.of_noise(ok_result(timing_seconds=1.0, **fields), unsettled)
    assert [words in str(caveat) for caveat in noise_caveats] == [True] * bool(words)


@pytest.mark.parametrize(
    ("device", "mode", "count", "named"),
    [
        ("cuda", "max-autotune", 40, True),
        ("cuda", "max-autotune-no-cudagraphs", 40, True),
        ("cuda", "max-autotune", 132, False),
        ("cuda", "default", 40, False),
        ("cpu", "max-autotune", 40, False),
    ],
)
def test_a_gpu_too_small_for_the_mode_is_named(device: str, mode: str, count: int, named: bool, monkeypatch) -> None:
    gpu = SimpleNamespace(multi_processor_count=count)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: gpu)
    spec = RunSpec("shapes-vit", "image-classification", device=device, mode=mode)
    device_caveats = caveats.of_device(spec, torch.device(device))
    assert ["too few multiprocessors (40) for " + mode in str(caveat) for caveat in device_caveats] == [True] * named


def compiled(graphs: int, **fields: Any) -> dict[str, Any]:
    return {"compilation": Compilation(1.0, "cold", graphs, **fields)}


def tail(slow_call: float, usual_call: float) -> dict[str, Any]:
    """Returns fields of a run in which every tenth compiled call takes `slow_call` seconds.

    Eager's 95th percentile is 2.08 ms.
    """
    times = tuple(slow_call if call % 10 == 0 else usual_call for call in range(48))
    return {"compiled": dataclasses.replace(measurement(usual_call), wall_seconds=times)}


@pytest.mark.parametrize(
    ("fields", "keys"),
    [
        (compiled(0), ["no_graph"]),
        (compiled(2, graph_breaks=(GraphBreak("print", "a.py:1"),)), ["breaks"]),
        (compiled(1, fallbacks=(GraphBreak("a loop", "a.py:1 in f"),)), ["fallbacks"]),
        ({"machine_states": (HostSample(0.5, 0.5, None, 1.0),)}, ["often_taken"]),
        (
            {
                "machine_states": (HostSample(0.5, 0.9, None, 0.2),),
                "environment": dataclasses.replace(ENVIRONMENT, threads=1),
            },
            ["thread_taken"],
        ),
        (tail(0.005, 0.001), ["tail"]),
        (tail(0.002, 0.001), []),
        (tail(0.00208 * 1.005, 0.001), []),  # hardly longer
        (tail(0.005, 0.003), []),  # of a slower model
    ],
)
def test_compiles_in_part_and_slow_calls_have_caveats(fields: dict[str, Any], keys: list[str]) -> None:
    assert [caveat.key for caveat in caveats.of_timing(ok_result(**fields))] == keys


@pytest.mark.parametrize(
    ("graphs", "words"),
    [
        (CudaGraphs("not asked"), ""),
        (CudaGraphs("used"), ""),
        (CudaGraphs("used in part", "a copy from the CPU"), "were used in part: a copy from the CPU."),
        (CudaGraphs("skipped", "mutated inputs"), "were skipped: mutated inputs."),
    ],
)
def test_cuda_graphs_skipped_or_used_in_part_have_a_caveat(graphs: CudaGraphs, words: str) -> None:
    graph_caveats = caveats.of_cuda_graphs(ok_result(**compiled(1, cuda_graphs=graphs)))
    assert [str(caveat).endswith(words) for caveat in graph_caveats] == [True] * bool(words)


NOISE = 1 + 0.05 * np.abs(np.random.default_rng(0).standard_normal(240))
RISE = np.linspace(1, 1.5, 240)


@pytest.mark.parametrize(
    ("seconds", "grows"),
    [
        (RISE * NOISE, True),
        (RISE[::12] * NOISE[::12], True),
        (RISE[::-1] * NOISE, False),
        (RISE**0.2 * NOISE, False),
        (NOISE + (np.arange(240) > 80) / 2, False),
        (NOISE, False),
        (RISE[::24], False),
    ],
    ids=["slower", "twenty calls", "faster", "a warm machine", "a step", "noise", "ten calls"],
)
def test_only_a_steady_growth_of_call_times_is_reported(seconds: np.ndarray, grows: bool) -> None:
    assert (caveats.steady_growth(seconds) is not None) is grows


def test_calls_that_grow_are_not_called_unsteady() -> None:
    grown = dataclasses.replace(measurement(0.001), wall_seconds=tuple(0.001 * RISE))
    (caveat,) = caveats.of_noise(ok_result(timing_seconds=1.0, eager=grown), [])
    assert str(caveat).startswith("Calls became slower one by one (eager 31 %")


@pytest.mark.parametrize(
    ("own", "bits", "probed", "narrow"),
    [
        ("AVX512", 0, True, True),
        ("AVX2", 0, True, True),
        ("AVX512", 256, True, True),
        ("SVE256", 0, True, True),
        ("AVX512", 512, True, False),
        ("AVX2", 256, True, False),
        ("NO AVX", 0, True, False),
        ("AVX512", 0, False, False),
    ],
)
def test_code_for_narrower_vectors_than_the_processor_has(own, bits, probed, narrow, monkeypatch):
    chosen = SimpleNamespace(bit_width=lambda: bits)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: own)
    monkeypatch.setattr(caveats, "pick_vec_isa", lambda: chosen)
    monkeypatch.setattr(cpu_vec_isa, "pick_vec_isa", lambda: chosen)
    with torch.compiler.config.patch(cache_key_tag="avx" if probed else ""):
        keys = [caveat.key for caveat in caveats.of_instructions(torch.device("cpu"))]
    assert keys == ["narrow_vectors"] * narrow


def fallback(reason: str, *guards: str) -> str:
    recompiles = tuple(GraphBreak(f"the guard {guard} failed", "a.py:1 in f") for guard in guards)
    fields = compiled(0, fallbacks=(GraphBreak(reason, "a.py:1 in f"),), recompiles=recompiles)
    return next(str(caveat) for caveat in caveats.of_timing(ok_result(**fields)) if caveat.key == "fallbacks")


def test_a_fallback_to_eager_has_its_remedy(monkeypatch) -> None:
    assert fallback("a loop").endswith("The first: a.py:1 in f, a loop.")
    assert "allow_rnn = True" in fallback("Attempted to wrap RNN, GRU, or LSTM")
    monkeypatch.setenv("TORCHDYNAMO_SUPPRESS_ERRORS", "1")
    with torch._dynamo.config.patch(suppress_errors=True):
        assert fallback("C++ compile error").endswith("TORCHDYNAMO_SUPPRESS_ERRORS=1 made eager calls of this error.")


@pytest.mark.parametrize("name", ["self.layer.step", "model.step"], ids=["in a method", "in a hook"])
def test_a_counter_that_is_compiled_again_and_again_has_its_remedy(name: str) -> None:
    limit, counted = "Dynamo recompile limit exceeded", [f"{name} == {number}" for number in range(8)]
    words = f"{name} changes from call to call: with torch._dynamo.config.allow_unspec_int_on_nn_module = True"
    assert words in fallback(limit, *counted)
    for reason, guards in ((limit, counted[:2]), (limit, ["x.shape[0] == 3"] * 8), ("a loop", counted)):
        assert "allow_unspec" not in fallback(reason, *guards)


KEPT, X = torch.ones(3), torch.rand(3)


def repeated(eager: Callable[[], Any], compiled: Callable[[], Any], device: str = "cpu") -> list[str]:
    """Returns the variants ('eager', 'compiled') with a caveat that their calls return the same tensor again."""
    workload = dataclasses.replace(workload_of(torch.nn.Linear(3, 3), input=X), device=torch.device(device))
    call_caveats = caveats.of_calls(
        workload, Variants(Variant(eager, [], None), Variant(compiled, [], None), []), Effects()
    )
    return [caveat.values["variant"] for caveat in call_caveats]


@pytest.mark.parametrize(
    ("found", "key"),
    [
        ({"copies": True, "unread": True, "constant": True}, "copied_answer"),
        ({"unread": True, "constant": True}, "constant"),
        ({"unread": True}, "unread"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_of_what_outputs_lack_the_strongest_is_said(found: dict[str, bool], key: str) -> None:
    workload = workload_of(torch.nn.Linear(3, 3), input=X)
    variant = Variant(lambda: X + 1, [], None)
    told = caveats.of_calls(workload, Variants(variant, variant, []), Effects(**found))
    assert [caveat.key for caveat in told] == [key]


class Multiply(torch.nn.Module):
    """Multiplies its input by a weight of 100 × 100 numbers, of which 2,500 have one value and all others are 1."""

    def __init__(self, value: float = 1.0, dtype: torch.dtype = torch.float32, times: int = 1, count: int = 2500):
        super().__init__()
        weight = torch.ones(100, 100, dtype=dtype)
        weight.view(-1)[:count] = value
        self.weight, self.times = torch.nn.Parameter(weight, requires_grad=False), times

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        for _ in range(self.times):
            input = input * self.weight
        return input


class Forward(torch.nn.Linear):
    """Differentiates in forward mode, for which torch makes tensors without memory: to read them ends the process."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return torch.func.jvp(super().forward, (input,), (input,))[1]


class Refusing(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.flatten:
            raise NotImplementedError
        return super().__torch_function__(func, types, args, kwargs)


ONES = torch.ones(100, 100)


@pytest.mark.parametrize(
    ("model", "x", "shares"),
    [
        (Multiply(1e-41), ONES.mul(0), "weights 25 %"),
        (Multiply(-1e-39, torch.bfloat16), ONES.mul(0), "weights 25 %"),
        (Multiply(0.0, count=10_000), ONES * 1e-41, "inputs 100 %"),
        (Multiply(1e-20, times=2), ONES, "results of its operators 12 %"),
        (Multiply(1e-300, torch.float64), ONES.double(), ""),
        (Multiply(1e-6, torch.float16), ONES.half(), ""),
        (Multiply(1e-41, count=5), ONES, ""),
        (torch.nn.Identity(), torch.arange(3), ""),
        (torch.nn.Identity(), torch.eye(3).to_sparse(), ""),
        (torch.nn.Identity(), torch.eye(3).as_subclass(Refusing), ""),
        (Forward(3, 3), torch.eye(3), ""),
    ],
    ids=[
        *("weights", "bfloat16", "inputs", "results", "float64", "float16", "few", "integers", "sparse"),
        *("class that refuses", "without memory"),
    ],
)
def test_subnormal_numbers_have_their_share_and_place(model: torch.nn.Module, x: torch.Tensor, shares: str) -> None:
    with torch.no_grad():
        assert caveats.subnormal_shares(workload_of(model, input=x)) == shares


def test_subnormals_of_uninitialised_memory_are_not_counted() -> None:
    mode = caveats._Subnormals()
    for name, counted in (("empty_like", 0), ("mul", 10)):
        function = Mock(return_value=torch.full((10,), 1e-41), overloadpacket=SimpleNamespace(__name__=name))
        mode.__torch_dispatch__(function, ())
        assert mode.count[0] == counted


@pytest.mark.parametrize(
    ("call", "again"),
    [
        pytest.param(lambda: KEPT, True, id="a kept tensor"),
        pytest.param(lambda: {"y": KEPT.detach(), "z": [X[None]]}, True, id="views of kept tensors"),
        pytest.param(lambda: (KEPT, X + 1), False, id="one of two is new"),
        pytest.param(lambda: KEPT.add_(1), False, id="written to in place"),
        pytest.param(lambda: X.to_sparse(), False, id="sparse"),
        pytest.param(lambda: 5, False, id="no tensor"),
        pytest.param(lambda: (X + 1)[:0], False, id="an empty tensor, which has no address"),
    ],
)
def test_calls_that_return_the_same_tensor_have_a_caveat(call: Callable[[], Any], again: bool) -> None:
    with torch.inference_mode():
        assert repeated(call, lambda: X + 1) == ["eager"] * again


@pytest.mark.parametrize(("device", "variants"), [("cpu", ["compiled"]), ("cuda", [])])
def test_on_a_gpu_compiled_outputs_may_share_their_memory(device: str, variants: list[str]) -> None:
    assert repeated(lambda: X + 1, lambda: KEPT, device) == variants
