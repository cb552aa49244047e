"""The folds Why and Cost: the parts of `demo.present.details` as HTML, and the chart that each has."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from demo.core.languages import Language
from demo.core.result import RunResult
from demo.present import charts, details
from demo.present.guide_comparison import compare_with_guide
from demo.store import published
from demo.ui.html import actions, outputs_html, results
from demo.ui.html.elements import drawn


def guide_chart(result: RunResult, lang: Language) -> Any:
    """What `beside` says as bars; None where that is ''."""
    found = compare_with_guide(result, published.rows(), lang)
    return None if found is None else charts.run_and_guide(result, found, lang)


CHARTS = {"calls": charts.trace, "pays": charts.break_even, "beside": guide_chart}
"""The makers of the Plotly figures, by the names of the parts; a maker gives None where a result has none."""


def parts(result: RunResult, lang: Language) -> dict[str, Markup]:
    """The HTML of each part that has something to tell, by its name; an untried size has a button that tries it."""
    button = Markup() if result.another_sizes else actions.again(result.spec, {"another_size": True}, lang)
    return {
        name: drawn("sections.part", lang, part, button if name == "another_size" else "")
        for fold in details.tree(result, lang).values()
        for name, part in fold.items()
    }


def whole(result: RunResult, lang: Language) -> Markup:
    """All parts, without their charts; the reruns are nothing but a chart."""
    told = parts(result, lang)
    return drawn(
        "sections.whole",
        lang,
        [[told.get(name, "") for name in fold if name != "reruns"] for fold in details.FOLDS.values()],
    )


def opened(result: RunResult, lang: Language) -> Markup:
    """A run on one page, as a pressed cell or row of a table shows it."""
    if result.failure is not None or result.speedup is None:
        return Markup(results.failure(result, lang)) + whole(result, lang)
    shown = (part(result, lang) for part in (results.headline, outputs_html.shown, whole))
    return Markup().join(Markup(part) for part in shown)


def beside(result: RunResult, lang: Language) -> str:
    """The run beside the guide's rows; '' if the guide has none for its checkpoint, or the run has no speed-up."""
    found = compare_with_guide(result, published.rows(), lang)
    if found is None:
        return ""
    return drawn("sections.beside", lang, found, lang.sentence(lang.composed("chart_here_setting", setting=found.here)))
