"""A short log of input sizes, as a service might see them: one line a call, read from a text file.

A line is a batch size, with height and width for pictures (`4 480 640`) or the prompt's tokens for text (`4 128`).
Empty lines and what follows a # do not count.
"""

from dataclasses import dataclass, replace

from demo.core.limits import MAX_BATCH_SIZE
from demo.core.spec import BadInput

MAX_CALLS = 1000
MAX_PIXELS, MAX_TOKENS = 2048, 4096
"""Largest height or width of a model's input, and longest prompt."""


@dataclass(frozen=True)
class Size:
    batch_size: int
    height: int | None = None
    width: int | None = None
    """Pixels of the model's input; None: as the processor makes it."""
    prompt_tokens: int | None = None
    """None for pictures."""

    def __str__(self) -> str:
        return " × ".join(str(part) for part in vars(self).values() if part is not None)

    def padded(self) -> "Size":
        """With the batch size rounded up to a power of two."""
        return replace(self, batch_size=1 << (self.batch_size - 1).bit_length())


def read_log(text: str, of_text: bool) -> tuple[Size, ...]:
    """The sizes in the order of the calls; `of_text` for those of prompts. Raises BadInput."""
    calls: list[Size] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if size := line.partition("#")[0].strip():
            try:
                calls.append(_size(size, of_text))
            except ValueError as problem:
                raise BadInput(f"Line {number} of the sizes: {problem}. Given: {line.strip()[:80]!r}.") from problem
            if len(calls) > MAX_CALLS:
                raise BadInput(f"The sizes are of more than {MAX_CALLS} calls at line {number}: shorten the log.")
    if not calls:
        raise BadInput("The file holds no sizes. A line is such as: 4 128" + ("." if of_text else ", or 4 480 640."))
    return tuple(calls)


def _size(text: str, of_text: bool) -> Size:
    """Raises ValueError for what is no size."""
    parts = text.split()
    if not all(part.isdecimal() for part in parts) or len(parts) not in ((2,) if of_text else (1, 3)):
        further = "and the prompt's tokens" if of_text else "alone, or with height and width"
        raise ValueError(f"a size is the batch size {further}, all whole numbers")
    batch, *others = map(int, parts)
    largest = MAX_TOKENS if of_text else MAX_PIXELS
    if not 1 <= batch <= MAX_BATCH_SIZE or not all(1 <= other <= largest for other in others):
        raise ValueError(f"a batch size is 1 to {MAX_BATCH_SIZE}, and the largest other number {largest}")
    return Size(batch, prompt_tokens=others[0]) if of_text else Size(batch, *others)
