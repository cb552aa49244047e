"""Summarises an error of torch, of a compiler or of a child process in one line."""

import contextlib
import os
import re
import textwrap

from ..core.format import without_folders, without_secrets

# Patterns in a compiler's error (two), and in a child's traceback.
_OUTPUT = re.compile(r"^.*\b(?:Output|stderr):\n", re.MULTILINE)
_COMPILER_ERROR = re.compile(r"(?i)(?:fatal )?error *: .*|fatal *: .*|(?:cannot find|undefined|library not found) .*")
_RAISED = re.compile(r"(?s:Traceback \(most recent.*?^)([\w.]+(?:Error|Exception|Interrupt)\b.*)", re.MULTILINE)


def first_line(error: BaseException) -> str:
    """Returns one line of at most 400 characters that says what failed.

    - If the message contains a compiler's output, the line is the first error in it.
    - If the message contains a child process's traceback, the line is the exception at its end.
    - Any other message, and output without a known form of error, is cut to its first two lines that are not advice on
      debugging.
    - Without a message, the line is the name of the error's type.
    """
    text, advice = str(error), ("Set TORCH", "You can suppress", "import torch", "torch._dynamo")
    if "returned non-zero exit status" in text:  # Triton's C compiler says why on standard error, which is a file
        with contextlib.suppress(OSError):
            end = os.pread(2, 2000, max(0, os.fstat(2).st_size - 2000))
            text += f"\nOutput:\n{end.decode(errors='replace')}"
    _, *output = _OUTPUT.split(text, maxsplit=1)
    errors = _COMPILER_ERROR.findall(output[0])[:1] if output else _RAISED.findall(text)[-1:]
    lines = [line.strip() for line in (errors or output[-1:] or [text])[0].splitlines()]
    useful = [line for line in lines if line and not line.startswith(advice)]
    return (
        textwrap.shorten(without_folders(without_secrets(" ".join(useful[:2]))), 400, placeholder=" …")
        or type(error).__name__
    )
