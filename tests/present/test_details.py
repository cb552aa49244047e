"""What is told of a text model's run, as words, as HTML and as JSON."""

import dataclasses

import pytest
from support.samples import measurement, text_result

from demo.core import format as fmt
from demo.core.measurement import Pair
from demo.core.outputs import Predictions
from demo.core.result import RunResult
from demo.present import details, verdict

OTHER = Predictions(text=" a <b>", pieces=(" a", " <b>", "", "."), token_ids=(5, 9, 3, 8))


def parted(dtype: str = "float32") -> RunResult:
    result = text_result()
    spec = dataclasses.replace(result.spec, dtype=dtype)
    return dataclasses.replace(result, spec=spec, predictions=result.predictions | {"compiled": OTHER})


def test_the_whole_answer_is_the_prompt_and_a_step_for_each_further_token() -> None:
    result = text_result()
    first, step, whole = result.comparisons["first_token"], result.latencies, result.answer_seconds
    assert whole == pytest.approx(
        (first.eager_seconds + 3 * step["eager"], first.compiled_seconds + 3 * step["compiled"])
    )
    assert first.ratio == pytest.approx(1.6) and result.speedup.ratio == pytest.approx(2.0)


def test_compiling_pays_after_tokens_and_answers() -> None:
    result = text_result(spec=dataclasses.replace(text_result().spec, batch_size=2))
    even = result.break_even(6.0)
    assert even.images == 2 * even.calls
    assert even.answers == pytest.approx(6.0 / (result.answer_seconds[0] - result.answer_seconds[1]), abs=1)
    low, high = (fmt.grouped(fmt.two_digits(2 * calls)) for calls in (even.low, even.high))
    told = f"about {low} tokens" if low == high else f"{low} to {high} tokens"
    assert verdict.calls_to_pay(even) == told


def test_from_where_the_texts_differ_is_said_and_half_types_are_excused() -> None:
    assert "from token 2 on" in details.text_difference(parted()) and "rounding" not in details.text_difference(
        parted()
    )
    assert "rounding" in details.text_difference(parted("bfloat16"))
    assert details.text_difference(text_result()) == ""


def test_what_a_slower_prompt_loses_may_never_pay() -> None:
    slower = Pair(measurement(0.005), measurement(0.05), measurement(0.005))
    assert text_result(further={"first_token": slower}).speedup.verdict == "faster"
    even = text_result(further={"first_token": slower}).break_even(6.0)
    assert (even.calls, even.images, even.answers) == (None, None, None)
