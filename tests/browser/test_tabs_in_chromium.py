"""Tests of all tabs in a real browser, with a fake runner: each state keeps the rules of accessibility.

No state of a tab breaks a rule of WCAG 2.2 A and AA that axe-core knows. No rule is left out.
"""

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.fake_runner import FakeRunner
from support.page_support import stored
from support.samples import failed_result, full_result, measurement, ok_result, text_result
from support.troubles import BEYOND, CONTRAST, NAMELESS

from demo.core.caveat import note
from demo.core.measurement import Compilation, CompileCost, StartUp
from demo.core.options import BadInput, RunSpec
from demo.core.outputs import Parity
from demo.core.result import RunResult
from demo.store.history import FOLDER_VARIABLE, History
from demo.ui.page import Page

DESKTOP = {"width": 1920, "height": 1080}
PHONE = {"width": 320, "height": 640}
"""WCAG asks a page to reflow at 320 pixels, which is also a desktop at a zoom of 400 %."""
ZOOMED = {"width": 720, "height": 450}
"""A desktop of 1440 by 900 at a zoom of 200 %."""
STANDARD = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
REFUSED = 13
"""A batch size that the fake runner refuses."""
SEARCHED = 2
"""Batch size of the search for the best way in these tests."""
STORED = stored("segmentation")
RESULT = full_result(
    image=STORED.image, predictions=STORED.predictions, parity=STORED.parity, caveats=(note("The clock fell."),)
)
SAID = text_result().predictions or {}
TEXT = text_result(
    predictions=SAID | {"compiled": dataclasses.replace(SAID["eager"], token_ids=(5, 6, 9, 8))},
    parity=Parity("differ", 0.2, "Outputs differ by more than 0.001.", {"same_tokens": 0.5}),
)
LET_GO = threading.Event()
"""While this event is not set, a sweep stands still before its cells of batch size 4."""
LET_GO.set()

axe_api = pytest.importorskip("axe_playwright_python.sync_playwright")


def answer(spec: RunSpec, image: Path) -> RunResult | Exception:
    if spec.batch_size == REFUSED:
        return BadInput("Batch size 13 is unlucky. Choose another one.")
    if spec.batch_size == SEARCHED:
        costs = Compilation(9.0, "cold", 1, cold=CompileCost(9.0, {}), warm=CompileCost(3.0, {}))
        if spec.scope == "layers":
            return failed_result(spec=spec)
        return ok_result(spec=spec, compilation=costs, start_up=StartUp(2.0, 1.0))
    if spec.batch_size == 4:  # of the sweep
        RUNNER.hold |= not LET_GO.is_set()
        return failed_result(spec=spec) if spec.checkpoint == "shapes-rtdetr" else ok_result(spec=spec)
    if spec.task == "text-generation":
        return TEXT
    if spec.task != "image-classification":
        return ok_result(spec=spec, compiled=measurement(0.009))
    return dataclasses.replace(RESULT, spec=spec)


RUNNER = FakeRunner(answer, seconds=0.4)


@pytest.fixture(scope="module")
def stored_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER_VARIABLE, str(folder))
        kept = History()
        for number in range(6):
            kept.append(ok_result(id=f"mine{number}", started_at=f"2026-11-23T09:0{number}:00Z"))
        slower = ok_result(id="slower", compiled=measurement(0.004), started_at="2026-11-21T10:00:00Z")
        for result in (ok_result(), failed_result(), slower):
            kept.append(result)
        yield kept


@pytest.fixture(scope="module")
def address(stored_runs: History, served: Any) -> str:
    return str(served(Page(RUNNER, history=stored_runs)))


@pytest.fixture(scope="module")
def page(new_tab: Any, address: str) -> Any:
    """Opens the tab in which all states of the page are shown, one after another."""
    tab = new_tab()
    _open(tab, address)
    return tab


@pytest.fixture
def tab(new_tab: Any) -> Any:
    return new_tab()


def _open(tab: Any, address: str) -> None:
    tab.goto(f"{address}?__theme=light&batch_size=3")  # a link that asks for nothing would show a run that just ended
    tab.locator(".machine b").wait_for()


def _batch(tab: Any, size: int) -> None:
    field = tab.locator("#batch input[type=number]")
    field.fill(str(size))
    field.press("Tab")


# The states of the page, each reached from the one before


def before(tab: Any) -> None:
    tab.locator("#advanced .label-wrap").click()
    tab.locator("#advanced input[type=checkbox]").first.wait_for()


def refusal(tab: Any) -> None:
    _batch(tab, REFUSED)
    tab.locator("#run:not([disabled])").click()
    tab.locator("#notice .problem").wait_for()
    _batch(tab, 1)  # for the states to come; the notice stays until the next run


