"""The guide's rows beside a run: a section of the result with its words, and a chart."""

from __future__ import annotations

from typing import Any

import gradio as gr
import plotly.graph_objects as go

from demo.core.languages import ENGLISH, Language
from demo.core.result import RunResult
from demo.present import guide_charts as published_charts
from demo.present.guide_comparison import beside
from demo.store import published


def section(result: RunResult, say: Language = ENGLISH) -> str:
    """HTML; '' where the guide has no row for the run's checkpoint, or the run no answer."""
    found = beside(result, published.rows(), say)
    if found is None:
        return ""
    said = "".join(f"<li>{say.marked(sentence)}</li>" for sentence in found.sentences)
    differs = "".join(f"<li>{say.marked(difference)}</li>" for difference in found.differences)
    here = say.marked(say.composed("beside_here", said=found.here))
    return (
        f'<section class="beside"><h3>{say.html("beside")}</h3>'
        f'<ul class="said">{said}</ul><p class="here">{here}</p>'
        f'<p class="differs">{say.html("beside_differs")}</p><ul>{differs}</ul></section>'
    )


def chart(result: RunResult, say: Language = ENGLISH) -> go.Figure | None:
    """The same as bars; None where `section` is empty."""
    found = beside(result, published.rows())
    return None if found is None else published_charts.run_beside(result, found, say)


def updates(result: RunResult, words: gr.HTML, figure: gr.Plot, say: Language = ENGLISH) -> dict[Any, Any]:
    """Shows the section and its chart, or hides both."""
    text = section(result, say)
    return {
        words: gr.update(value=text, visible=bool(text)),
        figure: gr.update(value=chart(result, say), visible=bool(text)),
    }
