"""What a checkpoint that somebody named may ask of this machine; each check raises BadInput beyond a limit.

Covered: the sizes of its files before one is fetched, parts of its weights that are no safetensors, its
parameters (counted without allocating any), and the pictures that its processor makes. Not covered: the
memory that a call takes, which depends on the batch and the input.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import huggingface_hub
import torch
from transformers.utils import cached_file

from demo.backend.load_errors import OTHER, named
from demo.backend.model_config import Source
from demo.core import format as fmt
from demo.core import limits
from demo.core.errors import BadInput

MAX_TENSORS = 20_000
"""Weight tensors of a model that somebody named. The largest vision models have about two thousand."""
MAX_TEXT_BYTES = 50_000_000
"""Bytes of a file beside the weights. The largest one is tokenizer.json, which lists the words: Gemma 3's has 33 MB."""
TEXT_FILES = (".json", ".txt", ".jinja")
MAX_SIDE = 4096
"""Pixels of a side to which a processor may resize a picture. The catalogue's ask for 1333 at most."""
BYTES_A_PARAMETER = 8
"""Bytes of a parameter in the widest number format of a weights file."""


def refuse_large_files(source: Source) -> None:
    """Asks the Hub for the sizes of the files before one is fetched."""
    if source.options.get("local_files_only"):
        return
    # Without a timeout of its own this request would wait for as long as the Hub keeps the connection open.
    repository = huggingface_hub.model_info(
        source.name, files_metadata=True, timeout=huggingface_hub.constants.HF_HUB_ETAG_TIMEOUT
    )
    sizes = {file.rfilename: file.size or 0 for file in repository.siblings or []}
    for name, bytes_of_file in sizes.items():
        if name.endswith(TEXT_FILES) and bytes_of_file > MAX_TEXT_BYTES:
            raise BadInput(
                f"The file {fmt.printable(name)[:100]} of {source.name} has {fmt.size(bytes_of_file)}, the limit is "
                f"{fmt.size(MAX_TEXT_BYTES)}; {OTHER}."
            )
    weights = sum(bytes_of_file for name, bytes_of_file in sizes.items() if name.endswith(".safetensors"))
    limit = limits.current().parameters * BYTES_A_PARAMETER
    if weights > limit:
        raise BadInput(
            f"The weights of {source.name} have {fmt.size(weights)}, the limit here is {fmt.size(limit)}. Choose a "
            f"smaller checkpoint, or raise {limits.variable('parameters')}."
        )


def refuse_pickled_parts(source: Source) -> None:
    """Refuses an index of the weights whose parts are no safetensors: transformers would unpickle them despite
    `use_safetensors`.
    """
    name = "model.safetensors.index.json"
    index = cached_file(source.name, name, _raise_exceptions_for_missing_entries=False, **source.options)
    parts = json.loads(Path(index).read_bytes())["weight_map"].values() if index is not None else ()
    if not all(str(part).endswith(".safetensors") for part in parts):
        raise BadInput(f"{named(source.name)} has weights that are no safetensors, the only kind read; {OTHER}.")


def refuse_large_model(kind: Any, config: Any, checkpoint: str) -> None:
    """Builds the architecture without allocating its weights, and stops as soon as it has counted beyond the limit."""
    limit = limits.current().parameters
    counted = tensors = 0

    def count(module: Any, name: str, parameter: torch.Tensor | None) -> None:
        nonlocal counted, tensors
        if parameter is None:
            return
        counted, tensors = counted + parameter.numel(), tensors + 1
        if counted > limit or tensors > MAX_TENSORS:
            raise BadInput(
                f"{named(checkpoint)} is a model of more than {limit:,} parameters or {MAX_TENSORS:,} weight tensors, "
                f"the limits here. Choose a smaller checkpoint, or raise {limits.variable('parameters')}."
            )

    registering = torch.nn.modules.module
    hooks = (
        registering.register_module_parameter_registration_hook(count),
        registering.register_module_buffer_registration_hook(count),
    )
    try:
        with torch.device("meta"):
            kind.from_config(copy.deepcopy(config))
    finally:
        for hook in hooks:
            hook.remove()


def refuse_large_inputs(processor: Any, checkpoint: str) -> None:
    """Refuses a processor that resizes any picture to more than `MAX_SIDE` pixels a side."""
    # ConvNeXT and PoolFormer resize to the size over `crop_pct` before they crop to the size.
    share = getattr(processor, "crop_pct", None) or 1
    for name in ("size", "crop_size", "pad_size", "size_divisor"):
        given = getattr(processor, name, None) or 0
        sides = [given] if isinstance(given, int | float) else dict(given).values()
        if any(side is not None and side / share > MAX_SIDE for side in sides):
            raise BadInput(
                f"The processor of {named(checkpoint)} asks for pictures of more than {MAX_SIDE} pixels a side; "
                f"{OTHER}."
            )
