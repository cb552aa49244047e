"""Tests of comparing the outputs of eager and compiled: by number, against float64, and as a user sees them."""

import contextlib
import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.own_workload import workload_of
from torch import nn
from torch.overrides import TorchFunctionMode

from demo.backend import parity
from demo.backend.effects import Effects
from demo.backend.workload import refuse_call
from demo.core.outputs import Parity

BASE = torch.linspace(-2, 2, 100)
NAN = torch.full_like(BASE, float("nan"))
NEAR = BASE.double() - 0.015
"""A float64 reference that differs from eager's output `BASE` by 0.015."""


def compare(
    eager: Any, compiled: Any, exact: Any = None, dtype: str = "float32", again: torch.Tensor | None = None
) -> Parity:
    """Compares two outputs. `exact`: the output in float64; None: the same as eager's.

    `again`: a second eager output.
    """
    exact = eager if exact is None else exact
    return parity.compare_outputs(eager, eager if again is None else again, compiled, dtype, lambda _: exact)


def test_the_largest_error_is_unknown_if_an_output_is_nan() -> None:
    assert compare(BASE, BASE + 5e-4).max_abs_error == pytest.approx(5e-4, rel=0.01)
    assert compare(BASE, NAN).max_abs_error is None
    assert compare(torch.arange(3), torch.arange(3)).max_abs_error == 0


ZEROS, ONES = torch.zeros(10), torch.ones(2, dtype=torch.complex64)
FAR = BASE + 2.5e-3 * (torch.arange(100) == 50)
"""An output that differs from `BASE` in one number, by more than the tolerance."""
MASKED = torch.cat([BASE, torch.tensor([-math.inf])])  # as a detector may mask
UNMASKED = torch.cat([BASE, torch.zeros(1)])
SPARSE = 0.5 * (torch.arange(100) == 0)
GARBAGE = torch.tensor([1e-8, -2e-8, 3e-8])
SMALL = GARBAGE * 1e-6


@pytest.mark.parametrize(
    ("eager", "compiled", "options", "verdict"),
    [
        pytest.param(BASE, BASE + 5e-4, {}, "match", id="within the tolerance"),
        pytest.param(BASE, BASE + 0.1, {}, "differ", id="beyond it, eager exact"),
        pytest.param(BASE, BASE + 0.05, {"exact": BASE.double() + 0.05}, "match", id="beyond it, compiled exact"),
        pytest.param(BASE, BASE + 0.025, {"exact": NEAR}, "differ", id="2.7 times eager's error in float32"),
        pytest.param(BASE, BASE + 0.025, {"exact": NEAR, "dtype": "tf32"}, "differ", id="2.7 times in tf32"),
        pytest.param(BASE, BASE + 0.025, {"exact": NEAR, "dtype": "bfloat16"}, "match", id="2.7 times in bfloat16"),
        pytest.param(BASE, BASE, {"again": BASE + 1}, "not comparable", id="eager differs from itself"),
        pytest.param(BASE, BASE[:50], {"again": BASE[:70]}, "not comparable", id="eager changes its shape"),
        pytest.param(BASE, BASE[:50], {}, "differ", id="another shape"),
        pytest.param(BASE, BASE.half(), {}, "differ", id="another number format"),
        pytest.param(BASE, NAN, {}, "differ", id="NaN"),
        pytest.param(NAN, NAN, {}, "not comparable", id="NaN in both"),
        pytest.param(MASKED, MASKED, {}, "match", id="a mask in both"),
        pytest.param(MASKED, MASKED + 0.1, {"dtype": "float16"}, "differ", id="beside a mask"),
        pytest.param(MASKED, UNMASKED, {}, "differ", id="compiled without the mask"),
        pytest.param(MASKED, UNMASKED, {"exact": UNMASKED, "dtype": "float16"}, "not comparable", id="eager overflows"),
        pytest.param(ZEROS, ZEROS + 5e-8, {}, "match", id="a rounding beside zeros"),
        pytest.param(ZEROS, ZEROS + 1e-5, {}, "differ", id="beside zeros"),
        pytest.param(SPARSE, SPARSE + 8e-5 * (SPARSE == 0), {}, "differ", id="beside one large number"),
        pytest.param(ONES, ONES * 1j, {}, "differ", id="complex, turned"),
        pytest.param(torch.empty(0), torch.empty(0), {}, "not comparable", id="no number"),
        pytest.param(["a", 1], ["a", 1], {}, "not comparable", id="no tensor"),
        # as dynamo does: what lies within the tolerance needs no reference, however near eager is to that
        pytest.param([BASE, BASE], [BASE + 5e-4, FAR], {"exact": [BASE, FAR]}, "match", id="each judged by itself"),
        pytest.param(torch.ones(1), torch.ones(1) + 2**-7, {}, "differ", id="a rounding of bfloat16 in float32"),
        pytest.param(torch.ones(1), torch.ones(1) + 2**-7, {"dtype": "bfloat16"}, "match", id="a rounding of bfloat16"),
        # nothing is said if eager is far from float64
        pytest.param(GARBAGE, GARBAGE * -9, {"exact": SMALL}, "not comparable", id="farther than eager"),
        pytest.param(GARBAGE, SMALL, {"exact": SMALL}, "not comparable", id="exact"),
        pytest.param(GARBAGE, -GARBAGE, {"exact": GARBAGE * 0}, "not comparable", id="beside a truth of zeros"),
        pytest.param([GARBAGE, BASE], [-GARBAGE, BASE], {"exact": [SMALL, BASE]}, "not comparable", id="and a match"),
        pytest.param([GARBAGE, BASE], [-GARBAGE, -BASE], {"exact": [SMALL, BASE]}, "differ", id="and a difference"),
        pytest.param(BASE * 1e4, BASE * 1.02e4, {"exact": BASE * 0.99e4}, "differ", id="but not for being large"),
    ],
)
def test_the_verdict_on_outputs_of_every_kind(eager: Any, compiled: Any, options: dict[str, Any], verdict: str) -> None:
    result = compare(eager, compiled, **options)
    assert result.verdict == verdict
    assert "nan" not in result.reason and "inf " not in result.reason


