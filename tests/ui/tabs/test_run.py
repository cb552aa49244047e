"""The page without a browser: its handlers, its form, its API, what it serves. A fake runner stands for the models."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import inspect
import json
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gradio.processing_utils import save_file_to_cache
from gradio.queueing import Queue
from gradio.utils import get_upload_folder
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from samples import failed_result, full_result, measurement, ok_result

from demo.core import limits
from demo.core import result as schema
from demo.core.languages import ENGLISH
from demo.core.result import (
    BadInput,
    Failure,
    GraphBreak,
    ImageInfo,
    Label,
    Machine,
    Predictions,
    Progress,
    RunResult,
    RunSpec,
)
from demo.core.stats import Interval
from demo.runs.runner import FOLDER_PREFIX
from demo.store.history import FOLDER_VARIABLE, History
from demo.ui.html import progress as live
from demo.ui.html import results
from demo.ui.jobs import jobs, visitors
from demo.ui.jobs.fake_runner import MACHINE, FakeRunner
from demo.ui.jobs.queue import Line
from demo.ui.page import LOOK_SECONDS, SESSIONS, Page, build, launch
from demo.ui.tabs import form
from demo.ui.web.visitor_language import translations

ROOT = Path(__file__).resolve().parents[3]
FIXTURES = Path(__file__).parents[2] / "fixtures"
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"


@pytest.fixture(autouse=True, scope="module")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as changes:
        changes.setenv(FOLDER_VARIABLE, str(tmp_path_factory.mktemp("data")))
        yield


def stored(name: str) -> RunResult:
    return RunResult.from_json(json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8")))


def answering(answer: RunResult | Exception, seconds: float = 0.0) -> FakeRunner:
    return FakeRunner(lambda spec, image: answer, seconds)


def pressed(page: Page, session: str = "one", **changes: Any) -> Iterator[dict[Any, Any]]:
    """What pressing Run sends to the browser, from the form as it stands, with these fields changed."""
    image = save_file_to_cache(form.scenes()[0], get_upload_folder())
    values = {name: field.value for name, field in page.run_tab._form.inputs.items()}
    values |= {"image": {"path": image, "meta": {"_type": "gradio.FileData"}}} | changes
    yield from followed(page, page.run_tab._run(from_browser(), visitor(session), *values.values()))


def followed(page: Page, begun: dict[Any, Any]) -> Iterator[dict[Any, Any]]:
    """What a page gets: this, then the job that it watches from here on, then what became of the job."""
    tab = page.run_tab
    yield begun
    if (job := begun[tab._watched]) is not None:
        for strip in tab._follow(from_browser(), job):
            yield {tab._stage.live: strip}
        yield tab._outcome(from_browser(), job)


def visitor(name: str) -> str:
    """The id that the browser of this visitor keeps."""
    return hashlib.md5(name.encode()).hexdigest()


def from_browser(**query: str) -> Any:
    """A request as gradio hands it to a handler, by a link with this query."""
    return SimpleNamespace(session_hash="a page", query_params=query)


def opened(page: Page, session: str = "one", **query: str) -> Iterator[dict[Any, Any]]:
    """What a page gets when this visitor opens it by a link with this query; nothing where it stays as it is."""
    arrived = page.run_tab._arrive(from_browser(**query), visitor(session))
    if arrived[page.run_tab._stage.chart] == {"visible": True, "__type__": "update"}:
        del arrived[page.run_tab._stage.chart]  # the page's own chart, which every page gets
    if arrived.keys() - {page.run_tab.visitor, page.run_tab._watched}:
        yield from followed(page, arrived)


def cancel(page: Page, session: str) -> None:
    page.run_tab._cancel(from_browser(), visitor(session))


def stage_of(page: Page, updates: dict[Any, Any]) -> str:
    """The HTML that an update puts on the stage, all pieces together, the folded sections left out."""
    pieces = []
    stage = page.run_tab._stage
    for part in (stage.notice, stage.live, stage.top, stage.seen, stage.details):
        update = updates.get(part, "")
        pieces.append(str(update.get("value", "")) if isinstance(update, dict) else str(update))
    return "".join(pieces)


def is_ready(page: Page, updates: dict[Any, Any]) -> bool:
    return updates[page.run_tab._form.run]["interactive"] and not updates[page.run_tab._form.cancel]["interactive"]


class Tags(HTMLParser):
    """The elements of a piece of HTML, in order, and whether anything in it would run as a script."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.runs_script = False
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.runs_script |= tag == "script" or any(name.startswith("on") for name, _ in attributes)
        self.runs_script |= any((value or "").strip().lower().startswith("javascript:") for _, value in attributes)


# ---- the page's process


