"""Tables of the page: `gr.Dataframe` whose cells sort by a value and show a text and a style."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, NamedTuple

import gradio as gr
from gradio.processing_utils import save_bytes_to_cache
from gradio.utils import get_upload_folder

from demo.core import format as fmt

UNKNOWN = "–"
BOLD, MUTED = "font-weight: 700", "color: var(--muted)"
VERDICT_STYLES = {
    "faster": "background: color-mix(in srgb, var(--compiled) 25%, var(--panel))",
    "slower": "background: color-mix(in srgb, var(--eager) 35%, var(--panel))",
}
"""Maps a verdict to the style of its cell. Text on it has a contrast of 4.5:1, on the light and the dark page."""


class Cell(NamedTuple):
    value: Any
    """What the table sorts by. The cell shows `text`."""
    text: str
    style: str = ""


def cell(content: Any) -> Cell:
    return content if isinstance(content, Cell) else Cell(content, str(content))


def make_table(elem_id: str, label: str, columns: Sequence[str], max_height: int = 640, **more: Any) -> gr.Dataframe:
    """Returns a read-only table, hidden until `update` fills it. `max_height`: pixels. `more`: for gr.Dataframe."""
    return gr.Dataframe(
        headers=list(columns),
        elem_id=elem_id,
        label=label,
        interactive=False,
        visible=False,
        pinned_columns=1,
        max_height=max_height,
        **more,
    )


def update(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> dict[str, Any]:
    """Returns an update that fills a table, or hides it if there are no rows. A row holds values or `Cell`s."""
    cells = [list(map(cell, row)) for row in rows]
    value = {
        "headers": list(columns),
        "data": [[one.value for one in row] for row in cells],
        "metadata": {
            "display_value": [[one.text for one in row] for row in cells],
            "styling": [[one.style for one in row] for row in cells],
        },
    }
    return gr.update(value=value, visible=bool(cells))


def file(content: bytes, name: str) -> str:
    """Writes a file into the folder from which gradio serves, and returns its path."""
    return save_bytes_to_cache(content, name, get_upload_folder())


def milliseconds(seconds: float | None, unknown: str = UNKNOWN) -> Cell:
    """Returns a cell that shows a time in milliseconds, without a unit. It shows `unknown` for None."""
    if seconds is None:
        return Cell(None, unknown)
    value = fmt.milliseconds(seconds)
    return Cell(value, f"{value:.3f}")


def pressed_row(event: gr.EventData) -> list[Any]:
    """Returns the values of the pressed row, [] for none. The browser sends them: each may be of any type."""
    row = event._data.get("row_value") if isinstance(event._data, dict) else None
    return row if isinstance(row, list) else []


def pressed_place(event: gr.EventData) -> tuple[int, int]:
    """Returns the indices of the pressed row (among the rows that `update` got) and column; (-1, -1) for none."""
    match event._data:
        case {"index": [int(row), int(column)]}:
            return row, column
    return -1, -1


def status(sentence: str) -> str:
    """Returns a sentence as HTML that screen readers read out as soon as it appears; '' for ''."""
    return f'<p role="status">{escape(sentence)}</p>' if sentence else ""
