"""The headline, the card of a failure, the race and the notes of the form as HTML."""

import dataclasses
import re
from typing import Any

import pytest
from support.page_support import HOSTILE, Tags
from support.samples import failed_result, full_result, measurement, ok_result

from demo.core import catalog
from demo.core.caveat import note
from demo.core.machine import GpuSample, HostSample
from demo.core.measurement import GraphBreak
from demo.core.outputs import ImageInfo, Label, Predictions
from demo.core.progress import Progress
from demo.core.record import Failure
from demo.core.spec import RunSpec
from demo.core.stats import Interval
from demo.present import naming
from demo.ui.html import results
from demo.ui.html.elements import ruler

VIT = "google/vit-base-patch16-224"


def test_a_model_of_drawn_shapes_says_so_in_the_list_and_at_its_answer_to_any_other_picture() -> None:
    for name, beyond in (("shapes-vit", True), ("shapes-rtdetr", True), ("shapes-segformer", True), (VIT, False)):
        note = results.checkpoint_note(catalog.find(name), name)
        assert ("drawn shapes only" in note) is ("circle, cross, heart, ring, square, star, triangle" in note) is beyond


def test_a_checkpoint_that_the_guide_lacks_shows_a_relative_and_says_so() -> None:
    for checkpoint, task in (("shapes-rtdetr", "object-detection"), ("somebody/model", "image-segmentation")):
        relative, sentence = results.published_for(checkpoint, task)
        assert "has no figures for" in sentence
        assert naming.short(relative) in sentence


def test_a_loss_is_told_as_large_as_a_win() -> None:
    for ratio in [0.5, 5.0]:
        html = results.headline(ok_result(compiled=measurement(0.002 * ratio)))
        assert re.search(r'<span class="figure number">\d\.\d\d×</span>', html)
        told = html.replace("&nbsp;", " ")
        assert ("slower ▼" if ratio > 1 else "faster ▲") in re.sub(r"<[^>]+>", "", told)


def test_texts_from_models_files_and_errors_cannot_become_html() -> None:
    hostile, bad = Predictions(labels=(Label(HOSTILE, 0.9),)), (GraphBreak(HOSTILE, HOSTILE, (HOSTILE,), HOSTILE),)
    good = full_result()
    result = dataclasses.replace(
        good,
        id=HOSTILE,
        predictions={"eager": hostile, "compiled": hostile},
        image=ImageInfo(HOSTILE, 1, 1, "00", f'"{HOSTILE}'),
        caveats=(note(HOSTILE),),
        compilation=dataclasses.replace(
            good.compilation, graph_breaks=bad, recompiles=bad, fallbacks=bad, cudagraphs=f"skipped: {HOSTILE}"
        ),
        environment=dataclasses.replace(
            good.environment, device_name=HOSTILE, platform=HOSTILE, cpu=HOSTILE, driver=HOSTILE, compiler=HOSTILE
        ),
        machine_states=(HostSample(0.0, 0.0, GpuSample(None, None, None, None, (HOSTILE,))),),
        spec=RunSpec(f"{HOSTILE}/model", "image-classification"),
    )
    failed = failed_result(failure=Failure("load", HOSTILE, HOSTILE), caveats=(note(HOSTILE),))
    spec = result.spec
    pieces = [
        results.headline(result),
        results.failure(failed),
        results.problem("This cannot be run", HOSTILE),
        results.intro(HOSTILE),
        results.published_note(HOSTILE, "object-detection"),
        results.checkpoint_note(None, HOSTILE),
        results.mode_note(HOSTILE),
        results.strip(Progress(HOSTILE, 0.5, 1.0, code=HOSTILE), spec),
    ]
    for piece in pieces:
        assert not Tags(piece).runs_script and HOSTILE not in piece


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
    drawn = re.findall(r'class="bar \w+" style="width:([\d.]+)%', results.strip(progress, spec))
    assert [float(length) for length in drawn] == pytest.approx(lengths)


def test_phases_times_and_the_calls_latency_and_rate_of_each_lane_are_told() -> None:
    html = results.strip(timed(), BROKEN)
    assert re.findall(r'class="lane-name (\w+)"', html) == ["eager", "compiled"]
    assert re.findall(r'<li class="(\w+)"', html) == ["done", "done", "done", "now", "next"]
    assert html.count("<b>40</b> calls") == 2 and "5.0 s elapsed · about 2 s left" in html
    told = ("12.0 ms", "6.00 ms", "<b>333</b> images/s", "<b>667</b> images/s", "Compiled, with breaks")
    assert all(figure in html for figure in told)
    early = results.strip(Progress("load", 0.0, 0.1), SPEC)  # what was not measured yet is no zero
    assert early.count("<b>–</b> calls") == 2 and early.count("<b>–</b> images/s") == 2


def test_a_code_of_a_worker_has_words_and_an_unknown_one_is_quoted() -> None:
    assert "newer" in results.doing(Progress("check", 0.9, 1.0, code="newer"))
    assert (
        results.doing(Progress("check", 0.9, 1.0, code="explain"))
        == "Looking for the reason: kernels, operations, bytes"
    )


def test_the_live_strip_keeps_its_elements_so_that_bars_move_instead_of_jumping() -> None:
    late = Progress("check", 0.9, 7.0, None, "", 60, 0.002, 0.001, Interval(0.5, 0.49, 0.51))
    second = timed(repeat=2, repeats=3)
    told = "Run 2 of 3"
    assert [told in results.strip(one, SPEC) for one in (timed(), second)] == [False, True]
    tags = [Tags(results.strip(one, SPEC)).names for one in (timed(), second, late)]
    assert len({tuple(name for name in names if name != "bdi") for names in tags}) == 1


def spans(drawn: str, *kinds: str) -> list[list[float]]:
    """Where the first element of each class begins, and how wide it is, in per cent."""
    found = [re.findall(rf'class="{kind}" style="left:([\d.]+)%;width:([\d.]+)%', drawn)[0] for kind in kinds]
    return [list(map(float, span)) for span in found]


def test_the_ruler_holds_the_interval_of_a_loss_as_it_does_that_of_a_win() -> None:
    for low, high in [(0.21, 0.26), (3.8, 4.7)]:
        drawn = ruler(Interval((low * high) ** 0.5, low, high), True, 0.01)
        assert ">5×<" in drawn
        ((start, width),) = spans(drawn, "range")
        assert 0 < start and start + width < 100 and width > 5


def test_the_ruler_shows_one_process_inside_the_interval_or_each_of_several_as_a_dot() -> None:
    rerun, within = Interval(1.25, 1.15, 1.36), Interval(1.25, 1.23, 1.27)
    drawn = ruler(rerun, True, 0.01, within)
    (left, width), (inner, narrow) = spans(drawn, "range outer", "within")
    assert left < inner and inner + narrow < left + width and narrow < width / 3
    several = ruler(rerun, True, 0.01, None, [1.2, 1.3, 2.4])
    assert several.count('class="process"') == 3 and "processes: 1.20×, 1.30×, 2.40×" in several
    assert ">3×<" in several  # the axis holds a process outside of the interval
    assert 'class="range"' in ruler(rerun, True, 0.01)
