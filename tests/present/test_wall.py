"""Tests of the wall of races (charts of calls over time): which runs it has, in which order, where lines cross."""

import re
import xml.etree.ElementTree as xml

import pytest
from support.page_support import HOSTILE
from support.samples import full_result, measurement, ok_result

from demo.core.measurement import Compilation
from demo.core.options import RunSpec
from demo.present import wall
from demo.present.report import Report

SOON = ok_result(id="soon", compilation=Compilation(0.5, "warm", 1))
LATE = ok_result(id="late", spec=RunSpec("shapes-detr", "object-detection", device="cpu"))
NEVER = ok_result(
    id="never", spec=RunSpec("shapes-gemma", "image-classification", device="cpu"), compiled=measurement(0.004)
)
UNKNOWN = ok_result(id="unknown", compilation=None)


def drawn(*results: object, stored: tuple[str, ...] = ()) -> xml.Element:
    html = wall.wall(wall.latest(map(Report, results)), stored)
    return xml.fromstring(html[html.index("<ol") :])


def test_the_run_that_pays_soonest_comes_first() -> None:
    names = [name.text.partition(":")[0] for name in drawn(NEVER, LATE, UNKNOWN, SOON).iter("b")]
    assert names == ["shapes-vit", "shapes-detr", "shapes-gemma"]


def test_of_equal_runs_the_newest_is_shown() -> None:
    older = ok_result(id="older", compiled=measurement(0.0019))
    links = [link.get("href") for link in drawn(SOON, older, stored=("soon", "older")).iter("a")]
    assert links == ["?run=soon"]


def test_a_run_that_the_page_does_not_have_is_no_link() -> None:
    assert list(drawn(full_result()).iter("a")) == []


def test_all_races_have_one_time_axis() -> None:
    """Reads each dot's time from its place between the ticks of its chart: it is the time at which compiling pays."""
    wide, seconds = wall.WALL_WIDTH, {}
    for item, result in zip(drawn(SOON, LATE), (SOON, LATE), strict=True):
        place = {text.text: float(text.get("x")) for text in item.iter("text")}
        decade = place["10 s"] - place["1 s"]
        dot = float(next(item.iter("circle")).get("cx"))
        (state,) = result.starts
        seconds[result.id] = 10 ** ((dot - place["1 s"]) / decade)
        assert 0 < dot < wide and seconds[result.id] == pytest.approx(result.break_even(state).seconds, rel=0.05)
    assert seconds["soon"] < seconds["late"]


def test_the_wall_has_no_animation_or_script() -> None:
    html = wall.wall([Report(SOON)], [])
    assert not re.search("animation|transition|<animate|<script", html)


def test_names_from_outside_are_text() -> None:
    hostile = ok_result(spec=RunSpec(HOSTILE, "image-classification", device="cpu"))
    assert "<img" not in wall.wall([Report(hostile)], [])


def test_without_a_race_there_is_no_wall() -> None:
    assert wall.wall(wall.latest([Report(UNKNOWN)]), []) == ""
