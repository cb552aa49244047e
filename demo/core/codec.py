"""Dataclasses to JSON and back, by pydantic."""

import json
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python


def shown(value: Any) -> str:
    """`repr`, at most 80 characters of it, for a message."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def plain(value: Any) -> Any:
    """`value` with dataclasses as dicts and tuples as lists."""
    return to_jsonable_python(value)


_adapter = cache(TypeAdapter)


def load(kind: Any, data: Any) -> Any:
    """The inverse of `plain`: `data` as a `kind`. Unknown keys are ignored, missing and wrong ones raise ValueError.

    Half a character, which the name of a file may hold, becomes a question mark.
    """
    text = json.dumps(data, allow_nan=False, ensure_ascii=False).encode(errors="replace")
    try:
        return _adapter(kind).validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
