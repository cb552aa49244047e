"""A checkpoint's files: where they come from, its config for the installed transformers, and what they may ask for.

Of a checkpoint that somebody named are limited: the sizes of its files before one is fetched, parts of its weights that
are no safetensors, its parameters (counted without allocating any), and the pictures that its processor makes. Not
covered: the memory that a call takes, which depends on the batch and the input.
"""

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import huggingface_hub
import torch
import transformers
from transformers import CONFIG_MAPPING, PreTrainedConfig
from transformers.utils import cached_file

from demo.backend.failures import OTHER, named
from demo.core import catalog, format as fmt, hub, limits
from demo.core.catalog import KEY_MAPPINGS, Checkpoint
from demo.core.spec import BadInput, RunSpec

MAX_LABEL = 200
MAX_NUMBER = 10_000_000
"""The largest whole number in a config. Some become lists and loops before the first parameter is made."""
MAX_TENSORS = 20_000
"""Weight tensors of a model that somebody named. The largest vision models have about two thousand."""
MAX_TEXT_BYTES = 50_000_000
"""Bytes of a file beside the weights. The largest one is tokenizer.json, which lists the words: Gemma 3's has 33 MB."""
TEXT_FILES = (".json", ".txt", ".jinja")
MAX_SIDE = 4096
"""Pixels of a side to which a processor may resize a picture. The catalogue's ask for 1333 at most."""
BYTES_A_PARAMETER = 8
"""Bytes of a parameter in the widest number format of a weights file."""


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
        folder = catalog.config_folder(entry)
    elif catalog.is_folder(spec.checkpoint):
        folder = Path(spec.checkpoint).absolute()
        if not (folder / "config.json").is_file():
            raise BadInput(f"The folder {folder.name!r} holds no config.json. Give one written by save_pretrained.")
    if folder is not None:
        return Source(str(folder), str(folder), {"local_files_only": True}, {"use_safetensors": True})
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


def read(source: Source) -> Any:
    """The source's config, as loading and compiling need it.

    Raises BadInput for a config that asks for a gigantic model, and ValueError or what transformers raises where it
    does not know the model type or refuses an entry.
    """
    entries, _ = PreTrainedConfig.get_config_dict(source.config_name, **source.options)
    given = entries.get("model_type")
    kind = _class_of(given)
    if kind is None:  # such as a model that brings Python code of its own, which is never run here
        raise ValueError(f"transformers {transformers.__version__} does not know its config's model_type, {given!r}")
    if _is_gigantic(entries):
        raise BadInput(f"{named(source.name)} has a config that asks for a gigantic model; {OTHER}.")
    # transformers would read the file that this entry names whatever `use_safetensors` says, a pickle too.
    entries.pop("transformers_weights", None)
    config = kind.from_dict(_fitted(kind, entries))
    config.return_dict = True
    # The model's class decides, or the spec. A config's entry may name a kernel to be fetched from the Hub.
    config._attn_implementation = None
    if config.id2label is not None:
        config.id2label = {number: _label(label) for number, label in config.id2label.items()}
    return config


def _is_gigantic(part: Any) -> bool:
    """Whether a part of a config holds a whole number beyond the limit, apart from the base of its rotary embeddings,
    which nothing is as long as."""
    if isinstance(part, dict):
        return any(_is_gigantic(value) for name, value in part.items() if name != "rope_theta")
    if isinstance(part, list):
        return any(map(_is_gigantic, part))
    return isinstance(part, int) and abs(part) > MAX_NUMBER


def _label(label: Any) -> str:
    """The text of a label, which in a config may be anything."""
    return fmt.printable(str(label).replace("\n", " "))[:MAX_LABEL]


def _class_of(model_type: Any) -> Any | None:
    """The installed transformers' config class, or None where it knows no such model type."""
    return CONFIG_MAPPING[model_type] if isinstance(model_type, str) and model_type in CONFIG_MAPPING else None


def _fitted(kind: Any, entries: dict[str, Any]) -> dict[str, Any]:
    """The entries without the nulls that release 4 of transformers wrote and release 5 refuses.

    Such is `"dilation": null` in the config of every DETR whose backbone is not from timm.
    """
    fitted: dict[str, Any] = {}
    for name, value in entries.items():
        part = _class_of(value.get("model_type")) if isinstance(value, dict) else None
        if part is not None:
            fitted[name] = _fitted(part, value)
        elif value is not None or _takes_null(kind, name):
            fitted[name] = value
    if fitted.get("use_timm_backbone") and not fitted.get("backbone_config") and "backbone" in fitted:
        # Named by its entry alone, transformers would first ask the Hub for a repository of that name.
        fitted["backbone_config"] = {"model_type": "timm_backbone", "backbone": fitted.pop("backbone")}
    return fitted


def _takes_null(kind: Any, name: str) -> bool:
    try:
        for check in kind.__validators__.get(name, ()):
            check(None)
    except (TypeError, ValueError):
        return False
    return True


# What a checkpoint that somebody named may ask of this machine: each raises BadInput beyond a limit


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
