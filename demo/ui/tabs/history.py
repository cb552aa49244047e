"""The tab of stored runs: search, open, compare, take away, delete."""

from __future__ import annotations

from typing import Any

import gradio as gr
from gradio.processing_utils import save_bytes_to_cache
from gradio.utils import get_upload_folder

from demo.core import format as fmt
from demo.core import limits
from demo.core.languages import ENGLISH, Language
from demo.core.result import BadInput, RunResult
from demo.present import section_texts as words
from demo.store import export
from demo.store.history import History, HistoryError
from demo.store.journal import Journal
from demo.ui.html import comparison as compare
from demo.ui.html.elements import esc
from demo.ui.tabs import links
from demo.ui.tabs.run import FOCUS_STAGE, TO_STAGE, RunTab
from demo.ui.web.visitor_language import IN_ENGLISH, label, of, written

PAGE = 50
"""Runs listed at once. The interval of each is computed when it is first listed, in some hundredths of a second."""

MOST_AT_ONCE = 1000
"""Runs that one list or export holds, or one deletion ends: each is up to some hundred kilobytes of memory."""

OPEN_ON_CLICK = """
element.addEventListener('click', (event) => {
  const link = event.target.closest('a[data-run]');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  trigger('select', {run: link.dataset.run});
});
"""
"""A plain click opens the run in this page; any other one does what a browser does with a link."""
TICKED = """(_, ...rest) => [
  Array.from(document.querySelectorAll('#runs input:checked'), (box) => box.value).join(' '), ...rest
]"""
DOWNLOAD = """() => setTimeout(() => document.querySelector('#exported a, a#exported, #exported').click(), 150)"""
TO_OPENED = f"() => setTimeout(() => {{ ({TO_STAGE})(); ({FOCUS_STAGE})(); }}, 100)"
"""The other tab is there a moment later, as far down as this one was."""
TO_DELETE = """() => document.getElementById('delete').focus({preventScroll: true})"""
"""The button that had the focus is gone."""
TO_COMPARISON = """() => document.getElementById('compared').scrollIntoView({block: 'start'})"""


