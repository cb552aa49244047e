"""The form: what can be asked, and how its values become a `RunSpec` and a picture."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.processing_utils import save_file_to_cache
from gradio.utils import get_upload_folder, is_in_or_equal

from demo.core import catalog, limits
from demo.core import result as schema
from demo.core.languages import ENGLISH
from demo.core.result import BadInput, Machine, RunSpec
from demo.ui.html import results
from demo.ui.web.visitor_language import label, written

TASKS = (
    (label("task_classification"), "image-classification"),
    (label("task_detection"), "object-detection"),
    (label("task_segmentation"), "image-segmentation"),
)
OPTIONAL = ("iterations", "threads", "precision", "most_seconds")
"""Fields that may be left empty: the spec's own default then holds."""
PHOTOGRAPHS = ("lion.jpg", "cheetah.jpg", "tower.jpg")
"""They ship inside gradio."""


@dataclass(frozen=True)
class Choice:
    """What is chosen when nobody chose."""

    task: str
    checkpoint: str
    image: Path


@cache
def scenes() -> tuple[Path, ...]:
    """The drawn scenes, in the order of their names."""
    return tuple(sorted((catalog.ASSETS / "examples").glob("*.png")))


@cache
def photographs() -> tuple[Path, ...]:
    return tuple(Path(gr.get_image(name)) for name in PHOTOGRAPHS)


def examples() -> tuple[Path, ...]:
    """The pictures offered as thumbnails."""
    return (*scenes()[:5], *photographs())


@cache
def _example_of() -> dict[str, Path]:
    return {hashlib.sha256(path.read_bytes()).hexdigest(): path for path in examples()}


def find_picture(sha256: str, own: Path | None = None) -> Path | None:
    """The file that a run looked at: one of the examples, or `own` where that is it; None for any other."""
    if found := _example_of().get(sha256):
        return found
    try:
        return own if own is not None and hashlib.sha256(own.read_bytes()).hexdigest() == sha256 else None
    except OSError:
        return None  # gradio removes uploads after a day


def servable(picture: Path) -> str:
    """A copy that gradio serves to a page: of other files it serves those below the current folder only."""
    return save_file_to_cache(picture, get_upload_folder())


def default_choice(machine: Machine | None, hub_ok: bool) -> Choice:
    """ViT on a photograph where there is a GPU and its weights can be had, else the bundled one on a drawn scene.

    `hub_ok` is true where the Hub answers or the weights lie in the cache. The first press of Run must succeed.
    """
    if machine is not None and machine.gpu is not None and hub_ok:
        return Choice("image-classification", "google/vit-base-patch16-224", photographs()[0])
    return Choice("image-classification", "shapes-vit", (scenes() or photographs())[0])


def checkpoints(task: str) -> list[str]:
    """Ids for the list, the bundled ones first: they need nothing."""
    return [entry.id for entry in sorted(catalog.for_task(task), key=lambda entry: not entry.bundled)]


def takes_text(checkpoint: str, task: str) -> bool:
    """Only zero-shot detectors do; of a detector that is not in the catalogue nobody knows."""
    entry = catalog.find(checkpoint or "")
    return entry.takes_text if entry else task == "object-detection"


def choices(values: Iterable[str]) -> list[tuple[str, str]]:
    """For a radio: each value under its name in the visitor's language, where it has one."""
    keys = {value: f"choice_{value.replace(' ', '_')}" for value in values}
    return [(label(key) if key in ENGLISH.texts else value, value) for value, key in keys.items()]


def uploaded(file: Any) -> Path:
    """The path in gradio's description of an uploaded file. Raises BadInput for any other path on this machine."""
    path = file.get("path") if isinstance(file, dict) else getattr(file, "path", None)
    if not isinstance(path, str) or not is_in_or_equal(path, get_upload_folder()):
        raise BadInput("The image must be an uploaded file: with gradio_client, wrap its path in handle_file().")
    return Path(path)


def read(values: dict[str, Any]) -> tuple[RunSpec, Path]:
    """The form's values, as the browser sent them, as a spec and the path of a picture. Raises BadInput."""
    asked = dict(values)
    image = asked.pop("image")
    spec = read_spec(asked)
    if not image:
        raise BadInput("There is no picture. Choose one of the examples, or drop a file on the form.")
    return spec, uploaded(image)


def read_spec(values: dict[str, Any]) -> RunSpec:
    """The form's values without the picture. Raises BadInput."""
    asked = dict(values)
    if not takes_text(asked["checkpoint"], asked["task"]):
        asked["text"] = ""  # the field is hidden: what stands in it was meant for another checkpoint
    for name in OPTIONAL:
        if not str(asked[name] or "").strip():
            del asked[name]
    return catalog.make_spec(**asked)


