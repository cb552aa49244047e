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
from demo.core.options import RunSpec
from demo.core.result import Failure, RunResult
from demo.core.result_json import from_json
from demo.present import markdown
from demo.present.script import script
from demo.runs.outcome import NO_FILES
from demo.store.history import History
from demo.ui.page import Page
from demo.ui.tabs import form


def file_of(page: Page, updates: dict[Any, Any], name: str = "trace") -> dict[str, Any]:
    return updates[page.run_tab.pane.files[name]]


def of(page: Page, result: RunResult) -> dict[Any, Any]:
    """The updates that show a result."""
    return page.run_tab.pane.result(result, NO_FILES, plays=True, again=True)


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(answering(ok_result()))


@pytest.mark.parametrize(
    ("result", "folds"),
    [(stored("detection"), [True, True]), (failed_result(spec=ok_result().spec), [True, False])],
    ids=["with figures", "failed"],
)
def test_the_folds_show_the_sections_of_the_export(page: Page, result: RunResult, folds: list[bool]) -> None:
    pane, updates, export = page.run_tab.pane, of(page, result), markdown.of_run(result)
    assert [updates[fold]["visible"] for fold in pane.folds.values()] == folds
    assert all(updates[section] in export for section in pane.sections.values())
    assert updates[pane.trace]["visible"] is updates[pane.race]["visible"] is folds[1]


@pytest.mark.parametrize("checkpoint, bundled", [("shapes-vit", True), ("someone/model", False)])
def test_code_to_take_has_a_hint_on_its_files(page: Page, checkpoint: str, bundled: bool) -> None:
    result = ok_result(spec=RunSpec(checkpoint, "image-classification", device="cpu"))
    pane, updates = page.run_tab.pane, of(page, result)
    assert updates[pane.change]["value"] == "model = torch.compile(model)"
    assert updates[pane.script] == script(result) and updates[pane.script_fold]["visible"]
    assert ("Start the code in the project's folder" in updates[pane.hint]) is bundled
    assert "a grey picture of the same size stands in for yours" in updates[pane.hint]


@pytest.mark.parametrize("checkpoint", ["shapes-vit", "someone/mo del<b>"])
def test_a_result_is_a_file_to_download(page: Page, checkpoint: str) -> None:
    result = ok_result(spec=RunSpec(checkpoint, "image-classification", device="cpu"))
    updates = of(page, result)
    files = {name: Path(file_of(page, updates, name)["value"]) for name in ("json", "card")}
    assert from_json(json.loads(files["json"].read_text())) == result
    assert files["card"].read_bytes().startswith(b"\x89PNG")
    assert all(re.fullmatch(r"[\w.-]+", file.name) for file in files.values())


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
    """What a press of Repeat sends to the page of a visitor who sees the run with this id."""
    tab = page.run_tab
    begun = handler(page, changes=tab.work_shown, of=(tab.pane.repeat, "click"))(visitor("one"), id, in_form)
    return list(followed(page, tab, begun))


def of_this_machine() -> FakeRunner:
    """Each process has an id of its own."""
    return FakeRunner(lambda spec, image: of_picture(id=uuid.uuid4().hex, spec=spec), machine=MACHINE)


def test_repeat_runs_a_stored_spec_with_its_picture(history: History) -> None:
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
    assert ['class="within"' in stage_of(page, one) for one in (shown, last)] == [True, False]


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


@pytest.mark.parametrize("id", ["nothing", None, {"a": 1}], ids=str)
def test_only_a_stored_run_is_repeated(id: Any, page: Page) -> None:
    (refused,) = press(page, id)
    assert "not stored any more" in stage_of(page, refused)
