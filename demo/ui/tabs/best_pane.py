"""The search for the best way on the tab Run: its button, its stage in the result pane, and its goal."""

from typing import Any

import gradio as gr
from markupsafe import Markup

from demo.core.languages import Language
from demo.core.spec import BadInput
from demo.sweep.best_table import GOALS, Goal
from demo.ui.html import many_runs, results, takeaway
from demo.ui.jobs import BestSearch, make_search
from demo.ui.look import TO_ANSWER, source
from demo.ui.tabs import links
from demo.ui.tabs.events import AT_ONCE, LATEST, UNREAD, Watching, pressed_of, told
from demo.ui.tabs.form import read
from demo.ui.tabs.run_tab import RunTab
from demo.ui.web.visitor_language import label, request_language


class BestPane(Watching):
    """Fills the column `best` of the result pane. Make it inside the `gr.Blocks`, after the tab Run."""

    def __init__(self, run_tab: RunTab) -> None:
        self._tab = run_tab
        first = Goal()
        with run_tab.pane.best:
            self.head = gr.HTML(elem_id="best-head", apply_default_css=False)
            with gr.Row(elem_id="best-goals"):
                self.goal = gr.Radio(
                    [(label(f"best_goal_{goal}"), goal) for goal in GOALS],
                    value=first.name,
                    label=label("best_goal"),
                    elem_classes="segmented",
                )
                self.calls = gr.Number(first.calls, label=label("traffic_calls"), minimum=0, visible=False)
                self.restarts = gr.Number(first.restarts, label=label("traffic_restarts"), minimum=0, visible=False)
            self.table = gr.HTML(elem_id="best-table", apply_default_css=False, js_on_load=source("open_run.js"))
            self.code = takeaway.component("best-code")
            with gr.Row(elem_id="best-charts"):
                self.charts = {
                    draw: gr.Plot(visible=False, show_label=False, elem_id=f"best-{draw.__name__}")
                    for draw in (many_runs.crossover, many_runs.ladder)
                }
            self.opened = gr.HTML(elem_id="best-opened", apply_default_css=False)
        self._by_goal = [self.head, self.table, self.calls, self.restarts, self.code, *self.charts.values()]
        pane, buttons = run_tab.pane, run_tab.form.buttons
        super().__init__(run_tab.works, [self.head, self.table], [*self._by_goal, *buttons, pane.notice])
        shown = [pane.best, pane.notice, pane.live, *buttons, run_tab.has_run, run_tab.opened]
        self._beginning = [*shown, *self._by_goal, self.opened, self.goal, self.watched]
        self.arriving = list(dict.fromkeys([*run_tab.showing, *self._beginning]))
        self._wire()

    def arrive_after(self, arrived: Any) -> None:
        """Connects what a new page shows, after the event in which the tab Run has found what it shows."""
        shown = arrived.then(self._arrive, self._tab.visitor, self.arriving, **AT_ONCE)
        shown.then(None, js=TO_ANSWER, api_visibility="private")
        self._watch_after(shown)

    def _wire(self) -> None:
        form, goals = self._tab.form, [self.goal, self.calls, self.restarts]
        asked = [self._tab.visitor, form.minutes, form.other_formats, *form.inputs.values()]
        begun = form.best.click(self._search, asked, self._beginning, **UNREAD)
        begun.then(None, self._tab.opened, js=links.BEGUN, api_visibility="private")
        self._watch_after(begun)
        gr.on(
            [self.goal.input, self.calls.input, self.restarts.input],
            self._choose,
            [self.watched, *goals],
            self._by_goal,
            **AT_ONCE,
            **LATEST,
        )
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

    def _begun(self, going: BestSearch, lang: Language) -> dict[Any, Any]:
        tab, goal = self._tab, going.goal
        fields = ((self.calls, goal.calls), (self.restarts, goal.restarts))
        return (
            tab.form.pressable(running=not going.ended)
            | {part: gr.update(visible=False) for part in (tab.pane.notice, tab.pane.live)}
            | self._shown(going, lang)
            | {field: gr.update(value=value, visible=goal.name == "traffic") for field, value in fields}
            | {tab.pane.best: gr.update(visible=True), self.goal: goal.name, self.opened: ""}
            | {tab.has_run: True, tab.opened: "", self.watched: going}
        )

    def _shown(self, going: BestSearch, lang: Language) -> dict[Any, Any]:
        """Answer and table by the goal, and the fields of the goal; of a search that has ended its charts and code."""
        goal, table = going.goal, going.search.table(going.goal)
        run = table.winner.result if table.winner is not None and going.ended else None
        code = takeaway.best_way(run, lang) if run is not None else ""
        figures = {plot: draw(table, lang) if going.ended else None for draw, plot in self.charts.items()}
        changes: dict[Any, Any] = {
            **{field: gr.update(visible=goal.name == "traffic") for field in (self.calls, self.restarts)},
            self.code: gr.update(value=code, visible=bool(code)),
            **{plot: gr.update(value=figure, visible=figure is not None) for plot, figure in figures.items()},
        }
        return self._now(going, lang) | changes

    def _arrive(self, request: gr.Request, visitor: str | None) -> dict[Any, Any]:
        """A page has opened: it shows its visitor's search, unless its end was shown and the link asks for another."""
        tab, lang = self._tab, request_language(request)
        going = self.work_of(request, visitor)
        if not isinstance(going, BestSearch) or links.RUN in request.query_params:
            return {self.watched: None}
        linked, _, problem = links.read(request.query_params, going.spec.checkpoint, tab.form)
        if going.ended and going.delivered and (problem or linked not in (None, going.spec)):
            return {self.watched: None}
        form = {tab.form.minutes: going.search.seconds / 60, tab.form.other_formats: going.other_formats}
        form |= links.filled(tab.form, going.spec) | tab.form.with_picture(going.image)
        return self._begun(going, lang) | form

    def _now(self, going: BestSearch, lang: Language) -> dict[Any, Any]:
        table = going.search.table(going.goal)
        head = many_runs.best_head(going, table, lang)
        return {self.head: head, self.table: many_runs.best_table(going, table, lang)}

    def _end(self, going: BestSearch, lang: Language) -> dict[Any, Any]:
        updates, problem = self._tab.form.pressable(running=False) | self._shown(going, lang), going.outcome()
        if problem is not None:
            updates[self._tab.pane.notice] = gr.update(value=told(problem, lang), visible=True)
        return updates

    def _choose(
        self, request: gr.Request, going: BestSearch | None, goal: Any, calls: float | None, restarts: float | None
    ) -> dict[Any, Any]:
        """Another goal: other ranks and another answer, from what is measured already."""
        if going is None:
            return {self.head: gr.skip()}
        lang = request_language(request)
        try:
            going.goal = Goal(goal, calls or 0.0, restarts or 0.0)
        except BadInput as refused:
            return {self.head: results.refusal("cannot_be_run", str(refused), lang)}
        return self._shown(going, lang)

    def _open(self, going: BestSearch | None, event: gr.EventData, request: gr.Request) -> str:
        """The run of the pressed row."""
        if going is None or (way := pressed_of(going.search.ways, event)) is None:
            return ""
        row = next(row for row in going.search.table().rows if row.way == way)
        return results.opened(row.result, request_language(request)) if row.result is not None else ""
