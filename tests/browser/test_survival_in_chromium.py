"""Runs and results that nothing loses, as a visitor meets them: a served page, a runner without models, a browser."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_runner import FakeRunner
from samples import failed_result, measurement, ok_result

from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.store.history import History
from demo.ui.page import build, launch
from demo.ui.tabs.run_tab import BROWSER_KEY

PATIENCE = 60_000
"""Milliseconds; for a machine that does other things."""
LONG = 64
"""A batch size whose run lasts until it is cancelled; any other one takes two seconds."""
HEADLINE = "#top .headline .figure"


class Runner(FakeRunner):
    """Stores what it answers, as the real one does."""

    def __init__(self, history: History) -> None:
        super().__init__(self._answered)
        self._kept = history

    def _answered(self, spec: RunSpec, image: Path) -> RunResult:
        self.seconds = 600.0 if spec.batch_size == LONG else 2.0
        return ok_result(id=uuid.uuid4().hex[:12], started_at="2026-11-22T09:00:00Z", spec=spec)

    def run(self, *asked: Any) -> Iterator[Any]:
        for event in super().run(*asked):
            if isinstance(event, RunResult) and event.status == "ok":
                self._kept.append(event)
            yield event


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, History]]:
    history = History(tmp_path_factory.mktemp("data") / "history.sqlite3")
    history.append(ok_result())
    history.append(failed_result())
    history.append(ok_result(id="slower", compiled=measurement(0.004), started_at="2026-11-21T10:00:00Z"))
    page = build(Runner(history), history=history)
    _, address, _ = launch(page, prevent_thread_lock=True)
    yield address, history
    page.close(verbose=False)


@pytest.fixture
def visitor(chromium: Any, new_tab: Any, served: Any) -> Iterator[Callable[..., Any]]:
    """Each call is a visitor who was never here, on the page that this link's query asks for.

    The first of a test has the tab of this file, whose scripts are compiled already, a further one a browser of its
    own. No page may meet an error; what a reload breaks off (gradio logs it) is none.
    """
    tabs: list[Any] = []
    troubles: list[str] = []

    def arrive(query: str = "", width: int = 1440) -> Any:
        if tabs:
            context = chromium.new_context(viewport={"width": width, "height": 900})
            context.set_default_timeout(PATIENCE)
            tab = context.new_page()
        else:
            tab = new_tab(width)
        tabs.append(tab)
        tab.on("pageerror", lambda error: troubles.append(str(error)))
        opened(tab, served[0] + query)
        return tab

    yield arrive
    for tab in tabs:
        if tab.locator("#cancel:not([disabled])").count():
            tab.locator("#cancel").click()
            tab.locator("#run:not([disabled])").wait_for()
    for tab in tabs[1:]:
        tab.context.close()
    assert troubles == []


def opened(tab: Any, url: str = "") -> None:
    """Opens the link, or the same page again, and waits until the page has greeted."""
    if url:
        tab.goto(url)
    else:
        tab.reload()
    tab.locator("#run").wait_for()
    tab.get_by_text("A made-up CPU").first.wait_for()
    tab.wait_for_function("key => localStorage.getItem(key)", arg=BROWSER_KEY)  # by which a visitor's run is found


def batch(tab: Any) -> Any:
    return tab.get_by_label("number input for Batch size")


def run(tab: Any, batch_size: int = 1) -> None:
    batch(tab).fill(str(batch_size))
    batch(tab).press("Tab")
    tab.locator("#run").click()
    tab.locator(".live").wait_for()


def test_a_reload_in_the_middle_of_a_run_brings_it_back_to_be_watched_and_cancelled(visitor: Any) -> None:
    tab = visitor()
    run(tab, LONG)
    opened(tab)
    tab.locator(".live .steps").wait_for()
    assert tab.locator("#run").is_disabled()
    assert batch(tab).input_value() == str(LONG)
    tab.locator("#cancel").click()
    tab.locator("#top .problem").get_by_text("Cancelled", exact=True).wait_for()
    tab.locator("#run:not([disabled])").wait_for()


def test_the_second_visitor_is_told_the_truth_about_the_line_and_runs_in_turn(visitor: Any) -> None:
    first, second = visitor(), visitor()
    run(first, LONG)
    run(second)
    second.get_by_text("Runs ahead of yours: 1.").wait_for()
    opened(second)  # the place in the line is kept, too
    second.get_by_text("Runs ahead of yours: 1.").wait_for()
    first.locator("#cancel").click()
    second.locator(HEADLINE).wait_for()
    assert second.locator(HEADLINE).inner_text() == "2.00×"


def test_after_a_run_the_address_opens_it_for_anybody(visitor: Any, served: Any) -> None:
    tab = visitor("?__theme=dark")
    run(tab, 5)
    tab.locator(HEADLINE).wait_for()
    tab.wait_for_url("**run=*")
    assert "__theme=dark" in tab.url
    other = visitor(tab.url.removeprefix(served[0]))
    other.locator(HEADLINE).wait_for()
    assert batch(other).input_value() == "5"
    seen = [one.locator("#seen .evidence").inner_text() for one in (other, tab)]
    assert seen[0] == seen[1]
    run(other, LONG)
    other.wait_for_function("!location.search.includes('run=')")  # so that a reload brings the new run
    opened(other)
    other.locator(".live .steps").wait_for()


def test_a_link_fills_the_form_and_run_is_pressed_by_keyboard(visitor: Any) -> None:
    tab = visitor("?checkpoint=facebook/detr-resnet-50&batch_size=4&mode=reduce-overhead&fullgraph=true")
    tab.get_by_text("detr-resnet-50?").wait_for()
    assert batch(tab).input_value() == "4"
    assert tab.get_by_role("combobox", name="Checkpoint").input_value() == "facebook/detr-resnet-50"
    assert tab.get_by_label("Compile mode").input_value() == "reduce-overhead"
    tab.get_by_role("combobox", name="Checkpoint").click()
    tab.locator("#form .options").wait_for()
    tab.keyboard.press("Tab")
    tab.wait_for_timeout(300)
    assert tab.locator("#form .options").count() == 0
    tab.get_by_label("number input for Batch size").fill("2")
    tab.keyboard.press("Control+Enter")
    tab.locator(".live").wait_for()
    tab.locator("#top .kicker", has_text="batch 2").wait_for()


def in_front(tab: Any) -> bool:
    """Whether the answer begins in the upper half of the window."""
    where: float = tab.locator("#top .headline").evaluate("answer => answer.getBoundingClientRect().top / innerHeight")
    return 0 <= where < 0.5


def test_on_a_phone_a_link_to_a_run_and_an_opened_run_show_the_answer_and_not_the_form(visitor: Any) -> None:
    tab = visitor("?run=slower", 390)
    tab.locator(HEADLINE).wait_for()
    tab.wait_for_function("scrollY > 0")
    assert in_front(tab)
    tab.get_by_role("tab", name="History").click()
    tab.locator("#runs a[data-run=slower]").click()
    tab.locator(HEADLINE).wait_for(state="visible")
    tab.wait_for_timeout(1500)  # it glides
    assert in_front(tab)
