"""Standard input, output and error made safe to use: closed ones, other encodings, a reader that left."""

from __future__ import annotations

import os
import sys


def open_closed() -> None:
    """Opens streams that were closed on the null device: `print` would otherwise write errors to standard output."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))


def write_any_character() -> None:
    """UTF-8 whatever the locale: JSON is UTF-8, and a lone surrogate of a file name is written as its escape."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def silence_output() -> None:
    """Sends what is left in the buffers to the null device, so that Python's flush at exit succeeds."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(nowhere, stream.fileno())
