"""Stage mode and what is taken away, in a real browser. A fake runner stands for the models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_runner import FakeRunner
from page_support import stored
from samples import measurement, ok_result
from troubles import heard

from demo.core.spec import RunSpec
from demo.ui.look import script
from demo.ui.page import build, launch
from demo.ui.tabs import links

FIGURE = "#top .headline .figure"
STORED = stored("segmentation")


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, list[RunSpec]]]:
    """A page's address, and the specs that were run on it so far."""
    specs: list[RunSpec] = []

    def answer(spec: RunSpec, image: Path) -> Any:
        specs.append(spec)
        runner.seconds = 600.0 if spec.mode.startswith("max-autotune") else 1.5  # that one is cancelled
        broken = measurement(0.00125) if spec.graph_break else None
        return ok_result(spec=spec, with_break=broken, image=STORED.image, predictions=STORED.predictions)

    runner = FakeRunner(answer)
    page = build(runner)
    _, address, _ = launch(page, server_name="127.0.0.1", prevent_thread_lock=True)
    yield address, specs
    page.close()


@pytest.fixture(scope="module")
def page(new_tab: Any, served: Any) -> tuple[Any, list[str]]:
    """A projector's tab with the page, for all tests of this file, and its troubles: an error that it logs, or a
    request to another machine."""
    address, _ = served
    tab = new_tab(1920, 1080)
    troubles = heard(tab, address)
    tab.goto(address)
    tab.locator("#chart .plot-container").wait_for()
    return tab, troubles


@pytest.fixture
def tab(page: Any) -> Iterator[Any]:
    """The tab outside of stage mode, in light colours, with what the tests before have chosen and run."""
    tab, troubles = page
    tab.set_viewport_size({"width": 1920, "height": 1080})
    yield tab
    if tab.locator("body.dark").count():
        tab.keyboard.press("d")
    if tab.locator("#stage-bar").is_visible():
        tab.keyboard.press("Escape")
        tab.locator("#fields").wait_for()
    assert troubles == []


def _picture(tab: Any, shots: Path, name: str) -> None:
    tab.screenshot(path=shots / f"{name}.png")


def _enter(tab: Any) -> None:
    tab.get_by_role("button", name="Stage mode").click()
    tab.locator("#stage-bar").wait_for()


def test_the_switch_leaves_headline_and_race_and_brings_the_page_back(tab: Any) -> None:
    _enter(tab)
    for hidden in ("#fields", "#chart", "#chart-note", "footer", ".promise"):
        assert not tab.locator(hidden).first.is_visible(), hidden
    assert tab.locator("#top .display").is_visible()
    assert "stage=1" in tab.url
    tab.set_viewport_size({"width": 801, "height": 700})  # a small projector
    assert tab.evaluate("document.documentElement.scrollWidth") == 801
    tab.get_by_role("button", name="Exit stage mode").click()
    tab.locator("#fields").wait_for()
    assert tab.locator("#chart .plot-container").is_visible()
    assert "stage=1" not in tab.url
    assert tab.evaluate("document.documentElement.scrollWidth") == 801
    assert tab.get_by_role("button", name="Stage mode").is_visible()


def test_keys_do_nothing_while_somebody_types_or_outside_the_stage(tab: Any, served: Any) -> None:
    _, specs = served
    before = len(specs)
    for key in ("r", "d", "2"):
        tab.keyboard.press(key)
    tab.wait_for_timeout(300)
    assert not tab.locator("body.dark").count()
    _enter(tab)
    tab.evaluate("document.body.append(Object.assign(document.createElement('input'), {id: 'typed'}))")
    tab.locator("#typed").focus()
    tab.keyboard.type("rd2")
    tab.keyboard.press("Control+d")
    tab.wait_for_timeout(700)
    assert tab.locator("#typed").input_value() == "rd2"
    assert not tab.locator("body.dark").count()
    assert len(specs) == before
    assert tab.locator("#stage-words").inner_text().strip() == ""
    tab.keyboard.press("Escape")  # of whoever types
    tab.locator("#typed").evaluate("field => field.remove()")
    tab.evaluate("document.body.append(Object.assign(document.createElement('dialog'), {id: 'asked', open: true}))")
    tab.keyboard.press("Escape")  # for what lies in front
    assert tab.locator("#stage-bar").is_visible()
    tab.locator("#asked").evaluate("dialog => dialog.remove()")
    tab.keyboard.press("Escape")
    tab.locator("#fields").wait_for()
    assert "stage=1" not in tab.url
    assert tab.evaluate("document.activeElement.dataset.stage") == "on"


