"""What is derived from the times of a run, and results as JSON and back."""

import dataclasses
import json
import math
from typing import Any

import pytest
from support.samples import BOXES, SEGMENTS, failed_result, full_result, measurement, ok_result, text_result

from demo.core.caveat import note
from demo.core.comparison import ProcessFigure, ProcessResult, Spread
from demo.core.machine import HostSample
from demo.core.measurement import Compilation, Measurement, StartUp
from demo.core.outputs import EndToEnd, Parity
from demo.core.result import Failure, RunResult
from demo.core.result_json import dumps, from_json, to_json
from demo.core.spec import RunSpec
from demo.core.stats import Interval


def test_derived_figures_follow_from_the_raw_times() -> None:
    result = ok_result(
        spec=RunSpec("shapes-vit", "image-classification", batch_size=4),
        eager=Measurement((0.010, 0.020, 0.030, 0.100), None, (), 2),
        compiled=None,
        control_times=None,
    )
    eager = to_json(result)["eager"]
    found = [eager[name] for name in ("median_ms", "mean_ms", "p95_ms", "images_per_second")]
    assert found == pytest.approx([25, 40, 89.5, 4 / 0.025])
    speedup = ok_result().speedup
    assert speedup is not None and speedup.ratio == pytest.approx(2) and speedup.low <= speedup.ratio <= speedup.high


def test_the_verdict_looks_at_the_interval_for_a_rerun_and_a_run_that_recompiled_while_timing_has_none() -> None:
    little = measurement(0.002 / 1.04)
    within = ok_result(compiled=little).speedup
    rerun = ok_result(compiled=little, spread=Spread("assumed", 0.03)).speedup
    assert (within.verdict, rerun.verdict) == ("faster", "unsure")
    assert within.basis == "within one process" and rerun.within == within.within
    void = ok_result(compilation=Compilation(5.5, "cold", 2, recompiles_while_timing=1)).speedup
    assert void is not None and void.verdict == "unsure"


def test_a_run_whose_threads_had_no_core_for_themselves_is_rough() -> None:
    for threads, free, verdict in [
        (2, (2.0, 2.0), "faster"),
        (2, (1.9, 1.0, 2.0, 2.0, 2.0), "faster"),  # taken for a moment
        (2, (None, 1.5, 1.4), "unsure"),
        (2, (None, None), "faster"),
        (8, (2.0, 1.9), "faster"),  # more threads than cores, as asked; none was taken
        (1, (0.9, 0.8), "faster"),
        (1, (0.1, 0.0, 0.05), "unsure"),  # below one core there are no fewer threads to give way to
    ]:
        samples = tuple(HostSample(number / 2, 0.3, None, left) for number, left in enumerate(free))
        machine = dataclasses.replace(ok_result().environment, threads=threads, free_cores=2)
        result = ok_result(environment=machine, machine_states=samples, compiled=measurement(0.0016))
        assert result.speedup is not None and result.speedup.verdict == verdict
        assert result.oversubscribed == (verdict == "unsure")
        assert from_json(json.loads(dumps(result))) == result


def test_one_block_gives_no_interval_and_the_control_pairs_the_blocks_that_both_have() -> None:
    assert ok_result(eager=measurement(0.002, blocks=1), compiled=measurement(0.001, blocks=1)).speedup is None
    steady = Measurement((0.002,) * 48, None, (), 4)
    control = ok_result(eager=steady, control_times=Measurement((0.001,) * 20, None, (), 4)).speedup.control
    assert control is not None and control.ratio == pytest.approx(2)


def test_break_even_counts_calls_and_work_until_compiling_has_paid() -> None:
    result = ok_result(spec=dataclasses.replace(ok_result().spec, batch_size=4))
    latencies = result.latencies
    saved = latencies["eager"] - latencies["compiled"]
    assert to_json(result)["break_even_calls"] == math.ceil(5.5 / saved)
    assert to_json(result)["break_even_seconds"] == result.break_even(5.5).seconds
    found = result.break_even(10.0)
    assert found.seconds == pytest.approx(10.0 + found.calls * latencies["compiled"])
    assert 0 <= found.calls * latencies["eager"] - found.seconds < saved
    loss = ok_result(compiled=measurement(0.004))
    assert to_json(loss)["break_even_seconds"] is None and loss.break_even(5.5).seconds is None
    wide = tuple(0.002 * (1 + 0.1 * (n % 5 - 2)) for n in range(48))  # compiling may gain nothing
    assert ok_result(compiled=dataclasses.replace(measurement(0.002), wall_seconds=wide)).break_even(10.0).high is None


@pytest.mark.parametrize("version", [1, 2, 4, None, "3"])
def test_a_result_of_another_version_is_refused(version: Any) -> None:
    with pytest.raises(ValueError, match=f"has schema_version 3, this has {version}"):
        from_json(to_json(ok_result()) | {"schema_version": version})


def test_a_whole_request_holds_every_picture_of_the_batch():
    result = ok_result(
        spec=dataclasses.replace(ok_result().spec, batch_size=4), end_to_end=EndToEnd(0.010, 0.001, 0.002)
    )
    around = 4 * 0.012 + 0.001
    assert result.request_seconds == pytest.approx([around + seconds for seconds in result.latencies.values()])
    assert to_json(result)["end_to_end_speedup"] == pytest.approx(result.request_seconds[0] / result.request_seconds[1])


FILLED = full_result(
    failure=Failure("time", "It ended \N{CAT FACE} قطة.", "Try again.", {"mode": "default"}),
    caveats=(note("one"), note("\u202etwo\x00")),
    without_breaks=ok_result().speedup,
    earlier=(ProcessResult("an earlier run", {"call": ProcessFigure(0.002, 0.001, Interval(2.0, 1.9, 2.1))}),),
    spread=Spread("this machine", 0.02, 9.0),
    start_up=StartUp(3.1, 0.4),
)
SAMPLES = (
    FILLED,
    failed_result(),
    text_result(),
    ok_result(predictions={"eager": BOXES, "compiled": BOXES}),
    ok_result(predictions={"eager": SEGMENTS}),
    ok_result(environment=None, parity=Parity("differ", None, "NaN.", {})),
)


def test_a_result_survives_json_and_back() -> None:
    for result in SAMPLES:
        assert from_json(json.loads(dumps(result))) == result


def test_the_samples_fill_every_field_of_a_result() -> None:
    for field in dataclasses.fields(RunResult):
        several = len({repr(getattr(result, field.name)) for result in SAMPLES}) > 1
        assert several or field.name == "schema_version", field.name


def test_a_damaged_result_is_a_value_error() -> None:
    good = to_json(ok_result())
    damaged = [good | damage for damage in (
        {"id": None},
        {"spec": {"checkpoint": "x", "task": "image-classification", "batch_size": 0}},
        {"eager": {"wall_seconds": "fast"}},
        {"predictions": {"eager": {"boxes": [{"label": "a", "score": 1.0, "box": [1.0, 2.0]}]}}},
        {"elapsed_seconds": True},
        {"elapsed_seconds": math.inf},
    )]  # fmt: skip
    for data in damaged:
        with pytest.raises(ValueError):
            from_json(data)
    with pytest.raises(ValueError):
        dumps(ok_result(elapsed_seconds=math.nan))
