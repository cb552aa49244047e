"""Repeat: one more process for a result that is shown, so that its interval rests on how processes really differ."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from demo.core import catalog
from demo.core.errors import BadInput
from demo.core.languages import Language
from demo.core.machine import HostInfo
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.present import sentences
from demo.sweep.cells import measured_on
from demo.ui.html.elements import drawn
from demo.ui.jobs.jobs import Job
from demo.ui.look import source
from demo.ui.tabs.form import find_picture, uploaded

LISTEN = source("repeat.js")


def button(result: RunResult, machine: HostInfo | None, lang: Language) -> str:
    """The button beside the interval, as HTML; '' where this page cannot run one more process."""
    try:
        one_more(result, machine)
    except BadInput:
        return ""
    title = lang.composed("repeat_title", processes=sentences.count(len(result.as_processes()) + 1, "process", lang))
    return drawn("results.repeat", lang, result.id, title, sentences.open_between_processes(result))


def one_more(result: RunResult, machine: HostInfo | None) -> RunSpec:
    """The spec that adds one more process to a result. Raises BadInput where this page cannot run it.

    `machine` is this one, None while it is not known: processes of other machines or versions do not join one answer.
    """
    if not result.as_processes():
        raise BadInput("This run has no speed-up that a repeat could add to.")
    if machine is not None and not measured_on(result, machine):
        raise BadInput("This run is of another machine or other versions. Press Run to measure it here.")
    return catalog.make_spec(**catalog.arguments(dataclasses.replace(result.spec, repeats=1)))


def picture(result: RunResult, latest: Job | None, in_form: dict[str, Any] | None) -> Path | None:
    """The file of the run's picture: an example, that of the visitor's latest run, or the form's; None if the run saw
    none. Raises BadInput if it is gone."""
    if result.image is None:
        return None
    own = [None, latest.image if latest is not None else None, uploaded(in_form) if in_form else None]
    found = (find_picture(result.image.sha256, file) for file in own)
    if (file := next(filter(None, found), None)) is None:
        name = result.image.name
        raise BadInput(f"Its picture, {name}, is no longer here. Choose it in the form, then press Repeat once more.")
    return file
