"""Tests of the result pane below the verdict: predictions, details, code, files, and the button Repeat."""

import dataclasses
import json
import re
import uuid
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import gradio as gr
import pytest
from PIL import Image
from support import page_support
from support.fake_runner import FakeRunner
from support.page_support import (
    HOSTILE,
    answering,
    followed,
    handler,
    in_the_form,
    open_page,
    press_run,
    stage_of,
    stored,
    visitor,
)
from support.samples import ENVIRONMENT, MACHINE, failed_result, full_result, info_of, ok_result, text_result

from demo.core import catalog
from demo.core.base64_images import encode_preview
from demo.core.comparison import Spread
from demo.core.measurement import Compilation
from demo.core.options import RunSpec
from demo.core.outputs import ImageInfo, Label, Predictions, Segment
from demo.core.result import Failure, RunResult
from demo.core.result_json import from_json
from demo.present import markdown, share
from demo.present.pictures import VARIANTS
from demo.present.report import Report
from demo.present.script import script
from demo.runs.ongoing import NO_FILES
from demo.store import hub_dataset
from demo.store.history import History
from demo.tasks.image_segmentation import difference
from demo.ui.page import Page
from demo.ui.tabs import form
from demo.ui.tabs.result_pane import CANNOT_DRAW, NO_DIFFERENCE, RANDOM_WEIGHTS, Outputs

FINISHED = ok_result()


def file_of(page: Page, updates: dict[Any, Any], name: str = "trace") -> dict[str, Any]:
    return updates[page.run_tab.pane.files[name]]


def of(page: Page, result: RunResult) -> dict[Any, Any]:
    """Returns the updates that show a result in the pane."""
    return page.run_tab.pane.result(Report(result), NO_FILES, plays=True, again=True)


@pytest.mark.parametrize(
    ("result", "folds"),
    [(stored("detection"), [True, True]), (failed_result(spec=ok_result().spec), [True, False])],
    ids=["with figures", "failed"],
)
def test_the_folds_show_the_sections_of_the_export(page: Page, result: RunResult, folds: list[bool]) -> None:
    pane, updates, export = page.run_tab.pane, of(page, result), markdown.of_run(Report(result))
    assert [updates[fold]["visible"] for fold in pane.folds.values()] == folds
    assert all(updates[section] in export for section in pane.sections.values())
    assert updates[pane.trace]["visible"] is updates[pane.race]["visible"] is folds[1]


FOLDER_HINT = "Start the script in the project's folder, where its files are."
GREY_HINT = "In the script a grey picture of the same size stands in for yours."


@pytest.mark.parametrize(
    ("checkpoint", "image", "hint"),
    [
        ("shapes-vit", None, f"{FOLDER_HINT} {GREY_HINT}"),
        ("someone/model", None, GREY_HINT),
        ("someone/model", info_of(catalog.scenes()[0]), FOLDER_HINT),
    ],
    ids=["bundled model", "model of the Hub", "bundled picture"],
)
def test_code_to_take_has_a_hint_on_its_files(page: Page, checkpoint: str, image: ImageInfo | None, hint: str) -> None:
    result = ok_result(spec=RunSpec(checkpoint, "image-classification", device="cpu"), image=image)
    pane, updates = page.run_tab.pane, of(page, result)
    assert updates[pane.change]["value"] == "model = torch.compile(model)"
    assert updates[pane.script_fold]["visible"] and updates[pane.hint] == hint


def test_a_run_without_a_script_has_no_hint_on_its_files(page: Page) -> None:
    result = ok_result(spec=RunSpec("shapes-vit", "image-classification", device="cpu", dynamic="on"))
    updates = of(page, result)
    assert "does not apply the option dynamic" in updates[page.run_tab.pane.hint]
    assert "folder" not in updates[page.run_tab.pane.hint]


@pytest.mark.parametrize("checkpoint", ["shapes-vit", "someone/mo del<b>"])
def test_a_result_is_a_file_to_download(page: Page, checkpoint: str) -> None:
    result = ok_result(spec=RunSpec(checkpoint, "image-classification", device="cpu"))
    updates = of(page, result)
    report, files = updates[page.run_tab.pane.shown], {}
    for kind in ("json", "share", "card", "race", "still", "script"):
        assert file_of(page, updates, kind) == gr.update(visible=True)
        files[kind] = Path(page_support.press(page, page.run_tab.pane.files[kind], report))
    assert from_json(json.loads(files["json"].read_text())) == result
    assert files["share"].read_text() == share.page(report)
    assert files["script"].read_text() == script(report) and files["race"].read_text().startswith("<svg")
    assert all(files[kind].read_bytes().startswith(b"\x89PNG") for kind in ("card", "still"))
    assert all(re.fullmatch(r"[\w.-]+", file.name) for file in files.values())
    assert page_support.press(page, page.run_tab.pane.files["card"], None) is None


