"""Links to this page: what a link's query asks for, and the address of a stored run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import gradio as gr

from demo.core import catalog
from demo.core.result import TASKS, BadInput, RunSpec
from demo.ui.tabs.form import OPTIONAL, Form, checkpoints, takes_text

RUN = "run"
"""The parameter that names a stored run. All others are fields of `RunSpec`; what is neither is passed over."""

FIELDS = tuple(field.name for field in dataclasses.fields(RunSpec))
_SWITCHES = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
_DEFAULTS = {field.name: field.default for field in dataclasses.fields(RunSpec)}

REMEMBER = """(id) => {
  if (!id) return;
  const here = new URL(window.location);
  here.searchParams.set('run', id);
  window.history.replaceState(window.history.state, '', here);
  window.tellTheSpace?.(here);
}"""
"""Puts the shown run into the address bar, so that it can be sent to somebody; other parameters stay."""

FORGET = """() => {
  const here = new URL(window.location);
  here.searchParams.delete('run');
  window.history.replaceState(window.history.state, '', here);
  window.tellTheSpace?.(here);
}"""
"""A new run begins: a reload is to bring that one back, not the one before."""


def spec_of(query: Mapping[str, str], checkpoint: str) -> RunSpec | None:
    """What a link asks for; None where it names no field of the form. Raises BadInput, as the form does.

    `checkpoint` is meant where the link names none.
    """
    given: dict[str, Any] = {name: query[name] for name in FIELDS if name in query}
    if not given:
        return None
    for name in ("fullgraph", "channels_last", "graph_break"):
        if name in given:
            given[name] = _SWITCHES.get(given[name].lower(), given[name])
    task = given.pop("task", None)
    if "checkpoint" not in given and task in TASKS:
        fitting = checkpoints(task)
        checkpoint = checkpoint if checkpoint in fitting else fitting[0]
    return catalog.make_spec(given.pop("checkpoint", checkpoint), task, **given)


def filled(form: Form, spec: RunSpec) -> dict[Any, Any]:
    """Updates that make the form ask for `spec`. The picture stays: a link brings none along."""
    values: dict[str, Any] = {name: getattr(spec, name) for name in form.inputs if name in FIELDS}
    for name in OPTIONAL:
        values[name] = "" if values[name] == _DEFAULTS[name] else str(values[name])
    updates = {form.inputs[name]: gr.update(value=value) for name, value in values.items()}
    updates[form.inputs["checkpoint"]] = gr.update(choices=checkpoints(spec.task), value=spec.checkpoint)
    text = {"value": ", ".join(spec.text)} if spec.text else {}
    updates[form.inputs["text"]] = gr.update(visible=takes_text(spec.checkpoint, spec.task), **text)
    return updates


def read(query: Mapping[str, str], checkpoint: str) -> tuple[RunSpec | None, str]:
    """`spec_of`, with the sentence of a refusal instead of an error."""
    try:
        return spec_of(query, checkpoint), ""
    except BadInput as refused:
        return None, str(refused)
