"""Finds the side effects of an eager call. `restorer` undoes them before the next call.

- Whether it draws random numbers that change its outputs, even if it seeds the generator itself.
- Which inputs it changes, and which tensors and numbers of its modules.
- Whether it computes anything: its outputs may be copies of stored tensors, or tensors that compute only when read.

Not covered: state outside of modules and inputs, and the operating system's random numbers.
"""

import gc
import pickle
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from itertools import count, pairwise
from types import FunctionType
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from .restorer import PLAIN, Restorer, Slot, same, slots_of, weight_places

COPIES = {"clone", "detach", "alias", "copy_", "_to_copy", "lift_fresh", "contiguous", "empty_like", "empty", "zeros"}
"""Names of ATen operators, besides views, that compute no new numbers."""
COMPUTED_LATER = (Iterator, Awaitable, FunctionType, partial, Future, torch.futures.Future)
SEED, OTHER_SEEDS = 20_261_128, range(77, 3_077, 100)
SEEDS_SECONDS = 0.5
"""Longest time, in seconds, in which calls with further seeds begin. Several seeds are needed, because a model may use
the numbers that it draws in only one of thirty calls."""
Operator = torch._ops.OpOverload[..., object]
"""What a dispatch mode of torch sees called."""


@dataclass(frozen=True)
class Effects:
    draws: bool = False
    """Whether the outputs depend on random numbers that the call draws."""
    inputs: tuple[str, ...] = ()
    """Names of the arguments that the call changes."""
    state: tuple[str, ...] = ()
    """Names of the tensors and numbers of its modules that the call changes: ('norm.running_mean', 'count')."""
    undone: bool = False
    """Whether changes are undone before each further call. False if there are none, or only changes of Python
    numbers."""
    copies: bool = False
    """Whether all outputs are copies of weights, or of tensors that the model kept from an earlier call."""
    drew: bool = False
    """Whether the call draws random numbers, whatever it does with them."""

    @property
    def changes(self) -> str:
        """Returns what the call changes: 'input x', 'input x and its own norm.running_mean'; '' for nothing."""
        parts = [f"input {', '.join(self.inputs)}"] if self.inputs else []
        if self.state:
            more = f" and {len(self.state) - 3} more" if len(self.state) > 3 else ""
            parts.append(f"own {', '.join(self.state[:3])}{more}")
        return " and its ".join(parts)


def observe(model: torch.nn.Module, restorer: Restorer, call: Callable[[], object]) -> Effects:
    """Finds the side effects of an eager call, by calling the model once, or more often if it draws random numbers.

    - `call`: makes one eager call with `restorer.batch`. It must have been called before: a first call fills caches.
    - Undoes what its own calls changed in inputs and modules.
    - Sets `restorer.needed` to True if `restorer.restore` has to run before each further call.
    """
    inputs = restorer.changed_inputs()
    restorer.needed = bool(inputs)
    restorer.restore()
    slots, marks = list(slots_of(model)), {name: _mark(weight) for name, weight in model.named_parameters()}
    generators = _generators(model, [*(slot.value for slot in slots), *pytree.tree_leaves(restorer.batch)])
    outputs, first = _trace_call(generators, call, SEED, inputs=restorer.batch)
    changed = [slot for slot in slots if slot.changed]
    weights = [name for name, weight in model.named_parameters() if _mark(weight) != marks.get(name)]
    state = tuple(dict.fromkeys((*(slot.name for slot in changed), *weights)))
    if weights or any(slot.copy is not None for slot in changed):
        # Numbers alone are left: a model that counts its calls is compiled again for them, and its run says so.
        changed += [Slot.of(*place) for place in weight_places(model, weights)]
        restorer.keep_state(changed)
        restorer.needed = True
        restorer.restore()
    draws, since = False, time.monotonic()
    for seed in OTHER_SEEDS if first.drew else ():
        again, _ = _trace_call(generators, call, seed, inputs=restorer.batch)
        restorer.restore()
        draws = not same(tensors(outputs), tensors(again))
        if draws or time.monotonic() - since > SEEDS_SECONDS:
            break
    if not restorer.needed:
        restorer.forget()
    return Effects(draws, inputs, state, restorer.needed, first.copied(outputs), first.drew)


