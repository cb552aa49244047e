"""Finds the side effects of an eager call. The module `restorer` undoes them before the next call.

- Random numbers: whether the call draws any that change the outputs, even if the model seeds the generator.
- Changes: which inputs the call changes, and which tensors and numbers of the model's modules.
- Computing: whether the call computes anything. Outputs may be copies of stored tensors, or computed only when read.
- Inputs: whether the outputs depend on the numbers of the inputs.

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
FILLS = {
    *("ones", "full", "zeros_like", "ones_like", "full_like"),
    *("new_empty", "new_zeros", "new_ones", "new_full", "fill_", "zero_"),
}
"""Names of ATen operators that fill a whole tensor with one constant, or leave it empty. If their first argument is a
tensor, they do not read its numbers."""
UNSEEN_READS = ("numpy", "tolist", "data_ptr", "__array__", "__dlpack__")
"""Methods of a tensor that give its numbers, or their address, to code that calls no operator of torch."""
COMPUTED_LATER = (Iterator, Awaitable, FunctionType, partial, Future, torch.futures.Future)
SEED, OTHER_SEEDS = 20_261_128, range(77, 3_077, 100)
SEEDS_SECONDS = 0.5
"""No call with a further seed begins after this many seconds. Several seeds are needed: a model may draw in each call,
but use the numbers in only one of thirty calls."""
Operator = torch._ops.OpOverload[..., object]
"""An operator, as torch passes it to a `TorchDispatchMode`."""


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
    seeds: int = 0
    """With how many further seeds the outputs stayed the same. 0 if the call draws nothing."""
    unread: bool = False
    """Whether no output depends on the numbers of the inputs. False if that is not known."""
    constant: bool = False
    """Whether the outputs are constants, such as `torch.zeros(3)`: `unread`, and the call computes nothing."""

    @property
    def changes(self) -> str:
        """Returns what the call changes: 'input x', 'input x and its own norm.running_mean'; '' for nothing."""
        parts = [f"input {', '.join(self.inputs)}"] if self.inputs else []
        if self.state:
            more = f" and {len(self.state) - 3} more" if len(self.state) > 3 else ""
            parts.append(f"own {', '.join(self.state[:3])}{more}")
        return " and its ".join(parts)


def observe(model: torch.nn.Module, restorer: Restorer, call: Callable[[], object]) -> Effects:
    """Finds the side effects of an eager call. Calls the model once, or more often if it draws random numbers, or seems
    not to read its inputs.

    - `call`: makes one eager call with `restorer.batch`. It must have been called before: a first call fills caches.
    - Undoes what its own calls changed in inputs and modules, unless that is only Python numbers.
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
    if weights or restorer.needed or any(slot.copy is not None for slot in changed):
        # Numbers alone are left: a model that counts its calls is compiled again for them, and its run says so.
        changed += [Slot.of(*place) for place in weight_places(model, weights)]
        restorer.keep_state(changed)
        restorer.needed = True
        restorer.restore()
    copies, unread = first.copied(outputs), first.unread(outputs)  # now: later calls use the memory again
    draws, seeds, since = False, 0, time.monotonic()
    for seed in OTHER_SEEDS if first.drew else ():
        again, _ = _trace_call(generators, call, seed, inputs=restorer.batch)
        restorer.restore()
        draws = not same(tensors(outputs), tensors(again))
        seeds += not draws
        if draws or time.monotonic() - since > SEEDS_SECONDS:
            break
    unread = unread and not (first.drew or inputs or state) and _ignores_numbers(model, restorer.batch, outputs)
    if not restorer.needed:
        restorer.forget()
    return Effects(
        draws,
        inputs,
        state,
        restorer.needed,
        copies,
        first.drew,
        seeds=seeds,
        unread=unread,
        constant=unread and not first.computed,
    )