@pytest.mark.parametrize(
    ("effects", "again", "compiled", "verdict", "words"),
    [
        pytest.param(Effects(draws=True), BASE, BASE + 0.1, "not comparable", "draws random numbers", id="with a seed"),
        pytest.param(Effects(draws=True), BASE + 1, BASE, "not comparable", "draws random numbers", id="without one"),
        pytest.param(
            Effects(draws=True), BASE, BASE[:50], "not comparable", "draws random numbers", id="of other shape"
        ),
        pytest.param(Effects(draws=True), BASE, BASE + 5e-4, "match", "within", id="within the tolerance"),
        pytest.param(Effects(state=("n",)), BASE + 1, BASE, "not comparable", "changes its own n", id="a counter"),
        pytest.param(
            Effects(state=("n",)), BASE, BASE + 1, "not comparable", "changes its own n", id="every other call"
        ),
        pytest.param(Effects(state=("k",), undone=True), BASE, BASE + 0.1, "differ", "away", id="a cache given back"),
        pytest.param(Effects(inputs=("x",)), BASE + 1, BASE, "not comparable", "its input x", id="its input"),
        pytest.param(Effects(), BASE + 1, BASE, "not comparable", "reason that is not known", id="for no known reason"),
        pytest.param(Effects(inputs=("x",)), BASE, BASE + 0.1, "differ", "away from", id="given back, and wrong"),
    ],
)
def test_why_eager_does_not_repeat_itself(
    effects: Effects, again: torch.Tensor, compiled: torch.Tensor, verdict: str, words: str
) -> None:
    result = parity.compare_outputs(BASE, again, compiled, "float32", lambda _: BASE, effects=effects)
    assert result.verdict == verdict and words in result.reason


def test_the_largest_error_counts_integers() -> None:
    result = compare([BASE, torch.arange(3)], [BASE, torch.tensor([0, 1, 9])])
    assert result.verdict == "differ" and result.max_abs_error == 7


