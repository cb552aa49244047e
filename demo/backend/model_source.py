"""Where a checkpoint's config, processor and weights come from: the Hub, its cache, or a folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def find(spec: RunSpec, entry: Checkpoint | None) -> Source:
    """`entry` is the checkpoint's in the catalogue; None where somebody named the checkpoint.

    Raises BadInput for a folder without a config.
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
    options: dict[str, Any] = {"revision": entry.revision} if entry and entry.revision else {}
    if not hub.reachable():
        options["local_files_only"] = True
    if entry is None:
        return Source(spec.checkpoint, spec.checkpoint, options, {"use_safetensors": True})
    # Without use_safetensors a .bin of the catalogue's checkpoints is read, too, with weights_only=True.
    mapping = KEY_MAPPINGS.get(spec.checkpoint)
    if mapping is None:
        return Source(spec.checkpoint, spec.checkpoint, options, {})
    # The published config asks for timm; ours builds the same backbone from transformers and renames the keys.
    return Source(spec.checkpoint, str(catalog.config_folder(entry)), options, {"key_mapping": mapping})
