"""The result pane as HTML; its folds: titles that answer, and everything that was measured behind them."""

import dataclasses
import re
from typing import Any

import pytest
from PIL import Image
from support.page_support import HOSTILE, Tags, stored
from support.samples import failed_result, full_result, info_of, measurement, ok_result

from demo.cli import terminal
from demo.core import base64_images, catalog
from demo.core.caveat import note
from demo.core.machine import GpuSample, HostSample
from demo.core.measurement import Compilation, CompileCost, GraphBreak
from demo.core.outputs import ImageInfo, Label, Predictions, Segment
from demo.core.result import Failure, Progress, RunResult
from demo.core.spec import RunSpec
from demo.core.stats import Interval
from demo.present import advice, sentences
from demo.tasks.masks import difference
from demo.ui.html import results, takeaway
from demo.ui.html.elements import ruler
from demo.ui.html.results import CHARTS, parts
from demo.ui.tabs import form

VIT = "google/vit-base-patch16-224"


@pytest.mark.parametrize("mask", ["", "no base64", "iVBORw0KGgo=", "/9j/"], ids=["none", "text", "cut short", "a JPEG"])
def test_a_stored_mask_that_cannot_be_read_costs_the_drawing_alone(mask: str) -> None:
    image = ImageInfo("scene.png", 320, 240, "00" * 32, base64_images.encode_preview(Image.new("RGB", (320, 240))))
    seen = Predictions(segments=(Segment("circle", None, 0.25, mask),))
    result = ok_result(image=image, predictions={"eager": seen, "compiled": seen})
    assert "The picture of this result cannot be drawn again." in results.outputs(result)
    assert "cannot be read" in difference(seen, seen)


def test_a_model_of_drawn_shapes_says_so_in_the_list_and_at_its_answer_to_any_other_picture() -> None:
    for name, beyond in (("shapes-vit", True), ("shapes-rtdetr", True), ("shapes-segformer", True), (VIT, False)):
        note = results.checkpoint_note(catalog.find(name), name)
        assert ("drawn shapes only" in note) is ("circle, cross, heart, ring, square, star, triangle" in note) is beyond
    spec = ok_result().spec
    for picture in (*form.scenes(), *form.photographs()):
        result = ok_result(image=info_of(picture))
        for told in (results.outputs(result), " ".join(terminal.report(result).split())):
            assert ("knows drawn shapes only" in told) is (picture in form.photographs())
        theirs = dataclasses.replace(result, spec=dataclasses.replace(spec, checkpoint=VIT))
        assert "drawn shapes" not in results.outputs(theirs) + terminal.report(theirs)
    assert "knows drawn shapes only" in results.outputs(ok_result())  # somebody's own


def test_a_checkpoint_that_the_guide_lacks_shows_a_relative_and_says_so() -> None:
    for checkpoint, task in (("shapes-rtdetr", "object-detection"), ("somebody/model", "image-segmentation")):
        relative, sentence = results.published_for(checkpoint, task)
        assert "has no figures for" in sentence
        assert sentences.short(relative) in sentence


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
        results.outputs(result),
        results.whole(result),
        takeaway.section(result),
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


def test_boxes_and_masks_of_both_can_be_compared_side_by_side_by_a_slider_and_by_their_difference() -> None:
    for name in ["segmentation", "detection"]:
        html = results.outputs(result := stored(name))
        beside = html[html.index('class="view beside"') : html.index('class="view over"')]
        assert beside.count('<img src="data:image/webp;base64,') == 2
        assert 'class="lane-name eager"' in html and 'class="lane-name compiled"' in html
        choices = re.findall(r'type="radio" name="[^"]*" value="(\w+)"( checked)?', html)
        assert choices == [("beside", " checked"), ("over", ""), ("difference", "")]
        assert 'type="range"' in html and 'aria-label="Share of the picture' in html
    assert "Every box has a match: there is no difference to draw." in html
    other = dataclasses.replace(result, predictions=result.predictions | {"compiled": Predictions(boxes=())})
    assert "Where the two differ" in results.outputs(other)


def test_random_weights_draw_nothing_and_say_why() -> None:
    spec = RunSpec("facebook/detr-resnet-50", "object-detection", weights="random")
    html = results.outputs(ok_result(spec=spec, predictions=None))
    assert "predictions are meaningless" in html and "<img" not in html


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


def shown(result: RunResult) -> dict[str, str]:
    """The text of every part that has something to tell, by name, without tags."""
    pieces = parts(result)
    return {name: re.sub(r"[ \n]+", " ", re.sub("<[^>]*>", " ", html)).strip() for name, html in pieces.items()}


def compilation(**changes: object) -> RunResult:
    good = full_result()
    return full_result(compilation=dataclasses.replace(good.compilation, **changes))  # type: ignore[arg-type]


def test_a_result_with_few_figures_still_has_its_sections() -> None:
    for name in ("detection", "segmentation"):
        result = stored(name)
        told = shown(result)
        assert {"calls", "compiled", "pays", "machine"} <= set(told)
        assert all("None" not in text and "nan" not in text for text in told.values())
        assert all(CHARTS[name](result) is not None for name in told if name in CHARTS)


