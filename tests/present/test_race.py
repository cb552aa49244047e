"""Tests of the race (calls answered over time): where lines begin and cross, and the race of an ongoing run."""

import dataclasses
import re
import xml.etree.ElementTree as xml

import pytest
from support.page_support import HOSTILE
from support.samples import full_result, measurement, text_result

from demo.core.measurement import InstructionProbe
from demo.core.options import RunSpec
from demo.core.progress import Progress
from demo.core.result import RunResult
from demo.present import race, whole_work
from demo.present.report import Report

SPEC = RunSpec("shapes-vit", "image-classification")
COMPILING = Progress("compile", 0.2, 9.0, eager_seconds=0.002, racing_seconds=4.0)
TIMING = dataclasses.replace(COMPILING, racing_seconds=9.0, first_seconds=6.0, compiled_seconds=0.001)


def file(result: RunResult) -> str:
    report = Report(result)
    return race.file(report.race, report.source, whole_work.at_rest(report))


def points_of(picture: str) -> list[list[tuple[float, ...]]]:
    lines = re.findall(r'points="([^"]*)"', picture)
    return [[tuple(map(float, point.split(","))) for point in line.split()] for line in lines]


@pytest.mark.parametrize("size", race.SIZES)
def test_compiled_crosses_eager_once_its_first_call_has_paid(size: str) -> None:
    result = full_result()
    picture = race.picture(Report(result).race, size)
    eager, *compiled = points_of(picture)
    marks = re.findall(r'<circle class="dot" cx="([\d.]+)" cy="([\d.]+)"', picture)
    (left, ground), _, (right, _) = eager
    seconds = max(1.5 * result.break_even("cold").seconds, 4 * 31.2)
    for (start, cost), line, mark in zip({"cold": 31.2, "warm": 3.4}.items(), compiled, marks, strict=True):
        even, (x, y) = result.break_even(start), map(float, mark)
        assert line[0] == (left, ground) and line[1][1] == ground
        assert (line[1][0] - left) / (right - left) == pytest.approx(cost / seconds, abs=0.003)
        assert (x - left) / (right - left) == pytest.approx(even.seconds / seconds, abs=0.003)
        for (x0, y0), (x1, y1) in ((eager[0], eager[2]), line[1:]):
            assert y0 + (y1 - y0) * (x - x0) / (x1 - x0) == pytest.approx(y, abs=0.5)
    assert picture.count("pays after") == 4 and "Compiled with a kept cache<" in picture


def test_a_file_says_when_it_was_measured() -> None:
    picture = file(full_result())
    assert xml.fromstring(picture).tag == "{http://www.w3.org/2000/svg}svg" and full_result().started_at[:10] in picture
    assert "prefers-reduced-motion" in picture and "played in 9 s" in picture


def test_a_file_says_which_way_is_best_for_how_many_calls() -> None:
    drawn = xml.fromstring(file(full_result()))
    labels = [part.get("aria-label") for part in drawn.iter("{http://www.w3.org/2000/svg}svg")]
    strips = [re.sub(r"\s", " ", label) for label in labels if label and "compiled" in label]
    assert [label.partition(":")[0] for label in strips] == ["From nothing", "With a kept cache"]
    assert all(
        re.fullmatch(r".*: eager up to [\d ]+, then cannot be told up to [\d ]+, then compiled", strip)
        for strip in strips
    )


def test_lines_that_never_pay_do_not_cross() -> None:
    slow = full_result(compiled=measurement(0.03))
    probed = dataclasses.replace(slow.compilation, probe=InstructionProbe(17.0, 0.8))
    picture = race.picture(Report(dataclasses.replace(slow, compilation=probed)).race)
    assert picture.count("never pays here<") == 2 and "<circle" not in picture


def test_a_text_model_counts_tokens() -> None:
    assert re.search(r"pays after (about )?[\d\s to]+ tokens", race.picture(Report(text_result()).race))


@pytest.mark.parametrize("size", race.SIZES)
def test_no_text_below_the_plot_leaves_the_picture(size: str) -> None:
    words = "pays after 3 900 to 6 000 calls, without 1.6 s of the machine's probe, which a cache needs once"
    lines = [dataclasses.replace(line, words=words) for line in Report(full_result()).race]
    svg = xml.fromstring(race.picture(lines, size))
    texts = [text for text in svg.iter("{http://www.w3.org/2000/svg}text") if len(text) > 0]
    assert len(texts) == len(lines)
    for text in texts:
        assert " ".join(" ".join(part.split()) for part in text.itertext() if part.strip()).endswith(words)
        widest = max(len(part) for part in text.itertext()) * race.SIZES[size].letter
        assert float(text.get("x")) + widest <= race.SIZES[size].width


def test_eager_answers_while_compiled_compiles() -> None:
    picture = race.of_progress(COMPILING, SPEC)
    eager, compiled = points_of(picture)
    assert "Eager, 2.00 ms: 2\N{NARROW NO-BREAK SPACE}000 calls" in picture
    assert "Compiled: compiling for 4.0 s" in picture
    assert eager[2][1] < compiled[2][1] == compiled[0][1] and eager[2][0] == compiled[2][0]


def test_compiled_climbs_by_its_latency() -> None:
    lines = points_of(race.of_progress(TIMING, SPEC))
    eager, compiled = ((y0 - y1) / (x1 - x0) for _, (x0, y0), (x1, y1) in lines)
    assert compiled == pytest.approx(2 * eager, rel=0.02)


def test_a_counter_never_goes_back() -> None:
    """If later calls are slower than the first ones, the line bends. Calls that were counted stay counted."""
    slower = dataclasses.replace(COMPILING, racing_seconds=6.0, eager_seconds=0.02)
    slower = dataclasses.replace(slower, eager_line=((0.0, 0.0, 0.002), (4.0, 2000.0, 0.02)))
    picture = race.of_progress(slower, SPEC)
    assert "Eager, 20.0 ms: 2\N{NARROW NO-BREAK SPACE}100 calls" in picture
    eager, _ = points_of(picture)
    steep, flat = ((y0 - y1) / (x1 - x0) for (x0, y0), (x1, y1) in (eager[1:3], eager[2:]))
    assert steep == pytest.approx(10 * flat, rel=0.1)


def test_a_race_begins_before_anything_is_timed() -> None:
    assert "Eager: is warming up" in race.of_progress(Progress("load", 0.0, 0.1), SPEC)


def test_names_from_outside_are_text() -> None:
    spec = dataclasses.replace(full_result().spec, checkpoint=f"\x1b\u202e{HOSTILE}")
    picture = file(dataclasses.replace(full_result(), spec=spec))
    assert "<img" not in picture and "\u202e" not in picture
    xml.fromstring(picture)
