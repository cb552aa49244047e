"""Tests a whole run of the bundled classifier. Other tests use its batch size, too, and find its code in the cache."""

import pytest
from support.whole_run import SCENE, assert_all_figures, both_variants, run_on_scene

from demo.core.result import RunResult


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> RunResult:
    return run_on_scene(tmp_path_factory.mktemp("run"), "shapes-vit", batch_size=1)


def test_a_run_of_the_classifier_has_all_figures(result: RunResult):
    assert_all_figures(result)


@both_variants
def test_the_classifier_names_the_scene(result: RunResult, variant: str):
    assert result.predictions[variant].labels[0].label == SCENE.label
