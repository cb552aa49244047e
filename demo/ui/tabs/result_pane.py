"""The result pane of the Run tab: its components and folds, the updates that fill them, and Repeat.

Repeat is one more process for a result that is shown, so that its interval rests on how processes really differ.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from demo.core import catalog
from demo.core.machine import HostInfo
from demo.core.result import RunResult
from demo.core.spec import BadInput, RunSpec
from demo.present import charts, details, sentences
from demo.runs.outcome import Files
from demo.sweep.grid import measured_on
from demo.ui.html import results, takeaway
from demo.ui.html.elements import drawn
from demo.ui.look import source
from demo.ui.tabs.form import find_picture, uploaded
from demo.ui.tabs.outputs import Outputs

FILES = {"trace": "Trace for Perfetto", "package": "Package (.pt2)"}
"""The fields of `Files` that can be downloaded, and the words on their buttons."""


def hidden(name: str) -> gr.HTML:
    return gr.HTML(visible=False, elem_id=f"part-{name}", apply_default_css=False)


class Fold:
    """Parts one below the other, each with its figure: an accordion, in the layout that is open."""

    def __init__(
        self,
        name: str,
        title: str,
        parts: Iterable[str],
        files: Sequence[str] = (),
        component: Callable[[str], gr.HTML] = hidden,
    ) -> None:
        """`files` are names of `Files` to download."""
        self.html: dict[str, gr.HTML] = {}
        self.figures: dict[str, gr.Plot] = {}
        with gr.Accordion(
            title, open=False, visible=False, elem_id=f"fold-{name}", elem_classes="fold"
        ) as self.accordion:
            for part in parts:
                self.html[part] = component(part)
                if part in results.CHARTS:
                    self.figures[part] = gr.Plot(visible=False, show_label=False, elem_id=f"figure-{part}")
            self.files = {
                file: gr.DownloadButton(FILES[file], visible=False, size="sm", elem_id=file) for file in files
            }
        self.components = [*self.html.values(), *self.figures.values(), *self.files.values()]

    def shown(self, parts: Mapping[str, str], result: RunResult, files: Files) -> dict[Any, Any]:
        """Updates that fill it with the HTML of its parts and the run's files, or hide it if no part has any."""
        updates: dict[Any, Any] = {}
        for name, component in self.html.items():
            updates[component] = gr.update(value=parts.get(name, ""), visible=bool(parts.get(name)))
        for name, plot in self.figures.items():
            figure = results.CHARTS[name](result) if parts.get(name) else None
            updates[plot] = gr.update(value=figure, visible=figure is not None)
        for name, button in self.files.items():
            file = getattr(files, name)
            updates[button] = gr.update(value=file and str(file), visible=file is not None)
        told = any(parts.get(name) for name in self.html)
        return updates | {self.accordion: gr.update(visible=told, open=False)}


