"""The page for those who do not see it, do not see it well, or use no mouse: a real browser, and axe-core as judge.

Every state of the page must break no rule of WCAG 2.2 A and AA that axe-core knows, in both themes, on a desktop and on
a phone. No rule is left out. A fake runner stands for the models.
"""

import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import shared_tables
from fake_runner import FakeRunner
from page_support import stored
from samples import failed_result, full_result, measurement, ok_result, text_result
from troubles import BEYOND

from demo.core.measurement import Compilation, CompileCost, StartUp
from demo.core.outputs import Parity
from demo.core.result import RunResult
from demo.core.spec import BadInput, RunSpec
from demo.store import shared_rows
from demo.store.history import FOLDER_VARIABLE
from demo.store.hub_dataset import PushedHistory
from demo.store.shared_rows import Shared
from demo.ui.page import Page

DESKTOP = {"width": 1920, "height": 1080}
PHONE = {"width": 320, "height": 640}
"""320 pixels, for which WCAG wants a page to reflow: a desktop at a zoom of 400 %, too."""
ZOOMED = {"width": 720, "height": 450}
"""A desktop of 1440 by 900 at a zoom of 200 %."""
PAPER = {"width": 703, "height": 1000}
"""What 12 mm of margin leave of A4."""
STANDARD = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
"""What paper can break: the rest was judged on the screen."""
REFUSED = 13
"""The batch size that the fake runner refuses."""
SEARCHED = 2
"""The batch size of the search for the best way."""
STORED = stored("segmentation")
RESULT = full_result(
    image=STORED.image, predictions=STORED.predictions, parity=STORED.parity, warnings=("The clock fell.",)
)
SAID = text_result().predictions or {}
TEXT = text_result(
    predictions=SAID | {"compiled": dataclasses.replace(SAID["eager"], token_ids=(5, 6, 9, 8))},
    parity=Parity("differ", 0.2, "Outputs differ by more than 0.001.", {"same_tokens": 0.5}),
)
"""Its two answers part at the third token."""

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
        return failed_result(spec=spec) if spec.checkpoint == "shapes-rtdetr" else ok_result(spec=spec)
    if spec.task == "text-generation":
        return TEXT
    return RESULT if spec.task == "image-classification" else ok_result(spec=spec, compiled=measurement(0.009))


RUNNER = FakeRunner(answer, seconds=0.4)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, served: Any) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        folder = str(tmp_path_factory.mktemp("data"))
        patch.setenv(FOLDER_VARIABLE, folder)
        history = PushedHistory("somebody/runs", lambda **_: None)
        read, _ = shared_rows.read(shared_tables.write(Path(folder), shared_tables.plausible(60)))
        shown = Shared("somebody/runs", tuple(read), fetched_at="2026-11-23T08:00:00Z", problem="failed")
        patch.setattr(history.shared, "look", lambda busy: shown)
        for result in (full_result(), failed_result(), ok_result()):
            history.append(result)
        yield served(Page(RUNNER, history=history).blocks)
        RUNNER.hold = False


@pytest.fixture(scope="module")
def tab(new_tab: Any, address: str) -> Any:
    """One tab for all tests of this file. The states follow one another in it."""
    tab = new_tab()
    _open(tab, address)
    return tab


def _open(tab: Any, address: str) -> None:
    tab.goto(f"{address}?__theme=light&batch_size=3")  # a link that asks for nothing would show a run that just ended
    tab.locator("#chart .plot-container").wait_for(state="attached")
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
    tab.locator("#part-machine table").wait_for()


def after_text(tab: Any) -> None:
    tab.get_by_label("Text generation", exact=True).check(force=True)
    tab.wait_for_function("document.querySelector('#checkpoint input').value === 'shapes-gemma'")
    tab.locator("#run:not([disabled])").click()
    tab.locator("#seen .written .parted").first.wait_for()
    _unfold(tab)


def _unfold(tab: Any) -> None:
    """Every section of the result."""
    press = "titles => titles.forEach(title => title.click())"
    tab.locator("#stage .fold > .label-wrap:not(.open)").evaluate_all(press)
    tab.locator("#figure-calls .main-svg").first.wait_for()
    tab.locator("#stage details:not([open]) > summary").evaluate_all(press)


def best_after(tab: Any) -> None:
    """With a row opened, a way that is out, and the fields of the goal."""
    _batch(tab, SEARCHED)
    tab.locator("#best:not([disabled])").click()
    tab.locator("#best-ladder .plot-container").wait_for()
    tab.locator("#best-goals label").last.click()
    tab.locator("#best-goals input[type=number]").first.wait_for()
    tab.locator("#best-table a").first.click()
    tab.locator("#best-opened section").first.wait_for()
    tab.locator("#best-code summary").first.click()