def during(tab: Any) -> None:
    RUNNER.hold = True
    tab.locator("#run:not([disabled])").click()
    tab.locator(".live .narrowing:not(.empty)").wait_for()


def after(tab: Any) -> None:
    tab.locator("#top .headline").wait_for()
    _unfold(tab)
    tab.locator("#stage .section table").first.wait_for()


def after_text(tab: Any) -> None:
    tab.get_by_label("Text generation", exact=True).check(force=True)
    tab.wait_for_function("document.querySelector('#checkpoint input').value.startsWith('shapes-gemma')")
    tab.locator("#run:not([disabled])").click()
    tab.locator("#seen .token.highlighted").first.wait_for()
    _unfold(tab)


def _unfold(tab: Any) -> None:
    press = "titles => titles.forEach(title => title.click())"
    tab.locator("#stage .fold > .label-wrap:not(.open)").evaluate_all(press)
    tab.locator("#figure-trace .main-svg").first.wait_for()
    tab.locator("#take .label-wrap:not(.open)").evaluate_all(press)
    tab.locator("#take .cm-content").last.wait_for()


def best_after(tab: Any) -> None:
    _batch(tab, SEARCHED)
    tab.locator("#best:not([disabled])").click()
    tab.locator("#best-ladder .plot-container").wait_for()
    tab.locator("#best-table").get_by_role("gridcell", name="Freezing").click()
    tab.locator("#best-opened h4").first.wait_for()


def history(tab: Any) -> None:
    _room(tab, 1)
    pick(tab, "slower", failed_result().id)
    tab.locator("#compare").click()
    tab.locator("#compared [role=gridcell]").first.wait_for()


def published(tab: Any) -> None:
    _room(tab, 2)
    for chart in ("durations", "by-batch"):
        tab.locator(f"#published-{chart} .plot-container").wait_for()
    tab.locator("#published-table [role=gridcell]").first.wait_for()


def sweep_before(tab: Any) -> None:
    _room(tab, 3)
    tab.locator("#sweep-start").wait_for()


def sweep_after(tab: Any) -> None:
    sweep_before(tab)
    tab.locator("#sweep-start").click()
    tab.locator("#sweep-status", has_text="8 of 8 cells finished").wait_for()
    tab.locator("#sweep-map .main-svg").first.wait_for()


def stage_after(tab: Any) -> None:
    _room(tab, 0)
    tab.locator("[data-stage=on]").click()
    tab.keyboard.press("2")
    tab.locator("#top .headline", has_text="with added graph breaks").wait_for()


def _room(tab: Any, number: int) -> None:
    tab.locator("#rooms button[role=tab]").nth(number).click()


STATES = (before, refusal, during, after, after_text, best_after, history, published, sweep_after, stage_after)


def _broken(tab: Any, rules: dict[str, Any]) -> list[str]:
    # the bars with Run stay at the lower edge, and would count as faults of the text behind them
    style = tab.add_style_tag(content="#actions, #stage-bar { position: static !important }")
    axe = axe_api.Axe().run(tab, options={"runOnly": rules, "resultTypes": ["violations"]}).response
    style.evaluate("style => style.remove()")
    assert axe["passes"], "nothing was judged"
    return [
        f"{rule['id']}: {node['html'][:200]}: {node['failureSummary']}"
        for rule in axe["violations"]
        for node in rule["nodes"]
    ]


def _look(tab: Any, dark: bool, size: dict[str, int]) -> None:
    tab.set_viewport_size(size)
    tab.evaluate("dark => document.body.classList.toggle('dark', dark)", dark)


FILLED = "() => ![...document.querySelectorAll('[aria-label=\"Empty value\"]')].some(empty => empty.checkVisibility())"
"""JavaScript that says whether gradio draws no visible component as empty, as it does before the value arrives."""


def _settled(tab: Any, read: Callable[[], list[str]]) -> list[str]:
    """Returns what `read` still finds wrong after five seconds: charts adapt to a new width only after a moment."""
    deadline = time.monotonic() + 5
    while (faults := read()) and time.monotonic() < deadline:
        tab.wait_for_timeout(100)
    return faults


