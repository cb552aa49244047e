"""A table of rows of figures, as the tabs Published and Shared have it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from demo.core import format as fmt
from demo.core.languages import Language
from demo.core.spec import TEXT_GENERATION
from demo.present import sentences
from demo.ui.html.elements import esc

TASK_NAMES = {
    "image-classification": "task_classification",
    "object-detection": "task_detection",
    "image-segmentation": "task_segmentation",
    TEXT_GENERATION: "task_text_generation",
}
"""The text of each task in a list of filters."""


def table(columns: Sequence[tuple[str, str]], lines: Iterable[Sequence[str]], count: str, lang: Language) -> str:
    """`columns` are the text and the CSS class of each, `lines` their cells as HTML; the first is a row's heading.

    `count` says how many rows there are, for a screen reader.
    """
    names = [esc(lang.plain(name)) for name, _ in columns]
    head = "".join(f'<th scope="col" class="{kind}">{lang.html(name)}</th>' for name, kind in columns)
    body = "".join(_line(columns, names, cells) for cells in lines)
    region = esc(lang.composed("published_region", rows=count))
    return (
        f'<div class="scroller" tabindex="0" role="region" aria-label="{region}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _line(columns: Sequence[tuple[str, str]], names: Sequence[str], cells: Sequence[str]) -> str:
    """A narrow window shows the name of a column beside each cell."""
    first, *others = (
        f'class="{kind}" data-name="{name}">{cell}' for (_, kind), name, cell in zip(columns, names, cells, strict=True)
    )
    return f'<tr><th scope="row" {first}</th>{"".join(f"<td {cell}</td>" for cell in others)}</tr>'


def between(low: float | None, high: float | None, lang: Language) -> str:
    """'1.40 to 1.50×' below a speed-up; '' without an interval."""
    if not low or not high:
        return ""
    least, most = sentences.ends(low, high)
    return f"<small>{lang.html('between', low=least, high=most)}</small>"


def milliseconds(seconds: float | None, missing: str) -> str:
    return missing if seconds is None else f"{fmt.milliseconds(seconds):.3f}"


def status(html: str, kind: str = "scope") -> str:
    return f'<p class="{kind}" role="status">{html}</p>'
