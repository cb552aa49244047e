import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import BOXES, LABELS, SEGMENTS, failed_result, measurement, ok_result

from demo.core import result as schema
from demo.core.result import (
    DEVICES,
    DTYPES,
    MAX_BATCH_SIZE,
    MAX_ITERATIONS,
    MAX_QUERIES,
    MAX_QUERY_LENGTH,
    MIN_ITERATIONS,
    MODES,
    TASKS,
    WEIGHTS,
    BadInput,
    Compilation,
    EndToEnd,
    GraphBreak,
    Measurement,
    Parity,
    Profile,
    RunResult,
    RunSpec,
    load,
    plain,
)

OLD_FILE = Path(__file__).parents[1] / "fixtures" / "result_v1.json"

texts = st.text(max_size=30)
finite = st.floats(allow_nan=False, allow_infinity=False)
times = st.floats(min_value=1e-6, max_value=100)
specs = st.builds(
    RunSpec,
    checkpoint=texts.filter(str.strip),
    task=st.sampled_from(TASKS),
    batch_size=st.integers(1, MAX_BATCH_SIZE),
    mode=st.sampled_from(MODES),
    fullgraph=st.booleans(),
    dtype=st.sampled_from(DTYPES),
    device=st.sampled_from(DEVICES),
    weights=st.sampled_from(WEIGHTS),
    text=st.lists(texts.filter(str.strip), max_size=MAX_QUERIES).map(tuple),
    iterations=st.none() | st.integers(MIN_ITERATIONS, MAX_ITERATIONS),
)
measurements = st.builds(
    Measurement,
    wall_seconds=st.lists(times, min_size=1, max_size=20).map(tuple),
    device_seconds=st.none() | st.lists(times, max_size=20).map(tuple),
    warmup_seconds=st.lists(times, max_size=5).map(tuple),
    calls_per_block=st.integers(1, 6),
    peak_memory_bytes=st.none() | st.integers(0, 10**12),
)


def _paired(result: RunResult) -> RunResult:
    """Interleaved times come in pairs of blocks: the longer variant is cut to the length of the shorter."""
    if result.eager is None or result.compiled is None or not result.interleaved:
        return result
    count = min(len(result.eager.wall_seconds), len(result.compiled.wall_seconds))
    eager, compiled = (
        dataclasses.replace(variant, wall_seconds=variant.wall_seconds[:count], calls_per_block=1)
        for variant in (result.eager, result.compiled)
    )
    return dataclasses.replace(result, eager=eager, compiled=compiled)


results = st.builds(
    RunResult,
    id=texts,
    started_at=texts,
    status=st.sampled_from(["ok", "crashed", "cancelled"]),
    spec=specs,
    eager=st.none() | measurements,
    compiled=st.none() | measurements,
    control_times=st.none() | measurements,
    interleaved=st.booleans(),
    compilation=st.none()
    | st.builds(
        Compilation,
        first_call_seconds=times,
        cache=st.sampled_from(["cold", "warm", "off"]),
        graphs=st.integers(0, 50),
        graph_breaks=st.lists(st.builds(GraphBreak, texts, texts), max_size=3).map(tuple),
        recompiles_while_timing=st.integers(0, 9),
        cudagraphs=texts,
    ),
    parity=st.none()
    | st.builds(
        Parity,
        st.sampled_from(["match", "differ", "not comparable"]),
        st.none() | finite,
        texts,
        st.dictionaries(texts, finite, max_size=3),
    ),
    predictions=st.none() | st.just({"eager": LABELS, "compiled": BOXES}) | st.just({"eager": SEGMENTS}),
    end_to_end=st.none() | st.builds(EndToEnd, times, times, times),
    warnings=st.lists(texts, max_size=3).map(tuple),
    elapsed_seconds=times,
).map(_paired)
garbage: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(results)
def test_a_result_survives_json_and_back(result: RunResult) -> None:
    assert RunResult.from_json(json.loads(result.dumps())) == result


@given(st.fixed_dictionaries({"checkpoint": garbage, "task": garbage}, optional={"batch_size": garbage, "mode": garbage,
       "fullgraph": garbage, "dtype": garbage, "device": garbage, "weights": garbage, "text": garbage,
       "iterations": garbage}))  # fmt: skip
