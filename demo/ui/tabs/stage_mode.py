"""Stage mode: the page for the last row. Headline and race alone; keys run, cancel and choose presets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gradio as gr

from demo.core import hub
from demo.core.languages import ENGLISH, Language
from demo.ui.presets import SEGFORMER, presets
from demo.ui.runs import AnyRunner
from demo.ui.tabs.form import Form, checkpoints, photographs, scenes, servable
from demo.ui.web.visitor_language import label, of, written

KEYS = {"r": "run", "c": "cancel", "1": "preset-1", "2": "preset-2", "3": "preset-3"}
"""The button that a key presses, by its id. D, which presses none, changes between light and dark."""
HEAD = "<script>{}</script>".format(
    (Path(__file__).parents[1] / "look" / "stage.js")
    .read_text(encoding="utf-8")
    .replace("KEYS_TO_BUTTONS", json.dumps(KEYS))
)


def switch(say: Language) -> str:
    """Two buttons of which the style sheet shows one: the masthead may be drawn anew and forgets nothing."""
    return (
        f'<p class="stage-switch"><button type="button" data-stage="on">{say.html("stage_on")}</button>'
        f'<button type="button" data-stage="off">{say.html("stage_off")}</button></p>'
    )


class StageBar:
    """What stands below the stage: what was chosen, the presets, the keys. Make it inside the `gr.Blocks`."""

    def __init__(self, runner: AnyRunner, form: Form) -> None:
        self._runner = runner
        self._form = form
        self._first = {name: field.value for name, field in form.inputs.items()}
        with gr.Row(elem_id="stage-bar"):
            self._words = gr.HTML(elem_id="stage-words", apply_default_css=False)
            for number in (1, 2, 3):
                gr.Button(f"{number}  {label(f'preset_{number}')}", elem_id=f"preset-{number}").click(
                    self._choose,
                    gr.State(number),
                    [self._words, *form.inputs.values()],
                    show_progress="hidden",
                    api_visibility="private",
                    queue=False,
                )
            gr.HTML(
                written(_keys),
                apply_default_css=False,
            )

    def _choose(self, number: int, request: gr.Request | None = None) -> list[Any]:
        """The form's values for a preset; everything that it does not name goes back to what it was at first."""
        machine = self._runner.machine
        gpu = machine is not None and machine.gpu is not None
        preset = presets(gpu, loadable=gpu and hub.can_load(SEGFORMER))[number - 1]
        picture = photographs()[-1] if gpu else scenes()[0]
        values = self._first | preset.values | {"image": servable(picture)}
        updates = {name: gr.update(value=value) for name, value in values.items()}
        updates["checkpoint"] = gr.update(choices=checkpoints(values["task"]), value=values["checkpoint"])
        return [_words(number, of(request)), *(updates[name] for name in self._form.inputs)]


def _words(number: int, say: Language = ENGLISH) -> str:
    title, words = say.html(f"preset_{number}"), say.html(f"preset_{number}_words")
    return f'<p class="chosen" role="status"><b>{title}</b><span>{words}</span></p>'


def _keys(say: Language) -> str:
    keys = {name: f"<kbd>{key}</kbd>" for name, key in (("run", "R"), ("cancel", "C"), ("dark", "D"))}
    return f'<p class="keys">{say.texts["stage_keys"].format(**keys)}</p>'
