"""Do the predictions depend on weights that the checkpoint lacks?

transformers initialises such weights at random. Some are never used: the last layer norm of a Swin backbone whose
stages have norms of their own, a mask token of pre-training, the counter of a batch norm.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from PIL import Image

OUTPUTS = ("logits", "pred_boxes", "pred_masks", "class_queries_logits", "masks_queries_logits")
"""The outputs that predictions are made of."""
QUERY_TOKENS = 16


def warnings(model: Any, processor: Any, takes_text: bool, missing: Iterable[str]) -> list[str]:
    """A sentence where predictions depend on `missing`, names of weights of the model, which is on the CPU.

    Where the check fails, they are taken to depend on them.
    """
    names = sorted(missing)
    if not names:
        return []
    try:
        needed = _change_outputs(model, _inputs(processor, takes_text), names)
    except Exception:  # the run itself will fail in the same way and report it
        needed = True
    if not needed:
        return []
    return [
        f"{len(names)} weights of the model are not in the checkpoint and were initialised at random "
        f"(first: {names[0]}). Latency stands; predictions may mean nothing."
    ]


def _inputs(processor: Any, takes_text: bool) -> dict[str, torch.Tensor]:
    ids = torch.ones((1, QUERY_TOKENS), dtype=torch.long)
    if processor is None:
        return {"input_ids": ids}
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    made = processor(images=[Image.fromarray(noise)], return_tensors="pt")
    inputs = {name: made[name] for name in ("pixel_values", "pixel_mask") if name in made}
    if takes_text:
        inputs |= {"input_ids": ids, "attention_mask": ids}
    return inputs


def _change_outputs(model: Any, inputs: dict[str, torch.Tensor], names: list[str]) -> bool:
    """Whether an output changes when these weights are NaN.

    Calls a copy in float32, never the model itself: the first call can change a model in ways that change its graphs.
    """
    copied = copy.deepcopy(model).float().eval()
    weights = copied.state_dict()
    with torch.no_grad():
        before = copied(**inputs)
        for name in names:
            if weights[name].is_floating_point():
                weights[name].fill_(torch.nan)
            else:
                weights[name].add_(1)
        after = copied(**inputs)
    kept = [name for name in OUTPUTS if isinstance(before.get(name), torch.Tensor)]
    return not kept or not all(torch.equal(before[name], after[name]) for name in kept)
