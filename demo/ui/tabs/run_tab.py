"""The tab Run: the form on the left, the result pane on the right, and the events that connect them."""

import contextlib
import dataclasses
import math
import time
from collections.abc import Iterator

import gradio as gr
from gradio.events import Dependency
from markupsafe import Markup

from ...core import catalog, cores, format as fmt, hub
from ...core.machine import HostInfo
from ...core.options import BadInput, RunSpec
from ...core.progress import Progress, Provisional
from ...core.quality import quality
from ...core.refusals import on_machine, refusal
from ...core.result import RunResult
from ...present import naming, race
from ...present.report import Report
from ...runs import forecast
from ...runs.ongoing import NO_FILES, Files
from ...store.reruns import compiled_spec
from ...sweep.grid import is_from_machine
from ...sweep.run_grid import Waiting
from ..desk import Desk
from ..look import FOCUS_STAGE, REDRAW, TO_ANSWER, TO_STAGE
from ..templates import render
from ..works import Series, VisitorRun, WaitingForQuiet, Work, result_or_error, visitor_name
from . import form as forms, links, tables
from .events import EVENT_OPTIONS, IN_BROWSER, LATEST, RAW, Updates, WorkView, error_card, follow_work, problem_card
from .form import FIRST_CHECKPOINT
from .headline import headline, intro, progress_strip, recorded_runs, waits
from .result_pane import ResultPane

BROWSER_KEY = "worth-compiling-visitor"
"""The key under which the browser keeps the visitor's id, and the secret with which gradio encrypts the id.
A fixed secret keeps the id readable after a restart of the server. The id protects nothing."""
WAITING = (
    "Runs go one at a time, so that they do not disturb each other's timing. Yours starts automatically. Cancel to "
    "leave the queue."
)
WAITING_FOR_QUIET = "The run starts by itself when they leave it alone, or after five minutes. Cancel to give up."
LATER_START = "The answer stands. Measuring how long the next start takes …"
SEARCHING = "Your search goes on. What it knows comes in a moment."
LATE_HINT = "This takes longer than announced. Key S stops it and shows the recorded answer."
DRAWING_SECONDS = race.PLAYED_SECONDS + 3.0
"""For how many seconds a page is animated after it was opened or got an answer: the race is played. This keeps the
browser busy, perhaps on this machine."""
# in the browser: a wait on the server would hold one of the few connections that a browser has to it
DRAWN = f"() => new Promise(done => setTimeout(done, {1000 * DRAWING_SECONDS:.0f}))"
"""JavaScript that waits until a page is no longer animated."""
RETURN_KEY = "again"
"""The query parameter with which `events.js` loads a page again, so that the page follows its run again."""
MAX_RUNS = 100
"""The most stored runs that a forecast reads. `History` keeps them in memory, so a forecast is quick."""


