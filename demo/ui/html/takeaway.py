"""What a visitor can take away from a result: what to try next, code, figures, a table to paste, calls of the API."""

from __future__ import annotations

import base64
import json
import re
import shlex

import gradio as gr

from demo.core import catalog
from demo.core import format as fmt
from demo.core.errors import BadInput
from demo.core.languages import Language
from demo.core.result import RunResult
from demo.present import markdown
from demo.present.advice import next_steps, start_seconds
from demo.present.script import literal, needs_folder, script, snippet
from demo.present.sentences import outcome
from demo.ui.html import actions
from demo.ui.html.elements import esc
from demo.ui.tabs.form import find_picture

ADDRESS = "{ADDRESS}"
"""Placeholder for the server's address, which the browser fills in: see `component`."""
UPLOADED = "YOUR_PICTURE.png"
"""Placeholder for the path of a picture that a visitor uploaded."""

_TEMPLATE = (
    "${value.replaceAll('{ADDRESS}', () => (window.gradio_config?.root || location.origin).replace(/\\/$/, ''))}"
)
_SCRIPT = """
const saved = (uri, name) => Object.assign(document.createElement('a'), { href: uri, download: name }).click();
element.addEventListener('click', async event => {
  const button = event.target.closest('button');
  if (!button) return;
  if (button.dataset.copies) {
    const text = element.querySelector('#' + button.dataset.copies);
    const done = await window.copying.copy(button, text.textContent);
    if (!done) getSelection().selectAllChildren(text);  // Ctrl+C then copies it
  } else if (button.dataset.figure) {
    const plot = document.querySelector('#chart .js-plotly-plot');
    if (!plot || !window.Plotly) return window.copying.say(button, button.dataset.failed);
    const layout = { ...plot.layout, paper_bgcolor: '#ffffff', plot_bgcolor: '#ffffff' };
    const how = { format: button.dataset.figure, width: 800, height: plot.clientHeight, scale: 2 };
    saved(await window.Plotly.toImage({ data: plot.data, layout }, how), button.dataset.name);
  }
});
element.addEventListener('input', event => {
  const traffic = event.target.closest('.traffic');
  if (!traffic) return;
  const given = name => Math.max(0, Number(traffic.querySelector('[name=' + name + ']').value) || 0);
  const { eager, compiled, start, saves, costs, money } = traffic.dataset;
  const saved = 30 * (given('calls') * (eager - compiled) - given('restarts') * start);
  const size = Math.abs(saved);
  const units = size < 120 ? [1, 's', 1] : size < 7200 ? [60, 'min', 0] : [3600, 'h', 1];
  const isolated = value => '\u2066' + value + '\u2069';  // left to right in Arabic, too
  const time = isolated((size / units[0]).toFixed(units[2]) + ' ' + units[1]);
  let text = (saved < 0 ? costs : saves).replace('{time}', () => time);
  if (given('price')) text += ' ' + money.replace('{money}', () => isolated((size / 3600 * given('price')).toFixed(2)));
  traffic.querySelector('output').textContent = given('calls') || given('restarts') ? text : '';
});
"""
"""Copy buttons, and the figure as PNG and SVG, which Plotly draws in the browser, and the sums of a month."""


def component(name: str) -> gr.HTML:
    """An empty, hidden section. The browser replaces ADDRESS by the address under which it reached the page."""
    return gr.HTML(visible=False, elem_id=name, apply_default_css=False, html_template=_TEMPLATE, js_on_load=_SCRIPT)


