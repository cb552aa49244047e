"""Stage mode and what is taken away, in a real browser. A fake runner stands for the models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from samples import ok_result
from troubles import heard

from demo.core.result import RunSpec
from demo.ui.jobs.fake_runner import FakeRunner
from demo.ui.page import build, launch
from demo.ui.tabs import links
from demo.ui.tabs import stage_mode as stage

FIGURE = "#top .headline .figure"


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, list[RunSpec]]]:
    """A page's address, and the specs that were run on it so far."""
    specs: list[RunSpec] = []

    def answer(spec: RunSpec, image: Path) -> Any:
        specs.append(spec)
        runner._seconds = 600.0 if spec.mode.startswith("max-autotune") else 1.5  # that one is cancelled
        return ok_result(spec=spec)

    runner = FakeRunner(answer)
    page = build(runner)
    _, address, _ = launch(page, server_name="127.0.0.1", prevent_thread_lock=True)
    yield address, specs
    page.close()


@pytest.fixture
def tab(chromium: Any, served: Any) -> Iterator[Any]:
    """A projector's tab with the page. It must not log an error, nor ask anything of another machine."""
    address, _ = served
    tab = chromium.new_page(viewport={"width": 1920, "height": 1080})
    troubles = heard(tab)
    tab.on("request", lambda request: troubles.append(request.url) if _is_outside(request.url, address) else None)
    tab.goto(address)
    tab.locator("#chart .plot-container").wait_for()
    yield tab
    tab.close()
    assert troubles == []


def _is_outside(url: str, address: str) -> bool:
    return not url.startswith((address, "data:", "blob:"))


def _picture(tab: Any, shots: Path, name: str) -> None:
    tab.screenshot(path=shots / f"{name}.png")


def _enter(tab: Any) -> None:
    tab.get_by_role("button", name="Stage mode").click()
    tab.locator("#stage-bar").wait_for()


def test_the_switch_leaves_headline_and_race_and_brings_the_page_back(tab: Any) -> None:
    _enter(tab)
    for hidden in ("#form", "#chart", "#chart-note", "footer", ".promise"):
        assert not tab.locator(hidden).first.is_visible(), hidden
    assert tab.locator("#top .display").is_visible()
    assert "stage=1" in tab.url
    tab.get_by_role("button", name="Leave the stage").click()
    tab.locator("#form").wait_for()
    assert tab.locator("#chart .plot-container").is_visible()
    assert "stage=1" not in tab.url


def test_the_address_opens_the_stage_and_keeps_it(tab: Any, served: Any) -> None:
    tab.goto(f"{served[0]}?stage=1")
    tab.locator("#stage-bar").wait_for()
    assert not tab.locator("#form").is_visible()


def test_keys_choose_run_cancel_and_darken(tab: Any, served: Any, shots: Path) -> None:
    _, specs = served
    _enter(tab)
    tab.keyboard.press("2")
    tab.locator("#stage-words").get_by_text("A graph break, live").wait_for()
    before = len(specs)
    tab.keyboard.press("r")
    tab.locator(".live .steps li.now").wait_for()
    _picture(tab, shots, "stage-race-1920")
    tab.locator(FIGURE).wait_for(timeout=30_000)
    assert len(specs) == before + 1
    assert (specs[-1].checkpoint, specs[-1].graph_break) == ("shapes-vit", True)
    _picture(tab, shots, "stage-result-1920")
    assert not tab.locator("body.dark").count()
    tab.keyboard.press("d")
    assert tab.locator("body.dark").count()
    tab.wait_for_timeout(500)  # colours pass over
    _picture(tab, shots, "stage-result-dark-1920")
    tab.keyboard.press("3")
    tab.locator("#stage-words").get_by_text("max-autotune").wait_for()
    tab.keyboard.press("r")
    tab.locator(".live .steps li.now").wait_for()
    tab.keyboard.press("c")
    said = tab.locator("#stage .problem").get_by_text("Cancelled").first
    said.wait_for(timeout=30_000)
    assert said.is_visible() and not tab.locator(".live").is_visible()


@pytest.mark.parametrize("typed", [("ق", "ي", "٢"), ("к", "в", "2"), ("r", "d", "é")], ids=("ar", "ru", "azerty"))
def test_the_keys_work_on_keyboards_that_write_other_letters(tab: Any, served: Any, typed: tuple[str, ...]) -> None:
    _, specs = served
    _enter(tab)
    before = len(specs)
    press = "([key, code]) => document.body.dispatchEvent(new KeyboardEvent('keydown', {key, code, bubbles: true}))"
    for key, code in zip(typed, ("KeyR", "KeyD", "Digit2"), strict=True):
        tab.evaluate(press, [key, code])
    tab.locator("#stage-words").get_by_text("A graph break, live").wait_for()
    assert tab.locator("body.dark").count()
    tab.locator(FIGURE).wait_for(timeout=30_000)
    assert len(specs) == before + 1
    tab.evaluate(press, ["p", "KeyR"])  # a layout of Latin letters in other places means what it writes
    tab.wait_for_timeout(500)
    assert len(specs) == before + 1


