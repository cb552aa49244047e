"""Tests of the one line that is shown for an error of a compiler, of torch or of a child process."""

import pytest
from torch._inductor.exc import CppCompileError

from demo.backend.error_text import first_line

COMMAND = ["g++", "/tmp/worth-compiling-k2/torchinductor_me/ab/cab.cpp", *["-I/home/me/include"] * 30]
OUTPUT = """In file included from /home/me/a.h:1:
/tmp/worth-compiling-k2/torchinductor_me/ab/cab.cpp:2:10: fatal error: omp.h: No such file or directory
cc1plus: error: another one
"""
IN_A_PROCESS = """An exception occurred in a subprocess:

Name=triton_poi_fused_sin_0
Traceback (most recent call last):
  File "/home/me/torch/compile_tasks.py", line 79, in _worker_compile_triton
    raise ValueError("not this one: error: x")
RuntimeError: Failed to find C compiler. Please specify via CC environment variable.
"""
PTXAS = """PTXAS error: Internal Triton PTX codec error
`ptxas` stderr:
ptxas /tmp/tmp1.ptx, line 5; error   : Feature 'x' requires .target sm_90 or higher
Repro command: ptxas -lineinfo /tmp/tmp1.ptx
"""


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (CppCompileError(COMMAND, OUTPUT), "fatal error: omp.h: No such file or directory"),
        (CppCompileError(COMMAND, "/usr/bin/ld: cannot find -lx: no\nld returned 1\n"), "cannot find -lx: no"),
        (
            RuntimeError(IN_A_PROCESS),
            "RuntimeError: Failed to find C compiler. Please specify via CC environment variable.",
        ),
        (RuntimeError(PTXAS), "error : Feature 'x' requires .target sm_90 or higher"),
        (ValueError("first\n\nsecond\nthird"), "first second"),
        (ValueError(), "ValueError"),
        (ValueError("word " * 200), "word " * 79 + "…"),
    ],
    ids=["compiler", "linker", "subprocess", "ptxas", "plain", "no text", "long"],
)
def test_an_error_is_shown_by_its_cause(error: Exception, says: str) -> None:
    assert first_line(error) == says