def test_a_file_to_send_keeps_the_rate_that_was_typed(page: Page) -> None:
    button, report = page.run_tab.pane.files["share"], Report(ok_result())
    text = Path(page_support.press(page, button, report, "172800 2/s")).read_text()
    assert text == share.page(report, 172_800, "2/s") and 'value="2/s"' in text


def sent(history: History, result: RunResult = FINISHED) -> str:
    """What the page says once the file to send of a result is downloaded."""
    page = Page(answering(result), history=history)
    return str(handler(page, only=[page.run_tab.pane.sent])(Report(result), "172800 2/s"))


def test_the_page_says_where_the_file_to_send_is(history: History, monkeypatch) -> None:
    monkeypatch.delenv(hub_dataset.VARIABLE, raising=False)
    history.append(FINISHED)
    said = sent(history)
    assert f"shapes-vit-{FINISHED.id}.html is where your browser keeps downloads." in said and "dataset" not in said


def test_the_page_links_the_file_to_send_in_the_dataset(history: History, monkeypatch) -> None:
    push = Mock(return_value="https://hub/page.html")
    monkeypatch.setenv(hub_dataset.VARIABLE, "me/runs")
    monkeypatch.setattr("demo.ui.tabs.result_pane.push_page", push)
    assert "dataset" not in sent(history) and push.call_count == 0  # it was deleted meanwhile
    history.append(FINISHED)
    page = Page(answering(FINISHED), history=history)
    for _ in range(2):
        said = handler(page, only=[page.run_tab.pane.sent])(Report(FINISHED), "172800 2/s")
        assert 'It is in the dataset, too: <a href="https://hub/page.html"' in said
    push.assert_called_once_with(history, FINISHED, share.page(Report(FINISHED), 172_800, "2/s"))


def test_a_file_to_send_is_downloaded_without_the_hub(history: History, monkeypatch) -> None:
    monkeypatch.setenv(hub_dataset.VARIABLE, "me/runs")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    history.append(FINISHED)
    said = sent(history)
    assert "is where your browser keeps downloads. It could not be brought to the dataset: " in said
    assert "it does not answer" in said


def test_another_result_is_not_said_to_be_sent(page: Page) -> None:
    assert of(page, ok_result())[page.run_tab.pane.sent] == ""


def test_no_file_waits_for_an_upload_to_the_hub(page: Page) -> None:
    pane = page.run_tab.pane
    (upload,) = (fn for fn in page.fns.values() if fn.outputs == [pane.sent])
    files = {fn.concurrency_id for fn in page.fns.values() if fn.outputs == [pane.made]}
    assert upload.concurrency_limit == 1 and upload.concurrency_id not in files


def test_nothing_is_drawn_or_written_before_it_is_asked_for(page: Page, monkeypatch) -> None:
    for name in ("png.card", "png.race_at_rest", "race.file", "share.page", "script", "to_json"):
        monkeypatch.setattr(f"demo.ui.tabs.result_pane.{name}", lambda *_, name=name: pytest.fail(name))
    updates = of(page, ok_result())
    assert updates[page.run_tab.pane.script] == "" and updates[page.run_tab.pane.script_fold]["open"] is False


def test_the_script_is_shown_once_its_fold_is_opened(page: Page) -> None:
    pane, report = page.run_tab.pane, Report(ok_result())
    assert page_support.press(page, pane.script_fold, report, event="expand") == script(report)
    assert page_support.press(page, pane.script_fold, None, event="expand") == ""


def test_a_trace_is_there_until_another_run_begins(history: History) -> None:
    history.append(full_result())
    page = Page(runner := answering(full_result()), history=history)
    *_, last = press_run(page, profile="on")
    trace = runner.files[0].trace
    assert file_of(page, last)["visible"] and file_of(page, last)["value"] == str(trace)
    (again,) = open_page(page, run=full_result().id)
    assert file_of(page, again)["value"] == str(trace)
    (stranger,) = open_page(page, "two", run=full_result().id)
    assert file_of(page, stranger) == {"value": None, "visible": False, "__type__": "update"}
    assert trace is not None and trace.is_file()
    *_, last = press_run(page, profile="off")
    assert runner.files[-1].trace is None and file_of(page, last)["visible"] is False
    assert not trace.parent.exists()


@pytest.mark.parametrize("local", [True, False], ids=["local", "on a Space"])
def test_a_package_is_a_file_on_a_local_page(local: bool, monkeypatch) -> None:
    if not local:
        monkeypatch.setenv("SPACE_ID", "someone/worth-compiling")
    page = Page(answering(full_result()))
    *_, last = press_run(page, compiler="aot")
    assert file_of(page, last, "package")["visible"] is local


