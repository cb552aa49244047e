"""Dataclasses to JSON and back."""

import dataclasses
import math
import types
import typing
from functools import cache
from typing import Any, Literal

WIRE_VERSION = 1
"""The version of the messages between the app and its worker, which the worker's `ready` holds. It grows when a field
changes its meaning or a message that the other side must know is added."""


def shown(value: Any) -> str:
    """`repr`, at most 80 characters of it, for a message."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def plain(value: Any) -> Any:
    """`value` with dataclasses as dicts and tuples as lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


@cache
def _readers(kind: type) -> list[tuple[str, Any]]:
    """Each field's name and type. Cached: evaluating the annotations took half the time of reading a result."""
    hints = typing.get_type_hints(kind)
    return [(field.name, hints[field.name]) for field in dataclasses.fields(kind)]


def load(kind: Any, data: Any) -> Any:
    """The inverse of `plain`: `data` as a `kind`. Unknown keys are ignored, missing and wrong ones raise ValueError."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if data is None and type(None) in arguments:
            return None
        return load(next(option for option in arguments if option is not type(None)), data)
    if origin is Literal:
        if data not in arguments:
            raise ValueError(f"{data!r} is none of {arguments}")
        return data
    if origin is tuple:
        if not isinstance(data, (list, tuple)):
            raise ValueError(f"a list is needed, given {shown(data)}")
        inner = arguments if Ellipsis not in arguments else (arguments[0],) * len(data)
        if len(inner) != len(data):
            raise ValueError(f"{len(inner)} items are needed, given {len(data)}")
        return tuple(load(item_kind, item) for item_kind, item in zip(inner, data, strict=True))
    if origin is dict:
        if not isinstance(data, dict):
            raise ValueError(f"an object is needed, given {shown(data)}")
        return {key: load(arguments[1], item) for key, item in data.items()}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        if not isinstance(data, dict):
            raise ValueError(f"{kind.__name__} is an object, given {shown(data)}")
        try:
            return kind(**{name: load(hint, data[name]) for name, hint in _readers(kind) if name in data})
        except TypeError as error:
            raise ValueError(f"{kind.__name__} cannot be read: {error}") from error
    if kind is Any:
        return data
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if not isinstance(data, kind) or (isinstance(data, bool) and kind is not bool):
        raise ValueError(f"{kind.__name__} is needed, given {shown(data)}")
    if kind is float and not math.isfinite(data):
        raise ValueError("a finite number is needed")
    return data
