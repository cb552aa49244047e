"""Stage mode without a browser: the presets of its keys, and the pre-flight; a fake runner stands for the models."""

import dataclasses
import re

from support.fake_runner import FakeRunner
from support.page_support import followed, from_browser, is_ready, press, visitor
from support.samples import MACHINE, failed_result, full_result

from demo.core import catalog
from demo.core.catalog import PROMPT
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


def test_a_cancelled_pre_flight_keeps_what_is_ready(quick) -> None:
    runner = FakeRunner(lambda spec, _: full_result(spec=spec), seconds=0.1)
    page = Page(runner)
    screen, id = page.stage_bar, visitor("another")

    def answer(spec: RunSpec, _: object) -> RunResult:
        runner.hold = len(runner.runs) == 2
        return full_result(spec=spec)

    runner.answer = answer
    html = ""
    for updates in followed(page, screen, press(page, screen.pre_flight, id)):
        html = updates.get(page.run_tab.pane.live, "")
        if runner.hold:
            press(page, page.run_tab.form.cancel, id, request=from_browser())
    assert re.findall(r'<tr class="([\w ]+)"', html) == ["ready", *3 * ["not run"]]
