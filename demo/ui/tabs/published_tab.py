"""The tab of the guide's tables and this project's own: filters, the guide's charts, the table, its known faults."""

import base64
from collections.abc import Sequence
from typing import Any, Literal

import gradio as gr

from demo.core import catalog
from demo.core import format as fmt
from demo.core.errors import BadInput
from demo.core.languages import Language
from demo.core.spec import PUBLISHED_CALLS, TEXT_GENERATION
from demo.present import charts, sentences
from demo.store import measured, published
from demo.store.measured import SUBSET, further_settings, gain, settings_of
from demo.store.tables import OOM, PublishedRow
from demo.ui.html import actions
from demo.ui.html.elements import drawn
from demo.ui.tabs.form import TASK_NAMES
from demo.ui.tabs.row_filters import ALL, Choices, RowFilters, fitted
from demo.ui.web.visitor_language import written

LISTS = {"subset": "published_table", "gpu": "gpu", "batch_size": "batch_size", "task": "task"}
FIRST = {"subset": "release", "gpu": "A100", "batch_size": "1", "task": ALL, "model": ALL}
_SUBSET_NAMES = {
    "release": "torch 2.0.1",
    "nightly": "torch 2.1 nightly",
    "reduce-overhead": "reduce-overhead",
}


class PublishedTab:
    """Make it inside the tab that holds it."""

    def __init__(self, tab: gr.Tab) -> None:
        with gr.Column(elem_id="published"):
            heading = written(lambda lang: f'<h2 class="display small">{lang.html("published_heading")}</h2>')
            gr.HTML(heading, apply_default_css=False)
            filters = RowFilters("published", LISTS, FIRST, shown)
            scope = gr.HTML(elem_id="published-scope", apply_default_css=False)
            with gr.Row(elem_id="published-charts", equal_height=False):
                durations = gr.Plot(show_label=False, elem_id="published-durations", min_width=320)
                by_batch = gr.Plot(show_label=False, elem_id="published-by-batch", min_width=320)
            table = gr.HTML(elem_id="published-table", apply_default_css=False)
        # filled when it is opened, which also reads new measured tables
        filters.wire(tab, [scope, durations, by_batch, table])


def shown(asked: dict[str, str], lang: Language) -> tuple[Choices, dict[str, str], list[Any]]:
    """The line of the scope, the two charts and the table, with the lists above them.

    A choice that the chosen table does not have becomes "all".
    """
    every = published.all_rows()
    choices = _choices(every, asked["subset"], lang)
    chosen, model = fitted(choices, asked), asked["model"]
    try:
        rows = published.select(every, **chosen, model=model)
        lines = published.select(every, task=chosen["task"], model=model)
    except BadInput as refused:
        nothing = gr.update(value=None, visible=False)
        refusal = drawn("published.status", lang, lang.plain_quoted(str(refused)))
        return choices, chosen, [refusal, nothing, nothing, _table([], every, lang)]
    one = one_setting(rows)
    comparable = charts.comparable_rows(one[0], lines) if one else []
    figures = [charts.durations(one, lang), charts.by_batch(comparable, lang)]
    plots = [gr.update(value=figure, visible=figure is not None) for figure in figures]
    return choices, chosen, [_scope(rows, one, lang), *plots, _table(rows, every, lang)]


def one_setting(rows: Sequence[PublishedRow]) -> list[PublishedRow]:
    """The rows with the subset, GPU and batch size of the first one: what one chart of models can show."""
    if not rows:
        return []
    first = rows[0]
    alike = (first.subset, first.gpu, first.batch_size, first.measured)
    return published.newest(row for row in rows if (row.subset, row.gpu, row.batch_size, row.measured) == alike)


def published_table(
    subset: str | None = None,
    gpu: str | None = None,
    batch_size: int | None = None,
    task: Literal["image-classification", "object-detection", "image-segmentation"] | None = None,
    model: str | None = None,
) -> "dict[str, Any]":  # as text: gradio then describes the answer as any JSON
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
    try:
        own, problems = measured.load()
        rows = published.select((*published.rows(), *own), subset, gpu, batch_size, task, model)
    except BadInput as refused:
        raise gr.Error(str(refused), print_exception=False) from refused
    return {
        "rows": [published.record(row) for row in rows],
        "faults": published.faults(),
        "sources": published.sources(),
        "problems": problems,
    }


