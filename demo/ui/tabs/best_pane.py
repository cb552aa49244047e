"""Shows a search for the best way to run a model in the result pane: its verdict, table, charts and code."""

from collections.abc import Sequence
from typing import Any

import gradio as gr
import plotly.graph_objects as go
from gradio.events import Dependency
from markupsafe import Markup

from ...core import format as fmt
from ...present import naming, whole_work
from ...present.charts import WayKind, WayLine, crossover, ladder
from ...present.figure import provenance
from ...present.markdown import escape_markdown
from ...present.script import change
from ...sweep import best_costs, best_words
from ...sweep.best_table import EAGER_WAY, BestTable, WayResult
from ...sweep.best_way import MINUTES
from ...sweep.run_grid import Timing, Waiting
from ..desk import Desk
from ..look import TO_ANSWER
from ..works import BestSearch, result_or_error
from . import links, tables
from .events import EVENT_OPTIONS, RAW, Updates, WorkView, error_card
from .form import spec_and_picture
from .headline import doing, waits
from .result_pane import code_to_copy, place_of_slider
from .run_tab import RunTab


class BestPane(WorkView[BestSearch]):
    """The components of a search in the result pane, and their events. Create it after `RunTab`."""

    def __init__(self, desk: Desk, run_tab: RunTab) -> None:
        self._desk, self._tab = desk, run_tab
        with run_tab.pane.best:
            self.head = gr.Markdown(elem_id="best-head")
            self.work = place_of_slider("best-work")
            """The slider for the number of calls between two restarts of a process. Its coloured strips say which way
            to run the model is best."""
            self.table = tables.make_table("best-table", "Ways; press a row to see its run")
            self.code = code_to_copy(label="The lines of code for this way", visible=False)
            with gr.Row(elem_id="best-charts"):
                self.charts = {
                    draw: gr.Plot(visible=False, show_label=False, elem_id=f"best-{draw.__name__.strip('_')}")
                    for draw in (_crossover, _ladder)
                }
            self.details = gr.Markdown(elem_id="best-opened", elem_classes="section")
        pane, buttons = run_tab.pane, run_tab.form.buttons
        answer = [self.head, self.work, self.table, self.code, *self.charts.values()]
        super().__init__(desk.works, [self.head, self.table], [*answer, *buttons, pane.notice])
        around = [pane.best, pane.notice, pane.live, *buttons, run_tab.has_run, run_tab.shown_id]
        self._beginning = [*around, *answer, self.details, self.work_shown]
        self.arriving = list(dict.fromkeys([*run_tab.showing, *self._beginning]))
        self._wire()

    def arrive_after(self, arrived: Dependency) -> None:
        """Connects the events that show the visitor's search when a page opens. They follow the event `arrived`."""
        shown = arrived.then(self._arrive, self._tab.visitor, self.arriving, **EVENT_OPTIONS)
        shown.then(None, js=TO_ANSWER, api_visibility="private")
        self._watch_after(shown)

    def _wire(self) -> None:
        form = self._tab.form
        inputs = [self._tab.visitor, form.minutes, form.other_formats, *form.inputs.values()]
        begun = form.best.click(self._search, inputs, self._beginning, **RAW)
        begun.then(None, self._tab.shown_id, js=links.SHOW, api_visibility="private")
        self._watch_after(begun)
        self.table.select(self._open, self.work_shown, self.details, **EVENT_OPTIONS)

    # ---- a search

    def _search(
        self, request: gr.Request, visitor: str | None, minutes: Any, other_formats: object, *values: object
    ) -> Updates:
        desk, form = self._desk, self._tab.form

        def make(name: str) -> BestSearch:
            spec, image = spec_and_picture(form.by_name(values))
            time = MINUTES if minutes is None else minutes
            return BestSearch(desk.runner, desk.queue, name, desk.history, spec, image, bool(other_formats), time)

        return self._start(request, visitor, make)

    def _show_refusal(self, card: Markup) -> Updates:
        return self._tab.form.pressable(running=False) | self._tab.pane.show_refusal(card)

    def _show_start(self, going: BestSearch) -> Updates:
        tab = self._tab
        return (
            tab.form.pressable(running=not going.ended)
            | {part: gr.update(visible=False) for part in (tab.pane.notice, tab.pane.live)}
            | self._answer(going)
            | {tab.pane.best: gr.update(visible=True), self.details: ""}
            | {tab.has_run: True, tab.shown_id: "", self.work_shown: going}
        )

    def _answer(self, going: BestSearch) -> Updates:
        """Returns updates of verdict and table. Once the search has ended, they also show charts and code."""
        table = going.table
        run = table.winner.result if table.winner is not None and going.ended else None
        code = change(run.spec) if run is not None else ""
        figures = {plot: draw(table) if going.ended else None for draw, plot in self.charts.items()}
        slider = whole_work.slider(best_costs.way_choice(table)) if going.ended else ""
        changes: Updates = {
            self.work: gr.update(value=slider, visible=bool(slider)),
            self.code: gr.update(value=code, visible=bool(code)),
            **{plot: tables.plot(figure) for plot, figure in figures.items()},
        }
        return self._show_progress(going) | self._show_cells(going) | changes

    def _arrive(self, request: gr.Request, visitor: str | None) -> Updates:
        """Returns updates that show the visitor's search when a page opens.

        They show no search in these cases:

        - The visitor has no search, or started something else after it.
        - The link of the page names a stored run.
        - The search has ended, a page has shown its end before, and the link asks for settings that the search
          did not have.
        """
        tab = self._tab
        going = self.work_of(request, visitor)
        if not isinstance(going, BestSearch) or links.RUN in request.query_params:
            return {self.work_shown: None}
        linked = result_or_error(lambda: links.spec_of(request.query_params, going.spec.checkpoint))
        if going.ended and going.delivered and linked not in (None, going.spec):
            return {self.work_shown: None}
        form: Updates = {tab.form.minutes: going.minutes, tab.form.other_formats: going.other_formats}
        form |= links.fill_form(tab.form, going.spec) | tab.form.with_picture(going.image)
        return self._show_start(going) | form

    def _show_progress(self, going: BestSearch) -> Updates:
        return {self.head: head(going)}

    def _show_cells(self, going: BestSearch) -> Updates:
        table = going.table
        return {self.table: tables.update(_row(row, table) for row in table.rows)}

    def _show_end(self, going: BestSearch) -> Updates:
        updates, problem = self._tab.form.pressable(running=False) | self._answer(going), going.take_result()
        if isinstance(problem, Exception):
            updates[self._tab.pane.notice] = gr.update(value=error_card(problem), visible=True)
        return updates

    def _open(self, going: BestSearch | None, event: gr.SelectData) -> str:
        rows = going.table.rows if going is not None else ()
        run = next((row.result for row in rows if row.way.name == event.row_value[0]), None)
        return links.run_summary(run) if run is not None else ""


