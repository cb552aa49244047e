"""Tests of an eager call's side effects: random numbers, changes of its input or its modules, kept outputs."""

import ctypes
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from support.own_workload import workload_of
from torch import nn
from torch.nn.attention.flex_attention import flex_attention

from demo.backend import caveats, effects, restorer
from demo.backend.timing import CPU_CLOCK
from demo.backend.workload import Workload


class Made(nn.Module):
    """A module whose forward is a given function. Further arguments become its attributes."""

    def __init__(self, function: Callable[..., Any], **kept: Any) -> None:
        super().__init__()
        self.function, self.layer = function, nn.Linear(4, 4)
        for name, value in kept.items():
            setattr(self, name, value)

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x)


def observed(function: Callable[..., Any], **kept: Any) -> tuple[effects.Effects, Workload]:
    torch.manual_seed(3)
    workload = workload_of(Made(function, **kept), x=torch.randn(3, 4))
    with torch.no_grad():
        workload.restorer, workload.eager()
        return effects.observe(workload.model, workload.restorer, lambda: workload.once(workload.model)), workload


def seeded(model: Any, x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return x + 0.01 * torch.rand_like(x)


def forked(model: Any, x: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return torch.randint(9, (3, 4)) + x


def only_seeds(model: Any, x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    return x + 1


def drops_the_draw(model: Any, x: torch.Tensor) -> torch.Tensor:
    torch.rand(3), random.random(), np.random.rand()
    return x + 1


def numpy_seeded(model: Any, x: torch.Tensor) -> torch.Tensor:
    np.random.seed(0)
    return x * float(np.random.rand())


def draws_until_it_fits(model: Any, x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    while (drawn := torch.rand(())) < 0.9 or random.random() < 0.5 or np.random.default_rng(0).random() < 0.5:
        random.seed(0)
    return x + drawn


@dataclass
class Answer:
    y: torch.Tensor


@pytest.mark.parametrize(
    ("function", "draws"),
    [
        pytest.param(seeded, True, id="with a seed of its own"),
        pytest.param(forked, True, id="integers, the generator put back"),
        pytest.param(lambda m, x: torch.normal(x, x.exp()), True, id="as a variational encoder"),
        pytest.param(lambda m, x: nn.functional.dropout(x, 0.1), True, id="dropout left in train mode"),
        pytest.param(lambda m, x: x + torch.rand(4, generator=m.own), True, id="from a generator of its own"),
        pytest.param(lambda m, x: x * random.random(), True, id="Python's"),
        pytest.param(numpy_seeded, True, id="NumPy's, with a seed"),
        pytest.param(lambda m, x: x * np.random.default_rng(0).random(), True, id="NumPy's, a new generator"),
        pytest.param(lambda m, x: x * np.random.RandomState(0).rand(), True, id="NumPy's, a new old generator"),
        pytest.param(lambda m, x: x * random.Random(0).random(), True, id="Python's, a new generator"),
        pytest.param(lambda m, x: x * m.numbers.random(), True, id="NumPy's, a kept generator"),
        pytest.param(lambda m, x: x * m.kept["numbers"].random(), True, id="NumPy's, a generator in a dict"),
        pytest.param(lambda m, x: x + (random.random() < 0.2), True, id="Python's, of use in one call of five"),
        pytest.param(lambda m, x: Answer(x + torch.rand(4)), True, id="in a dataclass"),
        pytest.param(lambda m, x: (x + torch.rand(4)).to_sparse(), True, id="in a sparse tensor"),
        pytest.param(draws_until_it_fits, True, id="until a number fits"),
        pytest.param(only_seeds, False, id="seeds and draws nothing"),
        pytest.param(drops_the_draw, False, id="uses none of what it draws"),
        pytest.param(lambda m, x: nn.functional.dropout(x, 0.0), False, id="dropout of nothing"),
        pytest.param(lambda m, x: nn.functional.scaled_dot_product_attention(x, x, x), False, id="attention"),
    ],
)
def test_a_model_draws_if_its_outputs_depend_on_it(function: Callable[..., Any], draws: bool) -> None:
    before = torch.get_rng_state(), random.getstate()
    numbers, more = np.random.default_rng(0), np.random.default_rng(0)
    model_effects, _ = observed(function, own=torch.Generator(), numbers=numbers, kept={"numbers": more})
    assert model_effects.draws == draws
    torch.set_rng_state(before[0])


def test_watching_leaves_the_global_generators_as_they_were() -> None:
    given_back = restorer.Restorer({"x": torch.ones(2)})
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    effects.observe(nn.Identity(), given_back, lambda: torch.rand(3) + random.random() + np.random.rand())
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before[1:]


def assigns(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.hidden = torch.tanh(model.hidden + x)
    return model.hidden


def grows(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.keys = torch.cat([model.keys, x])
    return model.keys.sum(0)


def averages(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.mean.data.mul_(0.9).add_(0.1 * x.mean())
    return x - model.mean


def through_numpy(model: Any, x: torch.Tensor) -> torch.Tensor:
    x.numpy()[:] *= 0.5
    return x + 0


def caches(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.cache["layers"][0].add_(x)
    return model.cache["layers"][0].clone()


def halves_weights(model: Any, x: torch.Tensor) -> torch.Tensor:
    return model.layer.weight.mul_(0.5).sum() + x


def replaces_weights(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.layer.bias = nn.Parameter(model.layer.bias * 0.5)
    return x + model.layer.bias


def writes_past_the_version(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.layer.weight.data.mul_(0.5)
    return model.layer(x)


def grows_in_a_tuple(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.pair = (torch.cat([model.pair[0], x]), x)
    return model.pair[0].sum(0)


def appends(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.queue.append(x)
    return torch.stack(list(model.queue)).sum(0) * len(model.queue)


def adds_by_a_key_that_is_a_tensor(model: Any, x: torch.Tensor) -> torch.Tensor:
    return x + model.momentum.setdefault(model.layer.bias, torch.zeros(())).add_(x.sum())


def adds_to_an_array(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.array += 1
    return x + torch.from_numpy(model.array)


@pytest.mark.parametrize(
    ("function", "changed"),
    [
        pytest.param(lambda m, x: x.mul_(0.5) + 0, "input x", id="halved in place"),
        pytest.param(lambda m, x: x.t_() + 0, "input x", id="transposed in place"),
        pytest.param(through_numpy, "input x", id="written by NumPy"),
        pytest.param(averages, "own mean", id="a moving average"),
        pytest.param(assigns, "own hidden", id="a hidden state"),
        pytest.param(grows, "own keys", id="a cache that grows"),
        pytest.param(caches, "own cache.layers.0", id="a cache in a dict"),
        pytest.param(halves_weights, "own layer.weight", id="weights"),
        pytest.param(replaces_weights, "own layer.bias", id="a weight, replaced"),
        pytest.param(writes_past_the_version, "own layer.weight", id="weights by their data"),
        pytest.param(grows_in_a_tuple, "own pair", id="a cache in a tuple"),
        pytest.param(appends, "own queue", id="a queue that grows"),
        pytest.param(adds_to_an_array, "own array", id="an array of NumPy"),
        pytest.param(adds_by_a_key_that_is_a_tensor, "own momentum.Parameter", id="a dict by weights"),
        pytest.param(lambda m, x: m.scripted(x), "", id="TorchScript in it"),
        pytest.param(lambda m, x: m.layer(x).add_(1), "", id="what it made itself"),
    ],
)
def test_every_call_gets_the_inputs_and_buffers_of_the_first(function: Callable[..., Any], changed: str) -> None:
    kept = {"mean": nn.Buffer(torch.zeros(4)), "hidden": torch.zeros(3, 4), "keys": torch.zeros(0, 4)}
    kept |= {"pair": (torch.zeros(0, 4), torch.zeros(3, 4)), "queue": deque(maxlen=9), "array": np.zeros(4, np.float32)}
    kept |= {"scripted": torch.jit.trace(nn.ReLU(), torch.ones(3, 4)), "momentum": {}}
    model_effects, workload = observed(function, **kept, cache={"layers": [torch.zeros(3, 4)]})
    assert (model_effects.changes, workload.restorer.needed) == (changed, bool(changed))
    inputs: list[torch.Tensor] = []
    workload.model.register_forward_pre_hook(
        lambda module, args, kwargs: inputs.append(kwargs["x"].clone()), with_kwargs=True
    )
    with torch.no_grad():
        outputs = [workload.outputs(workload.model)[0] for _ in range(2)]
        for _ in range(3):
            CPU_CLOCK.time(workload.eager)
    assert torch.equal(*outputs)
    assert all(torch.equal(copy, inputs[0]) for copy in inputs)


class Stateful(nn.Module):
    def forward(self, past: Any) -> torch.Tensor:
        if isinstance(past, dict):
            past["x"] = past["x"] + 1
            return past["x"]
        past.x = past.x + 1
        return past.x


@dataclass(slots=True)
class Past:
    x: torch.Tensor


@pytest.mark.parametrize(
    ("make", "changed"),
    [
        pytest.param(dict, "past['x']", id="in a dict"),
        pytest.param(SimpleNamespace, "past.x", id="in an object"),
        pytest.param(Past, "past.x", id="in an object with slots"),
    ],
)
def test_what_a_call_replaces_within_an_input_comes_back(make: Callable[..., Any], changed: str) -> None:
    workload = workload_of(Stateful(), past=make(x=torch.zeros(3)))
    with torch.no_grad():
        workload.restorer, workload.eager()
        model_effects = effects.observe(workload.model, workload.restorer, lambda: workload.once(workload.model))
        assert model_effects.inputs == (changed,)
        assert [workload.outputs(workload.model)[0].tolist() for _ in range(2)] == [[1.0] * 3] * 2


class Masked(nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return x.mul_(0.5) * mask


def test_an_input_that_no_call_changes_is_not_written_to() -> None:
    """The mask is an expanded tensor, to which torch refuses to write. No call changes it."""
    workload = workload_of(Masked(), x=torch.ones(3, 4), mask=torch.ones(1, 4).expand(3, 4))
    with torch.no_grad():
        workload.restorer, workload.eager()
        found = effects.observe(workload.model, workload.restorer, lambda: workload.once(workload.model))
        assert found.inputs == ("x",)
        assert [workload.outputs(workload.model)[0].max() for _ in range(2)] == [0.5, 0.5]


class ChangesMoreLater(nn.Module):
    """A model that changes its first input in each call, and its second input from the fifth call on."""

    calls = 0

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        ChangesMoreLater.calls += 1  # of the class: an instance's number would be restored
        return x.mul_(0.5) * (mask.mul_(0.5) if ChangesMoreLater.calls > 4 else mask * 0.5)


def test_an_input_that_later_calls_change_is_restored_as_well() -> None:
    workload = workload_of(ChangesMoreLater(), x=torch.ones(3, 4), mask=torch.ones(3, 4))
    with torch.no_grad():
        workload.restorer, workload.eager()
        found = effects.observe(workload.model, workload.restorer, lambda: workload.once(workload.model))
        assert found.inputs == ("x",)
        assert [workload.outputs(workload.model)[0].max() for _ in range(6)] == [0.25] * 6


def test_a_module_of_python_is_no_state_of_a_model() -> None:
    model = Made(averages, library=np)
    assert [slot.name for slot in restorer.slots_of(model) if slot.name.startswith("library")] == ["library"]


def counts(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.count += 1
    return x * model.count


def test_a_number_that_changes_is_named_and_left() -> None:
    model_effects, workload = observed(counts, count=0)
    assert model_effects.changes == "own count" and not workload.restorer.needed


def test_a_number_is_restored_together_with_an_input() -> None:
    model_effects, workload = observed(lambda m, x: counts(m, x.mul_(0.5)), count=0)
    assert model_effects.changes == "input x and its own count" and model_effects.undone
    with torch.no_grad():
        first, second = (workload.once(workload.model) for _ in range(2))
    assert torch.equal(first, second)


def halved_by_numpy(model: Any, x: torch.Tensor) -> torch.Tensor:
    x.numpy()[:] *= 0.5
    return x.clone()


def kept_answer(model: Any, x: torch.Tensor) -> torch.Tensor:
    if not model.answers:
        model.answers[0] = model.layer(x)
    return model.answers[0].clone()


def one_call_late(model: Any, x: torch.Tensor) -> torch.Tensor:
    before = model.sums.clone()
    model.sums.copy_(model.layer(x))
    return before


def one_call_late_replaced(model: Any, x: torch.Tensor) -> torch.Tensor:
    before, model.sums = model.sums, model.layer(x)
    return before


@pytest.mark.parametrize(
    ("function", "copies"),
    [
        pytest.param(kept_answer, True, id="a copy of a kept answer"),
        pytest.param(lambda m, x: m.layer.weight.T.contiguous(), True, id="a copy of a weight"),
        pytest.param(lambda m, x: x.T.contiguous(), False, id="the input in another order"),
        pytest.param(lambda m, x: torch.from_numpy(np.tanh(x.numpy())).double(), False, id="computed by NumPy"),
        pytest.param(lambda m, x: (m.layer.weight.clone(), x + 1), False, id="a copy beside an answer"),
        pytest.param(one_call_late, False, id="the answer to the call before"),
        pytest.param(one_call_late_replaced, False, id="the answer to the call before, in a new tensor"),
        pytest.param(lambda m, x: torch._foreach_mul_([x], [x.flip(0)]) or x, False, id="computed in place"),
        pytest.param(halved_by_numpy, False, id="the input, computed by NumPy"),
        pytest.param(lambda m, x: torch._foreach_add_([m.sums], [x]) or m.sums.clone(), False, id="a sum that is kept"),
    ],
)
def test_outputs_that_only_copy_kept_tensors_are_recognised(function: Callable[..., Any], copies: bool) -> None:
    assert observed(function, answers={}, sums=torch.zeros(3, 4))[0].copies == copies


def from_a_number(model: Any, x: torch.Tensor) -> torch.Tensor:
    return torch.ones(3) if x[0, 0] > 100 else torch.zeros(3)  # an `if` on a number, whichever branch is taken


def where_it_was(model: Any, x: torch.Tensor) -> torch.Tensor:
    del_me = torch.ones(3, 4)
    x = x + 1
    del del_me
    return torch.zeros(3, 4) + x.sum()


def raw_write(model: Any, x: torch.Tensor) -> torch.Tensor:
    """As an extension in C++ does: no operator and no method of the tensor is seen."""
    out = torch.zeros(3, 4)
    ctypes.memmove(out.untyped_storage().data_ptr(), x.untyped_storage().data_ptr(), x.untyped_storage().nbytes())
    return out


def into_a_view(model: Any, x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(2, 3, 4)
    out[1].copy_(x)
    return out


def by_the_shape(model: Any, x: torch.Tensor) -> torch.Tensor:
    return torch.outer(torch.arange(x.shape[0]), torch.linspace(0, 1, x.shape[1])).sin()


def computes_in_vain(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.layer(x)
    return torch.zeros(3)


STORED: list[torch.Tensor] = []


@torch.library.custom_op("worth_compiling_test::store", mutates_args=())
def store(x: torch.Tensor) -> None:
    """Keeps a tensor where no operator of torch sees it."""
    STORED[:] = [x.clone()]


def by_an_operator_without_results(model: Any, x: torch.Tensor) -> torch.Tensor:
    store(x)
    return torch.zeros(3)


CONSTANT, UNREAD, READ = (True, True), (True, False), (False, False)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        pytest.param(lambda m, x: torch.zeros(3), CONSTANT, id="zeros"),
        pytest.param(lambda m, x: {"y": torch.full_like(x, 2.0)}, CONSTANT, id="a constant as large as the input"),
        pytest.param(lambda m, x: torch.tensor([1.0, 2.0]), CONSTANT, id="numbers of Python"),
        pytest.param(lambda m, x: x.new_empty(3).fill_(1).view(3, 1), CONSTANT, id="filled"),
        pytest.param(computes_in_vain, UNREAD, id="computes and drops it"),
        pytest.param(by_the_shape, UNREAD, id="from the shape"),
        pytest.param(lambda m, x: m.layer.weight * 2, UNREAD, id="from a weight"),
        pytest.param(lambda m, x: torch.sigmoid(m.layer(x) + 1e9), READ, id="saturates"),
        pytest.param(lambda m, x: x * 0, READ, id="times zero"),
        pytest.param(lambda m, x: m.layer(x).argmax(-1), READ, id="indices"),
        pytest.param(lambda m, x: (torch.zeros(3), m.layer(x)), READ, id="a constant beside an answer"),
        pytest.param(lambda m, x: x, READ, id="the input itself"),
        pytest.param(lambda m, x: torch.zeros(3, 4).copy_(x), READ, id="copied into zeros"),
        pytest.param(into_a_view, READ, id="copied into a view"),
        pytest.param(lambda m, x: torch._foreach_add_([out := torch.zeros(3, 4)], [x]) or out, READ, id="in a list"),
        pytest.param(lambda m, x: torch.add(x, 1, out=torch.zeros(3, 4)), READ, id="by out="),
        pytest.param(lambda m, x: m.layer.weight[(x[:, 0] > 1e9).long()], READ, id="by an index"),
        pytest.param(lambda m, x: torch.full((3,), x.sum().item() * 0), READ, id="by a number of Python"),
        pytest.param(lambda m, x: torch.tensor(x.tolist()) * 0, READ, id="by a list"),
        pytest.param(lambda m, x: torch.from_numpy(np.asarray(x) > 1e9), READ, id="by NumPy"),
        pytest.param(from_a_number, READ, id="by a branch"),
        pytest.param(raw_write, READ, id="by an extension"),
        pytest.param(by_an_operator_without_results, READ, id="by an operator without results"),
        pytest.param(where_it_was, READ, id="at an address that was another's"),
        pytest.param(lambda m, x: (x * 0).to_sparse(), READ, id="sparse"),
        pytest.param(lambda m, x: torch.func.vmap(lambda row: row * 0)(x), READ, id="vmap"),
        pytest.param(lambda m, x: torch.func.jvp(m.layer, (x,), (x,)), READ, id="jvp"),
        pytest.param(lambda m, x: torch.jit.script(scripted)(x), READ, id="TorchScript"),
        pytest.param(lambda m, x: torch.rand(3), READ, id="draws"),
        pytest.param(lambda m, x: one_call_late(m, x) * 2, READ, id="from the call before"),
        pytest.param(lambda m, x: m.sums.add_(1).clone(), READ, id="changes a tensor that it keeps"),
        pytest.param(lambda m, x: "text", READ, id="no tensor"),
    ],
)
def test_outputs_that_depend_on_no_input_are_recognised(
    function: Callable[..., Any], expected: tuple[bool, bool]
) -> None:
    found, _ = observed(function, sums=torch.zeros(3, 4))
    assert (found.unread, found.constant) == expected


def scripted(x: torch.Tensor) -> torch.Tensor:
    return torch.clamp(x, 5.0, 5.0)


@pytest.mark.parametrize(
    "given", [{"x": 3.0}, {"x": SimpleNamespace(x=torch.ones(3))}, {}], ids=["a number", "an object", "nothing"]
)
def test_inputs_that_are_not_only_tensors_may_be_read_unseen(given: dict[str, Any]) -> None:
    assert not effects.observe(nn.Identity(), restorer.Restorer(given), lambda: torch.zeros(3)).unread


def with_flex_attention(model: Any, x: torch.Tensor) -> torch.Tensor:
    """Compiles a part of itself, in eager, too, and calls an operator that takes functions."""
    return flex_attention(*[model.layer(x)[None, None]] * 3)


def test_a_model_that_compiles_a_part_can_be_watched_and_called_again() -> None:
    torch._dynamo.reset()
    found, workload = observed(with_flex_attention)
    assert (found.draws, found.copies, found.unread) == (False, False, False)
    with torch.no_grad():
        assert caveats.subnormal_shares(workload) == ""
        assert workload.eager().shape == (1, 1, 3, 4)


def rarely_random(model: Any, x: torch.Tensor) -> torch.Tensor:
    return x + (torch.rand(()) < 1e-9)


def seeds_after_its_draw(model: Any, x: torch.Tensor) -> torch.Tensor:
    drawn = random.random()
    random.seed(0)
    return x + (drawn < -1)


def test_draws_that_changed_nothing_yet_are_counted() -> None:
    for function in (rarely_random, seeds_after_its_draw):
        assert observed(function)[0].seeds == len(effects.OTHER_SEEDS)
    assert [observed(function)[0].seeds for function in (only_seeds, nn_identity)] == [0, 0]


def nn_identity(model: Any, x: torch.Tensor) -> torch.Tensor:
    return x + 1


class Wrapped(torch.Tensor):
    """A tensor without numbers of its own: each operator gets those that `make` returns."""

    @staticmethod
    def __new__(cls: Any, make: Callable[[], torch.Tensor]) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, (2, 2))  # type: ignore[attr-defined]

    def __init__(self, make: Callable[[], torch.Tensor]) -> None:
        self.make = make

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*(value.make() if isinstance(value, Wrapped) else value for value in args), **(kwargs or {}))


class Late(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*(ONES @ ONES for _ in args), **(kwargs or {}))


ONES = torch.ones(2, 2)


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_nested_tensors_are_compared_by_their_parts(layout: torch.layout) -> None:
    parts = [torch.ones(2, 4), torch.zeros(1, 4)]
    nested = torch.nested.nested_tensor(parts, layout=layout)
    assert restorer.same(effects.tensors({"y": nested}), parts)


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_a_model_with_a_nested_input_can_be_watched(layout: torch.layout) -> None:
    workload = workload_of(nn.Linear(4, 4), input=torch.nested.nested_tensor([torch.ones(2, 4)], layout=layout))
    call = partial(workload.once, workload.model)
    with torch.no_grad():
        assert not effects.observe(workload.model, workload.restorer, call).changes


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        pytest.param(Wrapped(lambda: ONES @ ONES), "Wrapped", id="computes"),
        pytest.param(ONES.clone().as_subclass(Late), "Late", id="computes by a function"),
        pytest.param(Wrapped(lambda: ONES), "", id="only wraps"),
        pytest.param(ONES, "", id="a plain tensor"),
        pytest.param(torch.nested.nested_tensor([ONES, ONES[0:1]]), "", id="a nested tensor"),
    ],
)
def test_a_tensor_that_computes_when_read_is_recognised(output: torch.Tensor, kind: str) -> None:
    assert effects.compute_when_read({"y": output}) == kind


@pytest.mark.parametrize(
    ("outputs", "kind"),
    [
        pytest.param((ONES @ ONES for _ in range(2)), "generator", id="a generator"),
        pytest.param({"y": lambda: ONES @ ONES}, "function", id="a function"),
        pytest.param(torch.futures.Future(), "Future", id="a future"),
        pytest.param({"y": ONES, "decode": lambda: ONES}, "", id="a function beside a tensor"),
        pytest.param(3.5, "", id="a number"),
    ],
)
def test_lazy_outputs_without_a_tensor_are_recognised(outputs: Any, kind: str) -> None:
    assert effects.compute_when_read(outputs) == kind


def test_tensors_without_a_storage_are_left_out() -> None:
    within: list[torch.Tensor] = []
    batch = torch.ones(2, 2)
    torch.func.vmap(lambda row: within.append(row) or row)(batch)
    assert batch.untyped_storage().data_ptr() in effects.live_storages()


def test_the_growth_of_memory_by_call_is_measured() -> None:
    past: list[torch.Tensor] = []
    assert effects.growth_per_call(lambda: past.append(torch.ones(1000))) == 4000
    assert effects.growth_per_call(lambda: past.__setitem__(0, torch.ones(1000))) == 0