def test_the_page_imports_neither_torch_nor_transformers() -> None:
    code = (
        "import sys; from demo.ui.jobs.fake_runner import FakeRunner; "
        "from demo.ui.page import build; build(FakeRunner(None));"
        "import app; print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    child = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert child.stdout.strip() == "[]", child.stderr


def test_no_stub_file_is_written_beside_the_sources() -> None:
    """gradio writes a .pyi next to every class derived from a component."""
    assert not list((ROOT / "demo").rglob("*.pyi"))


# ---- the form


def test_the_form_as_it_stands_is_a_valid_spec() -> None:
    page = Page(answering(ok_result()))
    values = {name: field.value for name, field in page.run_tab._form.inputs.items()}
    spec, image = form.read(values)
    assert (spec.checkpoint, spec.batch_size, spec.mode, spec.dtype) == ("shapes-vit", 1, "default", "float32")
    assert image.is_file()


def test_a_machine_with_a_gpu_and_weights_starts_with_vit_on_a_photograph() -> None:
    choice = form.default_choice(dataclasses.replace(MACHINE, gpu="Tesla T4"), hub_ok=True)
    assert choice.checkpoint == "google/vit-base-patch16-224"
    assert choice.image in form.photographs()


@pytest.mark.parametrize(
    ("machine", "hub_ok"),
    [(None, True), (MACHINE, True), (dataclasses.replace(MACHINE, gpu="Tesla T4"), False)],
    ids=["unknown machine", "no GPU", "no weights to be had"],
)
def test_any_other_machine_starts_with_the_bundled_model_on_a_drawn_scene(
    machine: Machine | None, hub_ok: bool
) -> None:
    choice = form.default_choice(machine, hub_ok)
    assert choice.checkpoint == "shapes-vit"
    assert choice.image in form.scenes()


def test_a_gpu_machine_changes_only_a_form_that_nobody_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demo.core.hub.can_load", lambda checkpoint: True)
    page = Page(FakeRunner(lambda *_: ok_result(), machine=dataclasses.replace(MACHINE, gpu="Tesla T4")))
    untouched = {"orig_name": form.scenes()[0].name}
    checkpoint, picture = page.run_tab._settle("shapes-vit", untouched, False)
    assert checkpoint == "google/vit-base-patch16-224"
    assert Path(picture).name == "lion.jpg"
    for given in (("microsoft/resnet-50", untouched, False), ("shapes-vit", untouched, True)):
        assert all(isinstance(update, dict) and "value" not in update for update in page.run_tab._settle(*given))


def test_queries_left_in_the_hidden_field_are_not_sent_to_a_model_that_takes_none() -> None:
    page = Page(answering(ok_result()))
    values = {name: field.value for name, field in page.run_tab._form.inputs.items()}
    spec, _ = form.read(values | {"text": "a cat", "checkpoint": "facebook/detr-resnet-50", "task": "object-detection"})
    assert spec.text == ()
    owl = {"text": "a cat, a dog", "checkpoint": "google/owlvit-base-patch32", "task": "object-detection"}
    assert form.read(values | owl)[0].text == ("a cat", "a dog")


def test_choosing_a_checkpoint_shows_what_the_guide_measured_until_there_is_a_result() -> None:
    page = Page(answering(ok_result()))
    _, text, top, note, chart = page.run_tab._chosen("google/owlvit-base-patch32", "object-detection", False)
    assert text["visible"] is True
    assert "owlvit-base-patch32" in top
    assert "What the guide measured" in note["value"]
    assert chart["visible"] is True
    assert all(
        "value" not in update
        for update in page.run_tab._chosen("microsoft/resnet-50", "image-classification", True)[2:]
    )


def test_a_checkpoint_that_the_guide_lacks_shows_a_relative_and_says_so() -> None:
    for checkpoint, task in (("shapes-rtdetr", "object-detection"), ("somebody/model", "image-segmentation")):
        relative, sentence = results.published_for(checkpoint, task)
        assert "did not measure" in sentence
        assert results.short(relative) in sentence


# ---- one press of Run


def test_run_shows_the_headline_the_labels_and_the_figures_and_is_ready_again() -> None:
    page = Page(answering(ok_result()))
    first, *_, last = pressed(page)
    assert first[page.run_tab._form.run]["interactive"] is False
    assert first[page.run_tab._form.cancel]["interactive"] is True
    shown = stage_of(page, last)
    assert '<span class="figure number">2.00×</span>' in shown
    assert "circle" in shown
    assert "First compiled call" in shown
    assert is_ready(page, last)


@pytest.mark.parametrize("ratio", [0.5, 5.0], ids=["win", "loss"])
def test_a_loss_is_told_as_large_as_a_win(ratio: float) -> None:
    html = results.headline(ok_result(compiled=measurement(0.002 * ratio)))
    assert re.search(r'<span class="figure number">\d\.\d\d×</span>', html)
    assert ("slower ▼" if ratio > 1 else "faster ▲") in re.sub(r"<[^>]+>", "", html)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"batch_size": 0}, "Batch size must be a whole number"),
        ({"batch_size": 1.5}, "Batch size must be a whole number"),
        ({"batch_size": None}, "Batch size must be a whole number"),
        ({"mode": "fastest"}, "Unknown compile mode"),
        ({"checkpoint": "vit-shapes"}, "Did you mean"),
        ({"checkpoint": None}, "No checkpoint was given"),
        ({"checkpoint": "microsoft/resnet-50", "task": "object-detection"}, "does image-classification"),
        ({"image": None}, "There is no picture"),
        ({"image": {"path": str(ROOT / "pyproject.toml")}}, "must be an uploaded file"),
        ({"iterations": 3}, "The number of timed calls"),
        ({"checkpoint": "google/owlvit-base-patch32", "task": "object-detection", "text": " "}, "text queries"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_input_is_a_sentence_on_the_stage(changes: dict[str, Any], sentence: str) -> None:
    page = Page(answering(ok_result()))
    (only,) = pressed(page, **changes)
    assert sentence in stage_of(page, only)
    assert is_ready(page, only)


def test_a_refusal_stands_above_what_was_there_before_and_takes_nothing_away() -> None:
    page = Page(answering(ok_result()))
    for changes, runner in (({"checkpoint": "no such thing"}, None), ({}, answering(BadInput("Not that one.")))):
        page = Page(runner) if runner else page
        stage = page.run_tab._stage
        *_, last = pressed(page, **changes)
        assert last[stage.notice]["visible"] and "That cannot be run" in last[stage.notice]["value"]
        assert last[stage.live]["visible"] is False
        assert not {stage.top, stage.chart, stage.seen, stage.details} & set(last)


def test_every_section_of_a_result_is_filled_under_its_answer_and_a_failure_hides_them_again() -> None:
    page = Page(answering(full_result()))
    *_, last = pressed(page)
    for fold in page.run_tab._stage.folds:
        title, html = (tell(full_result(), ENGLISH) for tell in (fold.section.title, fold.section.html))
        assert last[fold.accordion]["visible"] and last[fold.accordion]["label"] == title
        assert last[fold.html] == html
        assert fold.figure is None or last[fold.figure]["visible"]
    page = Page(answering(failed_result()))
    *_, last = pressed(page)
    assert all(last[fold.accordion]["visible"] is False for fold in page.run_tab._stage.folds)


def test_what_only_the_worker_can_refuse_is_a_sentence_too() -> None:
    page = Page(answering(BadInput("scene.png is not a picture. Readable are: PNG, JPEG.")))
    *_, last = pressed(page)
    assert "scene.png is not a picture" in stage_of(page, last)
    assert is_ready(page, last)


def test_a_failed_result_shows_message_and_remedy() -> None:
    page = Page(answering(failed_result()))
    *_, last = pressed(page)
    shown = stage_of(page, last)
    assert "Out of memory" in shown
    assert "Batch size 256 ran out of memory on a T4" in shown
    assert "Try 64." in shown
    assert is_ready(page, last)


def test_an_unexpected_error_is_told_calmly_and_keeps_its_message_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    page = Page(answering(RuntimeError("secret words")))
    *_, last = pressed(page)
    assert ENGLISH.texts["unexpected"] in stage_of(page, last)
    assert "secret" not in stage_of(page, last)
    assert "secret" in caplog.text
    assert is_ready(page, last)


def test_the_browser_gets_at_most_four_updates_a_second() -> None:
    page = Page(answering(ok_result(), seconds=1.3))
    updates = list(pressed(page))
    assert 3 <= len(updates) <= 2 + 1.3 * 4 + 1


def test_cancel_ends_the_run_and_shows_what_became_of_it() -> None:
    page = Page(answering(ok_result(), seconds=60))
    updates = pressed(page)
    next(updates), next(updates)
    cancel(page, "somebody else")
    next(updates)
    cancel(page, "one")
    *_, last = updates
    assert "Cancelled" in stage_of(page, last)
    assert is_ready(page, last)


def test_leaving_the_page_ends_no_run_and_opening_it_again_brings_the_run_back() -> None:
    runner = answering(ok_result(), seconds=1.5)
    page = Page(runner)
    updates = pressed(page, batch_size=4, mode="lite")
    next(updates), next(updates)
    updates.close()  # type: ignore[attr-defined]
    assert runner.running == 1
    first, *_, last = opened(page)
    assert first[page.run_tab._form.run]["interactive"] is False
    assert first[page.run_tab._form.cancel]["interactive"] is True
    form_fields = page.run_tab._form.inputs
    assert first[form_fields["batch_size"]]["value"] == 4
    assert first[form_fields["mode"]]["value"] == "lite"
    assert "2.00×" in stage_of(page, last)
    assert is_ready(page, last)


def test_a_run_that_ended_while_nobody_watched_is_shown_once() -> None:
    page = Page(answering(ok_result(), seconds=0.5))
    updates = pressed(page)
    next(updates)
    updates.close()  # type: ignore[attr-defined]
    job = page.run_tab._jobs.of(visitor("one"))
    assert job is not None
    while not job.ended:
        time.sleep(0.05)
    *_, last = opened(page)
    assert "2.00×" in stage_of(page, last)
    assert list(opened(page)) == []


def test_two_pages_of_one_visitor_watch_the_same_run_and_cancel_reaches_it_from_either() -> None:
    runner = answering(ok_result(), seconds=60)
    page = Page(runner)
    first = pressed(page)
    next(first), next(first)
    second = opened(page)
    next(second), next(second)
    assert runner.running == 1
    cancel(page, "one")
    for updates in (first, second):
        *_, last = updates
        assert "Cancelled" in stage_of(page, last)


def test_a_reload_in_the_middle_of_a_run_gives_its_picture_back_to_the_form(tmp_path: Path) -> None:
    page = Page(answering(ok_result(), seconds=60))
    own = tmp_path / "own.png"
    own.write_bytes(form.scenes()[1].read_bytes() + b"mine")
    uploaded = save_file_to_cache(own, get_upload_folder())
    updates = pressed(page, image={"path": uploaded})
    next(updates), next(updates)
    again = opened(page)
    assert next(again)[page.run_tab._form.inputs["image"]] == uploaded
    cancel(page, "one")
    list(updates), list(again)


def test_a_run_that_was_begun_before_the_browser_had_its_id_is_found_by_it() -> None:
    page = Page(answering(ok_result(), seconds=60))
    tab = page.run_tab
    values = {name: field.value for name, field in page.run_tab._form.inputs.items()}
    values["image"] = {"path": save_file_to_cache(form.scenes()[0], get_upload_folder())}
    updates = followed(page, page.run_tab._run(from_browser(), None, *values.values()))
    next(updates), next(updates)
    assert tab.is_running(from_browser(), None)
    given = tab._arrive(from_browser(), None)[tab.visitor]  # the page's first answer comes after the press
    elsewhere = SimpleNamespace(session_hash="another page", query_params={})
    assert tab.is_running(elsewhere, given) and not tab.is_running(elsewhere, None)
    tab._cancel(elsewhere, given)
    *_, last = updates
    assert "Cancelled" in stage_of(page, last)
    assert not tab.is_running(from_browser(), None)


def test_new_visitors_have_ids_of_their_own_and_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visitors, "MOST", 3)
    known = visitors.Visitors()
    names = [known.name(None, f"page {number}") for number in range(5)]
    assert len(set(names)) == 5
    assert known.name("not an id", "page 4") == names[4]
    assert known.name(names[0], "page 4") == names[0]
    assert known.name(None, "page 0") != names[0]


