"""The tasks of models, such as object detection. Each task has a file here, for everything that needs no torch.

`demo.backend.tasks` also has a file for each task, which loads a model, makes its inputs and decodes its outputs.
"""