# ---- what a search says


def head(going: BestSearch) -> str:
    """Returns the verdict so far as Markdown. During the search it also has the present step and the time left."""
    search, spec = going.search, going.spec
    answer, *more = map(escape_markdown, best_words.conclusion(going.table))
    every = [part for part in naming.settings_list(spec) if part not in (spec.mode, spec.dtype)]
    state = "everything was tried" if search.complete else "ended before everything was tried"
    kicker = escape_markdown(" · ".join([spec.checkpoint, *every, state if going.ended else "so far"]))
    paragraphs = [kicker, f"## {answer}", *more]
    if not going.ended:
        paragraphs.append(f"{_doing(going)} · {fmt.rounded_duration(search.left_seconds)} left at most")
    elif not search.complete:
        why = "It was cancelled" if going.stopped else "The time was up"
        left = escape_markdown(best_words.missing(why, search.missing))
        paragraphs.append(f"{left}; press “Find the best way” again to go on from what was measured.")
    return "\n\n".join(paragraphs)


def _doing(going: BestSearch) -> str:
    match going.doing:
        case Waiting(ahead):
            return waits(ahead, going.queue)
        case Timing(place, timing):
            way = fmt.capital(best_words.name(going.search.ways[place]))
            return f"**{way}** · {doing(timing)}"
    return "Choosing what to try next"


def _row(row: WayResult, table: BestTable) -> dict[str, tables.Cell]:
    """Returns the cells of a table row by column title.

    A row is a way to run the model, such as freezing. The winner is bold. A way that cannot win is grey.
    """
    style = tables.BOLD_STYLE if _kind(row, table) == "winner" else tables.MUTED_STYLE if row.out else ""
    words = best_words.cells(row)
    numbers = {
        "speedup": row.speedup.ratio if row.speedup is not None else None,
        "seconds": row.seconds,
        "cold": row.first_answer("cold"),
        "warm": row.first_answer("warm"),
        "memory": row.memory_bytes,
    }
    cells = {
        title: tables.Cell(numbers.get(name, words[name]), words[name], style)
        for name, title in best_words.WAY_COLUMNS.items()
        if name != "way"
    }
    rank = tables.Cell(row.rank, str(row.rank or tables.UNKNOWN), style)
    way = tables.Cell(row.way.name, words["way"], style)  # by its name `BestPane._open` finds the row
    return {"Way": way, "Rank": rank, **cells}


def _crossover(table: BestTable) -> go.Figure | None:
    """Returns the chart of total time by number of calls, with a line for each way to run the model.

    Ways without a rank, or whose time to a first answer with a filled compile cache is not known, have no line. Returns
    None if eager was not timed, or for fewer than two lines.
    """
    eager = next((row.seconds for row in table.rows if row.way.name == EAGER_WAY), None)
    if eager is None:
        return None
    # A way's own latency may stand beside another eager: its speed-up is what the lines can be compared by.
    lines = [
        WayLine(fmt.capital(best_words.name(row.way)), _kind(row, table), start, eager / row.speedup.ratio)
        for row in table.rows
        if row.rank is not None and row.speedup is not None and (start := row.first_answer("warm"))
    ]
    return crossover(lines, _source(table))


def _kind(row: WayResult, table: BestTable) -> WayKind:
    if table.winner is not None and row.way == table.winner.way:
        return "winner"
    return "eager" if row.way.name == EAGER_WAY else "other"


def _ladder(table: BestTable) -> go.Figure | None:
    """Returns the bar chart of the time to the first output; None if no time is known.

    It has a bar for each way to compile, or not to compile, that took part in the ranking.
    """
    parts = best_words.FIRST_ANSWER_PARTS
    bars = {
        fmt.capital(best_words.name(row.way)): {word: answer.get(part, 0.0) for part, word in parts.items()}
        for row in table.rows
        if not row.out and (answer := row.first_answers.get("warm"))
    }
    return ladder(bars, _source(table))


def _source(table: BestTable) -> Sequence[str]:
    return next((provenance(row.result) for row in table.rows if row.result is not None), [])
