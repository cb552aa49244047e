"""The task of a user's own model, on the command line and in Python. It has no predictions."""

from ..core.outputs import Predictions
from .task import Settings, Task


def refusal(spec: Settings) -> str:
    place, _, function = spec.checkpoint.rpartition(":")
    named = place.rpartition("/")[2].strip(".") and function
    return "" if named else "A model of one's own is FILE.py:FUNCTION or package.module:FUNCTION."


TASK: Task[Predictions] = Task(
    "own-model",
    "Own model",
    (),
    refusal=refusal,
    unit="call",
    unused=("batch_size", "weights", "text", "attention", "prompt", "tokens"),
)
