"""The result pane of the tab Run: its components, and the updates that show a result in them."""

import json
import re
from collections.abc import Mapping
from typing import Any, TypeVar

import gradio as gr
from gradio.blocks import Block
from gradio.components import Component
from markupsafe import Markup

from ...core import catalog, format as fmt
from ...core.base64_images import decode_preview
from ...core.codec import JsonObject
from ...core.hub import NoAnswer
from ...core.options import BadInput, read_calls
from ...core.outputs import ImageInfo, Predictions
from ...core.result import RunResult
from ...core.result_json import to_json
from ...present import charts, details, markdown, naming, pictures, png, race, share, whole_work
from ...present.pictures import VARIANTS, VariantName
from ...present.report import Report
from ...present.script import change, needs_folder, script, script_refusal
from ...runs.ongoing import Files
from ...store.database import HistoryError
from ...store.history import History
from ...store.hub_dataset import dataset_name, push_page
from ..look import download
from . import tables
from .events import EVENT_OPTIONS, IN_BROWSER, Updates
from .headline import headline, intro, race_of

C = TypeVar("C", bound=Component)

FILES = {
    "share": ("One file to send (HTML)", ".html"),
    "card": ("Picture of this result", ".png"),
    "race": ("Race, animated (SVG)", "-race.svg"),
    "still": ("Race (PNG)", "-race.png"),
    "json": ("Result as JSON", ".json"),
    "script": ("Python script", ".py"),
    "trace": ("Trace for Perfetto", ""),
    "package": ("Package (.pt2)", ""),
}
"""For each file: the words on its button, and the end of its name ('' if the run itself wrote the file)."""
AS_ASKED = "(report, _) => [report, wholeWork.asText()]"
"""JavaScript that passes the number of calls on the slider to an event's handler, as its second input."""
RANDOM_WEIGHTS = "The weights are random, so predictions are meaningless and not drawn. The latency is valid."
CANNOT_DRAW = "The picture of this result cannot be drawn again."
NO_DIFFERENCE = "There is no difference to draw."


