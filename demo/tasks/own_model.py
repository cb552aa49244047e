"""The task of a user's own model, given as 'FILE.py:FUNCTION' on the command line. It has no predictions."""

from ..core.outputs import Predictions
from .task import Task

TASK: Task[Predictions] = Task(
    "own-model",
    "Own model",
    (),
    unit="call",
    unused=("batch_size", "weights", "text", "attention", "prompt", "tokens"),
)
