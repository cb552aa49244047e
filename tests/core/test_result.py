"""Tests of the values that follow from a run's times, and of results as JSON and back."""

import dataclasses
import functools
import json
import math
import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers, sampled_from
from support.samples import BOXES, SEGMENTS, failed_result, full_result, measurement, ok_result, text_result

from demo.core import stats
from demo.core.caveat import NOTHING_DONE, Caveat, note
from demo.core.comparison import ASSUMED_FIRST_CALLS, ProcessFigure, ProcessResult, Spread
from demo.core.machine import HostSample
from demo.core.measurement import Compilation, CompileCost, Measurement, Pair, Profile, StartUp
from demo.core.options import RunSpec
from demo.core.outputs import EndToEnd, Parity
from demo.core.result import Failure, RunResult
from demo.core.result_json import dumps, from_json, to_json
from demo.core.stats import Interval


def test_figures_of_a_variant_follow_from_its_raw_times() -> None:
    batch = RunSpec("shapes-vit", "image-classification", batch_size=4)
    calls = Measurement((0.010, 0.020, 0.030, 0.100), None, (), 2)
    eager = to_json(ok_result(spec=batch, eager=calls, compiled=None))["eager"]
    figures = [eager[name] for name in ("median_ms", "mean_ms", "p95_ms", "images_per_second")]
    assert figures == pytest.approx([25, 40, 89.5, 4 / 0.025])


def test_shares_of_a_call_need_a_profile() -> None:
    added = to_json(FILLED)["eager"].keys() - to_json(ok_result())["eager"].keys()
    assert {"busy_share", "roofline_share"} <= added


@pytest.mark.parametrize(
    ("events", "busy", "launching"),
    [(0.0005, None, 0.0015), (1.0, None, 0.0), (0.0015, 0.0004, 0.0016), (0.0015, 0.0019, 0.0005), (None, None, None)],
    ids=["events", "never negative", "kernels", "the lesser of both", "CPU"],
)
def test_launching_is_the_wall_time_without_the_work(
    events: float | None, busy: float | None, launching: float | None
) -> None:
    """If a call launches more than the driver queues, the time between CUDA events includes idle time."""
    times = events and (events,) * 3
    side = Measurement((0.002,) * 4, times, (), 4, profile=Profile(1200, busy, ()))
    assert side.launch_seconds == pytest.approx(launching)


def test_the_verdict_looks_at_the_interval_for_a_rerun() -> None:
    little = measurement(0.002 / 1.04)
    within = ok_result(compiled=little).speedup
    rerun = ok_result(compiled=little, spread=Spread("assumed", 0.03)).speedup
    assert (within.verdict, rerun.verdict) == ("faster", "unsure")
    assert within.basis == "within one process" and rerun.within == within.within


def on_gpu(busy: float | None, **changes: Any) -> RunResult:
    """Returns a run on a GPU that works for the share `busy` of an eager call; None: not measured."""
    eager = measurement(0.002)
    times = None if busy is None else (busy * eager.median_seconds,)
    spec = RunSpec("shapes-vit", "image-classification", device="cuda")
    return ok_result(spec=spec, eager=dataclasses.replace(eager, device_seconds=times), **changes)


@pytest.mark.parametrize("busy", [0.9, 0.4, None])
def test_on_a_gpu_one_process_is_not_said_to_hold_for_a_rerun(busy: float | None) -> None:
    result = on_gpu(busy)
    speedup = dataclasses.replace(result, spread=result.assumed_spread).speedup
    assert speedup.basis == "within one process"
    assert (speedup.low, speedup.high) == (result.speedup.low, result.speedup.high)


@pytest.mark.parametrize(("busy", "wide"), [(0.9, 0.1), (0.4, 0.4), (None, 0.4)])
def test_processes_differ_more_where_eager_waits_for_its_host(busy: float | None, wide: float) -> None:
    """On an H200, eager calls of one model took 1.77 times as long in one process as in another."""
    first = on_gpu(busy)
    second = dataclasses.replace(first, earlier=(ProcessResult("1", first.own_figures),), spread=first.assumed_spread)
    assert second.speedup.basis == "repeats" and (second.speedup.half_width > wide) == (wide > 0.1)