def test_a_run_without_figures_has_only_the_machine_to_tell_of() -> None:
    assert list(shown(failed_result())) == ["machine"]
    assert shown(failed_result(environment=None)) == {}


def test_the_title_answers_whether_it_really_compiled() -> None:
    for changes, answer in [
        ({"graphs": 0, "graph_breaks": ()}, "No: torch.compile captured no graph"),
        ({"fallbacks": (GraphBreak("an unsupported call", "a.py:1 in forward"),)}, "Partly: 1 frame of it fell back"),
        ({}, "Partly: 2 graphs with 1 break between"),
        ({"graph_breaks": (), "recompiles_while_timing": 1}, "Yes: 2 graphs, no breaks"),
        ({"graphs": 1, "graph_breaks": ()}, "Yes: the whole model is one graph"),
        ({"graphs": 2, "graph_breaks": ()}, "Yes: 2 graphs, no breaks"),
    ]:
        text = shown(compilation(**changes))["compiled"]
        assert text.startswith(f"Did it really compile? {answer}")
        assert ("the whole model" in text) is answer.startswith("Yes: the whole model")  # and nothing else denies it
    layers = dataclasses.replace(ok_result().spec, scope="layers")  # which may share their one graph
    assert shown(ok_result(spec=layers))["compiled"].startswith("Did it really compile? Yes: 1 graph, no breaks")


def test_each_first_call_is_told_with_when_it_pays() -> None:
    text, result = shown(full_result())["pays"], full_result()
    for seconds, shown_as in ((31.2, "31 s"), (3.4, "3.4 s")):
        calls = sentences.calls_to_pay(result.break_even(seconds))
        assert f"takes {shown_as} and pays for itself after {calls}." in text


def test_a_loss_never_pays_and_noise_is_not_called_a_win() -> None:
    loss = full_result(compiled=measurement(0.024))
    assert "never pays for itself" in advice.when_it_pays(loss)[0]
    times = tuple(0.012 * (0.66 if place % 8 < 4 else 1.4) for place in range(48))
    noisy = full_result(compiled=dataclasses.replace(measurement(0.012), wall_seconds=times))
    assert "pays" not in " ".join(advice.when_it_pays(noisy))


def test_a_run_s_own_first_call_counts_where_nothing_else_was_measured() -> None:
    assert Compilation(5.5, "cold", 1).known_costs == {"cold": 5.5}
    assert Compilation(0.5, "warm", 1, cold=CompileCost(6.0, {})).known_costs == {"cold": 6.0, "warm": 0.5}
    assert Compilation(5.5, "off", 1).known_costs == {"cold": 5.5}
    assert Compilation(4.5, "cold", 1, partly=True).known_costs == {"partly": 4.5}
    assert Compilation(4.5, "cold", 1, partly=True, cold=CompileCost(17.0, {})).known_costs == {"cold": 17.0}


def test_memory_is_shown_where_it_differs_with_what_was_reserved() -> None:
    text = shown(full_result())["memory"]
    assert text.startswith("Memory: 620 MB → 540 MB") and "reserved 744 MB 648 MB" in text
    for peak in (491_000_000, 500_000_000, None):  # at most 2 % more, or not known
        alike = ok_result(eager=measurement(0.002, peak=491_000_000), compiled=measurement(0.001, peak=peak))
        assert "memory" not in shown(alike)
    apart = ok_result(eager=measurement(0.002, peak=491_000_000), compiled=measurement(0.001, peak=510_000_000))
    assert "reserved" not in shown(apart)["memory"]


def test_nothing_is_said_twice() -> None:
    """Each part begins with another heading, and the two latencies of the answer stand in no part but as their own."""
    texts = [text for part in shown(full_result()).values() for text in re.split(r"(?<=[.?]) ", part) if len(text) > 20]
    assert len(texts) == len(set(texts))


def test_the_machine_says_what_disturbed_it() -> None:
    hot = GpuSample(900e6, 1_590e6, 92.0, 70.0, ("thermal",), 1)
    assert "GPU throttled thermal" in shown(full_result(machine_states=(HostSample(0.0, 0.0, hot),)))["machine"]


def test_below_breaks_stands_once_what_torch_says_may_help_and_its_page() -> None:
    hints = ("Remove the call.", "Or move it.")
    breaks = tuple(GraphBreak("print", f"a.py:{line}", hints, "GB0059") for line in (1, 2))
    result = compilation(graph_breaks=(*breaks, GraphBreak("unknown", "a.py:3")))
    page = "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html"
    told = parts(result)["compiled"]
    assert told.count("Remove the call. Or move it.") == 1 and told.count(f'<a href="{page}"') == 1
    assert ">GB0059</a>" in told and told.index("a.py:1") < told.index("Remove") < told.index("a.py:2")
    assert page in terminal.report(result) and "Remove the call. Or move it." in terminal.report(result)
    assert GraphBreak("print", "", number="GB0059/../x").page == ""


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
