"""A module of one's own, made by a function of a Python file: nothing of it is predicted.

Its checkpoint is `FILE.py:FUNCTION`. Only the command line asks for it.
"""

from demo.tasks.task import Task

TASK = Task(
    "own-model",
    "Own model",
    (),
    unit="call",
    unused=("batch_size", "weights", "text", "attention", "prompt", "tokens"),
)
