"""The functions of `events.js`, as gradio's events call them in the browser."""

import json
from collections.abc import Mapping, Sequence

FOCUS_STAGE = "() => pageEvents.focusStage()"
TO_STAGE = "() => pageEvents.toStage()"
TO_ANSWER = "() => pageEvents.toAnswer()"
TO_ADVANCED = "() => pageEvents.toAdvanced()"
TO_SWEEP = "() => pageEvents.toSweep()"
REDRAW = "() => pageEvents.redraw()"
PRESS_BEST = "() => pageEvents.press('best')"
MARK_PRESET = "words => pageEvents.markPreset(words)"


def name_thumbnails(names: Mapping[str, Sequence[str]], words: Mapping[str, str]) -> str:
    """Labels the thumbnails of '#examples-GALLERY' with `names[GALLERY]`, in order.

    `words` has a text with the placeholder {name} for each language.
    """
    return f"() => pageEvents.nameThumbnails({json.dumps(names)}, {json.dumps(words)})"


def press_download(elem_id: str) -> str:
    """Presses a hidden DownloadButton when its file is made."""
    return f"() => pageEvents.download({elem_id!r})"
