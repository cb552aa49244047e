"""Do eager and compiled agree? Raw outputs as PyTorch's dynamo benchmarks judge them, and predictions as a user does.

Covered: every tensor of the output, one input, one call of each variant; of a text model the logits of its answer's
tokens, and in float32 these tokens themselves. Integers, booleans and bytes have to be equal. Floating-point numbers
may differ by a share of their tensor's own size; a larger difference is judged by a float64 run of the same model, as
dynamo's benchmarks do. Not covered: other inputs, outputs that are no tensors, whether the predictions are right, and
gradients.
"""

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from demo.backend.workload import Workload, tensors
from demo.core import format as fmt, outputs
from demo.core.outputs import Box, Parity, Predictions, Verdict

TOLERANCE = 1e-3
"""dynamo's tolerance for inference of transformers and timm models: of each number, and of its tensor's size."""
SIZE_OF_ZEROS = 1e-4
"""Taken as the size of a tensor of zeros: the tolerance is then about one rounding of float32."""
MULTIPLES = {"float32": 2.0, "tf32": 2.0, "float16": 3.0, "bfloat16": 3.0}
"""Compiled may be this many times as far from float64 as eager is: dynamo's `same()`."""


def compare(
    eager: Any,
    again: Any,
    compiled: Any,
    dtype: str,
    reference: Callable[[], Any] | None,
    predictions: tuple[Predictions, Predictions] | None,
) -> Parity:
    """Compares one eager and one compiled output of the same input.

    `again` is a second eager output: a model that differs from itself cannot be compared. `reference` computes the
    same in float64, and is called only where the outputs differ by more than the tolerance. Where it raises, the
    verdict is 'not comparable', with the error in the reason. Source: `same()` in torch/_dynamo/utils.py, as
    benchmarks/dynamo uses it.
    """
    task = task_agreement(*predictions) if predictions else {}

    def verdict(verdict: Verdict, reason: str, error: float | None = None) -> Parity:
        return Parity(verdict, error, reason, task)

    if not tensors(eager):
        return verdict("not comparable", "The outputs hold no tensor to compare.")
    if _kinds(eager) != _kinds(again):
        return verdict("not comparable", "Eager itself returns tensors of other shapes or number formats in each call.")
    if _kinds(eager) != _kinds(compiled):
        return verdict("differ", "Compiled returns tensors of other shapes or number formats than eager.")
    ours, second, theirs = _numbers(eager), _numbers(again), _numbers(compiled)
    if not _close(ours, second) or _unequal(eager, again)[0]:
        return verdict("not comparable", "Eager differs from itself between two calls on the same input.")
    if any(tensor.numel() and not tensor.isfinite().any() for tensor in ours):
        # NaN would match NaN, and a model without any finite output would pass as one that agrees.
        return verdict(
            "not comparable", "Eager gives no finite number: this number format overflows, or the weights hold none."
        )
    error = _largest_error(ours, theirs)
    if predictions and dtype == "float32" and task.get("same_tokens", 1.0) < 1:
        # Of half types such a difference says nothing: one rounding leads to another word, and to another text.
        return verdict("differ", _other_token(*predictions), error)
    unequal, whole = _unequal(eager, compiled)
    if unequal:
        return verdict("differ", f"Of {whole:,} integers, booleans and bytes {unequal:,} differ from eager's.", error)
    exactly = "Every integer, boolean and byte equals eager's."
    if not ours:
        return verdict("match", exactly)
    if any((mine.isfinite() & ~other.isfinite()).any() for mine, other in zip(ours, theirs, strict=True)):
        return verdict("differ", "Compiled gives NaN or infinity where eager gives a number.")
    beyond = f"Outputs differ by more than {TOLERANCE:g} of their tensor's size"
    exactly = f" {exactly}" if whole else ""
    if _close(ours, theirs):
        close = f"Every number lies within {TOLERANCE:g} of eager's, relative to itself or to its tensor's size."
        return verdict("match", close + exactly, error)
    if reference is None:
        return verdict("differ", f"{beyond}; no float64 reference was asked.", error)
    try:
        exact = _numbers(reference())
    except Exception as reason:  # a model may fail in float64 in any way
        why = str(reason).splitlines()[0][:120] if str(reason) else type(reason).__name__
        return verdict("not comparable", f"{beyond}, and the deciding float64 reference was skipped: {why}", error)
    multiple = MULTIPLES[dtype]
    for mine, other, true in zip(ours, theirs, exact, strict=True):
        own, compiled_error = _rmse(mine, true), _rmse(other, true)
        slack = _size(true) * TOLERANCE / 10
        near = compiled_error < math.inf and compiled_error <= multiple * own + slack
        if near or _close([mine], [other]):
            continue
        if own > _size(true) / 2:
            why = "Eager itself is so far from a float64 reference that its numbers are mostly rounding or overflow."
            return verdict("not comparable", why, error)
        away = f"{compiled_error:.2g} away from" if compiled_error < math.inf else "not finite in the places of"
        why = f"Compiled is {away} a float64 reference (root mean square), eager {own:.2g}."
        return verdict("differ", why, error)
    as_near = f"Compiled is as near to a float64 reference as eager is (within {multiple:g} times its error)."
    return verdict("match", as_near + exactly, error)


