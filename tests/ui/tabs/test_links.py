"""Tests of links to the page: to stored runs, with settings that fill the form, and refused ones."""

import dataclasses
from pathlib import Path

import pytest
from support.page_support import HOSTILE, answering, field_values, open_page, press_run, stage_of
from support.samples import failed_result, info_of, ok_result

from demo.core.options import OWN_MODEL, RunSpec
from demo.store.history import History
from demo.ui.page import Page
from demo.ui.tabs import form


@pytest.fixture
def history(history: History) -> History:
    history.append(ok_result())
    history.append(failed_result())
    return history


@pytest.fixture
def page(history: History) -> Page:
    return Page(answering(ok_result()), history=history)


def test_a_link_to_a_run_shows_it_with_its_form(page: Page) -> None:
    *_, pressed_last = press_run(page)
    (shown,) = open_page(page, "two", run=ok_result().id)
    assert stage_of(page, shown) == stage_of(page, pressed_last)
    assert shown[page.run_tab.shown_id] == ok_result().id and shown[page.run_tab.has_run]
    assert list(open_page(page, "two", run="")) == []
    (failed,) = open_page(page, "two", run=failed_result().id)
    assert "Batch size 256 ran out of memory" in stage_of(page, failed)
    assert failed[page.run_tab.form.inputs["batch_size"]]["value"] == 256
    assert failed[page.run_tab.form.inputs["text"]] == {"visible": True, "value": "a cat", "__type__": "update"}


def test_a_failure_links_to_its_way_out(page: Page, history: History) -> None:
    failure = dataclasses.replace(failed_result().failure, change={"batch_size": 64})
    history.append(failed_result(id="too large", failure=failure))
    (shown,) = open_page(page, run="too large")
    link = '?checkpoint=google%2Fowlvit-base-patch32&amp;batch_size=64&amp;text=a+cat">Set Batch size to 64<'
    assert link in stage_of(page, shown)


def test_a_run_of_an_own_model_leaves_the_form(page: Page, history: History) -> None:
    history.append(ok_result(id="own", spec=RunSpec("net.py:make", OWN_MODEL, device="cpu")))
    (shown,) = open_page(page, run="own")
    assert "2.00×" in stage_of(page, shown) and page.run_tab.form.inputs["task"] not in shown


def test_opening_a_run_restores_its_picture(page: Page, history: History) -> None:
    fields, note = page.run_tab.form.inputs, page.run_tab.form.picture_notes[0]
    (shown,) = open_page(page, run=ok_result().id)
    assert fields["image"] not in shown
    assert shown[note]["visible"] and "scene.png" in shown[note]["value"]
    example = form.photographs()[0]
    history.append(ok_result(id="known", image=info_of(example)))
    (shown,) = open_page(page, run="known")
    assert Path(shown[fields["image"]]).read_bytes() == example.read_bytes()
    assert shown[note] == {"visible": False, "__type__": "update"}


def test_a_link_fills_the_form(page: Page) -> None:
    link = {"checkpoint": "facebook/detr-resnet-50", "batch_size": "4", "mode": "reduce-overhead", "fullgraph": "true"}
    (filled,) = open_page(page, **link, max_seconds="9", __theme="dark", utm="x")
    inputs = {name: field for name, field in page.run_tab.form.inputs.items() if name != "image"}
    values = {name: filled[field].get("value") for name, field in inputs.items() if field in filled}
    unchanged = field_values(page)
    spec, _ = form.spec_and_picture(unchanged | {name: value for name, value in values.items() if value is not None})
    options = {"batch_size": 4, "mode": "reduce-overhead", "fullgraph": True, "max_seconds": 9.0}
    assert spec == RunSpec("facebook/detr-resnet-50", "object-detection", **options)
    assert (values["iterations"], values["threads"], values["max_seconds"]) == ("", "", "9.0")
    assert Path(filled[page.run_tab.form.inputs["image"]]).name == "lion.jpg"  # which suits the model


def test_a_bad_link_is_answered_with_a_sentence(page: Page) -> None:
    for link, sentence in [
        ({"batch_size": HOSTILE}, "Batch size must be a whole number"),
        ({"fullgraph": "perhaps"}, "fullgraph is a switch"),
    ]:
        (shown,) = open_page(page, **link)
        assert sentence in stage_of(page, shown) and HOSTILE not in stage_of(page, shown)
        fields = page.run_tab.form.inputs
        assert HOSTILE not in [shown[field].get("value") for field in fields.values() if field in shown]


def test_a_run_that_is_not_stored_has_no_address_and_no_repeat(history: History) -> None:
    page = Page(answering(failed_result(id="never stored", spec=ok_result().spec)), history=history)
    *_, ended = press_run(page)
    assert ended[page.run_tab.shown_id] == "" and not ended[page.run_tab.pane.repeat]["visible"]
