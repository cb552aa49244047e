"""Which boxes and masks of two sets of predictions belong together."""

import numpy as np
import pytest
from PIL import Image

from demo.backend import parity
from demo.core import images, outputs
from demo.core.outputs import Box, ImageInfo, Label, Predictions, Segment
from demo.present import pictures


def boxes(*starts: float, label: str = "cat") -> tuple[Box, ...]:
    """Squares of 100 pixels that begin at these x."""
    return tuple(Box(label, 0.9, (start, 0.0, start + 100, 100.0)) for start in starts)


@pytest.mark.parametrize(
    ("starts", "others", "share", "words"),
    [
        ((4.5, 10), (0, 8.5), 1.0, None),  # in order, the first box would take the second one's only partner
        ((0, 300), (0, 320), 0.5, "has 2 boxes"),
    ],
)
def test_parity_agreement_and_the_picture_match_the_same_boxes(
    starts: tuple, others: tuple, share: float, words: str | None
) -> None:
    eager, compiled = Predictions(boxes=boxes(*starts)), Predictions(boxes=boxes(*others))
    preview, info = Image.new("RGB", (640, 480)), ImageInfo("scene.png", 640, 480, "00", "")
    assert parity.compare([], [], [], "float32", None, (eager, compiled)).task["matched_boxes"] == share
    assert (pictures.difference(preview, info, eager, compiled) is None) == (words is None)
    assert (words or "None") in str(outputs.difference(eager, compiled))


def test_the_pairs_are_those_with_the_largest_total_likeness() -> None:
    assert outputs.match_boxes(boxes(4.5, 10), boxes(0, 8.5), 0.9) == [(0, 0), (1, 1)]
    assert outputs.match_boxes(boxes(0, 5), boxes(4.9, 10), 0.9) == [(0, 0), (1, 1)]  # the nearest pair is (1, 0)


def test_boxes_of_other_labels_or_without_a_place_have_no_partner() -> None:
    nowhere = Box("cat", 0.9, (float("nan"), 0.0, 1.0, 1.0))
    endless = Box("cat", 0.9, (0.0, 0.0, float("inf"), float("inf")))
    for others in (boxes(0, label="dog"), (nowhere,), (endless,), ()):
        assert outputs.match_boxes(boxes(0), others, 0.9) == outputs.match_boxes(others, boxes(0), 0.9) == []


def labels(name: str, score: float) -> Predictions:
    return Predictions(labels=(Label(name, score), Label("other", 0.01)))


CAT, NO_LABEL = labels("cat", 0.9), Predictions(labels=())


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (CAT, labels("cat", 0.88), None),
        (CAT, labels("dog", 0.9), "sees dog where plain eager sees cat"),
        (CAT, labels("cat", 0.7), "70 % where plain eager gives 90 %"),
        (CAT, NO_LABEL, "gives no finite score where plain eager sees cat"),
        (NO_LABEL, CAT, None),
        (Predictions(boxes=boxes(0)), Predictions(boxes=boxes(1)), None),
        (Predictions(boxes=()), Predictions(boxes=boxes(0)), "1 boxes"),
        (Predictions(boxes=boxes(0)), Predictions(boxes=boxes(0, label="dog")), "2 boxes"),
        (Predictions(boxes=boxes(0, 0)), Predictions(boxes=boxes(0)), "1 boxes"),
    ],
)
def test_a_user_sees_a_difference_in_labels_and_boxes(
    first: Predictions, second: Predictions, words: str | None
) -> None:
    found = outputs.difference(first, second)
    assert found is None if words is None else found is not None and words in found


def test_the_masks_of_several_segments_of_one_label_are_compared_together() -> None:
    def stars(first: int) -> list[Segment]:
        """Two that cover the first columns of eight, and the last two."""
        columns = np.arange(8)
        masks = [np.tile(covered, (4, 1)) for covered in (columns < first, columns >= 6)]
        return [Segment("star", None, float(mask.mean()), images.encode_mask(mask)) for mask in masks]

    assert outputs.changed_pixels(stars(3), stars(2)).sum() == 4
    assert outputs.mask_overlap(stars(3), stars(2)) == pytest.approx(4 / 5)