class ResultPane:
    """The right side of the Run tab. While `live` or `best` is visible, the style sheet hides everything below it. That
    keeps its content: a refused run can bring it back."""

    def __init__(self, checkpoint: str, task: str) -> None:
        """As a page opens: the question, and the guide's chart for this checkpoint, which becomes visible when the page
        has loaded. Plotly keeps a browser busy for about a second, and the question and the form need not wait."""
        self.notice = gr.HTML(visible=False, elem_id="notice", apply_default_css=False)
        """Why nothing was run. Stands above the previous content."""
        self.live = gr.HTML(visible=False, elem_id="live", apply_default_css=False)
        self.best = gr.Column(visible=False, elem_id="best-stage")
        question = results.intro(checkpoint)
        self.top = gr.HTML(question, elem_id="top", apply_default_css=False, js_on_load=source("repeat.js"))
        self.share = takeaway.component("share")
        note = results.published_note(checkpoint, task)
        self.chart_note = gr.HTML(note, elem_id="chart-note", apply_default_css=False)
        figure = published_chart(checkpoint, task)
        self.chart = gr.Plot(figure, visible=False, show_label=False, elem_id="chart")
        self.outputs = Outputs()
        (why, causes), (cost, costs) = details.FOLDS.items()
        self.folds = [
            Fold("why", why, [*causes, "beside"]),
            Fold("cost", cost, costs),
            Fold("take", "Take it with you: code, files", ["takeaway"], ["trace", "package"], takeaway.component),
        ]
        above = [self.notice, self.live, self.best, self.top, self.share, self.chart_note, self.chart]
        self.elements = [*above, self.outputs.column, *(fold.accordion for fold in self.folds)]
        """The components that are shown or hidden as a whole."""
        folded = [part for fold in self.folds for part in fold.components]
        self.components = [*self.elements, *self.outputs.components, *folded]

    def running(self, html: str) -> dict[Any, Any]:
        """Updates that show `html` alone and keep the previous content for later."""
        hidden = {part: gr.update(visible=False) for part in (self.notice, self.best)}
        return hidden | {self.live: gr.update(value=html, visible=True)}

    def refused(self, html: str) -> dict[Any, Any]:
        """Updates that bring back the previous content, with `html` above it."""
        return {self.notice: gr.update(value=html, visible=True), self.live: gr.update(visible=False)}

    def only(self, html: str) -> dict[Any, Any]:
        """Updates that show `html` and remove everything else."""
        return {part: gr.update(visible=False) for part in self.elements if part is not self.top} | {self.top: html}

    def before_a_run(self, checkpoint: str, task: str) -> dict[Any, Any]:
        """Updates that show the question, and what the guide measured."""
        figure = published_chart(checkpoint, task)
        return self.only(results.intro(checkpoint)) | {
            self.chart_note: gr.update(value=results.published_note(checkpoint, task), visible=True),
            self.chart: gr.update(value=figure, visible=figure is not None),
        }

    def result(self, result: RunResult, files: Files, stored: bool, machine: HostInfo | None) -> dict[Any, Any]:
        """Updates that show a result; `stored` says whether the run has a link, `machine` is this one, for Repeat."""
        shown: dict[Any, Any] = {self.share: gr.update(value=takeaway.share(result, stored), visible=True)}
        parts = {
            "beside": results.beside(result),
            "takeaway": takeaway.section(result),
        } | results.parts(result)
        for fold in self.folds:
            shown |= fold.shown(parts, result, files)
        if result.speedup is None or result.failure is not None:
            return self.only(results.failure(result)) | shown
        hidden = {part: gr.update(visible=False) for part in (self.notice, self.live, self.best, self.chart_note)}
        answer: dict[Any, Any] = {
            self.top: results.headline(result, repeat_button(result, machine) if stored else ""),
            self.chart: gr.update(value=charts.latency_bars(result), visible=True),
        }
        return shown | hidden | answer | self.outputs.show(result)


def published_chart(checkpoint: str, task: str) -> Any:
    """What the guide measured for this checkpoint, or for a similar one, as bars; None for a text model."""
    measured, _ = results.published_for(checkpoint, task)
    return charts.published_bars(measured)


# ---- Repeat


def repeat_button(result: RunResult, machine: HostInfo | None) -> str:
    """The button beside the interval, as HTML; '' where this page cannot run one more process."""
    try:
        one_more(result, machine)
    except BadInput:
        return ""
    title = (
        "Runs the same once more in a fresh process; the answer then rests on "
        f"{sentences.count(len(result.as_processes()) + 1, 'process')}"
    )
    return drawn("results.repeat", result.id, title, sentences.open_between_processes(result))


def one_more(result: RunResult, machine: HostInfo | None) -> RunSpec:
    """The spec that adds one more process to a result. Raises BadInput where this page cannot run it on this machine:
    processes of other machines or versions do not join one answer."""
    if not result.as_processes():
        raise BadInput("This run has no speed-up that a repeat could add to.")
    if machine is not None and not measured_on(result, machine):
        raise BadInput("This run is of another machine or other versions. Press Run to measure it here.")
    return catalog.make_spec(**catalog.arguments(dataclasses.replace(result.spec, repeats=1)))


def picture_of(result: RunResult, latest: Path | None, in_form: dict[str, Any] | None) -> Path | None:
    """The file of the run's picture: an example, that of the visitor's latest run, or the form's; None if the run saw
    none. Raises BadInput if it is gone."""
    if result.image is None:
        return None
    if (file := find_picture(result.image.sha256, latest, uploaded(in_form) if in_form else None)) is None:
        name = result.image.name
        raise BadInput(f"Its picture, {name}, is no longer here. Choose it in the form, then press Repeat once more.")
    return file
