"""The Run tab without a browser: what its events send. A fake runner stands for the models."""

import dataclasses
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr
import markupsafe
import pytest
from support.fake_runner import MACHINE, FakeRunner
from support.page_support import (
    answering,
    cancel,
    chosen,
    ended,
    field_values,
    forecast,
    from_browser,
    handler,
    in_the_form,
    is_ready,
    opened,
    pressed,
    stage_of,
    visitor,
)
from support.samples import full_result, ok_result

from demo.core import catalog, cores, format as fmt, refusals
from demo.core.caveat import note
from demo.core.machine import HostSample
from demo.core.progress import Progress
from demo.core.result import RunResult
from demo.core.spec import BadInput
from demo.store.history import History
from demo.ui.page import Page
from demo.ui.tabs import form, run_tab

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def page() -> Page:
    """Its runs take no time."""
    return Page(answering(ok_result()))


def test_a_gpu_machine_changes_only_a_form_that_nobody_touched(monkeypatch) -> None:
    monkeypatch.setattr("demo.core.hub.can_load", lambda checkpoint: True)
    page = Page(FakeRunner(lambda *_: ok_result(), machine=dataclasses.replace(MACHINE, gpu="Tesla T4")))
    untouched = in_the_form(form.scenes()[0])
    fields = page.run_tab.form.inputs
    settle = handler(page, takes=page.run_tab.has_run, changes=fields["image"])
    checkpoint, picture = settle("shapes-vit", untouched, False)
    assert (checkpoint, Path(picture).name) == ("google/vit-base-patch16-224", "lion.jpg")
    for given in (("microsoft/resnet-50", untouched, False), ("shapes-vit", untouched, True)):
        assert settle(*given) == (gr.skip(), gr.skip())
    monkeypatch.setattr("demo.core.hub.can_load", lambda checkpoint: False)
    assert settle("shapes-vit", untouched, False) == (gr.skip(), gr.skip())


@pytest.mark.parametrize(("gpu", "told"), [(None, True), ("Tesla T4", False)], ids=["a CPU", "a GPU"])
def test_a_busy_processor_is_told_where_runs_use_it(gpu: str | None, told: bool, monkeypatch) -> None:
    monkeypatch.setattr(cores, "others_share", lambda: 0.4)
    monkeypatch.setattr(run_tab, "DRAWING_SECONDS", 0.0)
    page = Page(FakeRunner(lambda *_: ok_result(), machine=dataclasses.replace(MACHINE, gpu=gpu)))
    tab = page.run_tab
    shown = handler(page, only=[tab.form.busy, tab.form.run_when_quiet])()
    assert [update["visible"] for update in shown] == [told, told]


def test_what_names_no_model_is_not_asked_about_but_refused(page: Page) -> None:
    for named in ["not a model!!", "../etc", ""]:
        _, note, _, top = chosen(page, named, "image-classification", False)
        refused = str(markupsafe.escape(catalog.refusal(named)))
        assert refused and note == "" and refused in forecast(page, checkpoint=named)  # said once
        if named:
            assert refused not in top and "this model" not in top and "Which model" in top


def test_choosing_a_checkpoint_asks_about_it_until_there_is_a_result(page: Page) -> None:
    task, _, text, top = chosen(page, "google/owlvit-base-patch32", "object-detection", False)
    assert text["visible"] is True and "value" not in task
    assert "owlvit-base-patch32" in top
    assert "value" not in chosen(page, "microsoft/resnet-50", "image-classification", True)[3]
    typed = chosen(page, "microsoft/resnet-50", "object-detection", False)
    assert typed[0] == "image-classification" and typed[2]["visible"] is False


def test_bad_input_is_a_sentence_on_the_stage(page: Page) -> None:
    for changes, sentence in [
        ({"batch_size": None}, "Batch size must be a whole number"),
        ({"image": None}, "There is no picture"),
        ({"image": {"path": str(ROOT / "pyproject.toml")}}, "must be an uploaded file"),
    ]:
        (only,) = pressed(page, **changes)
        assert sentence in stage_of(page, only)
        assert is_ready(page, only)


def test_a_refusal_stands_above_what_was_there_before_and_takes_nothing_away() -> None:
    page = Page(answering(BadInput("Not that one.")))
    stage, (*_, last) = page.run_tab.pane, pressed(page)
    assert last[stage.notice]["visible"] and "This cannot be run" in last[stage.notice]["value"]
    assert last[stage.live]["visible"] is False
    assert not {stage.top, stage.outputs.column} & set(last)


def test_run_shows_its_answer_and_can_be_pressed_again() -> None:
    page = Page(answering(full_result(caveats=(note("It was odd."),))))
    first, *_, last = pressed(page)
    assert not first[page.run_tab.form.run]["interactive"] and first[page.run_tab.form.cancel]["interactive"]
    for says in ('<span class="figure number">2.00×</span>', "Pays after"):
        assert says in stage_of(page, last)
    assert is_ready(page, last)
    assert "circle" in last[page.run_tab.pane.outputs.labels["eager"]]["value"]


@pytest.mark.parametrize("share", [0.0, 0.4], ids=["quiet", "busy"])
def test_an_answer_of_a_busy_machine_offers_a_run_when_it_is_quiet(share: float) -> None:
    states = tuple(HostSample(float(at), share, None, 2.0) for at in range(4))
    page = Page(answering(ok_result(machine_states=states)))
    *_, last = pressed(page)
    assert last[page.run_tab.form.run_when_quiet].get("visible", False) is (share > 0)


