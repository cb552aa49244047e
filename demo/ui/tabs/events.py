"""What the events of the tabs share: options of gradio, what was pressed, and how a refusal is told."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import gradio as gr
from markupsafe import Markup

from demo.core import format as fmt
from demo.core.errors import BadInput
from demo.core.languages import Language
from demo.store.history import HistoryError
from demo.ui.html import results
from demo.ui.jobs.supervisor import Broken, Refused

QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
AT_ONCE = QUIET | {"concurrency_limit": None}
LATEST: dict[str, Any] = {"trigger_mode": "always_last"}
"""Without it gradio drops an `input` event that comes while an earlier one of the same field is still answered."""
UNREAD = AT_ONCE | {"preprocess": False}
"""gradio hands the values over as the browser sent them. It would otherwise decode the picture, and fail on a broken
one; the worker reads it and says what is wrong."""

_log = logging.getLogger(__name__)
T = TypeVar("T")


class Worded(BadInput):
    """A refusal that has a text of its own in every language, of this key and with these values."""

    def __init__(self, key: str, **values: str) -> None:
        super().__init__(key)
        self.key, self.values = key, values


def tried(start: Callable[[], T], lang: Language) -> T | Markup:
    """What `start` gives, or where it cannot, a card that says why."""
    try:
        return start()
    except Worded as refused:
        return results.problem("cannot_be_run", refused.key, lang, **refused.values)
    except (BadInput, HistoryError) as refused:
        return told(Refused(fmt.redact(str(refused))), lang)
    except Exception:
        _log.exception("what a visitor asked for could not be started")
        return told(Broken(), lang)


def told(problem: Refused | Broken, lang: Language, way_out: str = "") -> Markup:
    """The card for work that had no result; `way_out`, which is HTML, is for a refusal."""
    if isinstance(problem, Refused):
        return results.refusal("cannot_be_run", problem.sentence, lang, way_out)
    return results.unexpected(lang)


def pressed_of(things: Sequence[T], event: gr.EventData) -> T | None:
    """What was pressed of these. The place comes from the browser, so it may be anything."""
    place = getattr(event, "place", None)
    return things[place] if isinstance(place, int) and 0 <= place < len(things) else None
