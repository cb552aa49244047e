"""The tab of one run: the form on the left, the result pane on the right, and the events between them."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import gradio as gr
from markupsafe import Markup

from demo.core import catalog, cores, format as fmt
from demo.core.quality import quality
from demo.core.refusals import on_machine, refusal
from demo.core.result import RunResult
from demo.core.spec import BadInput, RunSpec
from demo.present import naming, race, verdict
from demo.runs import forecast
from demo.runs.outcome import NO_FILES
from demo.runs.runner import Runner
from demo.store.history import History, HistoryError
from demo.sweep.run_grid import Waiting
from demo.ui.jobs import Job, RunQueue, Supervisor, WaitingForQuiet, Work, attempted, visitor_name
from demo.ui.look import FOCUS_STAGE, REDRAW, TO_ANSWER, TO_STAGE
from demo.ui.tabs import form as forms, form_notes, links, tables
from demo.ui.tabs.events import AT_ONCE, LATEST, QUIET, UNREAD, Watching, error_card
from demo.ui.tabs.form import FIRST
from demo.ui.tabs.headline import headline, intro, problem
from demo.ui.tabs.live_strip import meanwhile, strip
from demo.ui.tabs.result_pane import ResultPane, one_more, picture_of
from demo.ui.templates import render

BROWSER_KEY = "worth-compiling-visitor"
"""The key under which the browser keeps the visitor's id. It is also the secret with which gradio encrypts the id: a
fixed one, so that the id stays readable after a restart of the server. The id protects nothing."""
WAITING = (
    "Runs go one at a time, so that they do not disturb each other's timing. Yours starts automatically. Cancel to "
    "leave the queue."
)
WAITING_FOR_QUIET = "The run starts by itself when they leave it alone, or after five minutes. Cancel to give up."
LATER_START = "The answer stands. Measuring how long the next start takes …"
LATE = "This takes longer than announced. Key S stops it and shows the recorded answer."
DRAWING_SECONDS = race.PLAYED_SECONDS + 3.0
"""How long a browser on the same machine keeps it busy with a page that has opened, and with its race."""
MAX_RUNS = 100
"""Runs that a forecast looks at. `History` keeps as many in memory, so that after a run only the new one is read."""


class RunTab(Watching):
    """The components and their events. Make it inside the `gr.Blocks` or tab that holds it."""

    def __init__(self, runner: Runner, queue: RunQueue, history: History) -> None:
        self.runner, self.queue, self.history = runner, queue, history
        with gr.Row(elem_id="desk", equal_height=False):
            with gr.Column(elem_id="form", scale=0, min_width=320):
                self.form = forms.Form()
            with gr.Column(elem_id="stage", min_width=320):
                self.pane = ResultPane(FIRST.id)
        self.has_run = gr.State(False)
        self.visitor = gr.BrowserState(None, storage_key=BROWSER_KEY, secret=BROWSER_KEY)
        self.opened = gr.Textbox("", visible=False)
        self.opened_from = gr.Textbox("", visible=False)
        """The run that the last press on a row of another tab has opened; '' if it opened none."""
        """The id of the stored run that is shown, for `links.REMEMBER`."""
        fields = [*self.form.inputs.values(), self.form.minutes, self.form.other_formats, *self.form.picture_notes]
        self.showing = [*self.pane.components, *fields, self.has_run, self.opened]
        """The components that `open` may change."""
        works = Supervisor()  # and searches for the best way: a visitor has one of both at a time
        super().__init__(works, [self.pane.live], [*self.pane.components, *self.form.buttons, self.opened])
        self._ending.append(self.watched)
        self._wire()

    # ---- events

    def arrive(self, blocks: gr.Blocks) -> Any:
        """Connects what happens when a visitor opens the page, and returns the first event."""
        changed = [*self.showing, *self.form.buttons, self.visitor, self.watched]
        arrived = blocks.load(self._arrive, self.visitor, changed, **AT_ONCE)
        arrived.then(None, self.opened, js=links.ARRIVED, api_visibility="private")
        arrived.then(None, js=TO_ANSWER, api_visibility="private")
        self._watch_after(arrived)
        return arrived

    def settle_after(self, greeted: Any) -> None:
        """Connects what happens after the event `greeted`, at whose end the machine is known."""
        inputs = self.form.inputs
        greeted.then(
            self._settle,
            [inputs["checkpoint"], inputs["image"], self.has_run],
            [inputs["checkpoint"], inputs["image"]],
            **UNREAD,
        ).then(self._forecast, list(inputs.values()), self.form.forecast, **UNREAD).then(
            self._others, None, [self.form.busy, self.form.run_when_quiet], **UNREAD
        )

    def _wire(self) -> None:
        form, pane, inputs = self.form, self.pane, self.form.inputs
        inputs["checkpoint"].change(
            self._chosen,
            [inputs["checkpoint"], inputs["task"], self.has_run],
            [inputs["task"], form.checkpoint_note, inputs["text"], pane.top],
            **QUIET,
        )
        gr.on(
            [field.change for name, field in inputs.items() if name != "image"],
            self._asked,
            [self.opened, *inputs.values()],
            [form.forecast, pane.notice],
            **UNREAD,
            **LATEST,
        )
        for fold in pane.folds.values():
            fold.expand(None, js=REDRAW, api_visibility="private")
        begins = [form.run.click, form.run_when_quiet.click, form.best.click, pane.repeat.click]
        gr.on(begins, None, js=TO_STAGE, api_visibility="private")
        gr.on([*begins, form.cancel.click], None, js=FOCUS_STAGE, api_visibility="private")
        changed = [
            *(pane.notice, pane.live, pane.best, *form.picture_notes, *form.buttons),
            *(self.has_run, self.opened, self.watched),
        ]
        for begun in (
            form.run.click(self._run, [self.visitor, *inputs.values()], changed, **UNREAD),
            form.run_when_quiet.click(self._run_when_quiet, [self.visitor, *inputs.values()], changed, **UNREAD),
            pane.repeat.click(self._repeat, [self.visitor, self.opened, inputs["image"]], changed, **UNREAD),
        ):
            begun.then(None, self.opened, js=links.BEGUN, api_visibility="private")
            self._watch_after(begun).then(self._forecast, list(inputs.values()), form.forecast, **UNREAD)
        form.cancel.click(self._cancel, self.visitor, form.cancel, queue=False, **QUIET)

    def _watch_after(self, event: Any) -> Any:
        shown = super()._watch_after(event)
        ended = shown.then(self._wait, self.watched, self.watched, **AT_ONCE)
        over = ended.then(self._over, self.watched, self._ending, **AT_ONCE)
        return over.then(None, self.opened, js=links.REMEMBER, api_visibility="private")

    def _wait(self, request: gr.Request, going: Work | None) -> Iterator[dict[Any, Any]]:
        """Until work ends whose answer is shown already."""
        for _ in going.watch() if going is not None else ():
            yield {self.watched: gr.skip()}
        yield {self.watched: gr.skip()}

    def _over(self, request: gr.Request, going: Work | None) -> dict[Any, Any]:
        """The end, once; or the answer, while only the later start is still measured."""
        answer = going.answer if isinstance(going, Job) and not going.ended else None
        if answer is None:
            ended = {self.watched: None} if going is not None and going.ended else {}
            return super()._over(request, going) | ended
        noted = {self.pane.notice: gr.update(value=render("results.note", LATER_START), visible=True)}
        return self.pane.result(answer, NO_FILES, False, self.runner.machine) | noted

    # ---- the form

    def _chosen(self, checkpoint: str | None, task: str, has_run: bool, request: gr.Request) -> dict[Any, Any]:
        """After a change of the checkpoint: its task, note and queries, and the question before a run."""
        form = self.form
        name = (checkpoint or "").strip()
        entry = catalog.find(name)
        its_task = task if entry is None else entry.task  # a checkpoint of the catalogue decides the task
        updates = {
            form.inputs["task"]: its_task if its_task != task else gr.skip(),
            form.checkpoint_note: form_notes.checkpoint_note(name),
            form.inputs["text"]: gr.update(visible=forms.takes_text(name, its_task)),
        }
        return updates if has_run or not name else updates | {self.pane.top: intro(name)}

    def _asked(self, request: gr.Request, opened: str, *values: Any) -> tuple[Any, Any]:
        """After a change of the form: its forecast, and a note above an answer that is of other settings."""
        shown = attempted(lambda: self.history.get(opened)) if opened else None
        note, machine = gr.update(visible=False), self.runner.machine
        with contextlib.suppress(BadInput):
            spec = forms.read_spec(dict(zip(self.form.inputs, values, strict=True)))
            if isinstance(shown, RunResult) and machine is not None and on_machine(spec, machine) != shown.spec:
                told = f"This answer is of {naming.run_line(shown)}. The form asks for another run now."
                note = gr.update(value=render("results.note", told), visible=True)
        return self._forecast(request, *values), note

    def _forecast(self, request: gr.Request, *values: Any) -> Any:
        """What to expect of the form's current values; '' while the machine is not known.

        A browser takes over the values of a link, a preset or an opened run one by one and asks for a forecast after
        each. The checkpoint comes later than its task. A visitor's choice does not end like that: see `_chosen`.
        """
        machine = self.runner.machine
        if machine is None:
            return ""
        fields = dict(zip(self.form.inputs, values, strict=True))
        checkpoint = catalog.find(fields["checkpoint"] or "")
        if checkpoint is not None and checkpoint.task != fields["task"]:
            return gr.skip()
        try:
            spec = forms.read_spec(fields)
        except BadInput as refused:
            return render("results.no_forecast", str(refused))
        query = links.query(spec)
        spec = on_machine(spec, machine)
        if here_not := refusal(spec, machine):
            return render("results.no_forecast", here_not)
        here = self._here(spec)
        likely = forecast.forecast(spec, checkpoint, here)
        return form_notes.forecast(likely, checkpoint, spec, query)

    def _here(self, spec: RunSpec) -> list[RunResult]:
        """The newest stored runs of this machine on the device of `spec`; none where the history cannot be read."""
        machine = self.runner.machine
        if machine is None:
            return []
        with contextlib.suppress(HistoryError):
            return forecast.on_this_machine(self.history.all(limit=MAX_RUNS), machine, spec.device)
        return []

    def _settle(
        self, checkpoint: str, image: dict[str, Any] | None, has_run: bool, request: gr.Request
    ) -> tuple[Any, Any]:
        """When the machine is known: its default checkpoint and picture, if the visitor has not changed the form."""
        untouched = checkpoint == FIRST.id and not has_run and "checkpoint" not in request.query_params
        default = forms.default_checkpoint(self.runner.machine) if untouched else FIRST.id
        return (gr.skip(), gr.skip()) if default == FIRST.id else (default, forms.picture_for(default, image))

    # ---- a run

    def latest(self, request: gr.Request, visitor: str | None) -> Job | None:
        """The visitor's latest run, running or ended; None if the latest work is a search."""
        work = self.work_of(request, visitor)
        return work if isinstance(work, Job) else None

    def _run(self, request: gr.Request, visitor: str | None, *values: Any) -> dict[Any, Any]:
        """A press of Run. The form keeps its values, and the Run button is enabled again in the end."""
        return self._start(request, visitor, lambda name: self._job(name, values))

    def _run_when_quiet(self, request: gr.Request, visitor: str | None, *values: Any) -> dict[Any, Any]:
        return self._start(request, visitor, lambda name: self._job(name, values, when_quiet=True))

    def _job(self, name: str, values: tuple[Any, ...], when_quiet: bool = False) -> Job:
        spec, image = forms.read(dict(zip(self.form.inputs, values, strict=True)))
        machine = self.runner.machine
        asked = spec if machine is None else on_machine(spec, machine)
        likely = forecast.forecast(asked, catalog.find(spec.checkpoint), self._here(asked))
        return Job(
            self.runner,
            self.queue,
            name,
            spec,
            image,
            when_quiet=when_quiet,
            expected_seconds=likely.seconds if likely is not None else None,
            recorded=self._latest_answer(asked),
        )

    def _repeat(
        self, request: gr.Request, visitor: str | None, id: str, in_form: dict[str, Any] | None
    ) -> dict[Any, Any]:
        """A press of Repeat: one more process for the result with this id. `in_form` is the picture in the form."""

        def one_more_process(name: str) -> Job:
            result = self.history.get(str(id))
            if result is None:
                raise BadInput("This run is not stored any more, so nothing can be added to it.")
            spec, picture = one_more(result, self.runner.machine), picture_of(result, in_form)
            return Job(self.runner, self.queue, name, spec, picture, result.as_processes())

        return self._start(request, visitor, one_more_process)

    def recorded(self, request: gr.Request, visitor: str | None, *values: Any) -> dict[Any, Any]:
        """Updates for `showing`: the latest stored answer of the form's settings here, marked as recorded. A run that
        goes on is cancelled for that of its settings."""
        if self.is_running(request, visitor):
            job = self.latest(request, visitor)
            if job is not None and job.recorded is not None:
                job.show_recorded = True
                job.cancel()
            return {}
        try:
            spec = forms.read(dict(zip(self.form.inputs, values, strict=True)))[0]
        except BadInput as refused:
            return self.pane.refused(error_card(refused))
        machine = self.runner.machine
        run = self._latest_answer(on_machine(spec, machine)) if machine is not None else None
        if run is None:
            told = "No answer of these settings is stored on this machine."
            return self.pane.refused(problem("Nothing recorded", told, "Press R to run it."))
        return self._recorded(run.id, self.latest(request, visitor))

    def _latest_answer(self, spec: RunSpec) -> RunResult | None:
        """The latest stored answer of these settings on this machine; `spec` is that of `on_machine`."""
        return next((one for one in self._here(spec) if one.spec == spec and verdict.outcome(one)), None)

    def _recorded(self, id: str, latest: Job | None) -> dict[Any, Any]:
        shown = self.open(id, latest)
        run = attempted(lambda: self.history.get(id))
        return shown | ({self.pane.top: headline(run, recorded=True)} if isinstance(run, RunResult) else {})

    def _refused(self, card: Markup) -> dict[Any, Any]:
        return self.form.pressable(running=False) | self.pane.refused(card) | {self.watched: None}

    def _begun(self, job: Job) -> dict[Any, Any]:
        form = self.form
        return {
            **form.pressable(running=True),
            **{part: gr.update(visible=False) for part in form.picture_notes},
            self.has_run: True,
            self.opened: "",
            self.watched: job,
        } | self.pane.running(strip(job.at_the_start, job.spec))

    def _now(self, job: Job) -> dict[Any, Any]:
        match job.doing:
            case Waiting(ahead):
                html = render("progress.waiting", f"Runs ahead of yours: {ahead}.", WAITING) + meanwhile(job)
            case WaitingForQuiet(share):
                busy = f"Other programs use {fmt.percent(share)} of this machine."
                html = render("progress.waiting", busy, WAITING_FOR_QUIET)
            case doing:
                late = job.expected_seconds is not None and doing.elapsed_seconds > job.expected_seconds
                html = strip(doing, job.spec, LATE if late and job.recorded else "")
        return {self.pane.live: html}

    def _end(self, job: Job) -> dict[Any, Any]:
        pane, machine, ready = self.pane, self.runner.machine, self.form.pressable(running=False)
        if job.show_recorded and job.recorded is not None:
            shown = self._recorded(job.recorded.id, None)
            return ready | {part: update for part, update in shown.items() if part in self._ending}
        match outcome := job.outcome():
            case RunResult():
                stored = isinstance(attempted(lambda: self.history.get(outcome.id)), RunResult)
                shown = pane.result(outcome, job.files_of(outcome.id), stored, machine)
                for fold in pane.folds.values() if job.answer is not None else ():
                    del shown[fold]["open"]  # who reads the answer already may have opened it
                if (known := quality(outcome)) is not None and known.remedy == "quiet":
                    ready[self.form.run_when_quiet] = gr.update(interactive=True, visible=True)
                return ready | shown | {self.opened: outcome.id if stored else ""}
            case None:
                card = problem("Cancelled", "You left the queue.")
            case _:
                card = error_card(outcome)
        return ready | pane.refused(card)

    # ---- links

    def _arrive(self, request: gr.Request, visitor: str | None) -> dict[Any, Any]:
        """A page has opened: it shows the stored run that its link names; else the visitor's run that goes on, or
        ended unseen; else the link fills the form."""
        query, form = request.query_params, self.form
        name = visitor_name(visitor, request.session_hash)
        updates: dict[Any, Any] = {self.visitor: name, self.watched: None}
        job = self.latest(request, visitor)
        run = query.get(links.RUN)
        if not run and job is not None and not (job.ended and job.delivered):
            return updates | self._begun(job) | links.filled(form, job.spec) | form.with_picture(job.image)
        if run:
            return updates | self.open(run, job)
        spec = attempted(lambda: links.spec_of(query, FIRST.id))
        if isinstance(spec, Exception):
            card = problem("The link cannot be followed", str(spec), "Choose the settings in the form.")
            return updates | {self.has_run: True} | self.pane.only(card)
        if spec is None:
            return updates
        picture = gr.update(value=forms.servable(forms.default_picture(spec.checkpoint)))
        return updates | links.filled(form, spec) | {form.inputs["image"]: picture}

    def open(self, id: str, latest: Job | None) -> dict[Any, Any]:
        """Updates for `showing` that show a stored run, and the form, as they were when it ended; of `latest`, the
        visitor's latest run, the files still exist."""
        self.history.recover()
        result = attempted(lambda: self.history.get(id))
        if not isinstance(result, RunResult):
            missing = f"No stored run has the id {id!r}. It was deleted, or it is stored on another machine."
            card = problem("Run not found", missing, "The History tab lists the runs that are here.")
            card = error_card(result, title="This run cannot be read") if result is not None else card
            return {self.has_run: True, self.opened: ""} | self.pane.only(card)
        files = latest.files_of(id) if latest is not None else NO_FILES
        return (
            {self.has_run: True, self.opened: id}
            | self.pane.result(result, files, True, self.runner.machine)
            | links.filled(self.form, result.spec)
            | self.form.with_picture_of(result.image)
        )

    def open_from(
        self, tabs: gr.Tabs, message: gr.Markdown, id: str, request: gr.Request, visitor: str | None
    ) -> dict[Any, Any]:
        """Updates that show a stored run on this tab, from a row of another; a run that goes on keeps the stage."""
        if self.is_running(request, visitor):
            told = "A run of yours is going on and has the stage. Open this one when it has ended."
            return {message: tables.status(told), self.opened_from: ""}
        shown = self.open(id, self.latest(request, visitor))
        return {tabs: gr.update(selected="run"), message: "", self.opened_from: shown[self.opened]} | shown

    def _others(self, request: gr.Request) -> tuple[Any, Any]:
        """That other programs keep this machine busy, and the button that waits; both hidden where they do not, and
        where runs use a GPU."""
        time.sleep(DRAWING_SECONDS)
        share, machine = cores.others_share(), self.runner.machine
        if share is None or share < cores.BUSY_CPU or (machine is not None and machine.gpu is not None):
            return gr.update(visible=False), gr.update(visible=False)
        told = f"Other programs use {fmt.percent(share)} of this machine: the answer will be rough."
        return gr.update(value=told, visible=True), gr.update(visible=True)
