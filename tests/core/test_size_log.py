"""Tests of reading a log of input sizes: what its lines mean, and which are refused."""

import pytest

from demo.core.options import BadInput
from demo.core.size_log import InputSize, read_log


@pytest.mark.parametrize(
    ("text", "of_text", "sizes"),
    [
        ("4\n\n# a comment\n1 480 640  # landscape\n", False, (InputSize(4), InputSize(1, 480, 640))),
        ("3 128", True, (InputSize(3, prompt_tokens=128),)),
    ],
    ids=["pictures", "text"],
)
def test_a_line_is_a_call_of_its_size(text: str, of_text: bool, sizes: tuple[InputSize, ...]) -> None:
    assert read_log(text, of_text) == sizes


@pytest.mark.parametrize(("batch", "padded"), [(1, 1), (3, 4), (8, 8), (9, 16)])
def test_a_padded_batch_is_the_next_power_of_two(batch: int, padded: int) -> None:
    assert InputSize(batch, 480, 640).pad() == InputSize(padded, 480, 640)


@pytest.mark.parametrize(
    ("text", "of_text", "words"),
    [
        ("4\nfour", False, "Line 2 of the sizes must be a batch size .* Given: 'four'"),
        ("4 480", False, "alone, or with height and width, of 1 to 2048"),
        ("4", True, "and the prompt's tokens"),
        ("0 480 640", False, "a batch size of 1 to 256"),
        ("1 480 99999", False, "of 1 to 2048"),
        ("-1", False, "Line 1"),
        ("9" * 5000, False, "Line 1"),
        ("1\n" * 1001, False, "1 to 1000 calls.* Given: 1001"),
        ("# nothing\n", True, "Given: 0"),
    ],
    ids=["a word", "no width", "no tokens", "no batch", "large", "negative", "digits", "long", "empty"],
)
def test_a_log_that_means_nothing_is_refused(text: str, of_text: bool, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        read_log(text, of_text)