def _choices(rows: Sequence[PublishedRow], subset: str, lang: Language) -> Choices:
    """(label, value) of each list; GPUs, batch sizes and tasks are those of the chosen subset."""
    subsets = published.values(rows, "subset")
    within = [row for row in rows if row.subset == subset] if subset in subsets else rows
    published_here = {row.gpu for row in within if not row.measured}
    gpus = {
        gpu: gpu if gpu in published_here else lang.listed([gpu, lang.plain("published_measured")])
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
        return drawn("published.status", lang, lang.plain("published_no_row"))
    first = one[0]
    if len(one) == len(rows):
        return ""
    setting: dict[str, object] = {"gpu": first.gpu, "batch": first.batch_size, "torch": first.torch, "mode": first.mode}
    return drawn("published.status", lang, lang.plain("published_scope", **setting))


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


def _table(rows: Sequence[PublishedRow], every: Sequence[PublishedRow], lang: Language) -> str:
    files = (
        ("csv", "text/csv", published.to_csv(rows)),
        ("json", "application/json", published.to_json(rows)),
    )
    return drawn(
        "published.table",
        lang,
        _COLUMNS,
        [_line(row, gain(row, every), lang) for row in rows],
        count=sentences.count(len(rows), "row", lang),
        downloads=[(kind, mime, base64.b64encode(text.encode()).decode()) for kind, mime, text in files],
        random=any(row.weights == "random" for row in rows),
        about={
            "words": {"year": 2023, "calls": PUBLISHED_CALLS, "formula": "1 − 1 / speed-up"},
            "faults": [fault for fault in published.faults() if fault["rows"] is None],
            "sources": published.sources(),
        },
    )


def _line(row: PublishedRow, brought: float | None, lang: Language) -> dict[str, object]:
    """What the template shows of a row; `brought` is what its further settings brought: see `gain`."""
    how = f"torch {row.torch}, {row.mode}"
    if row.measured:
        how = ", ".join([how, row.dtype, *further_settings(row), row.date])
    against = None if brought is None else (fmt.ratio(brought), ", ".join(further_settings(row)))
    return {
        **vars(row),
        "faults": published.faults_at(row),
        "here": _here(row, lang),
        "column_batch": row.batch_size,
        "column_eager": _milliseconds(row.eager_seconds),
        "column_compiled": _milliseconds(row.compiled_seconds),
        "against": against,
        "row_speedup": OOM if row.speedup is None else fmt.ratio(row.speedup),
        "ends": sentences.ends(row.speedup_low, row.speedup_high) if row.speedup_low and row.speedup_high else None,
        "column_saved": OOM if row.saved is None else f"{row.saved * 100:.1f} %".replace("-", "−"),
        "column_with": how,
        "own": row.measured,
        "threads": sentences.count(row.threads, "thread", lang) if row.threads is not None else "",
        "repeats": row.repeats if row.repeats is not None and row.repeats > 1 else None,
    }


def _milliseconds(seconds: float | None) -> str:
    return OOM if seconds is None else f"{fmt.milliseconds(seconds):.3f}"


def _here(row: PublishedRow, lang: Language) -> str:
    """A link that fills the form with what this row measured; '' if this page cannot run that.

    How often and how long it was timed is left to the form.
    """
    asked: dict[str, Any] = {"batch_size": row.batch_size, "mode": row.mode}
    if row.measured:
        asked |= settings_of(row.subset) | {"dtype": row.dtype, "weights": row.weights}
    known = catalog.find(row.checkpoint)
    if known is not None and known.takes_text:
        asked["text"] = catalog.QUERIES
    if row.task == TEXT_GENERATION:
        asked.setdefault("prompt", catalog.PROMPT)
    # '' for a checkpoint or a batch that this page does not run, a mode of another torch
    return actions.fill(lang.html("run_this_here"), checkpoint=row.checkpoint, task=row.task, **asked)
