"""Loads the twelve from the Hub that HF_ENDPOINT names and prints, as JSON, what each answers for a picture of noise.

A process of its own, because huggingface_hub reads HF_ENDPOINT when it is imported. The folder given takes the place
of the project's assets: the config that ships for Conditional DETR has to be shrunken as its weights are.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from demo.backend import models, predictions
from demo.core import catalog
from demo.core.errors import BadInput
from tools import old_layouts


def answer(checkpoint: str) -> dict[str, Any]:
    text = (old_layouts.QUERY,) if catalog.find(checkpoint).takes_text else ()
    try:
        loaded = models.load(catalog.make_spec(checkpoint, text=text), torch.device("cpu"))
        inputs = predictions.prepare(loaded, old_layouts.picture(), text)
    except BadInput as refusal:
        return {"refused": str(refusal)}
    with torch.no_grad():
        outputs = loaded.model(**inputs)
    numbers = {
        name: outputs[name].flatten()[: old_layouts.KEPT].tolist() for name in old_layouts.OUTPUTS if name in outputs
    }
    return {"outputs": numbers, "warnings": loaded.warnings}


if __name__ == "__main__":
    catalog.ASSETS = Path(sys.argv[1])
    print(json.dumps({checkpoint: answer(checkpoint) for checkpoint in sys.argv[2:]}))