@pytest.mark.parametrize(("gpu", "often"), [(None, False), ("Tesla T4", True)], ids=["a CPU", "a GPU"])
def test_a_page_hears_little_while_the_cores_of_its_browser_may_be_timed(
    gpu: str | None, often: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "UPDATE_SECONDS", 0.01)
    monkeypatch.setattr(jobs, "CALM_SECONDS", 60.0)  # until the timing is over
    runner = FakeRunner(lambda *_: ok_result(), seconds=2.0, machine=dataclasses.replace(MACHINE, gpu=gpu))
    job = jobs.Jobs(runner, Line()).start("one", RunSpec("shapes-vit", "image-classification"), form.scenes()[0])
    heard = [news.phase for news in job.watch() if isinstance(news, schema.Progress)]
    assert "check" in heard  # no pause outlasts the timing
    assert (heard.count("time") > 1) is often
    assert heard.count("compile") > 1


def test_question_and_form_do_not_wait_for_the_chart_that_stands_below() -> None:
    page = Page(answering(ok_result()))
    chart = page.run_tab._stage.chart
    assert chart.visible is False
    assert page.run_tab._arrive(from_browser(), None)[chart]["visible"] is True


# ---- the trace


class TracingRunner(FakeRunner):
    """Writes a trace where it is asked for one, as the worker does."""

    asked: list[Path | None]

    def run(self, spec: RunSpec, image: Path, cancel: Any = None, trace: Path | None = None) -> Iterator[Any]:
        self.asked = [*getattr(self, "asked", []), trace]
        if trace is not None:
            trace.write_bytes(b"what the profiler saw")
        yield from super().run(spec, image, cancel, trace)


