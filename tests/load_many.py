"""Loads each checkpoint named on the command line as 'task=id' or 'task=id=random' and prints the outcomes as JSON.

A process of its own, because huggingface_hub reads HF_ENDPOINT when it is imported.
"""

from __future__ import annotations

import json
import sys

import torch

from demo.backend import models
from demo.core import catalog
from demo.core.errors import BadInput


def outcome(task: str, checkpoint: str, weights: str = "pretrained") -> str:
    try:
        spec = catalog.make_spec(folders=True, checkpoint=checkpoint, task=task, weights=weights)
        loaded = models.load(spec, torch.device("cpu"))
    except BadInput as refusal:
        return f"refused: {refusal}"
    warned = f" warned: {loaded.warnings[0]}" if loaded.warnings else ""
    return f"loaded: {type(loaded.model).__name__} {type(loaded.processor).__name__}{warned}"


if __name__ == "__main__":
    print(json.dumps([outcome(*argument.split("=")) for argument in sys.argv[1:]]))
