"""The bundled checkpoints see what is drawn and write their grammar; a training runs, and gives the same twice."""

from __future__ import annotations

import numpy as np
import torch

from tools import captions, evaluate_shapes, evaluate_text, training_set
from tools.evaluate_shapes import CHECKPOINTS, TEST_SEED
from tools.scenes import SHAPES, draw_scene
from tools.train_shapes import RECIPES, train
from tools.training_set import TrainingSet


def test_the_checkpoints_of_pictures_see_what_is_drawn() -> None:
    """On scenes that no checkpoint was trained on and no model card was measured on."""
    fresh = evaluate_shapes.fresh_scenes(TEST_SEED, 40)
    assert evaluate_shapes.classify(CHECKPOINTS / "shapes-vit", fresh).top1_accuracy >= 0.95
    assert evaluate_shapes.segment(CHECKPOINTS / "shapes-segformer", fresh).mean_iou >= 0.90
    assert evaluate_shapes.detect(CHECKPOINTS / "shapes-rtdetr", fresh, threshold=0.55).recall >= 0.95


def test_the_text_model_writes_its_grammar_and_any_text_comes_back_from_its_tokenizer() -> None:
    writer = evaluate_text.Writer(CHECKPOINTS / evaluate_text.NAME)
    fresh: list[captions.Description] = evaluate_text.fresh_descriptions(TEST_SEED, 100)
    assert evaluate_text.share_in_grammar(writer, fresh, evaluate_text.CONTINUATIONS[0]) >= 0.95
    text = "Ein Bär, 日本語, العربية, 🎨\n\ttabs"
    assert writer.tokenizer.decode(writer.tokenizer(text).input_ids, skip_special_tokens=True) == text


def test_boxes_and_mask_of_a_scene_agree_with_each_other() -> None:
    for seed in range(30):
        scene = draw_scene(seed, others=0)
        (shape,) = scene.objects
        rows, columns = np.nonzero(scene.mask == 1 + SHAPES.index(shape.label))
        seen = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
        assert np.allclose(seen, shape.box, atol=2.0), seed


def test_training_twice_gives_identical_weights() -> None:
    few_scenes = TrainingSet(**training_set._draw_chunk(0, 32))
    threads = torch.get_num_threads()
    try:
        one, other = (train(RECIPES["vit"], few_scenes, steps=2, say=lambda _: None).state_dict() for _ in range(2))
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(False)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)
