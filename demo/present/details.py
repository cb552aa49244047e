"""What stands behind an answer, as a tree: folds of parts, each with a title, sentences, a table, rows and a chart.

It is made once for a result, as plain text in the language asked for. The page, the terminal and Markdown draw it.
"""

from __future__ import annotations

from demo.core.languages import Language
from demo.core.result import RunResult
from demo.present import cost_parts, why_parts
from demo.present.why_parts import Part

FOLDS = {
    "fold_why": {
        "calls": why_parts.calls,
        "why": why_parts.why,
        "compiled": why_parts.compiled,
        "outputs": why_parts.outputs,
        "machine": why_parts.machine,
        "reruns": why_parts.reruns,
    },
    "fold_cost": {
        "pays": cost_parts.pays,
        "another_size": cost_parts.another_size,
        "memory": cost_parts.memory,
        "request": cost_parts.request,
    },
}
"""By the key of the fold's title and the name of the part, in the order of the page."""


def tree(result: RunResult, lang: Language) -> dict[str, dict[str, Part]]:
    """The parts of each fold that have something to tell, by their names."""
    return {
        fold: {name: part for name, make in makers.items() if (part := make(result, lang)) is not None}
        for fold, makers in FOLDS.items()
    }
