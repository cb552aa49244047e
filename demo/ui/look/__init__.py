"""The page's theme, style sheets and scripts."""

from pathlib import Path


def source(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


# JavaScript that gradio runs in the browser at an event. `events.js` describes the functions

FOCUS_STAGE = "() => pageEvents.focusStage()"
TO_STAGE = "() => pageEvents.toStage()"
TO_ANSWER = "() => pageEvents.toAnswer()"
TO_ADVANCED = "() => pageEvents.toAdvanced()"
TO_SWEEP = "() => pageEvents.toStage('sweep-stage')"
REDRAW = "() => pageEvents.redraw()"
TO_OPEN_RUN = "id => pageEvents.toOpenRun(id)"


def download(id: str) -> str:
    """Returns JavaScript that presses the hidden DownloadButton `id`, so that the browser downloads its file."""
    return f"() => pageEvents.download({id!r})"


def press(id: str) -> str:
    return f"() => document.getElementById({id!r}).click()"


def scroll_to(id: str) -> str:
    return f"() => document.getElementById({id!r})?.scrollIntoView({{ block: 'start' }})"
