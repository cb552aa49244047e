"""From a spec to a model in eval mode with its processor: from the Hub, a bundled folder, or with random weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
import transformers

from demo.backend import model_config, model_limits, model_task, settings
from demo.backend.load_errors import OTHER, in_sentences, named
from demo.backend.model_config import Source
from demo.core import catalog
from demo.core.catalog import Checkpoint
from demo.core.errors import BadInput
from demo.core.languages import ENGLISH
from demo.core.spec import TEXT_GENERATION, RunSpec

SEED = 0
"""Random weights are the same in every run."""
UNUSED_WEIGHTS = (".swin.layernorm.weight", ".swin.layernorm.bias", "mask_token", "num_batches_tracked")
"""Ends of the names of weights that no prediction depends on: Mask2Former's backbone norms its stages instead."""


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
        source = model_config.find(spec, entry)
        if entry is None:
            model_limits.refuse_large_files(source)
            model_limits.refuse_pickled_parts(source)
        config = model_config.read(source)
        checkpoint = entry or model_task.describe(spec, config)
        kind = getattr(transformers, checkpoint.auto_class)
        if entry is None:
            model_limits.refuse_large_model(kind, config, spec.checkpoint)
        model, missing = _model(spec, kind, source, config)
        reads_text = checkpoint.takes_text or spec.task == TEXT_GENERATION
        tokenizer = _tokenizer(source, config) if reads_text and _has_tokenizer(spec, entry) else None
        processor = _processor(source, config) if spec.sees_picture else None
        model_limits.refuse_large_inputs(processor, spec.checkpoint)
        warnings = _missing_weights(missing)
        if spec.task == "image-segmentation" and checkpoint.segmentation is None:
            checkpoint = dataclasses.replace(checkpoint, segmentation="semantic")
            warnings.append(ENGLISH.plain("caveat_segmentation", checkpoint=named(spec.checkpoint)))
    model = model.to(device, memory_format=settings.memory_format_of(spec)).eval()
    return Loaded(model, processor, tokenizer, checkpoint, warnings)


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


def _missing_weights(missing: Iterable[str]) -> list[str]:
    """A warning where the checkpoint lacks weights, which transformers then initialises at random."""
    names = sorted(name for name in missing if not name.endswith(UNUSED_WEIGHTS))
    if not names:
        return []
    return [ENGLISH.plain("caveat_missing_weights", count=len(names), first=names[0])]


def _has_tokenizer(spec: RunSpec, entry: Checkpoint | None) -> bool:
    """A bundled checkpoint's lies at hand with random weights, too."""
    return spec.weights == "pretrained" or (entry is not None and entry.bundled)


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
