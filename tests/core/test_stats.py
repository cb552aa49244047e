import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given as examples
from hypothesis.strategies import floats, integers

from demo.core import stats
from demo.core.stats import Interval


def _blocks_with_drift(rng: np.random.Generator, truth: float, blocks: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Returns times of eager and compiled on a machine that slows by half, with jitter and some disturbed blocks."""
    drift = np.linspace(1.0, 1.5, blocks) * np.exp(rng.normal(0, 0.02, blocks))
    eager = truth * drift * np.exp(rng.normal(0, 0.01, blocks))
    compiled = drift * np.exp(rng.normal(0, 0.01, blocks))
    eager[rng.random(blocks) < 0.03] *= 1.5
    return eager, compiled


def test_one_disturbed_block_does_not_move_the_estimate() -> None:
    assert stats.paired_ratio([200.0, *[2.0] * 19], [1.0] * 20).ratio == pytest.approx(2)


def test_more_blocks_make_the_interval_narrower() -> None:
    rng = np.random.default_rng(5)
    few, many = (stats.paired_ratio(*_blocks_with_drift(rng, 1.2, blocks)) for blocks in (10, 160))
    assert many.half_width < few.half_width / 2


def test_swapping_the_two_inverts_the_ratio() -> None:
    blocks = _blocks_with_drift(np.random.default_rng(5), 1.2)
    assert stats.paired_ratio(*blocks).ratio * stats.paired_ratio(*reversed(blocks)).ratio == pytest.approx(1)


def test_drift_that_both_of_a_pair_share_cancels() -> None:
    interval = stats.paired_ratio([2.0, 4.0, 8.0], [1.0, 2.0, 4.0])
    assert (interval.low, interval.ratio, interval.high) == pytest.approx((2.0, 2.0, 2.0))


@pytest.mark.parametrize(("low", "high", "half_width"), [(1.9, 2.02, 0.05), (1.99, 2.2, 0.1)])
def test_the_half_width_is_the_larger_side(low: float, high: float, half_width: float) -> None:
    assert Interval(2.0, low, high).half_width == pytest.approx(half_width)


@pytest.mark.parametrize(
    ("slow", "fast", "calls", "pairs"),
    [
        ([1, 2, 3, 4, 5], 4, 2, ([1, 2, 3, 4], [0, 1, 2, 3])),
        (range(12), 12, 2, ([0.5, 2.5, 4.5, 6.5, 8.5, 10.5],) * 2),
        ([1, 2, 9, 4, 5, 6, 7], 6, 3, ([2, 5], [1, 4])),
    ],
    ids=["few blocks: calls", "blocks", "an incomplete block is left out"],
)
def test_times_are_paired_by_block(slow: list, fast: int, calls: int, pairs: tuple) -> None:
    assert tuple(side.tolist() for side in stats.side_by_side(slow, range(fast), calls)) == pairs


@pytest.mark.parametrize("ratio", [1.04, 1 / 1.04])
def test_the_noise_floor_is_what_eager_differs_from_itself(ratio: float) -> None:
    assert stats.noise_floor(Interval(ratio, 0.9, 1.2)) == pytest.approx(0.04)


@pytest.mark.parametrize(
    ("ratio", "floor", "taken", "verdict"),
    [
        pytest.param((1.43, 1.41, 1.45), 0.002, False, "faster", id="a clear gain"),
        pytest.param((0.10, 0.09, 0.11), 0.002, False, "slower", id="a clear loss"),
        pytest.param((1.0, 0.99, 1.01), 0.002, False, "same", id="equal"),
        pytest.param((1.005, 1.001, 1.009), 0.002, False, "same", id="real, and too small to matter"),
        pytest.param((1.0, 0.966, 1.034), 0.002, False, "same", id="the 90 % interval lies within 3 %"),
        pytest.param((1.0, 0.96, 1.04), 0.002, False, "unsure", id="the 90 % interval does not"),
        pytest.param((1.2, 0.9, 1.6), 0.002, False, "unsure", id="the interval contains 1"),
        pytest.param((1.10, 1.05, 1.15), 0.13, False, "unsure", id="within the floor"),
        pytest.param((0.91, 0.87, 0.95), 0.13, False, "unsure", id="a loss within the floor"),
        pytest.param((1.20, 1.17, 1.23), 0.08, False, "faster", id="beyond the floor"),
        pytest.param((1.0, 0.99, 1.01), 0.08, False, "same", id="equal in turns on a restless machine"),
        pytest.param((3.0, 2.5, 3.6), 0.08, True, "faster", id="a large gain while cores were taken"),
        pytest.param((0.81, 0.80, 0.83), 0.002, True, "unsure", id="a small loss while cores were taken"),
        pytest.param((2.0, 1.7, 2.35), 0.002, True, "unsure", id="one end too near while cores were taken"),
        pytest.param((1.0, 0.999, 1.001), 0.002, True, "unsure", id="equal while cores were taken"),
    ],
)
def test_the_verdict_follows_from_interval_floor_and_cores(
    ratio: tuple[float, float, float], floor: float, taken: bool, verdict: str
) -> None:
    assert stats.compare(Interval(*ratio), floor, taken).verdict == verdict


def _all_kinds() -> Iterator[tuple[Interval, float, bool, int]]:
    ratios = [Interval(r, r / s, r * s) for r in np.geomspace(0.6, 1.7, 31) for s in (1.001, 1.02, 1.2)]
    return itertools.product(ratios, (0.0, 0.005, 0.05, 0.2), (False, True), (1, 6))


def test_an_interval_leaves_out_1_only_if_there_is_a_difference() -> None:
    for arguments in _all_kinds():
        comparison = stats.compare(*arguments)
        if comparison.verdict != "same":
            assert (comparison.verdict == "unsure") == (comparison.low <= 1 <= comparison.high)


def test_verdicts_are_symmetric() -> None:
    mirror = {"faster": "slower", "slower": "faster", "same": "same", "unsure": "unsure"}
    for ratio, *others in _all_kinds():
        opposite = Interval(1 / ratio.ratio, 1 / ratio.high, 1 / ratio.low)
        assert mirror[stats.compare(ratio, *others).verdict] == stats.compare(opposite, *others).verdict


def test_a_model_against_itself_is_seldom_called_faster_or_slower() -> None:
    rng = np.random.default_rng(11)
    wrong = 0
    for _ in range(200):
        interval = stats.paired_ratio(*_blocks_with_drift(rng, 1.0))
        floor = stats.noise_floor(stats.paired_ratio(*_blocks_with_drift(rng, 1.0)))
        wrong += stats.compare(interval, floor).verdict in ("faster", "slower")
    assert wrong <= 4


@pytest.mark.parametrize(
    ("compile_seconds", "eager", "compiled", "calls"),
    [(10, 0.5, 0.25, 40), (10.01, 0.5, 0.25, 41), (10, 0.3, 0.1, 50), (10, 0.3, 0.3, None), (10, 0.3, 0.4, None)],
)
def test_break_even_in_whole_calls(compile_seconds: float, eager: float, compiled: float, calls: int | None) -> None:
    assert stats.break_even_calls(compile_seconds, eager, compiled) == calls


FIRST_CALL = stats.Duration(12.0, 8.0, 18.0)


@pytest.mark.parametrize(
    ("saved", "calls"),
    [
        # with the errors of the saving alone 800 to 2 400, with those of the first call alone 800 to 1 800
        (stats.Duration(0.010, 0.005, 0.015), (1200, 677, 2659)),
        (stats.Duration(0.010, -0.003, 0.015), (1200, 677, None)),
        (stats.Duration(-0.003, -0.007, 0.006), (None, 1925, None)),
        (stats.Duration(-0.007, -0.012, -0.003), (None, None, None)),
        (stats.Duration(1e-309, -0.003, 0.015), (None, 755, None)),
        (stats.Duration(0.010, 1e-200, 0.015), (1200, 677, None)),
    ],
    ids=["a gain", "no gain is possible", "a gain is possible", "no gain", "equal but for a rounding", "the end at 0"],
)
def test_the_calls_to_pay_have_a_range(saved: stats.Duration, calls: tuple[int | None, ...]) -> None:
    assert stats.calls_to_pay(FIRST_CALL, saved) == calls


SPREAD = floats(0.01, 0.9)


@examples(floats(-1, 1), SPREAD, SPREAD, SPREAD, SPREAD, integers(1, 10_000))
def test_what_is_saved_may_be_nothing_within_the_range_of_calls_only(
    each: float, below: float, above: float, less: float, more: float, calls: int
) -> None:
    saved = stats.Duration(each, each - below, each + above)
    first = stats.Duration(100.0, 100 * (1 - less), 100 * (1 + 3 * more))
    _, low, high = stats.calls_to_pay(first, saved)
    all_saved = stats.difference(stats.Duration(*(calls * end for end in (each, saved.low, saved.high))), first)
    assert (all_saved.high < 0) is (low is None or calls < low)
    assert (all_saved.low > 0) is (high is not None and calls >= high)


def test_intervals_of_savings_cover_the_truth_in_95_of_100() -> None:
    """First calls and savings are drawn with the spread that their intervals state."""
    rng, calls, held = np.random.default_rng(5), 2_000, 0
    for first, each in zip(12 * np.exp(rng.normal(0, 0.2, 2_000)), rng.normal(0.01, 0.002, 2_000), strict=True):
        cost = stats.pooled_duration([first], 0.2, math.inf)
        saved = stats.Duration(calls * each, calls * (each - 1.96 * 0.002), calls * (each + 1.96 * 0.002))
        range_saved = stats.difference(saved, cost)
        held += range_saved.low <= calls * 0.01 - 12 <= range_saved.high
    assert 0.935 <= held / 2_000 <= 0.97


def test_one_first_call_has_the_spread_that_is_assumed() -> None:
    """Half of the 95 % interval of one run is the assumed deviation times Student's t with its degrees of freedom."""
    duration = stats.pooled_duration([20.0], 0.2, 10.0)
    half = 0.2 * stats.t_quantile(10)
    expected = 20.0, 20 / math.exp(half), 20 * math.exp(half)
    assert (duration.seconds, duration.low, duration.high) == pytest.approx(expected)


def test_four_equal_first_calls_narrow_the_interval() -> None:
    durations = (stats.pooled_duration([20.0] * count, 0.2, 10.0) for count in (1, 4))
    one_call, four_calls = (math.log(duration.high / duration.seconds) for duration in durations)
    assert four_calls < one_call / 2


@pytest.mark.parametrize("runs", [1, 2, 5])
def test_intervals_of_first_calls_cover_the_truth_in_95_of_100(runs: int) -> None:
    rng = np.random.default_rng(runs)
    durations = [stats.pooled_duration(20 * np.exp(rng.normal(0, 0.2, runs)), 0.2, math.inf) for _ in range(2_000)]
    assert 0.935 <= np.mean([duration.low <= 20 <= duration.high for duration in durations]) <= 0.965


def test_the_ratio_of_means_has_an_interval() -> None:
    ratio = stats.mean_ratio([2.0, 4.0] * 150, [1.0, 2.0] * 150)
    assert ratio.low < ratio.ratio == 2.0 < ratio.high


def test_the_control_lies_between_the_halves_of_two_blocks():
    """On a machine that takes twice as long from block to block, a control block equals the eager calls around it."""
    eager = [1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 4.0, 4.0, 4.0, 4.0, 8.0, 8.0]
    control = [2.0] * 4 + [4.0] * 4
    assert stats.control_ratio(eager, control, 4) == stats.Interval(1.0, 1.0, 1.0)
    # after every third block it is compared with the eager calls beside it
    eager = [float(1 + place // 2) for place in range(16)]  # eight blocks of two calls, each slower than the last
    control = [eager[2 * block + place] for block in (0, 3, 6) for place in (1, 2)]
    assert stats.control_ratio(eager, control, 2, apart=3) == stats.Interval(1.0, 1.0, 1.0)


@pytest.mark.parametrize("count", [2, 3, 5, 9, 10, 12, 40])
def test_paired_intervals_cover_the_truth_in_95_of_100(count: int) -> None:
    rng, ones = np.random.default_rng(count), np.ones(count)
    intervals = [stats.paired_ratio(1.3 * np.exp(rng.normal(0, 0.05, count)), ones) for _ in range(2_000)]
    assert 0.935 <= np.mean([interval.low <= 1.3 <= interval.high for interval in intervals]) <= 0.965


def _reruns(count: int, deviation: float, seed: int) -> list[Interval]:
    """Returns the speed-ups of processes of one spec, each with a true speed-up of its own around 1.37."""
    rng = np.random.default_rng(seed)
    speedups = []
    for effect in rng.normal(0, deviation, count):
        fast = np.exp(rng.normal(0, 0.02, 12))
        speedups.append(stats.paired_ratio(1.37 * np.exp(effect) * np.exp(rng.normal(0, 0.02, 12)), fast))
    return speedups


@pytest.mark.parametrize("deviation", [0.005, 0.05])
@pytest.mark.parametrize("processes", [1, 2, 3, 5, 9])
def test_the_interval_holds_for_reruns_if_their_spread_is_known(processes: int, deviation: float) -> None:
    intervals = [stats.rerun_ratio(_reruns(processes, deviation, seed), deviation, math.inf) for seed in range(400)]
    covered = np.mean([interval.low <= 1.37 <= interval.high for interval in intervals])
    assert 0.92 <= covered <= 0.985


@pytest.mark.parametrize("freedom", [10, math.inf])
@pytest.mark.parametrize("deviation", [0.005, 0.025, 0.08])
def test_a_further_process_narrows_the_interval(deviation: float, freedom: float) -> None:
    pools = [_reruns(9, deviation, seed) for seed in range(100)]
    widths = [[stats.rerun_ratio(pool[:count], 0.025, freedom).half_width for count in range(1, 10)] for pool in pools]
    assert (np.diff(np.median(widths, axis=0)) < 0).all()


def test_a_spread_known_from_few_runs_widens_the_interval() -> None:
    within = Interval(1.5, 1.49, 1.51)
    known, hardly = (stats.rerun_ratio([within], 0.03, freedom) for freedom in (math.inf, 5))
    assert known.low < within.low and known.high > within.high
    assert hardly.half_width > 1.2 * known.half_width


def test_the_spread_leaves_out_the_variance_within_processes() -> None:
    error = 0.05 * stats.t_quantile(math.inf)
    intervals = [Interval(math.exp(log), math.exp(log - error), math.exp(log + error)) for log in (0.0, 0.1, 0.2)]
    spread = stats.rerun_ratio(intervals, deviation=0.0, freedom=1e-9).deviation
    assert spread == pytest.approx(math.sqrt(0.1**2 - 0.05**2))


def test_a_process_that_disagrees_widens_the_interval() -> None:
    pools = [(1.0, 1.01), (1.0, 1.01, 1.02), (1.0, 1.01, 1.5)]
    before, near, far = (
        stats.rerun_ratio([Interval(ratio, ratio - 0.01, ratio + 0.01) for ratio in pool], 0.025, 10) for pool in pools
    )
    assert near.half_width < before.half_width < far.half_width
    assert far.deviation > 2 * near.deviation


def test_a_noisy_process_hardly_counts_beside_a_steady_one() -> None:
    steady, noisy = Interval(1.2, 1.19, 1.21), Interval(1.6, 1.1, 2.3)
    pooled = stats.rerun_ratio([noisy, steady], 0.025, math.inf)
    assert pooled.ratio == pytest.approx(1.2, rel=0.02)
    assert pooled.half_width <= stats.rerun_ratio([steady], 0.025, math.inf).half_width
    assert sum(pooled.weights) == pytest.approx(1) and pooled.weights[1] > 0.9


@pytest.mark.parametrize(
    ("errors", "questions", "differ"), [(1.9, 1, False), (2.0, 1, True), (2.6, 6, False), (2.7, 6, True)]
)
def test_more_comparisons_need_a_larger_difference(errors: float, questions: int, differ: bool) -> None:
    """Two estimates differ if they are 1.960 standard errors apart; for six questions 2.638."""
    error = math.sqrt(2) * math.log(1.1) / 1.960
    first, ratio = Interval(1.0, 1 / 1.1, 1.1), math.exp(errors * error)
    comparison = stats.compare(stats.quotient(Interval(ratio, ratio / 1.1, ratio * 1.1), first), questions=questions)
    assert (comparison.verdict == "faster") is differ


@pytest.mark.parametrize(("half", "expected"), [(0.0196, (0.05**2 * 2 - 0.01**2) ** 0.5), (0.2, 0.0)])
def test_what_the_runs_own_intervals_explain_is_no_spread_between_them(half: float, expected: float) -> None:
    """The variance that the runs' own 95 % intervals (1.96 standard errors) explain is subtracted."""
    logs = [np.array([log, log - half, log + half]) for log in (-0.05, 0.05)]
    assert stats.spread_between([[Interval(*np.exp(three)) for three in logs]]) == pytest.approx(expected)


def test_a_quotient_keeps_the_noise_floors_and_the_taken_cores_of_both() -> None:
    """Noise floors of 3 % and 4 % give one of 5 %: squares of independent errors add up on the logarithmic scale."""
    first = stats.Measured(2.0, 1.99, 2.01, floor=math.expm1(0.03))
    second = stats.Measured(1.0, 0.99, 1.01, floor=math.expm1(0.04), taken=True)
    both = first.over(second)
    assert math.log1p(both.floor) == pytest.approx(0.05) and both.taken and second.over(first).taken
    assert stats.Interval(both.ratio, both.low, both.high) == stats.quotient(first, second)
