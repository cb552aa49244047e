"""The runs of stage mode's keys 1 to 3: what each is called in English, and what it puts into the form.

Small models, so that nobody waits: `python -m benchmarks.stage_presets` holds each to a minute on two CPU cores.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SEGFORMER = "nvidia/segformer-b0-finetuned-ade-512-512"


@dataclass(frozen=True)
class Preset:
    title: str
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
            full_size if gpu else bundled,
        ),
        Preset(
            "A graph break, live",
            classifier | {"graph_break": True},
        ),
        Preset(
            "max-autotune",
            classifier | {"mode": "max-autotune"},
        ),
    )
