"""The tab of results that were measured before: the guide's tables with this project's own.

Four lists and a search for a model above the rows; what they choose stands in the address.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import gradio as gr

from demo.core import catalog, format as fmt
from demo.core.spec import PUBLISHED_CALLS, TEXT_GENERATION, BadInput
from demo.present import charts, sentences
from demo.store import published
from demo.store.published import OOM, SUBSET, PublishedRow, further_settings, gain, settings_of
from demo.ui.html.elements import drawn, fill
from demo.ui.tabs import links
from demo.ui.tabs.events import AT_ONCE
from demo.ui.tabs.form import TASK_NAMES

ALL = ""
"""The value of a list that lets everything through."""
MAX_SEARCH = 80
"""Characters of a search for a model."""

Choices = dict[str, list[tuple[str, str]]]
"""The labels and values of each list, by column."""
Show = Callable[[dict[str, str]], tuple[Choices, Mapping[str, str], Sequence[Any]]]
"""For what is asked by column: the choices of the lists (none: as they are), what is chosen, what the outputs get."""


class RowFilters:
    """`lists` are columns and labels of the lists, `first` the first values by column, the search as `model` last."""

    def __init__(self, name: str, lists: Mapping[str, str], first: Mapping[str, str], show: Show) -> None:
        self._name, self._first, self._show = name, first, show
        with gr.Row(elem_id=f"{name}-filters", equal_height=False):
            self.lists = {
                column: gr.Dropdown([(first[column],) * 2], value=first[column], label=text, min_width=120)
                for column, text in lists.items()
            }
            self.model = gr.Textbox(
                label="Search model", placeholder="ViT, resnet-50 …", max_length=MAX_SEARCH, min_width=120
            )
        self.chosen = gr.Textbox("", visible=False)
        """What is chosen, as a query."""

    def wire(self, tab: gr.Tab, outputs: Sequence[gr.components.Component]) -> list[gr.components.Component]:
        """Shows the outputs when the tab is opened or a filter changes. Gives the components that `update` changes."""
        filters = [*self.lists.values(), self.model]
        updated = [self.chosen, *filters, *outputs]
        event = gr.on(
            # a text field: `change`, as gradio's `input` misses Backspace and pasted text (no upstream issue found)
            [tab.select, *(one.input for one in self.lists.values()), self.model.change],
            self.update,
            [self.chosen, *filters],
            updated,
            js=links.with_choices(self._name),
            trigger_mode="always_last",
            **AT_ONCE,
        )
        self.remember(event)
        return updated

    def remember(self, event: Any) -> None:
        """Puts what is chosen into the address after this event."""
        event.then(None, self.chosen, js=links.chosen(self._name), api_visibility="private")

    def update(self, request: gr.Request, query: str, *held: str) -> list[Any]:
        """Shows what the address's `query` chooses, else what the filters hold. A search that is being typed stays."""
        if query:
            given = links.read_query(query)
            asked = {name: given.get(f"{self._name}_{name}", value) for name, value in self._first.items()}
        else:
            asked = dict(zip(self._first, held, strict=True))
        asked["model"] = asked["model"][:MAX_SEARCH]
        choices, chosen, outputs = self._show(asked)
        lists = [
            gr.update(choices=choices[name], value=chosen[name] or choices[name][0][1]) if choices else gr.skip()
            for name in self.lists
        ]
        model = asked["model"] if query and choices else gr.skip()
        now = {**asked, **chosen, "model": asked["model"].strip()}
        in_address = {f"{self._name}_{name}": value for name, value in now.items() if value != self._first[name]}
        return [urlencode(in_address), *lists, model, *outputs]


def fitted(choices: Choices, asked: Mapping[str, str]) -> dict[str, str]:
    """What is chosen of these lists: `ALL` where one lacks what is asked."""
    return {
        name: asked[name] if asked[name] in [value for _, value in listed] else ALL for name, listed in choices.items()
    }


# ---- Published

PUBLISHED_LISTS = {"subset": "Table", "gpu": "GPU", "batch_size": "Batch size", "task": "Task"}
FIRST_PUBLISHED = {"subset": "release", "gpu": "A100", "batch_size": "1", "task": ALL, "model": ALL}
_SUBSET_NAMES = {
    "release": "torch 2.0.1",
    "nightly": "torch 2.1 nightly",
    "reduce-overhead": "reduce-overhead",
}


class PublishedTab:
    """Make it inside the tab that holds it."""

    def __init__(self, tab: gr.Tab) -> None:
        with gr.Column(elem_id="published"):
            heading = (
                '<h2 class="display small">What the Transformers guide published, and what this project measured</h2>'
            )
            gr.HTML(heading, apply_default_css=False)
            filters = RowFilters("published", PUBLISHED_LISTS, FIRST_PUBLISHED, published_shown)
            scope = gr.HTML(elem_id="published-scope", apply_default_css=False)
            with gr.Row(elem_id="published-charts", equal_height=False):
                durations = gr.Plot(show_label=False, elem_id="published-durations", min_width=320)
                by_batch = gr.Plot(show_label=False, elem_id="published-by-batch", min_width=320)
            table = gr.HTML(elem_id="published-table", apply_default_css=False)
        # filled when it is opened, which also reads new measured tables
        filters.wire(tab, [scope, durations, by_batch, table])


