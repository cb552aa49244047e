"""The tab of stored runs: search, open, compare, export, delete."""

from typing import Any
from urllib.parse import urlencode

import gradio as gr
from gradio.processing_utils import save_bytes_to_cache
from gradio.utils import get_upload_folder

from demo.core import format as fmt, hub, limits
from demo.core.result import RunResult
from demo.core.spec import BadInput
from demo.present import sentences
from demo.store import export
from demo.store.history import HistoryError
from demo.store.hub_dataset import PushedHistory
from demo.ui.html import comparison
from demo.ui.html.elements import drawn
from demo.ui.look import DOWNLOAD, source
from demo.ui.tabs import links
from demo.ui.tabs.events import AT_ONCE, data_of
from demo.ui.tabs.run_tab import RunTab

PAGE = 50
"""Runs listed at once. The first listing of a run computes its interval, which takes some hundredths of a second."""

MAX_AT_ONCE = 1000
"""Runs in one list, export or deletion. Each takes up to some hundred kilobytes of memory."""

NAMED = 5
"""Runs that the question before a deletion names. It counts the others."""

COMPARE = "history_compare"
"""The parameter of a link with the ids of the runs that it compares."""

LIST = source("history.js")
PLACED = "${globalThis.runList?.place(value) ?? value}"
"""The list's template, which gradio evaluates before it writes the list."""
TICKED = "(_, ...rest) => [runList.ticked(), ...rest]"
QUESTIONED = "(_, ...rest) => [runList.questioned(), ...rest]"


ListState = tuple[int, str, object]
"""What the list on a page was made from: the runs that it may have, the search, and the history's stamp."""


