"""Tests of the tab Run without a browser and with a fake runner: the updates that its events send."""

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
    ended,
    field_values,
    forecast,
    from_browser,
    handler,
    in_the_form,
    is_ready,
    noisy_result,
    open_page,
    press_run,
    stage_of,
    visitor,
)
from support.samples import failed_result, full_result, measurement, ok_result

from demo.core import catalog, cores, format as fmt
from demo.core.caveat import note
from demo.core.machine import HostSample
from demo.core.progress import Provisional
from demo.store.history import History
from demo.ui.page import Page
from demo.ui.tabs import form, run_tab
from demo.ui.tabs.headline import recorded_run, recorded_runs
from demo.ui.tabs.run_tab import latest_answer


@pytest.mark.parametrize(
    ("checkpoint", "has_run", "can_load"),
    [
        ("shapes-vit", False, True),
        ("microsoft/resnet-50", False, True),
        ("shapes-vit", True, True),
        ("shapes-vit", False, False),
    ],
    ids=["unchanged", "another model", "after a run", "no weights"],
)
def test_a_gpu_changes_only_an_unchanged_form(checkpoint: str, has_run: bool, can_load: bool, monkeypatch) -> None:
    monkeypatch.setattr("demo.core.hub.can_load", lambda checkpoint: can_load)
    page = Page(FakeRunner(lambda *_: ok_result(), machine=dataclasses.replace(MACHINE, gpu="Tesla T4")))
    settle = handler(page, takes=page.run_tab.has_run, changes=page.run_tab.form.inputs["image"])
    model, picture = settle(checkpoint, in_the_form(form.scenes()[0]), has_run)
    if (checkpoint, has_run, can_load) == ("shapes-vit", False, True):
        assert (model, Path(picture).name) == ("google/vit-base-patch16-224", "lion.jpg")
    else:
        assert model == picture == gr.skip()


@pytest.mark.parametrize(("gpu", "visible"), [(None, True), ("Tesla T4", False)], ids=["a CPU", "a GPU"])
def test_a_busy_processor_is_noted_if_runs_use_it(gpu: str | None, visible: bool, monkeypatch) -> None:
    monkeypatch.setattr(cores, "others_share", lambda: 0.4)
    monkeypatch.setattr(run_tab, "DRAWING_SECONDS", 0.0)
    page = Page(FakeRunner(lambda *_: ok_result(), machine=dataclasses.replace(MACHINE, gpu=gpu)))
    updates = handler(page, only=[page.run_tab.form.busy, page.run_tab.form.run_when_quiet])()
    assert [update["visible"] for update in updates] == [visible, visible]


@pytest.mark.parametrize("show", [open_page, press_run], ids=["a new page", "an answer"])
def test_the_browser_that_draws_the_page_makes_no_estimate_longer(show: Any, history: History, monkeypatch) -> None:
    history.append(ok_result(spec=catalog.make_spec(catalog.DEFAULT, device="cpu")))
    monkeypatch.setattr(cores, "crowd", lambda: cores.Crowd(4.0))
    page = Page(FakeRunner(lambda *_: ok_result()), history=history)
    longer = "other programs make it 4 times as long"
    assert longer in forecast(page)
    list(show(page))
    assert longer not in forecast(page)
    monkeypatch.setattr(run_tab, "DRAWING_SECONDS", 0.0)
    assert longer in forecast(page)


def choose(page: Page, checkpoint: str, task: str, has_run: bool = False) -> Any:
    """Returns the updates after a change of the checkpoint."""
    changed = page.run_tab.form.inputs["checkpoint"], "change"
    return handler(page, changes=page.run_tab.pane.top, of=changed)(checkpoint, task, has_run)


def test_what_is_no_model_is_refused_once(page: Page) -> None:
    updates, refusal = choose(page, "../etc", "detection"), str(markupsafe.escape(catalog.id_refusal("../etc")))
    assert refusal in forecast(page, checkpoint="../etc")
    assert updates[page.run_tab.form.checkpoint_note] == "" and refusal not in updates[page.run_tab.pane.top]


