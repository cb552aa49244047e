"""Tests of the slider for the number of calls, in a real browser with a fake runner: by mouse, keys and link."""

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import pytest
from support.chromium_page import open_link
from support.page_support import stored
from support.samples import ok_result, text_result

from demo.core.comparison import Spread, WayCost
from demo.core.measurement import Compilation, CompileCost, Measurement
from demo.core.outputs import Parity
from demo.core.result import RunResult
from demo.core.stats import Duration
from demo.present import whole_work
from demo.present.report import Report
from demo.store.history import History
from demo.ui.tabs.headline import recorded_runs


def cost(first: float, call: float, sure: float) -> WayCost:
    """Returns the seconds of a first call and of each further call.

    Their intervals reach the factor `sure` to either side.
    """
    return WayCost(*(Duration(seconds, seconds / sure, seconds * sure) for seconds in (first, call)))


IN_JAVASCRIPT = """inputs => inputs.map(([work, step]) => { const calls = wholeWork.callsAt(step);
  const answers = Object.values(work.starts).map(ways => wholeWork.answer(ways, calls));
  return [calls, answers, answers.map(wholeWork.unbroken), wholeWork.eagerTakes(work, calls)]; })"""


def same_in_both(chromium: Any, asked: list[tuple[whole_work.Choice, int]]) -> None:
    """Asserts that JavaScript and Python give the same sentences, to the last digit, for choices at slider's steps."""
    inputs = [[json.loads(whole_work.slider_data(choice)), step] for choice, step in asked]
    expected = []
    for choice, step in asked:
        calls = whole_work.calls_at(step)
        answers = [whole_work.answer(ways, calls) for ways in choice.starts.values()]
        expected.append([calls, answers, [*map(whole_work.unbroken, answers)], whole_work.eager_takes(choice, calls)])
    tab = chromium.new_page()
    tab.add_script_tag(content=whole_work.file_text("whole_work.js"))
    assert tab.evaluate(IN_JAVASCRIPT, inputs) == expected
    tab.close()


def made_up(rng: random.Random, number: int) -> RunResult:
    """Returns a result whose calls take as long as nobody measured them: fast and slow, steady and noisy."""
    seconds, gain, noise = 10 ** rng.uniform(-4, 0), 10 ** rng.uniform(-0.2, 0.6), 10 ** rng.uniform(-3, -0.7)

    def timed(mean: float) -> Measurement:
        times = tuple(mean * rng.lognormvariate(0, noise) for _ in range(4 * rng.randint(3, 12)))
        return Measurement(times, None, (3 * mean, mean), 4)

    first = 10 ** rng.uniform(-1, 2)
    warm = rng.choice([None, CompileCost(first * rng.uniform(0.01, 0.8), {})])
    sides = {"eager": timed(seconds), "compiled": timed(seconds / gain), "control_times": timed(seconds)}
    result = text_result() if number % 4 == 0 else ok_result()
    return dataclasses.replace(
        result,
        id=f"made-up-{number}",
        spec=dataclasses.replace(result.spec, batch_size=rng.choice([1, 2, 8])),
        spread=rng.choice([None, Spread("assumed", 0.025, 10.0), Spread("this machine", 0.1, 3.0)]),
        compilation=Compilation(first, rng.choice(["cold", "warm"]), 1, warm=warm),
        parity=rng.choice([result.parity, Parity("not comparable", None, "")]),
        **sides,
    )


def test_the_browser_says_what_python_says_of_200_stored_results(chromium: Any, history: History) -> None:
    """Those that were measured, and else made-up ones; each as it is read from the file of results."""
    rng = random.Random(63)
    for result in (*recorded_runs(), *map(stored, ("detection", "segmentation"))):
        history.append(dataclasses.replace(result, id=f"measured-{result.id}"))
    for number in range(250):
        history.append(made_up(rng, number))
    choices = [whole_work.choice_of(Report(result)) for result in history.all()]
    known = [choice for choice in choices if choice is not None]
    assert len(known) >= 200
    same_in_both(chromium, [(choice, rng.randrange(401)) for choice in known for _ in range(5)])


def test_the_browser_says_what_python_says_of_200_searches(chromium: Any) -> None:
    """Made-up ones, of up to four ways besides eager."""
    rng, asked = random.Random(63), []
    for number in range(200):
        costs = [
            cost(rng.choice([0.1, 3, 40]), 10 ** rng.uniform(-4, 0), rng.uniform(1, 3)) for _ in range(1 + number % 4)
        ]
        ways = {"eager": cost(0, 10 ** rng.uniform(-4, 0), 1)}
        ways |= {f"way {n}": way_cost for n, way_cost in enumerate(costs)}
        asked.append((whole_work.Choice({"a start": ways}, "call", rng.choice([1, 8])), 2 * number))
    same_in_both(chromium, asked)


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


def test_a_number_beyond_the_race_is_said_there(shown: Any) -> None:
    race, slider = shown.locator("#race .race:visible"), shown.get_by_role("slider", name="between two restarts")
    slider.press("End")
    assert race.locator(".asked").text_content().endswith("000 calls: beyond this chart")
    slider.press("Home")
    assert race.locator(".asked circle").count() > 1 and race.locator(".asked text").count() == 0


def test_a_link_keeps_the_number_of_calls(shown: Any, address: str) -> None:
    shown.wait_for_url("**run=*")
    run_id = shown.evaluate("new URLSearchParams(location.search).get('run')")
    open_link(shown, f"{address}?run={run_id}&calls=3/s")
    calls_field = shown.locator("#work .typed")
    calls_field.wait_for()
    assert calls_field.input_value() == "3/s"
    assert "259\N{NARROW NO-BREAK SPACE}200 calls a day" in shown.locator("#work .eager-takes").inner_text()


def test_a_file_to_send_keeps_what_was_typed(shown: Any, chromium: Any, tmp_path: Path) -> None:
    typed = shown.locator("#work .typed")
    typed.fill("2/s")
    typed.blur()
    answers = shown.locator("#work .start b").all_inner_texts()
    if not shown.locator("#take-share").is_visible():
        shown.locator("#take > button").click()
    with shown.expect_download() as download:
        shown.locator("#take-share").click()
    download.value.save_as(file := tmp_path / "run.html")
    shown.locator("#sent").get_by_text("is where your browser keeps downloads").wait_for()
    tab = chromium.new_page()
    tab.goto(file.as_uri())
    assert tab.locator(".typed").input_value() == "2/s"
    assert tab.locator(".start b").all_inner_texts() == answers
    assert tab.locator(".eager-takes").inner_text().startswith("172\N{NARROW NO-BREAK SPACE}800 calls a day.")
    tab.locator("[type=range]").press("Home")
    assert tab.locator(".typed").input_value() == "1"
    tab.close()


def test_the_stage_keeps_what_was_typed(shown: Any) -> None:
    typed = shown.locator("#work .typed")
    typed.fill("2/s")
    typed.blur()
    for switch in ("on", "off"):
        shown.locator(f"[data-stage={switch}]").click()
        assert typed.input_value() == "2/s"
        assert shown.locator("#work .short").text_content() == "Calls a day"
