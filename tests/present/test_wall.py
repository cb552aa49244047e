"""Tests of the wall of races (charts of calls over time): which runs it has, in which order, where lines cross."""

import dataclasses
import itertools
import re
import xml.etree.ElementTree as xml

import pytest
from support.measured_tables import LINE
from support.page_support import HOSTILE
from support.samples import full_result, measurement, ok_result

from demo.core.measurement import Compilation
from demo.core.options import RunSpec
from demo.present import wall
from demo.present.report import Report
from demo.store import published
from demo.store.published import read_row
from tools.measured_table import add_measured

SOON = ok_result(id="soon", compilation=Compilation(0.5, "warm", 1))
LATE = ok_result(id="late", spec=RunSpec("shapes-detr", "object-detection", device="cpu"))
NEVER = ok_result(
    id="never", spec=RunSpec("shapes-gemma", "image-classification", device="cpu"), compiled=measurement(0.004)
)
UNKNOWN = ok_result(id="unknown", compilation=None)


def drawn(*results: object, stored: tuple[str, ...] = ()) -> xml.Element:
    sources = {result.id: "Elsewhere" for result in results if result.id not in stored}
    return parsed(wall.wall(wall.of_runs(map(Report, results), sources)))


def parsed(html: str) -> xml.Element:
    return xml.fromstring(html[html.index("<ol") :])


def test_the_run_that_pays_soonest_comes_first() -> None:
    names = [name.text.partition(":")[0] for name in drawn(NEVER, LATE, UNKNOWN, SOON).iter("b")]
    assert names == ["shapes-vit", "shapes-detr", "shapes-gemma"]


def test_of_equal_runs_the_newest_is_shown() -> None:
    older = ok_result(id="older", compiled=measurement(0.0019))
    links = [link.get("href") for link in drawn(SOON, older, stored=("soon", "older")).iter("a")]
    assert links == ["?run=soon"]


def test_a_run_that_the_page_does_not_have_names_its_source() -> None:
    wall_of_one = drawn(full_result())
    assert list(wall_of_one.iter("a")) == [] and "Elsewhere" in "".join(wall_of_one.itertext())


def row(**changes: str) -> published.PublishedRow:
    return read_row(LINE | {"first_call_ms": "12000", "kept_first_call_ms": "1500"} | changes)


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({}, ["Eager", "Compiled from nothing", "Compiled with a kept cache"]),
        ({"kept_first_call_ms": ""}, ["Eager", "Compiled from nothing"]),
        ({"first_call_ms": ""}, ["Eager", "Compiled with a kept cache"]),
        ({"settings": '{"compiler": "aot"}'}, ["Eager", "Compiled from nothing", "Compiled with the package kept"]),
        ({"first_call_ms": "", "kept_first_call_ms": ""}, []),
        ({"speedup": "1.02", "speedup_low": "0.9", "speedup_high": "1.15"}, []),
        ({"compiled_ms": "OOM", "speedup": "", "speedup_low": "", "speedup_high": ""}, []),
    ],
    ids=["both", "nothing", "kept", "package", "no first call", "unclear", "out of memory"],
)
def test_a_row_of_a_table_has_the_lines_that_were_measured(changes: dict[str, str], lines: list[str]) -> None:
    races = wall.of_rows([row(**changes)])
    assert [line.name for race in races for line in race.lines] == lines


def test_a_row_of_a_table_has_the_race_of_its_run(tmp_path) -> None:
    """The interval is the same, too: row and run know one first call, and how far first calls of equal runs differ."""
    result = dataclasses.replace(SOON, compilation=Compilation(4.0, "cold", 1))
    add_measured([result], tmp_path / "a.csv", commit="")
    (race,) = wall.of_rows(published.read_measured(tmp_path / "a.csv"))
    for line, theirs in zip(race.lines, Report(result).race, strict=True):
        assert (line.kind, line.name) == (theirs.kind, theirs.name)
        assert (line.first, line.each) == pytest.approx((theirs.first, theirs.each), rel=1e-3)
        assert (line.crossing is None) == (theirs.crossing is None)
        if line.crossing and theirs.crossing:
            assert line.crossing == pytest.approx(theirs.crossing, rel=0.02)


def test_a_slower_row_never_pays() -> None:
    slower = row(speedup="0.5", speedup_low="0.48", speedup_high="0.52", compiled_ms="8.0")
    assert "Never pays here" in wall.wall(wall.of_rows([slower]))


def test_the_tables_that_ship_have_races() -> None:
    races = wall.of_rows(published.measured_rows())
    assert {race.name for race in races} >= {"shapes-vit", "shapes-segformer", "shapes-rtdetr", "detr-resnet-50"}
    assert all(race.source and not race.query for race in races)


def test_texts_below_the_axis_do_not_touch() -> None:
    wide = [SOON, dataclasses.replace(LATE, compilation=Compilation(9000.0, "cold", 1))]
    for item in drawn(*wide).iter("svg"):
        places = [float(text.get("x")) for text in item.iter("text")]
        assert all(later - earlier >= wall.TICK_APART for earlier, later in itertools.pairwise(places))


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


def test_no_text_below_the_axis_leaves_the_chart() -> None:
    """Only the right edge is checked: to the left of each chart there is a gap, into which a text may reach.

    The texts are centred at their x, and a letter is about 6 units wide.
    """
    ten_minutes = dataclasses.replace(LATE, compilation=Compilation(60.1, "cold", 1))  # ends just after this text
    for item in drawn(SOON, ten_minutes).iter("svg"):
        width = float(item.get("viewBox").split()[2])
        assert all(float(text.get("x")) + 3 * len(text.text) <= width for text in item.iter("text"))


def test_the_wall_has_no_animation_or_script() -> None:
    html = wall.wall(wall.of_runs([Report(SOON)], {}))
    assert not re.search("animation|transition|<animate|<script", html)


def test_names_from_outside_are_text() -> None:
    hostile = ok_result(spec=RunSpec(HOSTILE, "image-classification", device="cpu"))
    assert "<img" not in wall.wall(wall.of_runs([Report(hostile)], {hostile.id: HOSTILE}))


def test_without_a_race_there_is_no_wall() -> None:
    assert wall.wall(wall.of_runs([Report(UNKNOWN)], {})) == ""