def compute_when_read(outputs: object) -> str:
    """Returns the class name of an output that computes its numbers only when they are read; '' if there is none."""
    leaves = pytree.tree_leaves(outputs)
    if not tensors(outputs) and (later := [leaf for leaf in leaves if isinstance(leaf, COMPUTED_LATER)]):
        return type(later[0]).__name__
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and type(leaf) not in PLAIN:
            trace = _Trace(SEED, ())
            with suppress(Exception), torch.no_grad(), trace:
                leaf.clone()
            if trace.computed:
                return type(leaf).__name__
    return ""


def _trace_call(
    generators: Iterable[object], call: Callable[[], object], seed: int, inputs: object
) -> tuple[list[torch.Tensor], "_Trace"]:
    """Makes one call within a `_Trace`. Returns clones of the output tensors, and the `_Trace`.

    - `seed`: for all random generators, also for those that the model seeds or makes itself.
    - `generators`: those of Python and NumPy that the model may use. If one changes, `drew` of the `_Trace` is True.
    - `inputs`: the arguments of the call.
    """
    trace = _Trace(seed, _strided_tensors(inputs))
    seed_random, seed_numpy, default_rng = random.seed, np.random.seed, np.random.default_rng
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()

    def seeded_rng(*_: object, **__: object) -> np.random.Generator:
        trace.drew = True
        return default_rng(next(trace.seeds))

    def with_own_seed(kind: Any) -> Any:
        class Seeded(kind):  # type: ignore[misc]
            def __init__(self, *_: object, **__: object) -> None:
                trace.drew = True
                super().__init__(next(trace.seeds))

        return Seeded

    with ExitStack() as undo:
        undo.enter_context(torch.random.fork_rng(devices))
        undo.callback(random.setstate, random.getstate())
        undo.callback(np.random.set_state, np.random.get_state())
        seed_random(seed)
        seed_numpy(seed)
        undo.enter_context(mock.patch.object(random, "seed", lambda *_, **__: seed_random(next(trace.seeds))))
        undo.enter_context(mock.patch.object(np.random, "seed", lambda *_, **__: seed_numpy(next(trace.seeds))))
        undo.enter_context(mock.patch.object(np.random, "default_rng", seeded_rng))
        torch.manual_seed(seed)
        before = [pickle.dumps(generator) for generator in generators]
        with (
            mock.patch.object(random, "Random", with_own_seed(random.Random)),  # here alone: it would not be pickled
            mock.patch.object(np.random, "RandomState", with_own_seed(np.random.RandomState)),
            trace,
        ):
            outputs = [tensor.clone() for tensor in tensors(call())]
        trace.drew |= before != [pickle.dumps(generator) for generator in generators]
    return outputs, trace


