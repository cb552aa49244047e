"""Stage mode: the page for the last row. Headline and race alone; keys run, cancel and choose presets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gradio as gr

from demo import hub
from demo.ui.form import Form, checkpoints, photographs, scenes
from demo.ui.parts import esc
from demo.ui.presets import SEGFORMER, Preset, presets
from demo.ui.runs import AnyRunner

KEYS = {"r": "run", "c": "cancel", "1": "preset-1", "2": "preset-2", "3": "preset-3"}
"""The button that a key presses, by its id. D, which presses none, changes between light and dark."""
HEAD = "<script>{}</script>".format(
    Path(__file__).with_name("stage.js").read_text(encoding="utf-8").replace("KEYS_TO_BUTTONS", json.dumps(KEYS))
)
SWITCH = (
    '<p class="stage-switch"><button type="button" data-stage="on">Stage mode</button>'
    '<button type="button" data-stage="off">Leave the stage</button></p>'
)
"""Two buttons of which the style sheet shows one: the masthead may be drawn anew at any time and forgets nothing."""


class StageBar:
    """What stands below the stage: what was chosen, the presets, the keys. Make it inside the `gr.Blocks`."""

    def __init__(self, runner: AnyRunner, form: Form) -> None:
        self._runner = runner
        self._form = form
        self._first = {name: field.value for name, field in form.inputs.items()}
        with gr.Row(elem_id="stage-bar"):
            self._words = gr.HTML(_words(None), elem_id="stage-words", apply_default_css=False)
            for number, preset in enumerate(presets(gpu=False), start=1):
                gr.Button(f"{number}  {preset.title}", elem_id=f"preset-{number}").click(
                    self._choose,
                    gr.State(number),
                    [self._words, *form.inputs.values()],
                    show_progress="hidden",
                    api_visibility="private",
                    queue=False,
                )
            gr.HTML(
                '<p class="keys"><kbd>R</kbd> run <kbd>C</kbd> cancel <kbd>D</kbd> light or dark</p>',
                apply_default_css=False,
            )

    def _choose(self, number: int) -> list[Any]:
        """The form's values for a preset; everything that it does not name goes back to what it was at first."""
        machine = self._runner.machine
        gpu = machine is not None and machine.gpu is not None
        preset = presets(gpu, loadable=gpu and hub.can_load(SEGFORMER))[number - 1]
        # A picture goes to the browser as a file, not as what the component made of its own.
        picture = photographs()[-1] if gpu else scenes()[0]
        values = self._first | preset.values | {"image": str(picture)}
        updates = {name: gr.update(value=value) for name, value in values.items()}
        updates["checkpoint"] = gr.update(choices=checkpoints(values["task"]), value=values["checkpoint"])
        return [_words(preset), *(updates[name] for name in self._form.inputs)]


def _words(preset: Preset | None) -> str:
    if preset is None:
        return ""
    return f'<p class="chosen" role="status"><b>{esc(preset.title)}</b><span>{esc(preset.words)}</span></p>'
