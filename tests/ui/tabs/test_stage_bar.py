"""Tests of stage mode without a browser and with a fake runner: the runs of its keys, and the pre-flight."""

import dataclasses
import re

from support.fake_runner import FakeRunner
from support.page_support import field_values, followed, from_browser, is_ready, press, visitor
from support.samples import MACHINE, failed_result, full_result, ok_result

from demo.core import catalog
from demo.core.catalog import PROMPT
from demo.core.machine import HostSample
from demo.core.options import TEXT_GENERATION, RunSpec
from demo.core.result import RunResult
from demo.ui.page import Page
from demo.ui.tabs.form import default_picture, servable
from demo.ui.tabs.stage_bar import SEGFORMER, presets


def test_a_preset_needs_no_network(monkeypatch) -> None:
    assert all(catalog.find(spec.checkpoint).bundled for spec in presets(MACHINE).values())
    for loads, weights in ((False, "random"), (True, "pretrained")):
        monkeypatch.setattr("demo.core.hub.can_load", lambda checkpoint, loads=loads: loads)
        spec = presets(dataclasses.replace(MACHINE, gpu="Tesla T4"))["Segformer"]
        assert (spec.checkpoint, spec.weights) == (SEGFORMER, weights)


def test_a_preset_fills_the_form(page: Page) -> None:
    fields = page.run_tab.form.inputs
    (button,) = (part for part in page.blocks.values() if part.elem_id == "preset-3")
    filled = press(page, button, "max-autotune")
    assert filled[fields["mode"]]["value"] == "max-autotune" and filled[fields["checkpoint"]]["value"] == "shapes-vit"
    assert filled[fields["image"]] == servable(default_picture("shapes-vit"))


def test_each_preset_is_run_once_with_its_picture(quick) -> None:
    runner = FakeRunner(
        lambda spec, _: failed_result(spec=spec) if spec.task == TEXT_GENERATION else full_result(spec=spec)
    )
    page = Page(runner)
    screen = page.stage_bar
    *_, last = followed(page, screen, press(page, screen.pre_flight, visitor("a speaker")))
    html = last[page.run_tab.pane.live]
    assert "Pre-flight: 3 of 4 ready" in html
    assert re.findall(r'<tr class="(\w+)"', html) == ["ready", "ready", "ready", "failed"]
    assert "starts in 3.4 s with the kept cache" in html
    assert runner.runs == [
        RunSpec("shapes-segformer", "image-segmentation", device="cpu"),
        RunSpec("shapes-vit", "image-classification", device="cpu", graph_break=True),
        RunSpec("shapes-vit", "image-classification", device="cpu", mode="max-autotune"),
        RunSpec("shapes-gemma", TEXT_GENERATION, device="cpu", prompt=PROMPT),
    ]
    assert runner.pictures == [default_picture(spec.checkpoint) for spec in runner.runs]
    assert is_ready(page, last)


def test_an_answer_that_cannot_stand_for_another_run_is_not_ready(quick) -> None:
    """Key S, which shows a stored answer in place of a run, would not show such an answer."""
    busy = (HostSample(at_seconds=0.0, foreign_cpu=0.5, free_cores=1.0),)
    page = Page(FakeRunner(lambda spec, _: full_result(spec=spec, machine_states=busy)))
    screen = page.stage_bar
    *_, last = followed(page, screen, press(page, screen.pre_flight, visitor("a third")))
    html = last[page.run_tab.pane.live]
    assert "Pre-flight: 0 of 4 ready" in html and html.count("<td>not usable</td>") == 4


def test_a_cancelled_pre_flight_keeps_what_is_ready(quick) -> None:
    runner = FakeRunner(lambda spec, _: full_result(spec=spec), seconds=0.1)
    page = Page(runner)
    screen, id = page.stage_bar, visitor("another")

    def answer(spec: RunSpec, _: object) -> RunResult:
        runner.hold = len(runner.runs) == 2
        return full_result(spec=spec)

    runner.answer = answer
    html, left = "", set()
    for updates in followed(page, screen, press(page, screen.pre_flight, id)):
        html = updates.get(page.run_tab.pane.live, "")
        left |= set(re.findall("of 4 ready(, about [0-9]+)?", str(html)))  # the time that is left
        if runner.hold:
            press(page, page.run_tab.form.cancel, id, request=from_browser())
    assert re.findall(r'<tr class="([\w ]+)"', html) == ["ready", *3 * ["not run"]]
    assert len(left) > 1 and re.search("of 4 ready<", str(html))


def test_key_s_ends_a_pre_flight(quick, history) -> None:
    history.append(ok_result(spec=catalog.make_spec(catalog.DEFAULT, device="cpu")))
    page = Page(FakeRunner(lambda spec, _: full_result(spec=spec), seconds=60), history=history)
    tab, screen, id = page.run_tab, page.stage_bar, visitor("a fourth")
    followed_flight = followed(page, screen, press(page, screen.pre_flight, id))
    next(followed_flight)
    nothing = tab.show_recorded(from_browser(), id, *field_values(page, batch_size=7).values())
    assert "No answer of these settings" in nothing[tab.pane.notice]["value"]
    assert not page.desk.works.of(id).stopped
    shown = tab.show_recorded(from_browser(), id, *field_values(page).values())
    assert "Recorded" in shown[tab.pane.top]
    *_, last = followed_flight
    assert is_ready(page, last)
