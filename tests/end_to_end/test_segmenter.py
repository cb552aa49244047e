"""Tests a whole run of the bundled segmenter."""

import pytest
from support.whole_run import SCENE, assert_all_figures, both_variants, run_on_scene

from demo.core import base64_images
from demo.core.result import RunResult


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> RunResult:
    return run_on_scene(tmp_path_factory.mktemp("run"), "shapes-segformer", batch_size=1)


def test_a_run_of_the_segmenter_has_all_figures(result: RunResult):
    assert_all_figures(result)


@both_variants
def test_the_segmenter_separates_the_shapes_from_the_background(result: RunResult, variant: str):
    masks = {segment.label: segment.mask_png for segment in result.predictions[variant].segments}
    assert set(masks) - {"background"} == {shape.label for shape in SCENE.objects}
    background = base64_images.decode_mask(masks["background"]).mean()
    assert background == pytest.approx(float((SCENE.mask == 0).mean()), abs=0.03)
