"""The arithmetic of the reruns' report, and that a start goes on where the last one stopped."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from samples import ENVIRONMENT, measurement, ok_result

from benchmarks import reruns
from benchmarks.reruns import BUNDLED, BUSY, FULL_SIZE, GUIDE, IDLE, OURS, Kept, Place
from demo.core.result import RunResult
from demo.core.speedup import Speedup, Spread
from demo.core.stats import Interval, Verdict
from demo.store.history import History

PLACE = Place(IDLE, OURS, "shapes-vit")


def speedup(ratio: float, half: float, within: float = 0.001, verdict: Verdict = "faster") -> Speedup:
    """With its interval `half` to either side."""
    own = Interval(ratio, ratio - within, ratio + within)
    return Speedup(ratio, ratio - half, ratio + half, verdict, own, "assumed")


def kept(place: Place = PLACE, compiled: float = 0.001, number: int = 0, **changes: Any) -> Kept:
    """A run whose eager call takes 2 ms; its spread is assumed as 3 %."""
    result = ok_result(
        id=f"{place.condition}-{place.protocol}-{place.checkpoint}-{number}",
        spec=place.spec,
        compiled=measurement(compiled),
        spread=Spread("assumed", 0.03),
        **changes,
    )
    return Kept(place, "abc", result)


def test_the_capture_is_the_share_of_the_other_runs_whose_estimate_an_interval_holds() -> None:
    judged = reruns.judge([speedup(1.0, 0.15), speedup(1.1, 0.05), speedup(1.3, 0.25)])
    assert [one.captured for one in judged] == [0.5, 0.0, 0.5]
    assert [one.captured_within for one in judged] == [0.0, 0.0, 0.0]


def test_the_mean_of_all_reruns_lies_inside_or_not() -> None:
    mean = (1.0 * 1.1 * 1.3) ** (1 / 3)
    assert 1.12 < mean < 1.13
    judged = reruns.judge([speedup(1.0, 0.12), speedup(1.1, 0.03), speedup(1.3, 0.18)])
    assert [one.holds_mean for one in judged] == [False, True, True]


def test_the_shares_are_those_of_all_runs() -> None:
    judged = reruns.judge([speedup(1.0, 0.2, within=0.1), speedup(1.1, 0.11), speedup(1.3, 0.26)])
    assert reruns.shares(judged) == ["±20.0%", "0.50", "0.17", "1.00"]


def test_faster_and_slower_contradict_each_other_and_nothing_else_does() -> None:
    def of(*verdicts: Verdict) -> list[Speedup]:
        return [speedup(1.0, 0.1, verdict=verdict) for verdict in verdicts]

    assert reruns.contradicts(of("faster", "unsure", "slower"))
    assert not reruns.contradicts(of("faster", "same", "unsure"))


def test_runs_without_a_speed_up_and_void_ones_are_left_out_and_told() -> None:
    good = kept()
    compilation = good.result.compilation
    assert compilation is not None
    void = kept(number=1, compilation=dataclasses.replace(compilation, recompiles_while_timing=1))
    lost = kept(number=2, status="crashed")
    assert len(reruns.speedups_of(one.result for one in (good, void, lost))) == 1
    assert "2 runs have no speed-up" in reruns.outside([good, void, lost])


def test_a_round_has_every_checkpoint_in_both_conditions_and_the_guides_loop_for_the_bundled_ones() -> None:
    round_ = reruns.places()
    assert len(round_) == len(set(round_)) == 2 * (2 * len(BUNDLED) + len(FULL_SIZE))
    assert {place.checkpoint for place in round_ if place.protocol == GUIDE} == set(BUNDLED)
    assert {place.checkpoint for place in round_ if place.condition == BUSY} == {*BUNDLED, *FULL_SIZE}
    assert {place.spec.weights for place in round_ if place.checkpoint in FULL_SIZE} == {"random"}
    assert reruns.places(["microsoft/resnet-50"]) == [
        Place(condition, OURS, "microsoft/resnet-50") for condition in (IDLE, BUSY)
    ]


def test_the_models_take_turns_and_what_is_kept_is_not_run_again() -> None:
    first, second = reruns.places()[:2]
    assert reruns.remaining([first, second], 2, []) == [first, second, first, second]
    assert reruns.remaining([first, second], 2, [kept(first)]) == [second, first, second]
    assert reruns.remaining([first, second], 1, [kept(first), kept(second)]) == []
    assert second.protocol == GUIDE
    assert reruns.remaining([second], 15, [kept(second)]) == [second] * (reruns.GUIDE_RUNS - 1)


def test_what_is_kept_is_read_again_without_a_line_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    assert reruns.read_kept(path) == []
    runs = [kept(), kept(number=1)]
    for one in runs:
        reruns.keep(path, one)
    with path.open("a") as file:
        file.write('{"place": {"condi')
    assert reruns.read_kept(path) == runs
    reruns.keep(path, kept(number=2))
    assert len(reruns.read_kept(path)) == 3


def test_a_new_start_goes_on_with_the_history_of_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int | None] = []

    class Runner:
        def __init__(self, history: History | None) -> None:
            seen.append(None if history is None else history.count())

        def run(self, *asked: object) -> Iterator[RunResult]:
            yield kept(number=len(seen)).result

        def close(self) -> None:
            pass

    monkeypatch.setattr(reruns, "Runner", Runner)
    monkeypatch.setattr(reruns, "usable_cores", lambda: 2)
    before = [kept(number=100), kept(Place(BUSY, OURS, "shapes-vit"), number=101)]
    path = tmp_path / "runs.jsonl"
    reruns.run_remaining([PLACE], path, before, tmp_path)
    # runs that fill the compile cache for one thread and for two, and one with this condition's history
    assert seen == [None, None, 1]
    assert len(before) == 3 and len(reruns.read_kept(path)) == 1


def test_the_report_has_a_row_a_checkpoint_all_of_them_and_the_bases() -> None:
    runs = [
        kept(Place(condition, protocol, checkpoint), 0.001 * math.exp(0.02 * number), number)
        for condition in (IDLE, BUSY)
        for checkpoint, protocol in (("shapes-vit", OURS), ("shapes-vit", GUIDE), ("microsoft/resnet-50", OURS))
        for number in range(4)
    ]
    text = reruns.text_of(runs)
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| shapes-vit | this")]
    assert len(rows) == 2
    assert rows[0][2:6] == ["4", "2", "1.94×", "1.88 to 2.00×"]
    assert rows[0][-2] == "4 faster"
    assert text.count("| **all** | this project's | 8 |") == 2 and "| **all** | the guide's loop" not in text
    assert f"| {IDLE} | assumed | 8 |" in text
    assert f"| shapes-vit | {BUSY} | 1.94× (1.88 to 2.00×) |" in text
    assert f"| microsoft/resnet-50 | {IDLE} | 1.94× (1.88 to 2.00×) |" in text and "| - |" in text
    assert "2026-11-21 to 2026-11-21 at commit abc" in text


def test_only_this_projects_protocol_has_aims() -> None:
    near = [
        kept(Place(condition, OURS, "shapes-vit"), 0.001 * math.exp(log), number)
        for condition in (IDLE, BUSY)
        for number, log in enumerate([-0.1, *[0.05 * math.cos(i) for i in range(18)], 0.1])
    ]
    far = [kept(Place(IDLE, GUIDE, "shapes-vit"), compiled, number) for number, compiled in enumerate((0.001, 0.004))]
    judged = reruns.all_judged([*near, *far], IDLE)
    assert len(judged) == 20
    missed = reruns.outside([*near, *far])
    assert not any("both faster and slower" in one for one in missed)
    same = [
        kept(Place(condition, OURS, "shapes-vit"), number=number) for condition in (IDLE, BUSY) for number in (0, 1)
    ]
    assert [one.split(",")[0] for one in reruns.outside(same)] == [
        f"{condition}: {name} is 1.000" for condition in (IDLE, BUSY) for name in ("capture", "mean inside")
    ]
    both = [kept(number=0), kept(number=1, compiled=0.004)]
    assert "idle: shapes-vit is called both faster and slower" in reruns.outside(both)


def test_runs_of_two_machines_are_told_apart() -> None:
    other = kept(number=1, environment=dataclasses.replace(ENVIRONMENT, torch="2.12.0"))
    assert len(reruns.machines([kept(), other])) == 2
