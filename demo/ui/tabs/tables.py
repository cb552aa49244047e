"""The tables of the page: `gr.Dataframe` with numbers that sort as numbers, and the colour of the faster variant."""

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
"""The style of a cell by its verdict; text has a contrast of 4.5:1 on each, light and dark."""


class Cell(NamedTuple):
    value: Any
    """What the column sorts by."""
    text: str
    style: str = ""


def cell(content: Any) -> Cell:
    return content if isinstance(content, Cell) else Cell(content, str(content))


def make_table(elem_id: str, label: str, columns: Sequence[str], max_height: int = 640, **more: Any) -> gr.Dataframe:
    """A table that nobody edits, with its first column pinned; hidden until `update` gives it rows."""
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
    """The update of a table; each row has text or a `Cell` for each column. Without rows the table is hidden."""
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
    """The path of a new file of this name and content in the folder from which gradio serves."""
    return save_bytes_to_cache(content, name, get_upload_folder())


def milliseconds(seconds: float | None, unknown: str = UNKNOWN) -> Cell:
    """A latency, for a column whose title has the unit."""
    if seconds is None:
        return Cell(None, unknown)
    value = fmt.milliseconds(seconds)
    return Cell(value, f"{value:.3f}")


def pressed_row(event: gr.EventData) -> list[Any]:
    """The values of the pressed row, however the table is sorted or filtered. They come from a browser: any kind."""
    row = event._data.get("row_value") if isinstance(event._data, dict) else None
    return row if isinstance(row, list) else []


def pressed_place(event: gr.EventData) -> tuple[int, int]:
    """The row of what was pressed, as the table was filled, and its column; (-1, -1) if the browser sends neither."""
    match event._data:
        case {"index": [int(row), int(column)]}:
            return row, column
    return -1, -1


def status(sentence: str) -> str:
    """A sentence for a `gr.Markdown`, read out by screen readers as it appears; '' for none."""
    return f'<p role="status">{escape(sentence)}</p>' if sentence else ""
