"""What the events of the tabs share: options of gradio, what was pressed, and how a refusal is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import gradio as gr
from markupsafe import Markup

from demo.core import format as fmt
from demo.core.errors import BadInput
from demo.core.languages import Language
from demo.store.history import HistoryError
from demo.ui.html import results

QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
AT_ONCE = QUIET | {"concurrency_limit": None}
LATEST: dict[str, Any] = {"trigger_mode": "always_last"}
"""Without it gradio drops an `input` event that comes while an earlier one of the same field is still answered."""
UNREAD = AT_ONCE | {"preprocess": False}
"""gradio hands the values over as the browser sent them. It would otherwise decode the picture, and fail on a broken
one; the worker reads it and says what is wrong."""

T = TypeVar("T")


def told(problem: Exception, lang: Language, way_out: str = "", title: str = "cannot_be_run") -> Markup:
    """The card for work that had no result; `title`, a key, and `way_out`, which is HTML, are for a refusal."""
    if isinstance(problem, BadInput | HistoryError):
        return results.refusal(title, fmt.redact(str(problem)), lang, way_out)
    return results.unexpected(lang)


def pressed_of(things: Sequence[T], event: gr.EventData) -> T | None:
    """What was pressed of these. The place comes from the browser, so it may be anything."""
    place = getattr(event, "place", None)
    return things[place] if isinstance(place, int) and 0 <= place < len(things) else None