def history(tab: Any) -> None:
    """With rows, two of them compared, and the question whether to delete them."""
    _room(tab, 1)
    for row in (0, 1):
        tab.locator("#runs .pick input").nth(row).check()
    tab.locator("#compare").click()
    tab.locator("#compared table").wait_for()
    tab.locator("#delete").click()
    tab.locator("#for-good").wait_for()


def published(tab: Any) -> None:
    _room(tab, 2)
    for chart in ("durations", "by-batch"):
        tab.locator(f"#published-{chart} .plot-container").wait_for()
    tab.locator(".explorer table:visible").wait_for()


def shared(tab: Any) -> None:
    _room(tab, 3)
    tab.locator("#shared-table tbody tr").first.wait_for()


def sweep_before(tab: Any) -> None:
    _room(tab, 4)
    tab.locator("#sweep-start").wait_for()


def sweep_after(tab: Any) -> None:
    """With a cell opened; the map has faster, slower and failed ones."""
    sweep_before(tab)
    tab.locator("#sweep-start").click()
    tab.locator("#sweep-status .progress[aria-valuenow='8']").wait_for()
    tab.locator("#sweep-map button").first.click()
    tab.locator("#sweep-opened section").first.wait_for()


def stage_after(tab: Any) -> None:
    _room(tab, 0)
    tab.locator("[data-stage=on]").click()
    tab.keyboard.press("2")
    tab.locator("#stage-words .chosen").wait_for()
    tab.locator("#run:not([disabled])").click()
    tab.locator("#seen .written").first.wait_for(state="detached")
    tab.locator("#top .headline").wait_for()


def _room(tab: Any, number: int) -> None:
    tab.locator("#rooms button[role=tab]").nth(number).click()


STATES = (before, refusal, during, after, after_text, best_after, history, published, shared, sweep_after, stage_after)


@pytest.fixture(scope="module", params=STATES, ids=lambda state: state.__name__)
def reached(request: pytest.FixtureRequest, tab: Any) -> Any:
    """The tab in one of the states, for all tests that only look at it."""
    RUNNER.hold = False
    _look(tab, False, DESKTOP)
    request.param(tab)
    return tab