class Rows(nn.Module):
    """A model whose layers get rows of different lengths (a nested tensor), as in a padded TransformerEncoder."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = torch.nested.nested_tensor([x, x[:1]])
        return self.second(self.first(rows)).to_padded_tensor(0.0)


def test_layers_that_return_nested_tensors_are_moved_too() -> None:
    reference = parity.float64_reference(workload_of(Rows(), x=torch.ones(3, 4)), None)
    exact, moved = reference(0), reference(2**-7)
    assert 0 < float((moved - exact).abs().max()) < 0.1


class Experts(nn.Linear):
    implementation = "grouped_mm"

    def set_experts_implementation(self, name: str) -> None:
        self.implementation = name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.implementation == "grouped_mm" and x.dtype == torch.float64:
            raise RuntimeError("Expected inputs of BF16 type")
        return super().forward(x)


def test_a_mixture_of_experts_has_a_reference() -> None:
    reference = parity.float64_reference(workload_of(Experts(2, 2), x=torch.ones(2)), None)
    assert reference(0).dtype == torch.float64


def test_a_reference_that_fails_leaves_the_question_open() -> None:
    def fails(_: float) -> torch.Tensor:
        raise torch.OutOfMemoryError("no room for float64")

    result = parity.compare_outputs(BASE, BASE, BASE + 0.1, "float32", fails)
    assert result.verdict == "not comparable" and "no room for float64" in result.reason
    near, far = (parity.compare_outputs(BASE, BASE, BASE * by, "float32", fails) for by in (1.05, 1.5))
    assert far.unknown and not near.unknown  # no rounding moves numbers by half
    assert parity.compare_outputs(BASE, BASE, BASE + 5e-4, "float32", fails).verdict == "match"  # needs none
    assert parity.compare_outputs(BASE, BASE, NAN, "float32", fails).verdict == "differ"


@pytest.mark.parametrize(("dtype", "times"), [(torch.float32, 2), (torch.float16, 4)], ids=str)
def test_a_reference_larger_than_the_free_memory_is_not_tried(dtype: torch.dtype, times: int) -> None:
    workload = workload_of(torch.nn.Linear(2, 2, dtype=dtype), input=torch.ones(2, dtype=dtype))
    with pytest.raises(MemoryError, match=rf"about {times}\d*\.?\d* [GT]B and .* is free"):
        parity.float64_reference(workload, peak_memory_bytes=10**15)()


@pytest.mark.parametrize("scale", [1e-8, 1e3])
def test_small_outputs_made_zero_or_reversed_differ(scale: float) -> None:
    shares = torch.softmax(torch.linspace(-2, 2, 20_000), 0) * scale
    assert [compare(shares, wrong).verdict for wrong in (shares * 0, shares.flip(0))] == ["differ", "differ"]
    assert compare(shares, shares * (1 + 5e-4)).verdict == "match"


@pytest.mark.parametrize(
    ("error", "moved", "verdict"),
    [
        pytest.param(0.04, 0.0, "differ", id="rounding moves nothing"),
        pytest.param(0.04, 0.01, "match", id="rounding moves as much"),
        pytest.param(0.08, 0.02, "not comparable", id="a fault of a tenth could hide"),
        pytest.param(0.04, 0.3, "not comparable", id="rounding moves everything"),
    ],
)
def test_an_error_is_judged_by_what_rounding_in_layers_moves(error: float, moved: float, verdict: str) -> None:
    tensor = torch.tensor([1.0])
    result = parity.compare_outputs(
        tensor, tensor, tensor + error, "bfloat16", lambda share: tensor.double() + (moved if share else 0)
    )
    assert result.verdict == verdict


def test_moved_layers_leave_the_model_as_it_is() -> None:
    workload = workload_of(nn.Sequential(nn.Linear(2, 2), nn.GELU()), input=torch.ones(2))
    reference = parity.float64_reference(workload, peak_memory_bytes=10**6)  # and so much is free
    exact, moved = reference(0), reference(2**-7)
    assert exact.dtype == torch.float64
    assert 0 < float((moved / exact - 1).abs().max()) < 3 * 2**-7
    assert torch.equal(exact, reference(0))


# Small nets in another order: what a compiler may change


class AnotherOrder(TorchFunctionMode):
    """Replaces torch's functions by equal ones in smaller steps and another order, which round differently."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        x, rest = args[0], args[1:]
        if function is F.linear:
            weight, bias = rest
            half = weight.shape[1] // 2
            return x[..., half:] @ weight[:, half:].T + x[..., :half] @ weight[:, :half].T + bias
        if function is F.gelu:
            return 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5)))
        if function is F.layer_norm:
            centred = x - x.mean(-1, keepdim=True)
            scale = torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-5)
            return centred * scale * kwargs["weight"] + kwargs["bias"]
        if function is F.softmax:
            powers = torch.exp(x - x.amax(-1, keepdim=True))
            return powers / powers.sum(-1, keepdim=True)
        return function(*args, **(kwargs or {}))


Case = tuple[torch.Tensor, torch.Tensor, Callable[[float], torch.Tensor]]


