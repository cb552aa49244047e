"""Results as JSON and back."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import BOXES, LABELS, SEGMENTS, failed_result, ok_result

from demo.core.codec import load
from demo.core.measurement import Compilation, Generation, GraphBreak, Measurement
from demo.core.outputs import EndToEnd, Parity, Predictions
from demo.core.result import RunResult
from demo.core.spec import (
    MAX_BATCH_SIZE,
    MAX_ITERATIONS,
    MAX_QUERIES,
    MAX_TOKENS,
    MIN_ITERATIONS,
    MIN_TOKENS,
    MODES,
    TASKS,
    TEXT_GENERATION,
    RunSpec,
)

texts = st.text(max_size=30)
finite = st.floats(allow_nan=False, allow_infinity=False)
times = st.floats(min_value=1e-6, max_value=100)


def _spec(task: str, prompt: str, tokens: int, **asked: Any) -> RunSpec:
    text = {"prompt": prompt, "tokens": tokens} if task == TEXT_GENERATION else {}
    return RunSpec(task=task, **asked, **text)


specs = st.builds(
    _spec,
    prompt=texts.filter(str.strip),
    tokens=st.integers(MIN_TOKENS, MAX_TOKENS),
    checkpoint=texts.filter(str.strip),
    task=st.sampled_from(TASKS),
    batch_size=st.integers(1, MAX_BATCH_SIZE),
    mode=st.sampled_from(MODES),
    fullgraph=st.booleans(),
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
token_ids = st.lists(st.integers(0, 300_000), max_size=5).map(tuple)


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
    predictions=st.none()
    | st.just({"eager": LABELS, "compiled": BOXES})
    | st.just({"eager": SEGMENTS})
    | st.builds(lambda text, ids: {"eager": Predictions(text=text, pieces=(text,), token_ids=ids)}, texts, token_ids),
    generation=st.none()
    | st.builds(Generation, st.integers(1, 9), st.integers(1, 99), st.integers(1, 10**9), st.none() | times),
    end_to_end=st.none() | st.builds(EndToEnd, times, times, times),
    warnings=st.lists(texts, max_size=3).map(tuple),
    elapsed_seconds=times,
).map(_paired)


@given(results)
def test_a_result_survives_json_and_back(result: RunResult) -> None:
    assert RunResult.from_json(json.loads(result.dumps())) == result


def test_a_figure_that_is_not_finite_never_becomes_json() -> None:
    for value in [math.nan, math.inf]:
        with pytest.raises(ValueError):
            ok_result(elapsed_seconds=value).dumps()


def test_unknown_keys_of_a_newer_version_are_passed_over() -> None:
    data = ok_result().to_json() | {"schema_version": 3, "added_later": {"x": 1}}
    data["spec"]["added_later"] = True
    data["eager"]["added_later"] = [1]
    assert RunResult.from_json(data).spec == ok_result().spec


def test_a_damaged_result_is_a_value_error() -> None:
    for damage in [
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
    ]:
        with pytest.raises(ValueError):
            RunResult.from_json(ok_result().to_json() | damage)


def test_a_result_without_a_needed_key_is_a_value_error() -> None:
    for missing in ["id", "started_at", "status", "spec"]:
        data = ok_result().to_json()
        del data[missing]
        with pytest.raises(ValueError, match=missing):
            RunResult.from_json(data)


def test_whole_numbers_are_read_as_floats_where_floats_are_meant() -> None:
    assert load(float, 3) == 3.0
    assert isinstance(load(float, 3), float)


def test_the_phase_of_a_failure_keeps_its_older_key() -> None:
    data = failed_result().to_json()
    assert data["failure"]["stage"] == "compile" and "phase" not in data["failure"]
    assert RunResult.from_json(data).failure == failed_result().failure
