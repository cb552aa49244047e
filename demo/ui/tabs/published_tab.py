"""The tab Published: the speed-ups in the Transformers guide to torch.compile, and those measured by this project.

Four drop-down lists filter the rows. The page's address holds the lists' values.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

import gradio as gr

from demo.core import catalog, format as fmt
from demo.core.options import PUBLISHED_CALLS, TEXT_GENERATION, BadInput
from demo.present import charts
from demo.present.markdown import escape_markdown
from demo.store import published
from demo.store.published import OOM, PublishedRow
from demo.ui.tabs import links, tables
from demo.ui.tabs.events import EVENT_OPTIONS
from demo.ui.tabs.form import TASK_NAMES

ALL = ""
"""The value of a drop-down list that does not filter."""
LISTS = {"subset": "Table", "gpu": "GPU", "batch_size": "Batch size", "task": "Task"}
FIRST = {"subset": "release", "gpu": "A100", "batch_size": "1", "task": ALL}
COLUMNS = (
    "Model", "GPU", "Batch", "Eager, ms", "Compiled, ms", "Speed-up", "torch", "Mode", "Number format",
    "Settings", "Threads", "Date", "Checkpoint", "Note",
)  # fmt: skip
EXPORTS = {"csv": published.to_csv, "json": published.to_json}

Choices = dict[str, list[tuple[str, str]]]
"""Maps a list's name to the (label, value) pairs that the list offers."""


class PublishedTab:
    """The components of the tab Published and their events. Call it inside `with gr.Tab(...)`."""

    def __init__(self, tab: gr.Tab) -> None:
        with gr.Column(elem_id="published"):
            gr.Markdown("## What the Transformers guide published, and what this project measured")
            with gr.Row(elem_id="published-filters", equal_height=False):
                self.lists = {
                    column: gr.Dropdown([(FIRST[column],) * 2], value=FIRST[column], label=text, min_width=120)
                    for column, text in LISTS.items()
                }
            self.scope = gr.Markdown("", elem_id="published-scope")
            with gr.Row(elem_id="published-charts", equal_height=False):
                self.durations = gr.Plot(show_label=False, elem_id="published-durations", min_width=320)
                self.by_batch = gr.Plot(show_label=False, elem_id="published-by-batch", min_width=320)
            self.table = tables.make_table("published-table", "Rows", COLUMNS, show_search="filter")
            with gr.Row(elem_id="published-exports"):
                self.exports = [gr.DownloadButton(f"Export {kind.upper()}", size="sm") for kind in EXPORTS]
            gr.Markdown(_about())
        self.query = gr.Textbox("", visible=False)
        """The values of the lists, as the query of an address."""
        self.rows = gr.State(())
        """The rows in the table, in its order."""
        self.pressed = gr.Textbox("", visible=False)
        """The query of a link that fills the form with the settings of the pressed row; '' for none."""
        self.outputs = [self.scope, self.durations, self.by_batch, self.table, self.rows, *self.exports]
        self._wire(tab)

    def _wire(self, tab: gr.Tab) -> None:
        filters = list(self.lists.values())
        # reads the rows again each time the tab opens, because a sweep may have written a table
        gr.on(
            [tab.select, *(one.input for one in filters)],
            self._update,
            [self.query, *filters],
            [self.query, *filters, *self.outputs],
            js=links.read_choices("published"),
            trigger_mode="always_last",
            **EVENT_OPTIONS,
        ).then(None, self.query, js=links.write_choices("published"), api_visibility="private")
        self.table.select(self._press, self.rows, [self.pressed, self.scope], **EVENT_OPTIONS).then(
            None, self.pressed, js=links.FILL, api_visibility="private"
        )

    def _update(self, request: gr.Request, query: str, *held: str) -> list[Any]:
        """Returns the query for the page's address, then updates of the lists, then of `outputs`.

        The address's `query` chooses the rows. If `query` is '', `held` does so: the present values of the lists.
        """
        if query:
            address = links.read_query(query)
            values = {name: address.get(f"published_{name}", value) for name, value in FIRST.items()}
        else:
            values = dict(zip(FIRST, held, strict=True))
        choices, chosen, outputs = view(values)
        lists = [gr.update(choices=choices[name], value=chosen[name]) for name in self.lists]
        in_address = {f"published_{name}": value for name, value in chosen.items() if value != FIRST[name]}
        return [urlencode(in_address), *lists, *outputs]

    def _press(self, rows: Sequence[PublishedRow], event: gr.EventData) -> tuple[str, Any]:
        """Returns the new `pressed` and `scope`: the row's query and no change, or '' and why the row cannot run."""
        place, _ = tables.pressed_place(event)
        if not 0 <= place < len(rows):
            return "", gr.skip()
        try:
            return query_of(rows[place]), gr.skip()
        except BadInput as refused:
            return "", tables.status(f"This row cannot be run here. {refused}")