def published_shown(asked: dict[str, str]) -> tuple[Choices, dict[str, str], list[Any]]:
    """The lists, their choices (what the chosen table lacks becomes "all"), and scope, charts and table below them."""
    every = published.all_rows()
    choices = _choices(every, asked["subset"])
    chosen, model = fitted(choices, asked), asked["model"]
    one: list[PublishedRow] = []
    """Rows with the subset, GPU and batch size of the first one: what one chart of models can show."""
    comparable: list[PublishedRow] = []
    try:
        rows = published.select(every, **chosen, model=model)
        scope = "No row matches all of these. Choose All in one of the lists."
    except BadInput as refused:
        rows, scope = [], str(refused)
    if rows:
        alike = (rows[0].subset, rows[0].gpu, rows[0].batch_size, rows[0].measured)
        one = published.newest(row for row in rows if (row.subset, row.gpu, row.batch_size, row.measured) == alike)
        first = one[0]  # of several measurements the newest, which the charts show
        comparable = charts.comparable_rows(first, published.select(every, task=chosen["task"], model=model))
        if len(one) == len(rows):
            scope = ""
        else:
            scope = (
                f"The first chart shows one setting at a time, here {first.gpu} at batch {first.batch_size} with torch "
                f"{first.torch}, mode {first.mode}. Choose a GPU and a batch size to see another."
            )
    figures = [charts.durations(one), charts.by_batch(comparable)]
    plots = [gr.update(value=figure, visible=figure is not None) for figure in figures]
    status = drawn("published.status", scope) if scope else ""
    return choices, chosen, [status, *plots, _table(rows, every)]


def _choices(rows: Sequence[PublishedRow], subset: str) -> Choices:
    """(label, value) of each list; GPUs, batch sizes and tasks are those of the chosen subset."""
    subsets = published.values(rows, "subset")
    within = [row for row in rows if row.subset == subset] if subset in subsets else rows
    published_here = {row.gpu for row in within if not row.measured}
    gpus = {
        gpu: gpu if gpu in published_here else ", ".join([gpu, "measured by this project"])
        for gpu in published.values(within, "gpu")
    }
    every = ("All", ALL)
    return {
        "subset": [every, *((_subset(name), name) for name in subsets)],
        "gpu": [every, *((name, gpu) for gpu, name in gpus.items())],
        "batch_size": [every, *((str(size), str(size)) for size in published.values(within, "batch_size"))],
        "task": [every, *((TASK_NAMES[task], task) for task in published.values(within, "task"))],
    }


def _subset(name: str) -> str:
    """The name of a subset: of the guide's, torch's version or mode; of this project's, the settings that differ."""
    if name in _SUBSET_NAMES:
        return _SUBSET_NAMES[name]
    return f"Measured {name.removeprefix(SUBSET).strip()}".strip()


_COLUMNS = (
    ("model", "Model", ""),
    ("here", "Run", "here"),
    ("gpu", "GPU", ""),
    ("batch_size", "Batch", "figure"),
    ("eager", "Eager, ms", "figure"),
    ("compiled", "Compiled, ms", "figure"),
    ("shown_speedup", "Speed-up", "figure strong"),
    ("shown_saved", "Saved", "figure saved"),
    ("how", "Measured with", "how"),
)
"""The columns of the table: name, title and class."""


def _table(rows: Sequence[PublishedRow], every: Sequence[PublishedRow]) -> str:
    files = (
        ("csv", "text/csv", published.to_csv(rows)),
        ("json", "application/json", published.to_json(rows)),
    )
    return drawn(
        "published.table",
        _COLUMNS,
        [_line(row, gain(row, every)) for row in rows],
        count=sentences.count(len(rows), "row"),
        downloads=[(kind, mime, base64.b64encode(text.encode()).decode()) for kind, mime, text in files],
        random=any(row.weights == "random" for row in rows),
        about={
            "calls": PUBLISHED_CALLS,
            "faults": [fault for fault in published.faults() if fault["rows"] is None],
            "sources": published.sources(),
        },
    )


def _line(row: PublishedRow, brought: float | None) -> dict[str, object]:
    """What the template shows of a row; `brought` is what its further settings brought: see `gain`."""
    how = f"torch {row.torch}, {row.mode}"
    if row.measured:
        how = ", ".join([how, row.dtype, *further_settings(row), row.date])
    against = None if brought is None else (fmt.ratio(brought), ", ".join(further_settings(row)))
    return {
        **vars(row),
        "faults": published.faults_at(row),
        "here": _here(row),
        "eager": published.cell_text(row.eager_seconds),
        "compiled": published.cell_text(row.compiled_seconds),
        "against": against,
        "shown_speedup": OOM if row.speedup is None else fmt.ratio(row.speedup),
        "ends": sentences.ends(row.speedup_low, row.speedup_high) if row.speedup_low and row.speedup_high else None,
        "shown_saved": OOM if row.saved is None else f"{row.saved * 100:.1f} %".replace("-", "−"),
        "how": how,
        "own": row.measured,
        "threads": sentences.count(row.threads, "thread") if row.threads is not None else "",
        "repeats": row.repeats if row.repeats is not None and row.repeats > 1 else None,
    }


def _here(row: PublishedRow) -> str:
    """A link that fills the form with what this row measured, but for how long; '' if this page cannot run that."""
    asked: dict[str, Any] = {"batch_size": row.batch_size, "mode": row.mode}
    if row.measured:
        asked |= settings_of(row.subset) | {"dtype": row.dtype, "weights": row.weights}
    known = catalog.find(row.checkpoint)
    if known is not None and known.takes_text:
        asked["text"] = catalog.QUERIES
    if row.task == TEXT_GENERATION:
        asked.setdefault("prompt", catalog.PROMPT)
    # '' for a checkpoint or a batch that this page does not run, a mode of another torch
    return fill("Run this here", checkpoint=row.checkpoint, task=row.task, **asked)
