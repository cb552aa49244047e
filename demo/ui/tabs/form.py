"""The form of a run: its fields and notes, how one field changes others, and how its values become a `RunSpec`."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.processing_utils import save_file_to_cache
from gradio.utils import get_upload_folder, is_in_or_equal
from markupsafe import Markup

from ...core import catalog, format as fmt, hub, limits
from ...core.catalog import Checkpoint, scenes
from ...core.options import OPTION_GROUPS, OPTIONS, TASKS, TEXT_GENERATION, BadInput, Option, RunSpec, unused_options
from ...core.outputs import ImageInfo
from ...core.result import RunResult
from ...present import naming
from ...present.markdown import escape_markdown
from ...runs.forecast import Forecast
from ...runs.picture_check import picture_problem
from ...sweep import best_way
from ...tasks.registry import BY_NAME
from ..look import TO_ADVANCED
from ..templates import render
from ..web.gradio_workarounds import NOT_UPLOADED
from .events import EVENT_OPTIONS, IN_BROWSER, LATEST, RAW, EventOptions, Updates

TASK_NAMES = {task: BY_NAME[task].label for task in TASKS}
GROUPS = {"machine": "Model and machine", "compile": "Compiling", "timing": "Timing"}
OPTIONAL = tuple(option.name for option in OPTIONS.values() if option.fold and option.kind in ("whole", "number"))
"""The fields under "Advanced" that a visitor may leave empty for the option's default."""
PICTURE_PUBLIC = (
    "A copy of your picture (at most 640 pixels wide or high) and its file name are kept with the result. Everybody "
    "who opens this page can see them."
)
PROMPT_PUBLIC = "Your prompt and both answers are kept with the result. Everybody who opens this page can see them."
PROMPTS = {
    "The picture shows a": "The picture shows a",
    "This is a picture of a large red star in the middle. What colour is the star?": "What colour is the star?",
    "The picture shows a tiny white ring": "… a tiny white ring",
}
"""Example prompts with their labels on the page, which has room for some 25 letters."""
MODE_NOTES = {
    "default": "Fuses operations into fewer kernels. Start with this one.",
    "reduce-overhead": "On a GPU, records the kernels of a call and replays them with one launch: helps small batches.",
    "max-autotune": "Tries many kernels for each operation, keeps the fastest, replays launches. Compiles longest.",
    "max-autotune-no-cudagraphs": "Tries many kernels, but launches them one by one: less memory than max-autotune.",
    "lite": "Keeps eager's own kernels: compiles quickly, gains little.",
}
FIRST_CHECKPOINT = next(entry for entry in catalog.CHECKPOINTS if entry.id == catalog.DEFAULT)
"""The checkpoint that the form has when the page opens."""
VIT = "google/vit-base-patch16-224"
FEW: EventOptions = {"concurrency_limit": 2, "concurrency_id": "pictures"}
"""The options of the events that start a process for a picture: two at once, as each may take a gigabyte of memory."""
CROWDED = 1.25
"""The estimate mentions other programs if they make the run at least this many times as long."""

FieldValues = dict[str, Any]
"""The values of the form's fields by name, as a browser sent them."""
FileDescription = Mapping[str, object]
"""What gradio says about an uploaded file, such as its "path"."""


@cache
def photographs() -> tuple[Path, ...]:
    """Returns the paths of three photographs that come with gradio."""
    return tuple(Path(gr.get_image(name)) for name in ("lion.jpg", "cheetah.jpg", "tower.jpg"))


def default_picture(checkpoint: str) -> Path:
    """Returns the example picture for a checkpoint: a drawn scene for a bundled checkpoint, else a photograph."""
    entry = catalog.find(checkpoint)
    return (scenes() if entry is not None and entry.bundled else photographs())[0]


def _checksum(picture: Path) -> str:
    return hashlib.sha256(picture.read_bytes()).hexdigest()


def find_picture(sha256: str, own: Path | None = None) -> Path | None:
    """Returns the picture with this SHA-256: an example, or `own`, the visitor's picture. None if neither has it."""
    candidates = [own] if own is not None and own.is_file() else []
    candidates += [*photographs(), *scenes()]
    return next((picture for picture in candidates if _checksum(picture) == sha256), None)


