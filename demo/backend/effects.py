"""Finds what an eager call does besides computing its outputs, and undoes it before the next call.

- Whether it draws random numbers on which its outputs depend, also if it seeds the generator itself.
- Which inputs, and which tensors and numbers of its modules, it changes.
- Whether it computes anything: its outputs may be copies of kept tensors, or tensors that compute only when read.

Not covered: state outside of modules and inputs, weights changed through `.data`, random numbers of the system.
"""

import gc
import pickle
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

COPIES = {"clone", "detach", "alias", "copy_", "_to_copy", "lift_fresh", "contiguous", "empty_like", "empty", "zeros"}
"""Names of ATen operators, besides views, whose result is no new number."""
PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
NUMBERS = (bool, int, float, str, type(None))
DEPTH = 4
"""How deep the attributes of modules are searched for state: 'cache', 'cache.layers', 'cache.layers.0'."""
SEED, OTHER_SEED = 20_261_128, 77


@dataclass(frozen=True)
class Effects:
    draws: bool = False
    """Whether the outputs depend on random numbers that the call draws."""
    inputs: tuple[str, ...] = ()
    """Names of the arguments that the call changes."""
    state: tuple[str, ...] = ()
    """Names of the tensors and numbers of its modules that the call changes: ('norm.running_mean', 'count')."""
    copies: bool = False
    """Whether all outputs are copies of tensors that were kept from an earlier call, or of weights."""

    @property
    def changes(self) -> str:
        """Returns 'input x', 'input x and its own norm.running_mean'; '' if the call changes nothing."""
        parts = [f"input {', '.join(self.inputs)}"] if self.inputs else []
        if self.state:
            more = f" and {len(self.state) - 3} more" if len(self.state) > 3 else ""
            parts.append(f"own {', '.join(self.state[:3])}{more}")
        return " and its ".join(parts)


@dataclass(frozen=True)
class Slot:
    """A place in an input or a module, with what it held before a call."""

    container: Any
    """A dict or list; `container[key]` is the place."""
    key: Any
    name: str
    value: Any
    copy: torch.Tensor | None
    """A copy of the tensor `value`; None for a number."""
    layout: tuple[Any, ...] = ()

    @classmethod
    def of(cls, container: Any, key: Any, name: str, value: Any) -> "Slot":
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
            return cls(container, key, name, value, None)
        return cls(container, key, name, value, value.detach().clone(), _layout(value))

    @property
    def changed(self) -> bool:
        now = _get(self.container, self.key)
        if self.copy is None:
            return isinstance(self.value, NUMBERS) and not (isinstance(now, NUMBERS) and now == self.value)
        same = isinstance(now, torch.Tensor) and now.shape == self.copy.shape and now.dtype == self.copy.dtype
        return not same or not _equal(now, self.copy)

    def restore(self) -> None:
        with suppress(IndexError):  # the model has taken it out of its list
            self.container[self.key] = self.value
        if self.copy is not None:
            with torch.inference_mode():  # also writes to tensors that were made in inference mode
                if _layout(self.value) != self.layout:
                    self.value.as_strided_(*self.layout)
                self.value.copy_(self.copy)


class Length:
    """The length of a list or dict, as a container of one number, which cannot be restored."""

    def __init__(self, counted: list[Any] | dict[Any, Any]) -> None:
        self._counted = counted

    def __getitem__(self, _: str) -> int:
        return len(self._counted)

    def __setitem__(self, _: str, value: int) -> None:
        pass


class Restorer:
    """Gives each call back what an earlier one changed: inputs, and state of the model's modules."""

    def __init__(self, batch: dict[str, Any]) -> None:
        self.batch = batch
        self._leaves, self._structure = pytree.tree_flatten(batch)
        self._inputs = [
            Slot.of(self._leaves, at, _name(path), leaf)
            for at, (path, leaf) in enumerate(pytree.tree_flatten_with_path(batch)[0])
        ]
        self._state: list[Slot] = []
        self.needed = False
        """Whether a call changes something, so that `restore` has to come before each call."""

    def restore(self) -> None:
        if self.needed:
            for slot in (*self._inputs, *self._state):
                slot.restore()
            self.batch = pytree.tree_unflatten(list(self._leaves), self._structure)

    def changed_inputs(self) -> tuple[str, ...]:
        """Returns the names of the inputs that calls have changed since this object was made."""
        names = [slot.name for slot in self._inputs if slot.changed]
        if pytree.tree_structure(self.batch) != self._structure:
            names += [name for name, part in self.batch.items() if isinstance(part, list | dict)]
        return tuple(dict.fromkeys(names))

    def keep_state(self, slots: list[Slot]) -> None:
        self._state = slots

    def forget(self) -> None:
        """Drops all copies, which would count as the model's memory."""
        self._inputs, self._state, self.needed = [], [], False


