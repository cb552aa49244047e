"""Tests of the tab Run in a real browser with a fake runner: the form, the answer, and what can be done with it."""

import dataclasses
import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import compile_path
from support.fake_runner import FakeRunner, measured
from support.page_support import stored
from support.samples import MACHINE, launching, measurement, ok_result, text_result
from support.troubles import collect_troubles

from demo.core.comparison import Spread, WayCost
from demo.core.options import BadInput, RunSpec
from demo.core.outputs import Predictions
from demo.core.result import RunResult
from demo.core.stats import Duration
from demo.present import whole_work
from demo.store.history import History
from demo.ui.look import source
from demo.ui.page import Page
from demo.ui.tabs import form, links
from demo.ui.tabs.run_tab import BROWSER_KEY
from demo.ui.web.guard import PAGE_ROUTES

STORED = stored("segmentation")
REFUSED = 13
"""A batch size that the fake runner refuses, as a worker would refuse a wrong setting."""
WROTE = Predictions(text=64 * " star", pieces=64 * (" star",), token_ids=64 * (7,))
LONG = 64
"""A batch size whose run lasts until it is cancelled."""
HEADLINE = "#top .headline .figure"


class Runner(FakeRunner):
    def answer_to(self, spec: RunSpec, image: Path | None) -> RunResult | Exception:
        self.seconds = 600.0 if LONG == spec.batch_size else 0.4
        if spec.batch_size == REFUSED:
            return BadInput("Batch size 13 is unlucky. Choose another one.")
        if spec.task == "text-generation":
            return text_result(spec=spec, predictions={"eager": WROTE, "compiled": WROTE})
        return dataclasses.replace(
            measured(spec),
            spec=dataclasses.replace(spec, device="cpu"),
            image=dataclasses.replace(
                STORED.image, sha256=hashlib.sha256(image.read_bytes() if image else b"").hexdigest()
            ),
            predictions=STORED.predictions,
            parity=STORED.parity,
            spread=Spread("assumed", 0.03),
            eager=measurement(0.012),
            control_times=measurement(0.012),
            compiled=measurement(0.004 if spec.freezing else 0.005 if spec.compiler == "aot" else 0.006),
            without_breaks=ok_result().speedup if spec.graph_break else None,
        )


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    history = History(tmp_path_factory.mktemp("data") / "history.sqlite3")
    fake_runner = Runner(lambda spec, image: fake_runner.answer_to(spec, image), 0.4, MACHINE, history)
    return fake_runner


@pytest.fixture(scope="module")
def address(runner: Runner, served: Any) -> str:
    return str(served(Page(runner, history=runner.history)))


@pytest.fixture(scope="module")
def page(new_tab: Any) -> Any:
    """Returns the tab that all tests of this file share."""
    return new_tab()


@pytest.fixture
def tab(page: Any, runner: Runner) -> Iterator[Any]:
    """Yields the shared tab as the test before has left it, in the size of a desktop window."""
    page.set_viewport_size({"width": 1440, "height": 900})
    yield page
    runner.hold = False


@pytest.fixture
def shown(tab: Any, address: str) -> Any:
    """Returns the shared tab, with the answer of a run in it."""
    if not tab.locator("#top .headline").count():
        open_link(tab, address)
        run(tab)
    tab.locator("#top .headline").wait_for()
    return tab


def open_link(tab: Any, url: str = "") -> None:
    """Opens the link, or the same page again, and waits until the page shows the machine.

    A link that asks for nothing would show a run that has just ended."""
    if url:
        tab.goto(url)
    else:
        tab.reload()
    tab.locator("#forecast .forecast").wait_for(state="attached")
    tab.get_by_text("Example CPU").first.wait_for(state="attached")
    tab.wait_for_function("key => localStorage.getItem(key)", arg=BROWSER_KEY)  # by which a visitor's run is found


def batch(tab: Any) -> Any:
    return tab.get_by_label("number input for Batch size")


