"""The bundled text model keeps to its grammar and answers what it is asked; its training can be repeated."""

from __future__ import annotations

import pytest

from tools import captions, evaluate_text
from tools.evaluate_shapes import CARD_SEED, CHECKPOINTS, COUNT, TEST_SEED
from tools.evaluate_text import NAME, Writer, fresh_descriptions
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


@pytest.mark.parametrize("text", ["The picture shows a star", "Ein Bär, 日本語, العربية, 🎨\n\ttabs", ""])
def test_the_tokenizer_brings_any_text_back(writer: Writer, text: str) -> None:
    ids = writer.tokenizer(text).input_ids
    assert ids[0] == writer.tokenizer.bos_token_id
    assert writer.tokenizer.decode(ids, skip_special_tokens=True) == text
