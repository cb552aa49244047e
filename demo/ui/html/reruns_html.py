"""The folded section of a result's processes: the speed-up of each that its answer rests on, and their mean."""

from __future__ import annotations

from typing import Any

from demo.core.languages import Language
from demo.core.result import RunResult
from demo.present import sentences, several_runs
from demo.ui.html.sections import Section, paragraphs

SHOWN_FROM = 3
"""Processes: of two a chart says no more than their interval."""


def _html(result: RunResult, lang: Language) -> str:
    count = len(result.as_processes())
    if count < SHOWN_FROM:
        return ""
    processes, speedup = sentences.count(count, "process", lang), sentences.speedup_in_full(result, lang)
    title = lang.marked(lang.composed("section_reruns", processes=processes, speedup=speedup))
    return f"<h4>{title}</h4>{paragraphs([lang.plain('reruns_same')], lang)}"


def _figure(result: RunResult, lang: Language) -> Any:
    processes = result.as_processes()
    if len(processes) < SHOWN_FROM or result.speedup is None:
        return None
    return several_runs.reruns(result, [one.within.ratio for one in processes], result.speedup, lang)


SECTION = Section("reruns", _html, _figure)
