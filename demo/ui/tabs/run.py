"""The tab of one run: form on the left, stage on the right, and what happens between the two."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from demo.core import catalog, hub
from demo.core import format as fmt
from demo.core.languages import ENGLISH, Language
from demo.core.result import BadInput, ImageInfo, Progress, RunResult
from demo.present import charts
from demo.runs import forecast
from demo.store import published
from demo.store.history import History, HistoryError
from demo.store.journal import Journal
from demo.ui import runs
from demo.ui.html import guide_comparison as beside
from demo.ui.html import progress as live
from demo.ui.html import results, takeaway
from demo.ui.html.sections import SECTIONS, Section
from demo.ui.jobs.jobs import Job, Jobs, Left, Refused, Waiting
from demo.ui.jobs.queue import Line
from demo.ui.jobs.recent_runs import Earlier
from demo.ui.jobs.visitors import Visitors
from demo.ui.runs import AnyRunner
from demo.ui.tabs import links
from demo.ui.tabs.form import (
    Choice,
    Form,
    checkpoints,
    default_choice,
    find_picture,
    read,
    read_spec,
    servable,
    takes_text,
)
from demo.ui.web.visitor_language import label, of, written

_AT_THE_START = Progress("start", 0.0, 0.0)
BROWSER_KEY = "worth-compiling-visitor"
"""Under which the browser keeps the visitor's id. gradio wants a secret to encrypt it with: a fixed one, so that the
id is still readable after the server was started again. It keeps nothing secret, and need not."""

FOCUS_STAGE = """() => {
  const stage = document.getElementById('stage');
  stage.tabIndex = -1;
  stage.focus({preventScroll: true});
}"""
"""A button that is pressed and then disabled would drop the focus; from the stage, Shift+Tab goes back to the other."""

TO_STAGE = """() => {
  const behavior = window.matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth';
  if (window.innerWidth > 800) window.scrollTo({top: 0, behavior});
  else document.getElementById('stage').scrollIntoView({behavior});
}"""
"""The stage stands below the form on a narrow window, else beside it."""

TO_ANSWER = """() => setTimeout(() => {
  const shown = document.querySelector('#live .live, #top .headline, #top .problem');
  if (shown && window.innerWidth <= 800) document.getElementById('stage').scrollIntoView();
}, 100)"""
"""For a page that opens with a run: on a narrow window the form would be in front of it."""

REDRAW = "() => { setTimeout(() => window.dispatchEvent(new Event('resize')), 50); }"
"""A Plotly figure that was made while folded has a width of its own choice until the window changes."""

_log = logging.getLogger(__name__)


@dataclass
class _Fold:
    """One section under the result, folded."""

    section: Section
    accordion: gr.Accordion
    html: gr.HTML
    figure: gr.Plot | None
    trace: gr.DownloadButton | None

    def shown(self, result: RunResult, trace: Path | None, say: Language) -> dict[Any, Any]:
        """Updates that fill it from `result` and the file of its trace, or hide it where there is nothing to tell."""
        title = self.section.title(result, say)
        if not title:
            return {self.accordion: gr.update(visible=False)}
        updates: dict[Any, Any] = {
            self.accordion: gr.update(visible=True, label=title, open=False),
            self.html: self.section.html(result, say),
        }
        if self.figure is not None and self.section.figure is not None:
            drawn = self.section.figure(result, say)
            updates[self.figure] = gr.update(value=drawn, visible=drawn is not None)
        if self.trace is not None:
            updates[self.trace] = gr.update(value=trace and str(trace), visible=trace is not None)
        return updates


@dataclass
class _Stage:
    """What stands on the right. While `live` shows anything, the style sheet hides all below it and leaves it as it is.

    So a run that is refused can give the stage back to what stood there before.
    """

    notice: gr.HTML
    """Why nothing was run; above what stood there before."""
    live: gr.HTML
    top: gr.HTML
    chart_note: gr.HTML
    chart: gr.Plot
    seen: gr.HTML
    folds: list[_Fold]
    details: gr.HTML
    beside: gr.HTML
    beside_chart: gr.Plot
    takeaway: gr.HTML

    @property
    def parts(self) -> list[Any]:
        """What can be shown or hidden."""
        answer = [self.notice, self.live, self.top, self.chart_note, self.chart, self.seen]
        return [
            *answer,
            self.beside,
            self.beside_chart,
            *(fold.accordion for fold in self.folds),
            self.details,
            self.takeaway,
        ]

    @property
    def components(self) -> list[Any]:
        folded = [part for fold in self.folds for part in (fold.html, fold.figure, fold.trace) if part is not None]
        return [*self.parts, *folded]

    def running(self, html: str) -> dict[Any, Any]:
        """Updates that show `html` alone, and leave what stood there for later."""
        return {self.notice: gr.update(visible=False), self.live: gr.update(value=html, visible=True)}

    def refused(self, html: str) -> dict[Any, Any]:
        """Updates that bring back what stood there, with `html` above it."""
        return {self.notice: gr.update(value=html, visible=True), self.live: gr.update(visible=False)}

    def only(self, html: str) -> dict[Any, Any]:
        """Updates that leave nothing but `html` on the stage."""
        return {part: gr.update(visible=False) for part in self.parts if part is not self.top} | {self.top: html}


class RunTab:
    """The components and the handlers between them. Make it inside the `gr.Blocks` (or tab) that shall hold it."""

    def __init__(
        self, runner: AnyRunner, line: Line, choice: Choice | None = None, history: History | None = None
    ) -> None:
        """`choice` is what the form holds at first; without it the machine decides, once it is known."""
        self._runner = runner
        self._machine_decides = choice is None
        self._choice = choice = choice or default_choice(None, hub_ok=False)
        self._history = history or History()
        self._earlier = Earlier(self._history)
        self._jobs = Jobs(runner, line)
        self._visitors = Visitors()
        self._zero_gpu = runs.on_zero_gpu()
        with gr.Row(elem_id="desk", equal_height=False):
            with gr.Column(elem_id="form", scale=0, min_width=320):
                self._form = Form.build(choice, can_run=not self._zero_gpu)
            with gr.Column(elem_id="stage", min_width=320):
                self._stage = self._build_stage()
        self._has_run = gr.State(False)
        self._visitor = gr.BrowserState(None, storage_key=BROWSER_KEY, secret=BROWSER_KEY)
        self._opened = gr.Textbox("", visible=False)  # the id of the stored run on the stage
        self._watched = gr.State(None)  # the job that this page watches
        self._wire()

    @property
    def form(self) -> Form:
        return self._form

    @property
    def visitor(self) -> gr.BrowserState:
        return self._visitor

    @property
    def opened(self) -> gr.Textbox:
        """Holds the id of the stored run on the stage, for `links.REMEMBER`."""
        return self._opened

    @property
    def showing(self) -> list[gr.components.Component]:
        """What `open` may change."""
        form = self._form
        return [*self._stage.components, *form.inputs.values(), form.picture_note, self._has_run, self._opened]

    def arrive(self, blocks: gr.Blocks) -> None:
        """To be called once, for the page that holds this tab: what happens when a visitor opens it."""
        arrived = blocks.load(
            self._arrive,
            self._visitor,
            [*self.showing, self._form.run, self._form.cancel, self._visitor, self._watched],
            show_progress="hidden",
            api_visibility="private",
            concurrency_limit=None,
        )
        arrived.then(None, js=TO_ANSWER, api_visibility="private")
        self._watch_after(arrived)

    @property
    def mode(self) -> gr.components.Component:
        """The list of compile modes, which the page fills once the machine is known."""
        field: gr.components.Component = self._form.inputs["mode"]
        return field

    def settle_after(self, greeted: Any) -> None:
        """Once `greeted` has ended the machine is known, and the default choice with it."""
        inputs = self._form.inputs
        greeted.then(
            self._settle,
            [inputs["checkpoint"], inputs["image"], self._has_run],
            [inputs["checkpoint"], inputs["image"]],
            preprocess=False,
            show_progress="hidden",
            api_visibility="private",
            concurrency_limit=None,
        ).then(
            self._forecast,
            list(inputs.values()),
            self._form.forecast,
            preprocess=False,
            show_progress="hidden",
            api_visibility="private",
            concurrency_limit=None,
        )

    def _build_stage(self) -> _Stage:
        checkpoint, task = self._choice.checkpoint, self._choice.task
        note = written(lambda say: results.published_note(checkpoint, task, say))
        return _Stage(
            notice=gr.HTML(visible=False, elem_id="notice", apply_default_css=False),
            live=gr.HTML(visible=False, elem_id="live", apply_default_css=False),
            top=gr.HTML(written(lambda say: self._opening(checkpoint, say)), elem_id="top", apply_default_css=False),
            seen=gr.HTML(visible=False, elem_id="seen", apply_default_css=False, js_on_load=results.SLIDE),
            chart_note=gr.HTML(note, elem_id="chart-note", apply_default_css=False),
            # shown by `_arrive`: Plotly keeps a browser busy for a second, and question and form need not wait for that
            chart=gr.Plot(_published(checkpoint, task), visible=False, show_label=False, elem_id="chart"),
            folds=[_fold(section) for section in SECTIONS],
            beside=gr.HTML(visible=False, elem_id="beside", apply_default_css=False),
            beside_chart=gr.Plot(visible=False, show_label=False, elem_id="beside-chart"),
            details=gr.HTML(visible=False, elem_id="details", apply_default_css=False),
            takeaway=takeaway.component(),
        )

    def _opening(self, checkpoint: str, say: Language) -> str:
        return say.passage(results.zero_gpu()) if self._zero_gpu else results.question(checkpoint, say)

    def _wire(self) -> None:
        form, stage, inputs = self._form, self._stage, self._form.inputs
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        inputs["task"].input(
            lambda task: gr.update(choices=checkpoints(task), value=checkpoints(task)[0]),
            inputs["task"],
            inputs["checkpoint"],
            **quiet,
        )
        inputs["checkpoint"].change(
            self._chosen,
            [inputs["checkpoint"], inputs["task"], self._has_run],
            [form.checkpoint_note, inputs["text"], stage.top, stage.chart_note, stage.chart],
            **quiet,
        )
        for fold in stage.folds:
            fold.accordion.expand(None, js=REDRAW, api_visibility="private")
        inputs["image"].input(lambda: gr.update(visible=False), None, form.picture_note, **quiet)
        inputs["mode"].change(_mode_note, inputs["mode"], form.mode_note, **quiet)
        gr.on(
            [field.change for name, field in inputs.items() if name != "image"],
            self._forecast,
            list(inputs.values()),
            form.forecast,
            preprocess=False,
            trigger_mode="always_last",
            concurrency_limit=None,
            **quiet,
        )
        form.run.click(None, js=TO_STAGE, api_visibility="private")
        for button in (form.run, form.cancel):
            button.click(None, js=FOCUS_STAGE, api_visibility="private")
        form.run.click(None, js=links.FORGET, api_visibility="private")
        known = [self._has_run, self._opened, self._watched]
        begun = form.run.click(
            self._run,
            [self._visitor, *inputs.values()],
            [stage.notice, stage.live, form.picture_note, form.run, form.cancel, *known],
            # gradio would open the picture here and now, and fail on what is none: the worker reads it, and says so
            preprocess=False,
            concurrency_limit=None,
            **quiet,
        )
        self._watch_after(begun).then(
            self._forecast, list(inputs.values()), form.forecast, preprocess=False, concurrency_limit=None, **quiet
        )
        form.cancel.click(self._cancel, self._visitor, form.cancel, queue=False, **quiet)

    def _watch_after(self, event: Any) -> Any:
        """What the stage shows once `event` has made this page watch a job; the last of the events, to go on from.

        gradio makes each output of an event anew whenever the event's handler has news, be it of another output: so
        the many updates while a model is timed go to one output, and the result comes by an event of its own.
        """
        stage, form = self._stage, self._form
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}
        return (
            event.then(self._follow, self._watched, stage.live, **quiet)
            .then(self._outcome, self._watched, [*stage.components, form.run, form.cancel, self._opened], **quiet)
            .then(None, self._opened, js=links.REMEMBER, api_visibility="private")
        )

    def _chosen(self, checkpoint: str | None, task: str, has_run: bool, request: gr.Request | None = None) -> list[Any]:
        say = of(request)
        named = (checkpoint or "").strip()
        notes = [results.checkpoint_note(catalog.find(named), named, say), gr.update(visible=takes_text(named, task))]
        if has_run or not named:
            return [*notes, gr.skip(), gr.skip(), gr.skip()]
        return [
            *notes,
            self._opening(named, say),
            gr.update(value=results.published_note(named, task, say), visible=True),
            gr.update(value=_published(named, task, say), visible=True),
        ]

    def _forecast(self, request: gr.Request, *values: Any) -> str:
        """What to expect of the form as it stands; nothing while the machine is not known."""
        machine = self._runner.machine
        if machine is None or self._zero_gpu:
            return ""
        asked = dict(zip(self._form.inputs, values, strict=True))
        try:
            spec = read_spec({name: value for name, value in asked.items() if name != "image"})
        except BadInput as refused:
            return results.no_forecast(str(refused), of(request))
        device = spec.device if spec.device != "auto" else "cuda" if machine.gpu else "cpu"
        spec = spec.on(device)
        name = machine.device_name if device == "cuda" else machine.cpu
        earlier = forecast.on_this_machine(self._earlier.runs(), name, device)
        checkpoint = catalog.find(spec.checkpoint)
        expected = forecast.forecast(spec, checkpoint, earlier, _cores())
        return results.forecast(expected, checkpoint, forecast.doubts(spec, machine, expected, earlier), of(request))

    def _settle(
        self, checkpoint: str, image: dict[str, Any] | None, has_run: bool, request: gr.Request | None = None
    ) -> tuple[Any, Any]:
        """Once the machine is known: what `default_choice` says for it, where the visitor has not chosen meanwhile."""
        linked = request is not None and "checkpoint" in request.query_params
        untouched = checkpoint == self._choice.checkpoint and not has_run and not linked
        machine = self._runner.machine
        if not (self._machine_decides and untouched and machine is not None and machine.gpu is not None):
            return gr.skip(), gr.skip()
        choice = default_choice(machine, hub_ok=hub.can_load(default_choice(machine, hub_ok=True).checkpoint))
        if choice == self._choice:
            return gr.skip(), gr.skip()
        same_image = image is not None and image.get("orig_name") == self._choice.image.name
        picture = servable(choice.image) if same_image else gr.skip()
        return choice.checkpoint, picture

    def _run(self, request: gr.Request, visitor: str | None, *values: Any) -> dict[Any, Any]:
        """One press of Run. Every way out leaves the form as it was, and the Run button ready in the end."""
        say = of(request)
        try:
            spec, image = read(dict(zip(self._form.inputs, values, strict=True)))
            job = self._jobs.start(self.name(request, visitor), spec, image)
        except BadInput as refused:
            return self._not_begun(results.refusal("cannot_be_run", str(refused), say))
        except Exception:
            _log.exception("a run could not be started")
            return self._not_begun(results.problem(*results.UNEXPECTED, say=say))
        return self._begun(job, say)

    def _not_begun(self, told: str) -> dict[Any, Any]:
        return self._ready | self._stage.refused(told) | {self._watched: None}

    def _arrive(self, request: gr.Request, visitor: str | None) -> dict[Any, Any]:
        """A page has opened. It shows the stored run that its link names, else the visitor's run that still goes on
        or has ended unseen; else the link's settings fill the form."""
        name = self.name(request, visitor)
        query, say = request.query_params, of(request)
        spec, problem = links.read(query, self._choice.checkpoint)
        chart = gr.update(visible=True)
        if say is not ENGLISH:  # the page held it before anybody's language was known
            chart["value"] = _published(self._choice.checkpoint, self._choice.task, say)
        updates: dict[Any, Any] = {self._visitor: name, self._watched: None, self._stage.chart: chart}
        job = self._jobs.of(name)
        if asked := query.get(links.RUN):
            updates |= self.open(asked, say, job) | (links.filled(self._form, spec) if spec else {})
        elif job is not None and not (job.ended and job.delivered):
            updates |= self._begun(job, say) | links.filled(self._form, job.spec) | self._given_back(job.image)
        elif spec is not None:
            updates |= links.filled(self._form, spec)
        elif problem:
            told = results.refusal("link_cannot_be_followed", problem, say)
            updates |= {self._has_run: True} | self._stage.only(told)
        return updates

    def _begun(self, job: Job, say: Language) -> dict[Any, Any]:
        form, strip = self._form, live.strip(_AT_THE_START, job.spec, say)
        busy = {form.run: gr.update(interactive=False), form.cancel: gr.update(interactive=True)}
        note = {form.picture_note: gr.update(visible=False)}
        known = {self._has_run: True, self._opened: "", self._watched: job}
        return busy | note | known | self._stage.running(strip)

    @property
    def _ready(self) -> dict[Any, Any]:
        form = self._form
        can_run = not self._zero_gpu
        return {form.run: gr.update(interactive=can_run), form.cancel: gr.update(interactive=False)}

    def _follow(self, request: gr.Request, job: Job | None) -> Iterator[str]:
        """The stage while a job goes on, no oftener than the browser needs it. Whoever stops watching ends nothing."""
        if job is None:
            return
        say = of(request)
        for news in job.watch():
            if isinstance(news, Waiting) and news.ahead:
                yield live.waiting(news.ahead, say)
            else:
                yield live.strip(news if isinstance(news, Progress) else _AT_THE_START, job.spec, say)

    def _outcome(self, request: gr.Request, job: Job | None) -> dict[Any, Any]:
        """What became of the job that was followed; nothing where the connection broke off before it had ended."""
        if job is None or (outcome := job.outcome()) is None:
            return {self._opened: gr.skip()}
        stage, ready, say = self._stage, self._ready, of(request)
        match outcome:
            case RunResult():
                opened = {self._opened: outcome.id if self._is_stored(outcome) else ""}
                return ready | self._shown(outcome, job, say) | opened
            case Left():
                return ready | stage.refused(results.problem("status_cancelled", "left_the_line", say=say))
            case Refused(sentence):
                return ready | stage.refused(results.refusal("cannot_be_run", sentence, say))
            case _:
                return ready | stage.refused(results.problem(*results.UNEXPECTED, say=say))

    def name(self, request: gr.Request, visitor: str | None) -> str:
        """The id of a visitor, whose browser may not know it yet."""
        return self._visitors.name(visitor, request.session_hash)

    def latest(self, request: gr.Request, visitor: str | None) -> Job | None:
        """The visitor's latest run, going on or ended."""
        return self._jobs.of(self.name(request, visitor))

    def _given_back(self, picture: Path) -> dict[Any, Any]:
        """Updates that put the picture of a run into the form again, as long as its file is there."""
        note = {self._form.picture_note: gr.update(visible=False)}
        return note | {self._form.inputs["image"]: servable(picture)} if picture.is_file() else note

    def _looked_at(self, info: ImageInfo | None, latest: Job | None, say: Language) -> dict[Any, Any]:
        """Updates that put a stored run's picture into the form, or say that it looked at another one."""
        if info is None:
            return {self._form.picture_note: gr.update(visible=False)}
        if picture := find_picture(info.sha256, latest.image if latest is not None else None):
            return self._given_back(picture)
        told = f"<p class='note'>{say.html('picture_note', name=info.name)}</p>"
        return {self._form.picture_note: gr.update(value=told, visible=True)}

    def open(self, id: str, say: Language = ENGLISH, latest: Job | None = None) -> dict[Any, Any]:
        """Shows a stored run as it was shown when it ended, with the form as it was; updates for `showing`.

        `latest` is the visitor's latest run, which this one may be: its picture and its trace are still there.
        """
        Journal(self._history).recover()
        try:
            result = self._history.get(id)
        except HistoryError as error:
            return {self._has_run: True} | self._stage.only(
                results.refusal("unreadable_run", fmt.for_a_stranger(str(error)), say)
            )
        if result is None:
            told = results.problem("missing_run", "missing_run_words", "missing_run_remedy", say, id=repr(id))
            return {self._has_run: True} | self._stage.only(told)
        return (
            {self._has_run: True, self._opened: id}
            | self._shown(result, latest, say)
            | links.filled(self._form, result.spec)
            | self._looked_at(result.image, latest, say)
        )

    def is_running(self, request: gr.Request, visitor: str | None) -> bool:
        """Whether a run of this visitor goes on, and with it the stage."""
        job = self.latest(request, visitor)
        return job is not None and not job.ended

    def _is_stored(self, result: RunResult) -> bool:
        try:
            return self._history.get(result.id) is not None
        except HistoryError:
            return False

    def _shown(self, result: RunResult, job: Job | None, say: Language) -> dict[Any, Any]:
        stage = self._stage
        trace = job.trace_of(result.id) if job is not None else None
        return self._answer(result, trace, say) | beside.updates(result, stage.beside, stage.beside_chart, say)

    def _answer(self, result: RunResult, trace: Path | None, say: Language) -> dict[Any, Any]:
        stage = self._stage
        if result.speedup is None or result.failure is not None:
            return stage.only(results.failure(result, say)) | {
                stage.details: gr.update(value=results.details(result, say), visible=True),
                stage.takeaway: gr.update(value=takeaway.section(result, say), visible=True),
            }
        updates = {part: gr.update(visible=False) for part in (stage.notice, stage.live, stage.chart_note)}
        for fold in stage.folds:
            updates |= fold.shown(result, trace, say)
        return {
            **updates,
            stage.top: results.headline(result, say),
            stage.seen: gr.update(value=results.predictions(result, say), visible=True),
            stage.chart: gr.update(value=charts.latency_bars(result, say), visible=True),
            stage.details: gr.update(value=results.details(result, say), visible=True),
            stage.takeaway: gr.update(value=takeaway.section(result, say), visible=True),
        }

    def _cancel(self, request: gr.Request, visitor: str | None) -> Any:
        """The run then ends by itself, within a second, and whoever watches it sees what became of it."""
        job = self.latest(request, visitor)
        if job is not None:
            job.cancel()
        return gr.update(interactive=False)


def _cores() -> int:
    """Those that this process may use, which in a container can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _fold(section: Section) -> _Fold:
    """Made where it shall stand; filled when there is a result."""
    with gr.Accordion("", open=False, visible=False, elem_id=f"section-{section.name}", elem_classes="fold") as fold:
        html = gr.HTML(apply_default_css=False)
        figure = gr.Plot(show_label=False) if section.figure is not None else None
        trace = (
            gr.DownloadButton(label("trace"), visible=False, size="sm", elem_id="trace")
            if section.name == "why"
            else None
        )
    return _Fold(section, fold, html, figure, trace)


def _mode_note(mode: str, request: gr.Request | None = None) -> str:
    return results.mode_note(mode, of(request))


def _published(checkpoint: str, task: str, say: Language = ENGLISH) -> Any:
    measured, _ = results.published_for(checkpoint, task)
    return charts.published_bars(published.rows(), measured, say)