def section(result: RunResult, lang: Language, address: str = ADDRESS, badge: str = "") -> str:
    """Everything to take away, as HTML. Says what does not apply to this run, and why.

    `badge` is the Markdown of a stored run's badge.
    """
    name = _file_name(result)
    files, pieces = [json_link(result, lang)], []
    try:
        source = script(result)
    except BadInput as refused:
        files.append(f"<span>{lang.quoted(str(refused))}</span>")
    else:
        data = base64.b64encode(source.encode()).decode()
        files.append(_download(lang.html("take_script_link"), f"{name}.py", f"data:text/x-python;base64,{data}"))
        words = lang.html("take_script_words")
        if needs_folder(result.spec):
            words += f" {lang.html('take_code_folder')}"
        if uploads(result):
            words += f" {lang.html('take_script_picture')}"
        pieces.append(_piece(lang, "script", lang.plain("take_script"), words, source))
    if result.speedup is not None:
        files += [_figure(lang, name, kind) for kind in ("png", "svg")]
        pieces.append(
            _piece(lang, "table", lang.plain("take_table"), lang.html("take_table_words"), markdown.of_run(result))
        )
    if badge:
        pieces.append(_piece(lang, "badge", lang.plain("take_badge"), lang.html("take_badge_words"), badge))
    if catalog.is_folder(result.spec.checkpoint):
        files.append(f"<span>{lang.html('take_no_call')}</span>")
    else:
        own = f" {lang.html('take_own_picture', placeholder=UPLOADED)}" if uploads(result) else ""
        pieces.append(_piece(lang, "curl", "curl", lang.html("take_curl_words") + own, curl(result, address)))
        words = lang.html("take_client_words") + own
        pieces.append(_piece(lang, "client", "gradio_client", words, client(result, address)))
    if result.speedup is not None:
        title, lines = lang.plain("take_code"), lang.plain("take_code_lines")
        words = lang.html("take_code_folder") if needs_folder(result.spec) else ""
        pieces[:0] = [_piece(lang, "code", title, words, snippet(result), lines), _traffic(result, lang)]
    listed = f'<p class="files">{"".join(files)}</p>'
    return f'<section class="takeaway">{_next_steps(result, lang)}{"".join(pieces)}{listed}</section>'


def _next_steps(result: RunResult, lang: Language) -> str:
    """Other ways to compile, each with a button that tries it where the page can."""
    steps = next_steps(result, lang)
    if not steps:
        return ""
    said = "".join(
        f"<p>{lang.marked(step.words)} {actions.step(result, step.option, step.value, lang)}</p>" for step in steps
    )
    return f'<div class="next"><h4>{lang.html("take_next")}</h4>{said}</div>'


def json_link(result: RunResult, lang: Language) -> str:
    data = base64.b64encode(json.dumps(result.to_json(), allow_nan=False, indent=2).encode()).decode()
    return _download(lang.html("download_json"), f"{_file_name(result)}.json", f"data:application/json;base64,{data}")


def _file_name(result: RunResult) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "-", f"{result.spec.checkpoint.rsplit('/', 1)[-1]}-{result.id}").strip("-.")


def _traffic(result: RunResult, lang: Language) -> str:
    """Fields for the visitor's own traffic; the browser works out what compiling saves or costs them in a month."""
    start = start_seconds(result)
    if start is None or outcome(result) not in ("faster", "slower"):
        return ""
    answers = result.answer_seconds is not None
    # Of a text model whole answers are counted.
    times = zip(result.latencies, result.answer_seconds or result.latencies.values(), strict=True)
    sides = {name: f"{seconds:.9g}" for name, seconds in times} | {"start": f"{start:.9g}"}
    texts = {name: lang.texts[f"traffic_{name}"] for name in ("saves", "costs", "money")}
    data = " ".join(f'data-{name}="{esc(value)}"' for name, value in (sides | texts).items())
    fields = "".join(
        f'<label>{lang.html(f"traffic_{key}")} <input type="number" min="0" step="any" name="{name}"></label>'
        for name, key in (("calls", "answers" if answers else "calls"), ("restarts", "restarts"), ("price", "price"))
    )
    note = lang.html("traffic_note_answers" if answers else "traffic_note", time=fmt.start_time(start))
    return (
        f"<details><summary>{lang.html('take_traffic')}</summary>"
        f'<div class="traffic" {data}>{fields}<output></output></div><p class="what"><span>{note}</span></p></details>'
    )