def run(tab: Any, batch_size: int | None = None) -> None:
    if batch_size is not None:
        batch(tab).fill(str(batch_size))
        batch(tab).press("Tab")
    tab.locator("#run:not([disabled])").click()


def cost(first: float, call: float, sure: float) -> WayCost:
    """Returns the seconds of a first call and of each further call.

    Their intervals reach the factor `sure` to either side.
    """
    return WayCost(*(Duration(seconds, seconds / sure, seconds * sure) for seconds in (first, call)))


def scroll_width(tab: Any) -> int:
    return int(tab.evaluate("document.documentElement.scrollWidth"))


# ---- the form


PLACES = """() => ['#batch', '#advanced'].map(id => document.querySelector(id).getBoundingClientRect().top)"""


def test_the_form_follows_the_task(tab: Any, address: str) -> None:
    """A text model asks for a prompt. OWL-ViT asks what to look for, and gets a photograph as its picture."""
    open_link(tab, f"{address}?batch_size=4")
    prompt, picture = tab.get_by_label("Prompt"), tab.locator("#picture")
    before = tab.evaluate(PLACES)
    assert picture.is_visible() and not prompt.is_visible()
    tab.get_by_label("Text generation", exact=True).check(force=True)
    tab.get_by_text("shapes-gemma: a small").wait_for()
    assert prompt.is_visible() and not picture.is_visible()
    tab.get_by_role("button", name="The picture shows a", exact=True).click()
    tab.wait_for_function("document.querySelector('#prompt textarea').value === 'The picture shows a'")
    prompt.fill("A long prompt.\n" * 30)
    assert tab.evaluate(PLACES) == pytest.approx(before, abs=0.5)

    field = tab.get_by_label("What to look for")
    assert not field.is_visible()
    tab.get_by_label("Detection", exact=True).check(force=True)
    tab.get_by_text("shapes-rtdetr: a small").wait_for()
    tab.get_by_role("combobox", name="Checkpoint").click()
    tab.get_by_role("option", name="google/owlvit-base-patch32").click()
    field.wait_for()
    tab.locator("#picture img[src$='lion.jpg']").wait_for()
    assert tab.locator("#examples button").last.get_attribute("aria-label") == "Example: tower"


def test_run_stays_in_sight_below_its_forecast(tab: Any, address: str) -> None:
    open_link(tab, f"{address}?mode=reduce-overhead")
    tab.locator("#forecast").get_by_text("which need a GPU").wait_for()
    tab.get_by_role("button", name="Advanced").press("Space")
    tab.get_by_label("Threads").fill("many")
    tab.locator("#forecast").get_by_text("must be a whole number").wait_for()
    for width, height in ((1440, 900), (1280, 720), (1920, 1080)):
        tab.set_viewport_size({"width": width, "height": height})
        box = tab.locator("#actions").bounding_box()
        assert box["y"] + box["height"] <= height


def test_on_a_phone_the_question_comes_first(tab: Any, address: str) -> None:
    tab.set_viewport_size({"width": 390, "height": 844})
    open_link(tab, f"{address}?batch_size=2")
    parts = ("#top .question", "#race, .recorded", "#task")
    tops = [tab.locator(part).locator("visible=true").first.bounding_box()["y"] for part in parts]
    assert tops == sorted(tops) and tops[1] < 700
    actions = tab.locator("#actions").bounding_box()
    assert actions["y"] + actions["height"] <= 844


def test_control_enter_runs_before_a_field_has_the_focus(tab: Any, address: str) -> None:
    open_link(tab, f"{address}?batch_size=2")
    assert tab.evaluate("document.activeElement === document.body")
    tab.keyboard.press("Control+Enter")
    tab.locator("#top .headline").wait_for()


