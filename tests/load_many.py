"""Loads each checkpoint named on the command line as 'task=id' or 'task=id=random' and prints the outcomes as JSON.

A process of its own, because huggingface_hub reads HF_ENDPOINT when it is imported.
"""

from __future__ import annotations

import json
import sys

import torch

from demo.backend import models, text_workload
from demo.core import catalog
from demo.core.errors import BadInput
from demo.core.spec import TEXT_GENERATION


def outcome(task: str, checkpoint: str, weights: str = "pretrained") -> str:
    try:
        text = {"prompt": "a cat", "tokens": 8} if task == TEXT_GENERATION else {}
        spec = catalog.make_spec(folders=True, checkpoint=checkpoint, task=task, weights=weights, **text)
        cpu = torch.device("cpu")
        loaded = text_workload.load(spec, cpu).loaded if spec.task == TEXT_GENERATION else models.load(spec, cpu)
    except BadInput as refusal:
        return f"refused: {refusal}"
    warned = f" warned: {loaded.warnings[0]}" if loaded.warnings else ""
    return f"loaded: {type(loaded.model).__name__} {type(loaded.processor).__name__}{warned}"


if __name__ == "__main__":
    print(json.dumps([outcome(*argument.split("=")) for argument in sys.argv[1:]]))
