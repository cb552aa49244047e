"""The bundled checkpoints see what is drawn; the drawing and the training can be repeated."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tools import evaluate_shapes, examples, training_set
from tools.evaluate_shapes import CHECKPOINTS, TEST_SEED
from tools.scenes import SHAPES, Scene, draw_scene
from tools.train_shapes import RECIPES, train
from tools.training_set import FIRST_TRAINING_SEED, TrainingSet

NAMES = ["shapes-vit", "shapes-segformer", "shapes-rtdetr"]


@pytest.fixture(scope="module")
def fresh() -> list[Scene]:
    """200 scenes that no checkpoint was trained on and no model card was measured on."""
    return evaluate_shapes.fresh_scenes(TEST_SEED, 200)


@pytest.fixture(scope="module")
def few_scenes() -> TrainingSet:
    return TrainingSet(**training_set._draw_chunk(0, 32))


def test_seeds_of_tests_and_cards_are_no_training_seeds() -> None:
    assert TEST_SEED + 200 < FIRST_TRAINING_SEED
    assert evaluate_shapes.CARD_SEED + 200 <= TEST_SEED


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


def test_example_scene_is_right_in_all_three_tasks() -> None:
    for number in range(1, len(examples.SEEDS) + 1):
        picture = Image.open(examples.example_paths()[number - 1])
        assert examples.mistakes(examples.draw_examples()[number - 1], picture) == []


def test_checkpoint_is_small_and_names_its_classes() -> None:
    for name in NAMES:
        folder = CHECKPOINTS / name
        assert sum(path.stat().st_size for path in folder.iterdir()) <= 4_000_000
        config = json.loads((folder / "config.json").read_text())
        labels = ["background", *SHAPES] if name == "shapes-segformer" else list(SHAPES)
        assert config["id2label"] == {str(index): label for index, label in enumerate(labels)}


def test_model_card_states_figures_and_licence() -> None:
    for name in NAMES:
        card = (CHECKPOINTS / name / "README.md").read_text()
        training = json.loads((CHECKPOINTS / name / "training.json").read_text())
        assert "license: apache-2.0" in card
        assert training["command"] in card
        assert all(kind in card for kind in evaluate_shapes.KINDS)


def test_a_seed_draws_the_same_scene_twice() -> None:
    one, other = draw_scene(7), draw_scene(7)
    assert np.array_equal(np.asarray(one.image), np.asarray(other.image))
    assert np.array_equal(one.mask, other.mask)
    assert one.objects == other.objects


def test_a_seed_draws_the_same_scene_at_every_size() -> None:
    small, large = draw_scene(7, (320, 240)), draw_scene(7, (640, 480))
    assert small.label == large.label
    for one, other in zip(small.objects, large.objects, strict=True):
        assert one.label == other.label
        assert np.allclose(np.array(one.box) * 2, other.box)


def test_boxes_and_mask_agree_with_each_other() -> None:
    for seed in range(30):
        scene = draw_scene(seed, others=0)
        (shape,) = scene.objects
        rows, columns = np.nonzero(scene.mask == 1 + SHAPES.index(shape.label))
        seen = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
        assert np.allclose(seen, shape.box, atol=2.0), seed


def test_dominant_shape_has_more_than_twice_the_area_of_any_other() -> None:
    for seed in range(30):
        scene = draw_scene(seed, (256, 256), others=1)
        if len({shape.label for shape in scene.objects}) == 2:
            first, second = (int((scene.mask == 1 + SHAPES.index(shape.label)).sum()) for shape in scene.objects)
            assert first > 1.6 * second, seed  # a fifth of it may be hidden by the other


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


def test_folders_hold_nothing_else() -> None:
    for name in NAMES:
        held = {path.name for path in Path(CHECKPOINTS / name).iterdir()}
        assert held == {"README.md", "config.json", "model.safetensors", "preprocessor_config.json", "training.json"}
