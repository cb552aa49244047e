"""The race to break-even: where its lines begin and cross, and what it tells while a run goes on."""

import dataclasses
import io
import math
import re
import xml.etree.ElementTree as xml

import pytest
from PIL import Image, ImageColor
from support.samples import full_result, measurement, text_result

from demo.core.progress import Progress
from demo.core.result import RunResult
from demo.core.spec import BadInput, RunSpec
from demo.present import race, race_picture
from demo.present.pictures import COMPILED, EAGER

SPEC = RunSpec("shapes-vit", "image-classification")
SVG = "{http://www.w3.org/2000/svg}"


def noisy() -> RunResult:
    times = tuple(0.012 * (0.66 if place % 8 < 4 else 1.4) for place in range(48))
    return full_result(compiled=dataclasses.replace(measurement(0.012), wall_seconds=times))


def lines_of(picture: str) -> list[list[tuple[float, float]]]:
    points = re.findall(r'points="([^"]*)"', picture)
    return [[tuple(map(float, point.split(","))) for point in one.split()] for one in points]  # type: ignore[misc]


@pytest.mark.parametrize("size", race.WIDTHS)
def test_compiled_stands_still_for_its_first_call_and_crosses_eager_where_that_has_paid(size: str) -> None:
    result = full_result()
    picture = race.of_result(result, size)
    eager, *compiled = lines_of(picture)
    marks = [
        tuple(map(float, mark)) for mark in re.findall(r'<circle class="dot" cx="([\d.]+)" cy="([\d.]+)"', picture)
    ]
    (left, ground), _, (right, _) = eager
    seconds = max(1.5 * result.break_even(31.2).seconds, 4 * 31.2)
    for cost, line, (x, y) in zip((31.2, 3.4), compiled, marks, strict=True):
        even = result.break_even(cost)
        assert line[0] == (left, ground) and line[1][1] == ground
        assert (line[1][0] - left) / (right - left) == pytest.approx(cost / seconds, abs=0.003)
        assert (x - left) / (right - left) == pytest.approx(even.seconds / seconds, abs=0.003)
        for (x0, y0), (x1, y1) in ((eager[0], eager[2]), line[1:]):
            assert y0 + (y1 - y0) * (x - x0) / (x1 - x0) == pytest.approx(y, abs=0.5)
    assert picture.count("pays after") == 4 and "Compiled with a kept cache<" in picture


def test_a_file_says_where_and_when_it_was_measured_and_a_run_without_an_answer_has_none() -> None:
    drawn = race.file(full_result())
    root = xml.fromstring(drawn)
    assert root.tag == f"{SVG}svg" and full_result().started_at[:10] in drawn
    assert "prefers-reduced-motion" in drawn and "played in 9 s" in drawn
    assert race.of_result(noisy()) == ""
    with pytest.raises(BadInput, match="no race"):
        race.file(noisy())
    with pytest.raises(BadInput, match="no race"):
        race_picture.png(noisy())


@pytest.mark.parametrize(("share", "eager_leads"), [(0.5, True), (1.4, False)], ids=["before it pays", "after"])
def test_the_picture_at_rest_shows_who_leads(share: float, eager_leads: bool) -> None:
    result = full_result()
    assert result.compilation is not None
    result = dataclasses.replace(result, compilation=dataclasses.replace(result.compilation, warm=None))
    lines = race.lines_of(result)
    at = share * lines[1].crossing[1] / race.horizon(lines)
    image = Image.open(io.BytesIO(race_picture.png(result)))
    x = race_picture.EDGE + round(at * (race_picture.WIDTH - 2 * race_picture.EDGE))
    column = [image.getpixel((x, y)) for y in range(race_picture.GROUND + 5)]

    def height(colour: str) -> int:
        """Of its highest pixel, in pixels from above."""
        wanted = ImageColor.getrgb(colour)
        return next(y for y, seen in enumerate(column) if math.dist(seen, wanted) < 30)

    assert (height(EAGER) < height(COMPILED)) is eager_leads


def test_where_compiling_never_pays_the_lines_do_not_cross() -> None:
    slower = full_result(compiled=measurement(0.03))
    drawn = race.of_result(slower)
    assert drawn.count("never pays, here<") == 2 and "<circle" not in drawn


def test_a_text_model_counts_tokens() -> None:
    assert re.search(r"pays after (about )?[\d\s to]+ tokens", race.of_result(text_result()))


def test_while_compiled_compiles_eager_would_answer() -> None:
    compiling = Progress("compile", 0.2, 9.0, eager_seconds=0.002, racing_seconds=4.0)
    drawn = race.of_progress(compiling, SPEC)
    eager, compiled = lines_of(drawn)
    assert "Eager, 2.00 ms: 2\N{NARROW NO-BREAK SPACE}000 calls" in drawn
    assert "Compiled: compiling for 4.0 s" in drawn
    assert eager[2][1] < compiled[2][1] == compiled[0][1] and eager[2][0] == compiled[2][0]
    timing = dataclasses.replace(compiling, racing_seconds=9.0, first_seconds=6.0, compiled_seconds=0.001)
    eager, compiled = lines_of(race.of_progress(timing, SPEC))
    rise = [(line[1][1] - line[2][1]) / (line[2][0] - line[1][0]) for line in (eager, compiled) if line[1] != line[2]]
    assert len(rise) == 2 and rise[1] == pytest.approx(2 * rise[0], rel=0.02)
    assert "Eager: is warming up" in race.of_progress(Progress("load", 0.0, 0.1), SPEC)
    assert math.isfinite(sum(map(sum, (point for line in (eager, compiled) for point in line))))


def test_names_from_outside_are_text() -> None:
    spec = dataclasses.replace(full_result().spec, checkpoint="<a href='javascript:1'>x</a>")
    assert "<a " not in race.file(dataclasses.replace(full_result(), spec=spec))
