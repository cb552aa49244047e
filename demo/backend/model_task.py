"""Which class loads a checkpoint that somebody named, and whether it was trained for the task at hand."""

from __future__ import annotations

import re
from typing import Any

from transformers.models.auto import modeling_auto

from demo.backend.load_errors import named
from demo.backend.model_config import MAX_LABEL
from demo.core import catalog
from demo.core.catalog import Checkpoint
from demo.core.errors import BadInput
from demo.core.spec import TEXT_GENERATION, RunSpec

CANDIDATES: dict[str, tuple[tuple[str, Any], ...]] = {
    "image-classification": (
        ("AutoModelForImageClassification", modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES),
    ),
    "object-detection": (
        ("AutoModelForObjectDetection", modeling_auto.MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES),
        ("AutoModelForZeroShotObjectDetection", modeling_auto.MODEL_FOR_ZERO_SHOT_OBJECT_DETECTION_MAPPING_NAMES),
    ),
    TEXT_GENERATION: (("AutoModelForCausalLM", modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES),),
    "image-segmentation": (
        ("AutoModelForSemanticSegmentation", modeling_auto.MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING_NAMES),
        ("AutoModelForUniversalSegmentation", modeling_auto.MODEL_FOR_UNIVERSAL_SEGMENTATION_MAPPING_NAMES),
    ),
}
TEXT_MODELS = ("owlvit", "owlv2")
"""Zero-shot detectors whose queries are a list of short texts; other ones join the queries in their own ways."""


def describe(spec: RunSpec, config: Any) -> Checkpoint:
    """A catalogue entry for a checkpoint that somebody named, from its config. Raises BadInput for another task."""
    architectures = [str(name) for name in config.architectures or [] if not isinstance(config.architectures, str)]
    for auto_class, names in CANDIDATES[spec.task]:
        if "ZeroShot" in auto_class and config.model_type not in TEXT_MODELS:
            continue
        if config.model_type in names and _trained_for(architectures, names[config.model_type]):
            break
    else:
        what = (", ".join(architectures) or config.model_type)[:MAX_LABEL]
        raise BadInput(
            f"{named(spec.checkpoint)} is a {what}, which does not do {spec.task.replace('-', ' ')} here. "
            "Choose another task, or a checkpoint of this task."
        )
    segmentation = None
    if spec.task == "image-segmentation":
        # A universal model does all three; its config does not say for which it was trained, its name often does.
        name = re.split(r"[/\\]", spec.checkpoint)[-1]
        segmentation = catalog.segmentation_in(name) if "Universal" in auto_class else "semantic"
    takes_text = config.model_type in TEXT_MODELS
    if takes_text and not spec.text:
        raise BadInput(catalog.TEXT_MISSING.format(checkpoint=spec.checkpoint))
    return Checkpoint(
        id=spec.checkpoint,
        task=spec.task,
        family=config.model_type,
        title=spec.checkpoint,
        revision=None,
        input_size=catalog.NO_PICTURE,
        parameters=0,
        licence="unknown",
        auto_class=auto_class,
        segmentation=segmentation,
        takes_text=takes_text,
    )


def _trained_for(architectures: list[str], class_names: str | tuple[str, ...]) -> bool:
    """False where the checkpoint was saved from another class, so that its head for this task would be random."""
    names = (class_names,) if isinstance(class_names, str) else class_names
    return not architectures or any(name in names for name in architectures)