def test_the_masthead_copies_the_link(tab: Any, address: str) -> None:
    open_link(tab, f"{address}?batch_size=4")
    tab.locator("#forecast [data-query*=batch_size]").wait_for(state="attached")
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])

    def copied() -> str:
        tab.locator("#masthead").get_by_role("button", name="Copy link").click()
        tab.locator("#masthead").get_by_role("button", name="Copied").wait_for()
        return str(tab.evaluate("navigator.clipboard.readText()"))

    assert copied() == f"{address}?checkpoint=shapes-vit&batch_size=4"
    tab.get_by_role("tab", name="History").click()
    tab.evaluate("document.querySelector('[data-address]').dataset.address = 'https://outer.example/page'")
    tab.locator("#masthead").get_by_role("button", name="Copy link").wait_for()
    assert copied() == "https://outer.example/page?batch_size=4&tab=history"


# ---- a run, and its answer


def test_figures_of_folds_fill_the_stage(shown: Any) -> None:
    title = shown.locator("#stage .fold > button", has_text="Why")
    assert title.get_attribute("aria-expanded") in (None, "false")
    title.press("Enter")
    shown.locator("#figure-trace .main-svg").first.wait_for()
    shown.wait_for_function(
        "wide => document.querySelector('#figure-trace .main-svg').clientWidth > 0.95 * wide",
        arg=shown.locator("#stage").bounding_box()["width"],
    )
    assert scroll_width(shown) == 1440


def test_an_offer_sets_the_mode_and_runs_once(tab: Any, address: str, runner: Runner) -> None:
    """Only a press on the offered link runs: reloading its address, or opening it, starts nothing."""
    offered = dataclasses.replace(launching(0.62, device="auto"), id="launching")
    runner.history.append(offered)
    open_link(tab, f"{address}?run=launching")
    before = len(runner.runs)
    tab.locator("#top a[data-run]").click()
    tab.wait_for_url("**mode=reduce-overhead*")
    tab.locator("#top .headline:not(:has(a[data-run]))").wait_for()
    open_link(tab, f"{address}?mode=reduce-overhead")
    assert [spec.mode for spec in runner.runs[before:]] == ["reduce-overhead"]


def test_the_race_replaces_what_was_shown(shown: Any, runner: Runner) -> None:
    run(shown, REFUSED)
    notice = shown.locator("#notice .problem", has_text="unlucky")
    notice.wait_for()
    assert notice.bounding_box()["y"] < shown.locator("#top .figure").bounding_box()["y"]
    shown.set_viewport_size({"width": 1440, "height": 600})
    batch(shown).fill("1")
    shown.wait_for_function("(window.scrollTo(0, 700), window.scrollY > 600)")
    runner.hold = True
    shown.keyboard.press("Control+Enter")
    shown.locator(".live .narrowing:not(.empty)").wait_for()
    shown.wait_for_function("window.scrollY === 0")
    notice.wait_for(state="hidden")
    assert shown.locator(".live .race:visible polyline").count() == 2
    assert not shown.locator("#top").is_visible() and not shown.locator("#race").is_visible()
    runner.hold = False
    shown.locator("#race .race:visible").wait_for()
    assert not shown.locator(".live").is_visible()


# ---- how many calls between two restarts


def test_the_browser_says_what_python_says(chromium: Any) -> None:
    """JavaScript and Python give the same sentences and figures for 200 made-up results and numbers of calls."""
    rng, inputs, expected = random.Random(63), [], []
    for number in range(200):
        costs = [
            cost(rng.choice([0.1, 3, 40]), 10 ** rng.uniform(-4, 0), rng.uniform(1, 3)) for _ in range(1 + number % 4)
        ]
        ways = {"eager": cost(0, 10 ** rng.uniform(-4, 0), 1)}
        ways |= {f"way {n}": way_cost for n, way_cost in enumerate(costs)}
        choice = whole_work.Choice({"a start": ways}, "call", rng.choice([1, 8]))
        calls = whole_work.calls_at(2 * number)
        inputs.append([json.loads(whole_work.slider_data(choice)), 2 * number])
        expected.append([calls, whole_work.answer(ways, calls), whole_work.eager_takes(choice, calls)])
    tab = chromium.new_page()
    tab.add_script_tag(content=whole_work.file_text("whole_work.js"))
    script = """inputs => inputs.map(([work, step]) => { const calls = wholeWork.callsAt(step);
      return [calls, wholeWork.answer(work.starts['a start'], calls), wholeWork.eagerTakes(work, calls)]; })"""
    assert tab.evaluate(script, inputs) == expected
    tab.close()


