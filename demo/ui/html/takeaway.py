"""What a visitor can take away from a result: its link, its card, code, a script, figures, a table to paste."""

import base64
import json
import os
import re
from urllib.parse import quote

import gradio as gr
from markupsafe import Markup

from demo.core import catalog, limits
from demo.core.result import RunResult
from demo.core.result_json import to_json
from demo.core.spec import BadInput
from demo.present import card, markdown, sentences
from demo.present.script import change, needs_folder, script, short_starts, snippet
from demo.ui import look
from demo.ui.html.elements import drawn, find_best
from demo.ui.tabs.links import RUN

ADDRESS = "{ADDRESS}"
"""Placeholder for the server's address, which the browser fills in: see `component`."""
SPACES = "https://huggingface.co/spaces"

SCRIPT = look.source("takeaway.js")
_TEMPLATE = (
    "${value.replaceAll('{ADDRESS}', () => (window.gradio_config?.root || location.origin).replace(/\\/$/, ''))}"
)


def component(name: str) -> gr.HTML:
    """An empty, hidden section. The browser replaces ADDRESS by the address under which it reached the page."""
    return gr.HTML(visible=False, elem_id=name, apply_default_css=False, html_template=_TEMPLATE, js_on_load=SCRIPT)


def section(result: RunResult) -> Markup:
    """Everything to take away; what does not apply to this run says why."""
    source, refused = "", ""
    try:
        source = script(result)
    except BadInput as problem:
        refused = str(problem)
    timed = result.speedup is not None
    pieces = {"script": source, "table": markdown.of_run(result) if timed else ""}
    return drawn(
        "takeaway.section",
        pieces,
        name=re.sub(r"[^A-Za-z0-9.-]+", "-", f"{sentences.short(result.spec.checkpoint)}-{result.id}").strip("-."),
        json=_base64(json.dumps(to_json(result), allow_nan=False, indent=2)),
        script_data=_base64(source),
        refused=refused,
        in_folder=needs_folder(result.spec),
        own_picture=result.spec.sees_picture and not (result.image and catalog.find_scene(result.image.sha256)),
        search=find_best(result.spec) if timed else "",
        change=change(result.spec) if timed else "",
        snippet=snippet(result) if timed else "",
    )


def best_way(result: RunResult) -> Markup:
    """Below titles that open them: the lines of code that load, compile and call the run's model, and the commands that
    shorten the start of its next process."""
    folder, starts = needs_folder(result.spec), short_starts(result.spec)
    return drawn("takeaway.best_way", folder, snippet(result), starts)


def _base64(content: str | bytes) -> str:
    return base64.b64encode(content.encode() if isinstance(content, str) else content).decode()


# The line under an answer


def space() -> str:
    """The address of the Space that serves this page; '' if none does."""
    return f"{SPACES}/{os.environ['SPACE_ID']}" if limits.on_space() else ""


def link(result: RunResult) -> str:
    """The address of a stored run."""
    return f"{space() or f'{ADDRESS}/'}?{RUN}={quote(result.id, safe='')}"


def share(result: RunResult, stored: bool) -> Markup:
    """The line under the answer. Only a stored run has a link."""
    title, address = card.title(result), link(result) if stored else ""
    return drawn("takeaway.share", result, title, address, _base64(card.card(result)))
