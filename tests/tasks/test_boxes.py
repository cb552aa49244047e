"""Which boxes of two sets of predictions belong together."""

import pytest
from PIL import Image

from demo.core.outputs import Box, ImageInfo, Predictions
from demo.present import pictures
from demo.tasks.boxes import agreement, difference, match


def boxes(*starts: float, label: str = "cat") -> tuple[Box, ...]:
    """Squares of 100 pixels that begin at these x."""
    return tuple(Box(label, 0.9, (start, 0.0, start + 100, 100.0)) for start in starts)


@pytest.mark.parametrize(
    ("starts", "others", "share", "words"),
    [
        ((4.5, 10), (0, 8.5), 1.0, ""),  # in order, the first box would take the second one's only partner
        ((0, 300), (0, 320), 0.5, "has 2 boxes"),
    ],
    ids=["all", "one"],
)
def test_agreement_difference_and_the_picture_match_the_same_boxes(
    starts: tuple, others: tuple, share: float, words: str
) -> None:
    eager, compiled = Predictions(boxes=boxes(*starts)), Predictions(boxes=boxes(*others))
    preview, info = Image.new("RGB", (640, 480)), ImageInfo("scene.png", 640, 480, "00", "")
    assert agreement(eager, compiled)["matched_boxes"] == share
    assert (pictures.difference(preview, info, eager, compiled) is None) == (words == "")
    assert difference(eager, compiled)[: len("has 2 boxes")] == words


def test_the_pairs_are_those_with_the_largest_total_likeness() -> None:
    assert match(boxes(4.5, 10), boxes(0, 8.5), 0.9) == [(0, 0), (1, 1)]
    assert match(boxes(0, 5), boxes(4.9, 10), 0.9) == [(0, 0), (1, 1)]  # the nearest pair is (1, 0)


NOWHERE, ENDLESS = (float("nan"), 0.0, 1.0, 1.0), (0.0, 0.0, float("inf"), float("inf"))


@pytest.mark.parametrize(
    "others",
    [boxes(0, label="dog"), boxes(50), (Box("cat", 0.9, NOWHERE),), (Box("cat", 0.9, ENDLESS),), ()],
    ids=["another label", "elsewhere", "nowhere", "endless", "none"],
)
def test_a_box_without_its_like_has_no_partner(others: tuple[Box, ...]) -> None:
    assert match(boxes(0), others, 0.9) == match(others, boxes(0), 0.9) == []


def test_the_worst_pair_counts() -> None:
    cat, moved, dog = Box("cat", 0.9, (0, 0, 100, 100)), Box("cat", 0.8, (2, 0, 102, 100)), boxes(0, label="dog")
    assert agreement(Predictions(boxes=(cat, *dog)), Predictions(boxes=(moved, *dog))) == {
        "matched_boxes": 1.0,
        "box_iou": pytest.approx(98 / 102),
        "score_difference": pytest.approx(0.1),
    }


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (boxes(0), boxes(1), ""),
        ((), boxes(0), "has 1 boxes"),
        (boxes(0), boxes(0, label="dog"), "has 2 boxes"),
        (boxes(0, 0), boxes(0), "has 1 boxes"),
    ],
    ids=["moved a little", "one more", "another label", "one fewer"],
)
def test_a_user_sees_boxes_that_came_went_or_moved(first: tuple, second: tuple, words: str) -> None:
    assert difference(Predictions(boxes=first), Predictions(boxes=second))[: len("has 1 boxes")] == words


def test_two_that_find_nothing_agree() -> None:
    nothing = Predictions(boxes=())
    assert agreement(nothing, nothing) == {"matched_boxes": 1.0} and difference(nothing, nothing) == ""
