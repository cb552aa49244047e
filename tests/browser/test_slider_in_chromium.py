"""Tests of the slider for the number of calls, in a real browser with a fake runner: by mouse, keys and link."""

import json
import random
from typing import Any

import pytest
from support.chromium_page import open_link

from demo.core.comparison import WayCost
from demo.core.stats import Duration
from demo.present import whole_work


def cost(first: float, call: float, sure: float) -> WayCost:
    """Returns the seconds of a first call and of each further call.

    Their intervals reach the factor `sure` to either side.
    """
    return WayCost(*(Duration(seconds, seconds / sure, seconds * sure) for seconds in (first, call)))


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