def small_net(seed: int, dtype: str, outputs: int) -> Case:
    """Returns the outputs of a random net, its outputs if it computes in `AnotherOrder`, and its float64 reference."""
    torch.manual_seed(seed)
    chosen = [int(index) for index in torch.randint(0, 5, (2 + seed % 4,))]
    width = 8 << seed % 4
    kinds = [nn.GELU, nn.Tanh, partial(nn.LayerNorm, width), partial(nn.Linear, width, width), partial(nn.Softmax, -1)]
    layers = [nn.Linear(width, width), *(kinds[index]() for index in chosen), nn.Linear(width, outputs)]
    form = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(dtype, torch.float32)
    net, x = nn.Sequential(*layers).to(form), torch.randn(4 if outputs > 2 else 1, width).to(form)

    def called(mode: Any) -> torch.Tensor:
        with torch.no_grad(), mode:
            return net(x)

    reference = parity.float64_reference(workload_of(net, input=x), None)
    return called(contextlib.nullcontext()), called(AnotherOrder()), reference


FORMATS = ["float32", "float16", "bfloat16"]


@pytest.mark.parametrize("dtype", FORMATS)
def test_of_250_equal_nets_of_a_format_none_differs(dtype: str) -> None:
    verdicts = Counter()
    for seed in range(1000, 1250):
        eager, compiled, reference = small_net(seed, dtype, outputs=(1, 1, 2, 10)[seed % 4])
        verdicts[parity.compare_outputs(eager, eager, compiled, dtype, reference).verdict] += 1
    assert verdicts["differ"] == 0 and verdicts["match"] >= 230


@pytest.mark.parametrize("place", [slice(None), slice(11, 12)], ids=["everywhere", "one number"])
@pytest.mark.parametrize("dtype", FORMATS)
def test_25_faults_of_a_tenth_of_the_size_all_differ(dtype: str, place: slice) -> None:
    for seed in range(25):
        eager, compiled, reference = small_net(seed, dtype, outputs=10)
        fault = torch.zeros(4, 10)
        fault.view(-1)[place] = torch.randn(40)[place]
        fault *= 0.1 * reference(0).square().mean().sqrt() / fault.square().mean().sqrt()
        wrong = (compiled + fault).to(compiled.dtype)
        assert parity.compare_outputs(eager, eager, wrong, dtype, reference).verdict == "differ", seed


WHOLE = torch.arange(6)


@pytest.mark.parametrize(
    ("eager", "wrong"),
    [(WHOLE, WHOLE.flip(0)), (WHOLE > 2, WHOLE <= 2), (WHOLE.byte(), WHOLE.byte() + 1)],
    ids=["integers", "booleans", "bytes"],
)
def test_integers_booleans_and_bytes_are_compared_exactly(eager: torch.Tensor, wrong: torch.Tensor) -> None:
    assert compare([BASE, eager], [BASE + 5e-4, eager]).verdict == "match"
    result = compare([BASE, eager], [BASE, wrong])
    assert result.verdict == "differ" and result.reason.endswith("differ from eager's: 6.")
    assert compare(eager, wrong, again=wrong).verdict == "not comparable"


@pytest.mark.parametrize(
    ("moved", "verdict"),
    [
        pytest.param(0, "differ", id="rounding moves none"),
        pytest.param(1, "differ", id="rounding moves fewer"),
        pytest.param(3, "not comparable", id="rounding moves as many"),
        pytest.param(None, "differ", id="no float64"),
    ],
)
def test_integers_that_rounding_moves_are_no_fault(moved: int | None, verdict: str) -> None:
    """As indices of largest numbers: 6 of 100 are others than eager's."""
    places = torch.arange(100)

    def reference(share: float) -> list[torch.Tensor]:
        if moved is None:
            raise TypeError("no float64")
        return [BASE, places + (places < moved) * (share > 0)]

    outputs = [BASE, places]
    result = parity.compare_outputs(outputs, outputs, [BASE, places + (places < 6)], "float32", reference)
    assert result.verdict == verdict and result.unknown == (verdict == "not comparable")
    wrong = parity.compare_outputs(outputs, outputs, [BASE + 1, places + (places < 6)], "float32", reference)
    assert wrong.verdict == "differ"


def test_floats_that_float64_clears_do_not_clear_integers_beside_them() -> None:
    def reference(share: float) -> list[torch.Tensor]:
        return [BASE + 1e-3, WHOLE + (share > 0)]

    outputs, compiled = [BASE, WHOLE], [BASE + 2e-3, WHOLE + 1]
    cleared = parity.compare_outputs(outputs, outputs, [BASE + 2e-3, WHOLE], "float32", reference)
    assert cleared.verdict == "match" and cleared.max_abs_error > parity.TOLERANCE
    result = parity.compare_outputs(outputs, outputs, compiled, "float32", reference)
    assert result.unknown and "differ from eager's: 6. In a float64 reference rounding" in result.reason


