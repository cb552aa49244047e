"""Gives each call of a model what the first one got: inputs, and the tensors, arrays, lists and dicts of its modules.

Not covered: state outside of modules and inputs, and what sets, callables and objects without Python attributes hold.
Python numbers are restored only if a call also changes something else.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
NUMBERS = (bool, int, float, str, type(None))
DEPTH = 4
"""How deep the attributes of modules are searched for state: 'cache', 'cache.layers', 'cache.layers.0'."""
NO_STATE = (torch.nn.Module, torch.Tensor, np.ndarray, type, ModuleType)
"""Types of objects whose attributes are not searched. Submodules have their turn in `slots_of`. Tensors and arrays have
no attributes of interest. Classes and Python modules are shared by all models."""
Elements = dict[object, object] | Sequence[object]
Layout = tuple[torch.Size, tuple[int, ...], int | torch.SymInt]
"""Size, stride and offset of a tensor in its storage."""


class _Slots:
    """Wraps an object whose class has `__slots__`, so that its attributes can be read and set like a dict's entries."""

    def __init__(self, owner: object) -> None:
        self.owner = owner

    def items(self) -> list[tuple[str, object]]:
        listed = (getattr(kind, "__slots__", ()) for kind in type(self.owner).__mro__)
        names = [name for one in listed for name in ((one,) if isinstance(one, str) else one)]
        return [(name, getattr(self.owner, name)) for name in names if hasattr(self.owner, name)]

    def __getitem__(self, key: str) -> object:
        return getattr(self.owner, key, None)

    def __setitem__(self, key: str, value: object) -> None:
        setattr(self.owner, key, value)


@dataclass(frozen=True)
class Slot:
    """A place in an input or a module, such as an attribute or an entry of a list, with its value before a call."""

    container: Any
    """The dict, list, deque, tuple or `_Slots` that holds the value, as `container[key]`."""
    key: object
    name: str
    value: object
    copy: Any
    """A copy of a dense tensor or an array; a shallow copy of a list, deque, dict or tuple; None for other values."""
    layout: Layout | None = None

    @classmethod
    def of(cls, container: object, key: object, name: str, value: object) -> "Slot":
        if isinstance(value, torch.Tensor) and value.layout == torch.strided and not value.is_nested:
            return cls(container, key, name, value, value.detach().clone(), _layout(value))
        return cls(container, key, name, value, value.copy() if isinstance(value, np.ndarray) else _elements(value))

    @property
    def changed(self) -> bool:
        return not same(_get(self.container, self.key), self.value if self.copy is None else self.copy)

    def restore(self) -> None:
        # The model has taken it out of its list, or it is in a tuple or in a frozen dataclass.
        with suppress(IndexError, TypeError, AttributeError):
            self.container[self.key] = self.value
        if isinstance(self.value, torch.Tensor) and self.copy is not None:
            with torch.inference_mode():  # also writes to tensors that were made in inference mode
                if self.layout is not None and _layout(self.value) != self.layout:
                    self.value.as_strided_(*self.layout)
                self.value.copy_(self.copy)
        elif isinstance(self.value, np.ndarray):
            self.value[...] = self.copy
        elif isinstance(self.value, dict) and not _same_objects(self.value, self.copy):
            self.value.clear()
            self.value.update(self.copy)
        elif isinstance(self.value, list | deque) and not _same_objects(self.value, self.copy):
            self.value.clear()
            self.value.extend(self.copy)


class Restorer:
    """Restores, before each call, the inputs and the modules' state that earlier calls changed."""

    def __init__(self, batch: dict[str, object]) -> None:
        self.batch = batch
        self._leaves, self._structure = pytree.tree_flatten(batch)
        self._inputs: list[Slot] = []
        for at, (path, leaf) in enumerate(pytree.tree_flatten_with_path(batch)[0]):
            self._inputs += (Slot.of(self._leaves, at, _name(path), leaf), *_places_of(leaf, _name(path)))
        self._state: list[Slot] = []
        self.needed = False
        """Whether `restore` has to come before each call: not if calls change only Python numbers of the model."""

    def restore(self) -> None:
        if self.needed:
            # Other inputs are not written: torch refuses it for an expanded tensor, and for a tensor in a file that is
            # mapped read-only the process would end.
            for slot in (*[slot for slot in self._inputs if slot.changed], *self._state):
                slot.restore()
            self.batch = pytree.tree_unflatten(list(self._leaves), self._structure)

    def changed_inputs(self) -> tuple[str, ...]:
        """Returns the names of the inputs that calls have changed since this object was made."""
        names = [slot.name for slot in self._inputs if slot.changed]
        now, structure = pytree.tree_flatten_with_path(self.batch)
        names += [_name(path) for (path, leaf), was in zip(now, self._leaves, strict=False) if not same(leaf, was)]
        if structure != self._structure:
            names += [name for name, part in self.batch.items() if isinstance(part, list | dict)]
        return tuple(dict.fromkeys(names))

    def keep_state(self, slots: list[Slot]) -> None:
        self._state = slots

    def forget(self) -> None:
        """Drops all stored copies, because their memory would count as the model's. `restore` then does nothing."""
        self._inputs, self._state, self.needed = [], [], False


