"""Tests of stage mode in a real browser with a fake runner: its keys, and what the last row can read."""

from pathlib import Path
from typing import Any

from support.chromium_page import HEADLINE, Runner, open_link, run, scroll_width

from demo.core.options import RunSpec

PROJECTOR = {"width": 1920, "height": 1080}
SMALL_PROJECTOR = {"width": 1280, "height": 720}
OUTSIDE = """() => {
  const box = part => part.getBoundingClientRect(), [slider] = document.querySelectorAll('#work .ask');
  const shown = slider ? [...document.querySelectorAll('#seen :is(img, .textfield)')] : [];
  return shown.filter(part => part.checkVisibility() && box(part).bottom > box(slider).top)
    .concat([...document.querySelectorAll('#stage-bar button, .whole-work *')]
      .filter(part => part.checkVisibility() && box(part).right > innerWidth))
    .concat([...document.querySelectorAll('.typed')].filter(field => field.scrollWidth > field.clientWidth))
    .map(part => part.outerHTML.slice(0, 80));
}"""
"""JavaScript that returns the parts of the stage that reach into the slider below them or out of the window, and a cut
number."""


def test_stage_mode_answers_to_its_keys(tab: Any, address: str, runner: Runner) -> None:
    open_link(tab, f"{address}?__theme=light&batch_size=3")
    before = len(runner.runs)
    for key in ("r", "d", "2"):
        tab.keyboard.press(key)
    assert not tab.locator("body.dark").count()
    tab.get_by_role("button", name="Stage mode").click()
    tab.locator("#stage-bar").wait_for()
    assert "stage=1" in tab.url
    tab.evaluate("document.body.append(Object.assign(document.createElement('input'), {id: 'typed'}))")
    tab.locator("#typed").focus()
    tab.keyboard.type("rd2")
    tab.keyboard.press("Control+d")
    assert tab.locator("#typed").input_value() == "rd2"
    tab.keyboard.press("Escape")  # of whoever types
    tab.locator("#typed").evaluate("field => field.remove()")
    tab.evaluate("document.body.append(Object.assign(document.createElement('dialog'), {id: 'asked', open: true}))")
    tab.keyboard.press("Escape")  # for what lies in front
    assert tab.locator("#stage-bar").is_visible()
    tab.locator("#asked").evaluate("dialog => dialog.remove()")
    press = "([key, code]) => document.body.dispatchEvent(new KeyboardEvent('keydown', {key, code, bubbles: true}))"
    tab.evaluate(press, ["ي", "KeyD"])  # an Arabic letter
    assert tab.locator("body.dark").count()
    tab.evaluate(press, ["p", "KeyR"])  # a layout of Latin letters in other places means what it writes
    tab.evaluate(press, ["é", "Digit2"])  # AZERTY
    tab.locator("#top .headline", has_text="with added graph breaks").wait_for()
    tab.locator("#run:not([disabled])").wait_for()
    preset = RunSpec("shapes-vit", "image-classification", graph_break=True)
    assert runner.runs[before:] == [preset]  # the first press that arrived, with none of the form's values
    tab.keyboard.press("Escape")
    tab.locator("#fields").wait_for()
    assert "stage=1" not in tab.url
    assert tab.evaluate("document.activeElement.dataset.stage") == "on"


def test_keys_run_and_cancel(tab: Any, address: str, runner: Runner, shots: Path) -> None:
    tab.set_viewport_size(PROJECTOR)
    open_link(tab, f"{address}?stage=1&graph_break=true")
    before, runner.hold = len(runner.runs), True
    tab.keyboard.press("r")
    tab.locator(".live .steps li.now").wait_for()
    assert tab.locator(".racing .race:visible polyline").count() == 2
    _ends_above_the_bar(tab, ".live .so-far")
    tab.screenshot(path=shots / "stage-race-1920.png")
    runner.hold = False
    tab.locator(HEADLINE).first.wait_for()
    assert "faster (with added graph breaks)" in tab.locator(".headline .speed").inner_text()
    assert "Without the added breaks, stored: 2.00×" in tab.locator(".headline .interval").inner_text()
    _fills_the_screen(tab)
    assert [(spec.checkpoint, spec.graph_break) for spec in runner.runs[before:]] == [("shapes-vit", True)]
    tab.screenshot(path=shots / "stage-result-1920.png")
    runner.hold = True
    tab.get_by_role("button", name="Run", exact=True).click()
    tab.get_by_role("button", name="Cancel").wait_for()
    assert not tab.locator("#run").is_visible()
    tab.keyboard.press("c")
    tab.locator("#stage .problem").get_by_text("Cancelled").first.wait_for()
    assert not tab.locator(".live").is_visible()
    tab.keyboard.press("s")
    tab.wait_for_url("**run=*")  # so that a reload shows the recorded run again


def _outside(tab: Any) -> list[str]:
    return list(tab.evaluate(OUTSIDE))


def _ends_above_the_bar(tab: Any, part: str) -> None:
    box, bar = tab.locator(part).first.bounding_box(), tab.locator("#stage-bar").bounding_box()
    window = tab.viewport_size
    assert box["height"] > 0 and box["y"] + box["height"] <= bar["y"] + 1, (part, window)
    assert box["x"] >= 0 and box["x"] + box["width"] <= window["width"], (part, window)


