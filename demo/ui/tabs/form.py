"""The form of a run: its fields, how one field changes others, and how the values become a `RunSpec` and a picture."""

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.processing_utils import save_file_to_cache
from gradio.utils import get_upload_folder, is_in_or_equal

from demo.core import catalog, limits
from demo.core.catalog import scenes
from demo.core.options import FOLDS, OPTIONS, TASKS, TEXT_GENERATION, BadInput, Option, RunSpec, unused_options
from demo.core.outputs import ImageInfo
from demo.present.markdown import escape_markdown
from demo.sweep import best_way
from demo.tasks.registry import BY_NAME
from demo.ui.look import TO_ADVANCED
from demo.ui.tabs.events import EVENT_OPTIONS
from demo.ui.tabs.form_notes import checkpoint_note, drawn_only_note, for_photographs, mode_note, source
from demo.ui.web.gradio_workarounds import NOT_UPLOADED

TASK_NAMES = {task: BY_NAME[task].label for task in TASKS}
GROUPS = {"machine": "Model and machine", "compile": "Compiling", "timing": "Timing"}
OPTIONAL = tuple(option.name for option in OPTIONS.values() if option.fold and option.kind in ("whole", "number"))
"""The fields that a visitor may leave empty for the option's default."""
PICTURE_PUBLIC = (
    "A copy of your picture (at most 640 pixels wide or high) and its file name are kept with the result. Everybody "
    "who opens this page can see them."
)
PROMPT_PUBLIC = "Your prompt and both answers are kept with the result. Everybody who opens this page can see them."
PROMPTS = (
    "The picture shows a",
    "This is a picture of a large red star in the middle. What colour is the star?",
    "The picture shows a tiny white ring",
)
FIRST = next(entry for entry in catalog.CHECKPOINTS if entry.id == catalog.DEFAULT)
"""The checkpoint that the form has when the page opens."""
VIT = "google/vit-base-patch16-224"


@cache
def photographs() -> tuple[Path, ...]:
    """Returns three photographs that come with gradio."""
    return tuple(Path(gr.get_image(name)) for name in ("lion.jpg", "cheetah.jpg", "tower.jpg"))


def thumbnails() -> tuple[Path, ...]:
    """Returns the six example pictures that the form offers: three drawn scenes, three photographs."""
    return (*scenes()[:3], *photographs())


def default_picture(checkpoint: str) -> Path:
    """Returns an example that suits a checkpoint: a drawn scene for a bundled one, else a photograph."""
    entry = catalog.find(checkpoint)
    return (scenes() if entry is not None and entry.bundled else photographs())[0]


def _checksum(picture: Path) -> str:
    return hashlib.sha256(picture.read_bytes()).hexdigest()


def find_picture(sha256: str, own: Path | None = None) -> Path | None:
    """Returns the picture with this SHA-256: an example, or `own`, the visitor's picture. None if there is none."""
    candidates = (own, *photographs()) if own is not None and own.is_file() else photographs()
    same = (picture for picture in candidates if _checksum(picture) == sha256)
    return next(same, None) or catalog.find_scene(sha256)


def servable(picture: Path) -> str:
    """Copies the picture into gradio's cache, outside of which gradio serves no file, and returns the copy's path."""
    return save_file_to_cache(picture, get_upload_folder())


def choices(task: str) -> list[tuple[str, str]]:
    """Returns the checkpoints of a task as (words, id), bundled first: ("shapes-vit · bundled", "shapes-vit")."""
    entries = sorted(catalog.for_task(task), key=lambda entry: not entry.bundled)
    return [(f"{entry.id} · {source(entry)}", entry.id) for entry in entries]


def first(task: str) -> str | None:
    """Returns the id of the first checkpoint of a task; None if the catalogue has no checkpoint of it."""
    return next((id for _, id in choices(task)), None)


def takes_text(checkpoint: str, task: str) -> bool:
    """Whether the model may be a zero-shot detector, which finds the objects that a text names."""
    entry = catalog.find(checkpoint or "")
    return entry.takes_text if entry else task in TASKS and BY_NAME[task].takes_queries


