"""A run compared with the guide's rows: a section of the result in words, and a chart."""

from __future__ import annotations

import plotly.graph_objects as go

from demo.core.languages import Language
from demo.core.result import RunResult
from demo.present import guide_charts
from demo.present.guide_comparison import compare_with_guide
from demo.store import published


def section(result: RunResult, lang: Language) -> str:
    """HTML; '' if the guide has no row for the run's checkpoint, or the run has no speed-up."""
    found = compare_with_guide(result, published.rows(), lang)
    if found is None:
        return ""
    sentences = "".join(f"<li>{lang.marked(sentence)}</li>" for sentence in found.sentences)
    differs = "".join(f"<li>{lang.marked(difference)}</li>" for difference in found.differences)
    here = lang.marked(lang.composed("beside_here", result=found.here))
    return (
        f'<section class="beside"><h4>{lang.html("beside")}</h4>'
        f'<ul class="said">{sentences}</ul><p class="here">{here}</p>'
        f'<p class="differs">{lang.html("beside_differs")}</p><ul>{differs}</ul></section>'
    )


def chart(result: RunResult, lang: Language) -> go.Figure | None:
    """The same as bars; None where `section` is ''."""
    found = compare_with_guide(result, published.rows(), lang)
    return None if found is None else guide_charts.run_and_guide(result, found, lang)
