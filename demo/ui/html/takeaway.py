"""What a visitor can take away from a result: link, card and badge, what to try next, code, figures, a table to paste,
calls of the API."""

import base64
import json
import os
import re
import shlex
from typing import Any
from urllib.parse import quote

import gradio as gr
from markupsafe import Markup

from demo.core import catalog, format as fmt, limits
from demo.core.languages import Language
from demo.core.result import RunResult
from demo.core.spec import BadInput
from demo.present import link_preview, markdown, sentences
from demo.present.advice import next_steps, start_seconds
from demo.present.script import literal, needs_folder, script, short_starts, snippet
from demo.present.sentences import outcome
from demo.ui import look
from demo.ui.html.elements import drawn, find_best
from demo.ui.tabs.form import find_picture
from demo.ui.tabs.links import RUN

ADDRESS = "{ADDRESS}"
"""Placeholder for the server's address, which the browser fills in: see `component`."""
UPLOADED = "YOUR_PICTURE.png"
"""Placeholder for the path of a picture that a visitor uploaded."""
SPACES = "https://huggingface.co/spaces"

SCRIPT = look.source("takeaway.js")
_TEMPLATE = (
    "${value.replaceAll('{ADDRESS}', () => (window.gradio_config?.root || location.origin).replace(/\\/$/, ''))}"
)


def component(name: str) -> gr.HTML:
    """An empty, hidden section. The browser replaces ADDRESS by the address under which it reached the page."""
    return gr.HTML(visible=False, elem_id=name, apply_default_css=False, html_template=_TEMPLATE, js_on_load=SCRIPT)


def section(result: RunResult, lang: Language, badge: str = "") -> Markup:
    """Everything to take away; what does not apply to this run says why. `badge` is a stored run's, as Markdown."""
    source, refused = "", ""
    try:
        source = script(result)
    except BadInput as problem:
        refused = str(problem)
    timed, callable_here = result.speedup is not None, not catalog.is_folder(result.spec.checkpoint)
    pieces = {
        "script": source,
        "table": markdown.of_run(result) if timed else "",
        "badge": badge,
        "curl": curl(result, ADDRESS) if callable_here else "",
        "client": client(result, ADDRESS) if callable_here else "",
    }
    return drawn(
        "takeaway.section",
        lang,
        pieces,
        name=re.sub(r"[^A-Za-z0-9.-]+", "-", f"{sentences.short(result.spec.checkpoint)}-{result.id}").strip("-."),
        json=_base64(json.dumps(result.to_json(), allow_nan=False, indent=2)),
        script_data=_base64(source),
        refused=refused,
        in_folder=needs_folder(result.spec),
        placeholder=UPLOADED if uploads(result) else "",
        known=next((step.words for step in next_steps(result, lang)), ""),
        search=find_best(result.spec, lang) if timed else "",
        snippet=snippet(result) if timed else "",
        traffic=_traffic(result, lang),
    )


def best_way(result: RunResult, lang: Language) -> Markup:
    """Below titles that open them: the lines of code that load, compile and call the run's model, and the commands that
    shorten the start of its next process."""
    folder, starts = needs_folder(result.spec), short_starts(result.spec)
    return drawn("takeaway.best_way", lang, folder, snippet(result), starts)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _traffic(result: RunResult, lang: Language) -> Markup:
    """Fields for the visitor's own traffic; the browser works out what compiling saves or costs them in a month."""
    start = start_seconds(result)
    if start is None or outcome(result) not in ("faster", "slower"):
        return Markup()
    # Of a text model whole answers are counted.
    times = zip(result.latencies, result.answer_seconds or result.latencies.values(), strict=True)
    data = {name: f"{seconds:.9g}" for name, seconds in times} | {"start": f"{start:.9g}"}
    return drawn("takeaway.traffic", lang, data, fmt.start_time(start), result.answer_seconds is not None)


def example(result: RunResult) -> str | None:
    """The name of the run's picture if it is one of the examples; None for an upload."""
    picture = find_picture(result.image.sha256) if result.image else None
    return picture.stem if picture else None


def uploads(result: RunResult) -> bool:
    """Whether a call that repeats the run has to bring a picture along."""
    return result.spec.sees_picture and example(result) is None


def _asked(result: RunResult) -> dict[str, Any]:
    """What a call that repeats the run asks for, but for a picture of the visitor's own."""
    named = example(result)
    return catalog.arguments(result.spec) | ({"example": named} if named is not None else {})


def curl(result: RunResult, address: str) -> str:
    """Shell commands that upload the picture, start the run and wait for its JSON on the event stream."""
    given, upload = shlex.quote(json.dumps(_asked(result))), []
    if uploads(result):
        upload = [f"FILE=$(curl -sS -F files=@{UPLOADED} $SERVER/gradio_api/upload | cut -d '\"' -f 2)"]
        image = """, "image": {"path": "'"$FILE"'", "meta": {"_type": "gradio.FileData"}}}'"""
        given = given.removesuffix("}'") + image
    call = "$SERVER/gradio_api/call/v2/benchmark"
    lines = [
        f"SERVER={address}",
        *upload,
        f"RUN=$(curl -sS {call} -H 'Content-Type: application/json' \\",
        f"  -d {given} | cut -d '\"' -f 4)",
        f"curl -sSN {call}/$RUN",
    ]
    return "\n".join([*lines, ""])


def client(result: RunResult, address: str) -> str:
    """Python code for gradio_client."""
    given = [f"{name}={literal(value)}" for name, value in _asked(result).items()]
    if uploads(result):
        given.append(f"image=handle_file({literal(UPLOADED)})")
    lines = [
        f"from gradio_client import Client{', handle_file' if uploads(result) else ''}",
        f'client = Client("{address}")',
        "result = client.predict(",
        *(f"    {one}," for one in [*given, 'api_name="/benchmark"']),
        ")",
        'print(result["status"], result["speedup"])',
    ]
    return "\n".join([*lines, ""])


# The line under an answer


def space() -> str:
    """The address of the Space that serves this page; '' if none does."""
    return f"{SPACES}/{os.environ['SPACE_ID']}" if limits.on_space() else ""


def link(result: RunResult) -> str:
    """The address of a stored run."""
    return f"{space() or f'{ADDRESS}/'}?{RUN}={quote(result.id, safe='')}"


def badge(result: RunResult) -> str:
    """A stored run's badge, a link to the run, as Markdown."""
    says = markdown.escaped(f"torch.compile: {link_preview.badge_text(result)}")
    # of a Space the server's own address: huggingface.co serves no badge
    hosts = os.environ.get("SPACE_HOST", "").replace(",", " ").split() if limits.on_space() else []
    host = f"https://{hosts[0]}" if hosts else ADDRESS
    return f"[![{says}]({host}/badge/{quote(result.id, safe='')}.svg)]({link(result)})"


def share(result: RunResult, stored: bool, lang: Language) -> Markup:
    """The line under the answer. Only a stored run has a link."""
    card = f"{ADDRESS}/card/{quote(result.id, safe='')}.png"
    title = link_preview.title(result, lang)
    return drawn("takeaway.share", lang, result, title, link(result) if stored else "", card)
