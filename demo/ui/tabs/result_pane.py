"""The result pane of the Run tab: its components, the updates that fill them, and Repeat.

Repeat is one more process for a result that is shown, so that its interval rests on how processes really differ.
"""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import gradio as gr
from markupsafe import Markup

from demo.core import catalog
from demo.core.machine import HostInfo
from demo.core.result import RunResult
from demo.core.result_json import to_json
from demo.core.spec import BadInput, RunSpec
from demo.present import card, charts, details, markdown, naming, race, race_picture
from demo.present.script import change, needs_folder, script
from demo.runs.outcome import Files
from demo.sweep.grid import measured_on
from demo.ui.tabs import links, tables
from demo.ui.tabs.form import find_picture, uploaded
from demo.ui.tabs.headline import failure, headline, intro, race_of
from demo.ui.tabs.predictions import Outputs

CHARTS = dict(zip(details.FOLDS, ((charts.trace,), ()), strict=True))
"""The makers of the charts in each fold; a maker gives None if a result has nothing to draw."""
FILES = {
    "card": "Picture of this result",
    "race": "Race, animated (SVG)",
    "still": "Race (PNG)",
    "json": "Result as JSON",
    "script": "Python script",
    "trace": "Trace for Perfetto",
    "package": "Package (.pt2)",
}
"""Each file to download, and the words on its button."""
ENDINGS = {"card": ".png", "race": "-race.svg", "still": "-race.png", "json": ".json", "script": ".py"}


class ResultPane:
    """The right side of the Run tab. While `live` or `best` is visible, the style sheet hides everything below it. That
    keeps its content: a refused run can bring it back."""

    def __init__(self, checkpoint: str) -> None:
        """As a page opens: the question whether this checkpoint is worth compiling."""
        self.notice = gr.HTML(visible=False, elem_id="notice", apply_default_css=False)
        """Why nothing was run. Stands above the previous content."""
        self.live = gr.HTML(visible=False, elem_id="live", apply_default_css=False)
        self.best = gr.Column(visible=False, elem_id="best-stage")
        self.top = gr.HTML(intro(checkpoint), elem_id="top", apply_default_css=False)
        self.repeat = gr.Button("Repeat in a fresh process", visible=False, size="sm", elem_id="repeat")
        self.race = gr.HTML(visible=False, elem_id="race", apply_default_css=False)
        self.outputs = Outputs()
        self.folds: dict[str, gr.Accordion] = {}
        self.sections: dict[str, gr.Markdown] = {}
        self.charts: dict[Any, gr.Plot] = {}
        for fold, makers in CHARTS.items():
            with _fold(fold, visible=False, elem_classes="fold") as self.folds[fold]:
                for make in makers:
                    name = f"figure-{make.__name__}"
                    self.charts[make] = gr.Plot(visible=False, show_label=False, elem_id=name)
                self.sections[fold] = gr.Markdown(elem_classes="section")
        with _fold("Take it with you: code, files", visible=False, elem_classes="fold", elem_id="take") as self.take:
            self.change = code_to_copy(label="In your own code", lines=1)
            self.hint = gr.Markdown()
            with _fold("Python script that times this model again") as self.script_fold:
                self.script = code_to_copy(show_label=False)
            with gr.Row():
                self.files = {name: gr.DownloadButton(words, size="sm", elem_id=name) for name, words in FILES.items()}
        above = [self.notice, self.live, self.best, self.top, self.repeat, self.race]
        self.elements = [*above, self.outputs.column, *self.folds.values(), self.take]
        """The components that are shown or hidden as a whole."""
        in_folds: list[Any] = [*self.charts.values(), *self.sections.values(), self.change, self.hint]
        in_folds += [self.script, self.script_fold, *self.files.values()]
        self.components = [*self.elements, *self.outputs.components, *in_folds]

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

    def result(self, result: RunResult, files: Files, stored: bool, machine: HostInfo | None) -> dict[Any, Any]:
        """Updates that show a result; `stored` says whether Repeat finds it, `machine` is this one."""
        shown = self._folds_of(result) | self._to_take(result, files)
        words = "Repeat in a fresh process" if result.as_processes() else "Run it again"
        again = gr.update(value=words, visible=stored and can_repeat(result, machine))
        if result.speedup is None or result.failure is not None:
            ways_out = (
                links.change_links(result.spec, result.failure.change) if result.failure is not None else Markup()
            )
            return self.only(failure(result, ways_out)) | shown | {self.repeat: again}
        hidden = {part: gr.update(visible=False) for part in (self.notice, self.live, self.best)}
        # It plays once the run is over: an animation would take a core from the later start that is still measured.
        picture = race_of(result, plays=stored)
        answer: dict[Any, Any] = {
            self.top: headline(result),
            self.repeat: again,
            self.race: gr.update(value=picture, visible=bool(picture)),
        }
        return shown | hidden | answer | self.outputs.show(result)

    def _folds_of(self, result: RunResult) -> dict[Any, Any]:
        """Why and Cost: charts, and the sections as `demo.present.markdown` writes them."""
        updates: dict[Any, Any] = {}
        for fold, parts in details.tree(result).items():
            figures = {self.charts[make]: make(result) for make in CHARTS[fold]}
            for plot, figure in figures.items():
                updates[plot] = gr.update(value=figure, visible=figure is not None)
            updates[self.folds[fold]] = gr.update(visible=bool(parts) or any(figures.values()), open=False)
            updates[self.sections[fold]] = "\n\n".join(map(markdown.section, parts.values()))
        return updates

    def _to_take(self, result: RunResult, files: Files) -> dict[Any, Any]:
        """The line to change, programs, and files; what does not apply to this run is hidden."""
        timed = result.speedup is not None
        hints = []
        if needs_folder(result.spec):
            hints.append("Start the code in the project's folder, where its files are.")
        try:
            source = script(result)
            if result.spec.sees_picture and not (result.image and catalog.find_scene(result.image.sha256)):
                hints.append("In the script a grey picture of the same size stands in for yours.")
        except BadInput as refused:
            source = ""
            hints.append(markdown.escaped(str(refused)))
        stored = json.dumps(to_json(result), allow_nan=False, indent=2)
        contents = {"json": stored.encode(), "script": source.encode()}
        if result.status != "cancelled":
            contents["card"] = card.card(result)
        if race.of_result(result):
            contents |= {"race": race.file(result).encode(), "still": race_picture.png(result)}
        short = naming.short(result.spec.checkpoint)
        name = re.sub(r"[^A-Za-z0-9.-]+", "-", f"{short}-{result.id}").strip("-.")
        updates: dict[Any, Any] = {
            self.take: gr.update(visible=True, open=False),
            self.change: gr.update(value=change(result.spec), visible=timed),
            self.hint: " ".join(hints),
            self.script: source,
            self.script_fold: gr.update(visible=bool(source), open=False),
        }
        for kind, button in self.files.items():
            path = getattr(files, kind, None)
            if content := contents.get(kind):
                path = tables.file(content, f"{name}{ENDINGS[kind]}")
            updates[button] = gr.update(value=path and str(path), visible=path is not None)
        return updates