SCENE = form.scenes()[0]
ASSUMED = Spread("assumed", 0.03)


def of_picture(picture: Path = SCENE, **changes: Any) -> RunResult:
    return ok_result(image=info_of(picture), **({"spread": ASSUMED} | changes))


def press(page: Page, id: Any, in_form: Any = None) -> list[dict[Any, Any]]:
    """Presses Repeat for the run with this id. Returns the updates that the visitor's page gets."""
    tab = page.run_tab
    begun = handler(page, changes=tab.work_shown, of=(tab.pane.repeat, "click"))(visitor("one"), id, in_form)
    return list(followed(page, tab, begun))


def of_this_machine() -> FakeRunner:
    """Returns a fake runner for this machine, which gives each process's result an id of its own."""
    return FakeRunner(lambda spec, image: of_picture(id=uuid.uuid4().hex, spec=spec), machine=MACHINE)


def test_repeat_runs_a_stored_spec_with_its_picture(history: History) -> None:
    first = of_picture(spec=dataclasses.replace(ok_result().spec, dtype="bfloat16", precision=0.02, repeats=3))
    history.append(first)
    page = Page(runner := of_this_machine(), history=history)
    (shown,) = open_page(page, run=first.id)
    assert shown[page.run_tab.pane.repeat]["visible"] and shown[page.run_tab.shown_id] == first.id
    begun, *_, last = press(page, first.id)
    assert begun[page.run_tab.form.run]["interactive"] is False and "Run 2 of 2" in stage_of(page, begun)
    assert runner.runs == [dataclasses.replace(first.spec, repeats=1)]
    assert runner.pictures[0].read_bytes() == SCENE.read_bytes()
    assert "from 2 processes" in stage_of(page, last) and 'class="process"' in stage_of(page, last)
    assert ['class="within"' in stage_of(page, update) for update in (shown, last)] == [True, False]


def test_a_picture_that_is_gone_is_taken_from_the_form(tmp_path, history: History) -> None:
    own = tmp_path / "own <b>.png"
    own.write_bytes((form.scenes()[1]).read_bytes() + b"!")
    history.append(of_picture(own))
    page = Page(runner := of_this_machine(), history=history)
    (refused,) = press(page, of_picture(own).id, in_the_form(SCENE))
    assert "is not here" in stage_of(page, refused) and "own &lt;b&gt;.png" in stage_of(page, refused)
    assert not runner.runs
    press(page, of_picture(own).id, in_the_form(own))
    assert [picture.read_bytes() for picture in runner.pictures] == [own.read_bytes()]


def test_a_run_of_another_setup_is_not_repeated(history: History) -> None:
    history.append(result := of_picture(environment=dataclasses.replace(ENVIRONMENT, torch="another")))
    page = Page(runner := of_this_machine(), history=history)
    (shown,), (refused,) = open_page(page, run=result.id), press(page, result.id)
    assert not shown[page.run_tab.pane.repeat]["visible"]
    assert "This cannot be run" in stage_of(page, refused) and not runner.runs


BASE = ok_result().spec
CANCELLED = failed_result(status="cancelled", spec=BASE, failure=Failure("compile", "Cancelled.", "Run it again."))


@pytest.mark.parametrize(
    "result",
    [
        failed_result(spec=BASE),
        CANCELLED,
        of_picture(compilation=Compilation(5.5, "cold", 1, recompiles_while_timing=1)),
    ],
    ids=["failed", "cancelled", "void"],
)
def test_a_run_without_figures_is_run_again(history: History, result: RunResult) -> None:
    history.append(result)
    page = Page(runner := of_this_machine(), history=history)
    (shown,) = open_page(page, run=result.id)
    assert shown[page.run_tab.pane.repeat] == gr.update(value="Run it again", visible=True)
    press(page, result.id, in_the_form(SCENE))
    assert runner.runs == [BASE] and runner.pictures[0] is not None


def test_a_cancelled_run_has_no_card_or_advice(page: Page) -> None:
    updates = of(page, CANCELLED)
    assert not file_of(page, updates, "card")["visible"] and file_of(page, updates, "json")["visible"]
    assert CANCELLED.failure.remedy not in updates[page.run_tab.pane.top]
    assert file_of(page, of(page, failed_result()), "card")["visible"]


def test_a_run_that_failed_late_has_neither_race_nor_predictions(page: Page) -> None:
    pane, updates = page.run_tab.pane, of(page, full_result(status="crashed", failure=CANCELLED.failure))
    assert not updates[pane.race]["visible"] and not updates[pane.outputs.column]["visible"]


@pytest.mark.parametrize("id", ["nothing", None, {"a": 1}], ids=str)
def test_only_a_stored_run_is_repeated(id: Any, page: Page) -> None:
    (refused,) = press(page, id)
    assert "not stored any more" in stage_of(page, refused)


