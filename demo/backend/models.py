"""From a spec to a model in eval mode with its processor: from the Hub, a bundled folder, or with random weights."""

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
import transformers

from demo.backend import model_files, settings
from demo.backend.failures import OTHER, in_sentences, named
from demo.backend.model_files import MAX_LABEL, Source
from demo.core import catalog
from demo.core.catalog import Checkpoint
from demo.core.languages import ENGLISH
from demo.core.spec import TEXT_GENERATION, BadInput, RunSpec

SEED = 0
"""Random weights are the same in every run."""
UNUSED_WEIGHTS = (".swin.layernorm.weight", ".swin.layernorm.bias", "mask_token", "num_batches_tracked")
"""Ends of the names of weights that no prediction depends on: Mask2Former's backbone norms its stages instead."""
CANDIDATES = {
    "image-classification": (transformers.AutoModelForImageClassification,),
    "object-detection": (
        transformers.AutoModelForObjectDetection,
        transformers.AutoModelForZeroShotObjectDetection,
    ),
    TEXT_GENERATION: (transformers.AutoModelForCausalLM,),
    "image-segmentation": (
        transformers.AutoModelForSemanticSegmentation,
        transformers.AutoModelForUniversalSegmentation,
    ),
}
TEXT_MODELS = ("owlvit", "owlv2")
"""Zero-shot detectors whose queries are a list of short texts; other ones join the queries in their own ways."""


@dataclass
class Loaded:
    model: Any
    processor: Any
    """None for a model that sees no picture."""
    tokenizer: Any | None
    """None for a model without text, and for random weights: see `predictions.prepare`."""
    checkpoint: Checkpoint
    warnings: list[str]


def load(spec: RunSpec, device: torch.device) -> Loaded:
    """The model on `device` in the asked dtype, in eval mode, with its processor (`backend="pil"`).

    Raises BadInput where the checkpoint cannot be run as asked: of another task, in pickle only, larger than the
    limits; and CannotLoad where it cannot be loaded now: unknown, gated, damaged, or the Hub out of reach. The message
    says what to do.
    """
    entry = catalog.find(spec.checkpoint)
    with in_sentences(spec.checkpoint):
        source = model_files.find(spec, entry)
        if entry is None:
            model_files.refuse_large_files(source)
            model_files.refuse_pickled_parts(source)
        config = model_files.read(source)
        checkpoint = entry or _described(spec, config)
        kind = getattr(transformers, checkpoint.auto_class)
        if entry is None:
            model_files.refuse_large_model(kind, config, spec.checkpoint)
        model, missing = _model(spec, kind, source, config)
        reads_text = checkpoint.takes_text or spec.task == TEXT_GENERATION
        # A bundled checkpoint's tokenizer lies at hand with random weights, too.
        has_tokenizer = spec.weights == "pretrained" or (entry is not None and entry.bundled)
        tokenizer = _tokenizer(source, config) if reads_text and has_tokenizer else None
        processor = _processor(source, config) if spec.sees_picture else None
        model_files.refuse_large_inputs(processor, spec.checkpoint)
        # What a checkpoint lacks, transformers initialises at random.
        names = sorted(name for name in missing if not name.endswith(UNUSED_WEIGHTS))
        warnings = [ENGLISH.plain("caveat_missing_weights", count=len(names), first=names[0])] if names else []
        if spec.task == "image-segmentation" and checkpoint.segmentation is None:
            checkpoint = dataclasses.replace(checkpoint, segmentation="semantic")
            warnings.append(ENGLISH.plain("caveat_segmentation", checkpoint=named(spec.checkpoint)))
    model = model.to(device, memory_format=settings.memory_format_of(spec)).eval()
    return Loaded(model, processor, tokenizer, checkpoint, warnings)


def _described(spec: RunSpec, config: Any) -> Checkpoint:
    """A catalogue entry for a checkpoint that somebody named, from its config.

    Raises BadInput for another task, and where the checkpoint was saved from another class, so that its head for this
    task would be random.
    """
    architectures = [str(name) for name in config.architectures or [] if not isinstance(config.architectures, str)]
    for candidate in CANDIDATES[spec.task]:
        auto_class, found = candidate.__name__, candidate._model_mapping.get(type(config), ())
        classes: tuple[Any, ...] = found if isinstance(found, tuple) else (found,)
        fits = bool(classes) if not architectures else any(one.__name__ in architectures for one in classes)
        if fits and ("ZeroShot" not in auto_class or config.model_type in TEXT_MODELS):
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


def _model(spec: RunSpec, kind: Any, source: Source, config: Any) -> tuple[Any, Iterable[str]]:
    """The model of class `kind` on the CPU, and the names of the weights that its checkpoint lacks."""
    dtype = settings.dtype_of(spec)
    attention = {} if spec.attention == "auto" else {"attn_implementation": spec.attention}
    if spec.weights == "random":
        torch.manual_seed(SEED)
        # In the asked format at once: from float32 a large model would need twice the memory of its half types.
        return kind.from_config(config, dtype=dtype, **attention), ()
    model, report = kind.from_pretrained(
        source.name,
        config=config,
        dtype=dtype,
        output_loading_info=True,
        trust_remote_code=False,
        **attention,
        **source.weights_options,
        **source.options,
    )
    return model, report["missing_keys"]


def _tokenizer(source: Source, config: Any) -> Any:
    tokenizer = transformers.AutoTokenizer.from_pretrained(
        source.name, config=config, trust_remote_code=False, **source.options
    )
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        # Where the files are missing, transformers makes one without words: every query would be the same.
        raise BadInput(f"{named(source.name)} has no tokenizer (tokenizer.json) to read a text; {OTHER}.")
    return tokenizer


def _processor(source: Source, config: Any) -> Any:
    """The image processor over Pillow, which needs no torchvision."""
    return transformers.AutoImageProcessor.from_pretrained(
        source.name, config=config, backend="pil", trust_remote_code=False, **source.options
    )