def slots_of(model: torch.nn.Module) -> Iterator[Slot]:
    """Yields a `Slot` for each place that a call may change: a model's buffers, and attributes added by its modules."""
    own = vars(torch.nn.Module()).keys()
    seen: set[int] = set()
    for prefix, module in model.named_modules():
        for key, buffer in module._buffers.items():
            yield Slot.of(module._buffers, key, f"{prefix}.{key}" if prefix else key, buffer)
        for key, value in list(vars(module).items()):
            if key not in own:
                name = f"{prefix}.{key}" if prefix else key
                yield Slot.of(vars(module), key, name, value)
                yield from _places_of(value, name, seen)


def _places_of(value: object, name: str, seen: set[int] | None = None, depth: int = 1) -> Iterator[Slot]:
    """Yields a slot for each element of a container, or attribute of an object, and for what these hold in turn.

    - `value`: the container or object. Any other value, such as a tensor, yields nothing.
    - `name`: the name of `value`, with which the names of the slots begin.
    - `seen`: ids of containers that were searched before. They are skipped, and this call adds its own.
    - `depth`: how deeply `value` is nested. Values nested deeper than `DEPTH` are not searched.
    """
    seen = set() if seen is None else seen
    container: Any = None
    if _elements(value) is not None:
        container = value
    elif hasattr(value, "__dict__") and not callable(value) and not isinstance(value, NO_STATE):
        container = vars(value)
    elif hasattr(value, "__slots__") and not callable(value):
        container = _Slots(value)
    if container is None or id(value) in seen or depth > DEPTH:
        return
    seen.add(id(value))
    for key, part in list(enumerate(container) if isinstance(container, Sequence | deque) else container.items()):
        # The key may be a whole tensor, as in the state of an optimizer.
        place = f"{name}.{key if isinstance(key, str | int) else type(key).__name__}"
        yield Slot.of(container, key, place, part)
        yield from _places_of(part, place, seen, depth + 1)


def weight_places(model: torch.nn.Module, names: list[str]) -> Iterator[tuple[object, str, str, object]]:
    for name in names:
        path, _, key = name.rpartition(".")
        weights = model.get_submodule(path)._parameters
        yield weights, key, name, weights[key]


def same(one: object, other: object) -> bool:
    """Returns whether two values hold the same numbers. Objects that cannot be compared count as the same."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one is other or (one.dtype == other.dtype and _equal(one, other))
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in other)
    if isinstance(one, list | tuple | deque) and isinstance(other, list | tuple | deque):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, NUMBERS) and isinstance(other, NUMBERS):
        return one == other or (one != one and other != other)
    return type(one) is type(other)


def _elements(value: object) -> dict[object, object] | tuple[object, ...] | None:
    """Returns a shallow copy: a dict for a dict, a tuple for a list, deque or tuple; None for any other value."""
    if isinstance(value, dict):
        return dict(value)
    return tuple(value) if isinstance(value, list | deque | tuple) else None


def _same_objects(one: Elements, other: Elements) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(one[key] is other[key] for key in one)
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Returns whether all numbers are the same, with NaN equal to NaN; True for formats that torch cannot compare."""
    with suppress(RuntimeError), torch.no_grad():
        return one.shape == other.shape and bool(((one == other) | ((one != one) & (other != other))).all())
    return True


def _layout(tensor: torch.Tensor) -> Layout:
    return tensor.size(), tensor.stride(), tensor.storage_offset()


def _get(container: Any, key: object) -> object:
    try:
        return container[key]
    except (KeyError, IndexError):
        return None


def _name(path: Any) -> str:
    first, *more = path
    return f"{first.key}{pytree.keystr(tuple(more))}"
