"""The tab of the guide's tables and this project's own: filters, the guide's charts, the table, its known faults."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Literal

import gradio as gr

from demo.core import catalog
from demo.core import format as fmt
from demo.core.codec import plain
from demo.core.errors import BadInput
from demo.core.languages import Language
from demo.core.spec import PUBLISHED_CALLS, TEXT_GENERATION
from demo.present import guide_charts, sentences
from demo.store import published
from demo.store.measured import SUBSET, further_settings, gain, settings_of
from demo.store.tables import OOM, Measured, PublishedRow
from demo.ui.html import actions, row_table
from demo.ui.html.elements import esc
from demo.ui.html.row_table import TASK_NAMES, between, milliseconds, status
from demo.ui.tabs.row_filters import ALL, RowFilters, fitted
from demo.ui.web.visitor_language import request_language, written

LISTS = {"subset": "published_table", "gpu": "gpu", "batch_size": "batch_size", "task": "task"}
FIRST = {"subset": "release", "gpu": "A100", "batch_size": "1", "task": ALL, "model": ALL}
_SUBSET_NAMES = {
    "release": "torch 2.0.1",
    "nightly": "torch 2.1 nightly",
    "reduce-overhead": "reduce-overhead",
}


class PublishedTab:
    """The components and the handler between them. Make it inside the tab that holds it."""

    def __init__(self, tab: gr.Tab) -> None:
        with gr.Column(elem_id="published"):
            heading = written(lambda lang: f'<h2 class="display small">{lang.html("published_heading")}</h2>')
            gr.HTML(heading, apply_default_css=False)
            self._filters = RowFilters("published", LISTS, FIRST)
            scope = gr.HTML(elem_id="published-scope", apply_default_css=False)
            with gr.Row(elem_id="published-charts", equal_height=False):
                durations = gr.Plot(show_label=False, elem_id="published-durations", min_width=320)
                by_batch = gr.Plot(show_label=False, elem_id="published-by-batch", min_width=320)
            table = gr.HTML(elem_id="published-table", apply_default_css=False)
        # filled when it is opened, which also reads new measured tables
        self._filters.wire(tab, self._show, [scope, durations, by_batch, table])

    def _show(
        self, query: str, subset: str, gpu: str, batch_size: str, task: str, model: str, request: gr.Request
    ) -> list[Any]:
        asked = self._filters.asked(query, (subset, gpu, batch_size, task, model))
        updates = shown(**asked, request=request)
        lists, outputs = updates[: len(LISTS)], updates[len(LISTS) :]
        chosen = asked | {name: update["value"] for name, update in zip(LISTS, lists, strict=True)}
        return self._filters.updates(query, chosen, lists, outputs)


def shown(subset: str, gpu: str, batch_size: str, task: str, model: str, request: gr.Request) -> list[Any]:
    """Updates for the four lists, the line of the scope, the two charts and the table.

    A choice that the chosen table does not have becomes "all".
    """
    tables, lang = published.tables(), request_language(request)
    asked = {"subset": subset, "gpu": gpu, "batch_size": batch_size, "task": task}
    lists, chosen = fitted(_choices(tables.rows, subset, lang), asked)
    try:
        rows = published.select(tables.rows, **chosen, model=model)
        lines = published.select(tables.rows, task=chosen["task"], model=model)
    except BadInput as refused:
        nothing = gr.update(value=None, visible=False)
        refusal = status(lang.quoted(str(refused)))
        return [*lists, refusal, nothing, nothing, _table([], tables.problems, lang)]
    one = one_setting(rows)
    comparable = guide_charts.comparable_rows(one[0], lines) if one else []
    figures = [guide_charts.durations(one, lang), guide_charts.by_batch(comparable, lang)]
    plots = [gr.update(value=figure, visible=figure is not None) for figure in figures]
    return [*lists, _scope(rows, one, lang), *plots, _table(rows, tables.problems, lang)]


def one_setting(rows: Sequence[PublishedRow]) -> list[PublishedRow]:
    """The rows with the subset, GPU and batch size of the first one: what one chart of models can show."""
    if not rows:
        return []
    first = rows[0]
    alike = (first.subset, first.gpu, first.batch_size, first.measured is None)
    return published.newest(row for row in rows if (row.subset, row.gpu, row.batch_size, row.measured is None) == alike)


def published_table(
    subset: str | None = None,
    gpu: str | None = None,
    batch_size: int | None = None,
    task: Literal["image-classification", "object-detection", "image-segmentation"] | None = None,
    model: str | None = None,
) -> dict[str, Any]:
    """The published speed-ups of torch.compile for vision models, and those that this project measured itself.

    The answer holds rows, each with origin ("published" or "measured by this project"), subset, gpu, torch, mode,
    batch_size, task, model, checkpoint, eager_ms and compiled_ms (milliseconds, or "OOM"), speedup, saved_percent and
    notes, and for measured rows speedup_low, speedup_high, dtype, weights, versions, device, driver, commit and date;
    faults, which is what is known to be wrong in the guide; sources; and problems, the measured tables that could not
    be read.

    Args:
        subset: "release" (torch 2.0.1), "nightly" or "reduce-overhead" (2.1.0.dev), or "measured" and more; else all.
        gpu: "A100", "V100" or "T4", or a device that this project measured.
        batch_size: 1, 4 or 16 in the guide.
        task: One of the three tasks.
        model: A part of a model's name or checkpoint, such as "vit" or "facebook/detr".
    """
    tables = published.tables()
    try:
        rows = published.select(tables.rows, subset, gpu, batch_size, task, model)
    except BadInput as refused:
        raise gr.Error(str(refused), print_exception=False) from refused
    return {
        "rows": [published.record(row) for row in rows],
        "faults": plain(published.faults()),
        "sources": plain(published.sources()),
        "problems": list(tables.problems),
    }


def _choices(rows: Sequence[PublishedRow], subset: str, lang: Language) -> dict[str, list[tuple[str, str]]]:
    """(label, value) of each list; GPUs, batch sizes and tasks are those of the chosen subset."""
    subsets = published.values(rows, "subset")
    within = [row for row in rows if row.subset == subset] if subset in subsets else rows
    published_here = {row.gpu for row in within if row.measured is None}
    gpus = {
        gpu: gpu if gpu in published_here else lang.plain("published_own_gpu", gpu=gpu)
        for gpu in published.values(within, "gpu")
    }
    every = (lang.plain("choice_all"), ALL)
    return {
        "subset": [every, *((_subset(name, lang), name) for name in subsets)],
        "gpu": [every, *((name, gpu) for gpu, name in gpus.items())],
        "batch_size": [every, *((str(size), str(size)) for size in published.values(within, "batch_size"))],
        "task": [every, *((lang.plain(TASK_NAMES[task]), task) for task in published.values(within, "task"))],
    }


def _subset(name: str, lang: Language) -> str:
    """The name of a subset: of the guide's, torch's version or mode; of this project's, the settings that differ."""
    if name in _SUBSET_NAMES:
        return _SUBSET_NAMES[name]
    return lang.plain("published_own_table", settings=name.removeprefix(SUBSET).strip()).strip()


