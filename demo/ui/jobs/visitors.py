"""The id of a visitor. The browser keeps it, so that a visitor stays the same after a reload or a lost connection."""

from __future__ import annotations

import re
import threading
import uuid
from collections import OrderedDict

MAX_SESSIONS = 1024
"""New visitors whose session is remembered."""


class Visitors:
    """Gives an id to each visitor who has none.

    A new page may send its first Run before it has received its id. The id is therefore remembered by gradio's session
    too: all first requests of a page get the same id.
    """

    def __init__(self) -> None:
        self._given: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def name(self, kept: object, session: str | None) -> str:
        """`kept` is the id that the browser sent, which may be anything; `session` is gradio's session hash."""
        if isinstance(kept, str) and re.fullmatch("[0-9a-f]{32}", kept):
            return kept
        with self._lock:
            name = self._given.setdefault(session or "", uuid.uuid4().hex)
            while len(self._given) > MAX_SESSIONS:
                self._given.popitem(last=False)
        return name
