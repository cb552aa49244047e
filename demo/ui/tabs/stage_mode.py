"""Stage mode: the page for a talk. The race and the answer fill the screen; keys run, search, cancel, choose presets.

The form's Run and Cancel are moved into the bar by stage.css.
"""

from typing import Any

import gradio as gr

from demo.core import catalog, hub
from demo.core.languages import Language
from demo.core.spec import TEXT_GENERATION, BadInput
from demo.runs.runner import Runner
from demo.ui.look.scripts import MARK_PRESET, PRESS_BEST
from demo.ui.tabs import links
from demo.ui.tabs.events import LATEST, QUIET
from demo.ui.tabs.form import Form, default_picture, read_spec, servable
from demo.ui.web.visitor_language import label, request_language, written

SEGFORMER = "nvidia/segformer-b0-finetuned-ade-512-512"
Preset = dict[str, Any]
"""Arguments of `catalog.make_spec`."""


def presets(gpu: bool, loadable: bool = True) -> tuple[Preset, ...]:
    """The runs of the keys 1 to 4, for a machine with or without a GPU. `loadable`: SegFormer's weights are at hand.

    `python -m benchmarks.stage_presets` checks that none takes more than a minute on two CPU cores.
    """
    bundled = {"task": "image-segmentation", "checkpoint": "shapes-segformer"}
    full_size = bundled | {"checkpoint": SEGFORMER, "weights": "pretrained" if loadable else "random"}
    classifier = {"task": "image-classification", "checkpoint": "shapes-vit"}
    text = {"task": TEXT_GENERATION, "checkpoint": "shapes-gemma", "prompt": catalog.PROMPT}
    return (
        full_size if gpu else bundled,
        classifier | {"graph_break": True},
        classifier | {"mode": "max-autotune"},
        text,
    )


NUMBERS = range(1, len(presets(gpu=False)) + 1)


class StageBar:
    """The bar at the bottom: the chosen preset, if the form holds one, the presets and the keys."""

    def __init__(self, runner: Runner, form: Form) -> None:
        self._runner = runner
        self._form = form
        with gr.Row(elem_id="stage-bar"):
            self._words = gr.HTML(elem_id="stage-words", apply_default_css=False)
            for number in NUMBERS:
                gr.Button(f"{number}  {label(f'preset_{number}')}", elem_id=f"preset-{number}").click(
                    self._choose,
                    gr.State(number),
                    list(form.inputs.values()),
                    queue=False,
                    **QUIET,
                )
            search = gr.Button(f"{NUMBERS.stop}  {label('best')}", elem_id=f"preset-{NUMBERS.stop}")
            search.click(None, js=PRESS_BEST, api_visibility="private")
            gr.HTML(written(_keys), apply_default_css=False)
        fields = [field for name, field in form.inputs.items() if name != "image"]
        gr.on(  # when the page opens, and at each change of a field
            None,
            self._chosen,
            fields,
            self._words,
            preprocess=False,
            queue=False,
            **QUIET,
            **LATEST,
        ).then(None, self._words, js=MARK_PRESET, api_visibility="private")

    def _chosen(self, request: gr.Request, *values: Any) -> str:
        """The words of the preset that the form asks for; '' if it asks for something else."""
        names = (name for name in self._form.inputs if name != "image")
        try:
            asked = read_spec(dict(zip(names, values, strict=True)))
        except BadInput:
            return ""
        for gpu, loadable in ((False, False), (True, False), (True, True)):
            for number, preset in enumerate(presets(gpu, loadable), 1):
                if asked == catalog.make_spec(**preset):
                    return _words(number, request_language(request))
        return ""

    def _choose(self, number: int) -> dict[Any, Any]:
        """Makes the form ask for a preset, with its model's default picture."""
        machine = self._runner.machine
        gpu = machine is not None and machine.gpu is not None
        spec = catalog.make_spec(**presets(gpu, loadable=gpu and hub.can_load(SEGFORMER))[number - 1])
        return links.filled(self._form, spec) | {self._form.inputs["image"]: servable(default_picture(spec.checkpoint))}


def _words(number: int, lang: Language) -> str:
    title, words = lang.html(f"preset_{number}"), lang.html(f"preset_{number}_words")
    return f'<p class="chosen" role="status" data-preset="{number}"><b>{title}</b><span>{words}</span></p>'


def _keys(lang: Language) -> str:
    keys = {name: f"<kbd>{key}</kbd>" for name, key in (("run", "R"), ("cancel", "C"), ("dark", "D"))}
    return f'<p class="keys">{lang.texts["stage_keys"].format(**keys)}</p>'