class RunTab(WorkView[VisitorRun]):
    """The components of the tab Run and their events. Create it inside `with gr.Tab(...)`."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._drawn_at = -math.inf
        """When a page was opened or got an answer last, by `time.monotonic`."""
        with gr.Row(elem_id="desk", equal_height=False):
            with gr.Column(elem_id="form", scale=0, min_width=320):
                self.form = forms.Form()
            with gr.Column(elem_id="stage", min_width=320):
                self.pane = ResultPane(desk.history)
        self.has_run = gr.State(False)
        self.visitor = gr.BrowserState(None, storage_key=BROWSER_KEY, secret=BROWSER_KEY)
        self.shown_id = gr.Textbox("", visible=False)
        """The id of the stored run that is shown; '' for none."""
        self.row_run_id = gr.Textbox("", visible=False)
        """The id of the stored run that a press on a row of another tab opened; '' for none."""
        form, contents = self.form, self.pane.components
        fields = [*form.inputs.values(), form.minutes, form.other_formats, *form.picture_notes]
        self.showing = [*contents, *fields, self.has_run, self.shown_id]
        """The components that `open` may update."""
        super().__init__(desk.works, [self.pane.live], [*contents, *form.buttons, self.shown_id])
        self._ending.append(self.work_shown)
        self._wire()

    # ---- events

    def arrive(self, blocks: gr.Blocks) -> Dependency:
        """Connects the events that show the tab's content when the page opens. Returns the first of them."""
        changed = [*self.showing, *self.form.buttons, self.visitor, self.work_shown]
        arrived = blocks.load(self._arrive, self.visitor, changed, **EVENT_OPTIONS)
        arrived.then(inputs=self.shown_id, js=links.ARRIVE, **IN_BROWSER)
        arrived.then(js=TO_ANSWER, **IN_BROWSER)
        self._watch_after(arrived)
        return arrived

    def settle_after(self, greeted: Dependency) -> None:
        """Connects events after `greeted`, which reports the machine: choose a model, forecast, warn of busy cores."""
        form, model = self.form, [self.form.inputs["checkpoint"], self.form.inputs["image"]]
        settled = greeted.then(self._settle, [*model, self.has_run], model, **RAW)
        forecast = settled.then(self._forecast, list(form.inputs.values()), form.forecast, **RAW)
        drawn = forecast.then(js=DRAWN, **IN_BROWSER)
        noted = drawn.then(self._busy_note, None, [form.busy, form.run_when_quiet], **RAW)
        noted.then(self._forecast, list(form.inputs.values()), form.forecast, **RAW)

    def _wire(self) -> None:
        form, pane, inputs = self.form, self.pane, self.form.inputs
        checkpoint, fields = inputs["checkpoint"], list(inputs.values())
        run_inputs = [self.visitor, *fields]
        follows = [inputs["task"], form.checkpoint_note, inputs["text"], pane.top]
        chosen = [checkpoint, inputs["task"], self.has_run]
        checkpoint.change(self._choose, chosen, follows, **EVENT_OPTIONS)
        changes = [field.change for name, field in inputs.items() if name != "image"]
        outputs = [form.forecast, pane.notice]
        gr.on(changes, self._forecast_and_note, [self.shown_id, *fields], outputs, **LATEST)
        for fold in pane.folds.values():
            fold.expand(js=REDRAW, **IN_BROWSER)
        begins = [form.run.click, form.run_when_quiet.click, form.best.click, pane.repeat.click]
        gr.on(begins, js=TO_STAGE, **IN_BROWSER)
        gr.on([*begins, form.cancel.click], js=FOCUS_STAGE, **IN_BROWSER)
        stored = [self.visitor, self.shown_id, inputs["image"]]
        changed = [
            *(pane.notice, pane.live, pane.best, *form.picture_notes, *form.buttons),
            *(self.has_run, self.shown_id, self.work_shown),
        ]
        for begun in (
            form.run.click(self._run, run_inputs, changed, **RAW),
            form.run_when_quiet.click(self._run_when_quiet, run_inputs, changed, **RAW),
            pane.repeat.click(self._repeat, stored, changed, **RAW),
        ):
            begun.then(inputs=self.shown_id, js=links.SHOW, **IN_BROWSER)
            shown = self._watch_after(begun).then(self._forecast, fields, form.forecast, **RAW)
            shown.then(js=DRAWN, **IN_BROWSER).then(self._forecast, fields, form.forecast, **RAW)
        form.cancel.click(self._cancel, self.visitor, form.cancel, queue=False, **EVENT_OPTIONS)

    def _watch_after(self, event: Dependency) -> Dependency:
        shown = super()._watch_after(event)
        ended = shown.then(self._wait, self.work_shown, self.work_shown, **EVENT_OPTIONS)
        over = ended.then(self._over, self.work_shown, self._ending, **EVENT_OPTIONS)
        remembered: Dependency = over.then(inputs=self.shown_id, js=links.REMEMBER, **IN_BROWSER)
        return remembered

    def _wait(self, request: gr.Request, going: VisitorRun | None) -> Iterator[Updates]:
        # waits for the end of a `Work` whose provisional result is shown
        for _ in follow_work(going) if going is not None and isinstance(going.doing, Provisional) else ():
            yield {self.work_shown: gr.skip()}  # gradio looks for a closed page
        yield {self.work_shown: gr.skip()}

    def _over(self, request: gr.Request, going: VisitorRun | None) -> Updates:
        self._drawn_at = time.monotonic()
        if going is not None and not going.ended and isinstance(going.doing, Provisional):
            note = {self.pane.notice: gr.update(value=render("results.note", LATER_START), visible=True)}
            return self._result(going.doing.result, NO_FILES, stored=False) | note
        return super()._over(request, going)

    # ---- the form

    def _choose(self, checkpoint: str | None, task: str, has_run: bool, request: gr.Request) -> Updates:
        """Returns the updates after a change of the checkpoint. `has_run`: whether the page has shown a run."""
        form = self.form
        name = (checkpoint or "").strip()
        entry = catalog.find(name)
        own_task = task if entry is None else entry.task  # a checkpoint of the catalogue decides the task
        updates = {
            form.inputs["task"]: own_task if own_task != task else gr.skip(),
            form.checkpoint_note: forms.checkpoint_note(name),
            form.inputs["text"]: gr.update(visible=forms.takes_text(name, own_task)),
        }
        return updates if has_run or not name else updates | {self.pane.top: intro(name)}

    def _forecast_and_note(self, request: gr.Request, shown_id: str, *values: object) -> tuple[object, object]:
        """Returns the forecast, and updates of a note, visible if the shown result has other settings than the form."""
        shown = result_or_error(lambda: self._desk.history.get(shown_id)) if shown_id else None
        note, machine = gr.update(visible=False), self._desk.runner.machine
        with contextlib.suppress(BadInput):
            spec = forms.read_spec(self.form.by_name(values))
            if isinstance(shown, RunResult) and machine is not None and on_machine(spec, machine) != shown.spec:
                sentence = f"This answer is of {naming.run_line(shown)}. The form asks for another run now."
                note = gr.update(value=render("results.note", sentence), visible=True)
        return self._forecast(request, *values), note

    def _forecast(self, request: gr.Request, *values: object) -> object:
        """Returns, as HTML, how long the form's run will take, or why it cannot run; '' until the machine is known."""
        machine, fields = self._desk.runner.machine, self.form.by_name(values)
        if machine is None:
            return ""
        checkpoint = catalog.find(fields["checkpoint"] or "")
        # the fields do not fit yet: a browser fills in a link's values one by one, the checkpoint after the task
        if checkpoint is not None and checkpoint.task != fields["task"]:
            return gr.skip()
        try:
            spec = forms.read_spec(fields)
        except BadInput as error:
            return render("results.no_forecast", str(error))
        query, spec, stored = links.query(spec), on_machine(spec, machine), self._stored_runs()
        if problem_here := refusal(spec, machine):
            return render("results.no_forecast", problem_here)
        here = forecast.on_this_machine(stored, machine, spec.device)
        expected = forecast.forecast_run(spec, checkpoint, here, machine.compiler_seconds, self._crowd())
        doubts = [forecast.memory_doubt(spec, checkpoint, stored, machine), *forms.doubts(spec)]
        return forms.forecast_html(expected, checkpoint, list(filter(None, doubts)), query)

    def _crowd(self) -> cores.Crowd:
        """Returns how other programs load the cores; no load while the race's animation keeps a browser busy."""
        return cores.Crowd() if time.monotonic() - self._drawn_at < DRAWING_SECONDS else cores.crowd()

    def _here(self, spec: RunSpec) -> tuple[RunSpec, list[RunResult]]:
        """Returns `spec` with this machine's device, and the stored runs on this device, newest first."""
        machine = self._desk.runner.machine
        if machine is None:
            return spec, []
        spec = on_machine(spec, machine)
        return spec, forecast.on_this_machine(self._stored_runs(), machine, spec.device)

    def _stored_runs(self) -> list[RunResult]:
        """Returns the newest stored runs; [] if they cannot be read."""
        stored = result_or_error(lambda: self._desk.history.all(limit=MAX_RUNS))
        return [] if isinstance(stored, Exception) else stored

    def _settle(
        self, checkpoint: str, image: forms.FileDescription | None, has_run: bool, request: gr.Request
    ) -> tuple[object, object]:
        """Returns updates that choose ViT and a picture for it, if there is a GPU: it suits a larger model.

        They change nothing if ViT's weights cannot be loaded, if the page shows a run, or if the visitor or the link
        chose a checkpoint.
        """
        machine, model = self._desk.runner.machine, forms.VIT
        changed = checkpoint != FIRST_CHECKPOINT.id or has_run or "checkpoint" in request.query_params
        if changed or machine is None or machine.gpu is None or not hub.can_load(model):
            return gr.skip(), gr.skip()
        return model, forms.picture_for(model, image)

    def _busy_note(self, request: gr.Request) -> tuple[object, object]:
        """Returns updates of a note and a button, visible only if other programs use the CPU that runs are timed on."""
        share, machine = cores.others_share(), self._desk.runner.machine
        if share is None or share < cores.BUSY_CPU or (machine is not None and machine.gpu is not None):
            return gr.update(visible=False), gr.update(visible=False)
        sentence = f"Other programs use {fmt.percent(share)}: the answer will be rough."
        return gr.update(value=sentence, visible=True), gr.update(visible=True)

    # ---- a run

    def _run(self, request: gr.Request, visitor: str | None, *values: object) -> Updates:
        return self._start(request, visitor, lambda name: self._visitor_run(name, values))

    def _run_when_quiet(self, request: gr.Request, visitor: str | None, *values: object) -> Updates:
        return self._start(request, visitor, lambda name: self._visitor_run(name, values, when_quiet=True))

    def _visitor_run(self, name: str, values: tuple[object, ...], when_quiet: bool = False) -> VisitorRun:
        spec, image = forms.spec_and_picture(self.form.by_name(values))
        here, earlier = self._here(spec)
        machine = self._desk.runner.machine
        speed = machine.compiler_seconds if machine is not None else None
        expected = forecast.forecast_run(here, catalog.find(spec.checkpoint), earlier, speed, self._crowd())
        return VisitorRun(
            self._desk.runner,
            self._desk.queue,
            name,
            spec,
            image,
            when_quiet=when_quiet,
            expected_seconds=expected.seconds if expected is not None else None,
            recorded=latest_answer(here, earlier),
        )

    def _repeat(
        self, request: gr.Request, visitor: str | None, id: str, in_form: forms.FileDescription | None
    ) -> Updates:
        """Runs the stored run `id` in one more process, with the same settings. `in_form`: the picture in the form."""

        def one_more_process(name: str) -> VisitorRun:
            result = self._desk.history.get(str(id))
            if result is None:
                raise BadInput("This run is not stored any more, so nothing can be added to it.")
            spec, picture = one_more(result, self._desk.runner.machine), forms.picture_of(result, in_form)
            return VisitorRun(self._desk.runner, self._desk.queue, name, spec, picture, result.as_processes())

        return self._start(request, visitor, one_more_process)

    def show_recorded(self, request: gr.Request, visitor: str | None, *values: object) -> Updates:
        """Returns updates that show the `latest_answer` for the form's settings, marked as recorded.

        While a run of the visitor goes on, its settings are used, not the form's. If there is a `latest_answer` for
        them, the visitor's run is cancelled, and the page shows this answer instead. Otherwise the run goes on.
        """
        work = self.work_of(request, visitor)
        if isinstance(work, VisitorRun) and not work.ended:
            if work.recorded is not None:
                work.show_recorded = True
                work.cancel()
            return {self.pane.notice: gr.skip()}  # gradio fails on an empty answer
        try:
            spec = forms.read_spec(self.form.by_name(values))
        except BadInput as error:
            return self.pane.show_refusal(error_card(error))
        run = latest_answer(*self._here(spec))
        if run is None:
            sentence = "No answer of these settings is stored on this machine, and none was recorded on another one."
            return self.pane.show_refusal(problem_card("Nothing recorded", sentence, "Press R to run it."))
        if work is not None and not work.ended:  # a search or a pre-flight
            work.cancel()
        return self._show_recorded_run(run, work)

    def _show_recorded_run(self, run: RunResult, work: Work | None = None) -> Updates:
        if run in recorded_runs():  # it is of another machine, and not in the history
            updates = {self.has_run: True, self.shown_id: ""} | self._result(run, NO_FILES, stored=False)
        else:
            updates = self._show_stored_run(run, work)
        return updates | {self.pane.top: headline(Report(run), recorded=True)}

    def _show_refusal(self, card: Markup) -> Updates:
        return self.form.pressable(running=False) | self.pane.show_refusal(card) | {self.work_shown: None}

    def _show_start(self, job: VisitorRun) -> Updates:
        updates: Updates = {part: gr.update(visible=False) for part in self.form.picture_notes}
        updates |= {self.has_run: True, self.shown_id: "", self.work_shown: job}
        strip = progress_strip(job.at_the_start, job.spec)
        return updates | self.form.pressable(running=True) | self.pane.running(strip)

    def _show_progress(self, job: VisitorRun) -> Updates:
        match job.doing:
            case Waiting(ahead):
                heading = waits(ahead, job.queue)
                here = job.recorded is not None and job.recorded not in recorded_runs()
                recorded = Report(job.recorded) if here and job.recorded is not None else None
                html = render("progress.waiting", heading, WAITING, job.expected_seconds, recorded)
            case WaitingForQuiet(share):
                busy = f"Other programs use {fmt.percent(share)} of this machine."
                html = render("progress.waiting", busy, WAITING_FOR_QUIET)
            case doing:
                assert isinstance(doing, Progress)
                late = job.expected_seconds is not None and doing.elapsed_seconds > job.expected_seconds
                html = progress_strip(doing, job.spec, LATE_HINT if late and job.recorded else "")
        return {self.pane.live: html}

    def _show_end(self, job: VisitorRun) -> Updates:
        ready = self.form.pressable(running=False) | {self.work_shown: None}
        result = job.take_result()
        if job.show_recorded and job.recorded is not None:
            updates = self._show_recorded_run(job.recorded)
            return ready | {part: update for part, update in updates.items() if part in self._ending}
        match result:
            case RunResult():
                stored = isinstance(result_or_error(lambda: self._desk.history.get(result.id)), RunResult)
                updates = self._result(result, job.files_of(result.id), stored)
                if (known := quality(result)) is not None and known.remedy == "quiet":
                    ready[self.form.run_when_quiet] = gr.update(interactive=True, visible=True)
                return ready | updates | {self.shown_id: result.id if stored else ""}
            case None:
                card = problem_card("Cancelled", "You left the queue.")
            case _:
                card = error_card(result)
        return ready | self.pane.show_refusal(card)

    def _result(self, result: RunResult, files: Files, stored: bool) -> Updates:
        again = isinstance(result_or_error(lambda: one_more(result, self._desk.runner.machine)), RunSpec)
        # plays only once the run is over: an animation takes a core from the start that may still be measured
        return self.pane.result(Report(result), files, plays=stored, again=stored and again)

    # ---- links

    def _arrive(self, request: gr.Request, visitor: str | None) -> Updates:
        """Returns the updates of a page that opens. It shows the first of these that applies:

        1. if the link names a stored run: this run, or a card that says why it cannot be shown
        2. the visitor's run, if it goes on, if no page has shown its end yet, or if this page followed it before
        3. the form, filled in as the link asks, or a card that says why the link cannot be followed
        """
        query, form = request.query_params, self.form
        self._drawn_at = time.monotonic()
        name = visitor_name(visitor, request.session_hash)
        updates: Updates = {self.visitor: name, self.work_shown: None}
        work = self.work_of(request, visitor)
        if id := query.get(links.RUN):
            return updates | self.open(id, work)
        if isinstance(work, VisitorRun) and (RETURN_KEY in query or not (work.ended and work.delivered)):
            updates |= self._show_start(work)
            return updates | links.fill_form(form, work.spec) | form.with_picture(work.image)
        if isinstance(work, Series) and not work.ended:
            updates |= self.pane.running(render("results.note", SEARCHING))  # until `BestPane` has answered
        spec = result_or_error(lambda: links.spec_of(query, FIRST_CHECKPOINT.id))
        if isinstance(spec, Exception):
            card = problem_card("The link cannot be followed", str(spec), "Choose the settings in the form.")
            return updates | {self.has_run: True} | self.pane.only(card)
        if spec is None:
            return updates
        picture = forms.default_picture(spec.checkpoint)
        return updates | links.fill_form(form, spec) | form.with_picture(picture)

    def open(self, id: str, work: Work | None) -> Updates:
        """Returns updates that show the stored run `id`, or a card that says why it cannot be shown.

        `work`: the visitor's latest work. If this is the run `id`, its trace and package can be downloaded.
        """
        self._desk.history.recover()
        result = result_or_error(lambda: self._desk.history.get(id))
        if isinstance(result, RunResult):
            return self._show_stored_run(result, work)
        missing = f"No stored run has the id {id!r}. It was deleted, or it is stored on another machine."
        card = problem_card("Run not found", missing, "The History tab lists the runs that are here.")
        card = error_card(result, title="This run cannot be read") if result is not None else card
        return {self.has_run: True, self.shown_id: ""} | self.pane.only(card)

    def _show_stored_run(self, result: RunResult, work: Work | None) -> Updates:
        files = work.files_of(result.id) if isinstance(work, VisitorRun) else NO_FILES
        return (
            {self.has_run: True, self.shown_id: result.id}
            | self._result(result, files, stored=True)
            | links.fill_form(self.form, result.spec)
            | self.form.with_picture_of(result.image)
        )

    def open_from(
        self, tabs: gr.Tabs, message: gr.Markdown, id: str, request: gr.Request, visitor: str | None
    ) -> Updates:
        """Returns updates that open the stored run `id`. While work of the visitor goes on, `message` refuses it."""
        work = self.work_of(request, visitor)
        if work is not None and not work.ended:
            sentence = "A run of yours is going on and has the stage. Open this one when it has ended."
            return {message: tables.status_line(sentence), self.row_run_id: ""}
        updates = self.open(id, work)
        opened = {self.row_run_id: updates[self.shown_id], message: ""}
        return updates | opened | {tabs: gr.update(selected="run")}