class _Trace(TorchDispatchMode):
    """Watches the operators of a call: `drew` tells if one drew random numbers, `copied` if outputs are only copies."""

    def __init__(self, seed: int, inputs: Iterable[torch.Tensor]) -> None:
        """`seed`: the generator is set to it before the first operator that draws, to `seed` + 1 before the next, ...

        With the same seed each time, a model that draws until a number fits would draw the same number for ever.
        `inputs`: tensors of the batch. An output that is a copy of one of these does not count as copied.
        """
        super().__init__()  # type: ignore[no-untyped-call]  # torch gives it no types
        self.seeds = count(seed)
        self.drew = self.computed = False
        self._origins: dict[int, int] = {tensor.untyped_storage().data_ptr(): 0 for tensor in inputs}
        """Maps a storage's address to that of the storage it was copied from; to 0 for inputs and for new numbers."""
        self._inputs = set(self._origins)

    def __torch_dispatch__(
        self,
        func: Operator,
        types: Iterable[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        if any(kind not in PLAIN for kind in types):
            return NotImplemented  # a subclass is asked first, and calls its own operators
        kwargs = kwargs or {}
        draws = torch.Tag.nondeterministic_seeded in func.tags
        generators = _torch_generators(kwargs.get("generator")) if draws else []
        for generator in generators:
            generator.manual_seed(next(self.seeds))
        before = [generator.get_state() for generator in generators]
        out = func(*args, **kwargs)
        self.drew |= any(
            not torch.equal(generator.get_state(), was) for generator, was in zip(generators, before, strict=True)
        )
        self._note(func, args, out)
        return out

    def _note(self, func: Operator, args: tuple[object, ...], out: object) -> None:
        name = func.overloadpacket.__name__
        copies = name in COPIES or func.is_view
        self.computed |= not copies
        source = args[1] if name == "copy_" else args[0] if args else None
        origin = 0
        if copies and isinstance(source, torch.Tensor) and source.layout == torch.strided:
            place = source.untyped_storage().data_ptr()
            origin = self._origins.get(place, place)
        # An operator may write to an argument and return nothing, as torch._foreach_add_ does.
        named = zip(func._schema.arguments, args, strict=False)
        written = [given for argument, given in named if argument.alias_info and argument.alias_info.is_write]
        for tensor in _strided_tensors((out, written)):
            place = tensor.untyped_storage().data_ptr()
            if not (copies and place in self._inputs):  # `restore` copies into inputs as well
                self._origins[place] = origin

    def copied(self, outputs: object) -> bool:
        """Returns whether all `outputs` (clones of the call's outputs) are copies of tensors older than the call.

        False if there are no outputs. A copy of an input does not count.
        """
        origins = {self._origins.get(tensor.untyped_storage().data_ptr(), 0) for tensor in _strided_tensors(outputs)}
        return bool(origins) and 0 not in origins and origins <= live_storages().keys()


def growth_per_call(call: Callable[[], object]) -> int:
    """Returns by how many bytes each further call raises the memory of all living tensors; 0 if it does not grow."""
    sizes = []
    gc.freeze()  # objects from before are not looked through again
    try:
        for _ in range(4):  # the first replaces what was there before
            call()
            gc.collect()
            sizes.append(sum(live_storages().values()))
    finally:
        gc.unfreeze()
    return max(0, min(after - before for before, after in pairwise(sizes[1:])))


def live_storages() -> dict[int, int]:
    """Returns {address: number of bytes} for each storage that a tensor in this process uses."""
    alive = (tensor for tensor in gc.get_objects() if issubclass(type(tensor), torch.Tensor))
    storages = [
        tensor.untyped_storage() for tensor in alive if tensor.layout == torch.strided and type(tensor) in PLAIN
    ]
    return {storage.data_ptr(): storage.nbytes() for storage in storages}


def _generators(model: torch.nn.Module, kept: Iterable[object]) -> list[object]:
    """Returns the random number generators of Python and NumPy that the model may use.

    - Python's and NumPy's global generators
    - generators among the values in `kept`: the attributes of the model's modules, and its inputs
    - global variables of the Python files that define the modules
    """
    candidates: list[object] = [random._inst, np.random.mtrand._rand, *kept]
    for module in model.modules():
        forward = getattr(type(module), "forward", None)  # a class of TorchScript has none
        candidates += getattr(forward, "__globals__", {}).values()
    kinds = (random.Random, np.random.Generator, np.random.RandomState)
    return list({id(generator): generator for generator in candidates if isinstance(generator, kinds)}.values())


def _torch_generators(own: object) -> list[torch.Generator]:
    if isinstance(own, torch.Generator):
        return [own]
    on_gpu = torch.cuda.is_initialized()
    return [torch.default_generator, *(torch.cuda.default_generators if on_gpu else ())]


def tensors(nested: object) -> list[torch.Tensor]:
    """Returns every tensor in nested containers and dataclasses, in a fixed order. Sparse ones become dense copies."""
    leaves: list[torch.Tensor] = []
    for leaf in pytree.tree_leaves(nested):
        if isinstance(leaf, torch.Tensor):
            leaves.append(leaf if leaf.layout == torch.strided else leaf.to_dense())
        elif is_dataclass(leaf):
            leaves += tensors([getattr(leaf, part.name) for part in fields(leaf)])
    return leaves


def _strided_tensors(nested: object) -> list[torch.Tensor]:
    leaves = pytree.tree_leaves(nested)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided]


def _mark(weight: torch.Tensor) -> tuple[object, ...]:
    """Returns values that change if the weight is replaced or written to, even through `.data`."""
    total = ""
    with suppress(RuntimeError), torch.no_grad():  # no sums of this format
        total = str(weight.sum().item())
    return weight.is_inference() or weight._version, weight.data_ptr(), total
