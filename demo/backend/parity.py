"""Compares the outputs of eager and compiled by the rule of PyTorch's benchmarks: `same()` in torch/_dynamo/utils.py.

- Covered: every tensor of the output, for one input and one call of eager and of compiled. Of a text model: the logits
  of its answer's first 64 tokens, and in float32 all tokens themselves. Integers, booleans and bytes have to be equal.
  If some differ, but rounding alone moves about as many, the verdict is 'not comparable'.
- Not covered: other inputs, outputs that are not tensors, gradients, whether predictions are right.
- Not found: a fault in numbers a thousand times smaller than their tensor's root mean square; in float16 and bfloat16
  also a fault in few numbers that is no larger than a rounding error.
"""

import copy
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..core import format as fmt
from ..core.outputs import Parity, ParityVerdict
from . import machine_probe
from .effects import Effects, tensors
from .workload import Model, Workload, refuse_call

TOLERANCE = 1e-3
"""dynamo's tolerance for transformers and timm, as a share. Two numbers match if they differ by at most this share of
eager's number plus this share of its tensor's root mean square, which counts as at most 1. If one rounding of the
number format is a larger share, it replaces the first share."""
SIZE_OF_ZEROS = 1e-4
"""Assumed root mean square of a tensor of zeros, so that its tolerance is about one rounding of float32."""
NUMBER_FORMATS = {"float32": (2.0, 2**-23), "tf32": (2.0, 2**-10), "float16": (3.0, 2**-10), "bfloat16": (3.0, 2**-7)}
"""{number format: (largest quotient of compiled's error and eager's, as in dynamo's tests; relative error of one
rounding)}."""
DRAWS = "The model draws random numbers, and compiled draws its own."
MOVED = "In a float64 reference rounding in the layers moves about as many."
FAST_PATH = (
    "Eager's fast path of torch.nn's attention layers answers otherwise, as with 0 in padded places: after "
    "torch.backends.mha.set_fastpath_enabled(False) both agree."
)
MORE_CALLS, MORE_SECONDS = 30, 1.0
"""If compiled's outputs differ, a model is called up to `MORE_CALLS` times more, to see if its own outputs vary. No
call begins after `MORE_SECONDS`. One call is enough for a model that alternates between two outputs: they are
compared with those of the call just before."""
PERTURBED_RUNS, PERTURBED_SECONDS = 5, 20.0
"""Most float64 runs with changed layer results, and the seconds after which no further run begins. Two always run."""
NEAR = 1 / 20
"""For the verdict 'match', neither eager's error nor compiled's may exceed this share of the float64 tensor's norm."""


def compare_outputs(
    eager: object,
    again: object,
    compiled: object,
    dtype: str,
    reference: Callable[[float], object],
    task: dict[str, float] | None = None,
    fault: str = "",
    effects: Effects = Effects(),  # noqa: B008 -- frozen
) -> Parity:
    """Returns whether compiled's outputs agree with eager's for one input: 'match', 'differ' or 'not comparable'.

    - `again`: the outputs of a second eager call. If they differ from `eager`, the verdict is 'not comparable'.
    - `dtype`: the run's number format, a key of `NUMBER_FORMATS`.
    - `reference`: called only if numbers of compiled are beyond the tolerance, or integers differ. `reference(0)`
      returns the outputs of a float64 copy of the model. `reference(0.1)` does so, too, but changes each layer's
      results at random by up to 5 %.
    - If `reference` raises an exception, the verdict is 'differ' if integers differ, or if compiled has NaN or infinity
      where eager has a number. Otherwise it is 'not comparable'.
    - `task`: how far the predictions agree, stored as `Parity.task`; None if there are no predictions.
    - `fault`: what differs in the predictions; '' for nothing. In float32 a fault makes the verdict 'differ'.
    - `effects`: the side effects of an eager call. Outputs that differ are 'not comparable' if the call draws random
      numbers, or changes numbers that are not restored before the next call.
    """
    verdict, reason, error = _verdict(eager, again, compiled, dtype, reference, fault, effects)
    return Parity(verdict, error if error < math.inf else None, reason, task or {})