def _ignores_numbers(model: torch.nn.Module, batch: dict[str, object], outputs: list[torch.Tensor]) -> bool:
    """Returns whether a call gives the same `outputs` for other numbers in the inputs; False if that call fails.

    The other call is needed because a `_Trace` sees torch's operators only: an extension in C++ may read the inputs.
    """

    def other(tensor: torch.Tensor) -> torch.Tensor:
        moved = tensor.flatten().flip(0).reshape(tensor.shape)  # indices and masks stay valid
        return moved + 1 if tensor.is_floating_point() else moved

    with suppress(Exception):  # these numbers may be refused
        return same(tensors(model(**pytree.tree_map_only(torch.Tensor, other, batch))), outputs)
    return False


def compute_when_read(outputs: object) -> str:
    """Returns the class name of an output that computes its numbers only when they are read; '' if there is none."""
    leaves = pytree.tree_leaves(outputs)
    if not tensors(outputs) and (later := [leaf for leaf in leaves if isinstance(leaf, COMPUTED_LATER)]):
        return type(later[0]).__name__
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and type(leaf) not in PLAIN:
            trace = _Trace(SEED, {})
            with suppress(Exception), torch.no_grad(), trace:
                leaf.clone()
            if trace.computed:
                return type(leaf).__name__
    return ""


def parts_in_eager() -> Any:
    """Returns a context in which functions that the model itself compiles run in eager.

    Use it with a dispatch mode such as `_Trace`. In such a mode torch.compile may fail, as in flex_attention, and
    dynamo may leave the model's functions to eager in all later calls, too.
    """
    return torch.compiler.set_stance("force_eager")


def _trace_call(
    generators: Iterable[object], call: Callable[[], object], seed: int, inputs: object
) -> tuple[list[torch.Tensor], "_Trace"]:
    """Makes one call within a `_Trace`. Returns clones of the output tensors, and the `_Trace`.

    - `seed`: seeds the global random generators. A generator that the model seeds or makes gets the next of the seeds
      `seed`, `seed` + 1, ... instead of its own.
    - `generators`: the random generators of Python and NumPy that the model may use. If the call changes one,
      `_Trace.drew` is True.
    - `inputs`: the arguments of the call.
    """
    trace = _Trace(seed, inputs)
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

    def with_note(read: Callable[..., object]) -> Callable[..., object]:
        def reading(*args: object, **kwargs: object) -> object:
            trace.escaped = True
            return read(*args, **kwargs)

        return reading

    def states() -> list[bytes]:
        return [_state(generator) for generator in generators]

    def with_next_seed(seed_generator: Callable[[int], object]) -> Callable[..., None]:
        def begin_next(*_: object, **__: object) -> None:
            trace.drew |= before != states()
            seed_generator(next(trace.seeds))
            before[:] = states()

        return begin_next

    with ExitStack() as undo:
        undo.enter_context(torch.random.fork_rng(devices))
        undo.enter_context(parts_in_eager())
        undo.callback(random.setstate, random.getstate())
        undo.callback(np.random.set_state, np.random.get_state())
        seed_random(seed)
        seed_numpy(seed)
        undo.enter_context(mock.patch.object(random, "seed", with_next_seed(seed_random)))
        undo.enter_context(mock.patch.object(np.random, "seed", with_next_seed(seed_numpy)))
        undo.enter_context(mock.patch.object(np.random, "default_rng", seeded_rng))
        torch.manual_seed(seed)
        before = states()
        for name in UNSEEN_READS:
            undo.enter_context(mock.patch.object(torch.Tensor, name, with_note(getattr(torch.Tensor, name))))
        with (
            mock.patch.object(random, "Random", with_own_seed(random.Random)),
            mock.patch.object(np.random, "RandomState", with_own_seed(np.random.RandomState)),
            trace,
        ):
            outputs = [tensor.clone() for tensor in tensors(call())]
        trace.drew |= before != states()
    return outputs, trace


