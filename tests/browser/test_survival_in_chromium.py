"""Runs and results that nothing loses, as a visitor meets them: a served page, a runner without models, a browser."""

from __future__ import annotations

import dataclasses
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
from demo.ui.tabs import history_tab as history_tab
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
    with pytest.MonkeyPatch.context() as sooner:
        often = history_tab.LIST.replace("UPDATE_MILLISECONDS = 5_000", "UPDATE_MILLISECONDS = 300")
        assert often != history_tab.LIST
        sooner.setattr(history_tab, "LIST", often)
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


def picture(tab: Any, shots: Path, name: str) -> None:
    tab.screenshot(path=shots / f"{name}.png", full_page=True)


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


def test_the_history_is_searched_opened_compared_taken_away_and_deleted(visitor: Any, served: Any, shots: Path) -> None:
    _, history = served
    tab = visitor()
    tab.get_by_role("tab", name="History").click()
    rows = tab.locator("#runs tbody tr")
    rows.first.wait_for()
    tab.get_by_label("Search").fill("owlvit")
    tab.locator("#runs caption", has_text="1 run").wait_for()
    tab.get_by_label("Search").fill("2026-11-21")
    tab.locator("#runs caption", has_text="3 runs").wait_for()
    for row in range(3):
        rows.nth(row).get_by_role("checkbox").check()
    tab.locator("#compare").click()
    tab.locator("#compared").get_by_text("3 runs compared").wait_for()
    tab.wait_for_url("**?tab=history&history_compare=*")
    for width in (390, 1920, 1440):
        tab.set_viewport_size({"width": width, "height": 900})
        tab.wait_for_timeout(400)  # plotly draws to the new width
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        picture(tab, shots, f"history-compared-{width}")

    with tab.expect_download() as download:
        tab.get_by_role("button", name="Export CSV", exact=True).click()
    assert download.value.suggested_filename == "worth-compiling-runs.csv"
    assert "slower" in Path(download.value.path()).read_text()

    tab.locator("#runs a[data-run=slower]").click()
    tab.locator(HEADLINE).wait_for()
    assert "2.00×" in tab.locator(HEADLINE).inner_text()
    tab.wait_for_url("**run=slower*")
    assert tab.title() == "shapes-vit 2.00× slower · Worth compiling?"
    tab.go_back()
    tab.locator("#runs").wait_for()
    tab.wait_for_function("document.title.startsWith('History')")
    assert "tab=history&history_compare=" in tab.url
    tab.locator("#compared").get_by_text("3 runs compared").wait_for()
    history.append(dataclasses.replace(ok_result(), id="doomed", started_at="2020-01-01T00:00:00Z"))
    tab.get_by_role("tab", name="History").click()
    tab.get_by_label("Search").fill("doomed")
    tab.locator("#compared section").wait_for(state="detached")
    tab.wait_for_function("!location.search.includes('history_compare')")
    tab.locator("#runs caption", has_text="1 run").wait_for()
    rows.first.get_by_role("checkbox").check()
    tab.locator("#delete").click()
    tab.get_by_text("Delete 1 run? This can't be undone.").wait_for()
    assert history.get("doomed") is not None
    tab.locator("#for-good").click()
    tab.get_by_text("1 run deleted.").wait_for()
    tab.wait_for_function("document.activeElement.id === 'delete'")  # the button that was pressed is gone
    assert history.get("doomed") is None and history.get("slower") is not None

    # a tick belongs to a run, whatever becomes of the list
    for number in range(6):
        history.append(ok_result(id=f"mine{number}", started_at=f"2026-11-23T09:0{number}:00Z"))
    tab.get_by_label("Search").fill("")
    row_of(tab, "mine5").wait_for()
    row_of(tab, "mine4").get_by_role("checkbox").check()
    row_of(tab, "mine2").get_by_role("checkbox").check()
    tab.get_by_label("Search").fill("mine3")
    tab.locator("#runs caption", has_text="1 run").wait_for()
    assert ticked(tab) == []
    tab.get_by_label("Search").fill("")
    row_of(tab, "mine5").wait_for()
    assert ticked(tab) == ["mine4", "mine2"]

    # the question stands while others store runs, in another tab too, and means the runs that it names
    tab.locator("#delete").click()
    tab.locator("#sure").get_by_text("2026-11-23 09:04 UTC · mine4").wait_for()
    other = tab.context.new_page()
    opened(other, served[0])
    other.get_by_role("tab", name="History").click()
    row_of(other, "mine3").get_by_role("checkbox").check()
    other.locator("#delete").click()
    other.locator("#sure").get_by_text("mine3").wait_for()
    tab.set_viewport_size({"width": 1440, "height": 500})
    row_of(tab, "mine4").get_by_role("checkbox").focus()
    for new, scrolled in (("new", 120), ("newer", 560)):  # the first rows are in sight, and above it
        tab.evaluate("top => scrollTo(0, top)", scrolled)
        where = row_of(tab, "mine4").bounding_box()["y"]
        history.append(ok_result(id=new, started_at=f"2026-11-23T10:00:0{len(new)}Z"))
        row_of(tab, new).wait_for()
        assert ticked(tab) == ["mine4", "mine2"]
        assert tab.evaluate("document.activeElement.value") == "mine4"
        tab.wait_for_timeout(200)  # the browser's own keeping of the place comes with the next frame
        assert abs(row_of(tab, "mine4").bounding_box()["y"] - where) < 2
    row_of(tab, "mine4").get_by_role("checkbox").uncheck()
    row_of(tab, "mine5").get_by_role("checkbox").check()
    tab.locator("#for-good").click()
    tab.get_by_text("2 runs deleted.").wait_for()
    tab.wait_for_function("!document.querySelector('#runs input:checked')")
    assert [history.get(f"mine{number}") is None for number in range(6)] == [False, False, True, False, True, False]
    row_of(other, "mine4").wait_for(state="detached")
    row_of(other, "new").wait_for()
    assert ticked(other) == ["mine3"]
    other.locator("#for-good").click()
    other.get_by_text("1 run deleted.").wait_for()
    left = [result.id for result in history.all() if result.id.startswith(("mine", "new"))]
    assert left == ["newer", "new", "mine5", "mine1", "mine0"]
    history.delete(left)


def row_of(tab: Any, id: str) -> Any:
    """The run's row in the list."""
    return tab.locator("#runs tr", has=tab.locator(f"a[data-run='{id}']"))


def ticked(tab: Any) -> list[str]:
    found: list[str] = tab.evaluate("Array.from(document.querySelectorAll('#runs input:checked'), box => box.value)")
    return found


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
