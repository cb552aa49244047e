"""Makes inputs and weights for shrunken copies of twelve checkpoints in the layout of transformers 4.

Each copy is a JSON file in `tests/backend/old_layouts`, written with transformers 4.57.3: both configs, name and shape
of every weight, the kind of weights file, and the outputs for a picture of noise. `weights` makes each weight from its
name. Some facts about the published repositories were written from memory: the old keys of the preprocessors'
configs, which repositories hold only a pickle, the entries that later releases no longer write (`torch_dtype`, position
buffers), and that Conditional DETR is published with a timm backbone.
"""

import zlib

import numpy as np
import torch
from PIL import Image

OUTPUTS = ("logits", "pred_boxes", "class_queries_logits", "masks_queries_logits")
KEPT = 24
"""How many numbers of each output the JSON files hold."""
VOCABULARY = {"<|startoftext|>": 0, "a</w>": 1, "cat</w>": 2, "<|endoftext|>": 3}
QUERY = "a a"


def picture() -> Image.Image:
    return Image.fromarray(np.random.RandomState(0).randint(0, 256, (48, 64, 3)).astype("uint8"))


def weights(shapes: dict[str, list[int]]) -> dict[str, torch.Tensor]:
    """Returns a tensor for each name in `shapes`, the same at each call. Variances are positive, as a norm needs."""
    weights = {}
    for name, shape in shapes.items():
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        if name.endswith(("position_ids", "relative_position_index", "num_batches_tracked")):
            weights[name] = torch.zeros(shape, dtype=torch.int64)
        elif name.endswith("running_var"):
            weights[name] = torch.rand(shape, generator=generator) + 0.5
        else:
            weights[name] = torch.randn(shape, generator=generator) * 0.1
    return weights