@pytest.mark.parametrize("key", NOTHING_DONE)
def test_a_run_in_which_nothing_was_done_has_no_speedup(key: str) -> None:
    result = ok_result(caveats=(Caveat(key, {"variant": "eager", "kind": "Lazy"}),))
    assert result.speedup is None and result.break_even(1.0) is None and result.as_processes() == ()
    assert result.latencies.keys() == {"eager", "compiled"}


def test_a_run_that_recompiled_while_timing_has_no_verdict() -> None:
    void = ok_result(compilation=Compilation(5.5, "cold", 2, recompiles_while_timing=1))
    assert void.speedup.verdict == "unsure" and void.as_processes() == ()


@pytest.mark.parametrize(
    ("threads", "free", "verdict"),
    [
        (2, (2.0, 2.0), "faster"),
        (2, (1.9, 1.0, 2.0, 2.0, 2.0), "faster"),
        (2, (None, 1.5, 1.4), "unsure"),
        (2, (None, None), "faster"),
        (8, (2.0, 1.9), "faster"),
        (1, (0.9, 0.8), "faster"),
        (1, (0.1, 0.0, 0.05), "unsure"),
    ],
    ids=["free", "taken for a moment", "taken", "unknown", "more threads than cores", "one thread", "one taken thread"],
)
def test_a_run_whose_threads_lacked_cores_is_unsure(threads: int, free: tuple, verdict: str) -> None:
    samples = tuple(HostSample(0.5, 0.3, None, cores) for cores in free)
    machine = dataclasses.replace(ok_result().environment, threads=threads, free_cores=2)
    result = ok_result(environment=machine, machine_states=samples, compiled=measurement(0.0016))
    assert (result.speedup.verdict, result.oversubscribed) == (verdict, verdict == "unsure")


def test_one_block_gives_no_interval() -> None:
    assert ok_result(eager=measurement(0.002, blocks=1), compiled=measurement(0.001, blocks=1)).speedup is None


def test_the_control_pairs_the_blocks_that_both_have() -> None:
    steady = Measurement((0.002,) * 48, None, (), 4)
    speedup = ok_result(eager=steady, control_times=Measurement((0.001,) * 20, None, (), 4)).speedup
    assert speedup.control.ratio == pytest.approx(2)


BATCH = dataclasses.replace(ok_result().spec, batch_size=4)


def test_break_even_counts_calls_until_compiling_has_paid() -> None:
    result = ok_result(spec=BATCH)
    eager, compiled = result.latencies.values()
    even = result.break_even("cold")
    assert (even.calls, even.images) == (math.ceil(5.5 / (eager - compiled)), 4 * even.calls)
    assert even.seconds == pytest.approx(5.5 + even.calls * compiled)
    data = to_json(result)
    assert (data["break_even_calls"], data["break_even_seconds"]) == (even.calls, even.seconds)


@pytest.mark.parametrize("changes", [{"compiled": measurement(0.004)}, {"parity": Parity("differ", 1.0, "")}])
def test_a_slower_or_wrong_model_never_pays(changes: dict[str, Any]) -> None:
    result = ok_result(**changes)
    even, data = result.break_even(5.5), to_json(result)
    assert (even and even.calls, even and even.seconds) == (None, None)
    assert (data["break_even_calls"], data["break_even_seconds"]) == (None, None)


def test_a_first_call_is_pooled_over_equal_runs_of_the_same_cache() -> None:
    once = ok_result()
    again = ok_result(first_calls={"cold": (22.0, 11.0), "warm": (1.0,)})
    assert once.starts["cold"].seconds == 5.5
    assert again.starts.keys() == {"cold"} and again.starts["cold"].seconds == pytest.approx((22 * 11 * 5.5) ** (1 / 3))
    assert again.break_even("cold").calls == pytest.approx(2 * once.break_even("cold").calls, rel=0.01)


BOTH_STARTS = Compilation(20.0, "cold", 1, cold=CompileCost(20.0, {}), warm=CompileCost(2.0, {}))


def test_a_warm_start_has_a_spread_of_its_own() -> None:
    both = dataclasses.replace(BOTH_STARTS, warm=CompileCost(20.0, {}))
    starts = ok_result(compilation=both).starts
    for state, start in starts.items():
        spread = ASSUMED_FIRST_CALLS[state]
        assert start == stats.pooled_duration([20.0], spread.deviation, spread.freedom)
    assert starts["cold"] != starts["warm"]