def answering_early(early: RunResult, last: RunResult) -> tuple[FakeRunner, threading.Event]:
    """A runner whose run has an answer, and after the event its later start, too."""
    measured = threading.Event()

    class Early(FakeRunner):
        def run(self, *_: Any, **__: Any) -> Iterator[Any]:
            while not measured.wait(0.01):
                yield Progress("check", 0.95, 5.0, answer=early)
            yield Progress("done", 1.0, 6.0)
            yield last

    return Early(lambda *_: last), measured


def test_the_answer_is_shown_while_the_later_start_is_measured(history: History) -> None:
    result = full_result()
    history.append(result)
    runner, measured = answering_early(dataclasses.replace(result, compilation=ok_result().compilation), result)
    page = Page(runner, history=history)
    tab, pane = page.run_tab, page.run_tab.pane
    updates = pressed(page)
    job = next(updates)[tab.watched]
    *_, early = updates
    assert not job.ended and "2.00×" in stage_of(page, early)
    assert early[pane.notice]["visible"] and not early[pane.live]["visible"]
    assert tab.form.run not in early and tab.shown_id not in early  # the run goes on, and is not stored
    over = handler(page, takes=tab.watched, only=tab._ending)
    measured.set()
    last = over(ended(job))
    assert is_ready(page, last) and last[tab.shown_id] == result.id and not last[pane.notice]["visible"]
    assert all("open" not in last[fold] for fold in pane.folds.values())  # the reader may have opened one
    assert last[tab.watched] is None


def test_an_unexpected_error_is_told_calmly_and_keeps_its_message_to_the_log(caplog) -> None:
    page = Page(answering(RuntimeError("secret words")))
    *_, last = pressed(page)
    assert "Something went wrong on the server" in stage_of(page, last)
    assert "secret" in caplog.text and "secret" not in stage_of(page, last)
    assert is_ready(page, last)


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
    begun = page.run_tab.form
    assert not first[begun.run]["interactive"] and first[begun.cancel]["interactive"]
    assert [first[begun.inputs[name]]["value"] for name in ("batch_size", "mode")] == [4, "lite"]
    assert "2.00×" in stage_of(page, last) and is_ready(page, last)


def test_a_run_that_ended_while_nobody_watched_is_shown_once() -> None:
    page = Page(answering(ok_result(), seconds=0.5))
    updates = pressed(page)
    job = next(updates)[page.run_tab.watched]
    updates.close()  # type: ignore[attr-defined]
    ended(job)
    *_, last = opened(page)
    assert "2.00×" in stage_of(page, last)
    assert list(opened(page)) == []


def test_the_second_visitor_waits_is_told_so_and_may_leave_or_runs_in_turn() -> None:
    page = Page(runner := answering(ok_result(), seconds=0.3))
    runner.hold = True
    first, second, third = (pressed(page, name) for name in ("one", "two", "three"))
    next(first), next(first), next(second), next(third)
    assert "Runs ahead of yours: 1" in stage_of(page, next(second))
    cancel(page, "two")
    *_, last = second
    assert "You left the queue" in stage_of(page, last)
    cancel(page, "one")
    list(first)
    runner.hold = False
    *_, last = third
    assert "2.00×" in stage_of(page, last)


def test_the_recorded_answer_ends_a_run_that_takes_too_long(history: History, quick) -> None:
    runner = FakeRunner(lambda *_: full_result(), seconds=60)
    page = Page(runner, history=history)
    spec = refusals.on_machine(form.spec_and_picture(field_values(page))[0], runner.machine)
    history.append(dataclasses.replace(ok_result(spec=spec), elapsed_seconds=0.2))
    stages = []
    for updates in pressed(page):
        stages.append(stage_of(page, updates))
        if "Key S" in stages[-1]:
            page.run_tab.show_recorded(from_browser(), visitor("one"), *field_values(page).values())
    assert "Key S" not in stages[0] and "longer than announced" in stages[-2]
    assert "Recorded" in stages[-1] and "2.00×" in stages[-1]
    assert is_ready(page, updates)


def test_the_recorded_answer_is_the_latest_of_the_form_s_settings_and_is_marked(history: History) -> None:
    page = Page(answering(ok_result()), history=history)
    pane, values = page.run_tab.pane, field_values(page).values()
    shown = page.run_tab.show_recorded(gr.Request(), None, *values)
    assert "No answer of these settings" in shown[pane.notice]["value"]
    wrong = page.run_tab.show_recorded(gr.Request(), None, *field_values(page, batch_size=0).values())
    assert "Batch size" in wrong[pane.notice]["value"]
    spec = form.spec_and_picture(field_values(page))[0]
    run = ok_result(spec=refusals.on_machine(spec, page.run_tab.runner.machine))
    history.append(run)
    history.append(dataclasses.replace(ok_result(spec=dataclasses.replace(run.spec, batch_size=2)), id="another"))
    shown = page.run_tab.show_recorded(gr.Request(), None, *values)
    assert f"Recorded {fmt.minute(run.started_at)} UTC" in shown[pane.top] and shown[page.run_tab.shown_id] == run.id
