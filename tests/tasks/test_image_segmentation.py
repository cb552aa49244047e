"""Tests of comparing the masks of two predictions."""

import numpy as np
import pytest

from demo.core.base64_images import encode_mask
from demo.core.outputs import Predictions, Segment
from demo.tasks.image_segmentation import agreement, changed_pixels, difference, overlap

COLUMNS = np.arange(10)


def star(*covered: bool, label: str = "star") -> Segment:
    mask = np.tile(covered, (4, 1))
    return Segment(label, None, float(mask.mean()), encode_mask(mask))


def predictions_of(first: int) -> Predictions:
    """Returns one segment, whose mask covers the first `first` of ten columns."""
    return Predictions(segments=(star(*(COLUMNS < first)),))


@pytest.mark.parametrize(("other", "iou", "changed"), [(6, 5 / 6, 0.1), (5, 1.0, 0.0)], ids=["moved", "equal"])
def test_agreement(other: int, iou: float, changed: float) -> None:
    assert agreement(predictions_of(5), predictions_of(other)) == pytest.approx(
        {"mask_iou": iou, "changed_pixels": changed}
    )


def test_the_masks_of_several_segments_of_one_label_are_compared_together() -> None:
    first, second = ([star(*(COLUMNS < edge)), star(*(COLUMNS >= 8))] for edge in (3, 2))
    assert changed_pixels(first, second).sum() == 4
    assert overlap(first, second) == pytest.approx(4 / 5)
    assert overlap(first, [*second, star(*COLUMNS > 5, label="moon")]) == pytest.approx(4 / 10)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (predictions_of(5), ""),
        (predictions_of(6), "has masks that overlap plain eager's by 83 % only"),
        (Predictions(segments=(Segment("star", None, 0.5, "no PNG"),)), "cannot be compared with plain eager"),
    ],
    ids=["equal", "moved", "damaged"],
)
def test_a_user_sees_masks_that_moved(other: Predictions, words: str) -> None:
    sentence = difference(predictions_of(5), other)
    assert sentence.startswith(words) and bool(sentence) == bool(words)