def _verdict(
    eager: object,
    again: object,
    compiled: object,
    dtype: str,
    reference: Callable[[float], object],
    fault: str,
    effects: Effects,
) -> tuple[ParityVerdict, str, float]:
    """Returns the verdict of `compare_outputs`, its reason as a sentence, and the largest absolute difference.

    Returns infinity for a difference that is not finite, and for 'not comparable' unless the outputs are so near that
    roundings may explain it.
    """
    if not any(tensor.numel() for tensor in tensors(eager)):
        return "not comparable", "The outputs hold no tensor with numbers to compare.", math.inf
    if _kinds(eager) != _kinds(again):
        reason = _why_eager_differs(effects, "tensors of other shapes or number formats")
        return "not comparable", reason, math.inf
    if _kinds(eager) != _kinds(compiled):
        if effects.draws:
            return "not comparable", DRAWS, math.inf
        return "differ", "Compiled returns tensors of other shapes or number formats than eager.", math.inf
    ours, second, theirs = _numbers(eager), _numbers(again), _numbers(compiled)
    formats = {dtype, *(str(kind).removeprefix("torch.") for _, kind in _kinds(eager))}
    multiple, rounding = max(NUMBER_FORMATS[name] for name in formats & NUMBER_FORMATS.keys())
    share = max(TOLERANCE, rounding)
    if _far(ours, second, share) or _unequal(eager, again):
        return "not comparable", _why_eager_differs(effects, "other numbers"), math.inf
    varies = effects.draws or (effects.state and not effects.undone)
    if varies and (fault or _far(ours, theirs, share) or _unequal(eager, compiled)):
        return "not comparable", _why_eager_differs(effects, "other numbers"), math.inf
    if any(tensor.numel() and not tensor.isfinite().any() for tensor in ours):
        # NaN would match NaN, and a model without any finite output would pass as one that agrees.
        reason = "Eager gives no finite number: it overflows, or the weights hold none."
        return "not comparable", reason, math.inf
    whole = zip(_integers(eager), _integers(compiled), strict=True)
    pairs = [*zip(ours, theirs, strict=True), *((mine.double(), other.double()) for mine, other in whole)]
    error = max((_error(other, mine, math.inf) for mine, other in pairs), default=0.0)
    if fault and dtype == "float32":
        return "differ", fault, error
    unequal = _unequal(eager, compiled)
    integers = f"Integers, booleans or bytes that differ from eager's: {unequal:,}."
    if unequal and unequal > multiple * _moved_integers(eager, reference, rounding):
        return "differ", integers, error
    if not (far := _far(ours, theirs, share)):
        if unequal:
            return "not comparable", f"{integers} {MOVED}", math.inf
        close = f"Every number lies within {share:.2g} of eager's, relative to itself or to its tensor's size."
        return "match", close, error

    def worst(*runs: list[torch.Tensor]) -> tuple[ParityVerdict, str]:
        """Returns the worst verdict on the tensors of compiled that are beyond the tolerance, and the reason for it.

        `runs`: the outputs of float64 runs. The first run is exact; the others change each layer's results at random.
        """
        on_tensors = [_tensor_verdict([run[at] for run in (ours, theirs, *runs)], multiple, rounding) for at in far]
        return min(on_tensors, key=lambda verdict: ("differ", "not comparable", "match").index(verdict[0]))

    since = time.monotonic()
    try:
        exact = _numbers(reference(0))
        verdict, why = worst(exact)
        if verdict == "differ":  # eager may be exact by luck, so its error is estimated from perturbed runs, too
            torch.manual_seed(0)
            perturbed: list[list[torch.Tensor]] = []
            for run in range(PERTURBED_RUNS):
                if run > 1 and time.monotonic() - since > PERTURBED_SECONDS:
                    break
                perturbed.append(_numbers(reference(rounding)))
            verdict, why = worst(exact, *perturbed)
    except Exception as reason:  # a model may fail in float64 in any way
        if any((ours[at].isfinite() & ~theirs[at].isfinite()).any() for at in far):
            return "differ", "Compiled gives NaN or infinity where eager gives a number.", error
        why = str(reason).splitlines()[0][:120] if str(reason) else type(reason).__name__
        verdict, why = "not comparable", f"Outputs differ by more than {share:.2g}, and float64 was skipped: {why}"
    if verdict == "match" and unequal:
        return "not comparable", f"{integers} {MOVED}", math.inf
    far_apart = any(_error(theirs[at], ours[at], 2) > 2 * NEAR * _norm(ours[at], 2) for at in far)
    if verdict == "not comparable" and far_apart:
        error = math.inf  # too far apart to pass for roundings: `Parity.unknown`
    return verdict, why, error


def _moved_integers(eager: object, reference: Callable[[float], object], rounding: float) -> int:
    """Returns how many of eager's integers, such as indices, differ in float64: the most of three runs; 0 if one fails.

    The second and third run change each layer's results at random by up to half of `rounding`.
    """
    torch.manual_seed(0)
    with suppress(Exception):  # a model may fail in float64 in any way
        return max(_unequal(eager, reference(share)) for share in (0.0, rounding, rounding))
    return 0


