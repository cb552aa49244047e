"""Conversion of dataclasses to JSON-like dicts and lists, and back, by pydantic."""

import json
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

plain = to_jsonable_python
"""Returns a value with dataclasses as dicts and tuples as lists."""
_adapter = cache(TypeAdapter)


def from_plain(kind: Any, data: Any) -> Any:
    """Returns `data`, as `plain` made it, as an object of the type `kind`.

    Unknown keys are ignored. Raises ValueError for a missing key or a value of the wrong type.
    """
    # A file's name may hold half a character (a lone surrogate): "replace" makes a question mark of it.
    text = json.dumps(data, allow_nan=False, ensure_ascii=False).encode(errors="replace")
    try:
        return _adapter(kind).validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
