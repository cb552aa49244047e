"""The forecast above the Run button, for the form's current values."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import gradio as gr

from demo.core import catalog, cores, limits
from demo.core import format as fmt
from demo.core.errors import BadInput
from demo.core.languages import Language
from demo.core.machine import HostInfo
from demo.core.refusals import on_machine, refusal
from demo.core.result import RunResult
from demo.runs import doubts, forecast
from demo.store.history import History, HistoryError
from demo.ui.html import actions, results
from demo.ui.tabs.form import read_spec
from demo.ui.web.visitor_language import request_language


def others(request: gr.Request) -> tuple[Any, Any]:
    """That other programs keep this machine busy, and the button that waits; both hidden where they do not."""
    share = cores.others_share()
    if share is None or share < cores.BUSY_CPU:
        return gr.update(visible=False), gr.update(visible=False)
    told = request_language(request).html("busy_before_run", share=fmt.percent(share))
    return gr.update(value=f'<p class="note">{told}</p>', visible=True), gr.update(visible=True)


MAX_RUNS = 100
"""Runs that a forecast looks at. `History` keeps as many in memory, so that after a run only the new one is read."""


def expected(values: Mapping[str, Any], machine: HostInfo, history: History, lang: Language) -> str | None:
    """HTML for the form's values without the picture; None if checkpoint and task do not fit each other yet.

    A browser takes over the values of a link, a preset or an opened run one by one and asks for a forecast after each.
    The checkpoint comes later than its task. A visitor's choice does not end like that: see `RunTab._chosen`.
    """
    checkpoint = catalog.find(values["checkpoint"] or "")
    if checkpoint is not None and checkpoint.task != values["task"]:
        return None
    try:
        spec = read_spec(dict(values))
    except BadInput as refused:
        return results.no_forecast(str(refused), lang)
    query = actions.query(spec)
    if limits.on_zero_gpu() and spec.compiler == "aot" and spec.device != "cpu":
        return ""  # it runs on a GPU of which nothing is known before
    spec = on_machine(spec, machine)
    if (here_not := refusal(spec, machine)) and here_not.name not in doubts.REFUSED:
        return results.no_forecast(str(here_not), lang)
    latest: list[RunResult] = []
    with contextlib.suppress(HistoryError):
        latest = history.all(limit=MAX_RUNS)
    here = forecast.on_this_machine(latest, machine, spec.device)
    likely = forecast.forecast(spec, checkpoint, here)
    return results.forecast(likely, checkpoint, doubts.doubts(spec, machine, likely, here), lang, query)