def test_a_spec_of_garbage_is_refused_with_a_sentence(values: dict[str, Any]) -> None:
    with pytest.raises(BadInput) as refusal:
        RunSpec(**values)
    assert str(refusal.value).strip().endswith(".")


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("task", "image-captioning", "object-detection"),
        ("batch_size", 0, "from 1 to"),
        ("batch_size", -1, "from 1 to"),
        ("batch_size", 1.5, "whole number"),
        ("batch_size", 10_000, str(MAX_BATCH_SIZE)),
        ("batch_size", True, "whole number"),
        ("mode", "fastest", "max-autotune"),
        ("dtype", "int8", "bfloat16"),
        ("device", "tpu", "cuda"),
        ("weights", "none", "random"),
        ("fullgraph", 1, "true or false"),
        ("iterations", 1, str(MIN_ITERATIONS)),
    ],
)
def test_a_refusal_says_what_was_given_and_what_is_allowed(field: str, value: Any, allowed: str) -> None:
    with pytest.raises(BadInput) as refusal:
        RunSpec(**{"checkpoint": "shapes-vit", "task": "image-classification", field: value})
    assert repr(value) in str(refusal.value)
    assert allowed in str(refusal.value)


@pytest.mark.parametrize("checkpoint", ["", "   ", None, 7])
def test_a_spec_without_a_checkpoint_is_refused(checkpoint: Any) -> None:
    with pytest.raises(BadInput, match="No checkpoint"):
        RunSpec(checkpoint, "image-classification")


@pytest.mark.parametrize("text", [("",), (" ",), ["a cat"], "a cat", (1,)])
def test_text_queries_are_a_tuple_of_texts_that_say_something(text: Any) -> None:
    with pytest.raises(BadInput, match="text queries"):
        RunSpec("google/owlvit-base-patch32", "object-detection", text=text)


@pytest.mark.parametrize("text", [("a",) * (MAX_QUERIES + 1), ("a" * (MAX_QUERY_LENGTH + 1),)])
def test_text_queries_have_a_bound(text: tuple[str, ...]) -> None:
    with pytest.raises(BadInput, match=f"At most {MAX_QUERIES}"):
        RunSpec("google/owlvit-base-patch32", "object-detection", text=text)


def test_a_refusal_of_a_huge_value_stays_short() -> None:
    with pytest.raises(BadInput) as refusal:
        RunSpec("shapes-vit", "image-classification", mode="x" * 100_000)
    assert len(str(refusal.value)) < 300


def test_the_json_has_the_documented_keys() -> None:
    data = ok_result().to_json()
    assert data["schema_version"] == 1
    assert {"id", "started_at", "status", "failure", "spec", "environment", "eager", "compiled", "speedup", "control",
            "compilation", "break_even_calls", "parity", "predictions", "warnings"} <= data.keys()  # fmt: skip
    assert {"median_ms", "mean_ms", "p95_ms", "images_per_second", "peak_memory_bytes", "wall_seconds",
            "device_seconds", "warmup_seconds"} <= data["eager"].keys() & data["compiled"].keys()  # fmt: skip
    assert {"checkpoint", "task", "batch_size", "mode", "dtype", "device", "weights"} <= data["spec"].keys()
    assert data["speedup"].keys() == {"ratio", "low", "high", "verdict"}
    assert data["control"].keys() == {"ratio", "low", "high"}
    assert {"first_call_seconds", "cache", "graphs", "graph_breaks", "recompiles_while_timing", "cudagraphs"} <= data[
        "compilation"
    ].keys()
    assert {"verdict", "max_abs_error", "task"} <= data["parity"].keys()


def test_the_json_of_a_failure_has_its_figures_as_null() -> None:
    data = failed_result().to_json()
    assert data["failure"] == {
        "stage": "compile",
        "message": "Batch size 256 ran out of memory on a T4 (15 GB) while compiling.",
        "remedy": "Try 64.",
    }
    assert [data[key] for key in ("eager", "compiled", "speedup", "control", "break_even_calls")] == [None] * 5


