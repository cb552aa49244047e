"""The registry of tasks: the names of their files, and each `Task` by its name."""

from importlib import import_module
from typing import Any

from .task import Task

TASK_FILES = ("image_classification", "object_detection", "image_segmentation", "text_generation", "own_model")
"""The files in this folder that define a `TASK`, in the form's order. 'own_model' defines the task 'own-model'."""
BY_NAME: dict[str, Task[Any]] = {
    task.name: task for task in (import_module(f".{file}", __package__).TASK for file in TASK_FILES)
}
