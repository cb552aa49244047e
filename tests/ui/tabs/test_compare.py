"""Runs side by side: which compiled model is the fastest, and by how much."""

import dataclasses
from typing import Any

import pytest
from support.samples import failed_result, measurement, ok_result, text_result

from demo.core.comparison import Spread
from demo.core.measurement import Compilation
from demo.core.result import RunResult
from demo.ui.tabs import compare


def run(id: str, compiled: float, first: float, **changes: Any) -> RunResult:
    spec = dataclasses.replace(ok_result().spec, **changes)
    return ok_result(id=id, spec=spec, compiled=measurement(compiled), compilation=Compilation(first, "cold", 1))


def told(*results: RunResult) -> str:
    return compare.answer(results)


def lines(*results: RunResult) -> dict[str, list[str]]:
    """The cells of each figure by its name."""
    return {name: cells for name, *cells in compare.lines(results)[1]}


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.00107, "Whether A or B is faster is not known."), (0.0012, "A is 1.2 times as fast as B.")],
    ids=["within", "beyond"],
)
def test_a_winner_is_named_where_the_difference_is_beyond_the_noise_of_both(seconds: float, said: str) -> None:
    """Of each alone 5.6 %, of their quotient 7.9 %."""
    both = (run("a", 0.001, 10.0), run("b", seconds, 10.0, freezing=True))
    assert said in told(*(dataclasses.replace(one, spread=Spread("assumed", 0.025, 10.0)) for one in both))


def test_of_four_runs_each_is_placed_beside_the_fastest() -> None:
    times = {"a": 0.003, "b": 0.001, "c": 0.002, "d": 0.004}
    runs = [run(name, seconds, 10.0, threads=place) for place, (name, seconds) in enumerate(times.items(), 1)]
    text = told(*runs)
    for other, ratio in (("C", "2.00"), ("A", "3.00"), ("D", "4.01")):
        assert f"B is {ratio} times as fast as {other}." in text


def test_no_winner_is_named_among_runs_of_other_work() -> None:
    for changes in [{"batch_size": 4}, {"checkpoint": "shapes-segformer"}]:
        assert "times as fast" not in told(run("a", 0.0015, 10.0), run("b", 0.001, 10.0, **changes))
    text = text_result(compiled=measurement(0.0015))
    for changes, named in [({"freezing": True}, True), ({"prompt": "Another"}, False)]:
        other = text_result(id="b", spec=dataclasses.replace(text.spec, **changes))
        assert ("times as fast" in told(text, other)) is named, changes


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(
    "failed",
    [failed_result(), failed_result(status="cancelled", environment=None, failure=None)],
    ids=["out of memory", "cancelled"],
)
def test_a_run_without_an_answer_has_dashes(failed: RunResult, place: int) -> None:
    pair, cells = [ok_result()], ["match"]
    pair.insert(place, failed)
    cells.insert(place, "–")
    assert lines(*pair)["Outputs"] == cells
    assert list(compare.bars(pair).values())[place] is None


def test_the_settings_in_which_runs_differ_are_named() -> None:
    other = dataclasses.replace(ok_result().spec, freezing=True, batch_size=2)
    assert "They differ in: batch size, freezing." in told(ok_result(), ok_result(id="other", spec=other))


def test_equal_runs_have_no_difference() -> None:
    assert "Same settings on the same machine" in told(ok_result(), ok_result(id="again"))


def test_a_setting_that_only_some_tasks_have_is_no_difference() -> None:
    said = told(ok_result(), text_result(id="b"))
    assert "checkpoint" in said and "task" in said
    assert "channels last" not in said and "prompt" not in said
