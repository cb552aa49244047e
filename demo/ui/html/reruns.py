"""The folded section of a result's reruns: the speed-up of each process that ran its spec here, and their mean."""

from __future__ import annotations

from typing import Any

from demo.core import format as fmt
from demo.core import stats
from demo.core.languages import Language
from demo.core.result import RunResult
from demo.core.speedup import STUDENT_REPEATS
from demo.present import sentences, several_runs
from demo.store.history import History, HistoryError
from demo.ui.html.sections import Section, paragraphs

_Together = tuple[tuple[float, ...], stats.Interval]
"""The speed-ups of the processes, and their mean."""


def section(history: History) -> Section:
    """Shown from `STUDENT_REPEATS` processes on: the repeats, and the runs of the same spec that `history` has."""

    last: tuple[RunResult, _Together | None] | None = None

    def read(result: RunResult) -> _Together | None:
        """The processes as they are now. `together` gives the same for the other parts of this section."""
        nonlocal last
        try:
            ratios = history.processes(result)
        except HistoryError:  # the page says so where it was asked for the history
            ratios = ()
        found = (ratios, stats.repeated_ratio(ratios)) if len(ratios) >= STUDENT_REPEATS else None
        last = result, found
        return found

    def together(result: RunResult) -> _Together | None:
        held = last  # another visitor's page may replace it at any time
        return held[1] if held is not None and held[0] is result else read(result)

    def title(result: RunResult, lang: Language) -> str:
        found = read(result)
        if found is None:
            return ""
        processes = sentences.count(len(found[0]), "process", lang)
        value = lang.composed("row_speedup_value", **_figures(found[1], lang))
        return lang.composed("section_reruns", processes=processes, speedup=value)

    def html(result: RunResult, lang: Language) -> str:
        found = together(result)
        if found is None:
            return ""
        told = [lang.plain("reruns_same"), lang.composed("reruns_together", **_figures(found[1], lang))]
        if len(found[0]) > (count := len(result.as_repeats())):
            told.append(lang.composed("reruns_others", processes=sentences.count(count, "process", lang)))
        return paragraphs(told, lang)

    def figure(result: RunResult, lang: Language) -> Any:
        found = together(result)
        return None if found is None else several_runs.reruns(result, *found, lang)

    return Section("reruns", title, html, figure)


def _figures(interval: stats.Interval, lang: Language) -> dict[str, str]:
    low, high = sentences.ends(interval.low, interval.high)
    figures = {"ratio": fmt.ratio(interval.ratio), "low": low, "high": high}
    return {name: lang.plain_value(figure) for name, figure in figures.items()}
