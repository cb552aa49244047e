"""The tab History: searches, opens, compares, exports and deletes stored runs."""

from collections.abc import Iterable
from urllib.parse import urlencode

import gradio as gr

from ...core import format as fmt, hub, limits
from ...core.options import BadInput
from ...core.result import RunResult
from ...present import naming
from ...present.charts import intervals
from ...present.report import Report
from ...store import export
from ...store.database import HistoryError
from ...store.history import History
from ...store.hub_dataset import PushedHistory
from ..look import TO_OPEN_RUN, download, scroll_to
from . import compare, links, tables
from .events import EVENT_OPTIONS, LATEST, RAW, Updates
from .run_tab import RunTab

LISTED = 200
"""The most runs in the table: the interval of each takes milliseconds to compute."""
MAX_AT_ONCE = 1000
"""The most runs in an export or a deletion: each may take some hundred kilobytes of memory."""
CONFIRM = """(ids, search) => {
  const sure = ids?.length && confirm(`Delete the selected runs (${ids.length}) for good?`);
  return [sure ? ids : [], search];
}"""

COMPARE = "history_compare"
"""The query parameter of a link to a comparison. Its value is the runs' ids, separated by spaces."""
WIDTHS = (85, 200, 370, 215, 155, 115, 145, 175, 190, 220)
"""Widths of the columns of `row_of`, in pixels. By default columns are as wide as their cells, which cuts titles."""


