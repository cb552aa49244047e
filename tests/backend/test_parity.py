"""Agreement of eager and compiled: by tensors, against a float64 reference, and as a user sees it."""

import numpy as np
import pytest
import torch
from own_workload import workload_of

from demo.backend import parity
from demo.core import images
from demo.core.outputs import Box, Label, Predictions, Segment

BASE = torch.linspace(-2, 2, 100)


def compare(
    compiled: torch.Tensor, again: torch.Tensor = BASE, exact: torch.Tensor | None = None, dtype: str = "float32"
):
    reference = None if exact is None else lambda: {"logits": exact}
    return parity.compare({"logits": BASE}, {"logits": again}, {"logits": compiled}, dtype, reference, None)


NAN = torch.full_like(BASE, float("nan"))
NEAR = BASE.double() - 0.04
"""A reference from which eager is 0.04 away."""


def test_a_difference_is_judged_by_the_tolerance_and_beyond_it_by_a_float64_reference() -> None:
    for compiled, given, verdict in [
        (BASE + 5e-4, {}, "match"),
        (BASE + 0.1, {}, "differ"),
        (BASE + 0.1, {"exact": BASE.double() + 0.1}, "match"),
        (BASE + 0.1, {"exact": BASE.double()}, "differ"),
        (BASE + 0.06, {"exact": NEAR}, "differ"),  # 2.5 times eager's own error: float32 may have twice as much
        (BASE + 0.06, {"exact": NEAR, "dtype": "tf32"}, "differ"),
        (BASE + 0.03, {"exact": NEAR, "dtype": "tf32"}, "match"),
        (BASE + 0.06, {"exact": NEAR, "dtype": "bfloat16"}, "match"),  # and half types three times
        (BASE, {"again": BASE + 1}, "not comparable"),
        (BASE[:50], {"again": BASE[:70]}, "not comparable"),  # it changes its shape from call to call
        (BASE[:50], {}, "differ"),
        (BASE.half(), {}, "differ"),
        (NAN, {}, "differ"),
        (NAN, {"exact": BASE.double()}, "differ"),  # an error that is no number is within no multiple of eager's
    ]:
        assert compare(compiled, **given).verdict == verdict, (compiled, given)
    assert compare(BASE + 5e-4).max_abs_error == pytest.approx(5e-4, rel=0.01)
    assert compare(NAN).max_abs_error is None
    assert "0.1" in compare(BASE + 0.1, exact=BASE.double()).reason


def test_an_eager_output_without_a_finite_number_is_no_match():
    for value in (float("nan"), float("inf")):
        nothing = torch.full_like(BASE, value)
        found = parity.compare({"a": nothing}, {"a": nothing}, {"a": nothing}, "float16", None, None)
        assert (found.verdict, found.max_abs_error) == ("not comparable", None)
        assert "overflows" in found.reason


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("no room for float64"), ValueError("no float64 here")])
def test_a_reference_is_computed_only_beyond_the_tolerance_and_one_that_fails_leaves_the_question_open(
    error: Exception,
) -> None:
    def fails() -> torch.Tensor:
        raise error

    found = parity.compare(BASE, BASE, BASE + 0.1, "float32", fails, None)
    assert found.verdict == "not comparable" and str(error) in found.reason
    assert parity.compare(BASE, BASE, BASE + 5e-4, "float32", fails, None).verdict == "match"


def test_a_reference_larger_than_the_free_memory_is_not_tried():
    workload = workload_of(torch.nn.Linear(2, 2), input=torch.ones(2))
    with pytest.raises(MemoryError, match=r"about 2.* GB and .* is free"):
        parity.float64_reference(workload, peak_memory_bytes=10**15)()


def test_top_five_agreement_counts_shared_labels():
    first = Predictions(labels=tuple(Label(name, 0.2) for name in "abcde"))
    second = Predictions(labels=tuple(Label(name, 0.2) for name in "edcbx"))
    assert parity.task_agreement(first, second) == {"top5_agreement": 0.8}


def test_boxes_match_only_with_the_same_label_in_the_same_place():
    def found(*boxes: Box) -> Predictions:
        return Predictions(boxes=boxes)

    cat, moved = Box("cat", 0.9, (0, 0, 100, 100)), Box("cat", 0.8, (2, 0, 102, 100))
    dog, far = Box("dog", 0.9, (0, 0, 100, 100)), Box("cat", 0.9, (50, 0, 150, 100))
    matched = parity.task_agreement(found(cat), found(moved))
    assert matched["matched_boxes"] == 1.0
    assert matched["box_iou"] == pytest.approx(98 / 102)
    assert matched["score_difference"] == pytest.approx(0.1)
    worst = parity.task_agreement(found(cat, dog), found(moved, dog))
    assert worst["box_iou"] == matched["box_iou"]
    for eager, compiled, share in [(found(cat), found(dog), 0), (found(cat), found(far), 0), (found(), found(), 1)]:
        assert parity.task_agreement(eager, compiled) == {"matched_boxes": share}
    assert parity.task_agreement(found(cat), found(cat, dog))["matched_boxes"] == 0.5


