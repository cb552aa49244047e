"""The registry of tasks: the names of their files, and each `Task` by its name."""

from importlib import import_module

from .task import Task

FILES = ("labels", "boxes", "masks", "text", "own")
"""Names of the files in this folder that define a `TASK`, in the order of the form."""
BY_NAME: dict[str, Task] = {task.name: task for task in (import_module(f".{file}", __package__).TASK for file in FILES)}
