"""What the result pane shows of the predictions of eager and compiled: the values of its components."""

import dataclasses
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from PIL import Image
from support.page_support import HOSTILE, stored
from support.samples import info_of, ok_result, text_result

from demo.core.base64_images import encode_preview
from demo.core.options import RunSpec
from demo.core.outputs import ImageInfo, Label, Predictions, Segment
from demo.core.result import RunResult
from demo.present.pictures import VARIANTS
from demo.tasks.masks import difference
from demo.ui.tabs import form
from demo.ui.tabs.result_pane import NO_DIFFERENCE, NO_PICTURE, RANDOM_WEIGHTS, Outputs

LINK = "[a](https://example.org) <b>"


@pytest.fixture
def outputs() -> Outputs:
    with gr.Blocks():
        return Outputs()


def visible(outputs: Outputs, result: RunResult) -> dict[Any, dict[str, Any]]:
    """The updates of the components that show a prediction."""
    updates = outputs.show(result)
    assert set(updates) == {outputs.column, *outputs.components}
    return {component: updates[component] for component in outputs.components[1:] if updates[component]["visible"]}


IMAGE = ImageInfo("scene.png", 320, 240, "00" * 32, encode_preview(Image.new("RGB", (320, 240))))


@pytest.mark.parametrize("mask", ["", "no base64", "iVBORw0KGgo=", "/9j/"], ids=["none", "text", "cut short", "a JPEG"])
def test_a_damaged_mask_costs_the_pictures_alone(mask: str, outputs: Outputs) -> None:
    seen = Predictions(segments=(Segment("circle", None, 0.25, mask),))
    result = ok_result(image=IMAGE, predictions={"eager": seen, "compiled": seen})
    assert visible(outputs, result) == {} and NO_PICTURE in outputs.show(result)[outputs.words]
    assert "cannot be read" in difference(seen, seen)


@pytest.mark.parametrize("name", ["segmentation", "detection"])
def test_boxes_or_masks_stand_side_by_side(name: str, outputs: Outputs) -> None:
    shown = visible(outputs, stored(name))
    assert list(shown) == [*outputs.marked.values(), outputs.slider]
    one, other = (shown[component] for component in outputs.marked.values())
    assert [caption for _, caption in one["value"][1]] == [caption for _, caption in other["value"][1]]
    assert one["color_map"] == other["color_map"] != {}
    left, right = shown[outputs.slider]["value"]
    assert left.size == right.size and left.tobytes() != one["value"][0].tobytes()
    for component in outputs.marked.values():  # gradio takes them as they are
        component.color_map = shown[component]["color_map"]
        assert len(component.postprocess(shown[component]["value"]).annotations) == len(one["value"][1])
    assert NO_DIFFERENCE in outputs.show(stored(name))[outputs.words]


def test_what_one_variant_alone_sees_is_the_difference(outputs: Outputs) -> None:
    result = stored("detection")
    other = dataclasses.replace(result, predictions=result.predictions | {"compiled": Predictions(boxes=())})
    shown = visible(outputs, other)
    captions = [caption for _, caption in shown[outputs.difference]["value"][1]]
    assert captions and all(caption.startswith("only eager: ") for caption in captions)
    assert shown[outputs.marked["compiled"]]["label"] == "Compiled: nothing found"


def test_labels_stand_beside_the_picture(outputs: Outputs) -> None:
    shown = visible(outputs, ok_result(image=IMAGE))
    assert shown[outputs.picture]["label"] == "scene.png"
    for component in outputs.labels.values():
        assert shown[component]["value"] == {"circle": 0.98, "ring": 0.015, "star": 0.005}


def test_tokens_that_differ_are_marked_in_both_texts(outputs: Outputs) -> None:
    ours = text_result().predictions["eager"]
    theirs = Predictions(text=" a <b>", pieces=(" a", " <b>", "", "."), token_ids=(5, 9, 3, 8))
    result = text_result(predictions={"eager": ours, "compiled": theirs})
    shown = visible(outputs, result)
    assert shown[outputs.prompt]["value"] == "The picture shows"
    marks = [[mark for _, mark in shown[component]["value"]] for component in outputs.texts.values()]
    assert marks == [[None, "differs", "differs", None]] * 2
    assert "".join(piece for piece, _ in shown[outputs.texts["compiled"]]["value"]) == " a <b>."
    assert "from token 2 on" in outputs.show(result)[outputs.words]


def test_random_weights_show_nothing_and_say_why(outputs: Outputs) -> None:
    result = ok_result(spec=RunSpec("facebook/detr-resnet-50", "object-detection", weights="random"), predictions=None)
    assert visible(outputs, result) == {} and RANDOM_WEIGHTS in outputs.show(result)[outputs.words]
    assert outputs.show(result)[outputs.column]["visible"]
    assert not outputs.show(ok_result(predictions=None))[outputs.column]["visible"]


@pytest.mark.parametrize(
    "picture, beyond", [(form.scenes()[0], False), (form.photographs()[0], True)], ids=["own", "other"]
)
def test_a_model_of_drawn_shapes_says_so_at_any_other_picture(picture: Path, beyond: bool, outputs: Outputs) -> None:
    words = outputs.show(ok_result(image=info_of(picture)))[outputs.words]
    assert ("knows drawn shapes only" in words) is beyond


@pytest.mark.parametrize("hostile", [HOSTILE, LINK], ids=["HTML", "a link"])
def test_texts_of_models_never_stand_in_markdown(hostile: str, outputs: Outputs) -> None:
    seen = dict.fromkeys(VARIANTS, Predictions(labels=(Label(hostile, 0.9),)))
    written = dict.fromkeys(VARIANTS, Predictions(text=hostile, pieces=(hostile,), token_ids=(1,)))
    spec = dataclasses.replace(text_result().spec, prompt=hostile)
    for result in (ok_result(predictions=seen), text_result(spec=spec, predictions=written)):
        assert hostile not in outputs.show(result)[outputs.words]
