"""Tests of comparing the labels that eager and compiled, or two runs, predict for a picture."""

import pytest

from demo.core.outputs import Label, Predictions
from demo.tasks.image_classification import agreement, difference


def predictions_of(*names: str, score: float = 0.9) -> Predictions:
    return Predictions(labels=tuple(Label(name, score) for name in names))


@pytest.mark.parametrize(
    ("reference", "other", "words"),
    [
        (predictions_of("cat"), predictions_of("cat", score=0.88), ""),
        (predictions_of("cat"), predictions_of("dog"), "sees dog where plain eager sees cat"),
        (predictions_of("cat"), predictions_of("cat", score=0.7), "gives cat 70 % where plain eager gives 90 %"),
        (predictions_of("cat"), predictions_of(), "gives no finite score where plain eager sees cat"),
        (predictions_of(), predictions_of("cat"), ""),
    ],
    ids=["a little less sure", "another label", "less sure", "NaN", "NaN in the reference"],
)
def test_a_user_sees_another_first_label_or_score(reference: Predictions, other: Predictions, words: str) -> None:
    assert difference(reference, other) == words


def test_agreement_is_the_share_of_common_labels() -> None:
    assert agreement(predictions_of(*"abcde"), predictions_of(*"edcbx")) == {"top5_agreement": 0.8}
