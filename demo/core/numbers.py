"""Numbers as people and tables write them. Python's own `int` and `float` also take '1_000', '²' or 'nan'."""

import math
import re
from typing import Any

_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,18}\s*")
_DECIMAL = re.compile(r"\s*[+-]?(?:[0-9]{1,18}\.?[0-9]{0,30}|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,3})?\s*")


def whole_number(text: str) -> int | None:
    """None for anything else than up to 18 digits, with a sign or without."""
    return int(text) if _WHOLE.fullmatch(text) else None


def number(text: str) -> float | None:
    """None for anything else than a finite number, with an exponent or without."""
    value = float(text) if _DECIMAL.fullmatch(text) else math.nan
    return value if math.isfinite(value) else None


def parse_whole(given: Any) -> Any:
    """An int where `given` is the text of one, or a whole float; anything else as it came."""
    if isinstance(given, str) and (value := whole_number(given)) is not None:
        return value
    if isinstance(given, float) and given.is_integer():
        return int(given)
    return given


def parse_number(given: Any) -> Any:
    """A float where `given` is the text of a number; anything else as it came."""
    if isinstance(given, str) and (value := number(given)) is not None:
        return value
    return given
