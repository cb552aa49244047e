"""What eager and compiled predict, side by side in the result pane: labels, boxes, masks or texts."""

from collections.abc import Mapping
from typing import Any

import gradio as gr
from PIL import Image

from demo.core import format as fmt
from demo.core.base64_images import decode_preview
from demo.core.outputs import ImageInfo, Predictions
from demo.core.result import RunResult
from demo.present import markdown, pictures
from demo.present.pictures import VARIANTS, Variant

RANDOM_WEIGHTS = "The weights are random, so predictions are meaningless and not drawn. The latency is valid."
NO_PICTURE = "The picture of this result cannot be drawn again."
NO_DIFFERENCE = "There is no difference to draw."


class Outputs:
    """A column of the result pane. Make it inside the layout that holds it."""

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

    def show(self, result: RunResult) -> dict[Any, Any]:
        """Updates that show the predictions of a result, or hide the column if there are none."""
        seen, info, values, words = result.predictions, result.image, {}, []
        if seen is None or not all(variant in seen for variant in VARIANTS):
            random = result.status == "ok" and result.spec.weights == "random"
            words = [RANDOM_WEIGHTS] if random else []
        else:
            words, preview = markdown.of_predictions(result), _preview(info)
            if seen["eager"].text is not None:
                values = self._texts(result, seen)
            elif seen["eager"].labels is not None:
                values = self._labels(info, preview, seen)
            elif info is not None:
                try:
                    values, said = self._marks(info, preview, seen)
                except (ValueError, ArithmeticError):  # a stored result was damaged: the rest of it is still shown
                    said = NO_PICTURE
                words.append(said)
        heading = "### What the model writes" if result.spec.unit == "token" else "### What the model sees"
        text = "\n\n".join([heading, *map(markdown.escaped, filter(None, words))]).replace(" %", "\N{NO-BREAK SPACE}%")
        hidden = {component: gr.update(value=None, visible=False) for component in self._shown}
        column = {self.column: gr.update(visible=bool(values or any(words))), self.words: text}
        return column | hidden | {component: gr.update(visible=True, **values[component]) for component in values}

    def _texts(self, result: RunResult, seen: Mapping[str, Predictions]) -> dict[Any, dict[str, Any]]:
        values: dict[Any, dict[str, Any]] = {self.prompt: {"value": result.spec.prompt}}
        for variant, other in zip(VARIANTS, reversed(VARIANTS), strict=True):
            ours, theirs = seen[variant], seen[other].token_ids or ()
            tokens = zip(ours.pieces or (ours.text or "",), ours.token_ids or (None,), strict=False)
            values[self.texts[variant]] = {
                "value": [
                    (piece, "differs" if ours.token_ids and theirs[place : place + 1] != (token,) else None)
                    for place, (piece, token) in enumerate(tokens)
                ]
            }
        return values

    def _labels(
        self, info: ImageInfo | None, preview: Image.Image | None, seen: Mapping[str, Predictions]
    ) -> dict[Any, dict[str, Any]]:
        values: dict[Any, dict[str, Any]] = {
            component: {"value": {one.label: one.score for one in seen[variant].labels or ()}}
            for variant, component in self.labels.items()
        }
        if info is not None and preview is not None:
            values[self.picture] = {"value": (preview, []), "label": info.name}
        return values

    def _marks(
        self, info: ImageInfo, preview: Image.Image | None, seen: Mapping[str, Predictions]
    ) -> tuple[dict[Any, dict[str, Any]], str]:
        """Boxes or masks: side by side, one over the other, and where they differ; and what else is to be said."""
        if preview is None:
            return {}, NO_PICTURE
        values: dict[Any, dict[str, Any]] = {}
        drawn, noun = [], "segment" if seen["eager"].boxes is None else "object"
        for variant, component in self.marked.items():
            shown = pictures.annotate(preview, info, seen, variant)
            counted = fmt.count(len(shown.marks), noun) if shown.marks else "nothing found"
            values[component] = _marked(shown) | {"label": f"{variant.capitalize()}: {counted}"}
            drawn.append(pictures.draw(shown))
        values[self.slider] = {"value": tuple(drawn)}
        differing = pictures.difference(preview, info, seen["eager"], seen["compiled"])
        if differing is None:
            return values, NO_DIFFERENCE
        values[self.difference] = _marked(differing)
        return values, ""


def _of_each(component: Any, **settings: Any) -> dict[Variant, Any]:
    """A hidden component for each variant."""
    return {
        variant: component(
            label=variant.capitalize(), visible=False, elem_classes=[variant, component.__name__.lower()], **settings
        )
        for variant in VARIANTS
    }


def _marked(shown: pictures.Annotation) -> dict[str, Any]:
    return {"value": (shown.image, shown.marks), "color_map": shown.colours}


def _preview(info: ImageInfo | None) -> Image.Image | None:
    """The stored copy of the picture; None if there is none, or none that can be read."""
    try:
        return decode_preview(info.preview_jpeg) if info is not None else None
    except ValueError:
        return None