def _note(text: str = "", **settings: Any) -> gr.Markdown:
    return gr.Markdown(text, elem_classes="note", **settings)


def _option_field(option: Option) -> gr.components.Component:
    classes = ["not-for-text"] if option.name in unused_options(TEXT_GENERATION) else []
    texts: dict[str, Any] = {"label": option.label, "info": option.help, "elem_classes": classes}
    if option.kind == "switch":
        return gr.Checkbox(option.default, **texts)
    if option.kind == "choice":
        classes.append("segmented")
        return gr.Radio(list(option.values), value=option.default, **texts)
    empty = "automatic" if option.default is None else f"{option.default:g}"
    return gr.Textbox("", placeholder=empty, **texts)


def _text_fields() -> dict[str, gr.components.Component]:
    """Returns the fields "prompt" and "tokens". The style sheet shows them for text models, else the picture field."""
    prompt = gr.Textbox(catalog.PROMPT, label="Prompt", lines=3, elem_id="prompt")
    gr.Examples(list(PROMPTS), prompt, label="Examples", elem_id="prompts", api_visibility="private")
    allowed = OPTIONS["tokens"]
    tokens = gr.Number(
        allowed.default,
        label=allowed.label,
        precision=0,
        minimum=allowed.low,
        maximum=allowed.high,
        elem_id="tokens",
    )
    return {"prompt": prompt, "tokens": tokens}


def uploaded_file(file: Any) -> Path:
    """Returns the path in gradio's description of a file. Raises BadInput if the file is not in the upload folder."""
    path = file.get("path") if isinstance(file, dict) else getattr(file, "path", None)
    if not isinstance(path, str) or not is_in_or_equal(path, get_upload_folder()):
        raise BadInput(NOT_UPLOADED)
    return Path(path)


def spec_and_picture(values: dict[str, Any]) -> tuple[RunSpec, Path | None]:
    """Returns the spec that the form asks for and the path of its picture, which is None for text generation.

    `values`: the fields' values by name, as the browser sent them. Raises BadInput for a wrong value or no picture.
    """
    spec, image = read_spec(values), values["image"]
    if not spec.sees_picture:
        return spec, None
    if not image:
        raise BadInput("There is no picture. Choose one of the examples, or drop a file on the form.")
    return spec, uploaded_file(image)


def read_spec(values: dict[str, Any]) -> RunSpec:
    """Returns the spec of `values`: the fields' values by name, from the browser. Raises BadInput for a wrong value."""
    empty = {name for name in (*OPTIONAL, "tokens") if values[name] is None or not str(values[name]).strip()}
    # ignored: these fields are hidden, so their values were meant for another checkpoint
    hidden = {"image", *unused_options(values["task"])}
    if not takes_text(values["checkpoint"], values["task"]):
        hidden.add("text")
    return catalog.make_spec(**{name: value for name, value in values.items() if name not in empty | hidden})


def picture_for(checkpoint: str | None, image: dict[str, Any] | None) -> Any:
    """Returns the default picture of a checkpoint; no change (`gr.skip()`) if the visitor has chosen a picture."""
    # the paths can be compared, as gradio keeps files of equal content at the same path
    defaults = [servable(scenes()[0]), servable(photographs()[0])]
    is_choice = image is not None and image.get("path") not in defaults
    return gr.skip() if is_choice else servable(default_picture((checkpoint or "").strip()))


def picture_note(checkpoint: str | None, image: dict[str, Any] | None) -> tuple[Any, Any]:
    """Returns updates of a note and a button, visible only if a model that knows drawn shapes gets another picture."""
    entry = catalog.find((checkpoint or "").strip())
    if entry is None or not image or entry.task == TEXT_GENERATION:
        return gr.update(visible=False), gr.update(visible=False)
    beyond = catalog.is_beyond(entry.id, _checksum(uploaded_file(image)))
    words = for_photographs(entry.task)
    return gr.update(value=drawn_only_note(entry), visible=beyond), gr.update(value=words, visible=beyond)