def test_derived_figures_follow_from_the_raw_times() -> None:
    result = ok_result(
        spec=RunSpec("shapes-vit", "image-classification", batch_size=4),
        eager=Measurement((0.010, 0.020, 0.030, 0.100), None, (), 2),
        compiled=None,
        control_times=None,
    )
    eager = result.to_json()["eager"]
    assert eager["median_ms"] == pytest.approx(25)
    assert eager["mean_ms"] == pytest.approx(40)
    assert eager["p95_ms"] == pytest.approx(89.5)
    assert eager["images_per_second"] == pytest.approx(4 / 0.025)


def test_the_speedup_is_eager_over_compiled() -> None:
    speedup = ok_result().speedup
    assert speedup is not None
    assert speedup.ratio == pytest.approx(2)
    assert speedup.low <= speedup.ratio <= speedup.high
    assert speedup.verdict == "faster"


def test_a_run_that_recompiled_while_timing_is_void() -> None:
    speedup = ok_result(compilation=Compilation(5.5, "cold", 2, recompiles_while_timing=1)).speedup
    assert speedup is not None
    assert speedup.verdict == "unsure"


def test_one_block_gives_no_interval() -> None:
    assert ok_result(eager=measurement(0.002, blocks=1), compiled=measurement(0.001, blocks=1)).speedup is None


def test_times_taken_one_after_the_other_need_not_be_as_many() -> None:
    speedup = ok_result(eager=measurement(0.002, blocks=20), interleaved=False).speedup
    assert speedup is not None
    assert speedup.ratio == pytest.approx(2, rel=0.02)


def test_the_control_pairs_the_blocks_that_both_have() -> None:
    steady = Measurement((0.002,) * 48, None, (), 4)
    control = ok_result(eager=steady, control_times=Measurement((0.001,) * 20, None, (), 4)).control
    assert control is not None
    assert control.ratio == pytest.approx(2)


def test_break_even_counts_calls_until_compiling_has_paid() -> None:
    result = ok_result()
    assert result.eager is not None and result.compiled is not None
    saved = result.eager.median_seconds - result.compiled.median_seconds
    assert result.break_even_calls == math.ceil(5.5 / saved)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_figure_that_is_not_finite_never_becomes_json(value: float) -> None:
    with pytest.raises(ValueError):
        ok_result(elapsed_seconds=value).dumps()


def test_an_old_file_always_loads() -> None:
    old = json.loads(OLD_FILE.read_text(encoding="utf-8"))
    result = RunResult.from_json(old)
    assert result.status == "ok"
    assert result.speedup is not None
    assert result.speedup.ratio == pytest.approx(old["speedup"]["ratio"], rel=0.05)
    assert result.eager is not None
    assert list(result.eager.wall_seconds) == old["eager"]["wall_seconds"]


def test_unknown_keys_of_a_newer_version_are_passed_over() -> None:
    data = ok_result().to_json() | {"schema_version": 2, "added_later": {"x": 1}}
    data["spec"]["added_later"] = True
    data["eager"]["added_later"] = [1]
    assert RunResult.from_json(data).spec == ok_result().spec


