"""Dataclasses to JSON and back, by pydantic."""

import json
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

plain = to_jsonable_python
"""Returns a value with dataclasses as dicts and tuples as lists."""
_adapter = cache(TypeAdapter)


def from_plain(kind: Any, data: Any) -> Any:
    """`data` as a `kind`, the inverse of `plain`. Unknown keys are ignored, missing and wrong ones raise ValueError."""
    # A file's name may hold half a character, which becomes a question mark.
    text = json.dumps(data, allow_nan=False, ensure_ascii=False).encode(errors="replace")
    try:
        return _adapter(kind).validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
