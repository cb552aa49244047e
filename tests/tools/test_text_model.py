"""The bundled text model keeps to its grammar and answers what it is asked; its training can be repeated."""

from __future__ import annotations

import json

import pytest
import torch

from tools import captions, evaluate_text
from tools.evaluate_shapes import CARD_SEED, CHECKPOINTS, COUNT, TEST_SEED
from tools.evaluate_text import NAME, Writer, fresh_descriptions
from tools.train_text import TOKENIZER_DESCRIPTIONS, build_tokenizer, train
from tools.training_set import FIRST_TRAINING_SEED

FOLDER = CHECKPOINTS / NAME


@pytest.fixture(scope="module")
def writer() -> Writer:
    return Writer(FOLDER)


@pytest.fixture(scope="module")
def fresh() -> list[captions.Description]:
    """200 descriptions that training never saw and the card was not measured on."""
    assert CARD_SEED + COUNT <= TEST_SEED and TEST_SEED + COUNT < FIRST_TRAINING_SEED
    return fresh_descriptions(TEST_SEED)


def test_it_writes_sentences_of_the_grammar(writer: Writer, fresh: list[captions.Description]) -> None:
    assert evaluate_text.share_in_grammar(writer, fresh, evaluate_text.CONTINUATIONS[0]) >= 0.95


@pytest.mark.parametrize("kind", ["colour", "place"])
def test_it_answers_what_it_is_asked(writer: Writer, fresh: list[captions.Description], kind: str) -> None:
    assert evaluate_text.share_answered(writer, fresh, kind) >= 0.90


def test_the_grammar_is_strict() -> None:
    good = "The picture shows a large red star in the middle. What colour is the star? The star is red."
    assert captions.check(good) == 3
    for other in ("blue", "circle"):
        with pytest.raises(captions.NotGrammar):
            captions.check(good.replace("star is red", f"{'star' if other == 'blue' else other} is {other}"))
    with pytest.raises(captions.NotGrammar):
        captions.check(good.replace("What colour", "How colour"))


@pytest.mark.parametrize("text", ["The picture shows a star", "Ein Bär, 日本語, العربية, 🎨\n\ttabs", ""])
def test_the_tokenizer_brings_any_text_back(writer: Writer, text: str) -> None:
    ids = writer.tokenizer(text).input_ids
    assert ids[0] == writer.tokenizer.bos_token_id
    assert writer.tokenizer.decode(ids, skip_special_tokens=True) == text


def test_the_folder_is_small_and_says_how_it_was_made() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 5_000_000
    assert json.loads((FOLDER / "training.json").read_text())["command"] == "python -m tools.train_text"
    card = (FOLDER / "README.md").read_text()
    assert "license: apache-2.0" in card and evaluate_text.as_table({}).split("\n")[0] in card


def test_training_begins_the_same_way_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.train_text.TOKENIZER_DESCRIPTIONS", min(50, TOKENIZER_DESCRIPTIONS))
    threads = torch.get_num_threads()
    try:
        one, other = (train(build_tokenizer(), 2, say=lambda _: None).state_dict() for _ in range(2))
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_num_threads(threads)
    assert all(torch.equal(one[name], other[name]) for name in one)