def servable(picture: Path) -> str:
    """Copies the picture into gradio's cache, and returns the path of the copy: gradio serves only files in it."""
    return str(save_file_to_cache(picture, get_upload_folder()))


def choices(task: str) -> list[tuple[str, str]]:
    """Returns the checkpoints of a task as (label, id), bundled first: ("shapes-vit · bundled", "shapes-vit")."""
    entries = sorted(catalog.for_task(task), key=lambda entry: not entry.bundled)
    return [(f"{entry.id} · {weights_source(entry)}", entry.id) for entry in entries]


def first(task: str) -> str | None:
    """Returns the id of the first checkpoint of a task; None if the catalogue has none for it."""
    return next((id for _, id in choices(task)), None)


def takes_text(checkpoint: str, task: str) -> bool:
    """Returns whether the form asks for a text. Zero-shot detectors need one: they find the objects that it names."""
    entry = catalog.find(checkpoint or "")
    return entry.takes_text if entry else task in TASKS and BY_NAME[task].takes_queries


def uploaded_file(file: object) -> Path:
    """Returns the path in a file description by gradio. Raises BadInput if the file is not in the upload folder."""
    path = file.get("path") if isinstance(file, dict) else getattr(file, "path", None)
    if not isinstance(path, str) or not is_in_or_equal(path, get_upload_folder()):
        raise BadInput(NOT_UPLOADED)
    return Path(path)


def spec_and_picture(values: FieldValues) -> tuple[RunSpec, Path | None]:
    """Returns the spec that the form asks for, and the path of its picture; None for a text model.

    `values`: the values of the fields by name, as the browser sent them. Raises BadInput for a missing picture, or a
    value that is not allowed.
    """
    spec, image = read_spec(values), values["image"]
    if not spec.sees_picture:
        return spec, None
    if not image:
        raise BadInput("There is no picture. Choose one of the examples, or drop a file on the form.")
    return spec, uploaded_file(image)


def read_spec(values: FieldValues) -> RunSpec:
    """Returns the spec that the form asks for. `values`: see `spec_and_picture`. Raises BadInput if one is wrong."""
    empty = {name for name in (*OPTIONAL, "tokens") if values[name] is None or not str(values[name]).strip()}
    # ignored: these fields are hidden, so their values were meant for another checkpoint
    hidden = {"image", *unused_options(values["task"])}
    if not takes_text(values["checkpoint"], values["task"]):
        hidden.add("text")
    return catalog.make_spec(**{name: value for name, value in values.items() if name not in empty | hidden})


def picture_of(result: RunResult, in_form: FileDescription | None) -> Path | None:
    """Returns the path of the picture with which a run is repeated; None for a text model.

    A result does not store the file of its picture, only the SHA-256. So this is the form's picture (`in_form`) or an
    example, whichever has this SHA-256. For a run that ended before it read its picture, it is the form's. Raises
    BadInput if there is no such picture.
    """
    if not result.spec.sees_picture:
        return None
    file, name = uploaded_file(in_form) if in_form else None, ""
    if result.image is not None:
        file, name = find_picture(result.image.sha256, file), f", {result.image.name},"
    if file is None:
        raise BadInput(f"Its picture{name} is not here. Choose it in the form, then press the button once more.")
    return file


def picture_for(checkpoint: str | None, image: FileDescription | None) -> object:
    """Returns the default picture of a checkpoint; no change (`gr.skip()`) if the visitor has chosen a picture."""
    # the paths can be compared, as gradio keeps files of equal content at the same path
    defaults = [servable(scenes()[0]), servable(photographs()[0])]
    is_choice = image is not None and image.get("path") not in defaults
    return gr.skip() if is_choice else servable(default_picture((checkpoint or "").strip()))


