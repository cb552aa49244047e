"""A log of input sizes: what its lines mean, and which are refused."""

import pytest

from demo.core.size_log import Size, read_log
from demo.core.spec import BadInput


def test_a_line_is_a_call_of_its_size() -> None:
    log = read_log("4\n\n# a comment\n1 480 640  # landscape\n", of_text=False)
    assert log == (Size(4), Size(1, 480, 640))
    assert read_log("3 128", of_text=True) == (Size(3, prompt_tokens=128),)
    assert [str(size) for size in log] == ["4", "1 × 480 × 640"]


def test_a_padded_batch_is_the_next_power_of_two() -> None:
    assert [Size(batch, 480, 640).padded() for batch in (1, 3, 8, 9)] == [Size(n, 480, 640) for n in (1, 4, 8, 16)]


@pytest.mark.parametrize(
    ("text", "of_text", "told"),
    [
        ("4\nfour", False, "Line 2 of the sizes: a size is the batch size alone, or .* numbers. Given: 'four'"),
        ("4 480", False, "or with height and width"),
        ("4", True, "the batch size and the prompt's tokens"),
        ("0 480 640", False, "a batch size is 1 to"),
        ("1 480 99999", False, "the largest other number 2048"),
        ("-1", False, "all whole numbers"),
        ("1\n" * 1001, False, "more than 1000 calls at line 1001"),
        ("# nothing\n", True, "holds no sizes"),
    ],
)
def test_a_log_that_means_nothing_is_refused_with_its_line(text: str, of_text: bool, told: str) -> None:
    with pytest.raises(BadInput, match=told.replace("(", r"\(")):
        read_log(text, of_text)