class HistoryTab:
    """Make it inside the `gr.Tab` that shall hold it."""

    def __init__(self, history: History, run_tab: RunTab, tabs: gr.Tabs, tab: gr.Tab, room: str) -> None:
        """Opening a run shows it in `run_tab`, which is the tab `room` of `tabs`; `tab` is this one."""
        self._history = history
        self._run_tab = run_tab
        self._room = room
        self._tabs = tabs
        self._may_delete = not limits.on_space()  # on a Space these are the runs of many people
        with gr.Column(elem_id="history"):
            gr.HTML(written(self._introduction), apply_default_css=False)
            with gr.Row(elem_id="history-tools"):
                self._search = gr.Textbox(
                    label=label("search"),
                    placeholder=label("search_placeholder"),
                    elem_id="search",
                    scale=3,
                )
                self._compare = gr.Button(label("compare"), elem_id="compare")
                self._exports = {
                    format: gr.Button(name, elem_classes="export")
                    for format, name in (("csv", "CSV"), ("json", "JSON"), ("parquet", "Parquet"))
                }
                self._delete = gr.Button(label("delete"), visible=self._may_delete, elem_id="delete")
            self._message = gr.HTML("", elem_id="history-message", apply_default_css=False, html_template=IN_ENGLISH)
            with gr.Row(visible=False, elem_id="sure") as self._sure:
                self._question = gr.HTML("", apply_default_css=False)
                self._for_good = gr.Button(label("delete_for_good"), variant="primary", elem_id="for-good")
                self._keep = gr.Button(label("keep_them"), elem_id="keep")
            self._compared = gr.HTML("", elem_id="compared", apply_default_css=False)
            self._list = gr.HTML("", elem_id="runs", apply_default_css=False, js_on_load=OPEN_ON_CLICK)
            self._more = gr.Button(label("show_more"), visible=False, elem_id="more")
            self._file = gr.DownloadButton("The file", elem_id="exported", elem_classes="unseen")
        self._ticked = gr.Textbox("", visible=False)  # TICKED fills it as it is sent: ids, a space between
        self._doomed = gr.State(())
        self._listed = gr.State(PAGE)
        self._wire(tab)

    def _introduction(self, say: Language) -> str:
        delete = "" if self._may_delete else f" {say.html('history_no_delete')}"
        return (
            f'<div class="introduction"><h2>{say.html("history_title")}</h2>'
            f"<p>{say.html('history_words', most=MOST_AT_ONCE)}{delete}</p></div>"
        )

    def _wire(self, tab: gr.Tab) -> None:
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}
        shown = [self._list, self._more, self._listed]
        tab.select(self._show_first, self._search, shown, **quiet)
        self._search.change(self._show_first, self._search, shown, trigger_mode="always_last", **quiet)
        # the list begins below what was compared: there nobody would see what was found
        self._search.change(lambda: "", None, self._compared, **quiet)
        self._more.click(self._show_more, [self._search, self._listed], shown, **quiet)
        opening = [self._tabs, self._message, *self._run_tab.showing]
        opened = self._list.select(self._open, self._run_tab.visitor, opening, **quiet)
        opened.then(None, self._run_tab.opened, js=links.REMEMBER, api_visibility="private")
        opened.then(None, js=TO_OPENED, api_visibility="private")
        self._compare.click(
            self._compare_ticked, [self._ticked], [self._compared, self._message], js=TICKED, **quiet
        ).then(None, js=TO_COMPARISON, api_visibility="private")
        for format, button in self._exports.items():
            button.click(
                lambda ticked, search, format=format: self._export(format, ticked, search),
                [self._ticked, self._search],
                [self._file, self._message],
                js=TICKED,
                **(quiet | {"concurrency_limit": 1, "concurrency_id": "export"}),
            ).success(None, js=DOWNLOAD, api_visibility="private")
        asked = [self._sure, self._question, self._doomed, self._message]
        self._delete.click(self._ask, [self._ticked], asked, js=TICKED, **quiet)
        answered = [
            self._keep.click(lambda: gr.update(visible=False), None, self._sure, **quiet),
            self._for_good.click(
                self._delete_doomed,
                [self._doomed, self._search],
                [self._sure, self._message, self._compared, *shown],
                **quiet,
            ),
        ]
        for event in answered:
            event.then(None, js=TO_DELETE, api_visibility="private")

    def _show(self, search: str, count: int = PAGE, say: Language = ENGLISH) -> tuple[str, Any, int]:
        """The list, the button for more of it, and how many it may hold."""
        Journal(self._history).recover()
        try:
            results, stored = self._history.all(count, search), self._history.count(search)
        except (HistoryError, BadInput) as error:
            return say.passage(_why(error)), gr.update(visible=False), PAGE
        more = count < min(stored, MOST_AT_ONCE)
        return compare.listing(results, stored, search, say), gr.update(visible=more), count

    def _show_first(self, search: str, request: gr.Request | None = None) -> tuple[str, Any, int]:
        return self._show(search, say=of(request))

    def _show_more(self, search: str, count: int, request: gr.Request | None = None) -> tuple[str, Any, int]:
        return self._show(search, min(count + PAGE, MOST_AT_ONCE), of(request))

    def _open(self, event: gr.EventData, request: gr.Request, visitor: str | None) -> dict[Any, Any]:
        if self._run_tab.is_running(request, visitor):
            return {
                self._message: _told("A run of yours is going on and has the stage. Open this one when it has ended.")
            }
        id = str((event._data or {}).get("run", ""))
        shown = self._run_tab.open(id, of(request), self._run_tab.latest(request, visitor))
        return {self._tabs: gr.update(selected=self._room), self._message: ""} | shown

    def _compare_ticked(self, ticked: str, request: gr.Request | None = None) -> tuple[Any, str]:
        try:
            ids = _ids(ticked)
            too_many = len(ids) > compare.MOST
            results = [] if too_many else self._found(ids)
        except (HistoryError, BadInput) as error:
            return gr.skip(), _why(error)
        if not compare.FEWEST <= len(results) <= compare.MOST:
            return gr.skip(), _told(
                f"Tick {compare.FEWEST} to {compare.MOST} runs to compare them. "
                f"Ticked: {len(ids) if too_many else len(results)}."
            )
        return compare.comparison(results, of(request)), ""

    def _export(self, format: str, ticked: str, search: str) -> tuple[Any, str]:
        try:
            ids = _ids(ticked)
            results = self._found(ids) if ids else self._history.all(MOST_AT_ONCE, search)
            stored = len(ids) or self._history.count(search)
            content = export.encoded(results, format)
        except (HistoryError, BadInput) as error:
            raise gr.Error(fmt.for_a_stranger(str(error)), print_exception=False) from error
        path = save_bytes_to_cache(content, f"worth-compiling-runs.{format}", get_upload_folder())
        told = f"{words.count(len(results), 'run')} written to worth-compiling-runs.{format}."
        if stored > MOST_AT_ONCE:
            told += f" They are the newest of {stored}; on the command line, history export writes all."
        return path, _told(told)

    def _ask(self, ticked: str, request: gr.Request | None = None) -> tuple[Any, str, tuple[str, ...], str]:
        try:
            doomed = tuple(_ids(ticked))
        except BadInput as refused:
            return gr.update(visible=False), "", (), _why(refused)
        if not doomed:
            return gr.update(visible=False), "", (), _told("Tick the runs that are to be deleted.")
        question = of(request).html("delete_one" if len(doomed) == 1 else "delete_many", count=len(doomed))
        return gr.update(visible=True), f'<p role="alert">{question}</p>', doomed, ""

    def _delete_doomed(
        self, doomed: tuple[str, ...], search: str, request: gr.Request | None = None
    ) -> tuple[Any, ...]:
        try:
            deleted = self._history.delete(doomed) if self._may_delete else 0
            told = _told(f"{words.count(deleted, 'run')} deleted.")
        except HistoryError as error:
            told = _why(error)
        return gr.update(visible=False), told, "", *self._show(search, say=of(request))

    def _found(self, ids: list[str]) -> list[RunResult]:
        """These runs, oldest first; one that has been deleted meanwhile is left out."""
        found = [result for id in ids if (result := self._history.get(id)) is not None]
        return sorted(found, key=lambda result: result.started_at)


def _ids(ticked: str) -> list[str]:
    """Each ticked run once. The text comes from a browser, so it may hold anything. Raises BadInput."""
    ids = list(dict.fromkeys(ticked.split()))
    if len(ids) > MOST_AT_ONCE:
        raise BadInput(f"At most {MOST_AT_ONCE} runs at once. Ticked: {len(ids)}. Untick some.")
    return ids


def _why(error: HistoryError | BadInput) -> str:
    return _told(fmt.for_a_stranger(str(error)))


def _told(sentence: str) -> str:
    return f'<p role="status">{esc(sentence)}</p>'