class Form:
    """The components of the form. `inputs` holds the fields by name: 'checkpoint', 'image' and others."""

    def __init__(self) -> None:
        self.inputs: dict[str, Any] = {}
        with gr.Column(elem_id="fields"):
            self._model_fields()
            with gr.Column(elem_id="input"):
                self._picture_fields()
                with gr.Column(elem_classes="field", elem_id="input-text"):
                    self.inputs |= _text_fields()
                    if limits.on_space():
                        _note(PROMPT_PUBLIC)
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
        # no preprocessing: gradio would decode the picture. The last change counts: a field may change meanwhile
        latest: dict[str, Any] = {"preprocess": False, "trigger_mode": "always_last", **EVENT_OPTIONS}
        follow: Any = (picture_for, [checkpoint, image], image)
        looked_at: Any = (picture_note, [checkpoint, image], self.picture_notes)
        task.input(lambda task: gr.update(choices=choices(task), value=first(task)), task, checkpoint, **latest).then(
            *follow, preprocess=False, **EVENT_OPTIONS
        )
        checkpoint.input(*follow, **latest)
        gr.on([image.input, self.examples.dataset.click], *looked_at, **latest)
        self.for_photographs.click(lambda task: BY_NAME[task].published, task, checkpoint, **EVENT_OPTIONS).then(
            *looked_at, preprocess=False, **EVENT_OPTIONS
        )
        self.inputs["mode"].change(mode_note, self.inputs["mode"], self.mode_note, **EVENT_OPTIONS)

    def by_name(self, values: tuple[Any, ...]) -> dict[str, Any]:
        """Maps the name of each field to its value. `values` holds the values in the order of `inputs`."""
        return dict(zip(self.inputs, values, strict=True))

    def with_picture(self, picture: Path | None) -> dict[Any, Any]:
        """Returns updates that hide the notes on the picture, and put `picture` into the form if the file exists."""
        notes = {part: gr.update(visible=False) for part in self.picture_notes}
        return notes | {self.inputs["image"]: servable(picture)} if picture and picture.is_file() else notes

    def with_picture_of(self, info: ImageInfo | None) -> dict[Any, Any]:
        """Returns updates that put a stored run's picture into the form; if it is no example, a note says its name."""
        picture = find_picture(info.sha256) if info is not None else None
        if info is None or picture:
            return self.with_picture(picture)
        note = f"The result shown used a different picture: {info.name}."
        sentence, button = self.picture_notes
        return {sentence: gr.update(value=escape_markdown(note), visible=True), button: gr.update(visible=False)}

    def pressable(self, running: bool) -> dict[Any, Any]:
        """Returns updates that enable Cancel alone during a run (`running`), else all buttons but Cancel."""
        return {button: gr.update(interactive=running is (button is self.cancel)) for button in self.buttons}

    def _model_fields(self) -> None:
        self.inputs["task"] = gr.Radio(
            [(name, task) for task, name in TASK_NAMES.items()],
            value=FIRST.task,
            label="Task",
            elem_id="task",
            elem_classes="segmented",
        )
        with gr.Column(elem_classes="field"):
            self.inputs["checkpoint"] = gr.Dropdown(
                choices(FIRST.task),
                value=FIRST.id,
                label="Checkpoint",
                info="Pick one, or type a Hub id: owner/name",
                allow_custom_value=True,
                elem_id="checkpoint",
            )
            self.checkpoint_note = _note(checkpoint_note(FIRST.id), elem_id="checkpoint-note")

    def _picture_fields(self) -> None:
        with gr.Column(elem_classes="field", elem_id="input-picture"):
            self.inputs["image"] = gr.Image(
                value=str(default_picture(FIRST.id)),
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
            pictures = list(map(str, thumbnails()))
            self.examples = gr.Examples(
                pictures, self.inputs["image"], label="Examples", elem_id="examples", api_visibility="private"
            )
            note = _note(visible=False, elem_id="picture-note")
            self.for_photographs = gr.Button(visible=False, size="sm", elem_id="for-photographs")
            self.picture_notes = [note, self.for_photographs]

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
            for group in FOLDS:
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
        advanced.expand(None, js=TO_ADVANCED, api_visibility="private")