@pytest.mark.parametrize(
    ("typed", "calls", "shows"),
    [
        ("40000", 40_000, "40\u202f000"),
        ("40 000", 40_000, "40\u202f000"),
        ("1,500", 1_500, "1\u202f500"),
        ("40k", 40_000, "40\u202f000"),
        ("1.5M", 1_500_000, "1\u202f500\u202f000"),
        ("2/s", 172_800, "2/s"),
        ("500 per hour", 12_000, "500 per hour"),
        ("0.5 / min", 720, "0.5 / min"),
        *((wrong, None, None) for wrong in ("", "0", "-3", "1e9", "200M", "0,5/s", "many", "2/year", "2/month")),
    ],
)
def test_a_number_of_calls_or_a_rate_is_read(typed: str, calls: int | None, shows: str | None, shown: Any) -> None:
    read = shown.evaluate("text => wholeWork.read(text)", typed)
    assert (read and read["calls"]) == calls
    field = shown.locator("#work .typed")
    before = field.input_value()
    field.fill(typed)
    assert field.get_attribute("aria-invalid") == str(calls is None).lower()
    field.blur()
    assert field.input_value() == (before if shows is None else shows)


DRAGGED = """() => { const slider = document.querySelector('#work [type=range]'), said = [];
  for (slider.value of [0, 400]) {
    slider.dispatchEvent(new Event('input', { bubbles: true }));
    said.push(document.querySelector('#work .start b').textContent.split(' ')[0]);
  }
  return said; }"""
"""JavaScript that returns what the page says at both ends of the slider, at once: the server has no time to answer."""


def test_the_slider_tells_what_compiling_saves_without_the_server(shown: Any) -> None:
    assert shown.evaluate(DRAGGED) == ["costs", "saves"]


def test_the_slider_is_moved_by_keys(shown: Any) -> None:
    slider, calls_field = shown.get_by_role("slider", name="between two restarts"), shown.locator("#work .typed")
    slider.focus()
    shown.keyboard.press("End")
    assert calls_field.evaluate("field => field.scrollWidth <= field.clientWidth")
    assert slider.get_attribute("aria-valuetext") == "100\N{NARROW NO-BREAK SPACE}000\N{NARROW NO-BREAK SPACE}000 calls"
    shown.keyboard.press("Home")
    shown.keyboard.press("ArrowRight")
    assert slider.input_value() == "1"
    race = shown.locator("#race .race:visible")
    assert race.locator(".asked circle").count() == race.locator(".line[data-each]").count() > 1
    calls_field.fill("1200")
    shown.keyboard.press("Enter")
    assert "calls=1200" in shown.url
    sentence = shown.locator("#work .aloud").inner_text()
    assert sentence.startswith("1\N{NARROW NO-BREAK SPACE}200 calls: from nothing costs ")


def test_a_link_keeps_the_number_of_calls(shown: Any, address: str) -> None:
    shown.wait_for_url("**run=*")
    run_id = shown.evaluate("new URLSearchParams(location.search).get('run')")
    open_link(shown, f"{address}?run={run_id}&calls=3/s")
    calls_field = shown.locator("#work .typed")
    calls_field.wait_for()
    assert calls_field.input_value() == "3/s"
    assert "259\N{NARROW NO-BREAK SPACE}200 calls a day" in shown.locator("#work .eager-takes").inner_text()


# ---- nothing is lost