def test_the_keys_work_on_keyboards_that_write_other_letters(tab: Any, served: Any) -> None:
    """Arabic letters, and AZERTY's é in the place of 2."""
    _, specs = served
    _enter(tab)
    before = len(specs)
    press = "([key, code]) => document.body.dispatchEvent(new KeyboardEvent('keydown', {key, code, bubbles: true}))"
    tab.evaluate(press, ["ي", "KeyD"])
    tab.evaluate(press, ["é", "Digit2"])
    tab.locator("#stage-words").get_by_text("Graph breaks, live").wait_for()
    assert tab.locator("body.dark").count()
    tab.evaluate(press, ["ق", "KeyR"])
    tab.locator(FIGURE).first.wait_for(timeout=30_000)
    assert len(specs) == before + 1
    tab.evaluate(press, ["p", "KeyR"])  # a layout of Latin letters in other places means what it writes
    tab.wait_for_timeout(500)
    assert len(specs) == before + 1


def test_keys_choose_run_cancel_and_darken(tab: Any, served: Any, shots: Path) -> None:
    _, specs = served
    _enter(tab)
    tab.keyboard.press("2")
    tab.locator("#stage-words").get_by_text("Graph breaks, live").wait_for()
    tab.locator("#preset-2[aria-pressed=true]").wait_for()
    assert tab.locator("#stage-bar [aria-pressed=true]").count() == 1
    before = len(specs)
    tab.keyboard.press("r")
    tab.locator(".live .steps li.now").wait_for()
    assert tab.locator(".lane:visible").count() == 3
    _ends_above_the_bar(tab, ".live .so-far")
    _picture(tab, shots, "stage-race-1920")
    tab.locator(FIGURE).first.wait_for(timeout=30_000)
    assert tab.locator(".headline .speed").inner_text().split() == "The graph breaks make compiled 1.25× slower".split()
    cost, speedup = (tab.locator(f"#top .headline {part} .figure") for part in (".speed", ".without-break"))
    assert cost.bounding_box()["height"] > 2 * speedup.bounding_box()["height"]  # it is what was asked
    _fills_the_screen(tab)
    assert len(specs) == before + 1
    assert (specs[-1].checkpoint, specs[-1].graph_break) == ("shapes-vit", True)
    _picture(tab, shots, "stage-result-1920")
    assert not tab.locator("body.dark").count()
    tab.keyboard.press("d")
    assert tab.locator("body.dark").count()
    tab.keyboard.press("3")
    tab.locator("#stage-words").get_by_text("max-autotune").wait_for()
    tab.get_by_role("button", name="Run", exact=True).click()
    tab.locator(".live .steps li.now").wait_for()
    tab.get_by_role("button", name="Cancel").wait_for()
    assert not tab.locator("#run").is_visible()
    tab.keyboard.press("c")
    said = tab.locator("#stage .problem").get_by_text("Cancelled").first
    said.wait_for(timeout=30_000)
    assert said.is_visible() and not tab.locator(".live").is_visible()


def test_on_a_space_and_nowhere_else_the_outer_page_is_told_which_run_is_shown(chromium: Any) -> None:
    assert told_to_the_outer_page(chromium, "me-page.hf.space") == ["lang=ja&run=0123", "lang=ja"]
    assert told_to_the_outer_page(chromium, "example.org") == []


