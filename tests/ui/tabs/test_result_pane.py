"""What the result pane shows and offers beside an answer: folds, code and files, and one more process."""

import dataclasses
import json
import re
import uuid
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from support.fake_runner import FakeRunner
from support.page_support import (
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
from support.samples import ENVIRONMENT, MACHINE, failed_result, full_result, info_of, ok_result

from demo.core.comparison import Spread
from demo.core.measurement import Compilation
from demo.core.record import Failure
from demo.core.result import RunResult
from demo.core.result_json import from_json
from demo.core.spec import RunSpec
from demo.present import markdown
from demo.present.script import script
from demo.runs.outcome import NO_FILES
from demo.store.history import History
from demo.ui.page import Page
from demo.ui.tabs import form, result_pane


def file_of(page: Page, updates: dict[Any, Any], name: str = "trace") -> dict[str, Any]:
    return updates[page.run_tab.pane.files[name]]


def of(page: Page, result: RunResult) -> dict[Any, Any]:
    """The updates that show a result."""
    return page.run_tab.pane.result(result, NO_FILES, True, MACHINE)


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(answering(ok_result()))


def test_the_folds_show_the_sections_as_the_export_has_them_and_charts(page: Page) -> None:
    pane, updates = page.run_tab.pane, of(page, stored("detection"))
    for fold, section in pane.sections.items():
        assert updates[pane.folds[fold]]["visible"] and updates[section] in markdown.of_run(stored("detection"))
    drawn = [make.__name__ for make, plot in pane.charts.items() if updates[plot]["visible"]]
    assert drawn == ["trace"] and updates[pane.race]["visible"]


def test_a_failed_run_tells_of_its_machine_and_has_no_chart(page: Page) -> None:
    pane, updates = page.run_tab.pane, of(page, failed_result(spec=ok_result().spec))
    assert [updates[fold]["visible"] for fold in pane.folds.values()] == [True, False]
    assert not any(updates[plot]["visible"] for plot in pane.charts.values())


def test_the_line_to_change_comes_first_and_the_script_is_folded(page: Page) -> None:
    pane, updates = page.run_tab.pane, of(page, ok_result())
    assert updates[pane.change]["value"] == "model = torch.compile(model)"
    assert updates[pane.script] == script(ok_result())
    assert updates[pane.script_fold] == gr.update(visible=True, open=False)


def test_the_hint_says_what_stands_in_for_a_picture_of_ones_own_and_where_weights_lie(page: Page) -> None:
    grey, weights = "a grey picture of the same size stands in for yours", "Start the code in the project's folder"
    hint = of(page, ok_result())[page.run_tab.pane.hint]
    assert grey in hint and weights in hint
    theirs = of(page, ok_result(spec=RunSpec("someone/model", "image-segmentation", device="cpu")))
    assert weights not in theirs[page.run_tab.pane.hint]


def test_the_result_as_json_and_its_card_are_files_to_download(page: Page) -> None:
    hostile = ok_result(spec=RunSpec("someone/mo del<b>", "image-classification", device="cpu"))
    for result in (ok_result(), hostile):
        updates = of(page, result)
        files = {name: Path(file_of(page, updates, name)["value"]) for name in ("json", "card")}
        assert from_json(json.loads(files["json"].read_text())) == result
        assert files["card"].read_bytes().startswith(b"\x89PNG")
        assert all(re.fullmatch(r"[\w.-]+", file.name) for file in files.values())


def test_a_run_with_a_profile_has_its_trace_to_download_until_another_begins(history: History) -> None:
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


def test_a_package_is_to_be_taken_along_where_the_page_is_local(monkeypatch) -> None:
    page = Page(answering(full_result()))
    for local in (True, False):
        *_, last = press_run(page, compiler="aot")
        assert file_of(page, last, "package")["visible"] is local and file_of(page, last)["visible"] is False
        monkeypatch.setenv("SPACE_ID", "someone/worth-compiling")


SCENE = form.scenes()[0]
ASSUMED = Spread("assumed", 0.03)


def of_picture(picture: Path = SCENE, **changes: Any) -> RunResult:
    return ok_result(image=info_of(picture), **({"spread": ASSUMED} | changes))


def press(page: Page, id: Any, in_form: Any = None) -> list[dict[Any, Any]]:
    """What a press of Repeat sends to the page of a visitor who sees the run with this id."""
    tab = page.run_tab
    begun = handler(page, changes=tab.watched, of=(tab.pane.repeat, "click"))(visitor("one"), id, in_form)
    return list(followed(page, tab, begun))


def of_this_machine() -> FakeRunner:
    """Each process has an id of its own."""
    return FakeRunner(lambda spec, image: of_picture(id=uuid.uuid4().hex, spec=spec), machine=MACHINE)


def test_a_stored_run_that_a_link_opens_is_repeated_with_its_own_spec_and_picture(history: History) -> None:
    first = of_picture(spec=dataclasses.replace(ok_result().spec, dtype="bfloat16", precision=0.02))
    history.append(first)
    page = Page(runner := of_this_machine(), history=history)
    (shown,) = open_page(page, run=first.id)
    assert shown[page.run_tab.pane.repeat]["visible"] and shown[page.run_tab.shown_id] == first.id
    begun, *_, last = press(page, first.id)
    assert begun[page.run_tab.form.run]["interactive"] is False and "Run 2 of 2" in stage_of(page, begun)
    assert runner.runs == [first.spec]
    assert runner.pictures[0].read_bytes() == SCENE.read_bytes()
    assert "from 2 processes" in stage_of(page, last) and 'class="process"' in stage_of(page, last)


def test_a_picture_that_is_gone_is_asked_for_and_then_taken_from_the_form(tmp_path, history: History) -> None:
    own = tmp_path / "own <b>.png"
    own.write_bytes((form.scenes()[1]).read_bytes() + b"!")
    history.append(of_picture(own))
    page = Page(runner := of_this_machine(), history=history)
    (refused,) = press(page, of_picture(own).id, in_the_form(SCENE))
    assert "is not here" in stage_of(page, refused) and "own &lt;b&gt;.png" in stage_of(page, refused)
    assert not runner.runs
    press(page, of_picture(own).id, in_the_form(own))
    assert [picture.read_bytes() for picture in runner.pictures] == [own.read_bytes()]


BASE = ok_result().spec


@pytest.mark.parametrize("fact", ["device_name", "torch"])
def test_a_run_of_another_machine_or_torch_is_not_repeated(history: History, fact: str) -> None:
    elsewhere = dataclasses.replace(ENVIRONMENT, **{fact: "another"})
    history.append(result := of_picture(environment=elsewhere))
    page = Page(runner := of_this_machine(), history=history)
    (refused,) = press(page, result.id)
    assert not result_pane.can_repeat(result, MACHINE)
    assert "This cannot be run" in stage_of(page, refused) and not runner.runs


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
def test_a_run_without_figures_is_run_again_by_a_press(history: History, result: RunResult) -> None:
    history.append(result)
    page = Page(runner := of_this_machine(), history=history)
    assert of(page, result)[page.run_tab.pane.repeat] == gr.update(value="Run it again", visible=True)
    press(page, result.id, in_the_form(SCENE))
    assert runner.runs == [BASE] and runner.pictures[0] is not None


def test_a_cancelled_run_offers_neither_its_picture_nor_advice(page: Page) -> None:
    updates = of(page, CANCELLED)
    assert not file_of(page, updates, "card")["visible"] and file_of(page, updates, "json")["visible"]
    assert CANCELLED.failure.remedy not in updates[page.run_tab.pane.top]
    assert file_of(page, of(page, failed_result()), "card")["visible"]


def test_a_press_for_anything_that_is_not_stored_is_refused(history: History) -> None:
    page = Page(answering(of_picture()), history=history)
    for id in ("nothing", None, {"a": 1}):
        (refused,) = press(page, id)
        assert "not stored any more" in stage_of(page, refused)
