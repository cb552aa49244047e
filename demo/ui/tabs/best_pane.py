"""The search for the best way on the tab Run: its button, and its stage in the result pane."""

from typing import Any

import gradio as gr
from markupsafe import Markup

from demo.present.script import short_starts, snippet
from demo.ui.html import many_runs
from demo.ui.jobs import BestSearch, make_search
from demo.ui.look import TO_ANSWER, source
from demo.ui.tabs import links
from demo.ui.tabs.events import AT_ONCE, UNREAD, Watching, pressed_of, told
from demo.ui.tabs.form import read
from demo.ui.tabs.result_pane import code_to_copy
from demo.ui.tabs.run_tab import RunTab


class BestPane(Watching):
    """Fills the column `best` of the result pane. Make it inside the `gr.Blocks`, after the tab Run."""

    def __init__(self, run_tab: RunTab) -> None:
        self._tab = run_tab
        with run_tab.pane.best:
            self.head = gr.HTML(elem_id="best-head", apply_default_css=False)
            self.table = gr.HTML(elem_id="best-table", apply_default_css=False, js_on_load=source("open_run.js"))
            self.code = code_to_copy("python", label="The lines of code for this way", visible=False)
            self.starts = code_to_copy("shell", label="A shorter start for the next process", visible=False)
            with gr.Row(elem_id="best-charts"):
                self.charts = {
                    draw: gr.Plot(visible=False, show_label=False, elem_id=f"best-{draw.__name__}")
                    for draw in (many_runs.crossover, many_runs.ladder)
                }
            self.opened = gr.Markdown(elem_id="best-opened", elem_classes="section")
        self._ended = [self.head, self.table, self.code, self.starts, *self.charts.values()]
        pane, buttons = run_tab.pane, run_tab.form.buttons
        super().__init__(run_tab.works, [self.head, self.table], [*self._ended, *buttons, pane.notice])
        shown = [pane.best, pane.notice, pane.live, *buttons, run_tab.has_run, run_tab.opened]
        self._beginning = [*shown, *self._ended, self.opened, self.watched]
        self.arriving = list(dict.fromkeys([*run_tab.showing, *self._beginning]))
        self._wire()

    def arrive_after(self, arrived: Any) -> None:
        """Connects what a new page shows, after the event in which the tab Run has found what it shows."""
        shown = arrived.then(self._arrive, self._tab.visitor, self.arriving, **AT_ONCE)
        shown.then(None, js=TO_ANSWER, api_visibility="private")
        self._watch_after(shown)

    def _wire(self) -> None:
        form = self._tab.form
        asked = [self._tab.visitor, form.minutes, form.other_formats, *form.inputs.values()]
        begun = form.best.click(self._search, asked, self._beginning, **UNREAD)
        begun.then(None, self._tab.opened, js=links.BEGUN, api_visibility="private")
        self._watch_after(begun)
        self.table.select(self._open, self.watched, self.opened, **AT_ONCE)

    # ---- a search

    def _search(
        self, request: gr.Request, visitor: str | None, minutes: Any, other_formats: Any, *values: Any
    ) -> dict[Any, Any]:
        """A press of the button. What is stored already is not run again."""
        tab = self._tab

        def make(name: str) -> BestSearch:
            spec, image = read(dict(zip(tab.form.inputs, values, strict=True)))
            search = make_search(tab.runner, tab.history, spec, image, bool(other_formats), minutes)
            return BestSearch(tab.runner, tab.queue, name, search, spec, image)

        return self._start(request, visitor, make)

    def _refused(self, card: Markup) -> dict[Any, Any]:
        """What is shown stays, an ended search too."""
        return self._tab.form.pressable(running=False) | self._tab.pane.refused(card)

    def _begun(self, going: BestSearch) -> dict[Any, Any]:
        tab = self._tab
        return (
            tab.form.pressable(running=not going.ended)
            | {part: gr.update(visible=False) for part in (tab.pane.notice, tab.pane.live)}
            | self._shown(going)
            | {tab.pane.best: gr.update(visible=True), self.opened: ""}
            | {tab.has_run: True, tab.opened: "", self.watched: going}
        )

    def _shown(self, going: BestSearch) -> dict[Any, Any]:
        """Answer and table; of a search that has ended its charts and code."""
        table = going.search.table()
        run = table.winner.result if table.winner is not None and going.ended else None
        code, starts = (snippet(run), short_starts(run.spec)) if run is not None else ("", "")
        figures = {plot: draw(table) if going.ended else None for draw, plot in self.charts.items()}
        changes: dict[Any, Any] = {
            self.code: gr.update(value=code, visible=bool(code)),
            self.starts: gr.update(value=starts, visible=bool(starts)),
            **{plot: gr.update(value=figure, visible=figure is not None) for plot, figure in figures.items()},
        }
        return self._now(going) | changes

    def _arrive(self, request: gr.Request, visitor: str | None) -> dict[Any, Any]:
        """A page has opened: it shows its visitor's search, unless its end was shown and the link asks for another."""
        tab = self._tab
        going = self.work_of(request, visitor)
        if not isinstance(going, BestSearch) or links.RUN in request.query_params:
            return {self.watched: None}
        linked, _, problem = links.read(request.query_params, going.spec.checkpoint, tab.form)
        if going.ended and going.delivered and (problem or linked not in (None, going.spec)):
            return {self.watched: None}
        form = {tab.form.minutes: going.search.seconds / 60, tab.form.other_formats: going.other_formats}
        form |= links.filled(tab.form, going.spec) | tab.form.with_picture(going.image)
        return self._begun(going) | form

    def _now(self, going: BestSearch) -> dict[Any, Any]:
        table = going.search.table()
        head = many_runs.best_head(going, table)
        return {self.head: head, self.table: many_runs.best_table(going, table)}

    def _end(self, going: BestSearch) -> dict[Any, Any]:
        updates, problem = self._tab.form.pressable(running=False) | self._shown(going), going.outcome()
        if problem is not None:
            updates[self._tab.pane.notice] = gr.update(value=told(problem), visible=True)
        return updates

    def _open(self, going: BestSearch | None, event: gr.EventData, request: gr.Request) -> str:
        """The run of the pressed row."""
        if going is None or (way := pressed_of(going.search.ways, event)) is None:
            return ""
        row = next(row for row in going.search.table().rows if row.way == way)
        return links.opened(row.result) if row.result is not None else ""
