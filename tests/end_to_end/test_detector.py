"""Tests a whole run of the bundled detector, in mode lite, whose first compile takes 25 s instead of 283 s."""

import pytest
from support.whole_run import SCENE, assert_all_figures, both_variants, run_on_scene

from demo.core.result import RunResult


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> RunResult:
    return run_on_scene(tmp_path_factory.mktemp("run"), "shapes-rtdetr", 2, "--mode", "lite")


def test_a_run_of_the_detector_has_all_figures(result: RunResult):
    assert_all_figures(result)


@both_variants
def test_the_detector_finds_each_shape_in_its_place(result: RunResult, variant: str):
    boxes = result.predictions[variant].boxes
    assert sorted(box.label for box in boxes) == sorted(shape.label for shape in SCENE.objects)
    for box in boxes:
        alike = [shape.box for shape in SCENE.objects if shape.label == box.label]
        assert min(max(abs(a - b) for a, b in zip(corners, box.box, strict=True)) for corners in alike) < 40