def _download(words: str, name: str, uri: str) -> str:
    return f'<a download="{esc(name)}" href="{uri}">{words}</a>'


def _figure(lang: Language, name: str, kind: str) -> str:
    failed = esc(lang.plain("take_no_figure"))
    return (
        f'<button type="button" data-figure="{kind}" data-name="{esc(name)}.{kind}" data-failed="{failed}">'
        f"{lang.html('take_figure', kind=kind.upper())}</button>"
    )


def _piece(lang: Language, name: str, title: str, words: str, text: str, called: str = "") -> str:
    """`called` is what the button says that it copies; the title, unless it is given."""
    messages = f'data-done="{esc(lang.plain("take_copied"))}" data-failed="{esc(lang.plain("take_not_copied"))}"'
    says = lang.html("take_copy", name=called or title)
    copy = f'<button type="button" data-copies="take-{name}" {messages}>{says}</button>'
    return (
        f"<details><summary>{title}</summary>"
        f'<p class="what"><span>{words}</span> {copy}</p>'
        f'<pre dir="ltr" tabindex="0" role="group" aria-label="{title}">'
        f'<code id="take-{name}">{esc(text)}</code></pre></details>'
    )


def example(result: RunResult) -> str | None:
    """The name of the run's picture if it is one of the examples; None for an upload."""
    picture = find_picture(result.image.sha256) if result.image else None
    return picture.stem if picture else None


def uploads(result: RunResult) -> bool:
    """Whether a call that repeats the run has to bring a picture along."""
    return result.spec.sees_picture and example(result) is None


def curl(result: RunResult, address: str) -> str:
    """Shell commands that upload the picture, start the run and wait for its JSON on the event stream."""
    asked, named = catalog.arguments(result.spec), example(result)
    call = "$SERVER/gradio_api/call/v2/benchmark"
    given = shlex.quote(json.dumps(asked | ({"example": named} if named else {})))
    before, after = [], []
    if uploads(result):
        start, end = json.dumps(asked)[:-1] + ', "image": {"path": "', '", "meta": {"_type": "gradio.FileData"}}}'
        given = f'{shlex.quote(start)}"$FILE"{shlex.quote(end)}'
        before = [
            f"PICTURE={UPLOADED}",
            'if [ -f "$PICTURE" ]; then',
            'FILE=$(curl -sS -F "files=@$PICTURE" $SERVER/gradio_api/upload | cut -d \'"\' -f 2)',
        ]
        after = ["else", 'echo "There is no file $PICTURE here: put the path of your picture after PICTURE="', "fi"]
    return "\n".join(
        [
            f"SERVER={address}",
            *before,
            f"RUN=$(curl -sS {call} -H 'Content-Type: application/json' \\",
            f"  -d {given} | cut -d '\"' -f 4)",
            f"curl -sSN {call}/$RUN",
            *after,
            "",
        ]
    )


def client(result: RunResult, address: str) -> str:
    """Python code for gradio_client."""
    given = "".join(f"    {name}={literal(value)},\n" for name, value in catalog.arguments(result.spec).items())
    named = example(result)
    lines, picture = ["from gradio_client import Client"], ""
    if uploads(result):
        lines = [
            "from pathlib import Path",
            "",
            "from gradio_client import Client, handle_file",
            "",
            f"picture = {literal(UPLOADED)}",
            "if not Path(picture).is_file():",
            '    raise SystemExit(f"There is no file {picture} here: put the path of your picture in its place.")',
        ]
        picture = "    image=handle_file(picture),\n"
    elif named is not None:
        picture = f"    example={literal(named)},\n"
    call = f'result = client.predict(\n{given}{picture}    api_name="/benchmark",\n)'
    return "\n".join([*lines, f'client = Client("{address}")', call, 'print(result["status"], result["speedup"])', ""])
