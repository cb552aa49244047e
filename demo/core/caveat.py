"""What a reader of a run's figures should know before using them, in a form that each language can tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from demo.core.languages import ENGLISH


@dataclass(frozen=True)
class Caveat:
    """A sentence of `RunResult.warnings` that the languages have: its text there, key and values."""

    text: str
    """In English."""
    key: str
    values: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, key: str, **values: Any) -> Caveat:
        return cls(ENGLISH.plain(key, **values), key, values)
