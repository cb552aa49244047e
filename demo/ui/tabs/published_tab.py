"""The tab Published: the speed-ups in the Transformers guide, and those that this project measured.

Four drop-down lists filter the rows. The page's address holds those of the lists' values that are not the default.
Below the rows is a wall of races (charts of calls over time): of this project's tables and recorded runs, of the runs
stored here, and of those in the dataset on the Hub.
"""

from collections.abc import Sequence
from operator import attrgetter
from urllib.parse import urlencode

import gradio as gr

from ...core import catalog, format as fmt
from ...core.hub import NoAnswer
from ...core.options import PUBLISHED_CALLS, TEXT_GENERATION, BadInput, OptionValues
from ...core.result import RunResult
from ...present import charts, wall
from ...present.markdown import escape_markdown
from ...present.report import Report
from ...store import published
from ...store.history import History
from ...store.hub_dataset import PushedHistory, waits_for_deletion
from ...store.hub_results import HubResults
from ...store.published import OOM, PublishedRow
from ..works import result_or_error
from . import links, tables
from .events import EVENT_OPTIONS, Updates
from .form import TASK_NAMES
from .headline import recorded_runs

ALL = ""
"""The value of a drop-down list that does not filter."""
LISTS = {"subset": "Table", "gpu": "GPU", "batch_size": "Batch size", "task": "Task"}
FIRST_FILTERS = {"subset": "release", "gpu": "A100", "batch_size": "1", "task": ALL}
EXPORTS = {"csv": published.to_csv, "json": published.rows_as_json}


WALL = """## A wall of races

How many calls compiled has answered (blue), as a share of those of eager (orange), after the time on the axis. At the
dot compiling has paid; the thick line is its 95 % interval. Dashed: with a kept cache. A press opens a run that is
stored here; of each other race the source is named. First calls of this project's table of 2026-11-23 include 6.1 to
8.4 s of inductor's probe of the processor, which those of runs leave out."""
MAX_RACES = 100
"""The most stored runs of which the tab shows a chart. `History` keeps them in memory."""
RECORDED_HERE = "Recorded by this project"


