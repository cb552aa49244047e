"""Tests of comparing the texts that eager and compiled, or two runs, generate."""

import pytest

from demo.core.outputs import Predictions
from demo.tasks.text_generation import difference, parting

REFERENCE = Predictions(token_ids=(1, 2, 3, 4), ties=((), (), (3, 9), ()))


@pytest.mark.parametrize(
    ("tokens", "another", "sentence"),
    [
        ((1, 2, 8, 4), True, "The texts differ from token 3 on."),
        ((1, 2, 9, 7), False, "The answers part at token 3 of 4, where the likeliest tokens differ by rounding only."),
        ((1, 2, 3, 9), True, "The texts differ from token 4 on."),
    ],
    ids=["another token", "a tie", "another token after a tie"],
)
def test_a_token_that_is_as_likely_is_no_other_text(tokens: tuple[int, ...], another: bool, sentence: str) -> None:
    other = Predictions(token_ids=tokens)
    assert difference(REFERENCE, other).startswith("writes another text") is another
    assert parting(REFERENCE, other) == sentence
