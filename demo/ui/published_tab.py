"""The tab of the guide's tables and this project's own: filters, the guide's charts, the table, its known faults."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Literal

import gradio as gr

from demo import format as fmt
from demo import published, published_charts
from demo.measured import OOM
from demo.schema import BadInput, PublishedRow, plain
from demo.ui.language import IN_ENGLISH
from demo.ui.parts import esc

ALL = ""
"""The value of a filter that asks nothing."""
FIRST = {"subset": "release", "gpu": "A100", "batch_size": "1", "task": ALL}
_TASK_NAMES = {
    "image-classification": "Classification",
    "object-detection": "Detection",
    "image-segmentation": "Segmentation",
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
                choices = _choices(rows, FIRST["subset"])
                names = (("subset", "Table"), ("gpu", "GPU"), ("batch_size", "Batch size"), ("task", "Task"))
                self.filters: dict[str, gr.components.Component] = {
                    column: gr.Dropdown(choices[column], value=FIRST[column], label=label, min_width=120)
                    for column, label in names
                }
                self.filters["model"] = gr.Textbox(
                    label="Search model", placeholder="ViT, resnet-50 …", max_length=80, min_width=120
                )
            self.scope = gr.HTML(elem_id="published-scope", apply_default_css=False, html_template=IN_ENGLISH)
            with gr.Row(elem_id="published-charts", equal_height=False):
                self.durations = gr.Plot(show_label=False, elem_id="published-durations", min_width=320)
                self.improvements = gr.Plot(show_label=False, elem_id="published-improvements", min_width=320)
            self.by_batch = gr.Plot(show_label=False, elem_id="published-by-batch")
            self.table = gr.HTML(elem_id="published-table", apply_default_css=False, html_template=IN_ENGLISH)
        inputs = list(self.filters.values())
        outputs = [*inputs[:-1], self.scope, self.durations, self.improvements, self.by_batch, self.table]
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}
        # A tab that nobody opens costs nothing: it is filled when it is opened, and measured tables are read anew.
        gr.on(
            [tab.select, *(part.input for part in inputs)],  # type: ignore[attr-defined]
            shown,
            inputs,
            outputs,
            trigger_mode="always_last",
            **quiet,
        )


def shown(subset: str, gpu: str, batch_size: str, task: str, model: str) -> list[Any]:
    """Updates for the four lists, the line of the scope, the three charts and the table.

    A choice that the chosen table does not have falls back to all of it.
    """
    tables = published.tables()
    choices = _choices(tables.rows, subset)
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
        return [*lists, _said(str(refused)), nothing, nothing, nothing, _table([], tables.problems)]
    one = one_setting(found)
    figures = [published_charts.durations(one), published_charts.improvements(one)]
    first = one[0] if one else None
    figures.append(published_charts.by_batch(published_charts.lines_beside(first, lines)) if first else None)
    plots = [gr.update(value=figure, visible=figure is not None) for figure in figures]
    return [*lists, _scope(found, one), *plots, _table(found, tables.problems)]


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


def _choices(rows: Sequence[PublishedRow], subset: str) -> dict[str, list[tuple[str, str]]]:
    """(label, value) of each list; GPUs, batch sizes and tasks are those of the chosen subset."""
    subsets = published.values(rows, "subset")
    within = [row for row in rows if row.subset == subset] if subset in subsets else rows
    whose = {row.gpu: "" if row.measured is None else f", {published.MEASURED}" for row in reversed(within)}
    return {
        "subset": [("All", ALL), *((_SUBSET_NAMES.get(name, name.capitalize()), name) for name in subsets)],
        "gpu": [("All", ALL), *((f"{gpu}{whose[gpu]}", gpu) for gpu in published.values(within, "gpu"))],
        "batch_size": [("All", ALL), *((str(size), str(size)) for size in published.values(within, "batch_size"))],
        "task": [("All", ALL), *((_TASK_NAMES[task], task) for task in published.values(within, "task"))],
    }


def _said(sentence: str) -> str:
    return f'<p class="scope" role="status">{esc(sentence)}</p>'


def _scope(found: Sequence[PublishedRow], one: Sequence[PublishedRow]) -> str:
    """What the charts show, where that is less than the table."""
    if not found:
        return _said("No row has all of this. Choose All in one of the lists.")
    first = one[0]
    if len(one) == len(found):
        return ""
    return _said(
        f"The first two charts show one setting at a time, here {first.gpu} at batch {first.batch_size} with torch "
        f"{first.torch}, mode {first.mode}. Choose a GPU and a batch size to see another."
    )


def _table(rows: Sequence[PublishedRow], problems: Sequence[str]) -> str:
    lines = "".join(map(_line, rows))
    count = f"{len(rows)} {'row' if len(rows) == 1 else 'rows'}"
    links = "".join(
        f'<a class="download" download="worth-compiling-published.{kind}" '
        f'href="data:{mime};base64,{base64.b64encode(text.encode()).decode()}">{kind.upper()}</a>'
        for kind, mime, text in (
            ("csv", "text/csv", published.to_csv(rows)),
            ("json", "application/json", published.to_json(rows)),
        )
    )
    head = "".join(
        f'<th scope="col" class="{kind}">{name}</th>'
        for name, kind in (
            ("Model", ""),
            ("GPU", ""),
            ("Batch", "figure"),
            ("Eager, ms", "figure"),
            ("Compiled, ms", "figure"),
            ("Speed-up", "figure"),
            ("Saved", "figure"),
            ("Measured with", ""),
            ("Note", ""),
        )
    )
    unread = "".join(f'<p class="unread" role="status">{esc(problem)}</p>' for problem in problems)
    body = (
        f'<div class="scroller" tabindex="0" role="region" aria-label="Table of {count}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>"
        if rows
        else ""
    )
    return (
        f'<section class="explorer"><div class="above"><h3>{count}</h3>'
        f"<p>Download {links}</p></div>{unread}{body}{_about()}</section>"
    )


def _line(row: PublishedRow) -> str:
    own = row.measured
    interval = f"<small>{fmt.ratio_interval(own.low, own.high)}</small>" if own and own.low and own.high else ""
    how = f"torch {row.torch}, {row.mode}"
    if own:
        how += f", {own.dtype}, {own.date}"
    cells = (
        ("figure", str(row.batch_size)),
        ("figure", _ms(row.eager_seconds)),
        ("figure", _ms(row.compiled_seconds)),
        ("figure strong", (fmt.ratio(row.speedup) if row.speedup is not None else OOM) + interval),
        ("figure", f"{row.saved * 100:.1f} %".replace("-", "−") if row.saved is not None else OOM),
        ("", f"{esc(how)}{'<small>' + esc(published.MEASURED) + '</small>' if own else ''}"),
        ("note", "<br>".join(esc(note) for note in published.notes(row))),
    )
    dagger = " †" if published.notes(row) else ""
    return (
        f'<tr class="{"measured" if own else "published"}"><th scope="row">{esc(row.model)}{dagger}'
        f"<small>{esc(row.checkpoint)}</small></th><td>{esc(row.gpu)}</td>"
        + "".join(f'<td class="{kind}">{cell}</td>' for kind, cell in cells)
        + "</tr>"
    )


def _ms(seconds: float | None) -> str:
    return OOM if seconds is None else f"{fmt.milliseconds(seconds):.3f}"


def _about() -> str:
    """Below the table: how the guide measured, what is wrong with it as a whole, where it stands."""
    general = [fault for fault in published.faults() if fault.rows is None]
    wrong = "".join(f"<li>{esc(fault.note)} <small>{esc(fault.source)}.</small></li>" for fault in general)
    sources = "".join(
        f'<li>{esc(source.what)}: <a href="{where}" target="_blank" rel="noopener">{where}</a></li>'
        for source in published.sources()
        for where in [esc(source.where)]
    )
    return (
        "<h3>About these figures</h3><p>In 2023 the guide warmed up, then took the mean of 300 calls with one image. "
        "Its figures are shown as published. OOM: out of memory. Time saved is 1 − 1 / speed-up.</p>"
        f"<h3>Known faults of the guide</h3><ul>{wrong}</ul><h3>Sources</h3><ul>{sources}</ul>"
    )