class PublishedTab:
    """The components of the tab Published and their events. Create it inside `with gr.Tab(...)`."""

    def __init__(self, history: History, tab: gr.Tab) -> None:
        self._history = history
        self._hub = HubResults(history.dataset) if isinstance(history, PushedHistory) else None
        with gr.Column(elem_id="published"):
            gr.Markdown("## What the Transformers guide published, and what this project measured")
            with gr.Row(elem_id="published-filters", equal_height=False):
                self.lists = {
                    column: gr.Dropdown(
                        [(FIRST_FILTERS[column],) * 2], value=FIRST_FILTERS[column], label=text, min_width=120
                    )
                    for column, text in LISTS.items()
                }
            self.scope = gr.Markdown("", elem_id="published-scope")
            with gr.Row(elem_id="published-charts", equal_height=False):
                self.durations = gr.Plot(show_label=False, elem_id="published-durations", min_width=320)
                self.by_batch = gr.Plot(show_label=False, elem_id="published-by-batch", min_width=320)
            self.table = tables.make_table("published-table", "Rows", show_search="filter")
            with gr.Row(elem_id="published-exports"):
                self.exports = {kind: gr.DownloadButton(f"Export {kind.upper()}", size="sm") for kind in EXPORTS}
            gr.Markdown(WALL)
            self.wall = gr.HTML(elem_id="published-wall", apply_default_css=False)
            self.wall_note = gr.Markdown(elem_id="published-wall-note")
            gr.Markdown(_about())
        self.query = gr.Textbox("", visible=False)
        """The values of the lists, as the query of an address."""
        self.rows = gr.State(())
        """The rows in the table, in its order."""
        self.pressed = gr.Textbox("", visible=False)
        """The query of a link that fills the form with the settings of the pressed row; '' for none."""
        self._wire(tab)

    def _wire(self, tab: gr.Tab) -> None:
        filters, plots = list(self.lists.values()), [self.durations, self.by_batch]
        # reads the rows again each time the tab opens, because a sweep may have written a table
        gr.on(
            [tab.select, *(filter_.input for filter_ in filters)],
            self._update,
            [self.query, *filters],
            [self.query, *filters, self.scope, *plots, self.table, self.rows, *self.exports.values()],
            js=links.read_choices("published"),
            trigger_mode="always_last",
            **EVENT_OPTIONS,
        ).then(None, self.query, js=links.write_choices("published"), api_visibility="private")
        drawn = tab.select(lambda: self._draw_wall([]), None, [self.wall, self.wall_note], **EVENT_OPTIONS)
        if self._hub is not None:  # it may answer late, and the other races need not wait
            drawn.then(self._draw_with_hub, None, [self.wall, self.wall_note], **EVENT_OPTIONS)
        self.table.select(self._press, self.rows, [self.pressed, self.scope], **EVENT_OPTIONS).then(
            None, self.pressed, js=links.FILL, api_visibility="private"
        )

    def _update(self, query: str, *held: str) -> Updates:
        """Returns updates of the whole tab, for the rows that the address's `query` asks for.

        If `query` is '', the values in the tab's dropdown lists, `held`, choose the rows. A value that its list does
        not offer becomes ALL.
        """
        if query:
            address = links.read_query(query)
            wanted = {name: address.get(f"published_{name}", value) for name, value in FIRST_FILTERS.items()}
        else:
            wanted = dict(zip(FIRST_FILTERS, held, strict=True))
        every = published.all_rows()
        choices = _choices(every, wanted["subset"])
        chosen = {name: value if value in dict(choices[name]).values() else ALL for name, value in wanted.items()}
        rows, setting = published.select(every, **chosen), attrgetter("subset", "gpu", "batch_size")
        alike = [row for row in rows if setting(row) == setting(rows[0])]  # one chart can show them
        subset = published.select(every, rows[0].subset, task=chosen["task"]) if rows else []
        in_address = {f"published_{name}": value for name, value in chosen.items() if value != FIRST_FILTERS[name]}
        return {
            self.query: urlencode(in_address),
            **{filter_: gr.update(choices=choices[name], value=chosen[name]) for name, filter_ in self.lists.items()},
            self.scope: tables.status_line(_scope(rows, len(alike))),
            self.durations: tables.plot(charts.durations(alike)),
            self.by_batch: tables.plot(charts.by_batch(subset)),
            self.table: _table(rows),
            self.rows: tuple(rows),
            **{
                self.exports[kind]: tables.download_file(write(rows).encode(), f"worth-compiling-published.{kind}")
                for kind, write in EXPORTS.items()
            },
        }

    def _draw_wall(self, on_hub: Sequence[RunResult], problem: str = "") -> tuple[str, str]:
        """Returns, as HTML, a wall of races (charts of calls over time), and sentences about the runs without a race.

        `on_hub`: results of the dataset on the Hub. `problem`: why they are missing, as a sentence; '' if they are not.
        """
        stored = result_or_error(lambda: self._history.all(limit=MAX_RACES))
        runs = [] if isinstance(stored, Exception) else stored
        sources = dict.fromkeys([run.id for run in recorded_runs()], RECORDED_HERE)
        if self._hub is not None:
            sources |= dict.fromkeys([run.id for run in on_hub], f"From the dataset {self._hub.dataset}")
        newest = sorted((*runs, *on_hub), key=attrgetter("started_at"), reverse=True)
        rows = published.measured_rows()
        races = [*wall.of_runs(map(Report, (*newest, *recorded_runs())), sources), *wall.of_rows(rows)]
        return wall.wall(races), tables.status_line(" ".join(filter(None, [_raceless(rows), problem])))

    def _draw_with_hub(self) -> tuple[object, object]:
        """Draws the wall of races again, now also those of the results in the dataset on the Hub."""
        if self._hub is None:
            return gr.skip(), gr.skip()
        here = {run.id for run in self._history.each()} | waits_for_deletion(self._history)
        try:
            on_hub = self._hub.newest(without=here)
        except NoAnswer as error:
            return self._draw_wall([], f"The dataset {self._hub.dataset} is missing: {fmt.excerpt(str(error))}.")
        more = f"Not all results of the dataset {self._hub.dataset} are read yet: open this tab again later."
        return self._draw_wall(on_hub, "" if self._hub.is_complete(here) else more)

    def _press(self, rows: Sequence[PublishedRow], event: gr.SelectData) -> tuple[str, object]:
        """Returns the query that fills the form with the pressed row's settings, and an update of the status line.

        If the row cannot be run here, the query is '', and the status line says why.
        """
        try:
            (row,) = rows[event.index[0] :][:1]  # none, if the table has other rows meanwhile
        except ValueError:
            return "", gr.skip()
        try:
            return query_of(row), gr.skip()
        except BadInput as refused:
            return "", tables.status_line(f"This row cannot be run here. {refused}")