def code_to_copy(**settings: Any) -> gr.Code:
    """Code to copy. Its lines are wrapped: a keyboard could not scroll them."""
    return gr.Code(
        language="python",
        interactive=False,
        wrap_lines=True,
        show_line_numbers=False,
        buttons=["copy"],  # gradio's download is a button within a link, which no finger tells apart
        **settings,
    )


def _fold(title: str, **settings: Any) -> gr.Accordion:
    return gr.Accordion(title, open=False, **settings)


# ---- Repeat


def can_repeat(result: RunResult, machine: HostInfo | None) -> bool:
    """Whether this page can run one more process for a result."""
    try:
        one_more(result, machine)
    except BadInput:
        return False
    return True


def one_more(result: RunResult, machine: HostInfo | None) -> RunSpec:
    """The spec that adds one more process to a result, or runs again what has no figures. Raises BadInput where this
    page cannot run it on this machine: processes of other machines or versions do not join one answer."""
    if not result.as_processes():
        return catalog.make_spec(**catalog.arguments(result.spec))
    if machine is not None and not measured_on(result, machine):
        raise BadInput("This run is of another machine or other versions. Press Run to measure it here.")
    return catalog.make_spec(**catalog.arguments(dataclasses.replace(result.spec, repeats=1)))


def picture_of(result: RunResult, in_form: dict[str, Any] | None) -> Path | None:
    """The file of the run's picture: an example, or the form's; None for a prompt. Raises BadInput if there is none.

    A run that ended before it read its picture takes the form's.
    """
    if not result.spec.sees_picture:
        return None
    file, name = uploaded(in_form) if in_form else None, ""
    if result.image is not None:
        file, name = find_picture(result.image.sha256, file), f", {result.image.name},"
    if file is None:
        raise BadInput(f"Its picture{name} is not here. Choose it in the form, then press the button once more.")
    return file
