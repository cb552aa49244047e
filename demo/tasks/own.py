"""The task of a user's own model, which a function of a Python file makes.

Such a run has no predictions.

`RunSpec.checkpoint` is then 'FILE.py:FUNCTION'. Only the command line runs own models.
"""

from demo.tasks.task import Task

TASK = Task(
    "own-model",
    "Own model",
    (),
    unit="call",
    unused=("batch_size", "weights", "text", "attention", "prompt", "tokens"),
)