def _why_eager_differs(effects: Effects, what: str) -> str:
    if effects.draws or effects.drew:
        return DRAWS
    if effects.changes:
        return f"Eager gives {what} in its second call, because each call changes its {effects.changes}."
    return f"Eager gives {what} in a second call with the same input, for a reason that is not known."


def _tensor_verdict(numbers: list[torch.Tensor], multiple: float, rounding: float) -> tuple[ParityVerdict, str]:
    """Returns the verdict on one output tensor, and its reason as a sentence. Errors are distances from float64.

    - `numbers`: the tensor as computed by eager, by compiled and in float64. Further float64 runs may follow, in which
      each layer's results were changed at random: they show how far rounding errors can move the tensor.
    - Compiled's error may be `multiple` times eager's error. If twice the error of a further run is larger, it replaces
      eager's error. Added are one rounding error, as a share of the tensor's size, and a tenth of `TOLERANCE`, as a
      share of this size or of 1 if that is less.
    - Errors and sizes are root mean squares first, and largest numbers in a second comparison.
    - `rounding`: the relative size of one rounding error in the run's number format.
    """
    mine, other, exact, *perturbed = numbers
    for order, kind in (2, "root mean square"), (math.inf, "largest error"):
        size, own, error = _norm(exact, order), _error(mine, exact, order), _error(other, exact, order)
        noise = max([own, *(2 * _error(run, exact, order) for run in perturbed)])
        if noise > size / 2:
            return "not comparable", "Rounding or overflow moves eager itself too far from a float64 reference."
        away = f"{error:.2g} away from" if error < math.inf else "not finite in the places of"
        why = f"Compiled is {away} a float64 reference ({kind}), eager {own:.2g}"
        if error > multiple * noise + rounding * size + TOLERANCE / 10 * (min(1.0, size) or SIZE_OF_ZEROS):
            return "differ", f"{why}."
        if max(own, error) > NEAR * size:
            return "not comparable", f"{why}: so much rounding may hide a fault."
    return "match", f"Compiled is as near to a float64 reference as eager is (within {multiple:g} times its error)."