def picture_note(checkpoint: str | None, image: FileDescription | None) -> tuple[object, object]:
    """Returns updates of a note about the picture, and of a button that chooses a model for photographs.

    - If the picture cannot be read, only the note is visible.
    - If the model was trained on drawn shapes and the picture is not one of them, both are visible.
    - Otherwise both are hidden.
    """
    entry, hidden = catalog.find((checkpoint or "").strip()), gr.update(visible=False)
    if not image or (entry is not None and entry.task == TEXT_GENERATION):
        return hidden, hidden
    file = uploaded_file(image)
    if refusal := picture_problem(file):
        return gr.update(value=escape_markdown(refusal), visible=True), hidden
    if entry is None:
        return hidden, hidden
    beyond = catalog.is_beyond(entry.id, _checksum(file))
    note = f"{entry.id} knows drawn shapes only: on this picture its predictions may mean nothing."
    other = catalog.find(BY_NAME[entry.task].published)
    words = f"Use {naming.short(other.id)}, for photographs ({weights_source(other)})" if other is not None else ""
    return gr.update(value=escape_markdown(note), visible=beyond), gr.update(value=words, visible=beyond)


# ---- the notes below the fields, as Markdown, and the forecast above Run, as HTML


def mode_note(mode: str) -> str:
    return MODE_NOTES.get(mode, "A mode of the installed torch that has no description here.")


def checkpoint_note(checkpoint: str) -> str:
    """Returns facts about a checkpoint as Markdown; '' for an invalid id. The forecast then says what is wrong."""
    entry = catalog.find(checkpoint)
    if entry is None:
        sentence = f"Not in the list: {checkpoint} comes from the Hub (safetensors only)."
        return "" if catalog.id_refusal(checkpoint) else escape_markdown(sentence)
    facts = [fmt.capital(weights_source(entry))]
    if entry.parameters:
        facts.append(f"{fmt.parameters(entry.parameters)} parameters")
    if entry.task != TEXT_GENERATION:
        facts.append(f"{entry.input_size[1]} × {entry.input_size[0]} px")
    line = " · ".join(fact.replace(" ", "\N{NO-BREAK SPACE}") for fact in facts)
    if not entry.bundled:
        return line
    shapes = "" if entry.task == TEXT_GENERATION else f": {', '.join(catalog.drawn_shapes(entry))}"
    return f"{line}\n\n{escape_markdown(fmt.sentence(f'{entry.title} only{shapes}'))}"


def weights_source(checkpoint: Checkpoint) -> str:
    """Returns where the weights are: 'bundled', 'in the cache', 'download about 346 MB', or else 'from the Hub'."""
    if not needs_download(checkpoint):
        return "bundled" if checkpoint.bundled else "in the cache"
    return f"download about {fmt.size(4 * checkpoint.parameters)}" if checkpoint.parameters else "from the Hub"


def needs_download(checkpoint: Checkpoint) -> bool:
    return not checkpoint.bundled and not hub.holds_weights(checkpoint.id)


def doubts(spec: RunSpec) -> list[str]:
    """Returns a sentence for each setting that has no use, or is slow, on the spec's device, 'cpu' or 'cuda'."""
    if spec.device == "cuda":
        return ["The number of threads matters on a CPU only."] if spec.threads is not None else []
    sentences = []
    if spec.mode == "reduce-overhead":
        sentences.append("reduce-overhead uses CUDA graphs, which need a GPU: on a CPU it does the same as default.")
    if spec.dtype == "float16":
        sentences.append("Most CPUs convert float16 to float32 to compute: slower than float32 and bfloat16.")
    return sentences


def forecast_html(
    expected: Forecast | None, checkpoint: Checkpoint | None, doubts: Sequence[str], query: str
) -> Markup:
    """Returns, as HTML, how long a run will take, followed by the `doubts`: sentences about the settings.

    `query`: the query of a link to these settings, which a button copies.
    """
    text, basis = "No estimate yet: this checkpoint has not been run here.", ""
    if expected is not None:
        text = f"About {fmt.rounded_duration(expected.seconds)}"
        alike = "with these settings" if expected.same_settings else "of this model, which compiles anew"
        basis = f"based on earlier runs {alike}: {expected.runs}"
        if not expected.runs and checkpoint is not None:
            basis = f"rough estimate from {fmt.parameters(checkpoint.parameters)} parameters"
            basis += ", download not counted" if needs_download(checkpoint) else ""
        if expected.crowd >= CROWDED:
            basis += f"; other programs make it {expected.crowd:.2g} times as long"
    return render("results.forecast", text, basis, doubts, query)


# ---- the components


