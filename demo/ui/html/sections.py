"""The parts of the folds Why and Cost: `demo.present.details` as HTML, with figures and buttons."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import gradio as gr

from demo.core.languages import Language
from demo.core.result import RunResult
from demo.present import charts, details
from demo.present.details import Part
from demo.ui.html import actions
from demo.ui.html.elements import facts


@dataclass(frozen=True)
class Section:
    name: str
    """'calls' for the element with the id 'part-calls'."""
    html: Callable[[RunResult, Language], str]
    """'' where this result has nothing to tell of it."""
    figure: Callable[[RunResult, Language], Any] | None = None
    """A Plotly figure below the HTML; gives None if this result has none."""
    component: Callable[[str], gr.HTML] = lambda name: gr.HTML(
        visible=False, elem_id=f"part-{name}", apply_default_css=False
    )
    """What holds the HTML, by the section's name; hidden and empty."""


def drawn(make: Callable[[RunResult, Language], Part | None]) -> Callable[[RunResult, Language], str]:
    """The HTML of the part that `make` gives."""

    def html(result: RunResult, lang: Language) -> str:
        part = make(result, lang)
        if part is None:
            return ""
        table = _table(part.table, lang) if part.table else ""
        listed = f'<table class="facts"><tbody>{facts(part.rows, lang)}</tbody></table>' if part.rows else ""
        untried = make is details.another_size and not result.another_sizes
        button = actions.another_size(result, lang) if untried else ""
        return f"<h4>{lang.marked(part.title)}</h4>{paragraphs(part.sentences, lang)}{table}{listed}{button}"

    return html


_FIGURES = {"calls": charts.trace, "why": charts.busy_bars, "pays": charts.break_even}
FOLDS = {
    fold: tuple(Section(name, drawn(make), _FIGURES.get(name)) for name, make in parts.items())
    for fold, parts in (("fold_why", details.WHY), ("fold_cost", details.COST))
}
"""By the key of the fold's title, in the order of the page."""


def whole(result: RunResult, lang: Language) -> str:
    """All parts, without their figures."""
    return "".join(f'<section class="parts">{fold(name, result, lang)}</section>' for name in FOLDS)


def fold(name: str, result: RunResult, lang: Language) -> str:
    return "".join(section.html(result, lang) for section in FOLDS[name])


def paragraphs(sentences: Iterable[str], lang: Language) -> str:
    """One for each sentence; '' without any."""
    html = "".join(f"<p>{lang.marked(lang.capital(sentence))}</p>" for sentence in sentences if sentence)
    return f'<div class="sentences">{html}</div>' if html else ""


def _table(table: details.Table, lang: Language) -> str:
    """A small table of figures."""
    heads, lines = table
    head = "".join(f'<th scope="col">{lang.marked(cell)}</th>' if cell else "<td></td>" for cell in heads)
    body = ""
    for name, *values in lines:
        cells = "".join(f"<td>{lang.marked(value)}</td>" for value in values)
        body += f'<tr><th scope="row">{lang.marked(name)}</th>{cells}</tr>'
    return f'<table class="figures"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