FIGURES = {after: 1, after_text: 1, best_after: 2, history: 1, published: 2, sweep_after: 1}
"""Maps a state of the page to the least number of visible charts."""


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_everybody_can_use_each_state(state: Callable[[Any], None], page: Any) -> None:
    RUNNER.hold = False
    _look(page, False, DESKTOP)
    state(page)
    page.wait_for_function(FILLED)
    broken = {}
    for name, dark, size in (("light, desktop", False, DESKTOP), ("dark, phone", True, PHONE)):
        _look(page, dark, size)
        broken[name] = _settled(page, lambda: page.evaluate(BEYOND) + page.evaluate(NAMELESS))
        broken[name] += _settled(page, lambda: _broken(page, STANDARD))
        broken[name] += [f"{ratio:.2f}:1 {text}" for text, ratio in page.evaluate(CONTRAST) if ratio < 4.5]
    _look(page, False, ZOOMED)
    broken["zoomed"] = _settled(page, lambda: page.evaluate(BEYOND))
    figures = page.locator(".js-plotly-plot:visible").count()
    assert broken == {name: [] for name in broken}
    assert figures >= FIGURES.get(state, 0)


# Keys

STOPS = {
    "copy link": "#masthead [data-address]",
    "stage mode": "[data-stage]",
    "tabs": "#rooms [role=tab]",
    "task": "#task [type=radio]",
    "checkpoint": "#checkpoint input",
    "picture": "#picture :is(button, input)",
    "examples": "#examples button",
    "batch size": "#batch input",
    "mode": "#fields .field:nth-last-child(-n+4) input[role=combobox]",
    "number format": "#fields [type=radio]:is([value^=float], [value=tf32], [value=bfloat16])",
    "advanced": "#advanced .label-wrap",
    "run": "#run",
    "best": "#best",
    "cancel": "#cancel",
    "footer": "footer *",
}
"""Maps a name to the selector of what the Tab key meets from the top of the page, in this order."""
FOCUSED = """stops => {
  const part = document.activeElement;
  const ring = [part, part.closest('label'), part.closest('.wrap')].filter(Boolean).some(near => {
    const { outlineStyle, outlineWidth, opacity } = getComputedStyle(near);
    return outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2 && opacity !== '0';
  });
  const name = part === document.body ? '' : Object.keys(stops).find(stop => part.matches(stops[stop]));
  return [name ?? part.outerHTML.slice(0, 200), ring];
}"""


def _walk(tab: Any, most: int = 60) -> list[str]:
    """Returns the names of what the Tab key meets up to the page's end. Each must show that it has the focus."""
    reached: list[str] = []
    for _ in range(most):
        tab.keyboard.press("Tab")
        name, ring = tab.evaluate(FOCUSED, STOPS)
        if not name:
            break
        assert ring, f"{name} does not show the focus"
        if name not in reached[-1:]:
            reached.append(name)
    return reached


def test_the_tab_key_goes_from_task_to_run(page: Any, address: str) -> None:
    _open(page, address)
    _look(page, False, {"width": 1440, "height": 900})
    assert _walk(page) == [name for name in STOPS if name != "cancel"]
    for state in (published, sweep_before):
        state(page)
        page.locator("#rooms [role=tab][aria-selected=true]").focus()
        for _ in range(8):
            page.keyboard.press("Tab")
            name, ring = page.evaluate(FOCUSED, {})
            assert ring, name


def test_during_a_run_the_tab_key_reaches_cancel(page: Any) -> None:
    _room(page, 0)
    during(page)
    page.reload()
    page.locator("#cancel:not([disabled])").wait_for()
    assert _walk(page) == [name for name in STOPS if name not in ("run", "best")]
    moving = """() => [...document.querySelectorAll('main *')].filter(part => part.checkVisibility())
      .filter(part => {
        const { animationName, transitionProperty, transitionDuration } = getComputedStyle(part);
        return animationName !== 'none' || (transitionProperty !== 'none' && transitionDuration !== '0s');
      }).map(part => part.outerHTML.slice(0, 120))"""
    assert page.evaluate(moving) == []  # for those who asked for calm, as this tab did
    RUNNER.hold = False


# What the tabs do


def test_the_published_tab_keeps_its_filters_in_the_address(tab: Any, address: str) -> None:
    tab.goto(f"{address}?tab=published&published_subset=&published_gpu=%3Cscript%3E")
    tab.wait_for_url("**?tab=published&published_subset=&published_gpu=")  # what is no choice is not kept
    tab.get_by_label("GPU", exact=True).click()
    tab.get_by_role("option", name="T4").click()
    tab.wait_for_url("**?tab=published&*published_gpu=T4*")
    copied = tab.url
    tab.get_by_role("tab", name="Sweep").click()
    tab.wait_for_url("**?tab=sweep")
    tab.go_back()
    tab.wait_for_url(copied)
    tab.reload()
    tab.locator("#published-table .virtual-row", has_text="T4").first.wait_for()
    assert tab.get_by_label("GPU", exact=True).input_value() == "T4" and tab.url == copied
    tab.locator("#published-table [role=gridcell]").first.click()
    tab.wait_for_url("**?checkpoint=*")