class HistoryTab:
    """Make it inside the `gr.Tab` that holds it."""

    def __init__(self, run_tab: RunTab, tabs: gr.Tabs, tab: gr.Tab) -> None:
        """Opening a run shows it in `run_tab`, which is one of `tabs`; `tab` is this one."""
        self._history = run_tab.history
        self._run_tab = run_tab
        self.tabs = tabs
        self._may_delete = not limits.on_space()  # on a Space the runs are those of many people
        with gr.Column(elem_id="history"):
            introduction = drawn("comparison.introduction", MAX_AT_ONCE, self._may_delete)
            gr.HTML(introduction, apply_default_css=False)
            if isinstance(self._history, PushedHistory):
                address = f"{hub.endpoint()}/datasets/{self._history.dataset}"
                gr.Markdown(f"Each result is also pushed to the dataset [{self._history.dataset}]({address}).")
            with gr.Row(elem_id="history-tools"):
                self.search = gr.Textbox(
                    label="Search",
                    placeholder="A checkpoint, a mode, a device, a date, a result …",
                    elem_id="search",
                    scale=3,
                )
                self.compare_button = gr.Button("Compare selected (2-4)", elem_id="compare")
                self.exports = {
                    format: gr.Button(f"Export {words}", elem_classes="export")
                    for format, words in (("csv", "CSV"), ("json", "JSON"), ("parquet", "Parquet"))
                }
                self.delete_button = gr.Button("Delete …", visible=self._may_delete, elem_id="delete")
            self.message = gr.HTML("", elem_id="history-message", apply_default_css=False)
            with gr.Row(visible=False, elem_id="sure") as self.sure:
                self.question = gr.HTML("", apply_default_css=False)
                self.for_good_button = gr.Button("Delete for good", variant="primary", elem_id="for-good")
                self.keep_button = gr.Button("Keep", elem_id="keep")
            with gr.Column(elem_id="compared", elem_classes="comparison"):
                self.compared = gr.HTML("", apply_default_css=False)
            self.runs = gr.HTML("", elem_id="runs", apply_default_css=False, js_on_load=LIST, html_template=PLACED)
            self.more_button = gr.Button("Show more", visible=False, elem_id="more")
            self.file = gr.DownloadButton("The file", elem_id="exported", elem_classes="unseen")
        self.ticked = gr.Textbox("", visible=False)  # filled by TICKED: ids, separated by spaces
        self.asked = gr.Textbox("", visible=False)  # filled by links.QUERY
        self.chosen = gr.Textbox("", visible=False)  # the runs of the comparison that is shown, as a query
        self.shown = gr.State((PAGE, "", None))
        self._wire(tab)

    def _wire(self, tab: gr.Tab) -> None:
        shown = [self.runs, self.more_button, self.shown]
        self.runs.tick(self._follow, [self.search, self.shown], shown, **AT_ONCE)
        tab.select(self._show, self.search, shown, **AT_ONCE)
        self.search.change(self._show, self.search, shown, trigger_mode="always_last", **AT_ONCE)
        # a comparison stands above the list and would hide what the search finds
        compared = [self.compared, self.chosen]
        address: dict[str, Any] = {"js": links.chosen("history"), "api_visibility": "private"}
        self.search.change(lambda: ("", ""), None, compared, **AT_ONCE).then(None, self.chosen, **address)
        reopened = tab.select(
            self._compare_linked, [self.asked, self.chosen], [*compared, self.message], js=links.QUERY, **AT_ONCE
        )
        reopened.then(None, self.chosen, **address)
        self.more_button.click(self._show_more, [self.search, self.shown], shown, **AT_ONCE)
        opening = [self.tabs, self.message, *self._run_tab.showing]
        opened = self.runs.select(self._open, self._run_tab.visitor, opening, **AT_ONCE)
        opened.then(None, self._run_tab.opened, js=links.REMEMBER, api_visibility="private")
        opened.then(None, js="() => runList.toOpened()", api_visibility="private")
        pressed = self.compare_button.click(
            self._compare_ticked, [self.ticked], [*compared, self.message], js=TICKED, **AT_ONCE
        )
        pressed.then(None, js="() => runList.toComparison()", api_visibility="private")
        pressed.then(None, self.chosen, **address)
        for format, button in self.exports.items():
            button.click(
                lambda ticked, search, format=format: self._export(format, ticked, search),
                [self.ticked, self.search],
                [self.file, self.message],
                js=TICKED,
                **(AT_ONCE | {"concurrency_limit": 1, "concurrency_id": "export"}),
            ).success(None, js=DOWNLOAD, api_visibility="private")
        asked = [self.sure, self.question, self.message]
        self.delete_button.click(self._ask, [self.ticked], asked, js=TICKED, **AT_ONCE)
        deleted = self.for_good_button.click(
            self._delete_questioned,
            [self.ticked, self.search],
            [self.sure, self.message, *compared, *shown],
            js=QUESTIONED,
            **AT_ONCE,
        )
        deleted.then(None, js="() => runList.untick()", api_visibility="private")
        deleted.then(None, self.chosen, **address)
        answered = [deleted, self.keep_button.click(lambda: gr.update(visible=False), None, self.sure, **AT_ONCE)]
        for event in answered:
            event.then(None, js="() => runList.toDelete()", api_visibility="private")

    def _show(self, search: str, request: gr.Request, most: int = PAGE) -> tuple[str, Any, ListState]:
        """The list, the button for more of it, and what it was made from."""
        self._history.recover()
        stamp = self._history.stamp()  # before reading: what is stored meanwhile shows the next time
        try:
            stored, results = self._history.count(search), self._history.all(most, search)
        except (HistoryError, BadInput) as error:
            return _reason(error), gr.update(visible=False), (most, search, stamp)
        more = gr.update(visible=most < min(stored, MAX_AT_ONCE))
        return comparison.listing(results, stored, search), more, (most, search, stamp)

    def _show_more(self, search: str, shown: ListState, request: gr.Request) -> tuple[str, Any, ListState]:
        return self._show(search, request, min(shown[0] + PAGE, MAX_AT_ONCE))

    def _follow(self, search: str, shown: ListState, request: gr.Request) -> tuple[Any, Any, Any]:
        """A new list if something was stored or deleted, or the list is of another search; else no change."""
        most, searched, stamp = shown
        if (searched, stamp) == (search, self._history.stamp()):
            return gr.skip(), gr.skip(), gr.skip()
        return self._show(search, request, most if searched == search else PAGE)

    def _open(self, event: gr.EventData, request: gr.Request, visitor: str | None) -> dict[Any, Any]:
        if self._run_tab.is_running(request, visitor):
            return {
                self.message: _message("A run of yours is going on and has the stage. Open this one when it has ended.")
            }
        id = str(data_of(event).get("run"))
        shown = self._run_tab.open(id, self._run_tab.latest(request, visitor))
        return {self.tabs: gr.update(selected="run"), self.message: ""} | shown

    def _compare_ticked(self, ticked: str, request: gr.Request) -> tuple[Any, ...]:
        least, most = comparison.MIN_COMPARED, comparison.MAX_COMPARED
        try:
            ids = _ids(ticked)
            results = self._results(ids) if len(ids) <= most else []
        except (HistoryError, BadInput) as error:
            return gr.skip(), gr.skip(), _reason(error)
        if len(results) < least:
            selected = len(ids) if len(ids) > most else len(results)
            return gr.skip(), gr.skip(), _message(f"Select {least} to {most} runs to compare. Selected: {selected}.")
        return comparison.comparison(results), urlencode({COMPARE: " ".join(ids)}), ""

    def _compare_linked(self, query: str, chosen: str, request: gr.Request) -> tuple[Any, ...]:
        """Shows the comparison that the address names, if it is not the one that is shown."""
        asked = links.read_query(query).get(COMPARE, "")
        if asked == links.read_query(chosen).get(COMPARE, ""):
            return gr.skip(), gr.skip(), gr.skip()
        if not asked:
            return "", "", ""
        *compared, message = self._compare_ticked(asked, request)
        if message:
            return "", "", _message("The runs that this link compares are not all stored here.")
        return *compared, message

    def _export(self, format: str, ticked: str, search: str) -> tuple[Any, str]:
        try:
            ids = _ids(ticked)
            results = self._results(ids) if ids else self._history.all(MAX_AT_ONCE, search)
            stored = len(ids) or self._history.count(search)
            content = export.encoded(results, format)
        except (HistoryError, BadInput) as error:
            raise gr.Error(fmt.redact(str(error)), print_exception=False) from error
        path = save_bytes_to_cache(content, f"worth-compiling-runs.{format}", get_upload_folder())
        message = f"{sentences.count(len(results), 'run')} written to worth-compiling-runs.{format}."
        if stored > MAX_AT_ONCE:
            message += f" They are the newest of {stored}; on the command line, history export writes all."
        return path, _message(message)

    def _ask(self, ticked: str, request: gr.Request) -> tuple[Any, str, str]:
        """The question, which names the runs and holds their ids. Those are deleted, even if the ticks change."""
        try:
            ids = _ids(ticked)
            named = [result for id in ids[:NAMED] if (result := self._history.get(id)) is not None]
        except (HistoryError, BadInput) as refused:
            return gr.update(visible=False), "", _reason(refused)
        doomed = [*(result.id for result in named), *ids[NAMED:]]
        if not doomed:
            return gr.update(visible=False), "", _message("Select runs to delete.")
        return gr.update(visible=True), comparison.confirm_delete(named, doomed), ""

    def _delete_questioned(self, ids: str, search: str, request: gr.Request) -> tuple[Any, ...]:
        try:
            deleted = self._history.delete(_ids(ids)) if self._may_delete else 0
            message = _message(f"{fmt.capital(sentences.count(deleted, 'run'))} deleted.")
        except (HistoryError, BadInput) as error:
            message = _reason(error)
        return gr.update(visible=False), message, "", "", *self._show(search, request)

    def _results(self, ids: list[str]) -> list[RunResult]:
        """These runs, oldest first, without those deleted meanwhile."""
        results = [result for id in ids if (result := self._history.get(id)) is not None]
        return sorted(results, key=lambda result: result.started_at)


def _ids(ticked: str) -> list[str]:
    """Each ticked run once. The text comes from a browser, so it may be anything. Raises BadInput."""
    ids = list(dict.fromkeys(ticked.split()))
    if len(ids) > MAX_AT_ONCE:
        raise BadInput(f"At most {MAX_AT_ONCE} runs at once. Selected: {len(ids)}. Select fewer.")
    return ids


def _reason(error: HistoryError | BadInput) -> str:
    return _message(fmt.redact(str(error)))


def _message(sentence: str) -> str:
    return drawn("comparison.message", sentence)
