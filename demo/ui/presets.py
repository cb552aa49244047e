"""The runs of stage mode's keys 1 to 3: what each is called, what is said of it, and what it puts into the form.

Small models, so that nobody waits: `python -m benchmarks.stage_presets` holds each to a minute on two CPU cores.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SEGFORMER = "nvidia/segformer-b0-finetuned-ade-512-512"


@dataclass(frozen=True)
class Preset:
    title: str
    words: str
    values: dict[str, Any] = field(default_factory=dict)
    """Of the form's fields, by name; the others go back to what they were at first."""


def presets(gpu: bool, loadable: bool = True) -> tuple[Preset, Preset, Preset]:
    """For a machine with or without a GPU. `loadable`: whether SegFormer's weights can be had; else random ones."""
    bundled = {"task": "image-segmentation", "checkpoint": "shapes-segformer"}
    full_size = bundled | {"checkpoint": SEGFORMER, "weights": "pretrained" if loadable else "random"}
    classifier = {"task": "image-classification", "checkpoint": "shapes-vit"}
    return (
        Preset(
            "Segformer on this machine",
            "Every pixel gets a class. How long does one picture take, as it is and compiled?",
            full_size if gpu else bundled,
        ),
        Preset(
            "A graph break, live",
            "The same small ViT, but Python steps in between two of its layers. What does it cost?",
            classifier | {"graph_break": True},
        ),
        Preset(
            "max-autotune",
            "The compiler tries several kernels for each operation on this machine, and keeps the fastest.",
            classifier | {"mode": "max-autotune"},
        ),
    )
