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
from demo.ui.tabs.form import OPTIONAL, Form, checkpoints, choices, first, takes_text

RUN = "run"
"""The parameter that names a stored run. The others are fields of `RunSpec`; unknown ones are ignored."""

FIELDS = ("checkpoint", "task", *OPTIONS)
MAX_QUERY = 20_000
"""Characters of a query. It comes from a browser, so it may be anything."""
_SWITCHES = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}

TO_TAB = "() => window.address.toTab()"
"""Opens the tab that the address names."""
ARRIVED = "(id) => window.address.arrived(id)"
"""The page has opened, and shows this stored run, or none ('')."""
BEGUN = "(id) => window.address.shown(id)"
"""A run has begun, and a reload shows it. A refused press of Run leaves the run that was shown."""
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


def changed(spec: RunSpec, changes: dict[str, Any]) -> Markup:
    """For each change of a setting a link that fills the form with `spec` and it; none for a folder, which has none."""
    found = Markup()
    for name, value in changes.items() if not catalog.is_folder(spec.checkpoint) else ():
        try:
            other = dataclasses.replace(spec, **{name: value})
        except (BadInput, TypeError):  # a stored result may hold anything
            continue
        words = f"Set {OPTIONS[name].label} to {naming.value_text(value)}"
        found += Markup('<a class="action" href="?{}">{}</a>').format(query(other), words)
    return found


def read_query(text: str) -> dict[str, str]:
    return dict(parse_qsl(text[:MAX_QUERY].removeprefix("?"), keep_blank_values=True))


def opened(result: RunResult) -> str:
    """A stored run as Markdown, as a pressed cell or row of a table shows it."""
    link = f"[Open this run with its charts and predictions](?{urlencode({RUN: result.id})})"
    return f"{link}\n\n{markdown.of_run(result)}"


def with_choices(tab: str) -> str:
    """JavaScript for an event's first input: the address's query if it chooses something else than the tab shows."""
    return f"(_, ...rest) => [window.address.asked({tab!r}), ...rest]"


def chosen(tab: str) -> str:
    """JavaScript that puts a tab's choices, an event's only input, into the address bar."""
    return f"(query) => window.address.chosen({tab!r}, query)"


def spec_of(query: Mapping[str, str], checkpoint: str) -> RunSpec | None:
    """The spec that a link asks for; None where it names no option. Raises BadInput, as the form does.

    `checkpoint` is used where the link names none. A zero-shot detector for which the link names no queries gets
    `catalog.QUERIES`, and text generation without a prompt `catalog.PROMPT`, which the form then shows.
    """
    given: dict[str, Any] = {name: query[name] for name in FIELDS if name in query}
    if not given:
        return None
    for name, value in given.items():
        if name in OPTIONS and OPTIONS[name].kind == "switch":
            given[name] = _SWITCHES.get(value.lower(), value)
    task = given.pop("task", None)
    if "checkpoint" not in given and task in TASKS:
        checkpoint = checkpoint if checkpoint in checkpoints(task) else first(task) or checkpoint
    known = catalog.find(given.get("checkpoint", checkpoint))
    if known is not None and known.takes_text and not given.get("text", "").strip():
        given["text"] = catalog.QUERIES
    if (known.task if known is not None else task) == TEXT_GENERATION and not given.get("prompt", "").strip():
        given["prompt"] = catalog.PROMPT
    return catalog.make_spec(given.pop("checkpoint", checkpoint), task, **given)


def filled(form: Form, spec: RunSpec) -> dict[Any, Any]:
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
