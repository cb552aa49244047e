"""The tasks of models, such as object detection: a file for each task, with what needs no torch.

`demo.backend.tasks` has a file for each task, too, which loads a model, makes its inputs and decodes its outputs.
"""

from importlib import import_module

from demo.tasks.task import Task

FILES = ("labels", "boxes", "masks", "text", "own")
"""Files in this folder that define a task, in the order of the form."""
BY_NAME: dict[str, Task] = {task.name: task for task in (import_module(f"demo.tasks.{file}").TASK for file in FILES)}