def float64_reference(
    workload: Workload, peak_memory_bytes: int | None, on_run: Callable[[], None] = lambda: None
) -> Callable[[float], object]:
    """Returns a function for the argument `reference` of `compare_outputs`. It runs a float64 copy of the model.

    - The function raises MemoryError if too little memory is free for the copy on a CPU, and TypeError for weights of
      complex numbers.
    - `peak_memory_bytes`: eager's peak, from which the memory needed is estimated; None: no check.
    - `on_run`: called before each run.
    """

    def run(share: float = 0.0) -> object:
        on_run()

        def perturb(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.is_nested:  # as the fast path of a padded TransformerEncoder hands from layer to layer
                return torch.nested.as_nested_tensor([perturb(part) for part in tensor.unbind()])
            if not tensor.is_floating_point() or tensor.layout != torch.strided:
                return tensor
            return tensor * (1 + share * (torch.rand_like(tensor) - 0.5))

        workload.restorer.restore()
        model = workload.model
        leaves = (*model.parameters(), *tensors(workload.batch))
        tensor = next((leaf for leaf in leaves if leaf.is_floating_point()), leaves[0])
        needed = (peak_memory_bytes or 0) * 8 // tensor.element_size()
        free = machine_probe.free_memory() if tensor.device.type == "cpu" else None  # a GPU's allocator raises an error
        if free is not None and needed > free:
            raise MemoryError(f"it needs about {fmt.size(needed)} and {fmt.size(free)} is free.")
        if any(tensor.is_complex() for tensor in (*model.parameters(), *model.buffers())):
            raise TypeError("the model holds complex numbers, which .to(torch.float64) would make real")
        exact = copy.deepcopy(model).to(torch.float64)
        if callable(set_experts := getattr(exact, "set_experts_implementation", None)):
            set_experts("eager")  # a mixture's grouped product knows no float64
        for layer in exact.modules() if share else ():
            layer.register_forward_hook(lambda *called: pytree.tree_map_only(torch.Tensor, perturb, called[-1]))
        with torch.no_grad():
            return workload.exact_outputs(exact)

    return run


def with_known_cause(
    first: Parity, workload: Workload, compiled: Model, eager: object, against: tuple[Any, ...]
) -> Parity:
    """Looks for a reason, other than the compile, why outputs do not match. Returns the comparison with that reason.

    - Eager's outputs may vary although those of its first two calls agreed by luck, as in a model that skips a layer at
      random. So eager is called again. If an output differs, the verdict is 'not comparable'.
    - If eager draws random numbers, compiled is called again, too: the number that changes an output may be a rare one.
    - Eager may use the fast path of torch.nn's attention layers, which gives 0 in the places that a padding mask hides.
      This is named as the reason for 'differ' only if eager without the fast path agrees with compiled.
    - `first`: the comparison so far. It is returned unchanged if no reason is found.
    - `compiled`: the compiled model, or `refuse_call` if it was dropped. `eager`: eager's outputs.
    - `against`: all the arguments of `compare_outputs` from `compiled` on.
    """
    if (others := _other_outputs(workload, workload.model, eager)) is not None:
        return compare_outputs(eager, others, *against)
    effects: Effects = against[-1]
    if effects.drew and compiled is not refuse_call and _other_outputs(workload, compiled, against[0]) is not None:
        return replace(first, verdict="not comparable", max_abs_error=None, reason=DRAWS)
    layers = (torch.nn.TransformerEncoder, torch.nn.TransformerEncoderLayer, torch.nn.MultiheadAttention)
    if first.verdict != "differ" or not any(isinstance(module, layers) for module in workload.model.modules()):
        return first
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        slow = workload.outputs(workload.model)
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
    same = compare_outputs(slow, slow, *against).verdict == "match"
    return replace(first, reason=f"{first.reason} {FAST_PATH}") if same else first


def _other_outputs(workload: Workload, model: Model, known: object) -> object | None:
    """Calls the model until its outputs are not the `known` ones, and returns them; None if all calls repeat them."""
    since = time.monotonic()
    for _ in range(MORE_CALLS):
        again = workload.outputs(model)
        if not _repeats(known, again, TOLERANCE):
            return again
        if time.monotonic() - since > MORE_SECONDS:
            break
    return None


def _numbers(outputs: object) -> list[torch.Tensor]:
    """Returns every floating-point or complex tensor of an output, as real float64 on the CPU, in a fixed order."""
    numbers = [leaf.detach().cpu() for leaf in tensors(outputs) if leaf.dtype.to_real().is_floating_point]
    return [(torch.view_as_real(tensor) if tensor.is_complex() else tensor).double() for tensor in numbers]


def _repeats(first: object, second: object, share: float) -> bool:
    """Returns whether two calls gave the same outputs. Integers must be equal.

    Floating-point numbers may differ as far as `_far` allows.
    """
    if _kinds(first) != _kinds(second):
        return False
    return not _far(_numbers(first), _numbers(second), share) and not _unequal(first, second)


def _kinds(outputs: object) -> list[tuple[torch.Size, torch.dtype]]:
    return [(leaf.shape, leaf.dtype) for leaf in tensors(outputs)]


def _integers(outputs: object) -> list[torch.Tensor]:
    """Returns every tensor of integers, booleans or bytes of an output, on the CPU."""
    return [leaf.cpu() for leaf in tensors(outputs) if not leaf.dtype.to_real().is_floating_point]


def _unequal(first: object, second: object) -> int:
    return sum(int((a != b).sum()) for a, b in zip(_integers(first), _integers(second), strict=True))


def _norm(tensor: torch.Tensor, order: float) -> float:
    """Returns the root mean square (order 2) or the largest magnitude (order inf) of the finite numbers of a tensor."""
    finite = tensor[tensor.isfinite()]
    return float(torch.linalg.vector_norm(finite, order)) / finite.numel() ** (1 / order) if finite.numel() else 0.0


def _far(first: list[torch.Tensor], second: list[torch.Tensor], share: float) -> list[int]:
    """Compares each tensor of `first` with the one of the same index in `second`. Returns the indices that differ.

    Two tensors differ if, at one place, the numbers are further apart than a limit. The limit is `share` of the number
    in `first`, plus `TOLERANCE` times the root mean square of its tensor (at most 1).
    """
    limits = [TOLERANCE * (min(1.0, _norm(tensor, 2)) or SIZE_OF_ZEROS) for tensor in first]
    return [at for at, tensor in enumerate(first) if not torch.allclose(second[at], tensor, share, limits[at], True)]


def _error(value: torch.Tensor, true: torch.Tensor, order: float) -> float:
    """Returns how large `value - true` is: the root mean square (order 2) or the largest magnitude (order inf).

    Returns infinity if `value` and `true` do not have NaN and infinities in the same places.
    """
    difference = torch.where((value == true) | (value.isnan() & true.isnan()), 0.0, value - true)
    return _norm(difference, order) if difference.isfinite().all() else math.inf
