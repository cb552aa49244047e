"""The tasks of models, such as object detection: a file for each task, with what needs no torch.

`demo.backend.tasks` has a file for each task, too, which loads a model, makes its inputs and decodes its outputs.
"""
