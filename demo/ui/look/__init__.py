"""The look of the page: theme, style sheets, and the scripts that run in the browser."""

import json
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup


def source(name: str) -> str:
    """Returns the text of a style sheet or script of this folder."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def script(name: str) -> Markup:
    """Returns a script of this folder as a `<script>` element for the page's head."""
    return Markup(f"<script>{source(name)}</script>")


# JavaScript that gradio runs in the browser at an event; each calls a function of `events.js`

FOCUS_STAGE = "() => pageEvents.focusStage()"
TO_STAGE = "() => pageEvents.toStage()"
TO_ANSWER = "() => pageEvents.toAnswer()"
TO_ADVANCED = "() => pageEvents.toAdvanced()"
TO_SWEEP = "() => pageEvents.toSweep()"
REDRAW = "() => pageEvents.redraw()"
TO_OPEN_RUN = "id => pageEvents.toOpenRun(id)"
"""JavaScript that shows the stored run `id`, opened from another tab, also in the address bar; does nothing for
''."""


def download(id: str) -> str:
    """Returns JavaScript that presses the hidden DownloadButton `id`, for an event after its file is made."""
    return f"() => pageEvents.download({id!r})"


def press(id: str) -> str:
    """Returns JavaScript that presses the button `id`."""
    return f"() => document.getElementById({id!r}).click()"


def scroll_to(id: str) -> str:
    return f"() => document.getElementById({id!r})?.scrollIntoView({{ block: 'start' }})"


def name_thumbnails(names: Sequence[str]) -> str:
    """Returns JavaScript that gives the form's example pictures these names, for screen readers."""
    return f"() => pageEvents.nameThumbnails({json.dumps(names)})"
