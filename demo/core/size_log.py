"""Reads a log of input sizes: a text file with one line for each call of a model.

A line for pictures is a batch size, then height and width if they are known (`4 480 640`, or only `4`). A line for text
is a batch size, then the prompt's length in tokens (`4 128`). Empty lines, and comments after a #, are skipped.
"""

from dataclasses import dataclass, replace

from . import format as fmt
from .options import MAX_BATCH_SIZE, BadInput

MAX_CALLS = 1000
MAX_PIXELS, MAX_TOKENS = 2048, 4096
"""Largest height or width in a log, in pixels, and longest prompt in a log, in tokens."""


@dataclass(frozen=True)
class InputSize:
    """The input size of one call. `str(size)` is '4 × 480 × 640'."""

    batch_size: int
    height: int | None = None
    width: int | None = None
    """`height` and `width` of the model's input, in pixels; None: the size that the checkpoint's processor makes."""
    prompt_tokens: int | None = None

    def __str__(self) -> str:
        return " × ".join(str(part) for part in vars(self).values() if part is not None)

    def pad(self) -> "InputSize":
        """Returns the size with the batch size rounded up to a power of two."""
        return replace(self, batch_size=1 << (self.batch_size - 1).bit_length())


def read_log(text: str, of_text: bool) -> tuple[InputSize, ...]:
    """Returns the input sizes of all calls, in order. Each line has the size of one call; '#' begins a comment.

    `of_text`: True if the lines are sizes of prompts, False if of pictures. Raises BadInput for a line that is no size,
    and if there are no calls or more than `MAX_CALLS`.
    """
    lines = [(number, line.partition("#")[0].strip()) for number, line in enumerate(text.splitlines(), start=1)]
    calls = [_size(number, line, of_text) for number, line in lines if line]
    if not 1 <= len(calls) <= MAX_CALLS:
        raise BadInput(f"The sizes must be of 1 to {MAX_CALLS} calls, a line each. Given: {len(calls)}.")
    return tuple(calls)


def _size(number: int, line: str, of_text: bool) -> InputSize:
    most, lengths = (MAX_TOKENS, (2,)) if of_text else (MAX_PIXELS, (1, 3))
    parts = line.split()
    numbers = [int(part) for part in parts if part.isdecimal() and len(part) < 5]  # int() refuses thousands of digits
    fits = len(numbers) == len(parts) and len(parts) in lengths and 1 <= numbers[0] <= MAX_BATCH_SIZE
    if not fits or not all(1 <= value <= most for value in numbers):
        further = "and the prompt's tokens" if of_text else "alone, or with height and width"
        allowed = f"a batch size of 1 to {MAX_BATCH_SIZE} {further}, of 1 to {most}"
        raise BadInput(f"Line {number} of the sizes must be {allowed}. Given: {fmt.excerpt(line)}.")
    batch, *others = numbers
    return InputSize(batch, prompt_tokens=others[0]) if of_text else InputSize(batch, *others)