IN_FRONT = """() => { const { top } = document.querySelector('#top .headline').getBoundingClientRect();
  return scrollY > 0 && top >= 0 && top < innerHeight / 2; }"""
"""JavaScript that returns whether the answer begins in the upper half of a phone's window, below the form."""


def test_a_run_outlives_a_reload(tab: Any, address: str, troubles: list[str]) -> None:
    open_link(tab, f"{address}?batch_size={LONG}")
    run(tab)
    tab.locator(".live").wait_for()
    open_link(tab)
    tab.locator(".live .steps").wait_for()
    assert tab.locator("#run").is_disabled() and batch(tab).input_value() == str(LONG)

    tab.locator("#cancel").click()
    tab.locator("#top .problem").get_by_text("Cancelled", exact=True).wait_for()

    run(tab, 5)
    tab.locator(HEADLINE, has_text="2.0×").wait_for()
    tab.wait_for_url("**run=*")
    second = tab.context.new_page()  # its storage is emptied: this browser was never here
    collect_troubles(second, address, troubles)
    second.set_viewport_size({"width": 390, "height": 900})
    open_link(second, tab.url)
    second.locator(HEADLINE).wait_for()
    second.wait_for_function(IN_FRONT)
    assert batch(second).input_value() == "5"  # of the run, although the link asks for another one, too
    second.close()


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


# ---- stage mode

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
    """Checks that speed-up and interval are on one side, the picture on the other, and all of it is above the bar."""
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


def test_a_browser_asks_for_the_routes_of_the_page(tab: Any, address: str, runner: Runner) -> None:
    """The guard refuses any other route, so a page that needs another one would log an error."""
    requests: set[tuple[str, str]] = set()
    tab.on("request", lambda request: requests.add((request.method, "/" + request.url.removeprefix(address))))
    open_link(tab, address)
    tab.locator("#form input[type=file]").first.set_input_files(form.photographs()[0])
    tab.locator("#form img[src*=lion]").first.wait_for()
    run(tab, LONG)
    tab.locator("#cancel:not([disabled])").click()
    tab.locator("#run:not([disabled])").wait_for()
    routes = {(method, route) for method, paths in PAGE_ROUTES.items() for route in paths}
    patterns = {(method, compile_path(route)[0]): (method, route) for method, route in routes}
    used = {
        route
        for method, url in requests
        for (allowed, pattern), route in patterns.items()
        if method == allowed and pattern.match(url.partition("?")[0])
    }
    assert used == routes, (routes - used, sorted(requests))


def test_a_space_tells_the_outer_page_which_run_is_shown(chromium: Any) -> None:
    assert messages_to_the_outer_page(chromium, "me-page.hf.space") == ["stage=1&run=0123", "stage=1"]
    assert messages_to_the_outer_page(chromium, "example.org") == []


def messages_to_the_outer_page(chromium: Any, host: str) -> list[str]:
    """Returns the messages that a page of the Hub gets from the page of `host` in its frame, as runs are shown."""
    outer, inner = "https://huggingface.co/spaces/me/page", f"https://{host}/?__theme=dark&stage=1"
    pages = {
        outer: f"<script>told = []; onmessage = event => told.push(event.data)</script><iframe src='{inner}'></iframe>",
        inner: f"<head><script>{source('stage.js')}{source('address.js')}</script></head>",
    }
    context = chromium.new_context()
    context.route("**/*", lambda route: route.fulfill(content_type="text/html", body=pages.get(route.request.url, "")))
    tab = context.new_page()
    tab.goto(outer)
    frame = tab.frames[1]
    frame.evaluate(links.REMEMBER, "0123")
    frame.evaluate(links.SHOW, "")
    frame.evaluate(
        "new Promise(done => setTimeout(() => { parent.postMessage({queryString: 'end'}, '*'); done(); }, 200))"
    )
    tab.wait_for_function("told.length && told.at(-1).queryString === 'end'")
    queries = [message["queryString"] for message in tab.evaluate("told")]
    context.close()
    return queries[:-1]
