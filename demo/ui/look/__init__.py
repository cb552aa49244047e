"""How the page looks: theme, style sheets, and the scripts that run in the browser."""

import json
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup


def source(name: str) -> str:
    """The text of a style sheet or script of this folder."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def script(name: str) -> Markup:
    """A script of this folder as an element of the page's head."""
    return Markup(f"<script>{source(name)}</script>")


# The functions of `events.js`, as gradio's events call them in the browser

FOCUS_STAGE = "() => pageEvents.focusStage()"
TO_STAGE = "() => pageEvents.toStage()"
TO_ANSWER = "() => pageEvents.toAnswer()"
TO_ADVANCED = "() => pageEvents.toAdvanced()"
TO_SWEEP = "() => pageEvents.toSweep()"
REDRAW = "() => pageEvents.redraw()"
TO_OPEN_RUN = "id => pageEvents.toOpenRun(id)"
"""Goes to the stored run that a press on a row of another tab has opened ('' if none), also in the address bar."""


def download(id: str) -> str:
    """Presses a hidden DownloadButton when its file is made."""
    return f"() => pageEvents.download({id!r})"


def press(id: str) -> str:
    """Presses a button."""
    return f"() => document.getElementById({id!r}).click()"


def scroll_to(id: str) -> str:
    return f"() => document.getElementById({id!r})?.scrollIntoView({{ block: 'start' }})"


def name_thumbnails(names: Sequence[str]) -> str:
    """Labels the thumbnails of the form."""
    return f"() => pageEvents.nameThumbnails({json.dumps(names)})"
