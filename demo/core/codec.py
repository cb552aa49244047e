"""Converts dataclasses to dicts and lists of JSON values, and back, by pydantic."""

import json
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

T = TypeVar("T")
JsonObject = dict[str, Any]
"""An object of JSON, as `json.loads` returns it."""

plain = to_jsonable_python
"""Returns a value with every dataclass in it as a dict and every tuple as a list."""
_adapter = cache(TypeAdapter[Any])


def from_plain(kind: type[T], data: object) -> T:
    """Returns an object of the type `kind`, such as a dataclass. `data`: the JSON values that `plain` made.

    Unknown keys are ignored. Raises ValueError if a key without a default is missing, or a value is not allowed.
    """
    # A file's name may hold half a character (a lone surrogate): "replace" makes a question mark of it.
    text = json.dumps(data, allow_nan=False, ensure_ascii=False).encode(errors="replace")
    try:
        checked: T = _adapter(kind).validate_json(text, strict=True)  # type: ignore[arg-type]  # a class is hashable
        return checked
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
