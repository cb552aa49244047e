"""The tab of the guide's tables and this project's own: filters, the guide's charts, the table, its known faults."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Literal

import gradio as gr

from demo.core import format as fmt
from demo.core.languages import ENGLISH, Language
from demo.core.result import PUBLISHED_CALLS, BadInput, PublishedRow, plain
from demo.present import guide_charts as published_charts
from demo.present import section_texts as words
from demo.store import published
from demo.store.measured import OOM, SUBSET
from demo.ui.html.elements import esc
from demo.ui.web.visitor_language import label, of

ALL = ""
"""The value of a filter that asks nothing."""
FIRST = {"subset": "release", "gpu": "A100", "batch_size": "1", "task": ALL}
_TASK_NAMES = {
    "image-classification": "task_classification",
    "object-detection": "task_detection",
    "image-segmentation": "task_segmentation",
}
_SUBSET_NAMES = {
    "release": "torch 2.0.1",
    "nightly": "torch 2.1 nightly",
    "reduce-overhead": "reduce-overhead",
}


class PublishedTab:
    """The components and the handler between them. Make it inside the tab that holds it."""

    def __init__(self, tab: gr.Tab) -> None:
        rows = published.tables().rows
        with gr.Column(elem_id="published"):
            with gr.Row(elem_id="published-filters", equal_height=False):
                choices = _choices(rows, FIRST["subset"], ENGLISH)
                names = (("subset", "published_table"), ("gpu", "gpu"), ("batch_size", "batch_size"), ("task", "task"))
                self.filters: dict[str, gr.components.Component] = {
                    column: gr.Dropdown(choices[column], value=FIRST[column], label=label(name), min_width=120)
                    for column, name in names
                }
                self.filters["model"] = gr.Textbox(
                    label=label("published_search"), placeholder="ViT, resnet-50 …", max_length=80, min_width=120
                )
            self.scope = gr.HTML(elem_id="published-scope", apply_default_css=False)
            with gr.Row(elem_id="published-charts", equal_height=False):
                self.durations = gr.Plot(show_label=False, elem_id="published-durations", min_width=320)
                self.improvements = gr.Plot(show_label=False, elem_id="published-improvements", min_width=320)
            self.by_batch = gr.Plot(show_label=False, elem_id="published-by-batch")
            self.table = gr.HTML(elem_id="published-table", apply_default_css=False)
        inputs = list(self.filters.values())
        outputs = [*inputs[:-1], self.scope, self.durations, self.improvements, self.by_batch, self.table]
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}
        # A tab that nobody opens costs nothing: it is filled when it is opened, and measured tables are read anew.
        gr.on(
            # gradio tells an input of a text field by keys that write: not by Backspace, nor by what is pasted
            [tab.select, *(part.input for part in inputs[:-1]), inputs[-1].change],  # type: ignore[attr-defined]
            shown,
            inputs,
            outputs,
            trigger_mode="always_last",
            **quiet,
        )


def shown(
    subset: str, gpu: str, batch_size: str, task: str, model: str, request: gr.Request | None = None
) -> list[Any]:
    """Updates for the four lists, the line of the scope, the three charts and the table.

    A choice that the chosen table does not have falls back to all of it.
    """
    tables, say = published.tables(), of(request)
    choices = _choices(tables.rows, subset, say)
    asked = {"subset": subset, "gpu": gpu, "batch_size": batch_size, "task": task}
    asked = {
        column: value if value in [allowed for _, allowed in choices[column]] else ALL
        for column, value in asked.items()
    }
    lists = [gr.update(choices=choices[column], value=value) for column, value in asked.items()]
    try:
        found = published.select(tables.rows, **asked, model=model)
        lines = published.select(tables.rows, task=asked["task"], model=model)
    except BadInput as refused:
        nothing = gr.update(value=None, visible=False)
        told = _said(say.quoted(str(refused)))
        return [*lists, told, nothing, nothing, nothing, _table([], tables.problems, say)]
    one = one_setting(found)
    figures = [published_charts.durations(one, say), published_charts.improvements(one, say)]
    first = one[0] if one else None
    figures.append(published_charts.by_batch(published_charts.lines_beside(first, lines), say) if first else None)
    plots = [gr.update(value=figure, visible=figure is not None) for figure in figures]
    return [*lists, _scope(found, one, say), *plots, _table(found, tables.problems, say)]


def one_setting(found: Sequence[PublishedRow]) -> list[PublishedRow]:
    """The rows of the first subset, GPU and batch size among them: what one chart of single models can show."""
    if not found:
        return []
    first = found[0]
    alike = (first.subset, first.gpu, first.batch_size, first.measured is None)
    return published.newest(
        row for row in found if (row.subset, row.gpu, row.batch_size, row.measured is None) == alike
    )


def published_table(
    subset: str | None = None,
    gpu: str | None = None,
    batch_size: int | None = None,
    task: Literal["image-classification", "object-detection", "image-segmentation"] | None = None,
    model: str | None = None,
) -> dict[str, Any]:
    """The published speed-ups of torch.compile for vision models, and those that this project measured itself.

    Args:
        subset: "release" (torch 2.0.1), "nightly" or "reduce-overhead" (both 2.1.0.dev) of the Transformers guide; a
            table that this project measured begins with "measured". All of them without it.
        gpu: "A100", "V100" or "T4", or a device that this project measured.
        batch_size: 1, 4 or 16 in the guide.
        task: One of the three tasks.
        model: A part of a model's name or checkpoint, such as "vit" or "facebook/detr".

    Returns:
        rows: origin ("published" or "measured by this project"), subset, gpu, torch, mode, batch_size, task, model,
        checkpoint, eager_ms and compiled_ms (milliseconds, or "OOM"), speedup, saved_percent, notes, and for measured
        rows speedup_low, speedup_high, dtype, weights, versions, device, driver, commit, date; faults: what is known to
        be wrong in the guide; sources; problems: measured tables that could not be read.
    """
    tables = published.tables()
    try:
        found = published.select(tables.rows, subset, gpu, batch_size, task, model)
    except BadInput as refused:
        raise gr.Error(str(refused), print_exception=False) from refused
    return {
        "rows": [published.record(row) for row in found],
        "faults": plain(published.faults()),
        "sources": plain(published.sources()),
        "problems": list(tables.problems),
    }


def _choices(rows: Sequence[PublishedRow], subset: str, say: Language) -> dict[str, list[tuple[str, str]]]:
    """(label, value) of each list; GPUs, batch sizes and tasks are those of the chosen subset."""
    subsets = published.values(rows, "subset")
    within = [row for row in rows if row.subset == subset] if subset in subsets else rows
    published_here = {row.gpu for row in within if row.measured is None}
    gpus = {
        gpu: gpu if gpu in published_here else say.plain("published_own_gpu", gpu=gpu)
        for gpu in published.values(within, "gpu")
    }
    every = (say.plain("choice_all"), ALL)
    return {
        "subset": [every, *((_subset(name, say), name) for name in subsets)],
        "gpu": [every, *((told, gpu) for gpu, told in gpus.items())],
        "batch_size": [every, *((str(size), str(size)) for size in published.values(within, "batch_size"))],
        "task": [every, *((say.plain(_TASK_NAMES[task]), task) for task in published.values(within, "task"))],
    }


def _subset(name: str, say: Language) -> str:
    """The guide's by torch's version or mode, this project's own with the settings that depart from the guide's."""
    if name in _SUBSET_NAMES:
        return _SUBSET_NAMES[name]
    return say.plain("published_own_table", settings=name.removeprefix(SUBSET).strip()).strip()


def _said(told: str) -> str:
    return f'<p class="scope" role="status">{told}</p>'


def _scope(found: Sequence[PublishedRow], one: Sequence[PublishedRow], say: Language) -> str:
    """What the charts show, where that is less than the table."""
    if not found:
        return _said(say.html("published_no_row"))
    first = one[0]
    if len(one) == len(found):
        return ""
    setting: dict[str, object] = {"gpu": first.gpu, "batch": first.batch_size, "torch": first.torch, "mode": first.mode}
    return _said(say.html("published_scope", **setting))


def _table(rows: Sequence[PublishedRow], problems: Sequence[str], say: Language) -> str:
    lines = "".join(_line(row, say) for row in rows)
    count = words.count(len(rows), "row", say)
    links = "".join(
        f'<a class="download" download="worth-compiling-published.{kind}" '
        f'href="data:{mime};base64,{base64.b64encode(text.encode()).decode()}">{kind.upper()}</a>'
        for kind, mime, text in (
            ("csv", "text/csv", published.to_csv(rows)),
            ("json", "application/json", published.to_json(rows)),
        )
    )
    head = "".join(f'<th scope="col" class="{kind}">{say.html(name)}</th>' for name, kind in _COLUMNS)
    unread = "".join(f'<p class="unread" role="status">{say.quoted(problem)}</p>' for problem in problems)
    region = esc(say.composed("published_region", rows=count))
    body = (
        f'<div class="scroller" tabindex="0" role="region" aria-label="{region}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>"
        if rows
        else ""
    )
    return (
        f'<section class="explorer"><div class="above"><h3>{say.marked(count)}</h3>'
        f"<p>{say.html('published_download')} {links}</p></div>{unread}{body}{_about(say)}</section>"
    )


_COLUMNS = (
    ("column_model", ""),
    ("gpu", ""),
    ("column_batch", "figure"),
    ("column_eager", "figure"),
    ("column_compiled", "figure"),
    ("row_speedup", "figure"),
    ("column_saved", "figure"),
    ("column_with", ""),
    ("column_note", ""),
)


def _line(row: PublishedRow, say: Language) -> str:
    own = row.measured
    speedup = fmt.ratio(row.speedup) if row.speedup is not None else OOM
    interval = ""
    if own and own.low and own.high:
        low, high = words.ends(own.low, own.high)
        interval = f"<small>{say.html('between', low=low, high=high)}</small>"
    how = f"torch {row.torch}, {row.mode}"
    if own:
        how += f", {own.dtype}, {own.date}"
    whose = f"<small>{say.html('published_measured')}</small>" if own else ""
    cells = (
        ("figure", say.value(row.batch_size)),
        ("figure", say.value(_ms(row.eager_seconds))),
        ("figure", say.value(_ms(row.compiled_seconds))),
        ("figure strong", say.value(speedup) + interval),
        ("figure", say.value(f"{row.saved * 100:.1f} %".replace("-", "−") if row.saved is not None else OOM)),
        ("", say.value(how) + whose),
        ("note", "<br>".join(map(say.quoted, published.notes(row)))),
    )
    dagger = " †" if published.notes(row) else ""
    return (
        f'<tr class="{"measured" if own else "published"}"><th scope="row">{say.value(row.model)}{dagger}'
        f"<small>{say.value(row.checkpoint)}</small></th><td>{say.value(row.gpu)}</td>"
        + "".join(f'<td class="{kind}">{cell}</td>' for kind, cell in cells)
        + "</tr>"
    )


def _ms(seconds: float | None) -> str:
    return OOM if seconds is None else f"{fmt.milliseconds(seconds):.3f}"


def _about(say: Language) -> str:
    """Below the table: how the guide measured, what is wrong with it as a whole, where it stands."""
    general = [fault for fault in published.faults() if fault.rows is None]
    wrong = "".join(
        f"<li>{say.passage(f'{esc(fault.note)} <small>{esc(fault.source)}.</small>')}</li>" for fault in general
    )
    sources = "".join(
        f'<li>{say.quoted(source.what)}: <a href="{where}" target="_blank" rel="noopener"{say.ltr}>{where}</a></li>'
        for source in published.sources()
        for where in [esc(source.where)]
    )
    told = say.html("published_about_words", year=2023, calls=PUBLISHED_CALLS, formula="1 − 1 / speed-up")
    return (
        f"<h3>{say.html('published_about')}</h3><p>{told}</p>"
        f"<h3>{say.html('published_faults')}</h3><ul>{wrong}</ul>"
        f"<h3>{say.html('published_sources')}</h3><ul>{sources}</ul>"
    )