def test_a_checkpoint_decides_the_task_and_is_asked_about_until_there_is_a_result(page: Page) -> None:
    top, fields = page.run_tab.pane.top, page.run_tab.form.inputs
    updates = choose(page, "google/owlvit-base-patch32", "object-detection")
    assert "owlvit-base-patch32" in updates[top] and updates[fields["text"]]["visible"]
    updates = choose(page, "microsoft/resnet-50", "object-detection", has_run=True)
    assert updates[fields["task"]] == "image-classification" and not updates[fields["text"]]["visible"]
    assert top not in updates


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"batch_size": None}, "Batch size must be a whole number"),
        ({"image": None}, "There is no picture"),
        ({"image": {"path": __file__}}, "must be an uploaded file"),
    ],
    ids=["batch size", "no picture", "a file of the server"],
)
def test_bad_input_is_a_sentence_on_the_stage(changes: dict[str, Any], sentence: str, page: Page) -> None:
    (only,) = press_run(page, **changes)
    assert sentence in stage_of(page, only) and is_ready(page, only)


def test_a_run_shows_its_answer() -> None:
    page = Page(answering(full_result(caveats=(note("It was odd."),))))
    pane, (first, *_, last) = page.run_tab.pane, press_run(page)
    assert not first[page.run_tab.form.run]["interactive"] and first[page.run_tab.form.cancel]["interactive"]
    assert not first[pane.notice]["visible"] and not first[pane.best]["visible"]
    assert '<span class="figure number">2.00×</span>' in last[pane.top] and "Pays after" in last[pane.top]
    assert is_ready(page, last) and "circle" in last[pane.outputs.labels["eager"]]["value"]


@pytest.mark.parametrize("share", [0.0, 0.4], ids=["quiet", "busy"])
def test_an_answer_of_a_busy_machine_offers_a_quiet_run(share: float) -> None:
    states = tuple(HostSample(float(at), share, None, 2.0) for at in range(4))
    page = Page(answering(ok_result(machine_states=states)))
    *_, last = press_run(page)
    assert last[page.run_tab.form.run_when_quiet].get("visible", False) is (share > 0)


def test_the_answer_is_shown_while_the_later_start_is_measured(history: History) -> None:
    result, measured = full_result(), threading.Event()
    history.append(result)

    class Runner(FakeRunner):
        def run(self, *_: Any, **__: Any) -> Iterator[Any]:
            while not measured.wait(0.01):
                answer = dataclasses.replace(result, compilation=ok_result().compilation)
                yield Provisional("check", 0.95, 5.0, result=answer)
            yield result

    page = Page(Runner(lambda *_: result), history=history)
    tab, pane = page.run_tab, page.run_tab.pane
    updates = press_run(page)
    job = next(updates)[tab.work_shown]
    *_, early = updates
    assert not job.ended and "2.00×" in stage_of(page, early)
    assert early[pane.notice]["visible"] and not early[pane.live]["visible"]
    assert "played in" not in early[pane.race]["value"]  # an animation would take a core from what is measured
    assert tab.form.run not in early and tab.shown_id not in early  # the run goes on, and is not stored
    over = handler(page, takes=tab.work_shown, only=tab._ending)
    measured.set()
    last = over(ended(job))
    assert is_ready(page, last) and last[tab.shown_id] == result.id and not last[pane.notice]["visible"]
    assert "played in" in last[pane.race]["value"]
    assert last[tab.work_shown] is None


def test_an_unexpected_error_keeps_its_message_to_the_log(caplog) -> None:
    page = Page(answering(RuntimeError("secret words")))
    pane, (*_, last) = page.run_tab.pane, press_run(page)
    assert "Something went wrong on the server" in last[pane.notice]["value"] and last[pane.notice]["visible"]
    assert "secret" in caplog.text and "secret" not in stage_of(page, last)
    assert is_ready(page, last) and last[pane.live]["visible"] is False
    assert not {pane.top, pane.outputs.column} & set(last)  # what was shown before stays


def test_a_run_outlives_its_page() -> None:
    runner = answering(ok_result(), seconds=1.5)
    page = Page(runner)
    updates = press_run(page, batch_size=4, mode="lite")
    next(updates), next(updates)
    updates.close()  # type: ignore[attr-defined]
    assert runner.running == 1
    fields, (first, *_, last) = page.run_tab.form.inputs, open_page(page)
    assert not is_ready(page, first)
    assert [first[fields[name]]["value"] for name in ("batch_size", "mode")] == [4, "lite"]
    assert "2.00×" in stage_of(page, last) and is_ready(page, last)


def test_a_run_that_ended_unseen_is_shown_once() -> None:
    page = Page(answering(ok_result(), seconds=0.5))
    updates = press_run(page)
    job = next(updates)[page.run_tab.work_shown]
    updates.close()  # type: ignore[attr-defined]
    ended(job)
    *_, last = open_page(page)
    assert "2.00×" in stage_of(page, last)
    assert list(open_page(page)) == []