@dataclass
class Form:
    """The form's components. `inputs` maps the names that `read` knows to them, in the order of the handlers."""

    inputs: dict[str, Any]
    checkpoint_note: gr.HTML
    picture_note: gr.HTML
    mode_note: gr.HTML
    forecast: gr.HTML
    run: gr.Button
    cancel: gr.Button

    @classmethod
    def build(cls, choice: Choice, can_run: bool = True) -> Form:
        inputs: dict[str, Any] = {}
        with gr.Column(elem_id="fields"):
            inputs["task"] = gr.Radio(TASKS, value=choice.task, label=label("task"), elem_classes="segmented")
            with gr.Column(elem_classes="field"):
                inputs["checkpoint"] = gr.Dropdown(
                    checkpoints(choice.task),
                    value=choice.checkpoint,
                    label=label("checkpoint"),
                    info=label("checkpoint_info"),
                    allow_custom_value=True,
                    elem_id="checkpoint",
                )
                checkpoint_note = gr.HTML(
                    written(
                        lambda say: results.checkpoint_note(catalog.find(choice.checkpoint), choice.checkpoint, say)
                    ),
                    apply_default_css=False,
                )
            with gr.Column(elem_classes="field"):
                inputs["image"] = gr.Image(
                    value=str(choice.image),
                    label=label("picture"),
                    sources=["upload", "clipboard"],
                    buttons=[],
                    height="11rem",
                    elem_id="picture",
                    placeholder=label("picture_placeholder"),
                    alt_text=label("picture_alt"),
                )
                if limits.on_space():
                    gr.HTML(written(results.picture_note), apply_default_css=False, elem_id="picture-public")
                gr.Examples(
                    [[str(path)] for path in examples()],
                    [inputs["image"]],
                    label=label("examples"),
                    elem_id="examples",
                    api_visibility="private",
                )
                picture_note = gr.HTML("", visible=False, elem_id="picture-note", apply_default_css=False)
            inputs["text"] = gr.Textbox(
                "a lion, a tree",
                label=label("text"),
                info=label("text_info"),
                lines=2,
                max_lines=4,
                visible=False,
            )
            inputs["batch_size"] = gr.Slider(
                1, limits.current().batch, value=1, step=1, label=label("batch_size"), buttons=[], elem_id="batch"
            )
            with gr.Column(elem_classes="field"):
                inputs["mode"] = gr.Dropdown(list(schema.MODES), value="default", label=label("mode"))
                mode_note = gr.HTML(written(lambda say: results.mode_note("default", say)), apply_default_css=False)
            inputs["dtype"] = gr.Radio(
                list(schema.DTYPES), value="float32", label=label("dtype"), elem_classes="segmented"
            )
            with gr.Accordion(label("advanced"), open=False, elem_id="advanced"):
                inputs["weights"] = gr.Radio(
                    choices(schema.WEIGHTS),
                    value="pretrained",
                    label=label("weights"),
                    info=label("weights_info"),
                    elem_classes="segmented",
                )
                inputs["device"] = gr.Radio(
                    choices(schema.DEVICES), value="auto", label=label("device"), info=label("device_info"),
                    elem_classes="segmented",
                )  # fmt: skip
                inputs["fullgraph"] = gr.Checkbox(False, label=label("fullgraph"), info=label("fullgraph_info"))
                inputs["channels_last"] = gr.Checkbox(
                    False, label=label("channels_last"), info=label("channels_last_info")
                )
                inputs["attention"] = gr.Radio(
                    choices(schema.ATTENTIONS), value="auto", label=label("attention"), elem_classes="segmented",
                    info=label("attention_info"),
                )  # fmt: skip
                inputs["threads"] = gr.Textbox(
                    "", label=label("threads"), placeholder=label("threads_placeholder"), info=label("threads_info")
                )
                inputs["cache"] = gr.Radio(
                    choices(schema.CACHES), value="keep", label=label("cache"), elem_classes="segmented",
                    info=label("cache_info"),
                )  # fmt: skip
                inputs["graph_break"] = gr.Checkbox(False, label=label("graph_break"), info=label("graph_break_info"))
                inputs["protocol"] = gr.Radio(
                    choices(schema.PROTOCOLS), value="interleaved", label=label("protocol"), elem_classes="segmented",
                    info=label("protocol_info"),
                )  # fmt: skip
                inputs["precision"] = gr.Textbox(
                    "", label=label("precision"), placeholder="0.01", info=label("precision_info")
                )
                inputs["most_seconds"] = gr.Textbox(
                    "", label=label("most_seconds"), placeholder="3.5", info=label("most_seconds_info")
                )
                inputs["profile"] = gr.Radio(
                    choices(schema.PROFILES), value="auto", label=label("profile"), elem_classes="segmented",
                    info=label("profile_info"),
                )  # fmt: skip
                inputs["iterations"] = gr.Textbox(
                    "",
                    label=label("iterations"),
                    placeholder=label("iterations_placeholder"),
                    info=label("iterations_info"),
                )
        forecast = gr.HTML(elem_id="forecast", apply_default_css=False)
        with gr.Row(elem_id="actions"):
            run = gr.Button(label("run"), variant="primary", size="lg", interactive=can_run, elem_id="run")
            cancel = gr.Button(label("cancel"), size="lg", interactive=False, elem_id="cancel")
        return cls(inputs, checkpoint_note, picture_note, mode_note, forecast, run, cancel)