SMALL = """() => [...document.querySelectorAll('#stage *')].filter(part => part.checkVisibility()
  && [...part.childNodes].some(node => node.nodeType === 3 && node.textContent.trim())
  && part.getBoundingClientRect().width > 2
  && parseFloat(getComputedStyle(part).fontSize) * (part.getScreenCTM?.().a ?? 1) < innerHeight / 30
  && !part.matches('.arrow, .icon')).map(part => part.textContent.slice(0, 60))"""
"""JavaScript that returns the texts that an audience's last row cannot read: smaller than 24 px on 1280 × 720."""


def _fills_the_screen(tab: Any) -> None:
    """Checks that the speed-up is on the left, the picture on the right, and all ends above the bar of buttons.

    The bar lies at the bottom of the window. Also checked: the picture has at least 24 % of the window's height, no
    text is too small for the last row or reaches out of the window, and nothing scrolls.
    """
    parts = (".speed", ".verdict", ".latencies", ".interval")
    for part in (*(f"#top .headline {part}" for part in parts), "#seen img:visible"):
        _ends_above_the_bar(tab, part)
    middle = tab.viewport_size["width"] / 2
    sides = [tab.locator(part).first.bounding_box() for part in ("#top .speed", "#seen img:visible")]
    assert [box["x"] < middle * 0.9 for box in sides] == [True, False]
    assert sides[1]["height"] >= 0.24 * tab.viewport_size["height"]
    assert tab.evaluate(SMALL) == [] and _outside(tab) == []
    assert tab.evaluate("document.documentElement.scrollHeight") == tab.viewport_size["height"]


def test_the_answer_fills_the_stage(tab: Any, address: str, shots: Path) -> None:
    tab.set_viewport_size(PROJECTOR)
    open_link(tab, f"{address}?stage=1&mode=default")
    tab.locator("#top .display").wait_for()
    for hidden in ("#fields", "footer", ".promise"):
        assert not tab.locator(hidden).first.is_visible(), hidden
    run(tab)
    figure = tab.locator(HEADLINE)
    figure.wait_for()
    tab.locator("#seen img:visible").first.wait_for()
    _fills_the_screen(tab)
    size = float(figure.evaluate("figure => parseFloat(getComputedStyle(figure).fontSize)"))
    assert 0.698 * size >= 0.15 * 1080  # the height of IBM Plex Sans' digits
    tab.set_viewport_size(SMALL_PROJECTOR)
    _fills_the_screen(tab)
    tab.get_by_role("slider", name="between two restarts").press("End")  # with the longest answers
    _ends_above_the_bar(tab, "#work .along:last-of-type")
    tab.screenshot(path=shots / "stage-result-1280.png")
    tab.set_viewport_size({"width": 801, "height": 700})  # a small projector
    assert scroll_width(tab) == 801 and _outside(tab) == []
    tab.locator("[data-stage=off]").click()
    tab.locator("#fields").wait_for()
    tab.locator("#race .race:visible").wait_for()
    assert "stage=1" not in tab.url and scroll_width(tab) == 801


def test_the_stage_shows_what_both_variants_wrote(tab: Any, address: str) -> None:
    tab.set_viewport_size(SMALL_PROJECTOR)
    open_link(tab, f"{address}?stage=1&checkpoint=shapes-gemma")
    run(tab)
    texts = tab.locator("#predictions .textfield")
    texts.nth(1).wait_for()
    tab.locator("#work .ask").wait_for()
    assert texts.count() == 2 and _outside(tab) == []
    _ends_above_the_bar(tab, "#predictions .compiled .textfield")


def test_a_search_outlives_a_reload(tab: Any, address: str, runner: Runner, shots: Path) -> None:
    open_link(tab, f"{address}?batch_size=1")
    runner.hold = True
    tab.locator("#best").click()
    tab.locator("#best-head", has_text=" left").wait_for()
    assert not tab.locator("#top").is_visible()
    open_link(tab)
    tab.locator("#best-head", has_text=" left").wait_for()
    runner.hold = False
    tab.locator("#best-ladder .plot-container").wait_for()
    tab.locator("#best-head h2", has_text="Freezing").wait_for()
    assert tab.locator("#best-table [role=gridcell]").all_inner_texts()[:2] == ["Freezing", "1"]
    tab.screenshot(path=shots / "best-over.png", full_page=True)
    run(tab)
    tab.locator("#top .headline").wait_for()
    assert not tab.locator("#best-stage").is_visible()
    tab.get_by_role("button", name="Stage mode").click()
    tab.locator("#best:not([disabled])").wait_for(state="attached")
    tab.keyboard.press("5")
    tab.get_by_text("everything was tried").wait_for()  # it is all stored
    assert tab.locator("#best-table").is_visible() and not tab.locator("#best-charts").is_visible()
    for size in (PROJECTOR, SMALL_PROJECTOR):
        tab.set_viewport_size(size)
        _ends_above_the_bar(tab, "#best-work .along:last-of-type")
        _ends_above_the_bar(tab, "#best-table")
        assert _outside(tab) == []
    told = tab.locator("#best-work .start b").first
    tab.get_by_role("slider", name="between two restarts").press("Home")
    assert told.inner_text() == "eager is known to be the best"
    tab.get_by_role("slider", name="between two restarts").press("End")
    assert told.inner_text().startswith("freezing saves ")
    tab.screenshot(path=shots / "stage-best-1280.png")
