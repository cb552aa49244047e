"""Text generation: an answer to a prompt, token by token."""

from collections.abc import Sequence
from typing import Any

from demo.core.outputs import Predictions
from demo.tasks.task import Task

SAME_TOKENS = 8
"""First tokens that the answers of two runs must share. Later, one rounding of a half type can lead to another text."""


def same_tokens(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two answers begin with that are the same."""
    return next((at for at, (one, other) in enumerate(zip(first, second, strict=False)) if one != other), len(first))


def _same(one: Predictions, other: Predictions) -> tuple[int, int, int]:
    """How many first tokens two answers share, and how many each has."""
    first, second = one.token_ids or (), other.token_ids or ()
    return same_tokens(first, second), len(first), len(second)


def agreement(eager: Predictions, compiled: Predictions) -> dict[str, float]:
    same, tokens, _ = _same(eager, compiled)
    return {"same_tokens": same / tokens}


def fault(eager: Predictions, compiled: Predictions) -> str:
    # Of half types such a difference says nothing: one rounding leads to another word, and to another text.
    same, tokens, _ = _same(eager, compiled)
    told = f"The answers part at token {same + 1} of {tokens}: compiled chooses another one there."
    return told if same < tokens else ""


def difference(reference: Predictions, other: Predictions) -> str:
    same, *tokens = _same(reference, other)
    return f"writes another text than plain eager from token {same + 1} on" if same < min(SAME_TOKENS, *tokens) else ""


def refusal(spec: Any) -> str:
    if not spec.prompt.strip():
        return "Text generation needs a prompt, the text to go on from. Give one."
    if spec.compiler == "aot":
        return "Text generation is not built as a package here: choose compiler jit."
    if spec.scope == "layers":
        return (
            "In a text model each layer has a number of its own, so dynamo shares no graph between them: choose scope "
            "model."
        )
    return ""


TASK = Task(
    "text-generation",
    "Text generation",
    ("AutoModelForCausalLM",),
    agreement,
    difference,
    shares={"same_tokens": ("the first {share} of the tokens are the same", 0.0)},
    fault=fault,
    refusal=refusal,
    unit="token",
    unused=("channels_last",),
)