@pytest.fixture
def answered(history: History) -> Page:
    """Returns a page with a stored answer for the form's first settings. New runs take a minute."""
    history.append(ok_result(spec=catalog.make_spec(catalog.DEFAULT, device="cpu"), elapsed_seconds=1.0))
    return Page(answering(full_result(), seconds=60), history=history)


def test_visitors_run_in_turn(answered: Page) -> None:
    page, runner = answered, answered.desk.runner
    runner.answer, runner.seconds = (lambda *_: ok_result()), 0.3
    runner.hold = True
    first, second, third = (press_run(page, name) for name in ("one", "two", "three"))
    next(first), next(first), next(second), next(third)
    waits = stage_of(page, next(second))
    assert "Runs ahead of yours: 1" in waits and "Yours takes about 1 s." in waits
    assert f'2.00× (1.993 to 2.007×). <a href="?run={ok_result().id}">Open it</a>' in waits
    cancel(page, "two")
    *_, last = second
    assert "You left the queue" in stage_of(page, last)
    cancel(page, "one")
    *_, last = first
    assert "Cancelled" in stage_of(page, last) and is_ready(page, last)
    runner.hold = False
    *_, last = third
    assert "2.00×" in stage_of(page, last)


@pytest.mark.parametrize(("batch_size", "noted"), [(1, False), (2, True)], ids=["its settings", "others"])
def test_an_answer_of_other_settings_has_a_note(batch_size: int, noted: bool, answered: Page) -> None:
    tab = answered.run_tab
    changed = handler(answered, only=[tab.form.forecast, tab.pane.notice])
    _, update = changed(ok_result().id, *field_values(answered, batch_size=batch_size).values())
    assert update["visible"] is noted


def test_key_s_ends_a_run_that_takes_too_long(answered: Page, quick) -> None:
    page, stages = answered, []
    for updates in press_run(page):
        stages.append(stage_of(page, updates))
        if "Key S" in stages[-1]:
            assert page.run_tab.show_recorded(from_browser(), visitor("one"), *field_values(page).values())
    assert "Key S" not in stages[1] and "longer than announced" in stages[-2]
    assert "Recorded" in stages[-1] and "2.00×" in stages[-1]
    assert is_ready(page, updates)
    assert list(open_page(page)) == []


def test_key_s_shows_the_latest_answer_of_the_settings(answered: Page, history: History) -> None:
    history.append(ok_result(spec=catalog.make_spec(catalog.DEFAULT, device="cpu", batch_size=2), id="another"))
    history.append(failed_result(spec=catalog.make_spec(catalog.DEFAULT, device="cpu")))  # later, and no answer
    tab = answered.run_tab
    shown, missing, wrong = (
        tab.show_recorded(gr.Request(), None, *field_values(answered, batch_size=size).values()) for size in (1, 3, 0)
    )
    assert shown[tab.shown_id] == ok_result().id
    assert f"on {ok_result().environment.device_name}" in shown[tab.pane.top]
    assert f"Recorded {fmt.minute(ok_result().started_at)} UTC" in shown[tab.pane.top]
    assert "No answer of these settings" in missing[tab.pane.notice]["value"]
    assert "Batch size" in wrong[tab.pane.notice]["value"]


def test_the_latest_answer_is_the_newest_usable_one() -> None:
    spec = catalog.make_spec("shapes-segformer", device="cpu")
    taken = tuple(HostSample(float(at), 0.5, None, 0.9) for at in range(3))
    busy = ok_result(id="busy", spec=spec, machine_states=taken, compiled=measurement(0.0018))
    good, void = ok_result(id="good", spec=spec), noisy_result(id="noisy", spec=spec)
    (recorded,) = [run for run in recorded_runs() if run.spec.checkpoint == spec.checkpoint]
    assert latest_answer(spec, [busy, void, good]) == good
    assert latest_answer(spec, [busy, void]) == recorded
    own = dataclasses.replace(spec, batch_size=7)
    noisy = dataclasses.replace(void, spec=own)
    assert latest_answer(own, [noisy]) == noisy and latest_answer(own, []) is None


def test_key_s_shows_an_answer_recorded_elsewhere(answered: Page) -> None:
    tab, model = answered.run_tab, {"checkpoint": "shapes-segformer", "task": "image-segmentation"}
    shown = tab.show_recorded(gr.Request(), None, *field_values(answered, **model).values())
    assert (
        "Recorded" in shown[tab.pane.top]
        and recorded_run("shapes-segformer").environment.device_name in shown[tab.pane.top]
    )
    assert shown[tab.shown_id] == ""
