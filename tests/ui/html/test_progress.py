"""The page while a run goes: what the lanes show."""

import dataclasses
import re
from typing import Any

import pytest
from page_support import Tags

from demo.core.languages import ENGLISH, LANGUAGES
from demo.core.result import Progress
from demo.core.spec import RunSpec
from demo.core.stats import Interval
from demo.ui.html import progress

SPEC = RunSpec("shapes-vit", "image-classification", batch_size=4)


def timed(**changes: Any) -> Progress:
    known = {"calls": 40, "eager_seconds": 0.012, "compiled_seconds": 0.006, "speedup": Interval(2.0, 1.9, 2.1)}
    return Progress("time", 0.7, 5.0, 2.0, "", **({"timing_done": 0.5} | known | changes))


def lengths(timing: Progress, spec: RunSpec = SPEC) -> list[float]:
    """The length of each bar in per cent of its lane."""
    return [
        float(found)
        for found in re.findall(r'class="bar \w+" style="width:([\d.]+)%', progress.strip(timing, spec, ENGLISH))
    ]


def test_the_faster_lane_is_as_far_as_the_timing_and_the_other_behind_by_the_speed_up() -> None:
    assert lengths(timed()) == pytest.approx([25, 50])
    assert lengths(timed(eager_seconds=0.003)) == pytest.approx([50, 25])


def test_with_a_graph_break_three_lanes_race_from_the_start() -> None:
    broken = dataclasses.replace(SPEC, graph_break=True)
    racing = timed(compiled_seconds=0.006, with_break_seconds=0.008)
    assert lengths(racing, broken) == pytest.approx([25, 50, 37.5])
    html = progress.strip(racing, broken, ENGLISH)
    assert re.findall(r'class="lane-name (\w+)"', html) == ["eager", "compiled", "with_break"]
    assert "Compiled, with breaks" in html and "8.00 ms" in html
    assert lengths(Progress("load", 0.0, 0.1), broken) == [0, 0, 0]  # no lane comes later, see the module


def test_before_the_timing_nobody_has_left_and_at_its_end_the_faster_one_is_there() -> None:
    assert lengths(Progress("compile", 0.2, 3.0, eager_seconds=0.012)) == [0, 0]
    assert lengths(timed(timing_done=1.0)) == pytest.approx([50, 100])
    assert lengths(Progress("check", 0.9, 6.0, calls=9, eager_seconds=0.012, compiled_seconds=0.006)) == [50, 100]


def test_the_counters_are_calls_milliseconds_and_images_of_the_real_batch() -> None:
    html = progress.strip(timed(), SPEC, ENGLISH)
    assert html.count("<b>40</b> calls") == 2
    assert "12.0 ms" in html and "6.00 ms" in html
    assert "<b>333</b> images/s" in html and "<b>667</b> images/s" in html
    early = progress.strip(Progress("load", 0.0, 0.1), SPEC, ENGLISH)  # what was not measured yet is no zero
    assert early.count("<b>–</b> calls") == 2 and early.count("<b>–</b> images/s") == 2


def test_phases_elapsed_and_remaining_time_are_told() -> None:
    html = progress.strip(timed(), SPEC, ENGLISH)
    assert re.findall(r'<li class="(\w+)"', html) == ["done", "done", "done", "now", "next"]
    assert "5.0 s elapsed · about 2 s left" in html


def test_a_code_of_a_worker_has_words_and_an_unknown_one_is_quoted() -> None:
    newer = Progress("check", 0.9, 1.0, code="newer")
    assert "newer" in progress.doing(newer, ENGLISH)
    for lang in LANGUAGES.values():
        explaining = Progress("check", 0.9, 1.0, code="explain")
        assert progress.doing(explaining, lang) == lang.html("progress_explain")


def test_the_live_strip_keeps_its_elements_so_that_bars_move_instead_of_jumping() -> None:
    spec = RunSpec("shapes-vit", "image-classification")
    early = Progress("time", 0.4, 3.0, 5.0, "", 4, 0.002, 0.001, Interval(2.0, 1.0, 4.0))
    late = Progress("check", 0.9, 7.0, None, "", 60, 0.002, 0.001, Interval(0.5, 0.49, 0.51))
    assert Tags(progress.strip(early, spec, ENGLISH)).names == Tags(progress.strip(late, spec, ENGLISH)).names


def test_a_repeat_says_which_of_how_many_runs_it_is_and_moves_nothing() -> None:
    for lang in LANGUAGES.values():
        one = progress.strip(timed(), SPEC, lang)
        second = progress.strip(timed(repeat=2, repeats=3), SPEC, lang)
        told = lang.html("progress_repeat", repeat=2, repeats=3)
        assert told in second and told not in one
        count = [len([name for name in Tags(page).names if name not in ("bdi",)]) for page in (one, second)]
        assert count[0] == count[1]
