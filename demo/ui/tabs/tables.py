"""Tables of the page. A cell is sorted by its value, and shows a text in a style."""

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, NamedTuple

import gradio as gr
from gradio.processing_utils import save_bytes_to_cache
from gradio.utils import get_upload_folder

from ...core import format as fmt
from ...core.result import RunResult
from ...present.report import Report

UNKNOWN = "–"
BOLD_STYLE, MUTED_STYLE = "font-weight: 700", "color: var(--muted)"
VERDICT_STYLES = {
    "faster": "background: color-mix(in srgb, var(--compiled) 25%, var(--panel))",
    "slower": "background: color-mix(in srgb, var(--eager) 35%, var(--panel))",
}
"""Maps a verdict to the style of its cell. Its text has a contrast of 4.5:1."""


class Cell(NamedTuple):
    value: object
    """What the table sorts by. The cell shows `text`."""
    text: str
    style: str = ""


def bold(text: str) -> Cell:
    return Cell(text, text, BOLD_STYLE)


def make_table(elem_id: str, label: str, max_height: int = 640, **more: Any) -> gr.Dataframe:
    """Returns a read-only table that is hidden until `update` fills it."""
    return gr.Dataframe(
        elem_id=elem_id,
        label=label,
        interactive=False,
        visible=False,
        pinned_columns=1,
        max_height=max_height,
        **more,
    )


def update(rows: Iterable[Mapping[str, object]]) -> object:
    """Returns an update that fills a table, or hides it if there are no rows.

    A row has values or `Cell`s by column title. The titles are the same in each row.
    """
    lines = list(rows)
    cells = [list(map(_cell, line.values())) for line in lines]
    value = {
        "headers": list(lines[0]) if lines else [],
        "data": [[cell.value for cell in row] for row in cells],
        "metadata": {
            "display_value": [[cell.text for cell in row] for row in cells],
            "styling": [[cell.style for cell in row] for row in cells],
        },
    }
    return gr.update(value=value, visible=bool(cells))


def _cell(value: object) -> Cell:
    return value if isinstance(value, Cell) else Cell(value, str(value))


def plot(figure: object) -> object:
    """Returns an update that shows a figure; None hides the plot."""
    return gr.update(value=figure, visible=figure is not None)


def download_file(content: bytes, name: str) -> str:
    """Writes a file into the folder from which gradio serves, and returns its path."""
    return str(save_bytes_to_cache(content, name, get_upload_folder()))


def verdict_cell(report: Report | None, value: object, text: str) -> Cell:
    """Returns a cell in the colour of the run's verdict."""
    kind = report.kind if report is not None else None
    return Cell(value, text, VERDICT_STYLES.get(kind or "", ""))


def latency_cells(result: RunResult | None) -> dict[str, Cell]:
    """Returns the cells with a run's latencies, by column title."""
    seconds = result.latencies if result is not None else {}
    return {
        "Eager, ms": milliseconds_cell(seconds.get("eager")),
        "Compiled, ms": milliseconds_cell(seconds.get("compiled")),
    }


def milliseconds_cell(seconds: float | None, unknown: str = UNKNOWN) -> Cell:
    """Returns a cell that shows a time in milliseconds, or `unknown` for None."""
    if seconds is None:
        return Cell(None, unknown)
    value = fmt.milliseconds(seconds)
    return Cell(value, f"{value:.3f}")


def status_line(sentence: str) -> str:
    """Returns a sentence as HTML. A screen reader reads it out when it has finished what it says now. '' for ''."""
    return f'<p role="status">{escape(sentence)}</p>' if sentence else ""