def test_the_calls_to_pay_know_the_spread_of_first_calls() -> None:
    """With the error of the speed-up alone, the number of calls would be known to 0.4 %."""
    even = ok_result().break_even("cold")
    assert even.low < even.calls / 1.2 and even.high > even.calls * 1.2


@given(floats(0.0003, 0.006), integers(1, 10**8), sampled_from(["cold", "warm"]))
def test_what_is_saved_agrees_with_the_calls_to_pay(compiled: float, calls: int, start: str) -> None:
    result = ok_result(compilation=BOTH_STARTS, compiled=measurement(compiled))
    even = result.break_even(start)
    ends = [end for end in (even.low, even.high) if end is not None]
    for number in (calls, *ends, *(end - 1 for end in ends if end > 1)):
        saved = result.whole_work(number)[start].saved
        assert (saved.high < 0) is (even.low is None or number < even.low)
        assert (saved.low > 0) is (even.high is not None and number >= even.high)


def test_the_whole_work_is_that_of_all_calls_with_the_first_one() -> None:
    result = ok_result(compilation=BOTH_STARTS)
    eager, compiled = result.latencies.values()
    for start, first in {"cold": 20.0, "warm": 2.0}.items():
        work = result.whole_work(50_000)[start]
        assert work.eager_seconds == pytest.approx(50_000 * eager)
        assert work.compiled.seconds == pytest.approx(first + 50_000 * compiled)
        assert work.saved.seconds == pytest.approx(work.eager_seconds - work.compiled.seconds)
        assert work.speedup.ratio == pytest.approx(work.eager_seconds / work.compiled.seconds)
        assert work.speedup.low < work.speedup.ratio < work.speedup.high


def test_without_a_difference_a_start_costs_its_first_call() -> None:
    result = ok_result(compilation=BOTH_STARTS, compiled=measurement(0.00199))
    assert result.speedup.verdict == "same" and result.speedup.low > 1 and result.break_even("cold").calls is None
    assert result.whole_work(10**8)["cold"].saved.seconds == pytest.approx(-20.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"parity": Parity("differ", 1.0, "")},
        {"compilation": Compilation(5.5, "cold", 1, recompiles_while_timing=1)},
        {"compilation": None},
    ],
    ids=["other outputs", "void", "nothing compiled"],
)
def test_no_total_is_given_if_the_speed_up_does_not_hold(changes: dict[str, Any]) -> None:
    assert ok_result(**changes).whole_work(1_000) == {}


def test_the_work_of_a_text_model_counts_tokens() -> None:
    result = text_result(spec=dataclasses.replace(text_result().spec, batch_size=2))
    eager, compiled = result.latencies.values()
    work = result.whole_work(10_000)["cold"]
    assert work.saved.seconds == pytest.approx(5_000 * (eager - compiled) - 5.5)
    slower = text_result(further={"first_token": Pair(measurement(0.005), measurement(0.05), measurement(0.005))})
    assert slower.whole_work(10_000) == {}


def test_an_interval_without_a_gain_has_no_upper_break_even() -> None:
    calls = tuple(0.002 * (1 + 0.1 * (n % 5 - 2)) for n in range(48))
    assert (
        ok_result(compiled=dataclasses.replace(measurement(0.002), wall_seconds=calls)).break_even("cold").high is None
    )


def test_a_whole_request_has_every_picture_of_the_batch() -> None:
    result = ok_result(spec=BATCH, end_to_end=EndToEnd(0.010, 0.001, 0.002))
    eager, compiled = (4 * 0.012 + 0.001 + seconds for seconds in result.latencies.values())
    assert result.request_seconds == pytest.approx((eager, compiled))
    assert to_json(result)["end_to_end_speedup"] == pytest.approx(eager / compiled)


def test_a_generated_text_takes_the_first_token_plus_three_steps() -> None:
    result = text_result()
    first, step = result.comparisons["first_token"].latencies, result.speedup.latencies
    assert result.answer_seconds == pytest.approx((first[0] + 3 * step[0], first[1] + 3 * step[1]))


@pytest.mark.parametrize("version", [1, 2, 4, None, "3"])
def test_a_result_of_another_version_is_refused(version: Any) -> None:
    with pytest.raises(ValueError, match=f"has schema_version 3, this has {version}"):
        from_json(to_json(ok_result()) | {"schema_version": version})