def _scope(rows: Sequence[PublishedRow], drawn: int) -> str:
    """Returns sentences that say which rows the tab shows. `drawn`: how many rows are in the first chart."""
    if not rows:
        return "No row matches all of these. Choose All in one of the lists."
    first = rows[0]
    scope = f"{fmt.count(len(rows), 'row')}. Press one to fill the form with what it measured."
    if drawn < len(rows):
        scope += f" The first chart shows {first.gpu} at batch {first.batch_size} alone, mode {first.mode}."
    if any(row.weights == "random" for row in rows):
        scope += " This project's own rows have random weights, on whose values latency mostly does not depend."
    return scope


def _raceless(rows: Sequence[PublishedRow]) -> str:
    """Returns a sentence that says how many rows of this project's tables have no race, and why; '' if all have one.

    A race is a chart of calls over time.
    """
    without = [row for row in rows if not row.costs]
    unknown = [row for row in without if row.first_call_seconds is None and row.kept_first_call_seconds is None]
    if not without:
        return ""
    return (
        f"{len(without)} of the {fmt.count(len(rows), 'row')} that this project measured have no race: of "
        f"{len(unknown)} no first call was kept, and the speed-up of {len(without) - len(unknown)} is not clear."
    )


def _table(rows: Sequence[PublishedRow]) -> object:
    """Returns an update that shows the rows. Columns that are empty in all rows are left out."""
    lines = list(map(_line, rows))
    used = [title for title in lines[0] if any(line[title] != "" for line in lines)] if lines else []
    return tables.update({title: line[title] for title in used} for line in lines)


def _choices(rows: Sequence[PublishedRow], subset: str) -> dict[str, list[tuple[str, str]]]:
    """Returns the choices of each list: all tables, and the GPUs, batch sizes and tasks in the table `subset`.

    If no table has this name, as for ALL, the GPUs, batch sizes and tasks of all tables are offered.
    """
    subsets = published.values(rows, "subset")
    within = [row for row in rows if row.subset == subset] if subset in subsets else rows
    every = ("All", ALL)
    return {
        "subset": [every, *((published.subset_words(name, rows), name) for name in subsets)],
        "gpu": [every, *((gpu, gpu) for gpu in published.values(within, "gpu"))],
        "batch_size": [every, *((str(size), str(size)) for size in published.values(within, "batch_size"))],
        "task": [every, *((TASK_NAMES[task], task) for task in published.values(within, "task"))],
    }


def _line(row: PublishedRow) -> dict[str, object]:
    faults = published.notes_of(row)
    speedup = OOM if row.speedup is None else fmt.ratio(row.speedup)
    if row.speedup is not None and row.speedup_low and row.speedup_high:
        speedup = f"{speedup} ({fmt.ends(row.speedup_low, row.speedup_high)})"
    model = f"{row.model} †" if faults else row.model
    return {
        "Model": tables.bold(model),
        "GPU": row.gpu,
        "Batch": row.batch_size,
        "Eager, ms": tables.milliseconds_cell(row.eager_seconds, OOM),
        "Compiled, ms": tables.milliseconds_cell(row.compiled_seconds, OOM),
        "Speed-up": tables.Cell(row.speedup, speedup, tables.BOLD_STYLE),
        "torch": row.torch,
        "Mode": row.mode,
        "Number format": row.dtype or "float32",
        "Settings": ", ".join(published.setting_words(row)),
        "Threads": row.threads if row.threads is not None else "",
        "Date": row.date,
        "Checkpoint": row.checkpoint,
        "Note": " ".join(faults),
    }


def query_of(row: PublishedRow) -> str:
    """Returns the query of a link that fills the form with this row's settings.

    Raises BadInput if the settings are not possible here, such as a batch size above this page's limit.
    """
    settings: OptionValues = {"batch_size": row.batch_size, "mode": row.mode}
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
