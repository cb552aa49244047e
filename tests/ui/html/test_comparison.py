"""Runs side by side: which compiled model is the fastest, and by how much."""

import dataclasses
import re
from typing import Any

import pytest
from samples import failed_result, measurement, ok_result, text_result

from demo.core.comparison import Spread
from demo.core.measurement import Compilation
from demo.core.result import RunResult
from demo.ui.html.comparison import comparison


def run(id: str, compiled: float, first: float, **changes: Any) -> RunResult:
    spec = dataclasses.replace(ok_result().spec, **changes)
    return ok_result(id=id, spec=spec, compiled=measurement(compiled), compilation=Compilation(first, "cold", 1))


def told(*results: RunResult) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", comparison(results).partition("<table")[0]).split())


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.00103, "Whether A or B is faster is not known."), (0.0012, "A is 1.2 times as fast as B.")],
    ids=["within", "beyond"],
)
def test_a_winner_is_named_where_the_difference_is_beyond_the_noise_of_both(seconds: float, said: str) -> None:
    """Of each alone 5.6 %, of their quotient 7.9 %."""
    both = (run("a", 0.001, 10.0), run("b", seconds, 10.0, freezing=True))
    assert said in told(*(dataclasses.replace(one, spread=Spread("assumed", 0.025, 10.0)) for one in both))


def test_of_four_runs_each_is_placed_beside_the_fastest_and_what_is_equal_stands_once() -> None:
    times = {"a": 0.003, "b": 0.001, "c": 0.002, "d": 0.004}
    runs = [run(name, seconds, 10.0, threads=place) for place, (name, seconds) in enumerate(times.items(), 1)]
    text = told(*runs)
    for other, ratio in (("C", "2.00"), ("A", "3.00"), ("D", "4.01")):
        assert f"B is {ratio} times as fast as {other}." in text
    table = comparison(runs)
    assert 'colspan="4">shapes-vit</td>' in table.replace("<bdi>", "").replace("</bdi>", "")


def test_no_winner_is_named_among_runs_of_other_work() -> None:
    for changes in [{"batch_size": 4}, {"checkpoint": "shapes-segformer"}]:
        assert "times as fast" not in told(run("a", 0.0015, 10.0), run("b", 0.001, 10.0, **changes))
    text = text_result(compiled=measurement(0.0015))
    for changes, named in [({"freezing": True}, True), ({"prompt": "Another"}, False)]:
        other = text_result(id="b", spec=dataclasses.replace(text.spec, **changes))
        assert ("times as fast" in told(text, other)) is named, changes


def test_the_faster_of_two_ways_is_named_and_switches_are_signs() -> None:
    both = (run("a", 0.0015, 10.0), run("b", 0.001, 25.0, freezing=True))
    text = told(*both)
    assert "B is 1.50 times as fast as A." in text
    assert "freezing" in text.split("B is")[1]  # beside its bar
    table = comparison(both)
    assert "✓" in table and "True" not in table


def test_a_run_without_an_answer_stands_beside_one_that_has_it_with_dashes() -> None:
    for failed in (failed_result(), failed_result(status="cancelled", environment=None, failure=None)):
        for pair, cells in (((failed, ok_result()), ["–", "match"]), ((ok_result(), failed), ["match", "–"])):
            table = re.sub(r"<[^>]+>", "|", comparison(pair).partition("<table")[2])
            assert table.partition("Outputs")[2].replace("|", " ").split() == cells
