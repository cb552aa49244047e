"""Links to this page: the run that a link's query asks for, and the calls of `address.js`."""

import dataclasses
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

import gradio as gr
from markupsafe import Markup

from demo.core import catalog
from demo.core.result import RunResult
from demo.core.spec import OPTIONS, OWN_MODEL, TASKS, TEXT_GENERATION, BadInput, RunSpec, unused_options
from demo.present import markdown, naming
from demo.ui.tabs.form import OPTIONAL, Form, choices, first, takes_text

RUN = "run"
"""The parameter that names a stored run. The others are fields of `RunSpec`; unknown ones are ignored."""

FIELDS = ("checkpoint", "task", *OPTIONS)
SWITCHES = {"1": True, "true": True, "0": False, "false": False}

TO_TAB = "() => window.address.toTab()"
"""Opens the tab that the address names."""
ARRIVE = "(id) => window.address.arrive(id)"
"""The page has opened and shows this stored run, or none ('')."""
SHOW = "(id) => window.address.show(id)"
"""Names the run in the address bar that is shown after a press of Run; '' for a run that has begun."""
REMEMBER = "(id) => window.address.remember(id)"
"""Puts the shown run into the address bar, so that it can be sent to somebody; other parameters stay."""
QUERY = "(_, ...rest) => [location.search, ...rest]"
"""The address's query as an event's first input."""
FILL = "query => window.address.fill(query)"
"""Opens the page anew with its form filled by this query; nothing for ''."""


def query(spec: RunSpec) -> str:
    """What follows the question mark of a link that makes the form ask for `spec`."""
    asked = catalog.arguments(spec)
    return urlencode({name: str(value).lower() if isinstance(value, bool) else value for name, value in asked.items()})


def change_links(spec: RunSpec, changes: dict[str, Any]) -> Markup:
    """For each changed setting a link that fills the form with `spec` and this change; none for a local folder."""
    links = Markup()
    for name, value in changes.items() if not catalog.is_folder(spec.checkpoint) else ():
        try:
            other = dataclasses.replace(spec, **{name: value})
        except (BadInput, TypeError):  # a stored result may hold anything
            continue
        words = f"Set {OPTIONS[name].label} to {naming.value_text(value)}"
        links += Markup('<a class="action" href="?{}">{}</a>').format(query(other), words)
    return links


def read_query(text: str) -> dict[str, str]:
    return dict(parse_qsl(text.removeprefix("?"), keep_blank_values=True))


def run_summary(result: RunResult) -> str:
    """A stored run as Markdown, with a link to it, for a press on a row of a table."""
    link = f"[Open this run with its charts and predictions](?{urlencode({RUN: result.id})})"
    return f"{link}\n\n{markdown.of_run(result)}"


def read_choices(tab: str) -> str:
    """JavaScript for an event's first input: the address's query if it chooses something else than the tab shows."""
    return f"(_, ...rest) => [window.address.readChoices({tab!r}), ...rest]"


def write_choices(tab: str) -> str:
    """JavaScript that puts a tab's choices, an event's only input, into the address bar."""
    return f"(query) => window.address.writeChoices({tab!r}, query)"


def spec_of(query: Mapping[str, str], checkpoint: str) -> RunSpec | None:
    """The spec that a link asks for; None if the link names no option. Raises BadInput, as the form does.

    What the link does not name: the checkpoint is `checkpoint`, or the first of another task; a zero-shot detector gets
    `catalog.QUERIES`, and text generation gets `catalog.PROMPT`.
    """
    values: dict[str, Any] = {name: query[name] for name in FIELDS if name in query}
    if not values:
        return None
    for name, value in values.items():
        if name in OPTIONS and OPTIONS[name].kind == "switch":
            values[name] = SWITCHES.get(value.lower(), value)
    task, entry = values.pop("task", None), catalog.find(checkpoint)
    if task in TASKS and (entry is None or entry.task != task):
        checkpoint = first(task) or checkpoint
    checkpoint = values.pop("checkpoint", checkpoint)
    entry = catalog.find(checkpoint)
    if entry is not None and entry.takes_text and not values.get("text", "").strip():
        values["text"] = catalog.QUERIES
    if (entry.task if entry is not None else task) == TEXT_GENERATION and not values.get("prompt", "").strip():
        values["prompt"] = catalog.PROMPT
    return catalog.make_spec(checkpoint, task, **values)


def fill_form(form: Form, spec: RunSpec) -> dict[Any, Any]:
    """Updates that make the form ask for `spec`, without its picture; none for a user's own model."""
    if spec.task == OWN_MODEL:
        return {}
    hidden = unused_options(spec.task)
    values: dict[str, Any] = {
        name: getattr(spec, name) for name in form.inputs if name in FIELDS and name not in hidden
    }
    for name in OPTIONAL:
        values[name] = "" if values[name] == OPTIONS[name].default else str(values[name])
    updates = {form.inputs[name]: gr.update(value=value) for name, value in values.items()}
    updates[form.inputs["checkpoint"]] = gr.update(choices=choices(spec.task), value=spec.checkpoint)
    text = {"value": ", ".join(spec.text)} if spec.text else {}
    updates[form.inputs["text"]] = gr.update(visible=takes_text(spec.checkpoint, spec.task), **text)
    return updates