@pytest.mark.parametrize(
    "damage",
    [
        {"id": None},
        {"status": "perhaps"},
        {"spec": {}},
        {"spec": None},
        {"spec": {"checkpoint": "x", "task": "image-classification", "batch_size": 0}},
        {"eager": [1, 2]},
        {"eager": {"wall_seconds": "fast"}},
        {"warnings": "none"},
        {"warnings": [1]},
        {"predictions": {"eager": {"boxes": [{"label": "a", "score": 1.0, "box": [1.0, 2.0]}]}}},
        {"predictions": ["eager"]},
        {"elapsed_seconds": True},
        {"elapsed_seconds": math.inf},
    ],
)
def test_a_damaged_result_is_a_value_error(damage: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        RunResult.from_json(ok_result().to_json() | damage)


@pytest.mark.parametrize("missing", ["id", "started_at", "status", "spec"])
def test_a_result_without_a_needed_key_is_a_value_error(missing: str) -> None:
    data = ok_result().to_json()
    del data[missing]
    with pytest.raises(ValueError, match=missing):
        RunResult.from_json(data)


def test_whole_numbers_are_read_as_floats_where_floats_are_meant() -> None:
    assert load(float, 3) == 3.0
    assert isinstance(load(float, 3), float)


def test_plain_gives_only_what_json_knows() -> None:
    assert plain(BOXES) == {
        "labels": None,
        "boxes": [
            {"label": "circle", "score": 0.97, "box": [10.0, 20.0, 60.5, 80.0]},
            {"label": "star", "score": 0.91, "box": [50.0, 5.0, 90.0, 44.0]},
        ],
        "segments": None,
    }


def test_auto_becomes_the_device_that_was_used() -> None:
    spec = RunSpec("shapes-vit", "image-classification", batch_size=2)
    assert spec.on("cpu") == RunSpec("shapes-vit", "image-classification", batch_size=2, device="cpu")


def test_compiling_pays_for_itself_sooner_the_larger_the_speed_up():
    result = ok_result(spec=dataclasses.replace(ok_result().spec, batch_size=4))
    found = result.break_even(10.0)
    ratio = result.speedup.ratio
    assert found.calls == math.ceil(10.0 / (result.eager.median_seconds * (1 - 1 / ratio)))
    assert found.low <= found.calls <= found.high
    assert found.images == 4 * found.calls


def test_compiling_that_may_gain_nothing_has_no_upper_bound():
    slow = dataclasses.replace(
        measurement(0.002), wall_seconds=tuple(0.002 * (1 + 0.1 * (n % 5 - 2)) for n in range(48))
    )
    found = ok_result(compiled=slow).break_even(10.0)
    assert found.high is None


def test_a_whole_request_holds_every_picture_of_the_batch():
    result = ok_result(
        spec=dataclasses.replace(ok_result().spec, batch_size=4), end_to_end=EndToEnd(0.010, 0.001, 0.002)
    )
    around = 4 * 0.012 + 0.001
    assert result.request_seconds == pytest.approx(
        (around + result.eager.median_seconds, around + result.compiled.median_seconds)
    )
    assert result.to_json()["end_to_end_speedup"] == pytest.approx(
        result.request_seconds[0] / result.request_seconds[1]
    )


def test_launching_is_the_wall_time_without_the_work_and_never_negative():
    assert dataclasses.replace(measurement(0.002), device_seconds=(0.0005,) * 3).launch_seconds == pytest.approx(
        measurement(0.002).median_seconds - 0.0005
    )
    assert dataclasses.replace(measurement(0.002), device_seconds=(1.0,)).launch_seconds == 0.0
    assert measurement(0.002).launch_seconds is None


def test_the_profilers_kernel_times_are_the_work_where_they_are_less_than_the_clocks() -> None:
    """More launches than the driver queues leave gaps between the events, which are no work."""
    side = dataclasses.replace(measurement(0.002), device_seconds=(0.0015,) * 3)
    for busy, work in ((0.0004, 0.0004), (0.0019, 0.0015), (None, 0.0015)):
        profiled = dataclasses.replace(side, profile=Profile(1200, busy, ()))
        assert profiled.launch_seconds == pytest.approx(side.median_seconds - work)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"precision": 0.0}, "precision must be a number from 0.001 to 0.2"),
        ({"precision": "fine"}, "precision"),
        ({"precision": float("nan")}, "precision"),
        ({"most_seconds": 1e9}, "most_seconds"),
        ({"threads": 0}, "threads"),
        ({"attention": "flash"}, "attention"),
        ({"protocol": "quick"}, "protocol"),
        ({"cache": "off"}, "compile cache"),
        ({"channels_last": 1}, "channels_last"),
        ({"protocol": "as published", "iterations": 20}, "300 calls"),
    ],
)
def test_the_settings_check_themselves(changes, words):
    with pytest.raises(BadInput, match=words):
        RunSpec("shapes-vit", "image-classification", **changes)


def test_the_first_of_the_values_to_choose_from_is_the_default() -> None:
    """As the help of the command line says."""
    spec = RunSpec("shapes-vit", "image-classification")
    for field, values in {
        "mode": schema.MODES,
        "dtype": schema.DTYPES,
        "device": schema.DEVICES,
        "weights": schema.WEIGHTS,
        "protocol": schema.PROTOCOLS,
        "attention": schema.ATTENTIONS,
        "cache": schema.CACHES,
        "profile": schema.PROFILES,
    }.items():
        assert getattr(spec, field) == values[0], field