def observe(model: Any, restorer: Restorer, call: Callable[[], Any]) -> Effects:
    """Calls an eager model once, or twice if it draws random numbers. Returns what its calls change.

    - `call`: one eager call with `restorer.batch`. There must have been one before, because a first call fills caches.
    - Afterwards inputs and modules are as the last call found them, and `restorer.needed` says whether further calls
      need that, too.
    """
    inputs = restorer.changed_inputs()
    restorer.needed = bool(inputs)
    restorer.restore()
    slots, versions = list(_slots(model)), {name: _version(one) for name, one in model.named_parameters()}
    outputs, first = _trace_call(model, call, SEED, inputs=restorer.batch)
    changed = [slot for slot in slots if slot.changed]
    weights = [name for name, one in model.named_parameters() if _version(one) != versions[name]]
    state = tuple(slot.name for slot in changed) + tuple(weights)
    if weights or any(slot.copy is not None for slot in changed):
        # Numbers alone are left: a model that counts its calls is compiled again for them, and its run says so.
        changed += [Slot.of(*place) for place in _weight_places(model, weights)]
        restorer.keep_state(changed)
        restorer.needed = True
        restorer.restore()
    draws = False
    if first.drew:
        again, _ = _trace_call(model, call, OTHER_SEED, inputs=restorer.batch)
        restorer.restore()
        draws = not all(map(_equal, _strided_tensors(outputs), _strided_tensors(again)))
    if not restorer.needed:
        restorer.forget()
    return Effects(draws, inputs, state, copies=first.copied(outputs))


def compute_when_read(outputs: Any) -> str:
    """Returns the name of the class of an output that computes its numbers only when they are read; '' if none does."""
    for leaf in pytree.tree_leaves(outputs):
        if isinstance(leaf, torch.Tensor) and type(leaf) not in PLAIN:
            trace = _Trace(OTHER_SEED, ())
            with suppress(Exception), torch.no_grad(), trace:
                leaf.clone()
            if trace.computed:
                return type(leaf).__name__
    return ""


def _trace_call(model: Any, call: Callable[[], Any], seed: int, inputs: Any) -> tuple[Any, "_Trace"]:
    """Calls under a `_Trace`, with all random generators seeded by `seed`, whatever seeds the model sets itself."""
    generators, trace = _generators(model), _Trace(seed, _strided_tensors(inputs))
    seed_random, seed_numpy, default_rng = random.seed, np.random.seed, np.random.default_rng
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()

    def seeded_rng(*_: Any, **__: Any) -> np.random.Generator:
        trace.drew = True
        return default_rng(seed)

    with ExitStack() as undo:
        undo.enter_context(torch.random.fork_rng(devices))
        undo.callback(random.setstate, random.getstate())
        undo.callback(np.random.set_state, np.random.get_state())
        seed_random(seed)
        seed_numpy(seed)
        undo.enter_context(mock.patch.object(random, "seed", lambda *_, **__: seed_random(seed)))
        undo.enter_context(mock.patch.object(np.random, "seed", lambda *_, **__: seed_numpy(seed)))
        undo.enter_context(mock.patch.object(np.random, "default_rng", seeded_rng))
        torch.manual_seed(seed)
        before = [pickle.dumps(one) for one in generators]
        with trace:
            outputs = pytree.tree_map_only(torch.Tensor, torch.clone, call())
        trace.drew |= before != [pickle.dumps(one) for one in generators]
    return outputs, trace


