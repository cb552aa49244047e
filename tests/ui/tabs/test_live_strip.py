"""The race of a run that goes on, as HTML."""

import dataclasses
import re
from typing import Any

import pytest
from support.page_support import Tags

from demo.core.progress import Progress
from demo.core.spec import RunSpec
from demo.core.stats import Interval
from demo.ui.tabs.live_strip import doing, strip

SPEC = RunSpec("shapes-vit", "image-classification", batch_size=4)
BROKEN = dataclasses.replace(SPEC, graph_break=True)
SECONDS = {"eager_seconds": 0.012, "compiled_seconds": 0.006}


def timed(**changes: Any) -> Progress:
    known = {"calls": 40, "speedup": Interval(2.0, 1.9, 2.1), "timing_done": 0.5, **SECONDS}
    return Progress("time", 0.7, 5.0, 2.0, "", **(known | changes))


@pytest.mark.parametrize(
    ("progress", "spec", "lengths"),
    [
        (timed(), SPEC, [25, 50]),
        (timed(eager_seconds=0.003), SPEC, [50, 25]),
        (timed(timing_done=1.0), SPEC, [50, 100]),
        (Progress("load", 0.0, 0.1), SPEC, [0, 0]),  # no lane comes later
        (Progress("compile", 0.2, 3.0, eager_seconds=0.012), SPEC, [0, 0]),
        (Progress("check", 0.9, 6.0, calls=9, **SECONDS), SPEC, [50, 100]),
    ],
)
def test_the_fastest_lane_is_as_far_as_the_timing_and_the_others_behind_by_their_ratio(
    progress: Progress, spec: RunSpec, lengths: list[float]
) -> None:
    drawn = re.findall(r'class="bar \w+" style="width:([\d.]+)%', strip(progress, spec))
    assert [float(length) for length in drawn] == pytest.approx(lengths)


def test_phases_times_and_the_calls_latency_and_rate_of_each_lane_are_told() -> None:
    html = strip(timed(), BROKEN)
    assert re.findall(r'class="lane-name (\w+)"', html) == ["eager", "compiled"]
    assert re.findall(r'<li class="(\w+)"', html) == ["done", "done", "done", "now", "next"]
    assert html.count("<b>40</b> calls") == 2 and "5.0 s elapsed · about 2 s left" in html
    words = ("12.0 ms", "6.00 ms", "<b>333</b> images/s", "<b>667</b> images/s", "Compiled, with breaks")
    assert all(figure in html for figure in words)
    early = strip(Progress("load", 0.0, 0.1), SPEC)  # what was not measured yet is no zero
    assert early.count("<b>–</b> calls") == 2 and early.count("<b>–</b> images/s") == 2


def test_a_code_of_a_worker_has_words_and_an_unknown_one_is_quoted() -> None:
    assert "newer" in doing(Progress("check", 0.9, 1.0, code="newer"))
    assert doing(Progress("check", 0.9, 1.0, code="explain")) == "Looking for the reason: kernels, operations, bytes"


def test_the_live_strip_keeps_its_elements_so_that_bars_move_instead_of_jumping() -> None:
    late = Progress("check", 0.9, 7.0, None, "", 60, 0.002, 0.001, Interval(0.5, 0.49, 0.51))
    second = timed(repeat=2, repeats=3)
    told = "Run 2 of 3"
    assert [told in strip(one, SPEC) for one in (timed(), second)] == [False, True]
    tags = [Tags(strip(one, SPEC)).names for one in (timed(), second, late)]
    assert len({tuple(name for name in names if name != "bdi") for names in tags}) == 1
