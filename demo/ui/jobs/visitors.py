"""Who presses a button: by an id that lies in the browser, so that a reload or a lost connection changes nothing."""

from __future__ import annotations

import re
import threading
import uuid
from collections import OrderedDict

MOST = 1024
"""Of new visitors whose first page is remembered."""


class Visitors:
    """Gives an id to whoever has none yet.

    A new page may send its first Run before it has received its id. So the id belongs to the page's session too, and
    whatever that page asks first, it is given the same one.
    """

    def __init__(self) -> None:
        self._given: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def name(self, kept: object, session: str | None) -> str:
        """`kept` is what the browser has sent as its id, which may be anything; `session` is gradio's."""
        if isinstance(kept, str) and re.fullmatch("[0-9a-f]{32}", kept):
            return kept
        with self._lock:
            name = self._given.setdefault(session or "", uuid.uuid4().hex)
            while len(self._given) > MOST:
                self._given.popitem(last=False)
        return name
