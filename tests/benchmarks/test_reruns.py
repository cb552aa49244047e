"""The arithmetic of the reruns' report."""

from benchmarks import reruns
from demo.core.comparison import Comparison
from demo.core.stats import Interval, Verdict


def speedup(ratio: float, half: float, verdict: Verdict = "faster") -> Comparison:
    """With its interval `half` to either side."""
    own = Interval(ratio, ratio - 0.001, ratio + 0.001)
    return Comparison(ratio, ratio - half, ratio + half, verdict, ratio, 1.0, own, "assumed")


def test_an_interval_holds_the_estimates_of_other_runs_or_not_and_their_mean_or_not() -> None:
    judged = reruns.judge([speedup(1.0, 0.15), speedup(1.1, 0.05), speedup(1.3, 0.25)])
    assert [one.captured for one in judged] == [0.5, 0.0, 0.5]
    assert [one.captured_within for one in judged] == [0.0, 0.0, 0.0]
    judged = reruns.judge([speedup(1.0, 0.12), speedup(1.1, 0.03), speedup(1.3, 0.18)])  # their mean is 1.127
    assert [one.holds_mean for one in judged] == [False, True, True]


def test_faster_and_slower_contradict_each_other_and_nothing_else_does() -> None:
    for verdicts, contradict in ((("faster", "unsure", "slower"), True), (("faster", "same", "unsure"), False)):
        assert reruns.contradicts([speedup(1.0, 0.1, verdict) for verdict in verdicts]) is contradict
