"""The result pane as HTML."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from pathlib import Path

from page_support import (
    HOSTILE,
    Tags,
    stored,
)
from samples import failed_result, measurement, ok_result

from demo.cli import terminal
from demo.core import catalog
from demo.core.languages import ENGLISH
from demo.core.measurement import GraphBreak
from demo.core.outputs import ImageInfo, Label, Predictions
from demo.core.result import Failure, Progress
from demo.core.spec import RunSpec
from demo.present import sentences
from demo.ui.html import outputs_html, progress, results
from demo.ui.tabs import form

ROOT = Path(__file__).resolve().parents[3]
VIT = "google/vit-base-patch16-224"


def test_a_model_of_drawn_shapes_says_so_in_the_list_and_at_its_answer_to_any_other_picture() -> None:
    for name, beyond in (("shapes-vit", True), ("shapes-rtdetr", True), ("shapes-segformer", True), (VIT, False)):
        note = results.checkpoint_note(catalog.find(name), name, ENGLISH)
        assert ("drawn shapes only" in note) is ("circle, cross, heart, ring, square, star, triangle" in note) is beyond
    spec = ok_result().spec
    for picture in (*form.scenes(), *form.photographs()):
        digest = hashlib.sha256(picture.read_bytes()).hexdigest()
        result = ok_result(image=ImageInfo(picture.name, 320, 240, digest, "/9j/"))
        for told in (outputs_html.shown(result, ENGLISH), " ".join(terminal.report(result).split())):
            assert ("knows drawn shapes only" in told) is (picture in form.photographs())
        theirs = dataclasses.replace(result, spec=dataclasses.replace(spec, checkpoint=VIT))
        assert "drawn shapes" not in outputs_html.shown(theirs, ENGLISH) + terminal.report(theirs)
    assert "knows drawn shapes only" in outputs_html.shown(ok_result(), ENGLISH)  # somebody's own


def test_a_checkpoint_that_the_guide_lacks_shows_a_relative_and_says_so() -> None:
    for checkpoint, task in (("shapes-rtdetr", "object-detection"), ("somebody/model", "image-segmentation")):
        relative, sentence = results.published_for(checkpoint, task, ENGLISH)
        assert "has no figures for" in sentence
        assert sentences.short(relative) in sentence


def test_a_loss_is_told_as_large_as_a_win() -> None:
    for ratio in [0.5, 5.0]:
        html = results.headline(ok_result(compiled=measurement(0.002 * ratio)), ENGLISH)
        assert re.search(r'<span class="figure number">\d\.\d\d×</span>', html)
        assert ("slower ▼" if ratio > 1 else "faster ▲") in re.sub(r"<[^>]+>", "", html)


def test_texts_from_models_files_and_errors_cannot_become_html() -> None:
    hostile = Predictions(labels=(Label(HOSTILE, 0.9),))
    good = ok_result()
    assert good.compilation is not None and good.environment is not None
    result = dataclasses.replace(
        good,
        id=HOSTILE,
        predictions={"eager": hostile, "compiled": hostile},
        image=ImageInfo(HOSTILE, 1, 1, "00", f'"{HOSTILE}'),
        warnings=(HOSTILE,),
        compilation=dataclasses.replace(
            good.compilation, graph_breaks=(GraphBreak(HOSTILE, HOSTILE),), cudagraphs=HOSTILE
        ),
        environment=dataclasses.replace(good.environment, device_name=HOSTILE, platform=HOSTILE),
        spec=RunSpec(f"{HOSTILE}/model", "image-classification"),
    )
    failed = failed_result(failure=Failure("load", HOSTILE, HOSTILE), warnings=(HOSTILE,))
    spec = result.spec
    pieces = [
        results.headline(result, ENGLISH),
        outputs_html.shown(result, ENGLISH),
        results.whole(result, ENGLISH),
        results.failure(failed, ENGLISH),
        results.refusal("cannot_be_run", HOSTILE, ENGLISH),
        results.intro(HOSTILE, ENGLISH),
        results.published_note(HOSTILE, "object-detection", ENGLISH),
        results.checkpoint_note(None, HOSTILE, ENGLISH),
        results.mode_note(HOSTILE, ENGLISH),
        progress.strip(Progress(HOSTILE, 0.5, 1.0, message=HOSTILE), spec, ENGLISH),
    ]
    for piece in pieces:
        tags = Tags(piece)
        assert not tags.runs_script
        assert HOSTILE not in piece


def test_boxes_and_masks_are_drawn_for_both_variants() -> None:
    for name in ["detection", "segmentation"]:
        html = outputs_html.shown(stored(name), ENGLISH)
        beside = html[html.index('class="view beside"') : html.index('class="view over"')]
        assert beside.count('<img src="data:image/webp;base64,') == 2
        assert 'class="lane-name eager"' in html and 'class="lane-name compiled"' in html


def test_boxes_can_be_compared_side_by_side_by_a_slider_and_by_their_difference() -> None:
    result = stored("detection")
    html = outputs_html.shown(result, ENGLISH)
    assert re.findall(r'type="radio" name="[^"]*" value="(\w+)"( checked)?', html) == [
        ("beside", " checked"), ("over", ""), ("difference", "")
    ]  # fmt: skip
    assert 'type="range"' in html and 'aria-label="Share of the picture' in html
    assert "Every box has a match: there is no difference to draw." in html
    assert result.predictions is not None
    other = dataclasses.replace(result, predictions=result.predictions | {"compiled": Predictions(boxes=())})
    assert "Where the two differ" in outputs_html.shown(other, ENGLISH)


def test_random_weights_draw_nothing_and_say_why() -> None:
    spec = RunSpec("facebook/detr-resnet-50", "object-detection", weights="random")
    html = outputs_html.shown(ok_result(spec=spec, predictions=None), ENGLISH)
    assert "predictions are meaningless" in html
    assert "<img" not in html
