"""Tests of what compiling saves over a number of calls: the sentences, the strip of colours and the slider."""

import dataclasses
import itertools
import json
import re
import xml.etree.ElementTree as xml
from html import unescape
from typing import Any

import pytest
from support.samples import full_result, measurement, ok_result, text_result

from demo.core import format as fmt
from demo.core.comparison import WayCost
from demo.core.measurement import Compilation
from demo.core.outputs import Parity
from demo.core.stats import Duration
from demo.present import whole_work
from demo.present.report import Report


def cost(first: float, call: float, sure: float = 1.001) -> WayCost:
    """Returns the seconds of a first call and of each further call.

    Their intervals reach the factor `sure` to either side.
    """
    return WayCost(*(Duration(seconds, seconds / sure, seconds * sure) for seconds in (first, call)))


EAGER = cost(0.0, 0.010, 1.0)
SEARCH = {"eager": EAGER, "layer by layer": cost(1, 0.008), "freezing": cost(40, 0.004), "lite": cost(1, 0.0081, 1.1)}


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        (1, "costs 12 s (10.0 to 14 s)"),
        (1_200, "may cost 2.4 s or save 2.0 s"),
        (12_000, "saves 1 min 48 s (1 min 46 s to 1 min 50 s)"),
    ],
)
def test_what_compiling_saves_or_costs_is_a_range(calls: int, words: str) -> None:
    compiled = WayCost(Duration(12.0, 10.0, 14.4), Duration(0.0, 0.0, 0.0))
    assert whole_work.answer({"eager": EAGER, "compiled": compiled}, calls) == words


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        (10, "eager is known to be the best"),
        (400, "cannot be told: eager or lite"),
        (3_000, "layer by layer saves 5.0 s (5.0 to 5.0 s), cannot be told from lite"),
        (10**7, "freezing saves 16 h 39 min (16 h 39 min to 16 h 40 min)"),
    ],
)
def test_after_a_search_the_best_way_depends_on_the_number_of_calls(calls: int, words: str) -> None:
    assert whole_work.answer(SEARCH, calls) == words


@pytest.mark.parametrize(("seconds", "named"), [(0.0104, "default"), (0.0106, "freezing")])
def test_of_ways_that_cannot_be_told_apart_the_first_within_5_percent_is_named(seconds: float, named: str) -> None:
    ways = {"eager": cost(0, 0.02, 1.0), "default": cost(1, seconds, 1.1), "freezing": cost(1, 0.010, 1.1)}
    assert whole_work.answer(ways, 10**6).startswith(f"{named} saves")


def test_the_sentence_has_every_start() -> None:
    text = whole_work.calls_sentence(Report(full_result()), 100_000).replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert re.fullmatch(r"At 100 000 calls compiling saves [^,]* from nothing, saves [^,]* with a kept cache", text)


def test_tokens_of_a_text_model_are_counted() -> None:
    assert whole_work.calls_sentence(Report(text_result()), 1).startswith("At 1 token compiling costs 5.5 s")
    batch = dataclasses.replace(full_result().spec, batch_size=4)
    choice = whole_work.choice_of(Report(full_result(spec=batch)))
    assert whole_work.eager_takes(choice, 100).endswith(" for 400 images.")


def test_a_doubt_of_the_outputs_stands_beside_what_is_saved() -> None:
    unknown = Report(full_result(parity=Parity("not comparable", None, "")))
    assert whole_work.calls_sentence(unknown, 100_000).endswith(", if its outputs are right")
    assert "If its outputs are right." in whole_work.slider(whole_work.choice_of(unknown))


@pytest.mark.parametrize(
    "changes",
    [{"parity": Parity("differ", 1.0, "")}, {"compilation": Compilation(5.5, "cold", 1, recompiles_while_timing=1)}],
    ids=["other outputs", "void"],
)
def test_there_is_no_slider_if_no_figure_holds(changes: dict[str, Any]) -> None:
    report = Report(ok_result(**changes))
    assert whole_work.calls_sentence(report, 1_000) == whole_work.slider(whole_work.choice_of(report)) == ""


@pytest.mark.parametrize("seconds", [0.001, 0.0019, 0.002, 0.004], ids=["twice", "a little", "same", "slower"])
def test_a_strip_is_as_vague_as_when_compiling_pays(seconds: float) -> None:
    result = ok_result(compiled=measurement(seconds))
    even, (ways,) = result.break_even("cold"), whole_work.choice_of(Report(result)).starts.values()
    parts = whole_work.segments(ways)
    assert (parts[0].begin, parts[-1].end) == (0, 1)
    assert all(segment.end == following.begin for segment, following in itertools.pairwise(parts))
    kinds = ["eager", *["unknown"] * (even.low is not None), *["compiled"] * (even.high is not None)]
    assert [segment.kind for segment in parts] == kinds
    for part, calls in zip(parts, (even.low, even.high), strict=False):
        if calls is not None:
            assert 10 ** (8 * part.end) == pytest.approx(calls, rel=0.06)


def test_a_strip_of_a_search_names_the_ways() -> None:
    drawn = xml.fromstring(whole_work.strip(SEARCH, "From nothing"))
    texts = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "eager" and texts[-1] == "freezing"
    assert drawn.get("aria-label").startswith("From nothing: eager up to ")
    assert [part.kind for part in whole_work.segments(SEARCH)][:3] == ["eager", "unknown", "several"]


def test_the_slider_brings_its_figures_along() -> None:
    choice = whole_work.choice_of(Report(full_result()))
    html = whole_work.slider(choice, 40_000)
    data = json.loads(unescape(re.search(r'data-work="([^"]*)"', html)[1]))
    ways = choice.starts["with a kept cache"]
    assert data["starts"]["with a kept cache"]["compiled"] == [
        [duration.seconds, duration.low, duration.high] for duration in (ways["compiled"].first, ways["compiled"].call)
    ]
    step = int(re.search(r'type="range"[^>]* value="(\d+)"', html)[1])
    assert whole_work.calls_at(step) == 40_000
    assert html.count(whole_work.unbroken(whole_work.answer(ways, 40_000))) == 1


def test_the_slider_has_steps_of_two_digits_from_1_to_100_million() -> None:
    steps = [whole_work.calls_at(step) for step in range(401)]
    assert (steps[0], steps[50], steps[-1]) == (1, 10, 10**8) and steps == sorted(steps)
    assert all(fmt.two_digits(calls) == calls for calls in steps)


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ("saves 4 min 28 s (4 min to 4 min 55 s)", ["saves", "4_min_28_s", "(4_min", "to", "4_min_55_s)"]),
        ("saves 16 h 39 min (9 h to 20 days)", ["saves", "16_h_39_min", "(9_h", "to", "20_days)"]),
        ("may cost 5.0 ms or save 9.0 s", ["may", "cost", "5.0_ms", "or", "save", "9.0_s"]),
    ],
)
def test_no_line_ends_within_a_duration(words: str, lines: list[str]) -> None:
    assert whole_work.unbroken(words).replace("\N{NO-BREAK SPACE}", "_").split(" ") == lines
