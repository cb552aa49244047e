"""What a visitor carries off from a result: script, figure, a table to paste, the calls that ask for the run again."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import shlex
from typing import Any

import gradio as gr

from demo.core import catalog, stats
from demo.core import format as fmt
from demo.core.languages import ENGLISH, Language
from demo.core.result import BadInput, Measurement, RunResult, RunSpec
from demo.present.script import literal, picture, script
from demo.ui.html.elements import esc

ADDRESS = "{ADDRESS}"
"""Stands for the server's own address, which the browser knows: see `component`."""
UPLOADED = "photo.jpg"
"""What a picture is called that did not ship with the project."""

_TEMPLATE = (
    "${value.replaceAll('{ADDRESS}', () => (window.gradio_config?.root || location.origin).replace(/\\/$/, ''))}"
)
_SCRIPT = """
const told = (button, words) => {
  const before = button.dataset.words ??= button.textContent;
  button.textContent = words;
  setTimeout(() => { button.textContent = before; }, 2000);
};
const copied = async text => {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {  // no permission, or a page that is not served over https
    const field = Object.assign(document.createElement('textarea'), { value: text });
    document.body.append(field);
    field.select();
    const done = document.execCommand('copy');
    field.remove();
    return done;
  }
};
const saved = (uri, name) => Object.assign(document.createElement('a'), { href: uri, download: name }).click();
element.addEventListener('click', async event => {
  const button = event.target.closest('button');
  if (!button) return;
  if (button.dataset.copies) {
    const text = element.querySelector('#' + button.dataset.copies).textContent;
    told(button, await copied(text) ? button.dataset.done : button.dataset.failed);
    button.focus();
  } else if (button.dataset.figure) {
    const plot = document.querySelector('#chart .js-plotly-plot');
    if (!plot || !window.Plotly) return told(button, button.dataset.failed);
    const layout = { ...plot.layout, paper_bgcolor: '#ffffff', plot_bgcolor: '#ffffff' };
    const how = { format: button.dataset.figure, width: 800, height: plot.clientHeight, scale: 2 };
    saved(await window.Plotly.toImage({ data: plot.data, layout }, how), button.dataset.name);
  }
});
"""
"""Plotly is on the page already: it draws the figure as PNG and SVG with no help from a server."""


def component() -> gr.HTML:
    """The section's place, empty. The browser puts in the address by which it reached the page."""
    return gr.HTML(
        visible=False, elem_id="takeaway", apply_default_css=False, html_template=_TEMPLATE, js_on_load=_SCRIPT
    )


def section(result: RunResult, say: Language = ENGLISH, address: str = ADDRESS) -> str:
    """Everything to take away, as HTML. What does not apply to this run is left out, with a word on why."""
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", f"{result.spec.checkpoint.rsplit('/', 1)[-1]}-{result.id}").strip("-.")
    files, pieces = [], []
    try:
        source = script(result)
    except BadInput as refused:
        files.append(f"<span>{say.quoted(str(refused))}</span>")
    else:
        data = base64.b64encode(source.encode()).decode()
        files.append(_download(say.html("take_script_link"), f"{name}.py", f"data:text/x-python;base64,{data}"))
        words = say.html("take_script_words")
        if picture(result) is None:
            words += f" {say.html('take_script_picture')}"
        pieces.append(_piece(say, "script", say.plain("take_script"), words, source))
    if result.speedup is not None:
        files += [_figure(say, name, kind) for kind in ("png", "svg")]
        pieces.append(_piece(say, "table", say.plain("take_table"), say.html("take_table_words"), markdown(result)))
    if catalog.is_folder(result.spec.checkpoint):
        files.append(f"<span>{say.html('take_no_call')}</span>")
    else:
        pieces.append(_piece(say, "curl", "curl", say.html("take_curl_words"), curl(result, address)))
        pieces.append(_piece(say, "client", "gradio_client", say.html("take_client_words"), client(result, address)))
    listed = f'<p class="files">{"".join(files)}</p>'
    return f'<section class="takeaway"><h3>{say.html("take_heading")}</h3>{listed}{"".join(pieces)}</section>'


def _download(words: str, name: str, uri: str) -> str:
    return f'<a download="{esc(name)}" href="{uri}">{words}</a>'


def _figure(say: Language, name: str, kind: str) -> str:
    failed = esc(say.plain("take_no_figure"))
    return (
        f'<button type="button" data-figure="{kind}" data-name="{esc(name)}.{kind}" data-failed="{failed}">'
        f"{say.html('take_figure', kind=kind.upper())}</button>"
    )


