"""What a visitor does with a result: unfold, compare, be refused and lose nothing. A fake runner, a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_runner import FakeRunner
from page_support import stored
from samples import full_result
from troubles import heard

from demo.core.errors import BadInput
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.store.history import FOLDER_VARIABLE
from demo.ui.page import build, launch

STORED = stored("segmentation")
RESULT = full_result(image=STORED.image, predictions=STORED.predictions, parity=STORED.parity)
REFUSED = 13
"""The batch size that the fake runner refuses, as a worker does."""
LONG = 14
"""The batch size whose run takes long enough for a slow browser to see its phases."""


def answer(spec: RunSpec, image: Path) -> RunResult | Exception:
    RUNNER.seconds = 5.0 if spec.batch_size == LONG else 1.5
    return BadInput("Batch size 13 is unlucky. Choose another one.") if spec.batch_size == REFUSED else RESULT


RUNNER = FakeRunner(answer)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER_VARIABLE, str(tmp_path_factory.mktemp("data")))
        page = build(RUNNER)
        _, url, _ = launch(page, prevent_thread_lock=True, server_port=None)
        yield url
        page.close(verbose=False)


@pytest.fixture(scope="module")
def page(new_tab: Any) -> tuple[Any, list[str]]:
    """One tab for all tests of this file, and the errors that it logs."""
    tab = new_tab()
    return tab, heard(tab)


@pytest.fixture
def tab(page: Any) -> Iterator[Any]:
    """The tab as the test before has left it."""
    yield page[0]
    assert page[1] == []


@pytest.fixture
def shown(tab: Any, address: str) -> Any:
    """The tab with an answer, for tests that look at it."""
    if not tab.locator("#top .headline").count():
        opened(tab, address)
        run(tab)
    tab.locator("#top .headline").wait_for()
    return tab


def opened(tab: Any, url: str) -> None:
    tab.goto(url)
    tab.locator("#forecast .forecast").wait_for()


def run(tab: Any) -> None:
    tab.locator("#run:not([disabled])").click()


def test_the_masthead_copies_the_link_to_the_forms_settings_or_the_open_tab(tab: Any, address: str) -> None:
    opened(tab, f"{address}?__theme=dark")
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])

    def copied() -> str:
        tab.evaluate("navigator.clipboard.writeText('')")
        tab.locator("#masthead").get_by_role("button", name="Copy link").click()
        tab.locator("#masthead").get_by_role("button", name="Copied").wait_for()
        tab.locator("#masthead").get_by_role("button", name="Copy link").wait_for()
        return str(tab.evaluate("navigator.clipboard.readText()"))

    assert copied() == f"{address}?checkpoint=shapes-vit"
    tab.get_by_label("number input for Batch size").fill("4")
    tab.locator("#forecast [data-query*=batch_size]").wait_for(state="attached")
    assert copied() == f"{address}?checkpoint=shapes-vit&batch_size=4"
    tab.get_by_role("tab", name="History").click()
    assert copied() == f"{address}?tab=history"
    tab.get_by_role("tab", name="Published").click()
    assert copied() == f"{address}?tab=published"
    outer = "https://huggingface.co/spaces/me/page"
    tab.evaluate("outer => { document.querySelector('[data-address]').dataset.address = outer; }", outer)
    assert copied() == f"{outer}?tab=published"


def test_the_lanes_run_at_the_ratio_of_the_speed_up_and_hide_what_stood_there(tab: Any, address: str) -> None:
    opened(tab, address)
    tab.get_by_label("number input for Batch size").fill(str(LONG))
    run(tab)
    tab.locator(".live .narrowing:not(.empty)").wait_for()
    widths = tab.evaluate("[...document.querySelectorAll('.lane .bar')].map(bar => parseFloat(bar.style.width))")
    assert widths[1] == pytest.approx(2 * widths[0], abs=0.1) and widths[1] > 0
    assert not tab.locator("#top").is_visible() and not tab.locator("#chart").is_visible()
    tab.locator("#top .headline").wait_for()
    assert not tab.locator(".live").is_visible() and tab.locator("#chart").is_visible()
    tab.get_by_label("number input for Batch size").fill("1")


def test_a_result_is_printed_on_two_pages_at_most_with_its_chart_whole_and_without_controls(
    shown: Any, shots: Path
) -> None:
    run = shown.url
    shown.evaluate("history.replaceState(null, '', '?__sign=secret')")  # as on a private Space
    shown.locator("#chart .main-svg").first.wait_for()
    printed = shown.pdf(path=shots / "printed.pdf", format="A4")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 2
    shown.set_viewport_size({"width": 718, "height": 1000})  # what 12 mm of margin leave of A4
    shown.emulate_media(media="print")
    shown.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    for part in ("#form", "#rooms > .tab-wrapper", ".stage-switch", "footer", "#fold-take", ".choices"):
        assert not shown.locator(part).first.is_visible(), part
    drawing = shown.locator("#chart .main-svg").first.bounding_box()
    assert drawing["x"] >= 0 and drawing["x"] + drawing["width"] <= 718
    assert shown.locator("#chart .plot-container").bounding_box()["height"] >= drawing["height"] - 1 > 60
    exact = shown.locator(".ruler .range").evaluate("bar => getComputedStyle(bar).printColorAdjust")
    assert exact == "exact"
    stamp = shown.locator(".printed").inner_text()
    assert re.fullmatch(r"Printed \d{4}-\d\d-\d\d \d\d:\d\d UTC from " + re.escape(run), stamp), stamp
    shown.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert shown.locator("#chart .main-svg").first.get_attribute("viewBox") is None
    shown.emulate_media(media="screen")
    shown.set_viewport_size({"width": 1440, "height": 900})


def test_the_three_ways_to_compare_are_reached_by_keyboard_and_the_slider_moves(shown: Any) -> None:
    assert shown.locator(".view.beside").is_visible() and not shown.locator(".slide").is_visible()
    shown.locator('.choices input[value="beside"]').focus()
    shown.keyboard.press("ArrowRight")
    assert shown.locator(".slide").is_visible() and not shown.locator(".view.beside").is_visible()
    slider = shown.get_by_label("Share of the picture that shows eager, per cent")
    edge = shown.locator(".slide .edge")
    before = edge.bounding_box()["x"]
    slider.focus()
    shown.keyboard.press("Home")
    assert edge.bounding_box()["x"] < before - 100
    assert (
        shown.locator(".slide .left").evaluate("left => getComputedStyle(left).clipPath") == "inset(0px 100% 0px 0px)"
    )
    picture = shown.locator(".slide .pair").bounding_box()
    middle = picture["y"] + picture["height"] / 2
    shown.mouse.move(picture["x"] + 20, middle)
    shown.mouse.down()
    shown.mouse.move(picture["x"] + 0.75 * picture["width"], middle, steps=5)
    shown.mouse.move(picture["x"] + 0.75 * picture["width"], middle + picture["height"], steps=5)  # beyond the picture
    assert slider.input_value() == "75"
    assert edge.bounding_box()["x"] == pytest.approx(picture["x"] + 0.75 * picture["width"], abs=4)
    assert shown.evaluate("getSelection().toString() === '' && getSelection().type !== 'Range'")
    assert not shown.locator(".slide img").first.evaluate("image => image.draggable")
    shown.mouse.up()
    shown.locator('.choices input[value="over"]').focus()
    shown.keyboard.press("ArrowRight")
    assert shown.locator(".view.difference").is_visible()


def test_the_three_folds_open_by_keyboard_and_their_figures_fill_the_stage(shown: Any) -> None:
    assert shown.locator("#stage .fold:visible").count() == 3
    for fold, parts in (("why", ("calls", "compiled", "machine")), ("cost", ("pays", "memory", "request"))):
        title = shown.locator(f"#fold-{fold} > button")
        assert title.get_attribute("aria-expanded") in (None, "false")
        title.focus()
        shown.keyboard.press("Enter")
        for part in parts:
            shown.locator(f"#part-{part} table").first.wait_for()
    wide = shown.locator("#stage").bounding_box()["width"]
    for name in ("calls", "pays"):
        shown.locator(f"#figure-{name} .main-svg").first.wait_for()
        shown.wait_for_function(
            "([name, wide]) => document.querySelector(`#figure-${name} .main-svg`).clientWidth > 0.95 * wide",
            arg=[name, wide],
        )
    assert shown.evaluate("document.documentElement.scrollWidth") == 1440


def test_a_refusal_stands_above_the_result_that_was_there(shown: Any) -> None:
    figure = shown.locator("#top .figure").inner_text()
    shown.get_by_label("number input for Batch size").fill(str(REFUSED))
    run(shown)
    notice = shown.locator("#notice .problem")
    notice.wait_for()
    assert "unlucky" in notice.inner_text()
    assert shown.locator("#top .figure").inner_text() == figure
    assert shown.locator("#seen .views").is_visible() and shown.locator("#fold-why").is_visible()
    assert notice.bounding_box()["y"] < shown.locator("#top .figure").bounding_box()["y"]
    shown.get_by_label("number input for Batch size").fill("1")
    run(shown)
    notice.wait_for(state="hidden")


def test_a_run_begun_from_far_down_an_answer_is_shown_from_its_beginning(shown: Any) -> None:
    shown.emulate_media(media="screen")  # as the tests before may not have left it
    shown.set_viewport_size({"width": 1440, "height": 600})
    shown.locator("#top .headline").wait_for()
    shown.locator("#chart .main-svg").first.wait_for()
    shown.wait_for_function("(window.scrollTo(0, 700), window.scrollY > 600)")
    run(shown)
    shown.wait_for_function("window.scrollY === 0")
    assert shown.locator("#live").is_visible() or shown.locator("#top .headline").is_visible()


def test_the_forecast_stands_beside_run_and_follows_the_form(tab: Any) -> None:
    tab.locator("#run:not([disabled])").wait_for()
    forecast = tab.locator("#forecast")
    assert re.search(r"About \d+ (s|min), about .* of memory", forecast.inner_text())
    assert "rough estimate from model size (827 k parameters)" in forecast.inner_text()
    tab.get_by_role("combobox", name="Compile mode").click()
    tab.get_by_role("option", name="reduce-overhead", exact=True).click()
    forecast.get_by_text("which need a GPU").wait_for()
    tab.get_by_role("button", name="Advanced").click()
    tab.get_by_label("Threads").fill("many")
    forecast.get_by_text("must be a whole number").wait_for()
    for size in ((1440, 900), (1280, 720), (1920, 1080)):
        tab.set_viewport_size({"width": size[0], "height": size[1]})
        box = tab.locator("#actions").bounding_box()
        assert box["y"] + box["height"] <= size[1]