def _scope(rows: Sequence[PublishedRow], one: Sequence[PublishedRow], lang: Language) -> str:
    """What the charts show, if that is less than the table shows."""
    if not rows:
        return status(lang.html("published_no_row"))
    first = one[0]
    if len(one) == len(rows):
        return ""
    setting: dict[str, object] = {"gpu": first.gpu, "batch": first.batch_size, "torch": first.torch, "mode": first.mode}
    return status(lang.html("published_scope", **setting))


def _table(rows: Sequence[PublishedRow], problems: Sequence[str], lang: Language) -> str:
    every = published.tables().rows
    count = sentences.count(len(rows), "row", lang)
    links = "".join(
        f'<a class="download" download="worth-compiling-published.{kind}" '
        f'href="data:{mime};base64,{base64.b64encode(text.encode()).decode()}">{kind.upper()}</a>'
        for kind, mime, text in (
            ("csv", "text/csv", published.to_csv(rows)),
            ("json", "application/json", published.to_json(rows)),
        )
    )
    unread = "".join(status(lang.quoted(problem), "unread") for problem in problems)
    made_up = any(row.measured is not None and row.measured.weights == "random" for row in rows)
    random = status(lang.html("published_random")) if made_up else ""
    lines = (_line(row, gain(row, every), lang) for row in rows)
    body = row_table.table(_COLUMNS, lines, count, lang) if rows else ""
    return (
        f'<section class="explorer"><div class="above"><h3>{lang.marked(count)}</h3>'
        f"<p>{lang.html('published_download')} {links}</p></div>{random}{unread}{body}{_about(lang)}</section>"
    )


