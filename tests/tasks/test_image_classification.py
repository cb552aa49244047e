"""What a user would see change in the labels of a picture."""

import pytest

from demo.core.outputs import Label, Predictions
from demo.tasks.image_classification import agreement, difference


def seen(*names: str, score: float = 0.9) -> Predictions:
    return Predictions(labels=tuple(Label(name, score) for name in names))


@pytest.mark.parametrize(
    ("reference", "other", "words"),
    [
        (seen("cat"), seen("cat", score=0.88), ""),
        (seen("cat"), seen("dog"), "sees dog where plain eager sees cat"),
        (seen("cat"), seen("cat", score=0.7), "gives cat 70 % where plain eager gives 90 %"),
        (seen("cat"), seen(), "gives no finite score where plain eager sees cat"),
        (seen(), seen("cat"), ""),
    ],
    ids=["a little less sure", "another label", "less sure", "NaN", "NaN in the reference"],
)
def test_a_user_sees_another_first_label_or_score(reference: Predictions, other: Predictions, words: str) -> None:
    assert difference(reference, other) == words


def test_agreement_is_the_share_of_common_labels() -> None:
    assert agreement(seen(*"abcde"), seen(*"edcbx")) == {"top5_agreement": 0.8}
