"""The tab of one run: form on the left, stage on the right, and what happens between the two."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.processing_utils import save_file_to_cache
from gradio.utils import get_upload_folder

from demo import catalog, charts, hub, published
from demo.schema import BadInput, Progress, RunResult, RunSpec
from demo.ui import beside, live, results, runs, takeaway
from demo.ui.form import Choice, Form, checkpoints, default_choice, read, takes_text
from demo.ui.line import Line
from demo.ui.runs import AnyRunner

UPDATE_SECONDS = 0.25
"""At most four updates a second reach the browser."""
WAITING_SECONDS = 0.5

TO_STAGE = """() => {
  if (window.innerWidth >= 800) return;
  const calm = window.matchMedia('(prefers-reduced-motion: reduce)').matches;
  document.getElementById('stage').scrollIntoView({behavior: calm ? 'auto' : 'smooth'});
}"""

_log = logging.getLogger(__name__)


@dataclass
class _Stage:
    """What stands on the right: one piece of HTML, a chart, what the models saw, all figures."""

    top: gr.HTML
    chart_note: gr.HTML
    chart: gr.Plot
    seen: gr.HTML
    details: gr.HTML
    beside: gr.HTML
    beside_chart: gr.Plot
    takeaway: gr.HTML

    @property
    def components(self) -> list[gr.components.Component]:
        answer = [self.top, self.chart_note, self.chart, self.seen]
        return [*answer, self.beside, self.beside_chart, self.details, self.takeaway]

    def only(self, html: str) -> dict[Any, Any]:
        """Updates that leave nothing but `html` on the stage."""
        rest = {part: gr.update(visible=False) for part in self.components[1:]}
        return {self.top: html, **rest}


class RunTab:
    """The components and the handlers between them. Make it inside the `gr.Blocks` (or tab) that shall hold it."""

    def __init__(self, runner: AnyRunner, line: Line, choice: Choice | None = None) -> None:
        """`choice` is what the form holds at first; without it the machine decides, once it is known."""
        self._runner = runner
        self._machine_decides = choice is None
        self._choice = choice = choice or default_choice(None, hub_ok=False)
        self._line = line
        self._cancels: dict[str, threading.Event] = {}
        self._zero_gpu = runs.on_zero_gpu()
        with gr.Row(elem_id="desk", equal_height=False):
            with gr.Column(elem_id="form", scale=0, min_width=320):
                self._form = Form.build(choice, can_run=not self._zero_gpu)
            with gr.Column(elem_id="stage", min_width=320):
                self._stage = self._build_stage()
        self._has_run = gr.State(False)
        self._wire()

    @property
    def form(self) -> Form:
        return self._form

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
        )

    def _build_stage(self) -> _Stage:
        note, figure = _published(self._choice.checkpoint, self._choice.task)
        return _Stage(
            top=gr.HTML(self._opening(self._choice.checkpoint), elem_id="top", apply_default_css=False),
            seen=gr.HTML(visible=False, elem_id="seen", apply_default_css=False),
            chart_note=gr.HTML(note, elem_id="chart-note", apply_default_css=False),
            chart=gr.Plot(figure, show_label=False, elem_id="chart"),
            beside=gr.HTML(visible=False, elem_id="beside", apply_default_css=False),
            beside_chart=gr.Plot(visible=False, show_label=False, elem_id="beside-chart"),
            details=gr.HTML(visible=False, elem_id="details", apply_default_css=False),
            takeaway=takeaway.component(),
        )

    def _opening(self, checkpoint: str) -> str:
        return results.zero_gpu() if self._zero_gpu else results.question(checkpoint)

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
        inputs["mode"].change(results.mode_note, inputs["mode"], form.mode_note, **quiet)
        form.run.click(None, js=TO_STAGE, api_visibility="private")
        form.run.click(
            self._run,
            list(inputs.values()),
            [*stage.components, form.run, form.cancel, self._has_run],
            # gradio would open the picture here and now, and fail on what is none: the worker reads it, and says so
            preprocess=False,
            concurrency_limit=None,  # the line keeps the order, and tells each visitor their place
            **quiet,
        )
        form.cancel.click(self._cancel, None, form.cancel, queue=False, **quiet)

    def _chosen(self, checkpoint: str | None, task: str, has_run: bool) -> list[Any]:
        named = (checkpoint or "").strip()
        notes = [results.checkpoint_note(catalog.find(named), named), gr.update(visible=takes_text(named, task))]
        if has_run or not named:
            return [*notes, gr.skip(), gr.skip(), gr.skip()]
        note, figure = _published(named, task)
        return [
            *notes,
            self._opening(named),
            gr.update(value=note, visible=True),
            gr.update(value=figure, visible=True),
        ]

    def _settle(self, checkpoint: str, image: dict[str, Any] | None, has_run: bool) -> tuple[Any, Any]:
        """Once the machine is known: what `default_choice` says for it, where the visitor has not chosen meanwhile."""
        untouched = checkpoint == self._choice.checkpoint and not has_run
        machine = self._runner.machine
        if not (self._machine_decides and untouched and machine is not None and machine.gpu is not None):
            return gr.skip(), gr.skip()
        choice = default_choice(machine, hub_ok=hub.can_load(default_choice(machine, hub_ok=True).checkpoint))
        if choice == self._choice:
            return gr.skip(), gr.skip()
        same_image = image is not None and image.get("orig_name") == self._choice.image.name
        picture = save_file_to_cache(choice.image, get_upload_folder()) if same_image else gr.skip()
        return choice.checkpoint, picture

    def _run(self, request: gr.Request, *values: Any) -> Iterator[dict[Any, Any]]:
        """One press of Run. Every way out leaves the form as it was and the Run button ready."""
        form, stage = self._form, self._stage
        session = request.session_hash or ""
        cancel = threading.Event()
        busy = {form.run: gr.update(interactive=False), form.cancel: gr.update(interactive=True), self._has_run: True}
        ready = {form.run: gr.update(interactive=True), form.cancel: gr.update(interactive=False)}
        try:
            spec, image = read(dict(zip(form.inputs, values, strict=True)))
            self._cancels[session] = cancel
            yield busy | stage.only(live.strip(Progress("start", 0.0, 0.0), spec))
            with self._line.join(session) as place:
                while ahead := place.wait(WAITING_SECONDS):
                    if cancel.is_set():
                        yield ready | stage.only(results.problem("Cancelled", "You left the line before your turn."))
                        return
                    yield {stage.top: live.waiting(ahead)}
                with runs.start(self._runner, spec, image, cancel) as events:
                    for result in self._watch(events, spec):
                        yield ({stage.top: result} if isinstance(result, str) else ready | self._shown(result))
        except BadInput as refused:
            yield ready | stage.only(results.problem("That cannot be run", str(refused)))
        except Exception:
            _log.exception("a run failed inside the page")
            yield ready | stage.only(results.problem(*results.UNEXPECTED))
        finally:
            if self._cancels.get(session) is cancel:
                del self._cancels[session]

    def _watch(self, events: Iterator[Progress | RunResult], spec: RunSpec) -> Iterator[str | RunResult]:
        """The live strip, no oftener than the browser needs it, and then the result."""
        shown_at = 0.0
        for event in events:
            if isinstance(event, RunResult):
                yield event
                continue
            now = time.monotonic()
            if now - shown_at >= UPDATE_SECONDS:
                shown_at = now
                yield live.strip(event, spec)

    def _shown(self, result: RunResult) -> dict[Any, Any]:
        stage = self._stage
        return self._answer(result) | beside.updates(result, stage.beside, stage.beside_chart)

    def _answer(self, result: RunResult) -> dict[Any, Any]:
        stage = self._stage
        if result.speedup is None or result.failure is not None:
            return stage.only(results.failure(result)) | {
                stage.details: gr.update(value=results.details(result), visible=True),
                stage.takeaway: gr.update(value=takeaway.section(result), visible=True),
            }
        return {
            stage.top: results.headline(result),
            stage.seen: gr.update(value=results.predictions(result), visible=True),
            stage.chart_note: gr.update(visible=False),
            stage.chart: gr.update(value=charts.latency_bars(result), visible=True),
            stage.details: gr.update(value=results.details(result), visible=True),
            stage.takeaway: gr.update(value=takeaway.section(result), visible=True),
        }

    def _cancel(self, request: gr.Request) -> Any:
        """Sets the run's own event; the run then ends by itself, within a second, and shows what became of it."""
        event = self._cancels.get(request.session_hash or "")
        if event is not None:
            event.set()
        return gr.update(interactive=False)


def _published(checkpoint: str, task: str) -> tuple[str, Any]:
    measured, _ = results.published_for(checkpoint, task)
    return results.published_note(checkpoint, task), charts.published_bars(published.rows(), measured)