def trace_of(page: Page, updates: dict[Any, Any]) -> dict[str, Any]:
    (button,) = (fold.trace for fold in page.run_tab._stage.folds if fold.trace is not None)
    shown: dict[str, Any] = updates[button]
    return shown


def test_a_run_with_a_profile_has_its_trace_to_download_until_another_run_begins(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite3")
    history.append(full_result())
    page = Page(runner := TracingRunner(lambda *_: full_result()), history=history)
    *_, last = pressed(page, profile="on")
    (trace,) = runner.asked
    assert trace_of(page, last)["visible"] and trace_of(page, last)["value"] == str(trace)
    (again,) = opened(page, run=full_result().id)
    assert trace_of(page, again)["value"] == str(trace)
    (stranger,) = opened(page, "two", run=full_result().id)
    assert trace_of(page, stranger) == {"value": None, "visible": False, "__type__": "update"}
    assert trace is not None and trace.is_file()
    *_, last = pressed(page, profile="off")
    assert runner.asked[-1] is None and trace_of(page, last)["visible"] is False
    assert not trace.parent.exists()


@pytest.mark.parametrize(
    ("profile", "gpu", "traced"), [("auto", None, False), ("auto", "T4", True), ("off", "T4", False)]
)
def test_auto_traces_on_a_gpu(profile: str, gpu: str | None, traced: bool) -> None:
    runner = TracingRunner(lambda *_: full_result(), machine=dataclasses.replace(MACHINE, gpu=gpu))
    list(pressed(Page(runner), profile=profile))
    assert (runner.asked[-1] is not None) is traced


@pytest.mark.parametrize(
    "answer", [failed_result(), BadInput("Not that one."), RuntimeError("oh")], ids=["failed", "refused", "broken"]
)
def test_a_run_that_wrote_no_trace_leaves_no_folder(
    answer: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    page = Page(answering(answer))
    list(pressed(page, profile="on"))
    assert list(tmp_path.glob(f"{FOLDER_PREFIX}*")) == []


def test_a_job_that_is_forgotten_takes_its_trace_along(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(runner := TracingRunner(lambda *_: full_result()))
    list(pressed(page, profile="on"))
    monkeypatch.setattr("demo.ui.jobs.jobs.KEPT_SECONDS", -1.0)
    list(pressed(page, "two"))
    assert runner.asked[0] is not None and not runner.asked[0].parent.exists()


# ---- links


@pytest.fixture
def history(tmp_path: Path) -> History:
    history = History(tmp_path / "history.sqlite3")
    history.append(ok_result())
    history.append(failed_result())
    return history


def test_a_link_with_a_run_opens_it_as_it_was_shown_with_the_form_as_it_was(history: History) -> None:
    page = Page(answering(ok_result()), history=history)
    *_, pressed_last = pressed(page)
    (shown,) = opened(page, "two", run=ok_result().id)
    assert stage_of(page, shown) == stage_of(page, pressed_last)
    assert shown[page.run_tab._opened] == ok_result().id
    (failed,) = opened(page, "two", run=failed_result().id)
    assert "Batch size 256 ran out of memory" in stage_of(page, failed)
    assert failed[page.run_tab._form.inputs["batch_size"]]["value"] == 256
    assert failed[page.run_tab._form.inputs["text"]] == {"visible": True, "value": "a cat", "__type__": "update"}


def test_opening_a_run_restores_its_picture_or_says_that_it_was_another(history: History) -> None:
    page = Page(answering(ok_result()), history=history)
    fields, note = page.run_tab._form.inputs, page.run_tab._form.picture_note
    (shown,) = opened(page, run=ok_result().id)
    assert fields["image"] not in shown
    assert shown[note]["visible"] and "scene.png" in shown[note]["value"]
    example = form.photographs()[0]
    digest = hashlib.sha256(example.read_bytes()).hexdigest()
    history.append(ok_result(id="known", image=ImageInfo(example.name, 320, 240, digest, "/9j/")))
    (shown,) = opened(page, run="known")
    assert Path(shown[fields["image"]]).read_bytes() == example.read_bytes()
    assert shown[note] == {"visible": False, "__type__": "update"}
    history.append(ok_result(id="hostile", image=ImageInfo(HOSTILE, 320, 240, "00" * 32, "/9j/")))
    (shown,) = opened(page, run="hostile")
    assert HOSTILE not in shown[note]["value"]


def test_opening_the_visitors_own_latest_run_gives_the_uploaded_picture_back(history: History, tmp_path: Path) -> None:
    own = tmp_path / "own.png"
    own.write_bytes(form.scenes()[1].read_bytes() + b"mine")
    image = ImageInfo("own.png", 320, 240, hashlib.sha256(own.read_bytes()).hexdigest(), "/9j/")
    history.append(ok_result(id="mine", image=image))
    page = Page(answering(ok_result(id="mine", image=image)), history=history)
    uploaded = save_file_to_cache(own, get_upload_folder())
    list(pressed(page, image={"path": uploaded}))
    (shown,) = opened(page, run="mine")
    assert shown[page.run_tab._form.inputs["image"]] == uploaded
    (other,) = opened(page, "two", run="mine")
    assert page.run_tab._form.inputs["image"] not in other


@pytest.mark.parametrize("id", ["nothing", "", HOSTILE, "x" * 5000], ids=lambda id: id[:20] or "empty")
def test_a_link_to_a_run_that_is_not_here_says_so(id: str, history: History) -> None:
    page = Page(answering(ok_result()), history=history)
    shown = list(opened(page, run=id))
    if id:
        assert "That run is not here" in stage_of(page, shown[0])
        assert HOSTILE not in stage_of(page, shown[0])
    else:
        assert shown == []


def test_a_link_may_name_a_task_alone_and_set_every_switch() -> None:
    page = Page(answering(ok_result()))
    inputs = page.run_tab._form.inputs
    (filled,) = opened(page, task="object-detection", graph_break="1", channels_last="no")
    assert filled[inputs["checkpoint"]]["value"] == form.checkpoints("object-detection")[0]
    assert filled[inputs["graph_break"]]["value"] is True and filled[inputs["channels_last"]]["value"] is False


def test_a_link_fills_the_form_and_what_is_no_field_of_it_is_passed_over() -> None:
    page = Page(answering(ok_result()))
    link = {"checkpoint": "facebook/detr-resnet-50", "batch_size": "4", "mode": "reduce-overhead", "fullgraph": "true"}
    (filled,) = opened(page, **link, most_seconds="9", __theme="dark", utm="x")
    values = {name: filled[field].get("value") for name, field in page.run_tab._form.inputs.items() if field in filled}
    assert values | {"text": None} == {
        "task": "object-detection",
        "checkpoint": "facebook/detr-resnet-50",
        "batch_size": 4,
        "mode": "reduce-overhead",
        "fullgraph": True,
        "dtype": "float32",
        "device": "auto",
        "weights": "pretrained",
        "text": None,
        "iterations": "",
        "graph_break": False,
        "protocol": "interleaved",
        "precision": "",
        "most_seconds": "9.0",
        "channels_last": False,
        "attention": "auto",
        "threads": "",
        "cache": "keep",
        "profile": "auto",
    }
    unchanged = {name: field.value for name, field in page.run_tab._form.inputs.items()}
    spec, _ = form.read(unchanged | {name: value for name, value in values.items() if value is not None})
    assert (spec.batch_size, spec.most_seconds, spec.fullgraph) == (4, 9.0, True)


def test_the_batch_slider_takes_what_a_link_may_ask_for() -> None:
    page = Page(answering(ok_result()))
    slider = page.run_tab._form.inputs["batch_size"]
    (filled,) = opened(page, batch_size="128")
    assert filled[slider]["value"] == 128 <= slider.maximum == limits.current().batch


@pytest.mark.parametrize(
    ("link", "sentence"),
    [
        ({"batch_size": "many"}, "Batch size must be a whole number"),
        ({"batch_size": "0"}, "Batch size must be a whole number"),
        ({"mode": HOSTILE}, "Unknown compile mode"),
        ({"checkpoint": "/etc/passwd"}, "Only the command line runs a checkpoint from a folder"),
        ({"checkpoint": "somebody/model"}, "its task must be given too"),
        ({"fullgraph": "perhaps"}, "fullgraph is a switch"),
        ({"precision": "nan"}, "precision"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_link_with_a_bad_value_is_answered_with_a_sentence(link: dict[str, str], sentence: str) -> None:
    page = Page(answering(ok_result()))
    (shown,) = opened(page, **link)
    assert sentence in stage_of(page, shown)
    assert HOSTILE not in stage_of(page, shown)
    assert not set(page.run_tab._form.inputs.values()) & set(shown)


def test_the_address_of_a_run_is_told_only_where_it_can_be_opened_again(history: History) -> None:
    page = Page(answering(ok_result()), history=history)
    *_, kept = pressed(page)
    assert kept[page.run_tab._opened] == ok_result().id
    page = Page(answering(ok_result(id="never stored")), history=history)
    *_, lost = pressed(page)
    assert lost[page.run_tab._opened] == ""


def test_a_visitor_has_one_run_at_a_time() -> None:
    page = Page(answering(ok_result(), seconds=60))
    first = pressed(page)
    next(first)
    (refused,) = pressed(page)
    assert "A run of yours is going on already, shapes-vit with batch size 1" in stage_of(page, refused)
    cancel(page, "one")
    list(first)
    third = pressed(page)
    assert next(third)[page.run_tab._form.run]["interactive"] is False
    cancel(page, "one")
    list(third)


@pytest.mark.parametrize("kept", [None, "", "../../etc", 7, "0" * 31], ids=str)
def test_a_browser_without_a_usable_id_is_given_one_and_runs_all_the_same(kept: Any) -> None:
    page = Page(answering(ok_result()))
    given = page.run_tab._arrive(from_browser(), kept)[page.run_tab.visitor]
    assert isinstance(given, str) and re.fullmatch("[0-9a-f]{32}", given)
    values = {name: field.value for name, field in page.run_tab._form.inputs.items()}
    values["image"] = {"path": save_file_to_cache(form.scenes()[0], get_upload_folder())}
    *_, last = followed(page, page.run_tab._run(from_browser(), kept, *values.values()))
    assert "2.00×" in stage_of(page, last)


def test_the_second_visitor_waits_is_told_so_and_runs_in_turn() -> None:
    page = Page(answering(ok_result(), seconds=1.0))
    first, second = pressed(page, "one"), pressed(page, "two")
    next(first), next(first), next(second)
    assert "One run is ahead of yours" in stage_of(page, next(second))
    rest = threading.Thread(target=lambda: list(first))
    rest.start()
    *_, last = second
    rest.join()
    assert "2.00×" in stage_of(page, last)


def test_cancel_leaves_the_line() -> None:
    page = Page(answering(ok_result(), seconds=60))
    first, second = pressed(page, "one"), pressed(page, "two")
    next(first), next(first), next(second), next(second)
    cancel(page, "two")
    *_, last = second
    assert "You left the line" in stage_of(page, last)
    cancel(page, "one")
    list(first)
    assert page.run_tab._jobs._line._places == []


def test_a_full_line_says_so_at_once() -> None:
    line = Line(longest=1)
    with line.join(), pytest.raises(BadInput, match="Try again in a few minutes"):
        line.join()
    assert line.join().wait(0.0) == 0


def test_without_torch_compile_on_zero_gpu_only_the_published_figures_are_offered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPACES_ZERO_GPU", "1")
    page = Page(answering(ok_result()))
    assert page.run_tab._form.run.interactive is False
    english = translations().translations["en"]
    opening = json.loads(page.run_tab._stage.top.value.removeprefix("__i18n__"))["key"]
    assert "There is no torch.compile here" in english[opening]
    *_, last = pressed(page)
    assert "There is no torch.compile on ZeroGPU" in stage_of(page, last)


# ---- what is drawn


def test_texts_from_models_files_and_errors_cannot_become_html() -> None:
    hostile = Predictions(labels=(Label(HOSTILE, 0.9),))
    good = ok_result()
    assert good.compilation is not None and good.environment is not None
    result = dataclasses.replace(
        good,
        id=HOSTILE,
        predictions={"eager": hostile, "compiled": hostile},
        image=ImageInfo(HOSTILE, 1, 1, "00", f'"{HOSTILE}'),
        warnings=(HOSTILE,),
        compilation=dataclasses.replace(
            good.compilation, graph_breaks=(GraphBreak(HOSTILE, HOSTILE),), cudagraphs=HOSTILE
        ),
        environment=dataclasses.replace(good.environment, device_name=HOSTILE, platform=HOSTILE),
        spec=RunSpec(f"{HOSTILE}/model", "image-classification"),
    )
    failed = failed_result(failure=Failure("load", HOSTILE, HOSTILE), warnings=(HOSTILE,))
    spec = result.spec
    pieces = [
        results.headline(result),
        results.predictions(result),
        results.details(result),
        results.failure(failed),
        results.refusal("cannot_be_run", HOSTILE),
        results.question(HOSTILE),
        results.published_note(HOSTILE, "object-detection"),
        results.checkpoint_note(None, HOSTILE),
        results.mode_note(HOSTILE),
        live.strip(Progress(HOSTILE, 0.5, 1.0, message=HOSTILE), spec),
    ]
    for piece in pieces:
        tags = Tags(piece)
        assert not tags.runs_script
        assert HOSTILE not in piece


@pytest.mark.parametrize("name", ["detection", "segmentation"])
def test_boxes_and_masks_are_drawn_for_both_variants(name: str) -> None:
    html = results.predictions(stored(name))
    beside = html[html.index('class="view beside"') : html.index('class="view over"')]
    assert beside.count('<img src="data:image/webp;base64,') == 2
    assert 'class="lane-name eager"' in html and 'class="lane-name compiled"' in html


def test_boxes_can_be_compared_side_by_side_by_a_slider_and_by_their_difference() -> None:
    result = stored("detection")
    html = results.predictions(result)
    assert re.findall(r'type="radio" name="[^"]*" value="(\w+)"( checked)?', html) == [
        ("beside", " checked"), ("over", ""), ("difference", "")
    ]  # fmt: skip
    assert 'type="range"' in html and 'aria-label="Share of the picture' in html
    assert "Every box has its partner: there is no difference to draw." in html
    assert result.predictions is not None
    other = dataclasses.replace(result, predictions=result.predictions | {"compiled": Predictions(boxes=())})
    assert "Where the two differ" in results.predictions(other)


def test_random_weights_draw_nothing_and_say_why() -> None:
    spec = RunSpec("facebook/detr-resnet-50", "object-detection", weights="random")
    html = results.predictions(ok_result(spec=spec, predictions=None))
    assert "predictions would mean nothing" in html
    assert "<img" not in html


def test_the_result_can_be_taken_away_as_json() -> None:
    html = results.details(ok_result())
    found = re.search(r'download="shapes-vit-[\w.-]+\.json" href="data:application/json;base64,([^"]+)"', html)
    assert found is not None
    assert RunResult.from_json(json.loads(base64.b64decode(found[1]))) == ok_result()


def test_the_live_strip_keeps_its_elements_so_that_bars_move_instead_of_jumping() -> None:
    spec = RunSpec("shapes-vit", "image-classification")
    early = Progress("time", 0.4, 3.0, 5.0, "", 4, 0.002, 0.001, Interval(2.0, 1.0, 4.0))
    late = Progress("check", 0.9, 7.0, None, "", 60, 0.002, 0.001, Interval(0.5, 0.49, 0.51))
    assert Tags(live.strip(early, spec)).names == Tags(live.strip(late, spec)).names


# ---- served over HTTP


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, list[tuple[RunSpec, Path]]]]:
    """The page with a fake runner, at a free port; and what the runner was asked."""
    asked: list[tuple[RunSpec, Path]] = []

    def answer(spec: RunSpec, image: Path) -> RunResult | Exception:
        asked.append((spec, image))
        if spec.batch_size == 13:
            return BadInput("Batch size 13 is unlucky. Choose another one.")
        if spec.batch_size == 14:
            return RuntimeError("secret")
        return ok_result(spec=spec)

    history = History()
    for result in (ok_result(), failed_result(), stored("detection")):
        history.append(result)
    page = build(FakeRunner(answer), history=history)
    _, address, _ = launch(page, prevent_thread_lock=True, server_port=None)
    yield address, asked
    page.close(verbose=False)


def test_the_api_runs_the_default_and_answers_with_the_documented_json(served: Any) -> None:
    address, asked = served
    answer = Client(address, verbose=False).predict(api_name="/benchmark")
    spec, image = asked[-1]
    assert RunResult.from_json(answer) == ok_result(spec=spec)
    assert answer["speedup"]["verdict"] == "faster"
    assert answer["eager"]["median_ms"] == pytest.approx(2.04)
    assert (spec.checkpoint, image) == ("shapes-vit", form.scenes()[0])


def test_the_api_takes_every_field_and_an_uploaded_picture(served: Any) -> None:
    address, asked = served
    Client(address, verbose=False).predict(
        checkpoint="google/owlvit-base-patch32",
        task="object-detection",
        image=handle_file(str(form.photographs()[0])),
        batch_size=4,
        mode="max-autotune",
        dtype="bfloat16",
        device="cpu",
        weights="random",
        fullgraph=True,
        text="a lion, a tree",
        iterations=30,
        api_name="/benchmark",
    )
    spec, image = asked[-1]
    assert spec == RunSpec(
        "google/owlvit-base-patch32",
        "object-detection",
        batch_size=4,
        mode="max-autotune",
        fullgraph=True,
        dtype="bfloat16",
        device="cpu",
        weights="random",
        text=("a lion", "a tree"),
        iterations=30,
    )
    assert image.read_bytes() == form.photographs()[0].read_bytes()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"batch_size": 0}, "Batch size must be a whole number from 1 to"),
        ({"batch_size": 13}, "Batch size 13 is unlucky. Choose another one."),
        ({"checkpoint": "no/such model"}, "Unknown checkpoint"),
        ({"image": {"path": "/etc/hostname"}}, "must be an uploaded file"),
        ({"batch_size": 14}, "an error that it did not expect"),
    ],
    ids=["spec", "worker", "checkpoint", "path", "unexpected"],
)
def test_the_api_refuses_with_a_sentence(served: Any, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(AppError, match=re.escape(sentence)):
        Client(served[0], verbose=False).predict(**given, api_name="/benchmark")


def test_the_api_lists_the_stored_runs_newest_first_as_rows(served: Any) -> None:
    client = Client(served[0], verbose=False)
    rows = client.predict(api_name="/history")
    assert [row["started_at"] for row in rows] == sorted((row["started_at"] for row in rows), reverse=True)
    assert len(rows) == 3
    found = {row["id"]: row for row in client.predict(search="image-classification", api_name="/history")}
    assert found[ok_result().id]["speedup"] == pytest.approx(2.0, abs=0.01)
    assert len(client.predict(limit=1, api_name="/history")) == 1


def test_the_api_gives_one_stored_run_whole(served: Any) -> None:
    client = Client(served[0], verbose=False)
    (one,) = client.predict(id=ok_result().id, api_name="/history")
    assert RunResult.from_json(one) == ok_result()
    (same,) = client.predict(search=ok_result().id, whole=True, api_name="/history")
    assert same == one


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"id": "nothing"}, "No stored run has the id 'nothing'"),
        ({"limit": 0}, "whole number from 1 to 200. Given: 0"),
        ({"limit": 100_000}, "whole number from 1 to 200"),
        ({"limit": "many"}, "whole number from 1 to 200. Given: many"),
    ],
    ids=str,
)
def test_the_api_refuses_what_it_cannot_list_with_a_sentence(served: Any, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(AppError, match=re.escape(sentence)):
        Client(served[0], verbose=False).predict(**given, api_name="/history")


def test_the_api_offers_its_endpoints_and_documents_their_fields(served: Any) -> None:
    described = Client(served[0], verbose=False).view_api(return_format="dict")
    assert set(described["named_endpoints"]) == {"/benchmark", "/history", "/published"}
    listed = [field["parameter_name"] for field in described["named_endpoints"]["/history"]["parameters"]]
    assert listed == ["id", "search", "limit", "whole"]
    assert described["unnamed_endpoints"] == {}
    fields = {field["parameter_name"]: field for field in described["named_endpoints"]["/benchmark"]["parameters"]}
    assert sorted(fields) == sorted(
        (
            "checkpoint task image batch_size mode dtype device weights fullgraph text iterations "
            "protocol precision most_seconds channels_last attention threads cache graph_break profile whole"
        ).split()
    )
    allowed = {"mode": schema.MODES, "dtype": schema.DTYPES, "device": schema.DEVICES, "weights": schema.WEIGHTS}
    allowed |= {"protocol": schema.PROTOCOLS, "attention": schema.ATTENTIONS, "cache": schema.CACHES}
    for name, values in allowed.items():
        assert fields[name]["type"]["enum"] == list(values)


@pytest.mark.parametrize(
    "path", ["pyproject.toml", "app.py", "assets/published/published.csv", "demo/ui/look/page.css"]
)
def test_no_file_of_the_project_is_served(served: Any, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{served[0]}gradio_api/file={ROOT / path}")
    assert refused.value.code in (403, 404)


def test_pictures_are_served_wherever_the_app_was_started_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = build(answering(ok_result()))
    _, address, _ = launch(page, prevent_thread_lock=True)
    try:
        config = json.loads(urllib.request.urlopen(f"{address}config").read())
        named = {part["props"].get("elem_id"): part for part in config["components"]}
        assert urllib.request.urlopen(named["picture"]["props"]["value"]["url"]).status == 200
        preset = named["preset-1"]["id"]
        (pressed,) = (one for one in config["dependencies"] if [preset, "click"] in one["targets"])
        sent = {"fn_index": pressed["id"], "data": [None], "session_hash": "a page", "trigger_id": preset}
        request = urllib.request.Request(
            f"{address}gradio_api/run/predict", json.dumps(sent).encode(), {"Content-Type": "application/json"}
        )
        answer = urllib.request.urlopen(request).read().decode()
        (picture,) = set(re.findall(r'"url": *"([^"]+png)"', answer))
        assert urllib.request.urlopen(picture).status == 200
    finally:
        page.close(verbose=False)


def test_the_page_asks_nothing_of_the_outside(served: Any) -> None:
    """Fonts and scripts come from this server; gradio's own page only names its home and its preview picture."""
    html = urllib.request.urlopen(served[0]).read().decode()
    fetched = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"', html)
    assert [url for url in fetched if not url.startswith(served[0])] == []


def test_the_servers_queue_lies_still_while_nobody_asks_for_anything() -> None:
    """gradio looks a thousand times a second otherwise, on the cores on which a model may be timed."""
    blocks = build(answering(ok_result()))
    launch(blocks, prevent_thread_lock=True)
    try:
        looks = inspect.getsource(Queue.start_processing) + inspect.getsource(Queue.start_progress_updates)
        waits = set(re.findall(r"asyncio\.sleep\(self\.(\w+)\)", looks))
        assert {getattr(blocks._queue, name) for name in waits} == {LOOK_SECONDS}
    finally:
        blocks.close(verbose=False)


def test_the_server_keeps_no_more_sessions_than_its_memory_is_meant_for() -> None:
    """Each call of the API counts as a session, and gradio would keep ten thousand of them."""
    page = build(answering(ok_result()))
    app, _, _ = launch(page, prevent_thread_lock=True)
    try:
        assert app.state_holder.capacity == SESSIONS
    finally:
        page.close(verbose=False)