class _Trace(TorchDispatchMode):
    """Watches the operators of a call: whether one draws random numbers, and what the outputs are made of."""

    def __init__(self, seed: int, inputs: Any) -> None:
        """Each drawing operator draws from a generator that is seeded by `seed` just before."""
        super().__init__()
        self._seed = seed
        self.drew = self.computed = False
        self._origins: dict[int, int] = {one.untyped_storage().data_ptr(): 0 for one in inputs}
        """By a storage's address, that of the storage it is a copy of; 0 for inputs and for new numbers."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(kind not in PLAIN for kind in types):
            return NotImplemented  # a subclass is asked first, and calls its own operators
        kwargs = kwargs or {}
        draws = torch.Tag.nondeterministic_seeded in func.tags
        generators = _torch_generators(kwargs.get("generator")) if draws else []
        for generator in generators:
            generator.manual_seed(self._seed)
        before = [generator.get_state() for generator in generators]
        out = func(*args, **kwargs)
        self.drew |= any(not torch.equal(one.get_state(), was) for one, was in zip(generators, before, strict=True))
        self._note(func, args, out)
        return out

    def _note(self, func: Any, args: Any, out: Any) -> None:
        name = func.overloadpacket.__name__
        copies = name in COPIES or func.is_view
        self.computed |= not copies
        source = args[1] if name == "copy_" else args[0] if args else None
        origin = 0
        if copies and isinstance(source, torch.Tensor):
            place = source.untyped_storage().data_ptr()
            origin = self._origins.get(place, place)
        for tensor in _strided_tensors(out):
            self._origins[tensor.untyped_storage().data_ptr()] = origin

    def copied(self, outputs: Any) -> bool:
        """Returns whether all `outputs`, clones of what the call returned, are copies of tensors that still exist."""
        origins = {self._origins.get(one.untyped_storage().data_ptr(), 0) for one in _strided_tensors(outputs)}
        return bool(origins) and 0 not in origins and origins <= live_storages().keys()


def growth_per_call(call: Callable[[], Any]) -> int:
    """Returns by how many bytes each of two further calls raises the memory that living tensors hold; 0 for none."""
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
    """Returns the bytes of each storage that a tensor in this process holds, by the storage's address."""
    tensors = [one for one in gc.get_objects() if issubclass(type(one), torch.Tensor) and one.layout == torch.strided]
    storages = [one.untyped_storage() for one in tensors if type(one) in PLAIN]
    return {one.data_ptr(): one.nbytes() for one in storages}


def _slots(model: Any) -> Iterator[Slot]:
    """Yields the buffers of a model, and the tensors and numbers that its modules keep in other attributes."""
    own = vars(torch.nn.Module()).keys()
    seen: set[int] = set()

    def within(container: Any, name: str, depth: int) -> Iterator[Slot]:
        if id(container) in seen or depth > DEPTH:
            return
        seen.add(id(container))
        for key, value in list(container.items() if isinstance(container, dict) else enumerate(container)):
            if depth == 0 and key in own:
                continue
            path = f"{name}.{key}" if name else str(key)
            if isinstance(value, (torch.Tensor, *NUMBERS)):
                yield Slot.of(container, key, path, value)
            elif isinstance(value, dict | list):
                yield Slot(Length(value), "length", path, len(value), None)
                yield from within(value, path, depth + 1)
            elif hasattr(value, "__dict__") and not isinstance(value, torch.nn.Module | type) and not callable(value):
                yield from within(vars(value), path, depth + 1)

    for prefix, module in model.named_modules():
        for key, buffer in module._buffers.items():
            yield Slot.of(module._buffers, key, f"{prefix}.{key}" if prefix else key, buffer)
        yield from within(vars(module), prefix, 0)


def _weight_places(model: Any, names: list[str]) -> Iterator[tuple[Any, Any, str, torch.Tensor]]:
    for name in names:
        path, _, key = name.rpartition(".")
        weights = model.get_submodule(path)._parameters
        yield weights, key, name, weights[key]


def _generators(model: Any) -> list[Any]:
    """Returns Python's and NumPy's global generators, and those in attributes and in global names of the modules."""
    found = [random._inst, np.random.mtrand._rand]  # type: ignore[attr-defined]
    for module in model.modules():
        found += vars(module).values()
        found += getattr(type(module).forward, "__globals__", {}).values()
    kinds = (random.Random, np.random.Generator, np.random.RandomState)
    return list({id(one): one for one in found if isinstance(one, kinds)}.values())


def _torch_generators(own: torch.Generator | None) -> list[torch.Generator]:
    if own is not None:
        return [own]
    on_gpu = torch.cuda.is_initialized()
    return [torch.default_generator, *(torch.cuda.default_generators if on_gpu else ())]


def _strided_tensors(nested: Any) -> list[torch.Tensor]:
    leaves = pytree.tree_leaves(nested)
    return [one for one in leaves if isinstance(one, torch.Tensor) and one.layout == torch.strided]


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Returns whether all numbers are the same, with NaN equal to NaN; True for formats that torch cannot compare."""
    if one.shape != other.shape:
        return False
    with suppress(RuntimeError), torch.no_grad():
        return bool(((one == other) | ((one != one) & (other != other))).all())
    return True


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.size(), tensor.stride(), tensor.storage_offset()


def _get(container: Any, key: Any) -> Any:
    try:
        return container[key]
    except (KeyError, IndexError):
        return None


def _name(path: Any) -> str:
    first, *more = path
    return f"{first.key}{pytree.keystr(tuple(more))}"
