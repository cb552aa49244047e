"""Tests that the bundled checkpoints recognise drawn scenes and answer questions on described ones."""

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tools import captions, evaluate_shapes
from tools.evaluate_shapes import CHECKPOINTS, TEST_SEED
from tools.train_text import NAME


def test_the_checkpoints_of_pictures_see_what_is_drawn() -> None:
    """The scenes are new: no checkpoint was trained on them, and no model card was measured on them."""
    fresh = evaluate_shapes.fresh_scenes(TEST_SEED, 40)
    assert evaluate_shapes.top1_accuracy(CHECKPOINTS / "shapes-vit", fresh) >= 0.95
    assert evaluate_shapes.mean_iou(CHECKPOINTS / "shapes-segformer", fresh) >= 0.90
    assert evaluate_shapes.detect(CHECKPOINTS / "shapes-rtdetr", fresh).recall >= 0.95


def test_the_text_model_answers_in_the_words_of_its_grammar() -> None:
    tokenizer = AutoTokenizer.from_pretrained(CHECKPOINTS / NAME)
    model = AutoModelForCausalLM.from_pretrained(CHECKPOINTS / NAME).eval()
    fresh = [captions.describe(seed) for seed in range(TEST_SEED, TEST_SEED + 60)]
    questions = [captions.ask(description.things[0], "colour") for description in fresh]
    firsts = [description.sentences[0] for description in fresh]
    texts = [f"{first} {question}" for first, (question, _) in zip(firsts, questions, strict=True)]
    inputs = tokenizer(texts, return_tensors="pt", padding=True)
    with torch.no_grad():
        written = model.generate(**inputs, do_sample=False, max_new_tokens=12)
    answers = tokenizer.batch_decode(written[:, inputs.input_ids.shape[1] :])
    right = [text.startswith(f" {answer}") for text, (_, answer) in zip(answers, questions, strict=True)]
    assert sum(right) >= 0.95 * len(right)
