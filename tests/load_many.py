"""Loads each checkpoint named on the command line as 'task=id' and prints, as JSON, what came of it.

A process of its own, because huggingface_hub reads HF_ENDPOINT when it is imported.
"""

from __future__ import annotations

import json
import sys

import torch

from demo.backend import models
from demo.core import catalog
from demo.core.result import BadInput


def outcome(task: str, checkpoint: str, weights: str) -> str:
    try:
        spec = catalog.make_spec(folders=True, checkpoint=checkpoint, task=task, weights=weights)
        loaded = models.load(spec, torch.device("cpu"))
    except BadInput as refusal:
        return f"refused: {refusal}"
    warned = f" warned: {loaded.warnings[0]}" if loaded.warnings else ""
    return f"loaded: {type(loaded.model).__name__} {type(loaded.processor).__name__}{warned}"


if __name__ == "__main__":
    weights = sys.argv[1]
    pairs = [argument.partition("=")[::2] for argument in sys.argv[2:]]
    print(json.dumps({checkpoint: outcome(task, checkpoint, weights) for task, checkpoint in pairs}))
