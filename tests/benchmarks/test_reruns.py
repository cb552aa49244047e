"""The arithmetic of the reruns' report, and that a start goes on where the last one stopped."""

import dataclasses
from typing import Any

from samples import measurement, ok_result

from benchmarks import reruns
from benchmarks.reruns import IDLE, OURS, Kept, Place
from demo.core.speedup import Speedup, Spread
from demo.core.stats import Interval, Verdict

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
