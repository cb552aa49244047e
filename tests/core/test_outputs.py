"""Which boxes and masks of two sets of predictions belong together."""

import pytest
from PIL import Image

from demo.backend import parity
from demo.core import outputs
from demo.core.outputs import Box, ImageInfo, Label, Predictions
from demo.ui.html import outputs_html


def boxes(*starts: float, label: str = "cat") -> tuple[Box, ...]:
    """Squares of 100 pixels that begin at these x."""
    return tuple(Box(label, 0.9, (start, 0.0, start + 100, 100.0)) for start in starts)


def share_matched(eager: tuple[Box, ...], compiled: tuple[Box, ...]) -> float:
    """What parity says of two runs of which only the boxes count."""
    predictions = (Predictions(boxes=eager), Predictions(boxes=compiled))
    return parity.compare([], [], [], "float32", None, predictions).task["matched_boxes"]


def difference_is_drawn(eager: tuple[Box, ...], compiled: tuple[Box, ...]) -> bool:
    preview, info = Image.new("RGB", (640, 480)), ImageInfo("scene.png", 640, 480, "00", "")
    return outputs_html.difference(preview, info, Predictions(boxes=eager), Predictions(boxes=compiled)) is not None


def test_parity_agreement_and_the_picture_match_the_same_boxes() -> None:
    """In order, the first box would take the second one's only partner; there is one for each."""
    eager, compiled = boxes(4.5, 10), boxes(0, 8.5)
    assert outputs.match_boxes(eager, compiled, 0.9) == [(0, 0), (1, 1)]
    assert share_matched(eager, compiled) == 1.0 and not difference_is_drawn(eager, compiled)
    assert outputs.difference(Predictions(boxes=eager), Predictions(boxes=compiled)) is None


def test_a_box_that_moved_too_far_is_missing_in_all_three() -> None:
    eager, compiled = boxes(0, 300), boxes(0, 320)
    assert share_matched(eager, compiled) == 0.5 and difference_is_drawn(eager, compiled)
    assert "2 boxes" in (outputs.difference(Predictions(boxes=eager), Predictions(boxes=compiled)) or "")


def test_the_pairs_are_those_with_the_largest_total_likeness() -> None:
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
