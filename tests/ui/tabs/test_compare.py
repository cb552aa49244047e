"""Tests of the comparison of stored runs: which compiled model is the fastest, and by how much."""

import dataclasses
from typing import Any

import pytest
from support.samples import failed_result, measurement, ok_result, text_result

from demo.core.comparison import Spread
from demo.core.machine import HostSample
from demo.core.measurement import Compilation
from demo.core.result import RunResult
from demo.present.report import Report
from demo.ui.tabs import compare


def run(id: str, compiled: float, **changes: Any) -> RunResult:
    spec = dataclasses.replace(ok_result().spec, **changes)
    return ok_result(id=id, spec=spec, compiled=measurement(compiled), compilation=Compilation(10.0, "cold", 1))


def cells_of(runs: list[RunResult]) -> list[list[str]]:
    return [list(row.values()) for row in compare.rows(list(map(Report, runs)))]


@pytest.mark.parametrize(
    ("times", "sentence"),
    [
        ([0.001, 0.00107], "Whether A or B is faster is not known."),
        ([0.001, 0.00109], "A is 1.1 times as fast as B."),
        ([0.001, 0.00109, 0.003, 0.004], "Whether A or B is faster is not known."),
    ],
    ids=["within", "beyond", "three pairs"],
)
def test_a_winner_is_ahead_by_more_than_the_noise(times: list[float], sentence: str) -> None:
    """The error of a quotient of two runs is 7.9 %. Bonferroni's correction makes it 9.7 % for three pairs."""
    runs = [run(str(place), time, threads=place) for place, time in enumerate(times, 1)]
    spread = Spread("assumed", 0.025, 10.0)
    assert sentence in compare.conclusion([Report(dataclasses.replace(result, spread=spread)) for result in runs])


def test_each_run_is_compared_with_the_fastest() -> None:
    times = {"a": 0.003, "b": 0.001, "c": 0.002, "d": 0.004}
    runs = [run(name, time, threads=place) for place, (name, time) in enumerate(times.items(), 1)]
    text = compare.conclusion(list(map(Report, runs)))
    for other, ratio in (("C", "2.00"), ("A", "3.00"), ("D", "4.00")):
        assert f"B is {ratio} times as fast as {other}." in text


def test_runs_with_the_same_eager_are_compared_by_their_speed_ups() -> None:
    """The machine was twice as slow in the second run. Its latency is longer, but its speed-up over eager is larger."""
    slow = {"eager": measurement(0.004), "control_times": measurement(0.004)}
    frozen = dataclasses.replace(run("b", 0.0014, freezing=True), **slow)
    assert "B is 1.43 times as fast as A." in compare.conclusion([Report(run("a", 0.001)), Report(frozen)])
    half = dataclasses.replace(run("b", 0.0014, dtype="bfloat16"), **slow)
    assert "A is 1.40 times as fast as B." in compare.conclusion([Report(run("a", 0.001)), Report(half)])


def test_runs_with_taken_cores_are_judged_once() -> None:
    """One is 3.0 times as fast as the other. Cores were taken in both runs: the factor 1.75 counts once, and leaves
    1.7."""
    busy = (HostSample(0.5, 0.9, None, 0.1), HostSample(1.0, 0.9, None, 0.1))
    pair = [dataclasses.replace(run(name, time), machine_states=busy) for name, time in (("a", 0.0015), ("b", 0.0005))]
    assert [result.speedup.verdict for result in pair] == ["unsure", "faster"]
    conclusion = compare.conclusion(list(map(Report, pair)))
    assert "B is 1.7 to 5.3 times as fast" in conclusion and "factor of 1.75" in conclusion
    assert "1.75" not in compare.conclusion([Report(run("a", 0.001))] * 2)


TEXT = text_result(compiled=measurement(0.0015))


@pytest.mark.parametrize(
    ("result", "changes", "named"),
    [
        (run("a", 0.0015), {"freezing": True}, True),
        (run("a", 0.0015), {"batch_size": 4}, False),
        (run("a", 0.0015), {"checkpoint": "shapes-segformer"}, False),
        (TEXT, {"prompt": "Another"}, False),
    ],
    ids=["freezing", "batch size", "checkpoint", "prompt"],
)
def test_runs_of_different_work_have_no_winner(result: RunResult, changes: dict[str, Any], named: bool) -> None:
    faster = dataclasses.replace(result, compiled=measurement(0.001), spec=dataclasses.replace(result.spec, **changes))
    assert ("times as fast" in compare.conclusion([Report(result), Report(faster)])) is named


def test_a_row_holds_the_value_of_each_run() -> None:
    costs = (Compilation(10.0, "cold", 1), Compilation(9.0, "off", 1), Compilation(8.0, "cold", 1, partly=True))
    runs = [run(str(place), 0.002 / (place + 1), freezing=place > 0) for place in range(3)]
    runs = [dataclasses.replace(result, compilation=cost) for result, cost in zip(runs, costs, strict=True)]
    rows = {name: cells for name, *cells in cells_of(runs)}
    assert rows["Freezing"] == ["off", "on", "on"] and "Threads" not in rows
    assert rows["Compiled latency"] == ["2.04 ms", "1.02 ms", "0.68 ms"]
    assert rows["First compiled call"] == ["10 s (from nothing)", "9.0 s (off)", "8.0 s (with part of the cache kept)"]
    drawn = [(label, round(comparison.ratio, 6)) for label, comparison in compare.bars(list(map(Report, runs))).items()]
    assert drawn[:2] == [("<b>A  no difference</b>  ", 1.0), ("<b>B  2.00×</b>  freezing", 2.0)]
    assert ["Time to the first token", "–", "8.16 ms → 5.10 ms"] in cells_of([runs[0], text_result()])


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
    assert ["Outputs", *cells] in cells_of(pair)
    assert list(compare.bars(list(map(Report, pair))).values())[place] is None


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (run("b", 0.001), "Same settings on the same machine each time."),
        (run("b", 0.001, freezing=True, batch_size=2), "They differ in: batch size, freezing."),
        (text_result(id="b"), "They differ in: checkpoint, task, picture."),
    ],
    ids=["none", "two", "only some tasks have the other settings"],
)
def test_the_settings_in_which_runs_differ_are_named(other: RunResult, sentence: str) -> None:
    assert sentence in compare.conclusion([Report(ok_result()), Report(other)])