@pytest.mark.parametrize("fast_path", [True, False], ids=["agrees without the fast path", "differs all the same"])
def test_the_fast_path_is_named_only_if_eager_agrees_without_it(fast_path: bool) -> None:
    """With a padding mask, eager's fast path gives 0 in padded places. No compiled model does so."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
        model, x = torch.nn.TransformerEncoder(layer, 1).eval(), torch.randn(2, 4, 8)
        padded = torch.tensor([[False] * 4, [False, False, True, True]])
        workload: Any = SimpleNamespace(model=model, outputs=lambda model: model(x, src_key_padding_mask=padded))
        eager = workload.outputs(model)
        torch.backends.mha.set_fastpath_enabled(False)
        compiled = workload.outputs(model) + (0.0 if fast_path else 1.0)
        torch.backends.mha.set_fastpath_enabled(True)
        against = (compiled, "float32", lambda share: eager, None, "", Effects())
        differ = parity.compare_outputs(eager, eager, *against)
        result = parity.with_known_cause(differ, workload, refuse_call, eager, against)
    assert (differ.verdict, result.verdict) == ("differ", "differ")
    assert (parity.FAST_PATH in result.reason) is fast_path


@pytest.mark.parametrize(
    ("every", "exact", "effects", "verdict", "words"),
    [
        pytest.param(2, BASE, Effects(), "not comparable", "for a reason that is not known", id="every other call"),
        pytest.param(2, BASE + 3, Effects(), "not comparable", "reason that is not known", id="float64, too"),
        pytest.param(9, BASE, Effects(drew=True), "not comparable", "draws random numbers", id="rarely, and it draws"),
        pytest.param(1000, BASE, Effects(), "differ", "away from", id="never"),
    ],
)
def test_eager_is_called_again_before_outputs_are_said_to_differ(
    every: int, exact: torch.Tensor, effects: Effects, verdict: str, words: str
) -> None:
    calls = count(1)
    workload: Any = SimpleNamespace(model=nn.Identity(), outputs=lambda model: BASE + (next(calls) % every == 0))
    against = (BASE + 1, "float32", lambda share: exact, None, "", effects)
    first = parity.compare_outputs(BASE, BASE, *against)
    result = parity.with_known_cause(first, workload, refuse_call, BASE, against)
    assert words not in first.reason or verdict == "differ"
    assert result.verdict == verdict and words in result.reason


@pytest.mark.parametrize(
    ("every", "draws", "verdict"),
    [
        pytest.param(9, True, "not comparable", id="now and then, and the model draws"),
        pytest.param(9, False, "differ", id="now and then, and it draws nothing"),
        pytest.param(1, True, "differ", id="always, though the model draws"),
    ],
)
def test_compiled_is_called_again_if_the_model_draws(every: int, draws: bool, verdict: str) -> None:
    """Eager always gives the same. Compiled gave another output in the call that was compared."""
    calls, compiled = count(), lambda: None

    def outputs(model: Any) -> torch.Tensor:
        return BASE + (model is compiled and next(calls) % every == 0)

    workload: Any = SimpleNamespace(model=nn.Identity(), outputs=outputs)
    against = (outputs(compiled), "float32", lambda share: BASE, None, "", Effects(drew=draws, seeds=9))
    first = parity.compare_outputs(BASE, BASE, *against)
    result = parity.with_known_cause(first, workload, compiled, BASE, against)
    assert (first.verdict, result.verdict) == ("differ", verdict)
    assert result.unknown is (verdict == "not comparable") and (parity.DRAWS in result.reason) is result.unknown


def test_slow_calls_are_repeated_once_and_twice_in_float64(monkeypatch) -> None:
    """Each call takes ten seconds, by a clock of its own."""
    calls = Counter[str]()
    monkeypatch.setattr(parity, "time", SimpleNamespace(monotonic=lambda: 10.0 * calls.total()))

    def outputs(kind: str) -> torch.Tensor:
        calls[kind] += 1
        return BASE

    workload: Any = SimpleNamespace(model=nn.Identity(), outputs=lambda model: outputs("eager"))
    against = (BASE + 1, "float32", lambda share: outputs("moved" if share else "exact"), None, "", Effects())
    first = parity.compare_outputs(BASE, BASE, *against)
    assert parity.with_known_cause(first, workload, refuse_call, BASE, against).verdict == "differ"
    assert calls == {"exact": 1, "moved": 2, "eager": 1}