def float64_reference(workload: Workload, peak_memory_bytes: int | None) -> Callable[[], Any]:
    """A call that runs a float64 copy of the workload's model on the same inputs and device.

    It raises MemoryError where that would not fit: the need is eager's peak times the ratio of the number sizes.
    """

    def run() -> Any:
        model = workload.model
        tensor = next(leaf for leaf in (*model.parameters(), *tensors(workload.batch)) if leaf.is_floating_point())
        needed = (peak_memory_bytes or 0) * 8 // tensor.element_size()
        free = _free_memory(tensor.device)
        if free is not None and needed > free:
            raise MemoryError(f"it needs about {fmt.size(needed)} and {fmt.size(free)} is free.")
        if any(tensor.is_complex() for tensor in (*model.parameters(), *model.buffers())):
            raise TypeError("the model holds complex numbers, which .to(torch.float64) would make real")
        with torch.no_grad():
            return workload.exact_outputs(copy.deepcopy(model).to(torch.float64))

    return run


def _free_memory(device: torch.device) -> int | None:
    """Bytes that are free on the device; None where the system does not say."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + unused
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None


def _numbers(outputs: Any) -> list[torch.Tensor]:
    """Every floating-point tensor of an output, nested ones too, as float64 on the CPU, in a fixed order."""
    numbers = [leaf.detach().cpu() for leaf in tensors(outputs) if _is_number(leaf)]
    return [(torch.view_as_real(one) if one.is_complex() else one).double() for one in numbers]


def _kinds(outputs: Any) -> list[tuple[torch.Size, torch.dtype]]:
    return [(leaf.shape, leaf.dtype) for leaf in tensors(outputs)]


def _is_number(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _unequal(first: Any, second: Any) -> tuple[int, int]:
    """How many integers, booleans and bytes of two outputs of the same kinds differ, and how many there are."""
    pairs = [(a, b) for a, b in zip(tensors(first), tensors(second), strict=True) if not _is_number(a)]
    return sum(int((a.cpu() != b.cpu()).sum()) for a, b in pairs), sum(a.numel() for a, _ in pairs)


def _size(tensor: torch.Tensor) -> float:
    """The root mean square of a tensor's finite numbers, at most 1."""
    finite = tensor[tensor.isfinite()]
    return min(1.0, float(finite.square().mean().sqrt()) if finite.numel() else 0.0) or SIZE_OF_ZEROS


def _close(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    return all(
        torch.allclose(b, a, rtol=TOLERANCE, atol=TOLERANCE * _size(a), equal_nan=True)
        for a, b in zip(first, second, strict=True)
    )


def _largest_error(first: list[torch.Tensor], second: list[torch.Tensor]) -> float | None:
    largest = max((float((a - b).abs().max()) for a, b in zip(first, second, strict=True) if a.numel()), default=0.0)
    return largest if math.isfinite(largest) else None


def _rmse(value: torch.Tensor, true: torch.Tensor) -> float:
    """Root mean square of the differences; infinite where the two are not finite in the same places."""
    difference = torch.where((value == true) | (value.isnan() & true.isnan()), 0.0, value - true)
    error = float(difference.square().mean().sqrt())
    return error if math.isfinite(error) else math.inf


def task_agreement(eager: Predictions, compiled: Predictions) -> dict[str, float]:
    """How far the predictions agree, by the names of `Parity.task`; {} where there is nothing to compare."""
    if eager.labels is not None and compiled.labels is not None:
        names = {label.label for label in eager.labels}
        shared = names & {label.label for label in compiled.labels}
        return {"top5_agreement": len(shared) / len(names) if names else 1.0}
    if eager.boxes is not None and compiled.boxes is not None:
        return _matched(eager.boxes, compiled.boxes)
    if eager.segments is not None and compiled.segments is not None:
        changed = outputs.changed_pixels(eager.segments, compiled.segments).mean()
        return {"mask_iou": outputs.mask_overlap(eager.segments, compiled.segments), "changed_pixels": float(changed)}
    if eager.token_ids is not None and compiled.token_ids is not None:
        return {"same_tokens": outputs.same_tokens(eager.token_ids, compiled.token_ids) / len(eager.token_ids)}
    return {}


def _other_token(eager: Predictions, compiled: Predictions) -> str:
    same = outputs.same_tokens(eager.token_ids or (), compiled.token_ids or ())
    return f"The answers part at token {same + 1} of {len(eager.token_ids or ())}: compiled chooses another one there."


def _matched(eager: tuple[Box, ...], compiled: tuple[Box, ...]) -> dict[str, float]:
    """The share of boxes with a partner of the same label at IoU 0.9 or more, 1.0 where there are no boxes.

    Of the pairs, the lowest IoU and the largest difference of scores.
    """
    pairs = [(eager[i], compiled[j]) for i, j in outputs.match_boxes(eager, compiled, outputs.SAME_BOX_IOU)]
    total = max(len(eager), len(compiled))
    shares = {"matched_boxes": len(pairs) / total if total else 1.0}
    if pairs:
        shares["box_iou"] = min(outputs.iou(*pair) for pair in pairs)
        shares["score_difference"] = max(abs(ours.score - theirs.score) for ours, theirs in pairs)
    return shares