def _piece(say: Language, name: str, title: str, words: str, text: str) -> str:
    told = f'data-done="{esc(say.plain("take_copied"))}" data-failed="{esc(say.plain("take_not_copied"))}"'
    copy = f'<button type="button" data-copies="take-{name}" {told}>{say.html("take_copy", name=title)}</button>'
    return (
        f"<details><summary>{title}</summary>"
        f'<p class="what"><span>{words}</span> {copy}</p>'
        f'<pre dir="ltr" tabindex="0" role="group" aria-label="{title}">'
        f'<code id="take-{name}">{esc(text)}</code></pre></details>'
    )


def arguments(spec: RunSpec) -> dict[str, Any]:
    """What `/benchmark` is to be told for this spec, defaults left out; the picture apart."""
    asked: dict[str, Any] = {"checkpoint": spec.checkpoint}
    if catalog.find(spec.checkpoint) is None:
        asked["task"] = spec.task
    for field in dataclasses.fields(spec):
        value = getattr(spec, field.name)
        if field.name in ("checkpoint", "task") or value == field.default:
            continue
        asked[field.name] = ", ".join(value) if field.name == "text" else value
    return asked


def curl(result: RunResult, address: str) -> str:
    """Shell: uploads the picture, starts the run, and waits on the event stream for its JSON."""
    path = picture(result) or UPLOADED
    before = json.dumps(arguments(result.spec))[:-1] + ', "image": {"path": "'
    after = '", "meta": {"_type": "gradio.FileData"}}}'
    call = "$SERVER/gradio_api/call/v2/benchmark"
    return (
        f"SERVER={address}\n"
        f"FILE=$(curl -s -F {shlex.quote(f'files=@{path}')} $SERVER/gradio_api/upload | cut -d '\"' -f 2)\n"
        f"RUN=$(curl -s {call} -H 'Content-Type: application/json' \\\n"
        f'  -d {shlex.quote(before)}"$FILE"{shlex.quote(after)} | cut -d \'"\' -f 4)\n'
        f"curl -sN {call}/$RUN\n"
    )


def client(result: RunResult, address: str) -> str:
    """Python for gradio_client."""
    path = picture(result) or UPLOADED
    given = "".join(f"    {name}={literal(value)},\n" for name, value in arguments(result.spec).items())
    return (
        "from gradio_client import Client, handle_file\n\n"
        f'client = Client("{address}")\n'
        f"result = client.predict(\n{given}    image=handle_file({literal(path)}),\n"
        '    api_name="/benchmark",\n)\n'
        'print(result["speedup"])\n'
    )


def markdown(result: RunResult) -> str:
    """A GitHub table of the two variants, with what they belong to below it."""
    spec, machine, found = result.spec, result.environment, result.speedup
    if found is None or result.eager is None or result.compiled is None:
        raise ValueError("only a run with figures has a table")
    sides = (result.eager, result.compiled)
    rows = [
        ("median of a call", *(fmt.latency(side.median_seconds) for side in sides)),
        ("95th percentile", *(fmt.latency(side.p95_seconds) for side in sides)),
        ("images per second", *(_rate(side, spec) for side in sides)),
        ("first compiled call", "", fmt.duration(result.compilation.first_call_seconds) if result.compilation else ""),
        (
            "speed-up",
            "",
            f"**{fmt.ratio(found.ratio)}** ({fmt.ratio_interval(found.low, found.high)}), {found.verdict}",
        ),
    ]
    if result.control is not None:
        rows.append(("noise floor", "", f"±{fmt.percent(stats.noise_floor(result.control))}"))
    table = ["| | eager | compiled |", "|---|--:|--:|", *(f"| {' | '.join(row)} |" for row in rows)]
    asked = [f"batch {spec.batch_size}", f"mode {spec.mode}", spec.dtype, f"{spec.weights} weights", spec.protocol]
    asked += [name.replace("_", " ") for name in ("fullgraph", "channels_last", "graph_break") if getattr(spec, name)]
    where = [machine.device_name, f"torch {machine.torch}", f"transformers {machine.transformers}"] if machine else []
    told = ", ".join(map(_plain, [spec.checkpoint, *asked, *where, result.started_at[:10]]))
    return "\n".join([*table, "", f"{told}.", ""])


def _rate(side: Measurement, spec: RunSpec) -> str:
    return fmt.rate(spec.batch_size / side.median_seconds)


def _plain(text: str) -> str:
    """Text that Markdown shows as it is, in one line."""
    return re.sub(r"([\\`*_{}\[\]<>|#~])", r"\\\1", " ".join(text.split()))
