"""Tests of comparing the boxes of two predictions: which of them belong together."""

import pytest

from demo.core.outputs import Box, Predictions
from demo.tasks.object_detection import agreement, difference, match


def boxes(*starts: float, label: str = "cat") -> tuple[Box, ...]:
    """Returns boxes of 100 by 100 pixels, whose left edges are at `starts`."""
    return tuple(Box(label, 0.9, (start, 0.0, start + 100, 100.0)) for start in starts)


@pytest.mark.parametrize(
    ("first", "second", "pairs"),
    [
        (boxes(4.5, 10), boxes(0, 8.5), [(0, 0), (1, 1)]),  # in order, the first would take the second's only partner
        (boxes(0, 5), boxes(4.9, 10), [(0, 0), (1, 1)]),  # the nearest pair is (1, 0)
        (boxes(0), boxes(0, label="dog"), []),
        (boxes(0), boxes(50), []),
        (boxes(0), (Box("cat", 0.9, (float("nan"), 0.0, 1.0, 1.0)),), []),
        (boxes(0), (Box("cat", 0.9, (0.0, 0.0, float("inf"), float("inf"))),), []),
        (boxes(0), (), []),
    ],
    ids=["order", "total", "another label", "elsewhere", "NaN", "endless", "none"],
)
def test_the_pairs_have_the_largest_total_likeness(first: tuple, second: tuple, pairs: list) -> None:
    assert match(first, second, 0.9) == match(second, first, 0.9) == pairs


CAT, MOVED = Box("cat", 0.9, (0, 0, 100, 100)), Box("cat", 0.8, (2, 0, 102, 100))


@pytest.mark.parametrize(
    ("eager", "compiled", "shares"),
    [
        ((CAT, *boxes(0, label="dog")), (MOVED, *boxes(0, label="dog")), (1.0, 98 / 102, 0.1)),
        ((CAT,), (MOVED, *boxes(300)), (0.5, 98 / 102, 0.1)),
        ((), (), (1.0,)),
    ],
    ids=["the worst pair counts", "one more", "nothing"],
)
def test_agreement(eager: tuple, compiled: tuple, shares: tuple[float, ...]) -> None:
    expected = dict(zip(("matched_boxes", "box_iou", "score_difference"), shares, strict=False))
    assert agreement(Predictions(boxes=eager), Predictions(boxes=compiled)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (boxes(0), boxes(1), ""),
        ((), boxes(0), "shares 0 of 1 boxes"),
        (boxes(0), boxes(0, label="dog"), "shares 0 of 1 boxes"),
        (boxes(0, 0), boxes(0), "shares 1 of 2 boxes"),
        ((), (), ""),
    ],
    ids=["moved a little", "one more", "another label", "one fewer", "nothing"],
)
def test_a_user_sees_boxes_that_came_went_or_moved(first: tuple, second: tuple, words: str) -> None:
    assert difference(Predictions(boxes=first), Predictions(boxes=second)).removesuffix(" with plain eager") == words