def told_to_the_outer_page(chromium: Any, host: str) -> list[str]:
    """What a page of the Hub hears from the page of this host in its frame, when a run is shown and then another."""
    outer, inner = "https://huggingface.co/spaces/me/page", f"https://{host}/?__theme=dark&lang=ja"
    pages = {
        outer: f"<script>told = []; onmessage = event => told.push(event.data)</script><iframe src='{inner}'></iframe>",
        inner: f"<head>{script('stage.js')}{script('address.js')}</head>",
    }
    context = chromium.new_context()
    context.route("**/*", lambda route: route.fulfill(content_type="text/html", body=pages.get(route.request.url, "")))
    tab = context.new_page()
    tab.goto(outer)
    frame = tab.frames[1]
    frame.evaluate(links.REMEMBER, "0123")
    frame.evaluate(links.BEGUN, "")
    tab.wait_for_timeout(300)
    told = [message["queryString"] for message in tab.evaluate("told")]
    context.close()
    return told


def _ends_above_the_bar(tab: Any, part: str) -> None:
    box, bar = tab.locator(part).first.bounding_box(), tab.locator("#stage-bar").bounding_box()
    window = tab.viewport_size
    assert box["height"] > 0 and box["y"] + box["height"] <= bar["y"] + 1, (part, window)
    assert box["x"] >= 0 and box["x"] + box["width"] <= window["width"], (part, window)


SMALL = """() => [...document.querySelectorAll('#stage *, #stage-words *')].filter(part => part.checkVisibility()
  && [...part.childNodes].some(node => node.nodeType === 3 && node.textContent.trim())
  && part.getBoundingClientRect().width > 2 && parseFloat(getComputedStyle(part).fontSize) < innerHeight / 30
  && !part.matches('.arrow')).map(part => part.textContent.slice(0, 60))"""
"""Texts that the last row cannot read: smaller than 24 px on 1280 × 720."""


def _fills_the_screen(tab: Any) -> None:
    """Figure and interval on one side, the picture on the other, all of it above the bar."""
    for part in (".speed", ".latencies", ":is(.interval, .break-interval):visible"):
        _ends_above_the_bar(tab, f"#top .headline {part}")
    for part in ("#seen img", "#seen .sides"):
        _ends_above_the_bar(tab, f"{part}:visible")
    middle = tab.viewport_size["width"] / 2
    sides = [tab.locator(part).first.bounding_box() for part in ("#top .speed", "#seen img:visible")]
    mirrored = tab.evaluate("document.documentElement.dir === 'rtl'")
    assert [box["x"] < middle * 0.9 for box in sides] == ([False, True] if mirrored else [True, False])
    assert sides[1]["height"] >= 0.24 * tab.viewport_size["height"]
    assert tab.evaluate(SMALL) == []
    assert tab.evaluate("document.documentElement.scrollHeight") == tab.viewport_size["height"]


def test_the_answer_is_readable_from_the_last_row(tab: Any, served: Any, shots: Path) -> None:
    tab.goto(served[0])
    tab.locator("#chart .plot-container").wait_for()
    _enter(tab)
    tab.keyboard.press("r")
    figure = tab.locator(FIGURE)
    figure.wait_for(timeout=30_000)
    _fills_the_screen(tab)
    size = float(figure.evaluate("figure => parseFloat(getComputedStyle(figure).fontSize)"))
    digits = 0.698 * size  # the height of IBM Plex Sans' digits
    assert digits >= 0.15 * 1080
    assert tab.evaluate("document.documentElement.scrollWidth") == 1920
    tab.set_viewport_size({"width": 1280, "height": 720})
    _fills_the_screen(tab)
    tab.goto(f"{served[0]}?stage=1&lang=ar")
    tab.locator("#top .display").wait_for()
    tab.locator("#run:not([disabled])").click()
    figure.wait_for(timeout=30_000)
    tab.locator("#seen img:visible").first.wait_for()
    _fills_the_screen(tab)
    _picture(tab, shots, "stage-result-ar-1280")
