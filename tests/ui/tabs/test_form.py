"""Tests of the form: first values, the picture that follows the model, notes, and how values become a spec."""

import dataclasses
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from support.fake_runner import MACHINE
from support.page_support import answering, field_values, forecast, in_the_form, press
from support.samples import ENVIRONMENT, ok_result

from demo.core import catalog
from demo.core.options import RunSpec
from demo.store.history import History
from demo.ui.page import Page
from demo.ui.tabs import form


def test_the_first_values_are_a_valid_spec(page: Page) -> None:
    spec, image = form.spec_and_picture({name: field.value for name, field in page.run_tab.form.inputs.items()})
    assert (spec.checkpoint, spec.batch_size, spec.mode, spec.dtype) == ("shapes-vit", 1, "default", "float32")
    assert image.is_file()


SCENE, LION = form.scenes()[0], form.photographs()[0]
DETR = "facebook/detr-resnet-50"


@pytest.mark.parametrize(
    ("checkpoint", "held", "picture"),
    [
        (DETR, SCENE, LION),
        ("somebody/model", None, LION),
        ("shapes-rtdetr", LION, SCENE),
        (DETR, form.scenes()[1], None),
        ("shapes-vit", form.photographs()[1], None),
    ],
    ids=["photograph", "unknown model", "scene", "chosen scene", "chosen photograph"],
)
def test_the_picture_follows_the_model_until_one_is_chosen(
    checkpoint: str, held: Path | None, picture: Path | None, tmp_path
) -> None:
    own = tmp_path / LION.name  # an upload with the name of an example
    own.write_bytes(LION.read_bytes() + b"mine")
    assert form.picture_for(checkpoint, in_the_form(own)) == gr.skip()
    update = form.picture_for(checkpoint, in_the_form(held) if held is not None else None)
    assert update == (gr.skip() if picture is None else form.servable(picture))


OWL = "google/owlvit-base-patch32"


@pytest.mark.parametrize(
    ("values", "spec"),
    [
        ({"checkpoint": DETR, "task": "object-detection"}, RunSpec(DETR, "object-detection", channels_last=True)),
        (
            {"checkpoint": OWL, "task": "object-detection"},
            RunSpec(OWL, "object-detection", text=("a cat", "a dog"), channels_last=True),
        ),
        (
            {"checkpoint": "shapes-gemma", "task": "text-generation"},
            RunSpec("shapes-gemma", "text-generation", prompt="A ring", tokens=8),
        ),
        ({}, RunSpec("shapes-vit", "image-classification", channels_last=True)),
    ],
    ids=["no queries", "queries", "text", "picture"],
)
def test_values_of_hidden_fields_are_left_out(values: dict[str, Any], spec: RunSpec, page: Page) -> None:
    fields = field_values(page, text="a cat, a dog", prompt="A ring", tokens=8, channels_last=True)
    filled_spec, image = form.spec_and_picture(fields | values)
    assert filled_spec == spec and (image is None) is (spec.task == "text-generation")


def test_a_stored_run_of_this_machine_narrows_the_forecast(history: History) -> None:
    page = Page(answering(ok_result()), history=history)
    assert "rough estimate from 827 k parameters</small>" in forecast(page)
    history.append(ok_result(environment=dataclasses.replace(ENVIRONMENT, device_name=MACHINE.cpu)))
    assert "based on earlier runs with these settings: 1" in forecast(page)
    assert "based on earlier runs of this model, which compiles anew: 1" in forecast(page, batch_size=8)
    assert "rough estimate" in forecast(page, batch_size=8, mode="lite")
    assert 'data-query="checkpoint=shapes-vit&amp;batch_size=8"' in forecast(page, batch_size=8)


def test_a_broken_history_leaves_the_rough_forecast(tmp_path) -> None:
    broken = tmp_path / "broken.sqlite3"
    broken.write_bytes(b"not a database, and long enough to be looked at as one" * 100)
    assert "rough estimate" in forecast(Page(answering(ok_result()), history=History(broken)))


@pytest.mark.parametrize(
    ("checkpoint", "visible"),
    [("shapes-vit", True), ("google/vit-base-patch16-224", False), ("shapes-gemma", False)],
    ids=["of drawn shapes", "for photographs", "of text"],
)
def test_a_photograph_for_a_model_of_drawn_shapes_has_a_note(checkpoint: str, visible: bool) -> None:
    note, button = form.picture_note(checkpoint, {"path": form.servable(LION)})
    assert note["visible"] is button["visible"] is visible
    assert not visible or "may mean nothing" in note["value"], "a picture of one's own may show a drawn shape"


@pytest.mark.parametrize("checkpoint", ["shapes-vit", "someone/model"])
def test_a_picture_that_cannot_be_read_is_told_before_run(checkpoint: str, tmp_path) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    note, button = form.picture_note(checkpoint, {"path": form.servable(broken)})
    assert "cannot be read as a picture" in note["value"] and note["visible"] and not button["visible"]


def test_a_press_chooses_a_model_for_photographs(page: Page) -> None:
    chosen = press(page, page.run_tab.form.for_photographs, "image-segmentation")
    assert not catalog.find(chosen).bundled and catalog.find(chosen).task == "image-segmentation"


@pytest.mark.parametrize(("cached", "where"), [(True, "In the cache"), (False, "Download about 346 MB")])
def test_a_model_has_a_place(monkeypatch, cached: bool, where: str) -> None:
    monkeypatch.setattr(form.hub, "holds_weights", lambda checkpoint: cached)
    assert form.checkpoint_note(form.VIT).replace("\N{NO-BREAK SPACE}", " ").startswith(where)
    (listed,) = (words for words, id in form.choices("image-classification") if id == form.VIT)
    assert where.lower() in listed.lower()
    assert "drawn shapes only: circle, cross, heart, ring, square, star, triangle." in form.checkpoint_note(
        "shapes-rtdetr"
    )


def test_a_picture_that_soon_follows_another_is_not_dropped(page: Page) -> None:
    picture = (page.run_tab.form.inputs["image"]._id, "input")
    modes = {event.trigger_mode for event in page.fns.values() if picture in event.targets}
    assert modes == {"always_last"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mode": "reduce-overhead"}, "reduce-overhead uses CUDA graphs"),
        ({"dtype": "float16"}, "Most CPUs convert float16"),
        ({"device": "cuda", "threads": 4}, "The number of threads"),
        ({"device": "cuda", "mode": "reduce-overhead", "dtype": "float16"}, ""),
    ],
)
def test_a_pointless_choice_gets_a_sentence(changes: dict[str, Any], words: str) -> None:
    sentences = " ".join(form.doubts(dataclasses.replace(catalog.make_spec("shapes-vit", device="cpu"), **changes)))
    assert sentences.startswith(words) and bool(sentences) == bool(words)
