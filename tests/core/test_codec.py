"""Results as JSON and back."""

import dataclasses
import json
import math

import pytest
from samples import BOXES, SEGMENTS, failed_result, full_result, measurement, ok_result, text_result

from demo.core.codec import load
from demo.core.measurement import AnotherSize, StartUp
from demo.core.outputs import Parity
from demo.core.result import Failure, RunResult
from demo.core.speedup import ProcessResult, Spread
from demo.core.stats import Interval

FILLED = full_result(
    failure=Failure("time", "It ended \N{CAT FACE} قطة.", "Try again.", {"mode": "default"}),
    warnings=("one", "\u202etwo\x00"),
    with_break=measurement(0.0012),
    another_sizes=(AnotherSize("batch size", 2, 224, 224, 1.5, 1, 0, measurement(0.002), measurement(0.001)),),
    earlier=(ProcessResult("an earlier run", 0.002, 0.001, Interval(2.0, 1.9, 2.1)),),
    spread=Spread("this machine", 0.02, 9.0),
    start_up=StartUp(3.1, 0.4),
    rough=True,
)
SAMPLES = (
    FILLED,
    failed_result(),
    text_result(),
    ok_result(predictions={"eager": BOXES, "compiled": BOXES}),
    ok_result(predictions={"eager": SEGMENTS}),
    ok_result(environment=None, parity=Parity("differ", None, "NaN.", {}), interleaved=False),
)


def test_a_result_survives_json_and_back() -> None:
    for result in SAMPLES:
        assert RunResult.from_json(json.loads(result.dumps())) == result


def test_the_samples_fill_every_field_of_a_result() -> None:
    for field in dataclasses.fields(RunResult):
        several = len({repr(getattr(result, field.name)) for result in SAMPLES}) > 1
        assert several or field.name == "schema_version", field.name


def test_unknown_keys_of_a_newer_version_are_passed_over() -> None:
    data = ok_result().to_json() | {"schema_version": 3, "added_later": {"x": 1}}
    data["spec"]["added_later"] = True
    data["eager"]["added_later"] = [1]
    assert RunResult.from_json(data).spec == ok_result().spec


def test_a_damaged_result_is_a_value_error() -> None:
    good = ok_result().to_json()
    damaged = [good | damage for damage in (
        {"id": None},
        {"status": "perhaps"},
        {"spec": {}},
        {"spec": {"checkpoint": "x", "task": "image-classification", "batch_size": 0}},
        {"eager": {"wall_seconds": "fast"}},
        {"warnings": "none"},
        {"warnings": [1]},
        {"predictions": {"eager": {"boxes": [{"label": "a", "score": 1.0, "box": [1.0, 2.0]}]}}},
        {"elapsed_seconds": True},
        {"elapsed_seconds": math.inf},
    )]  # fmt: skip
    lacking = [{name: value for name, value in good.items() if name != missing} for missing in ("id", "status", "spec")]
    for data in (*damaged, *lacking):
        with pytest.raises(ValueError):
            RunResult.from_json(data)
    with pytest.raises(ValueError):
        ok_result(elapsed_seconds=math.nan).dumps()


def test_whole_numbers_are_read_as_floats_where_floats_are_meant() -> None:
    assert isinstance(load(float, 3), float)