# ---- predictions

LINK = "[a](https://example.org) <b>"


@pytest.fixture
def outputs(page: Page) -> Outputs:
    return page.run_tab.pane.outputs


def visible(outputs: Outputs, result: RunResult) -> dict[Any, dict[str, Any]]:
    """Returns the updates of those components that show a prediction of the result."""
    updates = outputs.show(Report(result))
    assert set(updates) == {outputs.column, *outputs.components}
    return {component: updates[component] for component in outputs.components[1:] if updates[component]["visible"]}


IMAGE = ImageInfo("scene.png", 320, 240, "00" * 32, encode_preview(Image.new("RGB", (320, 240))))


@pytest.mark.parametrize("mask", ["", "no base64", "iVBORw0KGgo=", "/9j/"], ids=["none", "text", "cut short", "a JPEG"])
def test_a_damaged_mask_costs_the_pictures_alone(mask: str, outputs: Outputs) -> None:
    predictions = Predictions(segments=(Segment("circle", None, 0.25, mask),))
    result = ok_result(image=IMAGE, predictions={"eager": predictions, "compiled": predictions})
    assert visible(outputs, result) == {} and CANNOT_DRAW in outputs.show(Report(result))[outputs.words]
    assert "cannot be read" in difference(predictions, predictions)


@pytest.mark.parametrize("name", ["segmentation", "detection"])
def test_boxes_or_masks_stand_side_by_side(name: str, outputs: Outputs) -> None:
    shown = visible(outputs, stored(name))
    assert list(shown) == [*outputs.marked.values(), outputs.slider]
    eager, compiled = (shown[component] for component in outputs.marked.values())
    assert [caption for _, caption in eager["value"][1]] == [caption for _, caption in compiled["value"][1]]
    assert eager["color_map"] == compiled["color_map"] != {}
    left, right = shown[outputs.slider]["value"]
    assert left.size == right.size and left.tobytes() != eager["value"][0].tobytes()
    for component in outputs.marked.values():  # gradio takes them as they are
        component.color_map = shown[component]["color_map"]
        assert len(component.postprocess(shown[component]["value"]).annotations) == len(eager["value"][1])
    assert NO_DIFFERENCE in outputs.show(Report(stored(name)))[outputs.words]


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
    assert list(visible(outputs, ok_result())) == list(outputs.labels.values())  # whose picture is damaged


def test_tokens_that_differ_are_marked_in_both_texts(outputs: Outputs) -> None:
    ours = text_result().predictions["eager"]
    theirs = Predictions(text=" a <b>", pieces=(" a", " <b>", "", "."), token_ids=(5, 9, 3, 8))
    result = text_result(predictions={"eager": ours, "compiled": theirs})
    shown = visible(outputs, result)
    assert shown[outputs.prompt]["value"] == "The picture shows"
    marks = [[mark for _, mark in shown[component]["value"]] for component in outputs.texts.values()]
    assert marks == [[None, "differs", "differs", None]] * 2
    assert "".join(piece for piece, _ in shown[outputs.texts["compiled"]]["value"]) == " a <b>."
    assert "from token 2 on" in outputs.show(Report(result))[outputs.words]


def test_random_weights_show_nothing_and_say_why(outputs: Outputs) -> None:
    result = ok_result(spec=RunSpec("facebook/detr-resnet-50", "object-detection", weights="random"), predictions=None)
    assert visible(outputs, result) == {} and RANDOM_WEIGHTS in outputs.show(Report(result))[outputs.words]
    assert outputs.show(Report(result))[outputs.column]["visible"]
    assert not outputs.show(Report(ok_result(predictions=None)))[outputs.column]["visible"]


@pytest.mark.parametrize(
    "picture, beyond", [(form.scenes()[0], False), (form.photographs()[0], True)], ids=["own", "other"]
)
def test_a_model_of_drawn_shapes_says_so_at_any_other_picture(picture: Path, beyond: bool, outputs: Outputs) -> None:
    words = outputs.show(Report(ok_result(image=info_of(picture))))[outputs.words]
    assert ("knows drawn shapes only" in words) is beyond


@pytest.mark.parametrize("hostile", [HOSTILE, LINK], ids=["HTML", "a link"])
def test_texts_of_models_never_stand_in_markdown(hostile: str, outputs: Outputs) -> None:
    predictions = dict.fromkeys(VARIANTS, Predictions(labels=(Label(hostile, 0.9),)))
    written = dict.fromkeys(VARIANTS, Predictions(text=hostile, pieces=(hostile,), token_ids=(1,)))
    spec = dataclasses.replace(text_result().spec, prompt=hostile)
    for result in (ok_result(predictions=predictions), text_result(spec=spec, predictions=written)):
        assert hostile not in outputs.show(Report(result))[outputs.words]