@pytest.mark.parametrize(("width", "height"), [(1024, 768), (801, 700)])
def test_a_small_projector_has_a_way_to_the_stage_and_back(
    chromium: Any, served: Any, shots: Path, width: int, height: int
) -> None:
    tab = chromium.new_page(viewport={"width": width, "height": height})
    tab.goto(served[0])
    tab.locator("#chart .plot-container").wait_for()
    _picture(tab, shots, f"stage-way-in-{width}")
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    _enter(tab)
    _picture(tab, shots, f"stage-{width}")
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    tab.get_by_role("button", name="Leave the stage").click()
    tab.locator("#form").wait_for()
    tab.close()


@pytest.mark.parametrize("host", ["me-page.hf.space", "example.org"])
def test_on_a_space_the_outer_page_is_told_which_run_is_shown(chromium: Any, host: str) -> None:
    outer, inner = "https://huggingface.co/spaces/me/page", f"https://{host}/?__theme=dark&lang=ja"
    pages = {
        outer: f"<script>told = []; onmessage = event => told.push(event.data)</script><iframe src='{inner}'></iframe>",
        inner: f"<head>{stage.HEAD}</head>",
    }
    context = chromium.new_context()
    context.route("**/*", lambda route: route.fulfill(content_type="text/html", body=pages.get(route.request.url, "")))
    tab = context.new_page()
    tab.goto(outer)
    frame = tab.frames[1]
    frame.evaluate(links.REMEMBER, "0123")
    frame.evaluate(links.FORGET)
    tab.wait_for_timeout(300)
    told = [message["queryString"] for message in tab.evaluate("told")]
    assert told == (["lang=ja&run=0123", "lang=ja"] if host.endswith(".hf.space") else [])
    context.close()


def test_the_figure_is_readable_from_the_last_row(tab: Any) -> None:
    _enter(tab)
    tab.keyboard.press("r")
    figure = tab.locator(FIGURE)
    figure.wait_for(timeout=30_000)
    size = float(figure.evaluate("figure => parseFloat(getComputedStyle(figure).fontSize)"))
    digits = 0.698 * size  # the height of IBM Plex Sans' digits
    assert digits >= 0.15 * 1080
    assert tab.evaluate("document.documentElement.scrollWidth") == 1920
    bar = tab.locator("#stage-bar").bounding_box()
    for part in (FIGURE, "#top .headline .after", "#top .headline .latencies", "#top .headline .interval"):
        box = tab.locator(part).bounding_box()
        assert box["y"] + box["height"] <= bar["y"], part
        assert box["x"] + box["width"] <= 1920, part


def test_keys_do_nothing_while_somebody_types_or_outside_the_stage(tab: Any, served: Any) -> None:
    _, specs = served
    before = len(specs)
    for key in ("r", "d", "2"):
        tab.keyboard.press(key)
    tab.wait_for_timeout(700)
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


def test_nothing_on_the_stage_has_a_tooltip(tab: Any) -> None:
    _enter(tab)
    titled = (
        "[...document.querySelectorAll('[title]')].filter(part => part.checkVisibility()).map(part => part.outerHTML)"
    )
    assert tab.evaluate(titled) == []
    assert not tab.locator(".js-plotly-plot").first.is_visible()


def test_a_preset_puts_back_what_it_does_not_name(tab: Any, served: Any) -> None:
    tab.get_by_label("number input for Batch size").fill("7")
    tab.get_by_label("number input for Batch size").press("Tab")
    _enter(tab)
    tab.keyboard.press("1")
    tab.locator("#stage-words").get_by_text("Segformer on this machine").wait_for()
    tab.get_by_role("button", name="Leave the stage").click()
    assert tab.get_by_label("number input for Batch size").input_value() == "1"
    assert tab.get_by_label("Checkpoint").input_value() == "shapes-segformer"


def test_the_figure_is_saved_and_snippets_are_copied_by_keyboard(tab: Any, served: Any, tmp_path: Path) -> None:
    address, _ = served
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.get_by_role("button", name="Run", exact=True).click()
    tab.locator("#takeaway .takeaway").wait_for(timeout=30_000)
    for kind, start in (("svg", b"<svg"), ("png", b"\x89PNG")):
        with tab.expect_download() as download:
            tab.get_by_role("button", name=f"The figure as {kind.upper()}").press("Enter")
        file = tmp_path / download.value.suggested_filename
        download.value.save_as(file)
        assert file.suffix == f".{kind}" and file.read_bytes().startswith(start)
    assert b"Latency of one call" in next(tmp_path.glob("*.svg")).read_bytes()
    tab.locator("#takeaway summary", has_text="curl").press("Enter")
    button = tab.get_by_role("button", name="Copy the curl")
    button.press("Enter")
    tab.get_by_role("button", name="Copied").wait_for()
    copied = tab.evaluate("navigator.clipboard.readText()")
    assert copied == tab.locator("#take-curl").text_content()
    assert f"SERVER={address.rstrip('/')}\n" in copied