class _Trace(TorchDispatchMode):
    """Watches the operators of a call.

    - `drew`: whether an operator drew random numbers. `computed`: whether an operator computed new numbers.
    - `copied`: whether all outputs are copies of tensors that were there before the call, such as a stored answer.
    - `unread`: whether no output depends on the numbers of the inputs.
    """

    supports_higher_order_operators = True

    def __init__(self, seed: int, inputs: object) -> None:
        """Before each operator that draws, the operator's generator gets the next of the seeds `seed`, `seed` + 1, ...

        With the same seed each time, a model that draws until a number fits would draw the same number for ever.
        `inputs`: the arguments of the call.
        """
        super().__init__()  # type: ignore[no-untyped-call]  # torch gives it no types
        self.seeds = count(seed)
        self.drew = self.computed = False
        given = _strided_tensors(inputs)
        self._origins: dict[int, int] = {_address(tensor): 0 for tensor in given}
        """Maps a storage's address to that of the storage it was copied from; to 0 for inputs and for new numbers."""
        self._inputs = set(self._origins)
        self._reached = set(self._inputs)
        """Addresses of storages whose numbers depend on those of the inputs."""
        leaves = pytree.tree_leaves(inputs)
        self.escaped = not given or not all(
            isinstance(leaf, bool | str | None) or type(leaf) in PLAIN for leaf in leaves
        )
        """Whether numbers of the inputs may have reached an output unseen, as by an `if` on one of them."""

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
        ordinary = isinstance(func, torch._ops.OpOverload)  # not one such as flex_attention, which calls functions
        draws = not ordinary or torch.Tag.nondeterministic_seeded in func.tags
        generators = _torch_generators(kwargs.get("generator")) if draws else []
        for generator in generators:
            generator.manual_seed(next(self.seeds))
        before = [generator.get_state() for generator in generators]
        out = func(*args, **kwargs)
        self.drew |= any(
            not torch.equal(generator.get_state(), was) for generator, was in zip(generators, before, strict=True)
        )
        if ordinary:
            self._note(func, args, out)
            self._follow(func, args, kwargs, out)
        else:
            self.computed = self.escaped = True
        return out

    def _note(self, func: Operator, args: tuple[object, ...], out: object) -> None:
        name = func.overloadpacket.__name__
        copies = name in COPIES or func.is_view
        self.computed |= not copies and name not in FILLS
        source = args[1] if name == "copy_" else args[0] if args else None
        origin = 0
        if copies and isinstance(source, torch.Tensor) and has_memory(source):
            place = _address(source)
            origin = self._origins.get(place, place)
        for tensor in _strided_tensors((out, _write_targets(func, args))):
            place = _address(tensor)
            if not (copies and place in self._inputs):  # `restore` copies into inputs as well
                self._origins[place] = origin

    def _follow(self, func: Operator, args: tuple[object, ...], kwargs: dict[str, object], out: object) -> None:
        """Notes which storages now hold numbers that depend on the numbers of the inputs."""
        name = func.overloadpacket.__name__
        read = args[1:] if name in FILLS or name == "empty_like" else args
        held = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        results = [leaf for leaf in pytree.tree_leaves((out, _write_targets(func, args))) if leaf is not None]
        if len(_strided_tensors((held, results))) < len(held) + len(results):
            self.escaped = True
            return
        if any(_address(tensor) in self._reached for tensor in _strided_tensors((read, kwargs))):
            self.escaped |= not results
            self._reached |= {_address(tensor) for tensor in results}
        else:  # a new tensor may lie where one was that is gone
            self._reached -= {_address(tensor) for tensor in results} - {_address(tensor) for tensor in held}

    def unread(self, outputs: object) -> bool:
        """Returns whether none of `outputs` (clones of the call's outputs) depends on the numbers of the inputs.

        False also if there are no outputs, if it is not known, or if the model keeps a tensor whose numbers depend on
        those of the inputs.
        """
        places = {_address(tensor) for tensor in _strided_tensors(outputs)}
        if self.escaped or not places or places & self._reached:
            return False
        return not (self._reached - self._inputs) & live_storages().keys()

    def copied(self, outputs: object) -> bool:
        """Returns whether all `outputs` (clones of the call's outputs) are copies of tensors older than the call.

        False also if there are no outputs, if an output is a copy of an input, or if the model keeps a tensor that the
        call computed.
        """
        origins = {self._origins.get(_address(tensor), 0) for tensor in _strided_tensors(outputs)}
        if not origins or 0 in origins:
            return False
        new = {place for place, origin in self._origins.items() if origin == 0} - self._inputs
        alive = live_storages().keys()
        return origins <= alive and not new & alive