_COLUMNS = (
    ("column_model", ""),
    ("tab_run", "here"),
    ("gpu", ""),
    ("column_batch", "figure"),
    ("column_eager", "figure"),
    ("column_compiled", "figure"),
    ("row_speedup", "figure strong"),
    ("column_saved", "figure saved"),
    ("column_with", "how"),
)


def _line(row: PublishedRow, brought: float | None, lang: Language) -> tuple[str, ...]:
    """`brought` is what the row's further settings brought: see `gain`."""
    own = row.measured
    how = f"torch {row.torch}, {row.mode}"
    if own:
        how = ", ".join([how, own.dtype, *further_settings(row), own.date])
    faults = published.faults_at(row)
    noted = "".join(f'<small class="note">{lang.quoted(note)}</small>' for note in faults)
    saved = f"{row.saved * 100:.1f} %".replace("-", "−") if row.saved is not None else OOM
    return (
        f"{lang.value(row.model)}{' †' if faults else ''}<small>{lang.value(row.checkpoint)}</small>{noted}",
        _here(row, lang),
        lang.value(row.gpu),
        lang.value(row.batch_size),
        lang.value(milliseconds(row.eager_seconds, OOM)),
        lang.value(milliseconds(row.compiled_seconds, OOM)),
        lang.value(fmt.ratio(row.speedup) if row.speedup is not None else OOM)
        + (between(own.low, own.high, lang) if own else "")
        + _against(row, brought, lang),
        lang.value(saved),
        lang.value(how) + "".join(f"<small>{words}</small>" for words in _conditions(own, lang)),
    )


def _against(row: PublishedRow, brought: float | None, lang: Language) -> str:
    """'0.36× as fast as without freezing'."""
    if brought is None:
        return ""
    told = lang.html("published_against", ratio=fmt.ratio(brought), settings=", ".join(further_settings(row)))
    return f'<small class="against">{told}</small>'


def _conditions(own: Measured | None, lang: Language) -> list[str]:
    """Whose row it is, and with which threads and repeats it was measured, as HTML."""
    if own is None:
        return []
    words = [lang.html("published_measured")]
    if own.threads is not None:
        words.append(lang.marked(sentences.count(own.threads, "thread", lang)))
    if own.repeats is not None and own.repeats > 1:
        words.append(lang.html("asked_repeats", repeats=own.repeats))
    return words


def _here(row: PublishedRow, lang: Language) -> str:
    """A link that fills the form with what this row measured; '' if this page cannot run that.

    How often and how long it was timed is left to the form.
    """
    asked: dict[str, Any] = {"batch_size": row.batch_size, "mode": row.mode}
    if row.measured is not None:
        asked |= settings_of(row.subset) | {"dtype": row.measured.dtype, "weights": row.measured.weights}
    known = catalog.find(row.checkpoint)
    if known is not None and known.takes_text:
        asked["text"] = catalog.QUERIES
    if row.task == TEXT_GENERATION:
        asked.setdefault("prompt", catalog.PROMPT)
    # '' for a checkpoint or a batch that this page does not run, a mode of another torch
    return actions.fill(lang.html("run_this_here"), checkpoint=row.checkpoint, task=row.task, **asked)


def _about(lang: Language) -> str:
    """Below the table: how the guide measured, its known faults, its sources."""
    general = [fault for fault in published.faults() if fault.rows is None]
    wrong = "".join(
        f"<li>{lang.passage(f'{esc(fault.note)} <small>{esc(fault.source)}.</small>')}</li>" for fault in general
    )
    sources = "".join(
        f'<li>{lang.quoted(source.what)}: <a href="{where}" target="_blank" rel="noopener"{lang.ltr}>{where}</a></li>'
        for source in published.sources()
        for where in [esc(source.where)]
    )
    about = lang.html("published_about_words", year=2023, calls=PUBLISHED_CALLS, formula="1 − 1 / speed-up")
    return (
        f"<h3>{lang.html('published_about')}</h3><p>{about}</p>"
        f"<h3>{lang.html('published_faults')}</h3><ul>{wrong}</ul>"
        f"<h3>{lang.html('published_sources')}</h3><ul>{sources}</ul>"
    )