def test_a_sweep_outlives_a_reload(tab: Any, address: str) -> None:
    tab.set_viewport_size({"width": 1280, "height": 720})
    tab.goto(f"{address}?tab=sweep")
    tab.locator("#sweep-plan", has_text="Cells: 8.").wait_for()
    assert tab.evaluate("document.querySelector('#sweep-start').getBoundingClientRect().bottom") <= 720
    tab.locator("#sweep-form input").last.focus()
    last, actions = (tab.locator(part).last.bounding_box() for part in ("#sweep-form input", "#sweep-actions"))
    assert last["y"] + last["height"] <= actions["y"]  # what gets the focus does not lie under the buttons

    LET_GO.clear()
    tab.locator("#sweep-start").click()
    tab.locator("#sweep-status", has_text="1 of 8").wait_for()
    tab.reload()
    tab.get_by_role("tab", name="Sweep").click()
    tab.locator("#sweep-stop:not([disabled])").wait_for()
    LET_GO.set()
    RUNNER.hold = False
    tab.locator("#sweep-status", has_text="8 of 8 cells finished").wait_for()

    tab.locator("#sweep-table").get_by_role("gridcell", name="OOM").click()
    tab.locator("#top", has_text="ran out of memory").wait_for()
    tab.wait_for_url("**run=*")
    tab.go_back()
    tab.locator("#sweep-map .heatmap-label", has_text="OOM").wait_for()


# ---- History


def row_of(tab: Any, id: str) -> Any:
    return tab.locator("#runs .virtual-row", has=tab.get_by_role("gridcell", name=id, exact=True))


def pick(tab: Any, *ids: str) -> None:
    for id in ids:
        chosen = tab.locator("#selected .token").count()
        row_of(tab, id).get_by_role("gridcell").first.click()
        tab.locator("#selected .token").nth(chosen).wait_for()


def test_back_returns_to_a_comparison(tab: Any, address: str) -> None:
    tab.goto(f"{address}?tab=history")
    tab.locator("#runs [role=gridcell]").first.wait_for()  # gradio loses what is typed before the page is together
    tab.get_by_label("Search", exact=True).fill("2026-11-21")
    tab.locator("#history-shown", has_text="3 runs").wait_for()
    pick(tab, "slower", failed_result().id, ok_result().id)
    tab.locator("#compare").click()
    tab.locator("#compared").get_by_text("3 runs compared").wait_for()
    tab.wait_for_url("**?tab=history&history_compare=*")
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Export CSV", exact=True).click()
    assert download.value.suggested_filename == "worth-compiling-runs.csv"
    assert "slower" in Path(download.value.path()).read_text()

    row_of(tab, "slower").get_by_role("gridcell").nth(1).focus()
    tab.keyboard.press("Enter")
    tab.wait_for_url("**run=slower*")
    assert "slower" in tab.locator("#top .headline .speed").inner_text()
    tab.wait_for_function("document.title === 'shapes-vit 2.00× slower · Worth compiling?'")
    tab.go_back()
    tab.locator("#runs").wait_for()
    tab.wait_for_function("document.title.startsWith('History')")
    assert "tab=history&history_compare=" in tab.url
    tab.locator("#compared").get_by_text("3 runs compared").wait_for()
    row_of(tab, ok_result().id).get_by_role("gridcell").nth(1).click()
    tab.wait_for_url(f"**run={ok_result().id}*")
    tab.get_by_role("tab", name="History").click()
    row_of(tab, "slower").get_by_role("gridcell").nth(1).click()
    tab.wait_for_url("**run=slower*")
    tab.go_back()
    tab.go_back()
    tab.locator("#top .headline .speed", has_text="faster").wait_for()


@pytest.mark.parametrize("agreed", [False, True], ids=["denied", "agreed"])
def test_runs_are_deleted_only_after_a_question(tab: Any, address: str, stored_runs: History, agreed: bool) -> None:
    tab.goto(f"{address}?tab=history")
    pick(tab, "mine4", "mine2")
    questions: list[str] = []
    tab.once(
        "dialog", lambda dialog: (questions.append(dialog.message), dialog.accept() if agreed else dialog.dismiss())
    )
    tab.locator("#delete").click()
    tab.get_by_text("2 runs deleted." if agreed else "No run was deleted.").wait_for()
    assert questions == ["Delete the selected runs (2) for good?"]
    assert [id for id in ("mine2", "mine4") if stored_runs.get(id)] == ([] if agreed else ["mine2", "mine4"])
