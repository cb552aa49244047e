"""The page in other languages, as a visitor meets it: chosen by the browser, the address or the switch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fake_runner import FakeRunner
from samples import ok_result

from demo.core.languages import LANGUAGES
from demo.store.history import History
from demo.ui.page import build, launch


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    history = History(tmp_path_factory.mktemp("data") / "history.sqlite3")
    page = build(FakeRunner(lambda spec, _: ok_result(spec=spec), seconds=2.0), history=history)
    _, address, _ = launch(page, prevent_thread_lock=True)
    yield address
    page.close(verbose=False)


@pytest.fixture
def tab(new_tab: Any) -> Iterator[Any]:
    """A tab of a visitor who was never here and reads English. Its page may meet no error."""
    tab = new_tab()
    tab.context.clear_cookies()
    troubles: list[str] = []
    tab.on("pageerror", lambda error: troubles.append(str(error)))
    yield tab
    assert troubles == []


def greeted(tab: Any) -> None:
    tab.locator("#run").wait_for()
    tab.get_by_text("A made-up CPU").first.wait_for()


def language_of(tab: Any) -> tuple[str, str]:
    """What the page says it is, after checking that labels, the server's HTML and the switch say the same."""
    code, direction = tab.evaluate("[document.documentElement.lang, document.documentElement.dir]")
    texts = LANGUAGES[code].texts
    tab.locator("#run", has_text=texts["tab_run"]).wait_for()
    tab.locator("#masthead h1", has_text=texts["title"]).wait_for()
    tab.locator("#top .kicker", has_text=texts["before_the_run"]).wait_for()
    tab.get_by_role("tab", name=texts["tab_history"]).wait_for()
    assert tab.locator("#language").input_value() == code
    return code, direction


def is_too_wide(tab: Any) -> bool:
    width: bool = tab.evaluate("document.documentElement.scrollWidth > innerWidth")
    return width


def outside(tab: Any) -> list[str]:
    """What the window's edges cut: texts and controls that are shown and can be scrolled to by nobody."""
    found: list[str] = tab.evaluate(
        """() => [...document.querySelectorAll('#masthead *, #form *, #top *')].filter(e => {
          const box = e.getBoundingClientRect();
          return e.checkVisibility() && box.width > 1 && (box.left < -1 || box.right > innerWidth + 1);
        }).map(e => e.outerHTML.slice(0, 120))"""
    )
    return found


def test_the_browser_chooses(chromium: Any, address: str) -> None:
    tab = chromium.new_page(locale="zh-Hans-CN")
    tab.goto(address)
    greeted(tab)
    assert language_of(tab) == ("zh-CN", "ltr")
    tab.close()


def test_the_switch_chooses_and_is_remembered(tab: Any, address: str) -> None:
    tab.goto(address)
    greeted(tab)
    with tab.expect_navigation():
        tab.get_by_label("Language").select_option("ar")
    greeted(tab)
    assert language_of(tab) == ("ar", "rtl")
    tab.goto(address)
    greeted(tab)
    assert language_of(tab) == ("ar", "rtl")


@pytest.mark.parametrize(("code", "width"), [("ja", 1440), ("ar", 390)])
def test_a_run_is_told_in_the_language_and_fits(tab: Any, address: str, code: str, width: int) -> None:
    texts = LANGUAGES[code].texts
    tab.set_viewport_size({"width": width, "height": 900})
    tab.goto(f"{address}?lang={code}")
    greeted(tab)
    language_of(tab)
    assert not is_too_wide(tab) and outside(tab) == []
    tab.locator("#run").click()
    tab.locator("#live .steps", has_text=texts["step_warm_up"]).wait_for()
    assert not is_too_wide(tab)
    tab.locator("#top .headline .before", has_text=texts["faster_before"]).wait_for()
    assert tab.locator("#top .headline .figure").inner_text() == "2.00×"
    tab.locator("#fold-why", has_text=texts["fold_why"]).wait_for()
    assert not is_too_wide(tab) and outside(tab) == []
    if code == "ar":
        tab.set_viewport_size({"width": 1440, "height": 900})
        figures_run_from_left_to_right(tab)


def figures_run_from_left_to_right(tab: Any) -> None:
    """In a form on the right, beside an answer that was read from the right."""
    form, stage = (tab.locator(part).bounding_box() for part in ("#form", "#stage"))
    assert form["x"] >= stage["x"] + stage["width"] - 1
    directions = tab.evaluate(
        """() => Object.fromEntries(['#top .interval', '#top .figure bdi', '#top .ruler', '#chart', '#forecast bdi',
          '#batch input[type=range]'].map(part => [part, getComputedStyle(document.querySelector(part)).direction]))"""
    )
    assert directions.pop("#top .interval") == "rtl"
    assert set(directions.values()) == {"ltr"}
    # the digits themselves: where each character of "2.00×" stands
    places = tab.evaluate(
        """() => { const text = document.querySelector('#top .figure bdi').firstChild;
          return [...text.data].map((_, place) => { const range = document.createRange();
            range.setStart(text, place); range.setEnd(text, place + 1);
            return range.getBoundingClientRect().left; }); }"""
    )
    assert len(places) == 5 and places == sorted(places)