class HistoryTab:
    """The components of the tab History and their events. Create it inside `with gr.Tab(...)`."""

    def __init__(self, history: History, run_tab: RunTab, tabs: gr.Tabs, tab: gr.Tab) -> None:
        """`run_tab`: shows a run when its row is pressed. `tabs`: all tabs. `tab`: this tab."""
        self._history = history
        self._run_tab, self.tabs = run_tab, tabs
        self._may_delete = not limits.on_space()  # on a Space the runs belong to many people
        with gr.Column(elem_id="history"):
            gr.Markdown(self._introduction())
            with gr.Row(elem_id="history-tools", equal_height=False):
                hint = "A checkpoint, a device, a date …"
                self.search = gr.Textbox(label="Search", placeholder=hint, elem_id="search")
                self.selected = gr.Dropdown([], value=[], multiselect=True, label="Selected runs", elem_id="selected")
            with gr.Row(elem_id="history-actions"):
                self.compare_button = gr.Button("Compare selected (2-4)", elem_id="compare")
                self.exports = {
                    format: gr.Button(f"Export {words}", elem_classes="export")
                    for format, words in (("csv", "CSV"), ("json", "JSON"), ("parquet", "Parquet"))
                }
                self.delete_button = gr.Button("Delete …", visible=self._may_delete, elem_id="delete")
            self.message = gr.Markdown("", elem_id="history-message")
            with gr.Column(visible=False, elem_id="compared") as self.compared:
                self.answer = gr.Markdown("")
                self.chart = gr.Plot(show_label=False, elem_id="compared-intervals")
                widths = [190, *[320] * compare.MAX_COMPARED]
                self.table = tables.make_table(
                    "compared-table", "The figures of each run", 1400, wrap=True, column_widths=widths
                )
            self.summary = gr.Markdown("", elem_id="history-shown")
            self.runs = tables.make_table("runs", "Stored runs", column_widths=WIDTHS)
            self.file = gr.DownloadButton("The file", elem_id="exported", elem_classes="unseen")
        self.query = gr.Textbox("", visible=False)  # the runs that are compared, as a query
        self.comparing = [self.compared, self.answer, self.chart, self.table, self.query]
        self.listing = [self.summary, self.runs, self.selected]
        self._wire(tab)

    def _introduction(self) -> str:
        text = (
            "Finished, failed, cancelled or interrupted: each run on this machine is kept, and whoever can open this "
            "page can see it. Press a row to open its run, or its + to select it. Exports contain the selected runs, "
            f"or the newest {MAX_AT_ONCE} that match the search."
        )
        if not self._may_delete:
            text += " On a shared Space nothing can be deleted from the page."
        if isinstance(self._history, PushedHistory):
            name = self._history.dataset
            text += f" Each result is also pushed to the dataset [{name}]({hub.shown_endpoint()}/datasets/{name})."
        return f"## Every run so far\n\n{text}"

    def _wire(self, tab: gr.Tab) -> None:
        search, selected, run_tab = self.search, self.selected, self._run_tab
        compared = [*self.comparing, self.message]
        opening = [selected, self.tabs, self.message, run_tab.row_run_id, *run_tab.showing]
        tab.select(self._show, [search, selected], self.listing, **RAW)
        search.change(self._show, [search, selected], self.listing, **LATEST)
        row_pressed = self.runs.select(self._press, [run_tab.visitor, selected], opening, **RAW)
        row_pressed.then(None, run_tab.row_run_id, js=TO_OPEN_RUN, api_visibility="private")
        compare_pressed = self.compare_button.click(self._compare, selected, compared, **RAW)
        compare_pressed.then(None, js=scroll_to("compared"), api_visibility="private")
        events = [
            # a comparison above the list would hide what the search finds
            search.change(self._clear_comparison, None, self.comparing, **EVENT_OPTIONS),
            tab.select(self._compare_linked, self.query, compared, js=links.read_choices("history"), **EVENT_OPTIONS),
            compare_pressed,
            self.delete_button.click(self._delete, [selected, search], [*compared, *self.listing], js=CONFIRM, **RAW),
        ]
        for event in events:
            event.then(None, self.query, js=links.write_choices("history"), api_visibility="private")
        for format, button in self.exports.items():
            button.click(
                lambda selected, search, format=format: self._export(format, selected, search),
                [selected, search],
                [self.file, self.message],
                **(RAW | {"concurrency_limit": 1, "concurrency_id": "export"}),
            ).success(None, js=download("exported"), api_visibility="private")

    # ---- the table

    def _show(self, search: str, selected: list[str]) -> Updates:
        """Returns updates that list the runs that match `search`. Selected runs stay selected if still stored."""
        self._history.recover()
        try:
            results, kept = self._history.all(LISTED, search), self._results(selected)
            stored = self._history.count(search)
        except (BadInput, HistoryError) as error:
            return {self.summary: tables.status_line(fmt.redact(str(error))), self.runs: gr.update(visible=False)}
        summary = fmt.count(stored, "run")
        if len(results) < stored:
            summary = f"The newest {len(results)} of {stored} runs. A search finds the others."
        labels = {run.id: f"{naming.run_line(run)} · {fmt.minute(run.started_at)} UTC" for run in (*results, *kept)}
        return {
            self.summary: tables.status_line(summary),
            self.runs: tables.update(map(row_of, results)),
            self.selected: gr.update(
                choices=[(label, id) for id, label in labels.items()], value=[run.id for run in kept]
            ),
        }

    def _press(self, visitor: str | None, selected: list[str], event: gr.SelectData, request: gr.Request) -> Updates:
        """Returns updates for a pressed cell: in the first column they select the run, in any other they open it."""
        id, (_, column) = event.row_value[-1], event.index
        if column == 0:
            return {self.selected: list(dict.fromkeys([*selected, id])), self._run_tab.row_run_id: ""}
        return self._run_tab.open_from(self.tabs, self.message, id, request, visitor)

    # ---- a comparison

    def _clear_comparison(self) -> Updates:
        return {self.compared: gr.update(visible=False), self.query: ""}

    def _compare(self, selected: list[str]) -> Updates:
        least, most = compare.MIN_COMPARED, compare.MAX_COMPARED
        results = self._results(selected) if len(selected) <= most else []
        if len(results) < least:
            return {self.message: tables.status_line(f"Select {least} to {most} runs to compare.")}
        reports = list(map(Report, results))
        return {
            self.compared: gr.update(visible=True),
            self.answer: compare.conclusion(reports),
            self.chart: tables.plot(intervals(compare.bars(reports))),
            self.table: tables.update(compare.rows(reports)),
            self.query: urlencode({COMPARE: " ".join(selected)}),
            self.message: "",
        }

    def _compare_linked(self, query: str) -> Updates:
        """Returns updates that compare the runs that the page's address names.

        If it names no runs, the comparison is hidden. `query`: the query of the address; '' changes nothing.
        """
        if not query:
            return {self.message: gr.skip()}
        ids = links.read_query(query).get(COMPARE, "").split()
        updates = self._compare(ids) if ids else {}
        if self.compared not in updates:
            missing = "The runs that this link compares are not all stored here." if ids else ""
            updates = self._clear_comparison() | {self.message: tables.status_line(missing)}
        return updates

    # ---- export and deletion

    def _export(self, format: str, selected: list[str], search: str) -> tuple[str, str]:
        """Returns the path of a file with the selected runs, and a message.

        If no run is selected, the file has the runs that match `search`.
        """
        results = self._results(selected) if selected else self._history.all(MAX_AT_ONCE, search)
        name = f"worth-compiling-runs.{format}"
        message = f"{fmt.count(len(results), 'run')} written to {name}."
        if not selected and (matches := self._history.count(search)) > MAX_AT_ONCE:
            message += f" They are the newest of {matches}; on the command line, history export writes all."
        return tables.download_file(export.to_bytes(results, format), name), tables.status_line(message)

    def _delete(self, selected: list[str], search: str) -> Updates:
        """Deletes the selected runs, and returns updates of the tab. `selected`: [] if the visitor did not confirm."""
        deleted = self._history.delete(_each_once(selected)) if selected and self._may_delete else 0
        if not deleted:
            return {self.message: tables.status_line("No run was deleted.")}
        message = tables.status_line(f"{fmt.capital(fmt.count(deleted, 'run'))} deleted.")
        return self._clear_comparison() | self._show(search, []) | {self.message: message}

    def _results(self, ids: Iterable[str]) -> list[RunResult]:
        """Returns the stored runs with these ids, oldest first."""
        results = [result for id in _each_once(ids) if (result := self._history.get(id)) is not None]
        return sorted(results, key=lambda result: result.started_at)


def _each_once(ids: Iterable[str]) -> list[str]:
    """Returns the ids without duplicates. Raises BadInput for more than `MAX_AT_ONCE` ids."""
    once = list(dict.fromkeys(ids))
    if len(once) > MAX_AT_ONCE:
        raise BadInput(f"At most {MAX_AT_ONCE} runs at once. Selected: {len(once)}. Select fewer.")
    return once


def row_of(result: RunResult) -> dict[str, object]:
    report = Report(result)
    known = report.speedup
    ratio = known.ratio if known is not None else None
    ends = fmt.ends(known.low, known.high) if known is not None else tables.UNKNOWN
    return {
        "Select": "+",
        "Checkpoint": tables.bold(naming.model(result.spec)),
        "Settings": naming.run_settings(result),
        "Result": tables.verdict_cell(report, word := compare.in_words(report), word),
        "Interval, 95 %": tables.Cell(ratio, ends),
        **tables.latency_cells(result),
        "Started (UTC)": fmt.minute(result.started_at),
        "Machine": naming.where(result),
        "Id": result.id,
    }
