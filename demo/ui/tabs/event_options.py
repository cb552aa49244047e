"""How the events of the tabs are answered: options of gradio that several of them share."""

from __future__ import annotations

from typing import Any

QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
AT_ONCE = QUIET | {"concurrency_limit": None}
LATEST: dict[str, Any] = {"trigger_mode": "always_last"}
"""Without it gradio drops an `input` event that comes while an earlier one of the same field is still answered."""
UNREAD = AT_ONCE | {"preprocess": False}
"""gradio hands the values over as the browser sent them. It would otherwise decode the picture, and fail on a broken
one; the worker reads it and says what is wrong."""
