"""Which class loads a checkpoint that somebody named, and whether it was trained for the task at hand."""

from __future__ import annotations

from typing import Any

from transformers.models.auto import modeling_auto

from demo.backend.load_errors import OTHER, named
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
    auto_class = next(
        (
            auto_class
            for auto_class, names in CANDIDATES[spec.task]
            if config.model_type in names and _trained_for(architectures, names[config.model_type])
            if "ZeroShot" not in auto_class or config.model_type in TEXT_MODELS
        ),
        None,
    )
    if auto_class is None:
        others = [name for name in architectures if config.model_type not in _model_types(name)]
        if others and all(_model_types(name) for name in others):
            raise BadInput(
                f"The config of {named(spec.checkpoint)} contradicts itself: its architecture is {', '.join(others)}, "
                f"its model_type is {config.model_type}; {OTHER}."
            )
        what = (", ".join(architectures) or config.model_type)[:MAX_LABEL]
        raise BadInput(
            f"{named(spec.checkpoint)} is a {what}, which does not do {spec.task.replace('-', ' ')} here. "
            "Choose another task, or a checkpoint of this task."
        )
    segmentation = None
    if spec.task == "image-segmentation":
        segmentation = _segmentation(spec.checkpoint, config) if "Universal" in auto_class else "semantic"
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


def _segmentation(checkpoint: str, config: Any) -> str | None:
    """Which segmentation a model that can do all three was trained for; None where nothing says so.

    Judged by its name, else by that of the model it was made from, else by labels that only COCO's panoptic set has.
    """
    for name in (named(checkpoint), str(getattr(config, "_name_or_path", "") or "")):
        kind = catalog.segmentation_in(name.replace("\\", "/").split("/")[-1])
        if kind is not None:
            return kind
    labels = (config.id2label or {}).values()
    return "panoptic" if any(label.endswith(("-merged", "-stuff")) for label in labels) else None


def _model_types(class_name: str) -> set[str]:
    """The model types that have this class in any of transformers' mappings."""
    return {
        model_type
        for name, mapping in vars(modeling_auto).items()
        if name.endswith("_MAPPING_NAMES")
        for model_type, classes in mapping.items()
        if class_name == classes or (isinstance(classes, tuple | list) and class_name in classes)
    }


def _trained_for(architectures: list[str], class_names: str | tuple[str, ...]) -> bool:
    """False where the checkpoint was saved from another class, so that its head for this task would be random."""
    names = (class_names,) if isinstance(class_names, str) else class_names
    return not architectures or any(name in names for name in architectures)
