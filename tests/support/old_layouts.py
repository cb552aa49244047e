"""The twelve checkpoints, shrunken, as transformers 4 published them: a JSON file each in `backend/old_layouts`.

Each file holds the config and the preprocessor's config, the name and shape of every weight, the kind of weights
file, and the outputs of transformers 4.57.3 for a picture of noise, by which the files were written. No weight is
kept: `weights` makes them by name.

The configs and the names of the weights are what 4.57.3 writes. From memory of the published repositories are: the
preprocessors' configs with their old keys, which repositories hold a pickle only, the entries that later releases no
longer write (`torch_dtype`, the buffers of positions), and that Conditional DETR is published with a timm backbone.
That the DETRs' revision without timm holds `"dilation": null` is told in public issues, and is what 4.57.3 writes.
"""

import zlib

import numpy as np
import torch
from PIL import Image

OUTPUTS = ("logits", "pred_boxes", "class_queries_logits", "masks_queries_logits")
KEPT = 24
"""Numbers kept of each output: the first ones."""
VOCABULARY = {"<|startoftext|>": 0, "a</w>": 1, "cat</w>": 2, "<|endoftext|>": 3}
QUERY = "a a"


def picture() -> Image.Image:
    return Image.fromarray(np.random.RandomState(0).randint(0, 256, (48, 64, 3)).astype("uint8"))


def weights(shapes: dict[str, list[int]]) -> dict[str, torch.Tensor]:
    """A tensor for each name, which depends on the name and the shape only. Variances are positive."""
    made = {}
    for name, shape in shapes.items():
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        if name.endswith(("position_ids", "relative_position_index", "num_batches_tracked")):
            made[name] = torch.zeros(shape, dtype=torch.int64)
        elif name.endswith("running_var"):
            made[name] = torch.rand(shape, generator=generator) + 0.5
        else:
            made[name] = torch.randn(shape, generator=generator) * 0.1
    return made
