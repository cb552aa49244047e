"""Where a checkpoint's config, processor and weights come from: the Hub, its cache, or a folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import huggingface_hub

from demo.backend.load_errors import CannotLoad
from demo.core import catalog, hub
from demo.core.catalog import Checkpoint
from demo.core.errors import BadInput
from demo.core.key_mappings import KEY_MAPPINGS
from demo.core.spec import RunSpec


@dataclass(frozen=True)
class Source:
    """Arguments of `from_pretrained`.

    Pass `trust_remote_code=False` as well: without it transformers would ask on standard input.
    """

    name: str
    config_name: str
    options: dict[str, Any]
    """For config, processor, tokenizer and weights."""
    weights_options: dict[str, Any]

    @property
    def safetensors_only(self) -> bool:
        return bool(self.weights_options.get("use_safetensors"))


def find(spec: RunSpec, entry: Checkpoint | None) -> Source:
    """`entry` is the checkpoint's in the catalogue; None where somebody named the checkpoint.

    Raises BadInput for a folder without a config, and CannotLoad where the Hub is needed and out of reach.
    """
    folder = None
    if entry is not None and (entry.bundled or spec.weights == "random"):
        folder = str(catalog.config_folder(entry))
    elif catalog.is_folder(spec.checkpoint):
        folder = os.path.abspath(spec.checkpoint)
        if not Path(folder, "config.json").is_file():
            raise BadInput(
                f"The folder {Path(folder).name!r} holds no config.json. Give one written by save_pretrained."
            )
    if folder is not None:
        return Source(folder, folder, {"local_files_only": True}, {"use_safetensors": True})
    revision = entry.revision if entry else None
    options: dict[str, Any] = {"revision": revision} if revision else {}
    if not hub.reachable():
        if not _cached(spec.checkpoint, revision, spec.weights):
            raise _out_of_reach(spec, entry)
        options["local_files_only"] = True
    # A .bin of the catalogue's checkpoints may be read (with weights_only=True, transformers' default); of an id that
    # somebody typed in only safetensors.
    weights_options: dict[str, Any] = {} if entry else {"use_safetensors": True}
    config_name = spec.checkpoint
    mapping = KEY_MAPPINGS.get(spec.checkpoint)
    if entry is not None and mapping is not None:
        # The published config asks for timm; ours builds the same backbone from transformers and renames the keys.
        config_name = str(catalog.config_folder(entry))
        weights_options["key_mapping"] = mapping
    return Source(spec.checkpoint, config_name, options, weights_options)


def _cached(checkpoint: str, revision: str | None, weights: str) -> bool:
    """True where the local Hub cache holds the config and, for pretrained weights, a weights file."""

    def holds(name: str) -> bool:
        cached_file = huggingface_hub.try_to_load_from_cache(checkpoint, name, revision=revision)
        return isinstance(cached_file, str)

    weight_files = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")
    return holds("config.json") and (weights == "random" or any(holds(name) for name in weight_files))


def _out_of_reach(spec: RunSpec, entry: Checkpoint | None) -> CannotLoad:
    cause = f"The Hugging Face Hub cannot be reached and {spec.checkpoint} is not in the local cache."
    if entry is None:
        return CannotLoad(
            cause, "Choose a checkpoint of the list with weights: random, or a bundled shapes checkpoint."
        )
    remedy = (
        "Choose weights: random to time its architecture all the same (latency does not depend on the weights' "
        "values), or a bundled shapes checkpoint."
    )
    return CannotLoad(cause, remedy, weights="random")
