"""The bundled checkpoints see what is drawn and write their grammar."""

import torch

from tools import captions, evaluate_shapes, evaluate_text, training_set
from tools.evaluate_shapes import CHECKPOINTS, TEST_SEED
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


def test_a_training_runs_and_a_longer_one_gives_other_weights() -> None:
    few_scenes = TrainingSet(**training_set._draw_chunk(0, 32))
    threads = torch.get_num_threads()
    try:
        short, longer = (
            train(RECIPES["vit"], few_scenes, steps=steps, say=lambda _: None).state_dict() for steps in (1, 2)
        )
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(False)
    assert short.keys() == longer.keys()
    assert not torch.equal(short["classifier.weight"], longer["classifier.weight"])
