"""Writes image classifiers of one or two layers, which compile much faster than the bundled classifier."""

from pathlib import Path

import torch
from transformers import (
    ResNetConfig,
    ResNetForImageClassification,
    ViTConfig,
    ViTForImageClassification,
    ViTImageProcessorPil,
)


def write(folder: Path) -> Path:
    """Writes a ViT for 32 by 32 pixels and three labels into `folder`, with the same random weights each time."""
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = ViTForImageClassification(ViTConfig(**sizes, image_size=32, patch_size=16, num_labels=3))
    model.save_pretrained(folder)
    ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


def of_any_size(folder: Path) -> Path:
    """Writes a tiny ResNet, which takes pictures of any size; its processor makes them 64 by 64 pixels."""
    sizes = ResNetConfig(embedding_size=8, hidden_sizes=[8, 8], depths=[1, 1], num_labels=3)
    ResNetForImageClassification(sizes).save_pretrained(folder)
    ViTImageProcessorPil(size={"height": 64, "width": 64}).save_pretrained(folder)
    return folder