def view(values: dict[str, str]) -> tuple[Choices, dict[str, str], list[Any]]:
    """Returns what the drop-down lists offer, the value of each list, and the updates of `PublishedTab.outputs`.

    `values` maps a list's name to the wanted value. A value that the list does not offer becomes ALL: no filter.
    """
    every = published.all_rows()
    choices = _choices(every, values["subset"])
    offered = {name: [value for _, value in listed] for name, listed in choices.items()}
    chosen = {name: values[name] if values[name] in offered[name] else ALL for name in LISTS}
    rows = published.select(every, **chosen)
    alike: list[PublishedRow] = []  # one chart of models can show them: subset, GPU and batch size are the same
    subset: list[PublishedRow] = []
    scope = "No row matches all of these. Choose All in one of the lists."
    if rows:
        first = rows[0]
        alike = published.select(rows, first.subset, first.gpu, first.batch_size)
        subset = published.select(every, first.subset, task=chosen["task"])
        scope = f"{fmt.count(len(rows), 'row')}. Press one to fill the form with what it measured."
        if len(alike) < len(rows):
            scope += f" The first chart shows {first.gpu} at batch {first.batch_size} alone, mode {first.mode}."
        if any(row.weights == "random" for row in rows):
            scope += " This project's own rows have random weights: latency does not depend on their values."
    figures = [charts.durations(alike), charts.by_batch(subset)]
    plots = [gr.update(value=figure, visible=figure is not None) for figure in figures]
    files = [tables.file(write(rows).encode(), f"worth-compiling-published.{kind}") for kind, write in EXPORTS.items()]
    return choices, chosen, [tables.status(scope), *plots, _table(rows), tuple(rows), *files]


def _table(rows: Sequence[PublishedRow]) -> dict[str, Any]:
    lines = list(map(_line, rows))
    used = [place for place in range(len(COLUMNS)) if any(line[place].text != "" for line in lines)]
    return tables.update([COLUMNS[place] for place in used], [[line[place] for place in used] for line in lines])


def _choices(rows: Sequence[PublishedRow], subset: str) -> Choices:
    """Returns what each drop-down list offers: all tables, and the GPUs, batch sizes and tasks that `subset` has."""
    subsets = published.values(rows, "subset")
    within = [row for row in rows if row.subset == subset] if subset in subsets else rows
    every = ("All", ALL)
    return {
        "subset": [every, *((published.subset_words(name, rows), name) for name in subsets)],
        "gpu": [every, *((gpu, gpu) for gpu in published.values(within, "gpu"))],
        "batch_size": [every, *((str(size), str(size)) for size in published.values(within, "batch_size"))],
        "task": [every, *((TASK_NAMES[task], task) for task in published.values(within, "task"))],
    }


def _line(row: PublishedRow) -> list[tables.Cell]:
    faults = published.notes_of(row)
    speedup = OOM if row.speedup is None else fmt.ratio(row.speedup)
    if row.speedup is not None and row.speedup_low and row.speedup_high:
        speedup = f"{speedup} ({fmt.ends(row.speedup_low, row.speedup_high)})"
    model = f"{row.model} †" if faults else row.model
    cells = [
        tables.Cell(model, model, tables.BOLD),
        row.gpu,
        row.batch_size,
        tables.milliseconds(row.eager_seconds, OOM),
        tables.milliseconds(row.compiled_seconds, OOM),
        tables.Cell(row.speedup, speedup, tables.BOLD),
        row.torch,
        row.mode,
        row.dtype or "float32",
        ", ".join(published.setting_words(row)),
        row.threads if row.threads is not None else "",
        row.date,
        row.checkpoint,
        " ".join(faults),
    ]
    return list(map(tables.cell, cells))


def query_of(row: PublishedRow) -> str:
    """Returns the query of a link that fills the form with this row's settings.

    Raises BadInput if the settings are not possible here, such as a mode that the installed torch lacks.
    """
    settings: dict[str, Any] = {"batch_size": row.batch_size, "mode": row.mode}
    if row.measured:
        settings |= {**row.settings, "dtype": row.dtype, "weights": row.weights}
    checkpoint = catalog.find(row.checkpoint)
    if checkpoint is not None and checkpoint.takes_text:
        settings["text"] = catalog.QUERIES
    if row.task == TEXT_GENERATION:
        settings.setdefault("prompt", catalog.PROMPT)
    return links.query(catalog.make_spec(row.checkpoint, row.task, **settings))


def _about() -> str:
    faults = [fault for fault in published.faults() if fault["rows"] is None]
    return "\n".join(
        [
            "### About these figures",
            f"In 2023 the guide warmed up, then took the mean of {PUBLISHED_CALLS} calls with one image. Its figures "
            "are shown as published. OOM: out of memory. † marks a row with a note.",
            "### Known faults of the guide",
            *(f"- {escape_markdown(fault['note'])} *{escape_markdown(fault['source'])}.*" for fault in faults),
            "### Sources",
            *(f"- {escape_markdown(source['what'])}: <{source['where']}>" for source in published.sources()),
        ]
    )