def latest_answer(spec: RunSpec, earlier: list[RunResult]) -> RunResult | None:
    """Returns a run with the settings `spec`, for a visitor who does not wait for a new run; None if there is none.

    `earlier`: runs of this machine, newest first. The newest of these with a clear, undisturbed verdict is returned;
    else a recorded run of another machine, whose timing options may differ; else the newest of these with any verdict.
    """
    alike = [report for run in earlier if run.spec == spec and (report := Report(run)).kind is not None]
    usable = [report.result for report in alike if report.usable]
    recorded = [run for run in recorded_runs() if compiled_spec(run.spec) == compiled_spec(spec)]
    return next(iter([*usable, *recorded, *(report.result for report in alike)]), None)


def one_more(result: RunResult, machine: HostInfo | None) -> RunSpec:
    """Returns the spec for the button Repeat: one more process, or all its processes again if none can be pooled.

    Raises BadInput if the result is from another machine than `machine` or from other library versions: one verdict
    cannot mix machines or versions. If `machine` is None, this is not checked.
    """
    spec = result.spec
    if result.as_processes():
        if machine is not None and not is_from_machine(result, machine):
            raise BadInput("This run is of another machine or other versions. Press Run to measure it here.")
        spec = dataclasses.replace(spec, repeats=1)
    return catalog.make_spec(**catalog.arguments(spec))