def _note(text: str = "", elem_id: str | None = None, visible: bool = True) -> gr.Markdown:
    return gr.Markdown(text, elem_id=elem_id, visible=visible, elem_classes="note")


def _option_field(option: Option) -> gr.components.Component:
    classes = ["not-for-text"] if option.name in unused_options(TEXT_GENERATION) else []
    texts: dict[str, Any] = {"label": option.label, "info": option.help, "elem_classes": classes}
    if option.kind == "switch":
        return gr.Checkbox(bool(option.default), **texts)
    if option.kind == "choice":
        classes.append("segmented")
        return gr.Radio(list(option.values), value=option.values[0], **texts)
    empty = "automatic" if option.default is None else f"{option.default:g}"
    return gr.Textbox("", placeholder=empty, **texts)


class Form:
    """The components of the form. `inputs` has the fields by name: 'checkpoint', 'image' and others."""

    def __init__(self) -> None:
        self.inputs: dict[str, Any] = {}
        with gr.Column(elem_id="fields"):
            self._model_fields()
            with gr.Column(elem_id="input"):
                self._picture_fields()
                self._text_fields()
            self._run_fields()
        self.busy = gr.Markdown(visible=False, elem_id="busy")
        """The note that other programs use the machine, shown before a run."""
        self.forecast = gr.HTML(elem_id="forecast", apply_default_css=False)
        with gr.Row(elem_id="actions"):
            self.run = gr.Button("Run", variant="primary", size="lg", elem_id="run")
            self.run_when_quiet = gr.Button("Run when it is quiet", size="lg", visible=False, elem_id="run-when-quiet")
            self.best = gr.Button("Find the best way", size="lg", elem_id="best")
            self.cancel = gr.Button("Cancel", size="lg", interactive=False, elem_id="cancel")
        self.buttons = [self.run, self.run_when_quiet, self.best, self.cancel]
        self._wire()

    def _wire(self) -> None:
        task, checkpoint, image = (self.inputs[name] for name in ("task", "checkpoint", "image"))
        follow = (picture_for, [checkpoint, image], image)
        looked_at = (picture_note, [checkpoint, image], self.picture_notes)
        first_of = task.input(
            lambda task: gr.update(choices=choices(task), value=first(task)), task, checkpoint, **LATEST
        )
        first_of.then(*follow, **RAW)
        checkpoint.input(*follow, **LATEST)
        gr.on([image.input, self.examples.dataset.click], *looked_at, **(LATEST | FEW))
        other = self.for_photographs.click(lambda task: BY_NAME[task].published, task, checkpoint, **EVENT_OPTIONS)
        other.then(*looked_at, **(RAW | FEW))
        self.inputs["mode"].change(mode_note, self.inputs["mode"], self.mode_note, **EVENT_OPTIONS)

    def by_name(self, values: tuple[object, ...]) -> FieldValues:
        """Returns the values of the fields by name. `values`: in the order of `inputs`."""
        return dict(zip(self.inputs, values, strict=True))

    def with_picture(self, picture: Path | None) -> Updates:
        """Returns updates that hide the notes on the picture and, if the file exists, put `picture` into the form."""
        notes: Updates = {part: gr.update(visible=False) for part in self.picture_notes}
        return notes | {self.inputs["image"]: servable(picture)} if picture and picture.is_file() else notes

    def with_picture_of(self, info: ImageInfo | None) -> Updates:
        """Returns updates that put a stored run's picture into the form. If it is no example, a note says its name."""
        picture = find_picture(info.sha256) if info is not None else None
        if info is None or picture:
            return self.with_picture(picture)
        note = f"The result shown used a different picture: {info.name}."
        sentence, button = self.picture_notes
        return {sentence: gr.update(value=escape_markdown(note), visible=True), button: gr.update(visible=False)}

    def pressable(self, running: bool) -> Updates:
        """Returns updates of the buttons: if `running`, only Cancel is enabled; if not, all but Cancel."""
        return {button: gr.update(interactive=running is (button is self.cancel)) for button in self.buttons}

    def _model_fields(self) -> None:
        self.inputs["task"] = gr.Radio(
            [(name, task) for task, name in TASK_NAMES.items()],
            value=FIRST_CHECKPOINT.task,
            label="Task",
            elem_id="task",
            elem_classes="segmented",
        )
        with gr.Column(elem_classes="field"):
            self.inputs["checkpoint"] = gr.Dropdown(
                choices(FIRST_CHECKPOINT.task),
                value=FIRST_CHECKPOINT.id,
                label="Checkpoint",
                info="Pick one, or type a Hub id: owner/name",
                allow_custom_value=True,
                elem_id="checkpoint",
            )
            self.checkpoint_note = _note(checkpoint_note(FIRST_CHECKPOINT.id), elem_id="checkpoint-note")

    def _picture_fields(self) -> None:
        with gr.Column(elem_classes="field", elem_id="input-picture"):
            self.inputs["image"] = gr.Image(
                value=str(default_picture(FIRST_CHECKPOINT.id)),
                label="Picture",
                sources=["upload", "clipboard"],
                buttons=[],
                height="11rem",
                elem_id="picture",
                placeholder="Drop a picture here\nor click to choose one",
                alt_text="The picture that the model will see",
            )
            if limits.on_space():
                _note(PICTURE_PUBLIC, elem_id="picture-public")
            pictures = list(map(str, (*scenes()[:3], *photographs())))
            self.examples = gr.Examples(
                pictures, self.inputs["image"], label="Examples", elem_id="examples", api_visibility="private"
            )
            note = _note(visible=False, elem_id="picture-note")
            self.for_photographs = gr.Button(visible=False, size="sm", elem_id="for-photographs")
            self.picture_notes = [note, self.for_photographs]

    def _text_fields(self) -> None:
        # the style sheet shows them for text models, else the picture field
        with gr.Column(elem_classes="field", elem_id="input-text"):
            prompt = gr.Textbox(catalog.PROMPT, label="Prompt", lines=3, elem_id="prompt")
            gr.Examples(
                list(PROMPTS),
                prompt,
                label="Examples",
                elem_id="prompts",
                api_visibility="private",
                example_labels=list(PROMPTS.values()),
            )
            allowed = OPTIONS["tokens"]
            tokens = gr.Number(
                RunSpec.tokens,
                label=allowed.label,
                precision=0,
                minimum=allowed.low,
                maximum=allowed.high,
                elem_id="tokens",
            )
            if limits.on_space():
                _note(PROMPT_PUBLIC)
        self.inputs |= {"prompt": prompt, "tokens": tokens}

    def _run_fields(self) -> None:
        inputs = self.inputs
        inputs["text"] = gr.Textbox(
            ", ".join(catalog.QUERIES),
            label=OPTIONS["text"].label,
            info="Separate things by commas",
            lines=2,
            max_lines=4,
            visible=False,
        )
        inputs["batch_size"] = gr.Slider(
            1, limits.current().batch, value=1, step=1, label="Batch size", buttons=[], elem_id="batch"
        )
        with gr.Column(elem_classes="field"):
            inputs["mode"] = gr.Dropdown(
                list(OPTIONS["mode"].values), value="default", label=OPTIONS["mode"].label, elem_id="mode"
            )
            self.mode_note = _note(mode_note("default"), elem_id="mode-note")
        formats = list(OPTIONS["dtype"].values)
        inputs["dtype"] = gr.Radio(
            formats, value="float32", label=OPTIONS["dtype"].label, elem_id="dtype", elem_classes="segmented"
        )
        with gr.Accordion("Advanced", open=False, elem_id="advanced") as advanced:
            for group in OPTION_GROUPS:
                gr.Markdown(f"### {GROUPS[group]}", elem_classes="group")
                inputs |= {option.name: _option_field(option) for option in OPTIONS.values() if option.fold == group}
            gr.Markdown("### Find the best way", elem_classes="group")
            self.minutes = gr.Number(
                best_way.MINUTES,
                label="Minutes for the search",
                info="1 to 60. What was measured is kept, and another press goes on from there.",
                minimum=best_way.MIN_MINUTES,
                maximum=best_way.MAX_MINUTES,
            )
            self.other_formats = gr.Checkbox(
                False,
                label="Other number formats, too",
                info="They change the outputs. The table says whether these still agree.",
            )
        advanced.expand(js=TO_ADVANCED, **IN_BROWSER)