FILLED = full_result(
    failure=Failure("time", "It ended \N{CAT FACE} قطة.", "Try again.", {"mode": "default"}),
    caveats=(note("one"), note("\u202etwo\x00")),
    without_breaks=ok_result().speedup,
    earlier=(ProcessResult("an earlier run", {"call": ProcessFigure(0.002, 0.001, Interval(2.0, 1.9, 2.1))}),),
    spread=Spread("this machine", 0.02, 9.0),
    first_calls={"cold": (30.5, 28.0)},
    start_up=StartUp(3.1, 0.4),
)
SAMPLES = (
    FILLED,
    failed_result(),
    text_result(),
    ok_result(predictions={"eager": BOXES, "compiled": BOXES}),
    ok_result(predictions={"eager": SEGMENTS}, interleaved=False),
    ok_result(environment=None, parity=Parity("differ", None, "NaN.", {})),
)


@pytest.mark.parametrize("result", SAMPLES, ids=["full", "failed", "text", "boxes", "segments", "differ"])
def test_a_result_survives_json_and_back(result: RunResult) -> None:
    assert from_json(json.loads(dumps(result))) == result


def test_an_answer_without_breaks_of_an_earlier_version_is_read() -> None:
    data = to_json(FILLED)
    del data["without_breaks"]["pooled"]
    beside = from_json(data).without_breaks
    assert (beside.pooled.low, beside.low) == (beside.low, FILLED.without_breaks.low)


@pytest.mark.parametrize(
    ("compilation", "start"),
    [
        (Compilation(2.0, "warm", 1, cold=CompileCost(20.0, {}), warm=CompileCost(2.0, {})), "warm"),
        (Compilation(9.0, "cold", 1, cold=CompileCost(20.0, {}), partly=True), "cold"),
        (Compilation(9.0, "cold", 1, warm=CompileCost(2.0, {}), partly=True), "partly"),
        (Compilation(1.5, "cold", 1, warm=CompileCost(2.0, {}), partly=True), "warm"),
    ],
    ids=["warm", "partly, a cold one is known", "partly", "partly, and as fast as warm"],
)
def test_the_calls_to_pay_of_a_run_are_those_of_its_own_start(compilation: Compilation, start: str) -> None:
    data = to_json(ok_result(compilation=compilation))
    assert data["break_even_calls"] == data["break_even"][start]["calls"] is not None


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(RunResult)])
def test_the_samples_fill_every_field(name: str) -> None:
    assert name == "schema_version" or len({repr(getattr(result, name)) for result in SAMPLES}) > 1


@pytest.mark.parametrize(
    "damage",
    [
        {"id": None},
        {"spec": {"checkpoint": "x", "task": "image-classification", "batch_size": 0}},
        {"spec": {"checkpoint": "no function", "task": "own-model"}},
        {"spec": {"checkpoint": "/:no_file", "task": "own-model"}},
        {"eager": {"wall_seconds": "fast"}},
        {"predictions": {"eager": {"boxes": [{"label": "a", "score": 1.0, "box": [1.0, 2.0]}]}}},
        {"elapsed_seconds": True},
        {"elapsed_seconds": math.inf},
        {"without_breaks": {"ratio": 2.0}},
        {"without_breaks": [2.0]},
    ],
    ids=lambda damage: str(next(iter(damage.items())))[:60],
)
def test_a_damaged_result_is_a_value_error(damage: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        from_json(to_json(ok_result()) | damage)


@pytest.mark.parametrize(
    "place",
    [
        ("eager", "calls_per_block"),
        ("control_times", "blocks_apart"),
        ("compilation", "cold", "first_call_seconds"),
    ],
    ids="-".join,
)
def test_a_number_that_others_are_divided_by_is_above_zero(place: tuple[str, ...]) -> None:
    """A dataset on the Hub may hold anything: one such result would keep all races of the dataset off the wall."""
    data = json.loads(dumps(full_result()))
    inner = functools.reduce(operator.getitem, place[:-1], data)
    inner[place[-1]] = type(inner[place[-1]])(0)
    with pytest.raises(ValueError, match=f"{'.'.join(place)}: Input should be greater than 0"):
        from_json(data)


def test_nan_is_not_stored() -> None:
    with pytest.raises(ValueError):
        dumps(ok_result(elapsed_seconds=math.nan))