def growth_per_call(call: Callable[[], object]) -> int:
    """Makes four calls. Returns how many bytes each adds to the living tensors that the calls made; 0 if none."""
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
    """Returns {address: number of bytes} for each storage of a `PLAIN` tensor that Python's garbage collector knows."""
    alive = (tensor for tensor in gc.get_objects() if issubclass(type(tensor), torch.Tensor))
    sizes: dict[int, int] = {}
    for tensor in alive:
        if tensor.layout == torch.strided and type(tensor) in PLAIN:
            with suppress(RuntimeError):  # one that vmap left has no storage
                sizes[_address(tensor)] = tensor.untyped_storage().nbytes()
    return sizes


def _generators(model: torch.nn.Module, kept: Iterable[object]) -> list[object]:
    """Returns the random number generators of Python and NumPy that the model may use.

    - Python's and NumPy's global generators
    - those among the values in `kept`: the attributes of the model's modules, and its inputs
    - those among the global variables of the files that define the modules' `forward`, or a decorator around it
    """
    candidates: list[object] = [random._inst, np.random.mtrand._rand, *kept]
    for module in model.modules():
        forward = getattr(type(module), "forward", None)  # a class of TorchScript has none
        candidates += getattr(forward, "__globals__", {}).values()
    kinds = (random.Random, np.random.Generator, np.random.RandomState)
    return list({id(generator): generator for generator in candidates if isinstance(generator, kinds)}.values())


def _state(generator: Any) -> bytes:
    """Returns the state of a generator of Python or NumPy; b'' if it has no state, such as `SystemRandom`."""
    if hasattr(generator, "bit_generator"):
        return pickle.dumps(generator.bit_generator.state)
    with suppress(NotImplementedError):
        return pickle.dumps(generator.getstate() if hasattr(generator, "getstate") else generator.get_state())
    return b""


def _torch_generators(own: object) -> list[torch.Generator]:
    if isinstance(own, torch.Generator):
        return [own]
    on_gpu = torch.cuda.is_initialized()
    return [torch.default_generator, *(torch.cuda.default_generators if on_gpu else ())]


def tensors(nested: object) -> list[torch.Tensor]:
    """Returns every tensor in nested containers and dataclasses, in a fixed order.

    Sparse ones become dense copies, and nested tensors their parts.
    """
    leaves: list[torch.Tensor] = []
    for leaf in pytree.tree_leaves(nested):
        if isinstance(leaf, torch.Tensor) and leaf.is_nested:
            leaves += leaf.unbind()
        elif isinstance(leaf, torch.Tensor):
            leaves.append(leaf if leaf.layout == torch.strided else leaf.to_dense())
        elif is_dataclass(leaf):
            leaves += tensors([getattr(leaf, part.name) for part in fields(leaf)])
    return leaves


def has_memory(tensor: torch.Tensor) -> bool:
    """Returns whether the tensor's numbers are in one storage. Otherwise reading the tensor may end the process.

    Meta tensors, and the *zero tensors* that forward-mode differentiation makes, are strided but have no numbers.
    """
    return tensor.layout == torch.strided and not tensor._is_zerotensor() and not tensor.is_meta


def _strided_tensors(nested: object) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(nested) if isinstance(leaf, torch.Tensor) and has_memory(leaf)]


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _write_targets(func: Operator, args: tuple[object, ...]) -> list[object]:
    """Returns the arguments that an operator writes to. Its results may lack them, as for torch._foreach_add_."""
    named = zip(func._schema.arguments, args, strict=False)
    return [given for argument, given in named if argument.alias_info and argument.alias_info.is_write]


def _mark(weight: torch.Tensor) -> tuple[object, ...]:
    """Returns values that change if the weight is replaced or written to, even through `.data`."""
    total = ""
    with suppress(RuntimeError), torch.no_grad():  # no sums of this format
        total = str(weight.sum().item())
    return weight.is_inference() or weight._version, weight.data_ptr(), total