class ResultPane:
    """The result pane: the right side of the tab Run.

    While `live` (the progress of a run) or `best` (a search) is visible, the style sheet hides the content below these
    two. The hidden content stays in the page, and is shown again if a run is refused.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._links: dict[str, str] = {}
        """Web addresses on the Hub of uploaded HTML files ("One file to send"), by the run's id. No file is uploaded
        twice."""
        self.notice = gr.HTML(visible=False, elem_id="notice", apply_default_css=False)
        """A note, or the reason why nothing was run, above the content that was shown before."""
        self.live = gr.HTML(visible=False, elem_id="live", apply_default_css=False)
        self.best = gr.Column(visible=False, elem_id="best-stage")
        self.top = gr.HTML(intro(catalog.DEFAULT), elem_id="top", apply_default_css=False)
        self.repeat = gr.Button("Repeat in a fresh process", visible=False, size="sm", elem_id="repeat")
        self.race = gr.HTML(visible=False, elem_id="race", apply_default_css=False)
        self.work = place_of_slider("work")
        """The slider for the number of calls between two restarts of a process. It is below the race."""
        self.outputs = Outputs()
        self.folds: dict[str, gr.Accordion] = {}
        self.sections: dict[str, gr.Markdown] = {}
        for number, fold in enumerate(details.FOLDS):
            with gr.Accordion(fold, open=False, visible=False, elem_classes="fold") as self.folds[fold]:
                if number == 0:
                    self.trace = gr.Plot(visible=False, show_label=False, elem_id="figure-trace")
                self.sections[fold] = gr.Markdown(elem_classes="section")
        title = "Take it with you: code, files"
        with gr.Accordion(title, open=False, visible=False, elem_classes="fold", elem_id="take") as self.take:
            self.change = code_to_copy(label="In your own code", lines=1)
            self.hint = gr.Markdown()
            with gr.Accordion("Python script that times this model again", open=False) as self.script_fold:
                self.script = code_to_copy(show_label=False)
            with gr.Row():
                self.files = {
                    name: (gr.Button if ending else gr.DownloadButton)(words, size="sm", elem_id=f"take-{name}")
                    for name, (words, ending) in FILES.items()
                }
                self.made = gr.DownloadButton("The file", elem_id="made", elem_classes="unseen")
            self.sent = gr.Markdown(elem_id="sent")
            """A sentence that says where the HTML file lies ("One file to send"), once it was asked for."""
        self.asked_calls = gr.Textbox("", visible=False)
        """The slider's number of calls, which the browser sends when a file is asked for: '172800'.

        If the visitor typed a rate, such as 2/s, the rate follows: '172800 2/s'. The number is then the calls of a day.
        """
        self.shown = gr.State(None)
        """The `Report` that the pane shows. Script and files are made of it once they are asked for."""
        above = [self.notice, self.live, self.best, self.top, self.repeat, self.race, self.work]
        self._parts = [*above, self.outputs.column, *self.folds.values(), self.take]
        in_folds = [self.trace, *self.sections.values(), self.change, self.hint, self.script, self.script_fold]
        self.components = [
            *self._parts,
            *self.outputs.components,
            *in_folds,
            *self.files.values(),
            self.sent,
            self.shown,
        ]
        self._wire()

    def _wire(self) -> None:
        self.script_fold.expand(self._show_script, self.shown, self.script, **EVENT_OPTIONS)
        one_at_a_time = EVENT_OPTIONS | {"concurrency_limit": 1, "concurrency_id": "export"}
        for kind, (_, ending) in FILES.items():
            if ending:
                pressed = self.files[kind].click(
                    lambda report, calls="", kind=kind: self._make_file(kind, report, calls),
                    [self.shown, self.asked_calls],
                    self.made,
                    js=AS_ASKED,
                    **one_at_a_time,
                )
                downloaded = pressed.success(js=download("made"), **IN_BROWSER)
                if kind == "share":
                    here = [self.shown, self.asked_calls]
                    # in a queue of its own: the Hub may be slow, and other files need not wait
                    alone = one_at_a_time | {"concurrency_id": "send"}
                    downloaded.success(self._send, here, self.sent, js=AS_ASKED, **alone)

    def running(self, html: str) -> Updates:
        """Returns updates that show the progress of a run, `html`, instead of the previous content."""
        hidden = {part: gr.update(visible=False) for part in (self.notice, self.best)}
        return hidden | {self.live: gr.update(value=html, visible=True)}

    def show_refusal(self, html: str) -> Updates:
        """Returns updates that show the previous content again, and above it `html`, the reason why nothing was run."""
        return {self.notice: gr.update(value=html, visible=True), self.live: gr.update(visible=False)}

    def only(self, html: str) -> Updates:
        return {part: gr.update(visible=False) for part in self._parts if part is not self.top} | {self.top: html}

    def result(self, report: Report, files: Files, plays: bool, again: bool) -> Updates:
        """Returns updates that show a result and offer its `files` for download.

        `plays`: whether the chart of calls over time is animated. `again`: whether the button Repeat is visible.
        """
        result = report.result
        words = "Repeat in a fresh process" if result.as_processes() else "Run it again"
        updates = self.only(headline(report)) | self._folds_of(report) | self._to_take(report, files)
        updates[self.repeat] = gr.update(value=words, visible=again)
        if result.failure is not None:
            return updates
        picture = race_of(report, plays)
        slider = whole_work.slider(whole_work.choice_of(report))
        return (
            updates
            | {self.race: gr.update(value=picture, visible=bool(picture))}
            | {self.work: gr.update(value=slider, visible=bool(slider))}
            | self.outputs.show(report)
        )

    def _folds_of(self, report: Report) -> Updates:
        figure = charts.trace(report.result)
        updates: Updates = {self.trace: gr.update(value=figure, visible=figure is not None)}
        for fold, sections in details.tree(report).items():
            updates[self.folds[fold]] = gr.update(visible=bool(sections))
            updates[self.sections[fold]] = "\n\n".join(map(markdown.of_section, sections))
        return updates

    def _to_take(self, report: Report, files: Files) -> Updates:
        result, hints, refused = report.result, [], script_refusal(report.result.spec)
        if refused:
            hints.append(markdown.escape_markdown(refused))
        elif needs_folder(result):
            hints.append("Start the script in the project's folder, where its files are.")
        if not refused and result.spec.sees_picture and not (result.image and catalog.find_scene(result.image.sha256)):
            hints.append("In the script a grey picture of the same size stands in for yours.")
        offered = {
            **dict.fromkeys(("share", "card"), result.status != "cancelled"),
            **dict.fromkeys(("race", "still"), bool(report.race)),
            "json": True,
            "script": not refused,
        }
        updates: Updates = {
            self.shown: report,
            self.sent: "",
            self.take: gr.update(visible=True),
            self.change: gr.update(value=change(result.spec), visible=result.speedup is not None),
            self.hint: " ".join(hints),
            self.script: "",
            self.script_fold: gr.update(visible=not refused, open=False),
        }
        for kind, button in self.files.items():
            path = getattr(files, kind, None)
            written = gr.update(value=path and str(path), visible=path is not None)
            updates[button] = gr.update(visible=offered[kind]) if kind in offered else written
        return updates

    def _show_script(self, report: Report | None) -> str:
        return script(report) if report is not None else ""

    def _make_file(self, kind: str, report: Report | None, calls: str) -> str | None:
        """Writes a file of the shown result and returns its path; None if no result is shown.

        `kind`: a key of `FILES`. `calls`: the number of calls on the slider, as text; '' if not known.
        """
        if report is None:
            return None
        result = report.result
        match kind:
            case "share":
                content = _page_to_send(report, calls).encode()
            case "card":
                content = png.card(report)
            case "race":
                content = race.file(report.race, report.source, whole_work.at_rest(report)).encode()
            case "still":
                content = png.race_at_rest(report)
            case "json":
                content = json.dumps(to_json(result), allow_nan=False, indent=2).encode()
            case _:
                content = script(report).encode()
        return tables.download_file(content, _file_name(result, kind))

    def _send(self, report: Report | None, calls: str) -> str:
        """Returns, as HTML, where the shown result's HTML file ("One file to send") is: in the browser's downloads.

        If WORTH_COMPILING_DATASET names a dataset on the Hub, a stored run's file is uploaded there, too, but only
        once, and the HTML links to it.
        """
        if report is None:
            return ""
        result = report.result
        said = Markup("{} is where your browser keeps downloads.").format(_file_name(result, "share"))
        try:
            if dataset_name() and self._history.get(result.id) is not None:  # nothing of a deleted run is uploaded
                if result.id not in self._links:
                    self._links[result.id] = push_page(self._history, result, _page_to_send(report, calls))
                link = Markup('<a href="{0}" target="_blank" rel="noopener">{0}</a>').format(self._links[result.id])
                said += Markup(" It is in the dataset, too: {}").format(link)
        except (BadInput, NoAnswer, HistoryError) as error:
            reason = fmt.excerpt(fmt.redact(str(error)))
            said += Markup(" It could not be brought to the dataset: {}.").format(reason)
        return Markup('<p role="status">{}</p>').format(said)


def _file_name(result: RunResult, kind: str) -> str:
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", f"{naming.short(result.spec.checkpoint)}-{result.id}").strip("-.")
    return name + FILES[kind][1]


def _page_to_send(report: Report, asked: str) -> str:
    calls, _, rate = asked.partition(" ")
    return share.page(report, read_calls(calls or None) or whole_work.USUAL_CALLS, rate)


def place_of_slider(elem_id: str) -> gr.HTML:
    """Returns the component for the slider of a run or a search. It is hidden until `whole_work.slider` fills it."""
    return gr.HTML(visible=False, elem_id=elem_id, apply_default_css=False)


def code_to_copy(**settings: Any) -> gr.Code:
    return gr.Code(
        language="python",
        interactive=False,
        wrap_lines=True,  # a keyboard could not scroll long lines
        show_line_numbers=False,
        buttons=["copy"],  # no download: gradio puts a button inside a link, and a finger cannot choose between them
        **settings,
    )


# ---- predictions

Values = dict[Block, JsonObject]
"""The properties to set, such as {"value": ...}, by component of the page."""


class Outputs:
    """The part of the pane that shows what eager and compiled predict: labels, boxes, masks or texts."""

    def __init__(self) -> None:
        with gr.Column(visible=False, elem_id="seen") as self.column:
            self.words = gr.Markdown(elem_id="agreement")
            self.prompt = gr.Textbox(label="Prompt", interactive=False, visible=False, max_lines=4, elem_id="asked")
            with gr.Row(elem_id="predictions"):
                self.picture = gr.AnnotatedImage(visible=False, elem_id="labelled")
                self.labels = _of_each(gr.Label, num_top_classes=5)
                self.texts = _of_each(gr.HighlightedText, combine_adjacent=True, show_inline_category=False)
                self.marked = _of_each(gr.AnnotatedImage)
                self.slider = gr.ImageSlider(
                    label="Eager on the left, compiled on the right",
                    visible=False,
                    interactive=False,
                    buttons=["fullscreen"],
                    elem_id="slider",
                )
                self.difference = gr.AnnotatedImage(label="Difference", visible=False, elem_id="difference")
        self._shown = [self.prompt, self.picture, *self.labels.values(), *self.texts.values(), *self.marked.values()]
        self._shown += [self.slider, self.difference]
        self.components = [self.words, *self._shown]

    def show(self, report: Report) -> Updates:
        """Returns updates that show the predictions of a result, or hide this part of the pane if there are none."""
        result = report.result
        seen, values, words = result.predictions or {}, Values(), list[str]()
        if set(VARIANTS) <= set(seen):
            words, values = markdown.of_predictions(report), self._texts(result, seen) or self._labels(seen)
            try:
                values |= self._pictures(result.image, seen)
            except (ValueError, ArithmeticError):  # a damaged stored result: its other parts are still shown
                words.append(CANNOT_DRAW)
            if self.slider in values and self.difference not in values:
                words.append(NO_DIFFERENCE)
        elif result.status == "ok" and result.spec.weights == "random":
            words = [RANDOM_WEIGHTS]
        heading = "### What the model writes" if result.spec.unit == "token" else "### What the model sees"
        text = "\n\n".join([heading, *map(markdown.escape_markdown, words)]).replace(" %", "\N{NO-BREAK SPACE}%")
        hidden = {component: gr.update(value=None, visible=False) for component in self._shown}
        column = {self.column: gr.update(visible=bool(values or words)), self.words: text}
        return column | hidden | {component: gr.update(visible=True, **values[component]) for component in values}

    def _texts(self, result: RunResult, seen: Mapping[str, Predictions]) -> Values:
        """Returns the prompt and the texts of both models. Tokens that differ from the other text's are marked."""
        if seen["eager"].text is None:
            return {}
        values: Values = {self.prompt: {"value": result.spec.prompt}}
        for variant, other in zip(VARIANTS, reversed(VARIANTS), strict=True):
            ours, theirs = seen[variant], seen[other].token_ids or ()
            tokens = enumerate(zip(ours.pieces or (), ours.token_ids or (), strict=False))
            marked = [(piece, None if theirs[at : at + 1] == (token,) else "differs") for at, (piece, token) in tokens]
            values[self.texts[variant]] = {"value": marked}
        return values

    def _labels(self, seen: Mapping[str, Predictions]) -> Values:
        return {
            component: {"value": {label.label: label.score for label in labels}}
            for variant, component in self.labels.items()
            if (labels := seen[variant].labels) is not None
        }

    def _pictures(self, info: ImageInfo | None, seen: Mapping[str, Predictions]) -> Values:
        """Returns the values that show the picture, by component.

        With boxes or masks: the marked picture of each model, both pictures in one component that a slider divides, and
        their difference. Raises ValueError or ArithmeticError for damaged data.
        """
        if info is None:
            return {}
        preview, values = decode_preview(info.preview_jpeg), Values()
        if seen["eager"].labels is not None:
            return {self.picture: {"value": (preview, []), "label": info.name}}
        pair, noun = [], "segment" if seen["eager"].boxes is None else "object"
        for variant, component in self.marked.items():
            picture = pictures.annotate(preview, info, seen, variant)
            count = fmt.count(len(picture.marks), noun) if picture.marks else "nothing found"
            values[component] = _annotation(picture) | {"label": f"{variant.capitalize()}: {count}"}
            pair.append(pictures.draw(picture))
        values[self.slider] = {"value": tuple(pair)}
        difference = pictures.annotate_difference(preview, info, seen["eager"], seen["compiled"])
        return values | ({self.difference: _annotation(difference)} if difference is not None else {})


def _of_each(component: type[C], **settings: Any) -> dict[VariantName, C]:
    return {
        variant: component(
            label=variant.capitalize(), visible=False, elem_classes=[variant, component.__name__.lower()], **settings
        )
        for variant in VARIANTS
    }


def _annotation(picture: pictures.Annotation) -> dict[str, object]:
    return {"value": (picture.image, picture.marks), "color_map": picture.colours}
