"""The task text generation: a model continues a prompt, token by token."""

from collections.abc import Sequence
from itertools import takewhile

from ..core.outputs import Predictions
from .task import Settings, Task

SAME_TOKENS = 8
"""Two texts agree if their first 8 tokens are equal. Later tokens may differ: one rounding in float16 can change all
tokens that follow."""


def same_tokens(first: Sequence[int], second: Sequence[int]) -> int:
    """Returns how many tokens are equal at the beginning of two generated texts. `first` and `second` are token ids."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def agreement(eager: Predictions, compiled: Predictions) -> dict[str, float]:
    ours, theirs = eager.token_ids or (), compiled.token_ids or ()
    return {"same_tokens": same_tokens(ours, theirs) / len(ours)}


def tie(reference: Predictions, other: Predictions) -> str:
    ours, theirs = reference.token_ids or (), other.token_ids or ()
    at = same_tokens(ours, theirs)
    tied = dict(enumerate(reference.ties or ()))
    if not set(theirs[at : at + 1]) & set(tied.get(at, ())):
        return ""
    return f"The answers part at token {at + 1} of {len(ours)}, where the likeliest tokens differ by rounding only."


def parting(reference: Predictions, other: Predictions) -> str:
    """Returns a sentence that says at which token two texts begin to differ."""
    place = same_tokens(reference.token_ids or (), other.token_ids or ()) + 1
    return tie(reference, other) or f"The texts differ from token {place} on."


def fault(eager: Predictions, compiled: Predictions) -> str:
    # Decides for float32 only: in float16 or bfloat16 one rounding may lead to another word, and so to another text.
    ours, theirs = eager.token_ids or (), compiled.token_ids or ()
    if ours == theirs:
        return ""
    place = f"token {same_tokens(ours, theirs) + 1} of {len(ours)}"
    return f"The answers part at {place}: compiled chooses another one there."


def difference(reference: Predictions, other: Predictions) -> str:
    ours, theirs = reference.token_ids or (), other.token_ids or ()
    same = same_tokens(ours, theirs)
    if same >= min(SAME_TOKENS, len(ours), len(theirs)) or tie(reference, other):
        return ""
    return f"writes another text than plain eager from token {same + 1} on"


def refusal(spec: Settings) -> str:
    if not spec.prompt.strip():
        return "Text generation needs a prompt, the text to go on from. Give one."
    if spec.compiler == "aot":
        return "Text generation is not built as a package here: choose compiler jit."
    if spec.scope == "layers":
        return "Each layer of a text model has a number, so dynamo shares no graph between them: choose scope model."
    return ""


TASK = Task(
    "text-generation",
    "Text generation",
    ("AutoModelForCausalLM",),
    agreement,
    difference,
    shares={"same_tokens": ("{share} of the tokens are the same, from the first on", 0.0)},
    fault=fault,
    tie=tie,
    refusal=refusal,
    unit="token",
    unused=("channels_last",),
)