def _broken(tab: Any, rules: dict[str, Any]) -> list[str]:
    """The rule, the element and what axe-core says of it, for each breach."""
    # The bars with Run stay at the lower edge, and would be held against the text that they happen to lie over.
    style = tab.add_style_tag(content="#actions, #stage-bar { position: static !important }")
    found = axe_api.Axe().run(tab, options={"runOnly": rules, "resultTypes": ["violations"]}).response
    style.evaluate("style => style.remove()")
    assert found["passes"], "nothing was judged"
    return [
        f"{rule['id']}: {node['html'][:200]}: {node['failureSummary']}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


def _look(tab: Any, dark: bool, size: dict[str, int]) -> None:
    tab.set_viewport_size(size)
    tab.evaluate("dark => document.body.classList.toggle('dark', dark)", dark)


def _settled(tab: Any, read: Callable[[], list[str]]) -> list[str]:
    """What `read` finds wrong and still finds after five seconds: plotly draws to a new width, and aloud.js gives a
    figure its name, a moment later."""
    deadline = time.monotonic() + 5
    while (found := read()) and time.monotonic() < deadline:
        tab.wait_for_timeout(100)
    return found


CONTRAST = """() => {
  const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = colour => colour.map(part => part / 255)
    .map(part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, which) => sum + part * [0.2126, 0.7152, 0.0722][which], 0);
  const behind = part => {
    const colour = numbers(getComputedStyle(part).backgroundColor);
    return colour.length === 3 ? colour : behind(part.parentElement);  // the fourth is an opacity: transparent
  };
  const texts = [...document.querySelectorAll('.js-plotly-plot :is(text, tspan)')];
  return texts.filter(text => text.checkVisibility() && /[\\p{L}\\p{N}]/u.test(text.textContent)).map(text => {
    const plot = text.closest('.js-plotly-plot'), paper = behind(plot);
    let opacity = 1;
    for (let part = text; part !== plot; part = part.parentElement) opacity *= getComputedStyle(part).opacity;
    const ink = numbers(getComputedStyle(text).fill).slice(0, 3)
      .map((part, which) => part * opacity + paper[which] * (1 - opacity));
    const [dim, bright] = [light(ink), light(paper)].sort((one, other) => one - other);
    return [text.textContent, (bright + 0.05) / (dim + 0.05)];
  });
}"""
"""The contrast of a figure's texts against the page: axe-core judges no text inside SVG. Signs without a letter or
digit stand for a colour that a word beside them names."""


UNTOLD = """() => [...document.querySelectorAll('.js-plotly-plot')].filter(figure => figure.checkVisibility())
  .map(figure => [figure, figure.querySelector('.gtitle')?.textContent.trim(), figure.getAttribute('aria-label')])
  .filter(([figure, title, said]) => !(figure.role === 'img' && title && said?.startsWith(title)))
  .map(([figure, title, said]) => `${title}: ${said}`)"""
FIGURES = {before: 1, after: 4, after_text: 3, best_after: 2, published: 2}
"""At least so many are in sight."""


def test_no_state_breaks_a_rule_or_loses_anything_on_a_desktop_on_a_phone_or_zoomed_in_and_figures_are_told(
    reached: Any, request: pytest.FixtureRequest
) -> None:
    broken = {}
    for name, dark, size in (("light, desktop", False, DESKTOP), ("dark, phone", True, PHONE)):
        _look(reached, dark, size)
        broken[name] = _settled(reached, lambda: reached.evaluate(BEYOND) + reached.evaluate(UNTOLD))
        broken[name] += _broken(reached, STANDARD)
        broken[name] += [f"{ratio:.2f}:1 {text}" for text, ratio in reached.evaluate(CONTRAST) if ratio < 4.5]
    _look(reached, False, ZOOMED)
    broken["zoomed"] = _settled(reached, lambda: reached.evaluate(BEYOND))
    assert broken == {name: [] for name in broken}
    figures = reached.locator(".js-plotly-plot:visible").count()
    assert figures >= FIGURES.get(request.node.callspec.params["reached"], 0)


CONTROLS = """() => [...document.querySelectorAll('.gradio-container :is(button, input, select, textarea)')]
  .filter(part => part.checkVisibility() && part.getBoundingClientRect().width > 1)
  .filter(part => !part.matches('.heat button, #stage .fold > .label-wrap.open'))
  .map(part => part.outerHTML.slice(0, 120))"""
"""What can be pressed or filled, without cells of a heat map and titles of open sections, which say something."""


def test_on_paper_the_open_tab_stands_alone_whole_legible_and_without_controls(reached: Any) -> None:
    _look(reached, True, PAPER)
    reached.emulate_media(media="print")
    reached.evaluate("dispatchEvent(new Event('beforeprint'))")
    try:
        assert reached.locator("#rooms > .tabitem:visible").count() == 1
        assert _settled(reached, lambda: reached.evaluate(CONTROLS) + reached.evaluate(BEYOND)) == []
        assert _broken(reached, COLOURS) == []
    finally:
        reached.evaluate("dispatchEvent(new Event('afterprint'))")
        reached.emulate_media(media="screen")


# Keys

STOPS = {
    "copy link": "#masthead [data-address]",
    "language": "#language",
    "stage mode": "[data-stage]",
    "tabs": "#rooms [role=tab]",
    "task": "#task [type=radio]",
    "checkpoint": "#checkpoint input",
    "picture": "#picture :is(button, input)",
    "examples": "#examples-drawn button",
    "batch size": "#batch input",
    "mode": "#fields .field:nth-last-child(-n+4) input[role=combobox]",
    "number format": "#fields [type=radio]:is([value^=float], [value=tf32], [value=bfloat16])",
    "advanced": "#advanced .label-wrap",
    "run": "#run",
    "best": "#best",
    "cancel": "#cancel",
    "footer": "footer *",
}
"""What the Tab key meets from the top of the page, in this order."""
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
    """The stops of the Tab key from the top of the page to its end. Each must show that it has the focus."""
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


def test_the_tab_key_goes_from_task_to_run_and_every_stop_shows_the_focus(tab: Any, address: str) -> None:
    _open(tab, address)
    _look(tab, False, {"width": 1440, "height": 900})
    assert _walk(tab) == [name for name in STOPS if name != "cancel"]
    for state in (published, sweep_before):
        state(tab)
        tab.locator("#rooms [role=tab][aria-selected=true]").focus()
        for _ in range(8):
            tab.keyboard.press("Tab")
            name, ring = tab.evaluate(FOCUSED, {})
            assert ring, name


def test_while_a_run_goes_the_tab_key_reaches_cancel_and_nothing_moves(tab: Any) -> None:
    during(tab)
    tab.reload()
    tab.locator("#cancel:not([disabled])").wait_for()
    assert _walk(tab) == [name for name in STOPS if name not in ("run", "best")]
    moving = """() => [...document.querySelectorAll('main *')].filter(part => part.checkVisibility())
      .filter(part => {
        const { animationName, transitionProperty, transitionDuration } = getComputedStyle(part);
        return animationName !== 'none' || (transitionProperty !== 'none' && transitionDuration !== '0s');
      }).map(part => part.outerHTML.slice(0, 120))"""
    assert tab.evaluate(moving) == []  # for those who asked for calm, as this tab did
    RUNNER.hold = False
