"""The form: its first values, the picture that suits a model, and how its values become a spec."""

import dataclasses
from pathlib import Path

import gradio as gr
import pytest
from support.fake_runner import MACHINE
from support.page_support import answering, field_values, forecast, in_the_form, opened, press
from support.samples import ENVIRONMENT, ok_result

from demo.core import catalog
from demo.core.spec import RunSpec
from demo.store.history import History
from demo.ui.page import Page
from demo.ui.tabs import form, form_notes
from demo.ui.tabs.form_notes import checkpoint_note, doubts


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(answering(ok_result()))


def test_the_form_as_it_stands_is_a_valid_spec(page: Page) -> None:
    spec, image = form.spec_and_picture({name: field.value for name, field in page.run_tab.form.inputs.items()})
    assert (spec.checkpoint, spec.batch_size, spec.mode, spec.dtype) == ("shapes-vit", 1, "default", "float32")
    assert image.is_file()


def test_the_picture_follows_the_model_until_the_visitor_chose_one(tmp_path, page: Page) -> None:
    scene, lion, own = form.scenes()[0], form.photographs()[0], tmp_path / "lion.jpg"
    own.write_bytes(lion.read_bytes() + b"mine")
    detr = "facebook/detr-resnet-50"
    for checkpoint, held, picture in (
        (detr, scene, lion),
        ("somebody/model", None, lion),
        ("shapes-rtdetr", lion, scene),
        ("shapes-vit", None, scene),
        (detr, lion, lion),
        (detr, form.scenes()[1], None),
        ("shapes-vit", form.photographs()[1], None),
        ("shapes-vit", own, None),
    ):
        suits = form.picture_for(checkpoint, in_the_form(held) if held is not None else None)
        assert suits == (gr.skip() if picture is None else form.servable(picture))
    (linked,) = opened(page, checkpoint=detr)
    assert Path(linked[page.run_tab.form.inputs["image"]]["value"]).name == "lion.jpg"


def test_what_stands_in_hidden_fields_is_not_sent_to_a_model_that_takes_none(page: Page) -> None:
    values = field_values(page)
    spec, _ = form.spec_and_picture(
        values | {"text": "a cat", "checkpoint": "facebook/detr-resnet-50", "task": "object-detection"}
    )
    assert spec.text == ()
    owl = {"text": "a cat, a dog", "checkpoint": "google/owlvit-base-patch32", "task": "object-detection"}
    assert form.spec_and_picture(values | owl)[0].text == ("a cat", "a dog")
    values = field_values(page, prompt="A ring", tokens=8, channels_last=True)
    of_text = values | {"task": "text-generation", "checkpoint": "shapes-gemma"}
    assert form.spec_and_picture(of_text) == (
        RunSpec("shapes-gemma", "text-generation", prompt="A ring", tokens=8),
        None,
    )
    spec, image = form.spec_and_picture(values)
    assert spec == RunSpec("shapes-vit", "image-classification", channels_last=True) and image is not None


def test_a_stored_run_of_this_machine_narrows_the_forecast(history: History, tmp_path) -> None:
    page = Page(answering(ok_result()), history=history)
    assert "rough estimate from model size (827 k parameters), download not counted</small>" in forecast(page)
    history.append(ok_result(environment=dataclasses.replace(ENVIRONMENT, device_name=MACHINE.cpu)))
    assert "based on earlier runs with these settings: 1" in forecast(page)
    assert "rough estimate" in forecast(page, batch_size=8)
    assert 'data-query="checkpoint=shapes-vit&amp;batch_size=8"' in forecast(page, batch_size=8)
    broken = tmp_path / "broken.sqlite3"
    broken.write_bytes(b"not a database, and long enough to be looked at as one" * 100)
    assert "rough estimate" in forecast(Page(answering(ok_result()), history=History(broken)))


@pytest.mark.parametrize(
    ("checkpoint", "told"),
    [("shapes-vit", True), ("google/vit-base-patch16-224", False), ("shapes-gemma", False)],
    ids=["of drawn shapes", "for photographs", "of text"],
)
def test_a_photograph_before_a_model_of_drawn_shapes_is_told_at_once(checkpoint: str, told: bool) -> None:
    photograph = {"path": form.servable(form.photographs()[0])}
    note, button = form.picture_note(checkpoint, photograph)
    assert note["visible"] is button["visible"] is told


def test_a_press_chooses_a_model_for_photographs() -> None:
    page = Page(answering(ok_result()))
    chosen = press(page, page.run_tab.form.for_photographs, "image-segmentation")
    assert not catalog.find(chosen).drawn_only and catalog.find(chosen).task == "image-segmentation"


@pytest.mark.parametrize("checkpoint", ["shapes-vit", "shapes-rtdetr", "shapes-segformer"])
def test_the_note_of_a_bundled_model_says_what_it_is_and_knows(checkpoint: str) -> None:
    note = checkpoint_note(checkpoint)
    assert catalog.find(checkpoint).title[1:] in note
    assert "drawn shapes only: circle, cross, heart, ring, square, star, triangle." in note


@pytest.mark.parametrize(("cached", "where"), [(True, "In the cache"), (False, "Download about 346 MB")])
def test_note_and_list_say_whether_a_model_of_the_hub_is_here(monkeypatch, cached: bool, where: str) -> None:
    monkeypatch.setattr(form_notes.hub, "holds_weights", lambda checkpoint: cached)
    assert checkpoint_note("google/vit-base-patch16-224").replace("\N{NO-BREAK SPACE}", " ").startswith(where)
    (listed,) = (words for words, id in form.choices("image-classification") if id == "google/vit-base-patch16-224")
    assert where.lower() in listed.lower()


def test_a_picture_that_comes_while_the_last_one_is_looked_at_is_not_dropped() -> None:
    page = Page(answering(ok_result()))
    tab = page.run_tab.form
    picture = (tab.inputs["image"]._id, "input")
    modes = {event.trigger_mode for event in page.fns.values() if picture in event.targets}
    assert modes == {"always_last"}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"mode": "reduce-overhead"}, "reduce-overhead uses CUDA graphs"),
        ({"dtype": "float16"}, "Most CPUs convert float16"),
        ({"device": "cuda", "threads": 4}, "The number of threads"),
        ({"device": "cuda", "mode": "reduce-overhead", "dtype": "float16"}, ""),
    ],
)
def test_a_pointless_choice_gets_a_word(changes: dict, told: str) -> None:
    said = " ".join(doubts(dataclasses.replace(catalog.make_spec("shapes-vit", device="cpu"), **changes)))
    assert said.startswith(told) and bool(said) == bool(told)
