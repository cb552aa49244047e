"""Links to this page: the run that a link's query asks for, and JavaScript that reads and writes the address bar.

The JavaScript calls functions in `look/address.js`.
"""

import dataclasses
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode

import gradio as gr
from markupsafe import Markup

from ...core import catalog
from ...core.options import OPTIONS, OWN_MODEL, TASKS, TEXT_GENERATION, BadInput, OptionValues, RunSpec, unused_options
from ...core.result import RunResult
from ...present import markdown, naming
from ...present.report import Report
from .events import Updates
from .form import OPTIONAL, Form, choices, first, takes_text

RUN = "run"
"""The query parameter that names a stored run. `FIELDS` fill the form. Unknown parameters are ignored."""

FIELDS = ("checkpoint", "task", *OPTIONS)
SWITCHES = {"1": True, "true": True, "0": False, "false": False}

# JavaScript for the address bar, in which `id` is a stored run, '' for none
TO_TAB = "() => window.address.toTab()"
"""Opens the tab that the address names."""
ARRIVE = "(id) => window.address.arrive(id)"
"""Tells `address.js` which run a new page shows."""
SHOW = "(id) => window.address.show(id)"
"""Puts the run's id into the address bar; '' removes the id that is there."""
REMEMBER = "(id) => window.address.remember(id)"
"""Puts the run's id into the address bar; '' leaves the address as it is."""
FILL = "query => window.address.fill(query)"
"""Loads the page again with its form filled by `query`; does nothing for ''."""


def query(spec: RunSpec) -> str:
    """Returns the query of a link that fills the form: "checkpoint=shapes-vit&batch_size=4"."""
    texts = {"text": ", ".join(spec.text)} if spec.text else {}
    arguments = catalog.arguments(spec) | texts
    return urlencode(
        {name: str(value).lower() if isinstance(value, bool) else value for name, value in arguments.items()}
    )


def change_links(spec: RunSpec, changes: OptionValues, run: bool = False) -> Markup:
    """Returns HTML links, one for each option in `changes` (new values by option name).

    A link fills the form with `spec` and the new value; with `run` it also presses Run. A model in a local folder gets
    no links.
    """
    links = Markup()
    for name, value in changes.items() if not catalog.is_folder(spec.checkpoint) else ():
        try:
            other = dataclasses.replace(spec, **{name: value})
        except (BadInput, TypeError):  # a stored result may hold anything
            continue
        verb, mark = ("Run with", Markup(" data-run")) if run else ("Set", "")
        words = f"{verb} {OPTIONS[name].label} {'' if run else 'to '}{naming.value_text(value)}"
        links += Markup('<a class="action" href="?{}"{}>{}</a>').format(query(other), mark, words)
    return links


def read_query(text: str) -> dict[str, str]:
    return dict(parse_qsl(text.removeprefix("?"), keep_blank_values=True))


def run_summary(result: RunResult) -> str:
    """Returns a stored run as Markdown, with a link that opens it."""
    link = f"[Open this run with its charts and predictions](?{urlencode({RUN: result.id})})"
    return f"{link}\n\n{markdown.of_run(Report(result))}"


def read_choices(tab: str) -> str:
    """Returns JavaScript that passes the query in the address bar to an event's handler, as its first input.

    It passes '' if `tab` already shows what the query asks for, such as filters or compared runs.
    """
    return f"(_, ...rest) => [window.address.readChoices({tab!r}), ...rest]"


def write_choices(tab: str) -> str:
    """Returns JavaScript that writes an event's only input into the address bar.

    The input is the query for what `tab` shows, such as filters or compared runs.
    """
    return f"(query) => window.address.writeChoices({tab!r}, query)"


def spec_of(query: Mapping[str, str], checkpoint: str) -> RunSpec | None:
    """Returns the spec that a link's query asks for; None if the query names no option and no checkpoint or task.

    - If the query names no checkpoint, the spec has `checkpoint`. But if the query names a task, and the catalogue does
      not have `checkpoint` for it, the spec has the first checkpoint of this task.
    - If the model needs a text or a prompt and the query has none, the spec has `catalog.QUERIES` or `catalog.PROMPT`.
    - Raises BadInput for wrong values.
    """
    values: OptionValues = {name: query[name] for name in FIELDS if name in query}
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


def fill_form(form: Form, spec: RunSpec) -> Updates:
    """Returns updates that fill the form with `spec`, except for the picture; {} for a user's own model."""
    if spec.task == OWN_MODEL:
        return {}
    hidden = unused_options(spec.task)
    values: OptionValues = {name: getattr(spec, name) for name in form.inputs if name in FIELDS and name not in hidden}
    for name in OPTIONAL:
        values[name] = "" if values[name] == OPTIONS[name].default else str(values[name])
    updates: Updates = {form.inputs[name]: gr.update(value=value) for name, value in values.items()}
    updates[form.inputs["checkpoint"]] = gr.update(choices=choices(spec.task), value=spec.checkpoint)
    text = {"value": ", ".join(spec.text)} if spec.text else {}
    updates[form.inputs["text"]] = gr.update(visible=takes_text(spec.checkpoint, spec.task), **text)
    return updates
