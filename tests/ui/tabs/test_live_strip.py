"""The race of a run that goes on, as HTML."""

import dataclasses
import re
from typing import Any

from demo.core.options import RunSpec
from demo.core.progress import Progress
from demo.core.stats import Interval
from demo.ui.tabs.live_strip import compile_parts, doing, strip

SPEC = RunSpec("shapes-vit", "image-classification", batch_size=4)
BROKEN = dataclasses.replace(SPEC, graph_break=True)
SECONDS = {"eager_seconds": 0.012, "compiled_seconds": 0.006}


def timed(**changes: Any) -> Progress:
    known = {"speedup": Interval(2.0, 1.9, 2.1), **SECONDS}
    return Progress(
        **({"phase": "time", "fraction": 0.7, "elapsed_seconds": 5.0, "remaining_seconds": 2.0} | known | changes)
    )


def test_phases_times_and_latencies_are_shown() -> None:
    html = strip(timed(), BROKEN)
    assert re.findall(r'<li class="(\w+)"', html) == ["done", "done", "done", "now", "next"]
    assert "5.0 s elapsed · about 2 s left" in html
    assert all(words in html for words in ("Eager, 12.0 ms", "Compiled, with breaks, 6.00 ms"))
    assert "Eager: is warming up" in strip(Progress("load", 0.0, 0.1), SPEC)


def test_the_parts_of_a_compile_have_their_seconds() -> None:
    steps = (("dynamo", 0.5), ("inductor", 1.5), ("dynamo", 3.5), ("backend compile", 4.0))
    going = Progress("compile", 0.3, 9.0, racing_seconds=6.0, compile_steps=steps, graphs=2, breaks=1)
    assert compile_parts(going) == "Tracing 1.5 s · code 2.0 s · C++ or Triton 2.0 s. Graphs so far: 2, breaks: 1."
    assert compile_parts(dataclasses.replace(going, first_seconds=5.0)).endswith("C++ or Triton 1.0 s.")


def test_a_code_of_a_worker_has_words() -> None:
    words = [doing(Progress("check", 0.9, 1.0, code=code)) for code in ("newer", "explain")]
    assert words == ["Newer", "Looking for the reason: kernels, operations, bytes"]


def test_the_strip_keeps_its_elements_so_that_lines_grow_instead_of_jumping() -> None:
    late, second = timed(phase="check", racing_seconds=7.0, first_seconds=3.0), timed(repeat=2, repeats=3)
    strips = [strip(one, SPEC) for one in (timed(), second, late)]
    assert ["Run 2 of 3" in one for one in strips] == [False, True, False]
    assert len({tuple(re.findall(r"<(\w+)", one)) for one in strips}) == 1
