"""The tasks, a file each, by their names: what every process knows of them. No torch.

`demo.backend.tasks` has a file for each of them, too: it loads a model, makes its batch and decodes its outputs.
"""

from importlib import import_module

from demo.tasks.task import Task

FILES = ("labels", "boxes", "masks", "text", "own")
"""In the order of the form. Each of them holds a `TASK`."""
BY_NAME: dict[str, Task] = {task.name: task for task in (import_module(f"demo.tasks.{file}").TASK for file in FILES)}