def test_masks_are_compared_by_label_and_changed_pixels_are_counted():
    def left(columns: int) -> Predictions:
        mask = np.zeros((10, 10), dtype=bool)
        mask[:, :columns] = True
        return Predictions(segments=(Segment("sky", None, float(mask.mean()), images.encode_mask(mask)),))

    shifted = {"mask_iou": pytest.approx(50 / 60), "changed_pixels": pytest.approx(0.1)}
    assert parity.task_agreement(left(5), left(6)) == shifted
    assert parity.task_agreement(left(5), left(5)) == {"mask_iou": 1.0, "changed_pixels": 0.0}


def test_each_tensor_is_judged_by_itself() -> None:
    """As dynamo does: one that lies within the tolerance needs no reference, however near eager is to that."""
    far = BASE.clone()
    far[50] += 2.5e-3  # of the two only this one is beyond the tolerance
    for compiled, exact in ([BASE + 5e-4, BASE], None), ([BASE + 5e-4, far], lambda: [BASE.double(), far.double()]):
        assert parity.compare([BASE, BASE], [BASE, BASE], compiled, "float32", exact, None).verdict == "match"


def judged(eager: torch.Tensor, compiled: torch.Tensor, exact: torch.Tensor | None = None, dtype: str = "float32"):
    """With a float64 reference that is eager's own output, unless another one is given."""
    return parity.compare(eager, eager, compiled, dtype, lambda: (eager if exact is None else exact).double(), None)


def test_small_outputs_that_compiled_makes_zero_or_reverses_differ() -> None:
    for scale in [1e-8, 2e-4, 1.0, 1e3]:
        shares = torch.softmax(torch.linspace(-2, 2, 20_000), 0) * scale
        for wrong in (torch.zeros_like(shares), shares.flip(0), -shares):
            assert judged(shares, wrong).verdict == "differ"
        close = judged(shares, shares * (1 + 5e-4))
        assert close.verdict == "match" and "relative to itself or to its tensor's size" in close.reason


def test_a_rounding_beside_an_output_of_zeros_is_no_difference() -> None:
    zeros = torch.zeros(10)
    assert judged(zeros, zeros + 5e-8).verdict == "match"
    assert judged(zeros, zeros + 1e-5).verdict == "differ"


def test_where_eager_is_mostly_rounding_nothing_is_said_of_compiled() -> None:
    noise = torch.tensor([1e-8, -2e-8, 3e-8])
    assert judged(noise, noise * -9, noise * 1e-6).verdict == "not comparable"


WHOLE = torch.arange(6)


def test_integers_booleans_and_bytes_are_compared_exactly() -> None:
    for eager, wrong in [(WHOLE, WHOLE.flip(0)), (WHOLE > 2, WHOLE <= 2), (WHOLE.byte(), WHOLE.byte() + 1)]:
        both = parity.compare([BASE, eager], [BASE, eager], [BASE + 5e-4, eager], "float32", None, None)
        assert both.verdict == "match" and both.reason.endswith("Every integer, boolean and byte equals eager's.")
        found = parity.compare([BASE, eager], [BASE, eager], [BASE, wrong], "float32", None, None)
        assert (found.verdict, found.reason) == ("differ", "Of 6 integers, booleans and bytes 6 differ from eager's.")
        assert judged(eager, eager).verdict == "match" and judged(eager, wrong).verdict == "differ"
        assert parity.compare(eager, wrong, wrong, "float32", None, None).verdict == "not comparable"


def test_outputs_without_a_tensor_are_not_called_a_match() -> None:
    assert parity.compare(["a", 1], ["a", 1], ["a", 1], "float32", None, None).verdict == "not comparable"


def test_complex_numbers_are_compared() -> None:
    turned = torch.ones(2, dtype=torch.complex64)
    assert parity.compare(turned, turned, turned * 1j, "float32", None, None).verdict == "differ"


def test_infinite_numbers_are_judged_by_their_places_and_no_sentence_says_nan() -> None:
    """An overflow of eager in half types that compiled does not have is no fault of compiled."""
    masked = torch.cat([BASE, torch.tensor([float("-inf")])])  # as a detector may mask
    unmasked = torch.cat([BASE, torch.zeros(1)])
    assert judged(masked, masked).verdict == "match"
    assert judged(masked, masked + 0.1, dtype="float16").verdict == "differ"
    assert judged(masked, unmasked, unmasked, dtype="float16").verdict == "match"
    for eager, compiled in ((masked, unmasked), (unmasked, masked), (BASE, BASE * float("nan"))):
        found = judged(eager, compiled)
        assert found.verdict == "differ" and "nan" not in found.reason and "inf " not in found.reason
