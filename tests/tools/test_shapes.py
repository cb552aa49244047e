"""The bundled checkpoints see what is drawn; the drawing and the training can be repeated."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tools import evaluate_shapes, training_set
from tools.evaluate_shapes import CHECKPOINTS, TEST_SEED
from tools.scenes import SHAPES, Scene, draw_scene
from tools.train_shapes import RECIPES, train
from tools.training_set import TrainingSet


@pytest.fixture(scope="module")
def fresh() -> list[Scene]:
    """200 scenes that no checkpoint was trained on and no model card was measured on."""
    return evaluate_shapes.fresh_scenes(TEST_SEED, 200)


@pytest.fixture(scope="module")
def few_scenes() -> TrainingSet:
    return TrainingSet(**training_set._draw_chunk(0, 32))


def test_classifier_names_the_dominant_shape(fresh: list[Scene]) -> None:
    assert evaluate_shapes.classify(CHECKPOINTS / "shapes-vit", fresh).top1_accuracy >= 0.98


def test_segmenter_outlines_the_shapes(fresh: list[Scene]) -> None:
    figures = evaluate_shapes.segment(CHECKPOINTS / "shapes-segformer", fresh)
    assert figures.mean_iou >= 0.90
    assert figures.mean_iou_shapes_only >= 0.90


def test_detector_boxes_the_shapes_and_little_else(fresh: list[Scene]) -> None:
    figures = evaluate_shapes.detect(CHECKPOINTS / "shapes-rtdetr", fresh, threshold=0.55)
    assert figures.recall >= 0.95
    assert figures.false_boxes_per_image <= 0.1


def test_a_seed_draws_the_same_scene_twice() -> None:
    one, other = draw_scene(7), draw_scene(7)
    assert np.array_equal(np.asarray(one.image), np.asarray(other.image))
    assert np.array_equal(one.mask, other.mask)
    assert one.objects == other.objects


def test_boxes_and_mask_agree_with_each_other() -> None:
    for seed in range(30):
        scene = draw_scene(seed, others=0)
        (shape,) = scene.objects
        rows, columns = np.nonzero(scene.mask == 1 + SHAPES.index(shape.label))
        seen = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
        assert np.allclose(seen, shape.box, atol=2.0), seed


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_training_twice_gives_identical_weights(name: str, few_scenes: TrainingSet) -> None:
    threads = torch.get_num_threads()
    try:
        one, other = (train(RECIPES[name], few_scenes, steps=2, say=lambda line: None).state_dict() for _ in range(2))
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(False)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)
